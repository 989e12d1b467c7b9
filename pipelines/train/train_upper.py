"""Train the last layers of a reader on two processors: files keep what the layers below compute.

    python -m pipelines.train.train_upper RECIPE.toml PACK.npz... OUT [--epochs 3] [--prepare]

Each PACK is what `pack_passages.py` packs. Each question has the same passages in every epoch. The
reader as it was before is the teacher. The numbers of the recipe's table `[upper]` are options,
too. The states stay beside PACK in `PACK.ID.states` (0.8 kB a token), with the teacher's scores in
`PACK.ID.npy`; another run on the same passages from the same reader finds them by their ID, which
is made of both. `--prepare` only fills them. OUT gets the files that `loop.py` names;
`reader_files.py` makes a reader of them.
"""

import itertools
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from lmkrag.errors import UsageError
from lmkrag.models.bert import bert_inputs, group_texts
from lmkrag.models.session import Session
from lmkrag.reranker.folders import read_folder
from lmkrag.reranker.passages import PASSAGE_LOGITS, read_heads
from lmkrag.types.arrays import Vectors
from pipelines.train.loop import start_run
from pipelines.train.mined import ANSWERS
from pipelines.train.passages import Passages, Row, Step, collate
from pipelines.train.reader import (
    Reader,
    Scores,
    divergence,
    label_losses,
    read_start,
    train_reader,
)
from pipelines.train.settings import (
    Training,
    command_parser,
    find_start,
    read_command,
    replace_given,
)

AT_A_TIME = 16  # passages of alike length that are read together
TOLD = 100  # batches between two lines


class Part(NamedTuple):
    """Passages of alike length: their numbers in the step, and their states ``[p, t, size]``."""

    numbers: Tensor
    states: Tensor


class UpperStep(NamedTuple):
    """A step, the states of its passages, and the teacher's scores of them ``[p]``."""

    step: Step
    parts: tuple[Part, ...]
    taught: Tensor

    def to(self, device: torch.device) -> "UpperStep":
        """Return the same on a device."""
        parts = tuple(Part(*(values.to(device) for values in part)) for part in self.parts)
        return UpperStep(self.step.to(device), parts, self.taught.to(device))


class LowerLayers:
    """The layers below those that learn, as they ship: in int8 where the processor has it."""

    def __init__(self, folder: Path, trained: int) -> None:
        """Take the folder of a reader, and how many of its layers learn."""
        settings, _, path, weights = read_folder(folder)
        below = int(settings["layers"]) - trained
        if trained < 1 or below < 1:
            raise UsageError(f"[upper] trained: {trained} of the layers of {folder} can't learn")
        graph = onnx.load_model_from_string(path.read_bytes())
        self._states = f"{below - 1}.states"
        output = onnx.helper.make_tensor_value_info(self._states, onnx.TensorProto.FLOAT, None)
        graph.graph.output.append(output)
        self._session = Session(graph.SerializeToString(), weights | read_heads(folder))

    def read(self, batches: Sequence[Sequence[Row]]) -> list[tuple[Tensor, Vectors]]:
        """Return the states ``[p, t, size]`` and the scores ``[p]`` of each batch.

        The passages of a batch have one length.
        """
        steps = [collate(rows, [0] * len(rows)) for rows in batches]
        inputs = [bert_inputs(step.ids.numpy(), step.types.numpy()) for step in steps]
        outputs = self._session.run_each([self._states, PASSAGE_LOGITS], inputs)
        return [
            (torch.from_numpy(states).view(*step.ids.shape, -1), logits[:, 0])
            for step, (states, logits) in zip(steps, outputs, strict=True)
        ]


class Store:
    """The passages of a pack's questions, and what the lower layers and the teacher say of them."""

    def __init__(self, path: Path, training: Training, model: Reader) -> None:
        """Take a pack, how it is read, and the reader from which training begins."""
        self._questions = Passages(path, training).choose(np.random.default_rng(training.seed))
        self.rows = [row for rows in self._questions for row in rows]
        self._starts = np.concatenate([[0], np.cumsum([len(row.tokens) for row in self.rows])])
        digest = zlib.crc32(np.concatenate([row.tokens for row in self.rows]), training.trained)
        for weight in model.state_dict().values():
            digest = zlib.crc32(weight.numpy(), digest)
        self._scores = path.with_suffix(f".{digest:08x}.npy")
        states = path.with_suffix(f".{digest:08x}.states")
        mode = "r+" if states.exists() else "w+"
        shape = (int(self._starts[-1]), model.bert.config.hidden_size)
        self._states = np.memmap(states, np.uint16, mode, shape=shape)  # the bits of bfloat16
        self.taught = np.full(len(self.rows), np.nan, np.float32)
        if self._scores.exists():
            self.taught = np.load(self._scores)
        counts = f"{len(self._questions)} questions, {len(self.rows)} passages"
        print(f"{path.name}: {counts}", flush=True)

    def places(self, hard: int) -> Iterator[list[tuple["Store", int]]]:
        """Yield the passages of each question, as this and their numbers.

        Of those that don't answer, only the ``hard`` ones that the teacher likes best are taken.
        """
        numbers = itertools.count()
        for rows in self._questions:
            places = [next(numbers) for _ in rows]
            bad = [place for place in places if ANSWERS not in self.rows[place].labels]
            bad.sort(key=lambda place: -self.taught[place])
            easy = set(bad[hard:] if hard else ())
            yield [(self, place) for place in places if place not in easy]

    def read(self, number: int) -> Tensor:
        """Return the states of a passage, ``[tokens, size]``."""
        stored = np.array(self._states[self._starts[number] : self._starts[number + 1]])
        return torch.from_numpy(stored).view(torch.bfloat16)

    def fill(self, lower: LowerLayers) -> None:
        """Compute what is missing."""
        places = group_texts(np.diff(self._starts).tolist())
        numbers = [np.searchsorted(self._starts, each[:, 0]) for each in places]
        batches = zip(numbers, places, strict=True)
        missing = [batch for batch in batches if np.isnan(self.taught[batch[0]]).any()]
        began = time.monotonic()
        for first in range(0, len(missing), TOLD):
            part = missing[first : first + TOLD]
            found = lower.read([[self.rows[each] for each in passages] for passages, _ in part])
            for (passages, tokens), (states, scores) in zip(part, found, strict=True):
                self.taught[passages] = scores
                self._states[tokens] = states.to(torch.bfloat16).view(torch.uint16).numpy()
            np.save(self._scores, self.taught)
            seconds = time.monotonic() - began
            print(f"{first} of {len(missing)} batches, {seconds:.0f} s", flush=True)


class UpperData:
    """The steps of epochs over the questions of several packs."""

    def __init__(self, stores: Sequence[Store], training: Training) -> None:
        """Take the packs, and how they are read."""
        self._questions = [places for store in stores for places in store.places(training.hard)]
        self._step = training.questions
        self.steps = max(1, len(self._questions) // self._step)

    def build(self, number: int) -> UpperStep:
        """Return the step of a number; ``steps`` are an epoch."""
        epoch, place = divmod(number, self.steps)
        order = np.random.default_rng((1, epoch)).permutation(len(self._questions))
        chosen = order[place * self._step : (place + 1) * self._step]
        places = [each for question in chosen for each in self._questions[question]]
        owners = [at for at, question in enumerate(chosen) for _ in self._questions[question]]
        rows = [store.rows[row] for store, row in places]
        parts = []
        order = np.argsort([len(row.tokens) for row in rows], kind="stable")
        for first in range(0, len(order), AT_A_TIME):
            numbers = order[first : first + AT_A_TIME]
            states = [store.read(row) for store, row in (places[i] for i in numbers)]
            padded = nn.utils.rnn.pad_sequence(states, batch_first=True)
            parts.append(Part(torch.from_numpy(numbers), padded))
        taught = torch.tensor([store.taught[row] for store, row in places])
        return UpperStep(collate(rows, owners), tuple(parts), taught)


def run_layers(layers: Sequence[nn.Module], states: Tensor, mask: Tensor) -> Tensor:
    """Return the states after some layers of BERT."""
    least = torch.finfo(torch.float32).min
    attention = torch.where(mask, 0.0, least)[:, None, None, :]
    for layer in layers:
        states = layer(states, attention)
    return states


def read_upper(model: Reader, trained: int, step: UpperStep) -> Scores:
    """Return the scores of passages, from the states below the last ``trained`` layers."""
    whole, length = step.step, step.step.ids.shape[1]
    found = []
    for numbers, states in step.parts:
        part = Step(*(values[numbers] for values in whole))
        size = states.shape[1]
        tokens = {
            name: getattr(part, name)[:, :size] for name in ("ids", "types", "mask", "owners")
        }
        part = part._replace(**tokens)
        scores = model.score(run_layers(model.layers[-trained:], states.float(), part.mask), part)
        ends = nn.functional.pad(scores.ends, (0, 0, 0, length - size), value=-1e4)
        found.append(scores._replace(ends=ends))
    order = torch.cat([part.numbers for part in step.parts]).argsort()
    return Scores(*(torch.cat(values)[order] for values in zip(*found, strict=True)))


def main() -> None:
    """Run."""
    parser = command_parser(__doc__, without=("layers", "packed", "imitate", "minutes"))
    parser.add_argument("--prepare", action="store_true", help="only fill the states")
    settings, options = read_command(parser)
    training = replace_given(settings.upper, options)
    start_run(options.out, training.seed)
    model = Reader(read_start(settings.start)).train()
    lower = LowerLayers(find_start(settings.start), training.trained)
    stores = [Store(path, training, model) for path in options.packs]
    for store in stores:
        store.fill(lower)
    if options.prepare:
        return
    model.learn(training.trained, 0)

    def compute(step: UpperStep) -> dict[str, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            scores = read_upper(model, training.trained, step)
        question = step.step.question
        taught = divergence(
            scores.passages, step.taught, question, int(question.max()) + 1, training.temperature
        )
        return label_losses(step.step, scores) | {"teacher's passages": taught}

    data = UpperData(stores, training)
    limited = replace(training, steps=training.steps or int(training.epochs * data.steps))
    train_reader(model, data.build, compute, limited, options.out)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    main()
