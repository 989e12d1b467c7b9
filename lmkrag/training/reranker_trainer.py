"""Train a re-ranker: mine its places, then one stage, resumed where it was interrupted."""

import importlib.util
import logging
import math
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from lmkrag.encoder.spec import find_model
from lmkrag.errors import MissingExtra, TrainingError
from lmkrag.reranker.inputs import PairTokenizer
from lmkrag.training.place_reader import PlaceReader, save_reranker
from lmkrag.training.places import mine_places
from lmkrag.training.reranker_settings import RerankerSettings
from lmkrag.training.reranker_steps import RerankerData

log = logging.getLogger(__name__)

_HEAD_RATE, _SCALE_RATE = 8, 60  # times the learning rate: the head is new, and its scales are single numbers


def train_reranker(settings: RerankerSettings, *, report_to: str = "none") -> Path:
    """Train a re-ranker, and return its folder; an interrupted run goes on from its last checkpoint.

    Args:
        settings: the run.
        report_to: ``none``, ``tensorboard`` or ``wandb``.

    Raises:
        UsageError: the settings make no sense. TrainingError: the loss is not finite any more.
        MissingExtra: the ``train`` extra is not installed.
    """
    if importlib.util.find_spec("accelerate") is None:
        raise MissingExtra("train", "accelerate")
    from transformers import TrainingArguments
    from transformers.trainer_utils import get_last_checkpoint

    from lmkrag.training.step_trainer import StepTrainer

    if settings.threads:
        torch.set_num_threads(settings.threads)
    out = settings.resolve(settings.out)
    mined = [mine_places(settings, chosen) for chosen in settings.sets]
    for chosen, questions in zip(settings.sets, mined, strict=True):
        log.info("set %s: %d questions", chosen.path, len(questions))
    if not all(mined):
        raise TrainingError("a set has no question whose evidence is found")
    torch.manual_seed(settings.seed)
    model = PlaceReader(settings)
    tokenizer = Tokenizer.from_file(str(find_model(settings.base) / "tokenizer.json"))
    arguments = TrainingArguments(
        output_dir=str(out / "checkpoints"),
        per_device_train_batch_size=1,  # a step is a batch already
        max_steps=settings.steps,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=max(1, math.ceil(settings.warmup * settings.steps)),
        use_cpu=not torch.cuda.is_available(),
        logging_steps=settings.log_every,
        logging_nan_inf_filter=False,
        save_steps=settings.checkpoint_every,
        save_total_limit=2,
        report_to=report_to,
        seed=settings.seed,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,  # its bar and prints go to standard output, which is for the result
        train_sampling_strategy="sequential",
    )

    tokens = PairTokenizer(tokenizer, model.landmark)
    trainer = StepTrainer(
        name="re-ranker",
        model=model,
        args=arguments,
        train_dataset=RerankerData(settings, mined, tokens, arguments.world_size),
        optimizers=(torch.optim.AdamW(_groups(model, settings.learning_rate), weight_decay=0.01), None),
    )
    checkpoints = out / "checkpoints"
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None)
    if trainer.is_world_process_zero():
        save_reranker(model, settings, out / "reranker")
    return out / "reranker"


def _groups(model: PlaceReader, rate: float) -> list[dict[str, Any]]:
    """The parameters, each with its learning rate."""
    scales = [model.head.scale, model.head.match.weight]
    single = {id(parameter) for parameter in scales}
    head = [parameter for parameter in model.head.parameters() if id(parameter) not in single]
    body = [parameter for parameter in model.bert.parameters() if parameter.requires_grad]
    return [
        {"params": body, "lr": rate},
        {"params": head, "lr": rate * _HEAD_RATE},
        {"params": scales, "lr": rate * _SCALE_RATE},
    ]
