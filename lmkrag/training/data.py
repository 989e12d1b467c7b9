"""Training sets: documents as sentences' tokens, questions as the sentences that answer them."""

from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lmkrag.arrays import Ids
from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.errors import UsageError
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.sentences.split import split_sentences
from lmkrag.specs import Sentence


class TokenDocument(NamedTuple):
    """A document's sentences, each with its token ids and the hash of its words, and where they lie."""

    ids: list[list[int]]
    words: list[int]
    starts: Ids
    ends: Ids


class Question(NamedTuple):
    """A question, its tokens, its document's number in the set, and its evidence: character spans."""

    text: str
    ids: list[int]
    document: int
    spans: tuple[tuple[int, int], ...]


class TrainingSet:
    """A folder in the data format, tokenized as needed; raises UsageError. ``titles``: ids that windows begin with."""

    def __init__(self, folder: Path, tokens: SentenceTokenizer) -> None:
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
        self.documents_of: dict[str, set[int]] = defaultdict(set)  # a question asked of several documents
        for index, question in enumerate(self.questions):
            self.by_document[question.document].append(index)
            self.documents_of[question.text].add(question.document)
        self.document = lru_cache(maxsize=256)(self._read)
        self.evidence = lru_cache(maxsize=8_192)(self._locate)

    def _read(self, number: int) -> TokenDocument:
        text = self.texts[number]
        pieces = list(self._tokens.pieces(text, split_sentences(text, kind=self._kinds[number])))
        bounds = np.array([(piece.sentence.start, piece.sentence.end) for piece in pieces]).reshape(-1, 2)
        words = [hash(" ".join(text[p.sentence.start : p.sentence.end].lower().split())) for p in pieces]
        return TokenDocument([piece.ids for piece in pieces], words, bounds[:, 0], bounds[:, 1])

    def _locate(self, index: int) -> list[tuple[int, int]]:
        """The evidence of a question as (first, stop) sentences, one pair a span."""
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
        """Return the tokens of a question's first span as one piece, its landmark at the end, cut to a window."""
        question = self.questions[index]
        start, end = question.spans[0]
        piece = next(self._tokens.pieces(self.texts[question.document], [Sentence(start, end)]))
        return piece.ids
