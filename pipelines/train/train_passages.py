"""Train a reader of passages on a GPU or, slowly, on processors.

    python -m pipelines.train.train_passages RECIPE.toml PACK.npz OUT [--minutes 9]

PACK is what `pack_passages.py` packs. A teacher reads the same passages: the recipe's, or the
reader as it was before. The numbers of the recipe's table `[training]` are options, too. OUT gets
the files that `loop.py` names; `reader_files.py` makes a reader of them.
"""

import copy

import torch
from torch import Tensor

from pipelines.train.loop import start_run
from pipelines.train.passages import Passages, Step
from pipelines.train.reader import Reader, label_losses, read_start, teacher_losses, train_reader
from pipelines.train.settings import command_parser, read_command, replace_given


def main() -> None:
    """Run."""
    parser = command_parser(__doc__, without=("hard", "epochs"))
    parser.add_argument("--teacher", help="instead of the recipe's")
    settings, options = read_command(parser)
    training = replace_given(settings.training, options)
    (pack,) = options.packs
    device = start_run(options.out, training.seed)
    model = Reader(read_start(settings.start), training.layers).to(device).train()
    teacher = copy.deepcopy(model)
    if settings.teacher:
        teacher = Reader(read_start(settings.teacher)).to(device)
    teacher.requires_grad_(False).eval()
    model.learn(training.trained, training.packed)

    def compute(step: Step) -> dict[str, Tensor]:
        with torch.autocast(device.type, torch.bfloat16):
            scores = model(step)
            with torch.no_grad():
                taught = teacher(step)
        own = teacher_losses(step, scores, taught, training.temperature)
        return label_losses(step, scores) | own

    train_reader(model, Passages(pack, training).step, compute, training, options.out)


if __name__ == "__main__":
    main()
