"""Train an encoder on packed documents, on one GPU or, slowly, on processors.

    python -m pipelines.train.train_landmarks PACK.npz OUT --start ENCODER [--watch WATCH.npz]
    python -m pipelines.train.train_landmarks PACK.npz OUT --start DECODER --rank 16 --windows 2048

PACK and WATCH are what `pack_documents.py` packs. Steps and losses are those of `lmkrag train`, and
the stage is the last one of the recipe that was packed; all its numbers are options, too. The
encoder as it was before is the teacher. Of a decoder, `--rank` trains the landmark and products of
low rank alone (`low_rank.py`). `--pooling` compares ways to pool: lmk, mean, lmk+mean. With
`--watch` it logs, at the beginning and at the end, how many questions have evidence in the best
sentence, the best three and the best ten. OUT gets the files that `loop.py` names, with all weights
but the embeddings of words, which do not learn; `encoder_files.py` makes an encoder of them.
"""

import argparse
import copy
from pathlib import Path

import torch
from torch import Tensor, nn

from lmkrag.encoder.spec import DEFAULT_WINDOW, find_model, read_settings
from lmkrag.encoder.torch_model import Pooling
from lmkrag.training.settings import StageSettings
from lmkrag.training.steps import Step
from lmkrag.training.student import LandmarkObjective, load_student
from pipelines.train.documents import Documents, DocumentSteps
from pipelines.train.loop import Loop, start_run
from pipelines.train.low_rank import Adapter
from pipelines.train.settings import add_numbers, replace_given
from pipelines.train.watch import watch


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pack", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", required=True)
    parser.add_argument("--watch", type=Path)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--pooling", default="")
    parser.add_argument("--minutes", type=float, default=0.0, help="instead of steps")
    parser.add_argument("--seed", type=int, default=0)
    add_numbers(parser, StageSettings)
    options = parser.parse_args()
    device = start_run(options.out, options.seed)
    data, start = Documents(options.pack), find_model(options.start)
    stage: StageSettings = replace_given(StageSettings(**data.stage), options)
    settings = read_settings(start)
    pooling = Pooling(options.pooling or settings["pooling"])
    student = load_student(start)._replace(pooling=pooling)
    student.backbone.to(device)
    is_taught = stage.anchor > 0 or stage.imitation > 0
    teacher = copy.deepcopy(student) if is_taught else None
    student.backbone.get_input_embeddings().requires_grad_(False)
    trained: nn.Module = student.backbone
    if options.rank:
        trained = Adapter(student.backbone, data.special.landmark[0], options.rank)
    trained.to(device)
    objective = LandmarkObjective(student, stage, teacher).train()

    def compute(step: Step) -> dict[str, Tensor]:
        with torch.autocast(device.type, torch.bfloat16):
            return objective(step)

    loop = Loop(
        folder=options.out,
        learning_rate=stage.learning_rate,
        warmup=max(1, round(stage.warmup * stage.steps)),
        steps=0 if options.minutes else stage.steps,
        minutes=options.minutes,
        accumulate=stage.accumulate,
        workers=5,
    )
    watched = Documents(options.watch) if options.watch else None
    window = settings.get("window", DEFAULT_WINDOW)
    if watched and not (options.out / "last.pt").exists():
        loop.log(f"before: {watch(student, watched, window)}")
    loop.run(trained, DocumentSteps(data, stage, options.seed).build, compute, {"loss": 1.0})
    if watched:
        loop.log(f"after: {watch(student, watched, window)}")
    weights = trained.state_dict()
    loop.write_parts({name: weights[name] for name in weights if "word_embeddings" not in name})


if __name__ == "__main__":
    main()
