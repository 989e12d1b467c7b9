"""``landmark-reranker``: our own cross-encoder, which scores every sentence of a place at its landmark.

Three layers of BERT read the question and the place together; a sentence's scores come from the mean of its tokens'
states, that of the question's, and late interaction: for each token of the question the most similar token of the
sentence (Khattab and Zaharia, "ColBERT", 2020), in the last states and in the first. It is trained as a residual on
the similarities of a search (``lmkrag/training/reranking.py``).
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from lmkrag.arrays import Ids, Scores, Vectors
from lmkrag.encoder.bert import Bert, expected_names, gelu, read_weights
from lmkrag.encoder.spec import find_model
from lmkrag.errors import EncoderError, UsageError
from lmkrag.reranker.base import Place
from lmkrag.reranker.inputs import PairTokenizer, PairTokens

DEFAULT_RERANKER = "landmark-reranker"
"""Our own, in this package."""

FORMAT = 1
"""Of ``reranker.json``."""

_HEAD = (
    "dense.weight",
    "dense.bias",
    "out.weight",
    "out.bias",
    "weigh.weight",
    "weigh.bias",
    "match.weight",
    "ends.weight",
    "ends.bias",
)
_LONGEST_ANSWER = 24  # tokens of a short answer
_NEVER = -20  # log-odds of what was not read


class Reading(NamedTuple):
    """What the model says of the sentences of a place.

    ``rank`` ``[sentences]`` is how each ranks, ``answers`` the log-odds that it answers. ``short`` ``[sentences, 2]``
    are the characters of each that would be the short answer, ``strength`` the logarithm of the probability that these,
    of all in the place, are it. Sentences that did not fit rank as the lowest of the others, and have no short answer.
    """

    rank: Scores
    answers: Scores
    short: Ids
    strength: Scores


class LandmarkReranker:
    """The re-ranker in NumPy. State: the model. May be shared by threads.

    >>> reranker = LandmarkReranker.load()
    >>> place = Place("Fruit", ("Pears ripen in October.", "Apples are picked in May."))
    >>> int(reranker.score("When are apples picked?", [place])[0].argmax())
    1
    """

    def __init__(
        self, name: str, bert: Bert, head: dict[str, Vectors], tokens: PairTokenizer, *, weight: float
    ) -> None:
        """Take the parts; :meth:`load` builds them."""
        self.name, self.weight = name, weight
        self._bert, self._head, self._tokens = bert, head, tokens

    @classmethod
    def load(cls, name: str | None = None) -> Self:
        """Load the model of this package, or one from a folder.

        Raises:
            UsageError: no such folder. EncoderError: what is in it can't be loaded.
        """
        folder = find_reranker(name)
        try:
            settings = json.loads((folder / "reranker.json").read_text("utf-8"))
            if int(settings["format"]) > FORMAT:
                raise EncoderError(f"{folder}: made by a newer lmkrag: upgrade")
            base = find_model(settings["base"])
            config = json.loads((base / "config.json").read_text("utf-8"))
            config["num_hidden_layers"] = int(settings["layers"])
            words = read_weights(base / "model.safetensors", only="embeddings.word_embeddings.weight")
            weights = {**words, **read_weights(folder / "model.safetensors")}
            if missing := sorted(expected_names(config) - weights.keys()):
                raise EncoderError(f"{folder}: can't be loaded as a re-ranker ({missing[0]} is missing)")
            head = _read_head(folder / "model.safetensors")
            tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
            tokens = PairTokenizer(tokenizer, settings["landmark"])
            return cls(
                name or DEFAULT_RERANKER,
                Bert(weights, config),
                head,
                tokens,
                weight=float(settings["weight"]),
            )
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise EncoderError(f"{folder}: can't be loaded as a re-ranker ({error})") from error

    def score(self, question: str, places: Sequence[Place]) -> list[Scores]:
        """Return how sentences rank: see :class:`lmkrag.reranker.base.Reranker`."""
        return [reading.rank for reading in self.read(question, places)]

    def read(self, question: str, places: Sequence[Place]) -> list[Reading]:
        """Read places together with a question, all in one pass."""
        pairs = self._tokens.pairs(question, places)
        if not pairs:
            return []
        lengths = [len(pair.ids) for pair in pairs]
        before = self._bert.embed(
            np.concatenate([pair.ids for pair in pairs]), lengths, np.concatenate([pair.types for pair in pairs])
        )
        after = self._bert.run(before, lengths)
        readings, start = [], 0
        for pair, place, length in zip(pairs, places, lengths, strict=True):
            part = slice(start, start := start + length)
            readings.append(self._judge(pair, before[part], after[part], len(place.sentences)))
        return readings

    def _judge(self, pair: PairTokens, before: Vectors, after: Vectors, sentences: int) -> Reading:
        """What the head makes of the states before the first layer and after the last, ``[tokens, dimensions]``."""
        inside = np.flatnonzero(pair.owners >= 0)
        if not len(inside) or not pair.question:
            return _nothing_read(sentences)
        head = self._head
        asked, block = slice(1, 1 + pair.question), slice(inside[0], inside[-1] + 1)
        starts = np.flatnonzero(np.diff(pair.owners[block], prepend=-1))
        counts = np.diff([*starts, len(inside)])[:, None]
        means = np.add.reduceat(after[block], starts, axis=0) / counts
        weights = _softmax((after[asked] @ head["weigh.weight"].T + head["weigh.bias"])[:, 0])
        matches = [
            weights @ np.maximum.reduceat(_unit(states[asked]) @ _unit(states[block]).T, starts, axis=1)
            for states in (after, before)
        ]
        features = np.concatenate([means, means * (4 * after[asked].mean(0))], axis=1)
        hidden = gelu(features @ head["dense.weight"].T + head["dense.bias"])
        logits = hidden @ head["out.weight"].T + head["out.bias"]
        logits = logits + np.stack(matches, axis=1) @ head["match.weight"].T
        if not np.isfinite(logits).all():
            return _nothing_read(sentences)
        ends = after[block] @ head["ends.weight"].T + head["ends.bias"]
        reading = _nothing_read(sentences)
        read = len(starts)
        reading.rank[:], reading.rank[:read] = logits[:, 0].min(), logits[:, 0]
        reading.answers[:read] = logits[:, 1]
        _mark(ends, starts, pair.offsets[block], reading)
        return reading


def find_reranker(name: str | None) -> Path:
    """Return the folder of a re-ranker of ours.

    Raises:
        UsageError: there is none.
    """
    if name is None or name == DEFAULT_RERANKER:
        return Path(__file__).with_name("weights") / DEFAULT_RERANKER
    folder = Path(name).expanduser()
    if not (folder / "reranker.json").is_file():
        raise UsageError(f"re-ranker {name!r}: no folder with a reranker.json")
    return folder


def _read_head(path: Path) -> dict[str, Vectors]:
    with safe_open(path, "np") as file:
        return {name: file.get_tensor(f"head.{name}").astype(np.float32) for name in _HEAD}


def _nothing_read(sentences: int) -> Reading:
    return Reading(
        np.zeros(sentences, np.float32),
        np.full(sentences, _NEVER, np.float32),
        np.zeros((sentences, 2), np.int64),
        np.full(sentences, _NEVER, np.float32),
    )


def _mark(ends: Vectors, starts: Ids, offsets: Ids, reading: Reading) -> None:
    """Find the likeliest short answer of each sentence, from what the head says of its tokens ``[tokens, 2]``."""
    first, last = (column - np.log(np.exp(column - column.max()).sum()) - column.max() for column in ends.T)
    for number, (start, stop) in enumerate(pairwise([*starts.tolist(), len(ends)])):
        tokens = stop - start - 1  # the landmark is no answer
        if not tokens:
            continue
        both = first[start : stop - 1, None] + last[None, start : stop - 1]
        both[~np.tri(tokens, k=_LONGEST_ANSWER - 1, dtype=bool) | np.tri(tokens, k=-1, dtype=bool)] = -np.inf
        begin, end = divmod(int(both.argmax()), tokens)
        reading.strength[number] = both[begin, end]
        reading.short[number] = offsets[start + begin][0], offsets[start + end][1]


def _softmax(logits: Scores) -> Scores:
    weights = np.exp(logits - logits.max())
    softmax: Scores = weights / weights.sum()
    return softmax


def _unit(states: Vectors) -> Vectors:
    unit: Vectors = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-12)
    return unit
