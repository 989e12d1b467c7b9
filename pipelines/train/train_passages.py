"""Train a reader of passages on packed data, on one GPU or, slowly, on processors. Needs torch, transformers, NumPy.

    python pipelines/train/train_passages.py DATA.npz OUT --start model.onnx [--layers 12] [--minutes 11]
    python pipelines/train/train_passages.py DATA.npz OUT --start model.onnx --layers 3 --teacher RUN RUN

A question's passages are read with it, `[CLS] question [SEP] title sentences [SEP]`; one score for each passage comes
from the first token, one for each sentence from the mean of its tokens. Both learn from the labels, passages also from
a teacher: the untrained model itself, so that it forgets nothing about paraphrases, or with `--teacher` the mean of
other runs. A logistic loss keeps the scores of different questions comparable, as confidence needs it. With `--ends`
the model also learns where short answers begin and end (Devlin et al., 2019): at the first token where there is none.
With fewer `--layers` than `--start` has, every n-th layer is taken. `--packed` lower layers compute with their matrices
in 4 bits, as `passage_reranker.py` stores them, so that what is measured is what ships; gradients pass the rounding
unchanged (Bengio et al., 2013). Run it again to go on from the last checkpoint.
OUT gets `log.txt`, `last.pt` and in the end `part-NN`, at most 16 MB each: `cat part-* > model.safetensors` gives what
was trained, which is all but the embeddings.
"""

import argparse
import copy
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from checkpoints import load_checkpoint, save_checkpoint, set_rate, write_parts
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils import parametrize
from transformers import BertConfig, BertModel

sys.path.insert(0, str(Path(__file__).parents[2]))

from four_bits import round_blocks

from lmkrag.models.packing import unpack_weights

FIRST, LAST = 101, 102
ANSWERS, NO_ANSWER = 1, 0
MASKED = -1e4
HEADINGS = ["aws_headings", "peps", "rfcs", "eips", "rustbook", "faq_headings", "medquad"]  # weigh half, as mined


class Row(NamedTuple):
    """A question and a passage: their tokens, the sentence of each token (-1 for none), the token at which the passage
    begins, the labels of its sentences, and the first and last token of a short answer: 0 for none, -1 if unknown.
    """

    tokens: list[int]
    owners: list[int]
    begin: int
    labels: list[int]
    ends: tuple[int, int]


class Data:
    """Packed questions: see pack_passages.py."""

    def __init__(self, path: Path, seed: int, titles: float) -> None:
        self.arrays = dict(np.load(path))
        starts = {"lengths": "text", "passages": "passage", "passage_sentences": "sentence_of"}
        self.starts = {
            name: np.concatenate([[0], np.cumsum(self.arrays[counts], dtype=np.int64)])
            for counts, name in starts.items()
        }
        sets, little = self.arrays["set"], self.arrays["little"]
        sizes = np.bincount(sets, minlength=len(self.arrays["names"])).astype(float)
        share = sizes**0.6 / np.maximum(sizes, 1)
        share[np.isin(self.arrays["names"], [f"mined/{name}" for name in HEADINGS])] *= 0.5
        self._answers = {int(row[0]): row[1:].tolist() for row in self.arrays["answer"][::-1]}
        weights = share[sets] * np.where(little, 3.0, 1.0)
        self._cumulative, self._seed, self._titles = np.cumsum(weights / weights.sum()), seed, titles

    def text(self, number: int) -> np.ndarray:
        """The tokens of a text."""
        starts = self.starts["text"]
        tokens: np.ndarray = self.arrays["tokens"][starts[number] : starts[number + 1]]
        return tokens

    def step(self, number: int, questions: int, passages: int) -> "Step":
        """Return the passages of some questions, drawn by the step's number."""
        rng = np.random.default_rng((self._seed, number))
        rows: list[Row] = []
        question_of: list[int] = []
        for place in range(questions):
            chosen = int(np.searchsorted(self._cumulative, rng.random()))
            low, high = self.starts["passage"][chosen : chosen + 2]
            tokens = self.text(self.arrays["question"][chosen]).tolist()
            rows += [self.row(tokens, passage, rng) for passage in self.pick(np.arange(low, high), passages, rng)]
            question_of += [place] * (len(rows) - len(question_of))
        return collate(rows, np.array(question_of))

    def pick(self, numbers: np.ndarray, passages: int, rng: np.random.Generator) -> list[int]:
        """Return at most two passages that answer, and others that do not, most of them the first of the search."""
        known = [self._labels(int(number)) for number in numbers]
        good = [int(number) for number, labels in zip(numbers, known, strict=True) if ANSWERS in labels]
        bad = [int(number) for number, labels in zip(numbers, known, strict=True) if (labels == NO_ANSWER).all()]
        chosen = [good[i] for i in rng.permutation(len(good))[:2]]
        room = passages - len(chosen)
        near = bad[: room * 3 // 4]
        rest = [bad[i] for i in len(near) + rng.permutation(len(bad) - len(near))[: room - len(near)]]
        return chosen + near + rest

    def _labels(self, number: int) -> np.ndarray:
        low, high = self.starts["sentence_of"][number : number + 2]
        labels: np.ndarray = self.arrays["label"][low:high]
        return labels

    def row(self, question: list[int], number: int, rng: np.random.Generator) -> Row:
        """Return a passage with its question."""
        tokens = [FIRST, *question, LAST]
        begin = len(tokens)
        if rng.random() < self._titles:
            tokens += self.text(self.arrays["passage_title"][number]).tolist()
        owners = [-1] * len(tokens)
        low, high = self.starts["sentence_of"][number : number + 2]
        labels = self.arrays["label"][low:high].tolist()
        place_of, first, last = self._answers.get(number, (-1, 0, 0))
        unknown = number not in self._answers and any(label != NO_ANSWER for label in labels)
        ends = (-1, -1) if unknown else (0, 0)
        for place, sentence in enumerate(self.arrays["sentence"][low:high]):
            text = self.text(sentence).tolist()
            if len(tokens) + len(text) > begin + 240:
                break
            if place == place_of:
                ends = (len(tokens) + first, len(tokens) + last)
            tokens += text
            owners += [place] * len(text)
        return Row([*tokens, LAST], [*owners, -1], begin, labels, ends)


class Step(NamedTuple):
    """``p`` passages of ``t`` tokens and ``k`` sentences.

    ``ids``, ``types``, ``mask`` and ``owners`` ``[p, t]``, ``labels`` ``[p, k]``, ``question`` ``[p]``, ``ends`` ``[p,
    2]``.
    """

    ids: Tensor
    types: Tensor
    mask: Tensor
    owners: Tensor
    labels: Tensor
    question: Tensor
    ends: Tensor


def collate(rows: list[Row], question_of: np.ndarray) -> Step:
    """Return passages as padded tensors; ``question_of`` are the numbers of their questions."""
    length, most = max(len(row.tokens) for row in rows), max(len(row.labels) for row in rows)
    ids, types, owners = (np.zeros((len(rows), length), np.int64) for _ in range(3))
    owners -= 1
    labels = np.full((len(rows), most), -1, np.int64)
    mask = np.zeros((len(rows), length), bool)
    for i, (tokens, sentence_of, begin, known, _) in enumerate(rows):
        ids[i, : len(tokens)], owners[i, : len(tokens)], mask[i, : len(tokens)] = tokens, sentence_of, True
        types[i, begin : len(tokens)], labels[i, : len(known)] = 1, known
    ends = np.array([row.ends for row in rows])
    arrays = (ids, types, mask, owners, labels, question_of, ends)
    return Step(*(torch.from_numpy(array) for array in arrays))


class Reader(nn.Module):
    """BERT with a score for a passage, one for each of its sentences, and for the ends of a short answer."""

    def __init__(self, weights: dict[str, Tensor], layers: int) -> None:
        super().__init__()
        stored = 1 + max(int(name.split(".")[3]) for name in weights if name.startswith("bert.encoder.layer."))
        words = weights["bert.embeddings.word_embeddings.weight"]
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=words.shape[1],
            num_hidden_layers=layers,
            num_attention_heads=12,
            intermediate_size=4 * words.shape[1],
            layer_norm_eps=1e-12,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation="sdpa" if torch.cuda.is_available() else "eager",
        )
        self.bert = BertModel(config)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.sentence = nn.Linear(config.hidden_size, 1)
        self.ends = nn.Linear(config.hidden_size, 2)
        nn.init.zeros_(self.sentence.weight)
        renamed = {}
        for name, value in weights.items():
            parts = name.split(".")
            if name.startswith("bert.encoder.layer."):
                if (int(parts[3]) + 1) % (stored // layers):
                    continue
                parts[3] = str((int(parts[3]) + 1) // (stored // layers) - 1)
            renamed[".".join(parts)] = value
        missing, unknown = self.load_state_dict(renamed, strict=False)
        assert not unknown and all(name.startswith(("sentence", "ends")) for name in missing), (missing, unknown)

    def forward(self, step: Step) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores of passages ``[p]``, of their sentences ``[p, k]``, of first and last tokens ``[p, t, 2]``."""
        states = self.bert(step.ids, attention_mask=step.mask.long(), token_type_ids=step.types)
        return self.read(states.last_hidden_state, step)

    def read(self, states: Tensor, step: Step) -> tuple[Tensor, Tensor, Tensor]:
        """Return what :meth:`forward` does, from the last layer's ``states`` ``[p, t, size]``."""
        last = states.float()
        count = step.labels.shape[1]
        group = torch.where(step.owners >= 0, step.owners, count)
        sums = last.new_zeros(len(last), count + 1, last.shape[2])
        sums.scatter_add_(1, group[..., None].expand_as(last), last)
        sizes = last.new_zeros(sums.shape[:2]).scatter_add_(1, group, torch.ones_like(group, dtype=last.dtype))
        means = (sums / sizes.clamp(min=1)[..., None])[:, :count]
        place = torch.arange(last.shape[1], device=last.device)
        readable = step.mask & (step.types.bool() | (place == 0))  # no answer is in the question
        ends = self.ends(last).masked_fill(~readable[..., None], MASKED)
        return self.classifier(self.bert.pooler(states).float())[:, 0], self.sentence(means)[..., 0], ends


class Rounding(nn.Module):
    """A matrix in 4 bits, as :func:`passage_storage.pack_blocks` stores it; the gradient passes as if it were none."""

    def forward(self, weight: Tensor) -> Tensor:
        """Return the rounded matrix."""
        codes, scales = round_blocks(weight.detach())
        return weight + ((codes * scales).reshape(weight.shape) - weight.detach())


def losses(
    step: Step, scores: Tensor, sentences: Tensor, ends: Tensor, taught: Tensor, temperature: float
) -> tuple[Tensor, ...]:
    """Return the losses of passages, of sentences, of single passages, of ends, and the divergence from the teacher."""
    count = int(step.question.max()) + 1
    good = (step.labels == ANSWERS).any(1)
    passage = _softmax_loss(scores, good, step.question, count)
    known = step.labels >= 0
    owner = step.question[:, None].expand_as(step.labels)[known]
    sentence = _softmax_loss(sentences[known], (step.labels == ANSWERS)[known], owner, count)
    student, teacher = (_log_softmax(values / temperature, step.question, count) for values in (scores, taught))
    divergence = (teacher.exp() * (teacher - student)).sum() / count * temperature**2
    single = nn.functional.binary_cross_entropy_with_logits(scores, good.float())
    costs = nn.functional.cross_entropy(
        ends.transpose(1, 2).flatten(0, 1), step.ends.flatten(), reduction="none", ignore_index=-1
    )
    costs, marks = costs.view(-1, 2).mean(1), step.ends[:, 0]
    marked = [costs[group].mean() for group in (marks > 0, marks == 0) if bool(group.any())]
    return passage, sentence, single, torch.stack(marked).sum(), divergence


def _log_sums(values: Tensor, group: Tensor, count: int) -> Tensor:
    """The logarithm of the sum of the exponentials in each group."""
    greatest = values.new_full((count,), MASKED).scatter_reduce(0, group, values.detach(), "amax")
    sums = values.new_zeros(count).scatter_add(0, group, (values - greatest[group]).exp())
    return sums.clamp(min=1e-30).log() + greatest


def _log_softmax(values: Tensor, group: Tensor, count: int) -> Tensor:
    return values - _log_sums(values, group, count)[group]


def _softmax_loss(values: Tensor, good: Tensor, group: Tensor, count: int) -> Tensor:
    """Return the negative log-likelihood of what answers, the mean over groups that have some."""
    best = _log_sums(torch.where(good, values, MASKED), group, count)
    costs = (_log_sums(values, group, count) - best)[best > MASKED / 2]
    return costs.mean() if len(costs) else values.sum() * 0


def load_start(path: Path) -> dict[str, Tensor]:
    """Return the weights to start from: safetensors, or a model of ONNX Runtime in int8."""
    if path.is_dir():
        return read_packed(path)
    if path.suffix == ".onnx":
        from int8_onnx import unpack

        return {name: torch.from_numpy(np.array(values)) for name, values in unpack(path).items()}
    weights: dict[str, Tensor] = load_file(path)
    return weights


def read_packed(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a re-ranker of this package."""
    weights = unpack_weights(load_arrays(folder / "model.safetensors"))
    names = {name: name if name.split(".")[0] in ("classifier", "ends") else f"bert.{name}" for name in weights}
    return {names[name]: torch.from_numpy(np.array(value, np.float32)) for name, value in weights.items()}


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, nargs="+", help="the folders of other runs")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--frozen", type=int, default=0, help="lower layers that stay as they are")
    parser.add_argument("--packed", type=int, default=0, help="lower layers that compute in 4 bits")
    parser.add_argument("--titles", type=float, default=0.5, help="the share of passages that are read with titles")
    parser.add_argument("--minutes", type=float, default=11)
    parser.add_argument("--steps", type=int, default=0, help="instead of minutes")
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--passages", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--labels", type=float, default=1.0)
    parser.add_argument("--teach", type=float, default=0.5)
    parser.add_argument("--ends", type=float, default=0.0)
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for each shape
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    options.out.mkdir(parents=True, exist_ok=True)
    weights = load_start(options.start)
    model = Reader(weights, options.layers).to(device).train()
    teachers = [_load_run(run, device) for run in options.teacher or ()] or [copy.deepcopy(model)]
    for teacher in teachers:
        teacher.requires_grad_(False).eval()
    model.bert.embeddings.requires_grad_(False)
    model.bert.encoder.layer[: options.frozen].requires_grad_(False)
    matrices = [
        module for module in model.bert.encoder.layer[: options.packed].modules() if isinstance(module, nn.Linear)
    ]
    for matrix in matrices:
        parametrize.register_parametrization(matrix, "weight", Rounding())
    optimizer = torch.optim.AdamW(
        [parameter for parameter in model.parameters() if parameter.requires_grad], options.learning_rate
    )
    checkpoint = options.out / "last.pt"
    step, seconds = load_checkpoint(checkpoint, model, optimizer, device)
    began, saved = time.monotonic() - seconds, time.monotonic()
    data = Data(options.data, options.seed, options.titles)
    batches = torch.utils.data.DataLoader(
        _Steps(data, step, options.questions, options.passages),
        batch_size=None,
        num_workers=min(8, os.cpu_count() or 1) if device.type == "cuda" else 0,
    )
    total, counted = np.zeros(5), 0
    for batch in batches:
        elapsed = time.monotonic() - began
        done = step / options.steps if options.steps else elapsed / (60 * options.minutes)
        if done >= 1:
            break
        set_rate(optimizer, options.learning_rate, step, done, warmup=50)
        batch = Step(*(tensor.to(device, non_blocking=True) for tensor in batch))
        with torch.autocast(device.type, torch.bfloat16):
            scores, sentences, ends = model(batch)
            with torch.no_grad():
                taught = torch.stack([teacher(batch)[0].float() for teacher in teachers]).mean(0)
        passage, sentence, single, marked, divergence = losses(
            batch, scores.float(), sentences.float(), ends.float(), taught, options.temperature
        )
        optimizer.zero_grad()
        labels = options.labels * (passage + 0.5 * sentence + single)
        (labels + options.ends * marked + options.teach * divergence).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        total += [value.item() for value in (passage, sentence, single, marked, divergence)]
        counted += 1
        if step % 20 == 0 or step == options.steps:
            names = ("passages", "sentences", "single passages", "ends", "from the teacher")
            means = dict(zip(names, total / counted, strict=True))
            line = f"step {step}, {elapsed:.0f} s: " + ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
            print(line, flush=True)
            with (options.out / "log.txt").open("a") as log:
                log.write(line + "\n")
            total[:] = counted = 0
        if time.monotonic() - saved > 120:
            save_checkpoint(checkpoint, model, optimizer, step, time.monotonic() - began)
            saved = time.monotonic()
    save_checkpoint(checkpoint, model, optimizer, step, time.monotonic() - began)
    for matrix in matrices:
        parametrize.remove_parametrizations(matrix, "weight", leave_parametrized=False)
    trained = {name: value for name, value in model.state_dict().items() if not name.startswith("bert.embeddings.")}
    write_parts(options.out, trained)


class _Steps(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    """The steps from one on, shared by the workers, without end."""

    def __init__(self, data: Data, first: int, questions: int, passages: int) -> None:
        self._data, self._first, self._size = data, first, (questions, passages)

    def __iter__(self) -> Any:
        worker = torch.utils.data.get_worker_info()
        number, apart = (self._first + worker.id, worker.num_workers) if worker else (self._first, 1)
        while True:
            yield self._data.step(number, *self._size)
            number += apart


def _load_run(folder: Path, device: torch.device) -> Reader:
    stored = torch.load(folder / "last.pt", map_location="cpu")["model"]
    weights = {name.replace("parametrizations.weight.original", "weight"): value for name, value in stored.items()}
    layers = 1 + max(int(name.split(".")[3]) for name in weights if name.startswith("bert.encoder.layer."))
    return Reader(weights, layers).to(device)


if __name__ == "__main__":
    main()
