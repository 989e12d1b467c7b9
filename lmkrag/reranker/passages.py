"""Cross-encoders of passages: BERT reads a question with a passage and the passage's place.

It reads `[CLS] question [SEP] place passage [SEP]`. One reading gives all that is said about a
passage: whether it answers, which of its sentences answers, and where a short answer begins and
ends (Devlin et al., "BERT", 2019, section 4.3).

The last layers of a model may be there twice: one set orders all passages of a search, the other
judges the first of them, from the same states of the layers below. Trained for both, one set loses
in order what it gains in telling an answer from what nearly answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
from safetensors import safe_open
from tokenizers import Encoding, Tokenizer

from lmkrag.encoder.tokens import prepare_tokenizer
from lmkrag.language.quantities import respell
from lmkrag.models.bert import bert_inputs
from lmkrag.models.session import Session
from lmkrag.models.tokens import tokenize
from lmkrag.reranker.base import DEFAULT_RERANKER, PlacedText, ReadingReranker, Words
from lmkrag.reranker.folders import (
    ANSWERS,
    find_reranker,
    read_answer_layers,
    read_folder,
    refuse_broken,
)
from lmkrag.system.processes import computed_once
from lmkrag.types.arrays import Ids, Scores, Vectors

PASSAGE_LOGITS, TOKEN_LOGITS = OUTPUTS = ("passage_logits", "token_logits")
"""Outputs of the graph for one question and passage, float32.

`[1, 2]`: that the passage answers, and that it has the whole answer, which nothing uses.
`[tokens, 3]`: that a short answer begins at the token, that it ends there, and that the token's
sentence answers.
"""

STATES = "states"
"""Output of the graph, ``[tokens, dimensions]`` float32, and ``[1, tokens, dimensions]`` input of
that of the layers that judge: the states of the layers below these.
"""

HEADS = {"passage": ("classifier", "complete"), "token": ("ends", "sentence")}
"""The layers behind each output, by the names that training gives them."""

_TOKENS = 400  # of a question, a place and a passage that are read, with three special ones
_QUESTION_TOKENS = 256  # of the question among them, at most
_PLACE_TOKENS = 40  # of the place, at most
_ANSWER_TOKENS = 24  # of a short answer, at most
_REMEMBERED = 128  # readings: those of the last questions, at most 24 of each
_IMPOSSIBLE = -1e9  # the logit of words that are no short answer


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What a passage says to a question.

    Attributes:
        score: log-odds that the passage answers.
        offsets: ``[tokens, 2]``, the characters of each of its tokens.
        logits: ``[tokens, 3]`` float32, of the last axis of :data:`TOKEN_LOGITS`.
        no_answer: the sum of the logits of no short answer.
        places: ``[tokens]``, where its tokens stand in what was read.
        states: ``[all tokens, dimensions]`` float16, which the layers that judge read; None where
            there are none, and where these have read.
    """

    score: float
    offsets: Ids
    logits: Vectors
    no_answer: float
    places: Ids
    states: Vectors | None

    def score_sentence(self, start: int, end: int) -> float:
        """Return the log-odds that characters ``[start, end)`` answer; -inf if they were not read.

        >>> reranker = PassageReranker.load()
        >>> text = "Pears ripen in October. Apples are picked in May."
        >>> (reading,) = reranker.read("When are apples picked?", [PlacedText("", text)])
        >>> reading.score_sentence(24, 49) > reading.score_sentence(0, 23)
        True
        """
        inside = self._find_tokens(start, end)
        return float(self.logits[inside, 2].mean()) if inside.stop > inside.start else -np.inf

    def find_words(self, start: int, end: int) -> Words | None:
        """Return the likeliest short answer within characters ``[start, end)``, None if not read.

        >>> reranker = PassageReranker.load()
        >>> text = "Pears ripen in October. Apples are picked in May."
        >>> (reading,) = reranker.read("When are apples picked?", [PlacedText("", text)])
        >>> words = reading.find_words(24, 49)
        >>> text[words.start : words.end]
        'May'
        """
        inside = self._find_tokens(start, end)
        size = inside.stop - inside.start
        if size < 1:
            return None
        sums = self.logits[inside, None, 0] + self.logits[None, inside, 1]
        is_short = np.tri(size, size, _ANSWER_TOKENS - 1, dtype=bool)
        is_forward = ~np.tri(size, size, -1, dtype=bool)
        sums = np.where(is_short & is_forward, sums, _IMPOSSIBLE)
        first, last = (int(place) for place in np.unravel_index(sums.argmax(), sums.shape))
        best = float(sums[first, last])
        sums[: last + 1, first:] = _IMPOSSIBLE  # words that share some with these
        others = max(float(sums.max()), self.no_answer)
        tokens = self.offsets[inside]
        return Words(
            int(tokens[first, 0]), int(tokens[last, 1]), best - self.no_answer, best - others
        )

    def _find_tokens(self, start: int, end: int) -> slice:
        """The tokens that begin within characters ``[start, end)``."""
        first, stop = np.searchsorted(self.offsets[:, 0], [start, end])
        return slice(int(first), int(stop))


class PassageReranker(ReadingReranker):
    """Reads passages, each with a question. May be shared by threads.

    State: the model and its last readings, which a reader of answers reuses from the search.

    >>> reranker = PassageReranker.load()
    >>> texts = ["Pears ripen in October.", "Apples are picked in May."]
    >>> passages = [PlacedText("Fruit", text) for text in texts]
    >>> int(reranker.score("When are apples picked?", passages).argmax())
    1
    """

    def __init__(
        self,
        name: str,
        session: Session,
        tokenizer: Tokenizer,
        start_judge: Callable[[], Session] | None,
    ) -> None:
        """Take the model, its tokenizer, whose settings are changed, and what starts the layers
        that judge, if there are any: see :meth:`load`.
        """
        self.name, self._session, self._tokenizer = name, session, tokenizer
        self._start_judge = start_judge
        # Replaced, never changed: threads share it.
        self._readings: dict[tuple[str, PlacedText], Reading] = {}
        prepare_tokenizer(tokenizer)

    @classmethod
    def load(cls, name: str = DEFAULT_RERANKER) -> Self:
        """Load a model of this package, by its name, or one from a folder.

        Raises:
            UsageError: there is no such folder.
            EncoderError: it is broken.
        """
        folder = find_reranker(name)
        with refuse_broken(folder):
            settings, tokenizer, graph, weights = read_folder(folder)
            session = Session(graph, weights | read_heads(folder))
            layers = settings.get("answer_layers")
            start = partial(_start_judge, folder, layers) if layers else None
            return cls(name, session, tokenizer, start)

    @computed_once
    def _judge(self) -> Session:
        """The layers that judge, which a search without an answer does not need."""
        assert self._start_judge is not None
        return self._start_judge()

    def read(self, question: str, passages: Sequence[PlacedText]) -> list[Reading]:
        """Read passages with a question; one that was read lately with it is not read again."""
        asked = tokenize(self._tokenizer, question, _QUESTION_TOKENS)
        question = question[: asked.offsets[-1][1]] if asked.offsets else ""
        pairs = [(question, passage) for passage in passages]
        readings = self._readings
        new = [pair for pair in dict.fromkeys(pairs) if pair not in readings]
        if new:
            encoded = [self._encode(*pair) for pair in new]
            inputs = [
                bert_inputs(np.array([each.ids]), np.array([each.type_ids])) for each, _ in encoded
            ]
            names = OUTPUTS if self._start_judge is None else (*OUTPUTS, STATES)
            outputs = self._session.run_each(names, inputs)
            readings = dict(readings)
            for pair, (encoding, place), output in zip(new, encoded, outputs, strict=True):
                # The passage's tokens follow those of its place; the last one is a border.
                places = np.flatnonzero(np.array(encoding.type_ids) == 1)[place:-1]
                offsets = np.array(encoding.offsets, np.int64)[places].reshape(-1, 2)
                readings[pair] = _make_reading(offsets, places, *output)
            self._readings = dict(list(readings.items())[-_REMEMBERED:])
        return [readings[pair] for pair in pairs]

    def judge(self, question: str, passages: Sequence[PlacedText]) -> list[Reading]:
        """Read passages with a question by the layers that judge.

        Raises EncoderError: these can't be loaded, the first time.
        """
        readings = self.read(question, passages)
        if self._start_judge is None:
            return readings
        runs = [{STATES: np.asarray(each.states, np.float32)[None]} for each in readings]
        return [
            _make_reading(reading.offsets, reading.places, *output)
            for reading, output in zip(readings, self._judge.run_each(OUTPUTS, runs), strict=True)
        ]

    def _encode(self, question: str, passage: PlacedText) -> tuple[Encoding, int]:
        """A question and a passage as tokens, and how many of these are the place."""
        written = respell(question, "\n".join(passage))
        asked = tokenize(self._tokenizer, written, _QUESTION_TOKENS)
        place = tokenize(self._tokenizer, passage.place, _PLACE_TOKENS)
        special = self._tokenizer.num_special_tokens_to_add(is_pair=True)
        room = _TOKENS - special - len(asked) - len(place)
        told = Encoding.merge([place, tokenize(self._tokenizer, passage.text, room)], False)
        return self._tokenizer.post_process(asked, told), len(place)


def _start_judge(folder: Path, layers: int) -> Session:
    """Start the layers that judge. Raises EncoderError: they can't be loaded."""
    with refuse_broken(folder):
        graph, weights = read_answer_layers(folder, layers)
        return Session(graph, weights | read_heads(folder / ANSWERS))


def _make_reading(
    offsets: Ids, places: Ids, passage: Scores, tokens: Vectors, states: Vectors | None = None
) -> Reading:
    """A reading from outputs of a graph for a passage whose tokens stand at some places."""
    return Reading(
        score=float(passage[0, 0]),
        offsets=offsets,
        logits=tokens[places],
        no_answer=float(tokens[0, :2].sum()),
        places=places,
        states=None if states is None else states.astype(np.float16),
    )


def read_heads(folder: Path) -> dict[str, Vectors]:
    """Return the weights above BERT: of the pooler, and of the layers of each of :data:`HEADS`."""
    with safe_open(folder / "model.safetensors", "np") as file:

        def read(layers: Sequence[str], kind: str) -> Vectors:
            return np.concatenate([file.get_tensor(f"{layer}.{kind}") for layer in layers]).astype(
                np.float32
            )

        heads = {"pooler.dense": ("pooler.dense",), **HEADS}
        return {
            f"{name}.{kind}": read(layers, kind)
            for name, layers in heads.items()
            for kind in ("weight", "bias")
        }
