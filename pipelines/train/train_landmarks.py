"""Train an encoder on packed documents, on one GPU or, slowly, on processors.

    python pipelines/train/train_landmarks.py DATA.npz OUT --start ENCODER|MODEL.onnx [--watch WATCH.npz] [--minutes 9]
    python pipelines/train/train_landmarks.py DATA.npz OUT --start ENCODER --teacher RUN RUN --imitate 1
    python pipelines/train/train_landmarks.py DATA.npz OUT --start DECODER --rank 16 --windows 2048 --questions 32

Steps and losses are those of `lmkrag train`; the packages are torch, transformers, NumPy, tokenizers, safetensors and
onnx. `--anchor` keeps vectors near those that the run begins with, `--imitate` learns the teachers' mean order of the
sentences; teachers may have other layers. Of a decoder, `--rank` trains the landmark and products of low rank alone,
and all else stays as it is (`low_rank.py`). With `--watch` it prints, at the beginning and at the end, how many
questions have evidence in the best sentence, the best three and the best ten. Run it again to go on from the last
checkpoint. OUT gets `log.txt`, `last.pt` and in the end `part-NN`, at most 16 MB each: `cat part-* > model.safetensors`
gives the weights in float16, all but the embeddings of words, which stay as they are (`pack_encoder.py`).
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from checkpoints import (
    load_checkpoint,
    load_steps,
    log_line,
    log_means,
    save_checkpoint,
    set_rate,
    start_run,
    write_parts,
)
from low_rank import Adapter
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[2]))

from lmkrag.encoder.spec import DEFAULT_WINDOW, read_settings
from lmkrag.encoder.torch_model import Pooling, pack_windows, read_sentences
from lmkrag.encoder.windows import plan_windows
from lmkrag.training.settings import SetSettings, StageSettings
from lmkrag.training.steps import Question, Step, StepBuilder, TokenDocument
from lmkrag.training.student import anchor_loss, landmark_loss, load_student

WATCHED = 65_024  # tokens in a batch
LOGGED = ("labels", "order", "anchor")
OTHER_WORDS = 3  # sampling weight of a question in other words than its evidence; others have 1


class PackedSet:
    """A set of a packed file, as :class:`lmkrag.training.steps.StepBuilder` reads sets."""

    def __init__(self, pack: "Pack", number: int) -> None:
        arrays = pack.arrays
        numbers = np.flatnonzero(arrays["document_set"] == number)
        place = {int(document): index for index, document in enumerate(numbers)}
        self._pack, self._numbers = pack, numbers
        self.titles = [pack.text(arrays["title"][document]) for document in numbers]
        self.questions: list[Question] = []
        self._runs: list[list[tuple[int, int]]] = []
        self.by_document: dict[int, list[int]] = defaultdict(list)
        self.documents_of: dict[Any, set[int]] = defaultdict(set)
        for row in np.flatnonzero(np.isin(arrays["question_document"], numbers)):
            document = place[int(arrays["question_document"][row])]
            low, high = pack.runs[row : row + 2]
            runs = list(zip(arrays["first"][low:high].tolist(), arrays["stop"][low:high].tolist(), strict=True))
            question = Question(int(arrays["text"][row]), pack.text(arrays["asked"][row]), document, ())  # type: ignore[arg-type]
            self.documents_of[question.text].add(document)
            for _ in range(OTHER_WORDS if arrays["little"][row] else 1):
                self.by_document[document].append(len(self.questions))
                self.questions.append(question)
                self._runs.append(runs)

    def __len__(self) -> int:
        return len(self._numbers)

    def document(self, number: int) -> TokenDocument:
        """Return a document's sentences."""
        arrays, document = self._pack.arrays, self._numbers[number]
        low, high = self._pack.sentences[document : document + 2]
        first = arrays["title"][document] + 1
        ids = [self._pack.text(first + i) for i in range(high - low)]
        none = np.zeros(0, np.int64)
        return TokenDocument(ids, arrays["words"][low:high].tolist(), none, none)

    def evidence(self, index: int) -> list[tuple[int, int]]:
        """Return the evidence of a question as (first, stop) sentences."""
        return self._runs[index]


class Pack:
    """A packed file: see pack_documents.py."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as stored:
            self.arrays = dict(stored)
        self.settings = json.loads(str(self.arrays.pop("sets")))
        self.special: Any = SimpleNamespace(**json.loads(str(self.arrays.pop("special"))))
        self._starts, self.sentences, self.runs = (
            np.concatenate([[0], np.cumsum(self.arrays[name], dtype=np.int64)])
            for name in ("lengths", "sentences", "runs")
        )
        self.sets = [PackedSet(self, number) for number in range(len(self.settings))]

    def text(self, number: int) -> list[int]:
        """Return the tokens of a sentence, a title or a question."""
        ids: list[int] = self.arrays["tokens"][self._starts[number] : self._starts[number + 1]].tolist()
        return ids


class StepsOfPack:
    """The steps of training on a packed file, by number."""

    def __init__(self, pack: Pack, stage: StageSettings, seed: int) -> None:
        self._pack, self._stage, self._seed = pack, stage, seed
        self._tasks = [
            (number, SetSettings(entry["path"], task, within=entry["within"], documents=2 * values["documents"]))
            for number, entry in enumerate(pack.settings)
            for task, values in entry["tasks"].items()
        ]
        weights = [values["weight"] for entry in pack.settings for values in entry["tasks"].values()]
        self._shares = np.array(weights) / sum(weights)

    def step(self, number: int) -> Step:
        """Return the step of a number."""
        rng = np.random.default_rng((self._seed, number))
        while True:
            place, chosen = self._tasks[int(rng.choice(len(self._tasks), p=self._shares))]
            builder = StepBuilder(self._stage, chosen, self._pack.sets[place], rng)  # type: ignore[arg-type]
            if builder.build():
                return builder.step(self._pack.special)


class Encoder(nn.Module):
    """A transformer whose sentences are pooled with their landmarks, or by them alone."""

    def __init__(self, backbone: Any, pooling: str = "lmk+mean") -> None:
        super().__init__()
        self.backbone = backbone
        self.pooling = Pooling(pooling)

    def forward(self, batch: Any) -> Tensor:
        """Return the vectors of a batch of windows, ``[sentences, dimensions]``."""
        return read_sentences(self.backbone, self.pooling, batch)


def load_encoder(path: Path, landmark: int, layers: list[int]) -> Encoder:
    """Load an encoder folder, or a BERT of ONNX Runtime in int8, which gets a landmark token and may lose layers."""
    if path.suffix != ".onnx":
        return Encoder(load_student(path).backbone, read_settings(path)["pooling"])
    from int8_onnx import unpack
    from transformers import BertModel

    weights = {name.removeprefix("bert."): torch.from_numpy(np.array(v)) for name, v in unpack(path).items()}
    words = weights["embeddings.word_embeddings.weight"]
    weights["embeddings.word_embeddings.weight"] = torch.cat([words, words[102:103]])[: landmark + 1]  # from [SEP]
    stored = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))
    chosen = layers or list(range(stored))
    renamed = {}
    for name, value in weights.items():
        parts = name.split(".")
        if name.startswith("encoder.layer."):
            if int(parts[2]) not in chosen:
                continue
            parts[2] = str(chosen.index(int(parts[2])))
        renamed[".".join(parts)] = value
    backbone = BertModel(make_config(landmark + 1, len(chosen)), add_pooling_layer=False)
    missing = backbone.load_state_dict(renamed, strict=False).missing_keys
    assert not missing, missing
    return Encoder(backbone)


def make_config(words: int, layers: int) -> Any:
    """Return the configuration of a small BERT."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=words, hidden_size=384, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=1536,
        layer_norm_eps=1e-12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="sdpa",
    )  # fmt: skip


def load_run(folder: Path, device: torch.device) -> Encoder:
    """Return the encoder of another run."""
    from transformers import BertModel

    weights = torch.load(folder / "last.pt", map_location="cpu")["model"]
    layers = 1 + max(int(name.split(".")[3]) for name in weights if name.startswith("backbone.encoder.layer."))
    words = len(weights["backbone.embeddings.word_embeddings.weight"])
    encoder = Encoder(BertModel(make_config(words, layers), add_pooling_layer=False))
    encoder.load_state_dict(weights, strict=False)
    return encoder.to(device).requires_grad_(False).eval()


@torch.no_grad()
def watch(encoder: Encoder, pack: Pack, window: int, device: torch.device) -> str:
    """Return how many questions of each set have evidence in the best sentence, the best three and the best ten."""
    encoder.eval()
    size = max(1, WATCHED // window)
    lines, total = [], np.zeros(4, int)
    for number, data in enumerate(pack.sets):
        vectors, owners, offsets = [], [], [0]
        for index in range(len(data)):
            ids, title = data.document(index).ids, data.titles[index]
            room = window - len(title)
            ids = [sentence if len(sentence) <= room else sentence[: room - 1] + sentence[-1:] for sentence in ids]
            plan = plan_windows(map(len, ids), budget=room, overlap=0.0)
            windows = [ids[part.first : part.stop] for part in plan]
            for first in range(0, len(windows), size):
                batch = windows[first : first + size]
                vectors.append(encoder(pack_windows(pack.special, batch, [title] * len(batch)).to(device)).float())
            owners += [index] * len(ids)
            offsets.append(len(owners))
        sentences, owner = torch.cat(vectors), torch.tensor(owners, device=device)
        by_text: dict[Any, list[int]] = defaultdict(list)
        for index, question in enumerate(data.questions):
            by_text[question.text].append(index)
        firsts = [indexes[0] for indexes in by_text.values()]
        asked = [[data.questions[index].ids] for index in firsts]
        questions = encoder(pack_windows(pack.special, asked).to(device)).float()
        counts = np.zeros(4, int)
        for row, indexes in zip(questions @ sentences.T, by_text.values(), strict=True):
            if pack.settings[number]["within"]:
                row = row.masked_fill(owner != data.questions[indexes[0]].document, -2)
            good = torch.zeros(len(row), dtype=torch.bool, device=device)
            for index in indexes:
                start = offsets[data.questions[index].document]
                for first, stop in data.evidence(index):
                    good[start + first : start + stop] = True
            rank = int((row > row[good].max()).sum())
            counts += [rank < 1, rank < 3, rank < 10, 1]
        total += counts
        lines.append(f"{pack.settings[number]['path']} {' '.join(map(str, counts))}")
    encoder.train()
    return "; ".join([*lines, f"all {' '.join(map(str, total))}"])


def compute_losses(
    model: Encoder, step: Step, anchor: Encoder | None, teachers: list[Encoder], temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the losses of the labels, of the teachers' order, and of the distance to the anchor."""
    none = torch.zeros((), device=step.weights.device)
    with torch.autocast(none.device.type, torch.bfloat16):
        sentences, questions = model(step.windows), model(step.questions)
    scores = questions @ sentences.T
    labels = landmark_loss(scores, step.weights, step.candidate, step.same, mixing=step.mixing, temperature=temperature)
    with torch.no_grad(), torch.autocast(none.device.type, torch.bfloat16):
        taught = [(teacher(step.questions) @ teacher(step.windows).T).float() / temperature for teacher in teachers]
        fixed = torch.cat([anchor(step.windows), anchor(step.questions)]) if anchor else None
    if not taught:
        divergence = none
    else:
        order = torch.stack([torch.softmax(each, 1) for each in taught]).mean(0)
        divergence = (order * (order.clamp(min=1e-9).log() - torch.log_softmax(scores / temperature, 1))).sum(1).mean()
    distance = none if fixed is None else anchor_loss(torch.cat([sentences, questions]), fixed)
    return labels, divergence, distance


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--watch", type=Path)
    parser.add_argument("--teacher", type=Path, nargs="+", default=[], help="the folders of other runs")
    parser.add_argument("--layers", default="", help="of a start in ONNX, such as 0,1,3,5")
    parser.add_argument("--rank", type=int, default=0, help="train products of this rank alone, all weights without")
    parser.add_argument("--windows", type=int, nargs="+", default=[254, 254, 254, 510], help="tokens, one for a step")
    parser.add_argument("--questions", type=int, default=4, help="for each window")
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--steps", type=int, default=0, help="instead of minutes")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=8e-5)
    parser.add_argument("--labels", type=float, default=1.0)
    parser.add_argument("--imitate", type=float, default=0.0)
    parser.add_argument("--anchor", type=float, default=0.0)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    device = start_run(options.out, options.seed)
    pack = Pack(options.data)
    landmark, layers = pack.special.landmark[0], [int(n) for n in options.layers.split(",") if n]
    model = load_encoder(options.start, landmark, layers).to(device).train()
    model.backbone.get_input_embeddings().requires_grad_(False)
    trained = Adapter(model.backbone, landmark, options.rank).to(device) if options.rank else model
    anchor = load_encoder(options.start, landmark, layers).to(device).eval() if options.anchor else None
    teachers = [load_run(folder, device) for folder in options.teacher]
    watched = Pack(options.watch) if options.watch else None
    window = read_settings(options.start).get("window", DEFAULT_WINDOW)
    optimizer = torch.optim.AdamW(
        [parameter for parameter in trained.parameters() if parameter.requires_grad],
        options.learning_rate,
        weight_decay=0.01,
    )
    checkpoint = options.out / "last.pt"
    step, seconds = load_checkpoint(checkpoint, trained, optimizer, device)
    if not step and watched:
        log_line(options.out, f"before: {watch(model, watched, window, device)}")
    began, saved = time.monotonic() - seconds, time.monotonic()
    stage = StageSettings(
        "packed", [], 1, tokens=options.tokens, windows=options.windows, queries_per_window=options.questions,
        titles=0.6, temperature=options.temperature,
    )  # fmt: skip
    builder = StepsOfPack(pack, stage, options.seed)
    batches = load_steps(builder.step, step * options.accumulate, device, workers=5)
    totals, counted = np.zeros(len(LOGGED)), 0
    while True:
        elapsed = time.monotonic() - began
        done = step / options.steps if options.steps else elapsed / (60 * options.minutes)
        if done >= 1:
            break
        set_rate(optimizer, options.learning_rate, step, done, warmup=30)
        optimizer.zero_grad()
        for _ in range(options.accumulate):
            losses = compute_losses(model, next(batches).to(device), anchor, teachers, stage.temperature)
            loss = options.labels * losses[0] + options.imitate * losses[1] + options.anchor * losses[2]
            (loss / options.accumulate).backward()
            totals += [value.item() for value in losses]
            counted += 1
        nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 20 == 0 or step == options.steps:
            log_means(options.out, step, elapsed, LOGGED, totals / counted)
            totals[:] = counted = 0
        if time.monotonic() - saved > 120:
            save_checkpoint(checkpoint, trained, optimizer, step, time.monotonic() - began)
            saved = time.monotonic()
    save_checkpoint(checkpoint, trained, optimizer, step, time.monotonic() - began)
    if watched:
        log_line(options.out, f"after: {watch(model, watched, window, device)}")
    weights = (trained if options.rank else model.backbone).state_dict()
    write_parts(options.out, {name: value for name, value in weights.items() if "word_embeddings" not in name})


if __name__ == "__main__":
    main()
