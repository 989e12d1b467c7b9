"""Train a re-ranker of sentences on packed data, on one GPU or, slowly, on processors. Needs no FAISS.

    python pipelines/train/train_sentences.py DATA.npz OUT --start RERANKER [--base ENCODER] [--teacher READER]

DATA is what `pack_passages.py` packs with the tokenizer of ENCODER, the base of RERANKER, which is a folder such as
landmark-reranker's; READER is one such as landmark-reranker-l12's. A question's passages are read with it as
:class:`lmkrag.reranker.landmark.PairTokenizer` lays them out. Losses of the labels are those of `train_reranker.py`. A
teacher reads the same passages: the student learns its order of them, where a passage counts as the sum of its
sentences' probabilities, and its first and last tokens of short answers. Some questions are exchanged for those that
their passages don't answer. Layers compute with their matrices in 8 bits, as they are stored, so that what is measured
is what ships. Run it again to go on from the last checkpoint.
OUT gets `log.txt`, `last.pt` and in the end `part-NN`, at most 16 MB each: `cat part-* > model.safetensors` gives what
was trained, of which `sentence_reranker.py` makes a re-ranker.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from checkpoints import load_checkpoint, load_steps, log_means, save_checkpoint, set_rate, start_run, write_parts
from group_losses import MASKED, log_softmax
from passage_steps import Data, Row, Step, collate
from torch import Tensor, nn
from torch.nn.utils import parametrize
from train_passages import Reader, load_start

sys.path.insert(0, str(Path(__file__).parents[2]))

from place_steps import PlaceRow, PlaceStep, collate_places, group_by_length
from reranker_model import Reading, RerankerModel, group_parameters, sum_losses
from reranker_settings import describe_settings

WARMUP = 50
LOGGED = ("order", "answers", "short answers", "teacher's order", "teacher's short answers")


class SentenceStep(NamedTuple):
    """A step of the student, and the same passages as the teacher reads them, by batch: none without a teacher."""

    places: PlaceStep
    texts: tuple[Step, ...]

    def to(self, device: torch.device) -> "SentenceStep":
        """Return the same on a device."""
        texts = (Step(*(tensor.to(device, non_blocking=True) for tensor in text)) for text in self.texts)
        return SentenceStep(self.places.to(device), tuple(texts))


class SentenceData(Data):
    """Packed questions, for a re-ranker of sentences."""

    def sentence_step(
        self, number: int, *, questions: int, passages: int, unanswerable: float, taught: bool
    ) -> SentenceStep:
        """Return the passages of some questions, drawn by the step's number.

        ``unanswerable`` is the share of questions that are exchanged for their changed forms, where they have one. With
        ``taught``, the step also holds the passages as a teacher reads them.
        """
        rng = np.random.default_rng((self.seed, number))
        places: list[PlaceRow] = []
        texts: list[Row] = []
        answerable = []
        for place, (chosen, picked) in enumerate(self.draw(rng, questions, passages)):
            changed = self.arrays["changed"][chosen]
            answerable.append(bool(changed < 0 or rng.random() >= unanswerable))
            question = self.text(self.arrays["question"][chosen] if answerable[-1] else changed)
            for passage in picked:
                title = self.title(passage, rng)
                places.append(self.lay_out(question, passage, title, place))
                if taught:
                    texts.append(self.row(question, passage, title))
        groups = group_by_length(places)
        batches = (collate_places([places[row] for row in group]) for group in groups)
        question_of = np.array([row.number for row in places])
        read = (collate([texts[row] for row in group], question_of[group]) for group in groups if taught)
        return SentenceStep(PlaceStep(tuple(batches), torch.tensor(answerable)), tuple(read))

    def lay_out(self, question: list[int], passage: int, title: list[int], number: int) -> PlaceRow:
        """Return a passage with a question of a number as :class:`lmkrag.reranker.landmark.PairTokenizer` does."""
        tokens = [self.first, *question, self.last, *title, *([self.landmark] if title else [])]
        owners = [-1] * len(tokens)
        room = len(question) + 2 + self.passage_tokens
        begins: list[int] = []
        sentences, labels, scores = self.sentences(passage)
        for place, sentence in enumerate(sentences):
            text = self.text(sentence)
            if len(tokens) + len(text) + 2 > room:
                break
            begins.append(len(tokens))
            tokens += [*text, self.landmark]
            owners += [place] * (len(text) + 1)
        read = len(begins)
        answers = [
            (begins[place] + first, begins[place] + last)
            for place, first, last in self.answers(passage)
            if 0 <= place < read
        ]
        known = scores[:read].tolist(), labels[:read].tolist()
        return PlaceRow([*tokens, self.last], len(question), [*owners, -1], *known, answers, number)


class Rounding(nn.Module):
    """A matrix in 8 bits, as :func:`lmkrag.models.packing.pack_rows` stores it; the gradient passes unchanged."""

    def forward(self, weight: Tensor) -> Tensor:
        """Return the rounded matrix."""
        exact = weight.detach()
        scales = exact.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
        return weight + ((exact / scales).round() * scales - exact)


def teacher_losses(
    model: RerankerModel, step: SentenceStep, readings: Sequence[Reading], teacher: Reader, temperature: float
) -> tuple[Tensor, Tensor]:
    """Return the divergences from the teacher's order of passages, and from its first and last tokens of short answers.

    Both are those of questions that were not changed. The second counts as much as the teacher finds a short answer.
    """
    answerable = step.places.answerable
    ours, theirs, costs, shares = [], [], [], []
    for batch, text, reading in zip(step.places.batches, step.texts, readings, strict=True):
        with torch.no_grad():
            taught, _, ends = teacher(text)
        read = torch.arange(batch.labels.shape[1], device=taught.device) <= batch.owners.amax(1, keepdim=True)
        ours.append(model.order(batch, reading).masked_fill(~read, MASKED).logsumexp(1))
        theirs.append(taught.float())
        inside = batch.owners >= 0
        told = align_values(ends.float().softmax(1), text, inside & ~find_landmarks(batch.owners))
        own = reading[1].masked_fill(~inside[..., None], MASKED).log_softmax(1)
        share = told.sum(1) * answerable[batch.question][:, None]
        likely = told / told.sum(1, keepdim=True).clamp(min=1e-9)
        costs.append(share * (likely * (likely.clamp(min=1e-9).log() - own)).sum(1))
        shares.append(share)
    question = torch.cat([batch.question for batch in step.places.batches])
    student, known = (
        log_softmax(torch.cat(values) / temperature, question, len(answerable)) for values in (ours, theirs)
    )
    divergences = (known.exp() * (known - student))[answerable[question]]
    passages = divergences.sum() / answerable.sum().clamp(min=1) * temperature**2
    return passages, torch.cat(costs).sum() / torch.cat(shares).sum().clamp(min=1e-9)


def find_landmarks(owners: Tensor) -> Tensor:
    """Return where the last token of a sentence is, its landmark."""
    return (owners >= 0) & (owners != nn.functional.pad(owners[:, 1:], (0, 1), value=-1))


def align_values(values: Tensor, text: Step, places: Tensor) -> Tensor:
    """Return the values ``[p, t, n]`` of the teacher's tokens at the student's ``places``, elsewhere 0.

    Both read the same tokens of sentences, but the student may stop earlier.
    """
    read = text.owners >= 0
    read = read & (read.cumsum(1) <= places.sum(1, keepdim=True))
    moved = values.new_zeros(*places.shape, values.shape[2])
    moved[places] = values[read]
    return moved


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--base", help="the folder of the encoder whose embeddings of words are read")
    parser.add_argument("--teacher", type=Path)
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--steps", type=int, default=0, help="instead of minutes")
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--passages", type=int, default=8)
    parser.add_argument("--titles", type=float, default=0.5, help="the share of passages that are read with titles")
    parser.add_argument("--unanswerable", type=float, default=0.2, help="the share of questions that are changed")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--teach", type=float, default=0.5, help="the weight of the teacher's order")
    parser.add_argument("--ends", type=float, default=0.2, help="the weight of the teacher's short answers")
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    device = start_run(options.out, options.seed)
    settings = describe_settings(options.start)
    settings = replace(settings, base=options.base or settings.base, start=str(options.start))
    model = RerankerModel(settings).to(device).train()
    teacher = Reader(load_start(options.teacher), 12).to(device).eval() if options.teacher else None
    matrices = [module for module in model.bert.encoder.modules() if isinstance(module, nn.Linear)]
    for matrix in matrices:
        parametrize.register_parametrization(matrix, "weight", Rounding())
    optimizer = torch.optim.AdamW(group_parameters(model, options.learning_rate), weight_decay=0.01)
    checkpoint = options.out / "last.pt"
    step, seconds = load_checkpoint(checkpoint, model, optimizer, device)
    began, saved = time.monotonic() - seconds, time.monotonic()
    build = partial(
        SentenceData(options.data, options.seed, options.titles, settings.passage_tokens).sentence_step,
        questions=options.questions,
        passages=options.passages,
        unanswerable=options.unanswerable,
        taught=teacher is not None,
    )
    total, counted = np.zeros(len(LOGGED)), 0
    for batch in load_steps(build, step, device, workers=8):
        elapsed = time.monotonic() - began
        done = step / options.steps if options.steps else elapsed / (60 * options.minutes)
        if done >= 1:
            break
        set_rate(optimizer, options.learning_rate, step, done, warmup=WARMUP)
        moved = batch.to(device)
        none = torch.zeros((), device=device)
        with torch.autocast(device.type, torch.bfloat16), parametrize.cached():
            readings = [model.read(part) for part in moved.places.batches]
            taught = teacher_losses(model, moved, readings, teacher, options.temperature) if teacher else (none, none)
            labels = model.losses(moved.places, readings)
        optimizer.zero_grad()
        (sum_losses(*labels) + options.teach * taught[0] + options.ends * taught[1]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        total += [value.item() for value in (*labels, *taught)]
        counted += 1
        if step % 20 == 0 or step == options.steps:
            log_means(options.out, step, elapsed, LOGGED, total / counted)
            total[:] = counted = 0
        if time.monotonic() - saved > 120:
            save_checkpoint(checkpoint, model, optimizer, step, time.monotonic() - began)
            saved = time.monotonic()
    save_checkpoint(checkpoint, model, optimizer, step, time.monotonic() - began)
    for matrix in matrices:
        parametrize.remove_parametrizations(matrix, "weight")
    write_parts(options.out, model.trained_weights())


if __name__ == "__main__":
    main()
