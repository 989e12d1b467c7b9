"""Our re-ranker for other languages than English, which scores the sentences of a passage.

Three layers of BERT read the question and the passage together; a sentence's scores come from the
mean of its tokens' states at its landmark, that of the question's, and late interaction: for each
token of the question the most similar token of the sentence (Khattab and Zaharia, "ColBERT", 2020),
in the last states and in the first. It is trained as a residual on the similarities of a search
(``pipelines/train/reranker_model.py`` of commit 4f1c2b7a).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from safetensors import safe_open
from tokenizers import Tokenizer

from lmkrag.encoder.tokens import prepare_tokenizer
from lmkrag.models.bert import bert_inputs
from lmkrag.models.session import AFTER, BEFORE, Session
from lmkrag.models.tokens import find_landmark, tokenize
from lmkrag.reranker.base import MULTILINGUAL_RERANKER, PlacedText, ReadingReranker, Words
from lmkrag.reranker.folders import find_reranker, read_folder, refuse_broken
from lmkrag.sentences.split import split_sentences
from lmkrag.types.arrays import Ids, Scores, Vectors

LOGITS, WEIGHTS = "logits", "weights"
TOKEN_SIMILARITY = {AFTER: "similarity.after", BEFORE: "similarity.before"}
OUTPUTS = [LOGITS, WEIGHTS, *TOKEN_SIMILARITY.values()]
"""Outputs of the graph. ``logits`` ``[sentences, 2]``: ranks of sentences and log-odds that they
answer, without late interaction. ``weights`` ``[question]`` of the question's tokens. For late
interaction, the similarity of the question's tokens to all: ``[question, length]``, after and
before."""

_LINEAR = ("dense", "out", "weigh", "ends")  # layers of the head
_QUESTION, _PLACE, _SENTENCE, _PASSAGE = 64, 16, 120, 400  # tokens of each that are read, at most
_UNREAD = -20.0  # log-odds of sentences that do not fit


@dataclass(frozen=True, slots=True, eq=False)
class SentenceReading:
    """What a passage says to a question, as :class:`lmkrag.reranker.base.AnyReading` has it.

    Attributes:
        bounds: ``[sentences, 2]``, the characters of its sentences.
        answers: ``[sentences]`` float32, the log-odds that each answers.
    """

    bounds: Ids
    answers: Scores

    @property
    def score(self) -> float:
        """The log-odds that the passage answers: those of its best sentence."""
        return float(self.answers.max(initial=_UNREAD))

    def score_sentence(self, start: int, end: int) -> float:
        """Return the log-odds that characters ``[start, end)`` answer; -inf if they were not
        read.
        """
        inside = (self.bounds[:, 0] < end) & (start < self.bounds[:, 1])
        return float(self.answers[inside].max(initial=-np.inf))

    def find_words(self, start: int, end: int) -> Words | None:
        """Return None: the model finds no short answers."""
        return None


class PairTokens(NamedTuple):
    """A question and a passage as tokens."""

    ids: Ids  # ``[tokens]``
    question: int  # tokens of the question, which follow the first one
    owners: Ids  # ``[tokens]``, the sentence that each is of, -1 for none

    @property
    def types(self) -> Ids:
        """``[tokens]``: 0 for the question, 1 for the passage."""
        types = np.ones(len(self.ids), np.int64)
        types[: self.question + 2] = 0
        return types


class LandmarkReranker(ReadingReranker):
    """Reads passages of any language, each with a question. May be shared by threads.

    It reads ``[CLS] question [SEP] place <LMK> sentence <LMK> sentence <LMK> [SEP]``.

    >>> reranker = LandmarkReranker.load()
    >>> text = "Birnen reifen im Herbst. Äpfel werden im Mai gepflückt."
    >>> (reading,) = reranker.read("Wann werden Äpfel gepflückt?", [PlacedText("Obst", text)])
    >>> reading.score_sentence(25, 55) > reading.score_sentence(0, 24)
    True
    """

    def __init__(
        self, name: str, session: Session, match: Vectors, tokenizer: Tokenizer, landmark: int
    ) -> None:
        """Take the parts: :meth:`load` builds them.

        ``match`` ``[2, 2]`` weighs late interactions; ``landmark`` is the id of a token. The
        settings of the tokenizer are changed.
        """
        self.name = name
        self._session, self._match, self._tokenizer = session, match, tokenizer
        (self._first,), (self._last,) = prepare_tokenizer(tokenizer)
        self._landmark = landmark

    @classmethod
    def load(cls, name: str = MULTILINGUAL_RERANKER) -> Self:
        """Load the model of this package, or one from a folder.

        Raises:
            UsageError: there is no such folder.
            EncoderError: it is broken.
        """
        folder = find_reranker(name)
        with refuse_broken(folder):
            settings, tokenizer, graph, weights = read_folder(folder)
            head, match = _read_head(folder)
            landmark = find_landmark(tokenizer, settings["landmark"], folder)
            return cls(name, Session(graph, weights | head), match, tokenizer, landmark)

    def read(self, question: str, passages: Sequence[PlacedText]) -> list[SentenceReading]:
        """Read passages together with a question."""
        bounds = [
            np.array(
                [(each.start, each.end) for each in split_sentences(passage.text)], np.int64
            ).reshape(-1, 2)
            for passage in passages
        ]
        readings = [
            SentenceReading(each, np.full(len(each), _UNREAD, np.float32)) for each in bounds
        ]
        pairs = [
            self._encode(question, passage, reading.bounds)
            for passage, reading in zip(passages, readings, strict=True)
        ]
        readable = [
            number
            for number, pair in enumerate(pairs)
            if pair.question and pair.owners.max(initial=-1) >= 0
        ]
        runs = [_inputs(pairs[number]) for number in readable]
        for number, outputs in zip(readable, self._session.run_each(OUTPUTS, runs), strict=True):
            answers = self._judge(pairs[number], dict(zip(OUTPUTS, outputs, strict=True)))
            if np.isfinite(answers).all():
                readings[number].answers[: len(answers)] = answers
        return readings

    def _encode(self, question: str, passage: PlacedText, bounds: Ids) -> PairTokens:
        """A question and a passage as tokens.

        Sentences that do not fit are left out, long ones are cut.
        """
        asked = tokenize(self._tokenizer, question, _QUESTION).ids
        place = tokenize(self._tokenizer, passage.place, _PLACE).ids
        ids = [self._first, *asked, self._last, *place, *([self._landmark] if place else [])]
        owners = [-1] * len(ids)
        room = len(asked) + 2 + _PASSAGE
        for number, (start, end) in enumerate(bounds.tolist()):
            tokens = tokenize(self._tokenizer, passage.text[start:end], _SENTENCE).ids
            if len(ids) + len(tokens) + 2 > room:
                break
            ids += [*tokens, self._landmark]
            owners += [number] * (len(tokens) + 1)
        return PairTokens(
            np.array([*ids, self._last], np.int64), len(asked), np.array([*owners, -1], np.int64)
        )

    def _judge(self, pair: PairTokens, outputs: dict[str, Vectors]) -> Scores:
        """The log-odds that sentences answer from outputs of the graph: see :data:`OUTPUTS`."""
        inside = np.flatnonzero(pair.owners >= 0)
        block = slice(inside[0], inside[-1] + 1)
        starts = np.flatnonzero(np.diff(pair.owners[block], prepend=-1))
        matches = [
            outputs[WEIGHTS]
            @ np.maximum.reduceat(outputs[TOKEN_SIMILARITY[states]][:, block], starts, axis=1)
            for states in (AFTER, BEFORE)
        ]
        logits = outputs[LOGITS][: len(starts)] + np.stack(matches, axis=1) @ self._match.T
        answers: Scores = logits[:, 1]
        return answers


def _inputs(pair: PairTokens) -> dict[str, Any]:
    """The inputs of the graph; ``members`` are the shares of tokens in the means of their
    sentences.
    """
    members = np.zeros((1 + int(pair.owners.max()), len(pair.ids)), np.float32)
    inside = np.flatnonzero(pair.owners >= 0)
    members[pair.owners[inside], inside] = 1
    members /= np.maximum(members.sum(1, keepdims=True), np.float32(1))
    question = np.array([1 + pair.question])
    return {
        **bert_inputs(pair.ids[None], pair.types[None]),
        "members": members,
        "question": question,
    }


def _read_head(folder: Path) -> tuple[dict[str, Vectors], Vectors]:
    """The weights of the head's layers, as the graph multiplies by them, and those of late
    interaction.
    """
    with safe_open(folder / "model.safetensors", "np") as file:
        head = {}
        for module in _LINEAR:
            weight = file.get_tensor(f"head.{module}.weight").astype(np.float32)
            head[f"head.{module}.weight"] = np.ascontiguousarray(weight.T)
            head[f"head.{module}.bias"] = file.get_tensor(f"head.{module}.bias").astype(np.float32)
        return head, file.get_tensor("head.match.weight").astype(np.float32)
