"""Cross-encoders of passages: BERT scores a pair of question and text, and the ends of an answer in
the text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from safetensors import SafetensorError, safe_open
from tokenizers import Encoding, Tokenizer

from lmkrag.encoder.tokens import prepare_tokenizer
from lmkrag.errors import EncoderError
from lmkrag.language.quantities import respell
from lmkrag.models.bert import bert_inputs
from lmkrag.models.session import Session
from lmkrag.models.tokens import tokenize
from lmkrag.reranker.landmark import find_reranker, read_folder
from lmkrag.types.arrays import Scores, Vectors

SCORE, ENDS = OUTPUTS = ("score", "ends")
"""Outputs of the graph for one question and text: ``[1, 1]`` and ``[tokens, 2]`` float32."""

HEAD = tuple(
    f"{layer}.{kind}"
    for layer in ("pooler.dense", "classifier", "ends")
    for kind in ("weight", "bias")
)
"""The layers above BERT, by the names that transformers gives them; their weights are ``[out,
in]``.
"""

_TOKENS = 400  # of a question and a text that are read, with three special ones, at most
_QUESTION_TOKENS = 256  # of the question among them, at most
_ANSWER_TOKENS = 24  # of the words that answer, at most
_UNREAD = 40.0  # below every sum of scores
_REMEMBERED = 128  # readings: those of the last questions, at most 24 of each


class PassageReranker:
    """Scores texts by reading each with a question. May be shared by threads.

    State: the model and its last readings, which a reader of answers reuses from the search.

    >>> reranker = PassageReranker.load("landmark-reranker-l12")
    >>> texts = ["Pears ripen in October.", "Apples are picked in May."]
    >>> int(reranker.score_texts("When are apples picked?", texts).argmax())
    1
    """

    def __init__(self, name: str, session: Session, tokenizer: Tokenizer) -> None:
        """Take the model and its tokenizer, whose settings are changed; :meth:`load` builds
        them.
        """
        self.name, self._session, self._tokenizer = name, session, tokenizer
        self._readings: dict[
            tuple[str, str], Reading
        ] = {}  # replaced, never changed: threads share it
        prepare_tokenizer(tokenizer)

    @classmethod
    def load(cls, name: str) -> Self:
        """Load a model of this package or a folder. Raises UsageError: no such folder.
        EncoderError: it is broken.
        """
        folder = find_reranker(name)
        try:
            _, tokenizer, graph, weights = read_folder(folder)
            return cls(name, Session(graph.read_bytes(), weights | read_head(folder)), tokenizer)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise EncoderError(
                f"{folder}: can't be loaded as a re-ranker of passages ({error})"
            ) from error

    def score_texts(self, question: str, texts: Sequence[str]) -> Scores:
        """Return how well each text answers a question, ``[texts]`` float32 log-odds."""
        return np.array([reading.score for reading in self.read_texts(question, texts)], np.float32)

    def read_texts(self, question: str, texts: Sequence[str]) -> list["Reading"]:
        """Return how well each text answers a question, and the words that do (Devlin et al., 2019,
        section 4.3).
        """
        asked = tokenize(self._tokenizer, question, _QUESTION_TOKENS)
        question = question[: asked.offsets[-1][1]] if asked.offsets else ""
        pairs = [(question, text) for text in texts]
        readings = self._readings
        new = [pair for pair in dict.fromkeys(pairs) if pair not in readings]
        if new:
            encodings = [self._encode(*pair) for pair in new]
            inputs = [
                bert_inputs(np.array([each.ids]), np.array([each.type_ids])) for each in encodings
            ]
            outputs = self._session.run_each(list(OUTPUTS), inputs)
            readings = dict(readings)
            for pair, encoding, (score, ends) in zip(new, encodings, outputs, strict=True):
                readings[pair] = _read(encoding, float(score[0, 0]), ends)
            self._readings = dict(list(readings.items())[-_REMEMBERED:])
        return [readings[pair] for pair in pairs]

    def _encode(self, question: str, text: str) -> Encoding:
        asked = tokenize(self._tokenizer, respell(question, text), _QUESTION_TOKENS)
        special = self._tokenizer.num_special_tokens_to_add(is_pair=True)
        told = tokenize(self._tokenizer, text, _TOKENS - special - len(asked))
        return self._tokenizer.post_process(asked, told)


class Reading(NamedTuple):
    """The scores of a text for a question.

    ``score``: the log-odds that it answers. ``start``, ``end``: characters of the short answer.
    ``strength``: its log-odds against no short answer. ``lead``: its log-odds against the best
    other words.
    """

    score: float
    start: int
    end: int
    strength: float
    lead: float


def _read(encoding: Encoding, score: float, ends: Vectors) -> Reading:
    """The score, and the words whose first and last token have the greatest sum of logits."""
    inside = np.flatnonzero(np.array(encoding.type_ids) == 1)[:-1]  # without the border
    size = len(inside)
    if not size:
        return Reading(score, 0, 0, -_UNREAD, 0.0)
    is_answer = np.tri(size, size, _ANSWER_TOKENS - 1, dtype=bool) & ~np.tri(
        size, size, -1, dtype=bool
    )
    sums = np.where(is_answer, ends[inside, :1] + ends[inside, 1], -_UNREAD)
    first, last = np.unravel_index(int(sums.argmax()), sums.shape)
    best = float(sums[first, last])
    sums[: last + 1, first:] = -_UNREAD  # words that share some with these
    start, end = encoding.offsets[inside[first]][0], encoding.offsets[inside[last]][1]
    return Reading(score, start, end, best - float(ends[0].sum()), best - float(sums.max()))


def read_head(folder: Path) -> dict[str, Vectors]:
    """Return the weights of :data:`HEAD`."""
    with safe_open(folder / "model.safetensors", "np") as file:
        return {name: file.get_tensor(name).astype(np.float32) for name in HEAD}
