"""Run a training configuration: its stages one after the other, each resumed where it was
interrupted.
"""

import dataclasses
import hashlib
import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from lmkrag.encoder.loading import runs_without_torch
from lmkrag.encoder.spec import find_model, read_settings, write_encoder
from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.errors import TrainingError, UsageError
from lmkrag.models.bert import has_codewords
from lmkrag.models.files import write_json
from lmkrag.training.calibration import calibrate_encoder, sample_texts
from lmkrag.training.settings import StageSettings, TrainSettings, prepare_training, use_bfloat16
from lmkrag.training.steps import Step, StepBuilder, TrainingSet
from lmkrag.training.student import (
    LandmarkObjective,
    Student,
    average_encoders,
    create_student,
    load_student,
    pack_encoder,
    tokenizer_of,
)
from lmkrag.training.validation import RecallWatch

_TRIES = 100  # a set may draw questions that fit no window; this many in a row mean that none does


class StageData(Dataset[Step]):
    """The steps of a stage.

    Step ``i`` is a function of the seed and ``i``, so that a resumed run sees the same ones.
    """

    def __init__(
        self,
        stage: StageSettings,
        sets: Sequence[TrainingSet],
        tokens: SentenceTokenizer,
        *,
        seed: int,
        processes: int = 1,
    ) -> None:
        """Take the sets of a stage.

        Args:
            stage: its settings.
            sets: its sets, in the order of its settings.
            tokens: the tokenizer of the student.
            seed: seed of its steps.
            processes: number of processes that share the steps among them.
        """
        self._stage, self._sets, self._tokens = stage, sets, tokens
        self._seed, self._processes = seed, processes
        weights = np.array([chosen.weight for chosen in stage.sets])
        self._shares = weights / weights.sum()

    def __len__(self) -> int:
        return self._stage.steps * self._stage.accumulate * self._processes

    def __getitem__(self, index: int) -> Step:
        """Return a step.

        Raises:
            TrainingError: the sets give no question with other sentences to tell its evidence from.
        """
        rng = np.random.default_rng((self._seed, index))
        for _ in range(_TRIES):
            chosen = int(rng.choice(len(self._sets), p=self._shares))
            builder = StepBuilder(self._stage, self._stage.sets[chosen], self._sets[chosen], rng)
            if builder.build():
                return builder.step(self._tokens)
        raise TrainingError(
            f"stage {self._stage.name!r}: {_TRIES} tries gave no question with a sentence to tell "
            "its evidence from; "
            "are its sentences longer than its windows?"
        )


log = logging.getLogger(__name__)


def train(settings: TrainSettings, *, report_to: str = "none") -> Path:
    """Train an encoder.

    A stage that is done is not run again; one that was interrupted goes on from its last
    checkpoint. Under ``torchrun`` every process takes steps of its own, whose gradients are
    averaged.

    Args:
        settings: the settings of the run, from :func:`lmkrag.training.settings.load_settings`.
        report_to: where curves are shown: ``none``, ``tensorboard`` or ``wandb``.

    Returns:
        The folder of the trained encoder, which :meth:`lmkrag.LandmarkEncoder.load` loads.

    Raises:
        UsageError: a setting is wrong, or ``out`` holds a run of other settings.
        TrainingError: the loss is infinite or NaN.
        MissingExtra: the ``train`` extra is not installed.
    """
    prepare_training(settings.threads)
    from accelerate import PartialState

    out = settings.resolve(settings.out)
    start = out / "start"
    with PartialState(cpu=not torch.cuda.is_available()).main_process_first():
        _claim(settings, out)
        if not (start / "landmark.json").is_file():
            create_student(settings.model, start)
    # Each stage begins with the encoder of the one before.
    latest = start
    for number, stage in enumerate(settings.stages):
        done = out / stage.name / "encoder"
        if not (done / "landmark.json").is_file():
            log.info("stage %s: %d steps", stage.name, stage.steps)
            _run_stage(settings, stage, number, start=start, latest=latest, report_to=report_to)
        latest = done
    # Average with the base, pack, and measure the ranges for int8.
    if PartialState().is_main_process:
        average_encoders(
            [start, latest], [settings.keep_base, 1 - settings.keep_base], out / "encoder"
        )
        if settings.model.base and has_codewords(base := find_model(settings.model.base)):
            pack_encoder(out / "encoder", base)
        if runs_without_torch(out / "encoder", settings.model.pooling):
            log.info("measuring the ranges for int8")
            sets = dict.fromkeys(chosen.path for stage in settings.stages for chosen in stage.sets)
            calibrate_encoder(out / "encoder", sample_texts(map(settings.find_set, sets)))
    return out / "encoder"


def _claim(settings: TrainSettings, out: Path) -> None:
    """Mark the folder of a run with a hash of its settings, so that no run resumes another's."""
    values = dataclasses.asdict(settings)
    for name in ("out", "folder", "threads", "checkpoint_every", "log_every", "keep_base"):
        values.pop(name)
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    path = out / "run.json"
    if path.is_file():
        if json.loads(path.read_text("utf-8")).get("settings") != digest:
            raise UsageError(
                f"{out}: holds a run of other settings: remove it, or choose another 'out'"
            )
        return
    if out.is_dir() and any(out.iterdir()):
        raise UsageError(f"{out}: not empty, and no training run")
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, {"settings": digest})


def _run_stage(
    settings: TrainSettings,
    stage: StageSettings,
    number: int,
    *,
    start: Path,
    latest: Path,
    report_to: str,
) -> None:
    """Run one stage, from its last checkpoint if there is one, and write its encoder."""
    from transformers import EarlyStoppingCallback
    from transformers.trainer_utils import get_last_checkpoint

    from lmkrag.training.step_trainer import StepTrainer, step_arguments

    folder = settings.resolve(settings.out) / stage.name
    student = load_student(latest)
    if stage.freeze_words:
        student.backbone.get_input_embeddings().requires_grad_(False)
    tokens = tokenizer_of(student, settings.model, max(stage.windows))
    known = {
        path: TrainingSet(settings.find_set(path), tokens)
        for path in {chosen.path for chosen in stage.sets}
    }
    is_watched = bool(settings.evaluation.sets and stage.evaluate_every)
    saving: dict[str, Any] = {"save_steps": settings.checkpoint_every}
    if is_watched:
        saving = {
            "save_steps": stage.evaluate_every,
            "eval_strategy": "steps",
            "eval_steps": stage.evaluate_every,
            "load_best_model_at_end": True,
            "metric_for_best_model": "eval_recall",
        }
    arguments = step_arguments(
        folder,
        steps=stage.steps,
        learning_rate=stage.learning_rate,
        warmup=stage.warmup,
        logging_steps=settings.log_every,
        seed=settings.seed,
        report_to=report_to,
        gradient_accumulation_steps=stage.accumulate,
        weight_decay=0.01,
        bf16=use_bfloat16(settings.precision),
        **saving,
    )
    teacher = _load_teacher(settings, stage, start=start, latest=latest)
    if teacher:  # Trainer moves the student only
        teacher.backbone.to(arguments.device)
        teacher.pooling.to(arguments.device)
    sets, seed = [known[chosen.path] for chosen in stage.sets], settings.seed * 1_000 + number
    data = StageData(stage, sets, tokens, seed=seed, processes=arguments.world_size)
    watching: dict[str, Any] = {}
    if is_watched:
        watching = {"measure": RecallWatch(settings, student).measure, "eval_dataset": data}
        if stage.patience:
            watching["callbacks"] = [EarlyStoppingCallback(stage.patience)]
    trainer = StepTrainer(
        name=f"stage {stage.name!r}",
        model=LandmarkObjective(student, stage, teacher),
        args=arguments,
        train_dataset=data,
        **watching,
    )
    trainer.train(
        resume_from_checkpoint=get_last_checkpoint(str(folder)) if folder.is_dir() else None
    )
    if trainer.is_world_process_zero():
        write_json(folder / "log.json", trainer.state.log_history)
        _finish_stage(folder, student, read_settings(latest))
    trainer.accelerator.wait_for_everyone()


def _load_teacher(
    settings: TrainSettings, stage: StageSettings, *, start: Path, latest: Path
) -> Student | None:
    """Read the encoder that teaches a stage; None if nothing is learnt from one."""
    if stage.anchor <= 0 and stage.imitation <= 0:
        return None
    if stage.thorough or stage.teacher == "latest":
        return load_student(latest)
    return load_student(find_model(settings.model.base) if settings.model.layers else start)


def _finish_stage(folder: Path, student: Student, settings: dict[str, Any]) -> None:
    """Write the encoder of a stage, whole or not at all, and remove the checkpoints."""
    partial = folder / "encoder.partial"
    write_encoder(partial, model=student.backbone, tokenizer=student.tokenizer, settings=settings)
    partial.rename(folder / "encoder")
    for checkpoint in folder.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
