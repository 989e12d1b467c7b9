"""Training sets, and the steps that are built of them: windows, questions, and which sentences
answer which.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.encoder.torch_model import Batch, move_tensors, pack_windows
from lmkrag.encoder.windows import plan_windows
from lmkrag.errors import UsageError
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.sentences.split import split_sentences
from lmkrag.specs import Sentence
from lmkrag.training.settings import SetSettings, StageSettings
from lmkrag.types.arrays import Ids

_LEAST = 1e-6  # position weight of any evidence
_SPARE = 24  # tokens, so that a window falls into two halves, and not into two and a rest

Row = list[list[int]]  # a window: its sentences' token ids


Range = tuple[int, int]  # from a place up to another


class TokenDocument(NamedTuple):
    """The sentences of a document.

    Attributes:
        ids: the token ids of each sentence, its landmark last.
        words: a hash of each sentence's words, by which copies are recognized.
        starts: ``[n]`` int64, offsets of their first characters.
        ends: ``[n]`` int64, offsets of the characters after them.
    """

    ids: list[list[int]]
    words: list[int]
    starts: Ids
    ends: Ids


class Question(NamedTuple):
    """A question with its evidence.

    Attributes:
        text: the question.
        ids: its token ids, its landmark last.
        document: number of its document in the set.
        spans: ranges ``[start, end)`` of characters that answer.
    """

    text: str
    ids: list[int]
    document: int
    spans: tuple[Range, ...]


class TrainingSet:
    """A folder in the data format, tokenized as it is needed.

    Attributes:
        texts: the texts of the documents.
        titles: the token ids of the documents' titles, with which windows begin.
        questions: the questions that have evidence.
        by_document: numbers of the questions of each document.
        documents_of: numbers of the documents that a question is asked of, by its text.
        document: returns the :class:`TokenDocument` of a number; cached.
        evidence: returns the evidence of a question as ranges of sentences; cached.
    """

    def __init__(self, folder: Path, tokens: SentenceTokenizer) -> None:
        """Read a folder.

        Raises:
            UsageError: it can't be read, or no question has evidence.
        """
        dataset = load_dataset(folder)
        self._tokens = tokens
        self.texts = [document.text for document in dataset.documents]
        self._kinds = [document.kind for document in dataset.documents]
        self.titles = [tokens.title(document.title) for document in dataset.documents]
        number = {document.doc_id: index for index, document in enumerate(dataset.documents)}
        self.questions = [
            Question(query.query, tokens.query(query.query).ids, number[query.doc_id], query.spans)
            for query in dataset.queries
            if query.spans
        ]
        if not self.questions:
            raise UsageError(f"{folder}: no question has evidence")
        self.by_document: dict[int, list[int]] = defaultdict(list)
        self.documents_of: dict[str, set[int]] = defaultdict(
            set
        )  # a question asked of several documents
        for index, question in enumerate(self.questions):
            self.by_document[question.document].append(index)
            self.documents_of[question.text].add(question.document)
        self.document = lru_cache(maxsize=256)(self._read)
        self.evidence = lru_cache(maxsize=8_192)(self._locate)

    def _read(self, number: int) -> TokenDocument:
        """Return the sentences of a document, tokenized."""
        text = self.texts[number]
        pieces = list(self._tokens.pieces(text, split_sentences(text, kind=self._kinds[number])))
        bounds = np.array([(piece.sentence.start, piece.sentence.end) for piece in pieces]).reshape(
            -1, 2
        )
        words = [
            hash(" ".join(text[p.sentence.start : p.sentence.end].lower().split())) for p in pieces
        ]
        return TokenDocument([piece.ids for piece in pieces], words, bounds[:, 0], bounds[:, 1])

    def _locate(self, index: int) -> list[Range]:
        """Return the evidence of a question as ranges of sentences ``[first, stop)``, one for each
        span.
        """
        question = self.questions[index]
        document = self.document(question.document)
        runs = []
        for start, end in question.spans:
            first = int(np.searchsorted(document.ends, start, side="right"))
            stop = int(np.searchsorted(document.starts, end, side="left"))
            if stop > first:
                runs.append((first, stop))
        return runs

    def passage(self, index: int) -> list[int]:
        """Return the token ids of a question's first span as one piece, its landmark last, cut to a
        window.
        """
        question = self.questions[index]
        start, end = question.spans[0]
        return next(self._tokens.pieces(self.texts[question.document], [Sentence(start, end)])).ids


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass: ``q`` questions and ``n`` sentences.

    Attributes:
        windows: the windows with the sentences.
        questions: the questions, one in each window.
        weights: ``[q, n]`` float32, each row the position weights of the question's evidence, with
            sum one.
        candidate: ``[q, n]`` bool, the sentences that may be negatives of a question.
        same: ``[q, n]`` bool, whether a sentence is of the question's document.
        mixing: share of the softmax inside the document.
        taught: what a thorough teacher reads: the same sentences in windows of other lengths; empty
            for ``windows``.
        is_taught: whether the teacher's vectors and order are learnt, if the stage has a teacher.
    """

    windows: Batch
    questions: Batch
    # ``[q, n]`` float32, each row the position weights of the question's evidence, with sum one
    weights: Tensor
    candidate: Tensor  # ``[q, n]`` bool, the sentences that may be negatives of a question
    same: Tensor  # ``[q, n]`` bool, the sentence is of the question's document
    mixing: float  # the share of the softmax inside the document
    taught: tuple[
        Batch, ...
    ] = ()  # what a thorough teacher reads: the same sentences in windows of other lengths
    is_taught: bool = True  # the teacher's vectors and order are learnt, if the stage has a teacher

    def to(self, device: torch.device) -> "Step":
        """Return the step with its tensors on a device."""
        return replace(
            move_tensors(self, device), taught=tuple(batch.to(device) for batch in self.taught)
        )


class StepBuilder:
    """Collects the windows and questions of one step from one set."""

    def __init__(
        self, stage: StageSettings, chosen: SetSettings, data: TrainingSet, rng: np.random.Generator
    ) -> None:
        """Begin a step.

        Args:
            stage: the settings of the stage.
            chosen: the settings of the set.
            data: the set.
            rng: draws the windows and questions; the same state draws the same step.
        """
        self._stage, self._chosen, self._data, self._rng = stage, chosen, data, rng
        self._window = int(rng.choice(stage.windows))
        self._rows: list[Row] = []
        self._titles: list[list[int]] = []  # of each row, when documents are read
        self._document: list[int] = []  # of each sentence
        self._ordinal: list[int] = []
        self._words: list[int] = []
        self._asked: list[int] = []

    def build(self) -> bool:
        """Fill the step by the task of its set; return False if the set gave nothing to ask."""
        {"pairs": self._pairs, "shuffled": self._shuffled, "documents": self._documents}[
            self._chosen.task
        ]()
        return len(self._asked) > 0 and len(self._ordinal) > 1

    def step(self, tokens: SentenceTokenizer) -> Step:
        """Return the step that was filled: windows, questions, and which sentence answers which
        question.
        """
        documents, ordinals, words = map(np.array, (self._document, self._ordinal, self._words))
        shape = (len(self._asked), len(ordinals))
        weights, candidate, same = (
            np.zeros(shape, np.float32),
            np.ones(shape, bool),
            np.zeros(shape, bool),
        )
        for row, index in enumerate(self._asked):
            question = self._data.questions[index]
            same[row] = documents == question.document
            if self._chosen.task == "pairs":
                weights[row] = ordinals == index
            else:
                weights[row] = self._position_weights(index, documents, ordinals)
            evidence = weights[row] > 0
            # No negatives: other sentences of the evidence, copies of it, documents asked the same
            # question.
            candidate[row] = ~evidence & ~np.isin(words, words[evidence])
            if others := self._data.documents_of[question.text] - {question.document}:
                candidate[row] &= ~np.isin(documents, list(others))
            if self._chosen.within:
                candidate[row] &= same[row]
            weights[row] /= weights[row].sum()
        if self._chosen.task != "documents":
            same[:] = True  # one made-up document
        windows = pack_windows(tokens, self._rows, self._titles)
        taught: tuple[Batch, ...] = ()
        if (
            self._stage.thorough
        ):  # the teacher reads the whole, halves and quarters, the student halves
            halves, quarters = (
                self._divide_windows(tokens, self._window // parts + _SPARE) for parts in (2, 4)
            )
            windows, taught = halves, (windows, halves, quarters)
        return Step(
            windows,
            pack_windows(tokens, [[self._data.questions[index].ids] for index in self._asked]),
            torch.from_numpy(weights),
            torch.from_numpy(candidate),
            torch.from_numpy(same),
            1.0 if self._chosen.within or self._chosen.task != "documents" else self._stage.mixing,
            taught,
            self._chosen.taught,
        )

    def _divide_windows(self, tokens: SentenceTokenizer, size: int) -> Batch:
        """Return the windows of the step divided into windows of at most ``size`` tokens."""
        rows: list[Row] = []
        titles: list[list[int]] = []
        for row, title in zip(self._rows, self._titles or [[]] * len(self._rows), strict=True):
            counts = [len(ids) for ids in row]
            for window in plan_windows(counts, budget=max(size - len(title), *counts), overlap=0.0):
                rows.append(row[window.first : window.stop])
                titles.append(title)
        return pack_windows(tokens, rows, titles)

    def _position_weights(
        self, index: int, documents: np.ndarray, ordinals: np.ndarray
    ) -> np.ndarray:
        """Return exp(-alpha (n - i)) for each sentence i of a span s_1..s_n of evidence in the step
        (arXiv 2402.11573).
        """
        weights = np.zeros(len(ordinals), np.float32)
        own_document = documents == self._data.questions[index].document
        for first, stop in self._data.evidence(index):
            inside = own_document & (ordinals >= first) & (ordinals < stop)
            if (
                inside.any()
            ):  # counted from the last one in the step: far from it, nothing must become zero
                far = ordinals[inside].max() - ordinals[inside]
                weights[inside] = np.maximum(np.exp(-self._stage.alpha * far), _LEAST)
        return weights

    def _pairs(self) -> None:
        """Fill the step with passages that have one landmark, at their end (distant
        supervision).
        """
        available = len(self._data.questions)
        count = min(max(2, self._stage.tokens // self._window), available)
        for index in self._rng.choice(available, count, replace=False).tolist():
            ids = self._data.passage(index)
            self._rows.append([ids[-self._window :]])
            self._document.append(self._data.questions[index].document)
            self._ordinal.append(index)
            self._words.append(hash(tuple(ids)))
            self._asked.append(index)

    def _shuffled(self) -> None:
        """Fill the step with windows of evidence of several documents (noisy long contexts)."""
        for _ in range(max(1, self._stage.tokens // self._window)):
            row: Row = []
            room = self._window
            misses = 0
            while misses < 4:
                index = int(self._rng.integers(len(self._data.questions)))
                question = self._data.questions[index]
                document = self._data.document(question.document)
                runs = self._data.evidence(index)
                if not runs or index in self._asked:
                    misses += 1
                    continue
                first, stop = runs[int(self._rng.integers(len(runs)))]
                first = max(first, stop - 6)
                size = sum(len(ids) for ids in document.ids[first:stop])
                if size > room:
                    misses += 1
                    continue
                row += self._take(question.document, document, first, stop)
                room -= size
                self._asked.append(index)
            if row:
                self._rows.append(row)

    def _documents(self) -> None:
        """Fill the step with windows of real documents around evidence.

        The rest of the windows and of the documents are negatives.
        """
        limit = max(1, self._stage.tokens // self._window)
        per_document = max(1, limit // min(self._chosen.documents, len(self._data.by_document)))
        seen: set[int] = set()
        for _ in range(4 * self._chosen.documents):
            index = int(self._rng.integers(len(self._data.questions)))
            number = self._data.questions[index].document
            if number in seen:
                continue
            seen.add(number)
            self._windows_of(number, index, min(per_document, limit - len(self._rows)))
            if len(self._rows) >= limit:
                break

    def _windows_of(self, number: int, index: int, count: int) -> None:
        """Add windows of one document, and questions about them."""
        document = self._data.document(number)
        titled = self._stage.titles > 0 and self._rng.random() < self._stage.titles
        title = self._data.titles[number] if titled else []
        size = self._window - len(title)
        others = [other for other in self._data.by_document[number] if other != index]
        self._rng.shuffle(others)
        taken: list[Range] = []
        for candidate in [index, *others]:
            if len(taken) == count:
                break
            if span := self._window_around(document, candidate, taken, size):
                taken.append(span)
        for _ in range(4 * count):  # a document with few questions: windows from anywhere in it
            if len(taken) == count:
                break
            if span := self._free_window(
                document, int(self._rng.integers(len(document.ids))), taken, size
            ):
                taken.append(span)
        for first, stop in taken:
            self._rows.append(self._take(number, document, first, stop))
            self._titles.append(title)
        if taken:
            self._ask(number, taken)

    def _window_around(
        self, document: TokenDocument, index: int, taken: list[Range], size: int
    ) -> Range | None:
        """Return a window of ``size`` tokens around a sentence of a question's evidence; None if
        none is free.

        The end of a span is drawn most often, and stands anywhere in the window.
        """
        runs = self._data.evidence(index)
        if not runs:
            return None
        first, stop = runs[int(self._rng.integers(len(runs)))]
        weights = np.exp(-self._stage.alpha * np.arange(stop - first)[::-1])
        target = first + int(self._rng.choice(stop - first, p=weights / weights.sum()))
        return self._free_window(document, target, taken, size)

    def _free_window(
        self, document: TokenDocument, target: int, taken: list[Range], size: int
    ) -> Range | None:
        """Return a full window that has the target sentence at a random position and meets no other
        window.

        None if the sentence is too long for a window, or taken.
        """
        low = max((stop for first, stop in taken if stop <= target), default=0)
        high = min((first for first, stop in taken if first > target), default=len(document.ids))
        room = size - len(document.ids[target])
        if room < 0 or any(first <= target < stop for first, stop in taken):
            return None  # too long for this step's windows, or taken
        first = stop = target
        before = int(self._rng.integers(room + 1))  # tokens of context wanted before the target
        while first > low and len(document.ids[first - 1]) <= before:
            first -= 1
            before -= len(document.ids[first])
            room -= len(document.ids[first])
        stop += 1
        while stop < high and len(document.ids[stop]) <= room:
            room -= len(document.ids[stop])
            stop += 1
        return first, stop

    def _ask(self, number: int, taken: list[Range]) -> None:
        """Add questions whose evidence is in the windows of a document."""
        fitting = [
            index
            for index in self._data.by_document[number]
            if any(
                f < stop and s > first
                for f, s in self._data.evidence(index)
                for first, stop in taken
            )
        ]
        self._rng.shuffle(fitting)
        distinct: dict[str, int] = {}
        for index in fitting:
            distinct.setdefault(self._data.questions[index].text, index)
        self._asked += list(distinct.values())[: self._stage.queries_per_window * len(taken)]

    def _take(self, number: int, document: TokenDocument, first: int, stop: int) -> Row:
        """Add a range of a document's sentences to the step; return their token ids."""
        self._document += [number] * (stop - first)
        self._ordinal += range(first, stop)
        self._words += document.words[first:stop]
        return document.ids[first:stop]
