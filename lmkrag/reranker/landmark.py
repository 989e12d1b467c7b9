"""Our own cross-encoders, which score every sentence of a passage at its landmark.

Three layers of BERT read the question and the passage together; a sentence's scores come from the
mean of its tokens' states, that of the question's, and late interaction: for each token of the
question the most similar token of the sentence (Khattab and Zaharia, "ColBERT", 2020), in the last
states and in the first. It is trained as a residual on the similarities of a search
(``pipelines/train/reranker_model.py`` of commit 4f1c2b7a).
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from lmkrag.encoder.loading import read_config
from lmkrag.encoder.spec import find_model
from lmkrag.encoder.tokens import prepare_tokenizer
from lmkrag.errors import EncoderError, UsageError
from lmkrag.models.bert import bert_inputs, expected_names, fuse_weights, read_weights
from lmkrag.models.device import choose_ranges, find_precision
from lmkrag.models.packing import WORDS, unpacked_names
from lmkrag.models.quantization import check_ranges, quantize
from lmkrag.models.session import AFTER, BEFORE, Session
from lmkrag.models.tokens import tokenize
from lmkrag.reranker.base import (
    DEFAULT_RERANKER,
    PASSAGE_RERANKER,
    PASSAGE_TOKENS,
    SHIPPED,
    PassageScores,
    RerankPassage,
    ScoredSentences,
    unread_scores,
)
from lmkrag.reranker.listwise import LOGITS, SHARE, ListwiseModel
from lmkrag.types.arrays import Ids, Scores, Vectors

FORMAT = 1  # of ``reranker.json``
WEIGHTS, ANSWER_BOUNDS = "weights", "bounds"
TOKEN_SIMILARITY = {AFTER: "similarity.after", BEFORE: "similarity.before"}
OUTPUTS = [LOGITS, WEIGHTS, ANSWER_BOUNDS, *TOKEN_SIMILARITY.values()]
"""Outputs of the graph. ``logits`` ``[sentences, 2]``: ranks of sentences and log-odds that they
answer, without late interaction. ``weights`` ``[question]`` of the question's tokens. ``bounds``
``[length, 2]`` of short answers. For late interaction, the similarity of the question's tokens to
all: ``[question, length]``, after and before."""

_LINEAR = ("dense", "out", "weigh", "ends")  # layers of the head
_LONGEST_ANSWER = 24  # tokens of a short answer
_QUESTION, _TITLE, _SENTENCE = 64, 16, 120  # tokens of each that are read, at most


class PairTokens(NamedTuple):
    """A question and a passage as tokens."""

    ids: Ids  # ``[tokens]``
    question: int  # tokens of the question, which follow the first one
    owners: Ids  # ``[tokens]``, the sentence that each is of, -1 for none
    offsets: Ids  # ``[tokens, 2]``, where they stand in their sentences

    @property
    def types(self) -> Ids:
        """``[tokens]``: 0 for the question, 1 for the passage."""
        types = np.ones(len(self.ids), np.int64)
        types[: self.question + 2] = 0
        return types


class PairTokenizer:
    """Tokenizes: ``[CLS] question [SEP] title <LMK> sentence <LMK> sentence <LMK> [SEP]``. State:
    the tokenizer.
    """

    def __init__(
        self, tokenizer: Tokenizer, landmark: str, passage_tokens: int = PASSAGE_TOKENS
    ) -> None:
        """Take the model's tokenizer, whose settings are changed, its landmark, and the most tokens
        of a passage.
        """
        self._passage_tokens = passage_tokens
        self._tokens = tokenizer
        (self._first,), (self._last,) = prepare_tokenizer(tokenizer)
        self._landmark = int(tokenizer.token_to_id(landmark) or 0)

    def pair(self, question: str, passage: RerankPassage) -> PairTokens:
        """Tokenize a question and a passage; sentences that do not fit are left out, long ones are
        cut.
        """
        question_ids = tokenize(self._tokens, question, _QUESTION).ids
        title = tokenize(self._tokens, passage.title, _TITLE).ids
        ids = [self._first, *question_ids, self._last, *title, *([self._landmark] if title else [])]
        owners = [-1] * len(ids)
        offsets = [(0, 0)] * len(ids)
        room = len(question_ids) + 2 + self._passage_tokens
        for number, sentence in enumerate(passage.sentences):
            tokens = tokenize(self._tokens, sentence, _SENTENCE)
            if len(ids) + len(tokens) + 2 > room:
                break
            ids += [*tokens.ids, self._landmark]
            owners += [number] * (len(tokens) + 1)
            offsets += [*tokens.offsets, (len(sentence), len(sentence))]
        return PairTokens(
            np.array([*ids, self._last], np.int64),
            len(question_ids),
            np.array([*owners, -1], np.int64),
            np.array([*offsets, (0, 0)], np.int64),
        )


class LandmarkReranker:
    """The re-ranker. State: the model. May be shared by threads.

    >>> reranker = LandmarkReranker.load()
    >>> passage = RerankPassage("Fruit", ("Pears ripen in October.", "Apples are picked in May."))
    >>> int(reranker.score("When are apples picked?", [passage])[0].argmax())
    1
    """

    def __init__(
        self,
        name: str,
        session: Session,
        match: Vectors,
        tokens: PairTokenizer,
        listwise: ListwiseModel | None,
        *,
        weight: float,
    ) -> None:
        """Take the parts; ``match`` ``[2, 2]`` weighs late interactions. Without ``listwise``,
        passages stand alone.
        """
        self.name, self.weight = name, weight
        self._session, self._match, self._tokens, self._listwise = session, match, tokens, listwise

    @classmethod
    def load(cls, name: str | None = None) -> Self:
        """Load the model of this package, or one from a folder. Raises UsageError: no such folder.
        EncoderError.
        """
        folder = find_reranker(name)
        try:
            settings, tokenizer, graph, weights = read_folder(folder)
            head, match = read_head(folder)
            passage_tokens = int(settings.get("passage_tokens", PASSAGE_TOKENS))
            tokens = PairTokenizer(tokenizer, settings["landmark"], passage_tokens)
            session, weight = Session(graph, weights | head), float(settings["weight"])
            return cls(
                name or DEFAULT_RERANKER,
                session,
                match,
                tokens,
                ListwiseModel.load(folder),
                weight=weight,
            )
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise EncoderError(f"{folder}: can't be loaded as a re-ranker ({error})") from error

    def score(self, question: str, passages: Sequence[RerankPassage]) -> list[Scores]:
        """Return how sentences rank: see :class:`lmkrag.reranker.base.Reranker`."""
        return [reading.rank for reading in self.read(question, passages)]

    def read(self, question: str, passages: Sequence[RerankPassage]) -> list[PassageScores]:
        """Read passages together with a question."""
        readings = [unread_scores(len(passage.sentences)) for passage in passages]
        pairs = [self._tokens.pair(question, passage) for passage in passages]
        readable = [
            number
            for number, pair in enumerate(pairs)
            if pair.question and pair.owners.max(initial=-1) >= 0
        ]
        runs = [_inputs(pairs[number]) for number in readable]
        for number, outputs in zip(readable, self._session.run_each(OUTPUTS, runs), strict=True):
            self._judge(pairs[number], dict(zip(OUTPUTS, outputs, strict=True)), readings[number])
        return readings

    def compare(self, read: ScoredSentences) -> Scores:
        """Return the scores of all sentences that were read: see
        :class:`lmkrag.reranker.base.ListwiseReranker`.
        """
        if self._listwise is None:
            return read.rank
        return read.rank + np.float32(SHARE) * self._listwise.score(read)

    def _judge(self, pair: PairTokens, outputs: dict[str, Vectors], reading: PassageScores) -> None:
        """Fill in the scores of a passage from outputs of the graph, if they are finite: see
        :data:`OUTPUTS`.
        """
        inside = np.flatnonzero(pair.owners >= 0)
        block = slice(inside[0], inside[-1] + 1)
        starts = np.flatnonzero(np.diff(pair.owners[block], prepend=-1))
        matches = [
            outputs[WEIGHTS]
            @ np.maximum.reduceat(outputs[TOKEN_SIMILARITY[states]][:, block], starts, axis=1)
            for states in (AFTER, BEFORE)
        ]
        read = len(starts)
        logits = outputs[LOGITS][:read] + np.stack(matches, axis=1) @ self._match.T
        if not np.isfinite(logits).all():
            return
        reading.rank[:], reading.rank[:read] = logits[:, 0].min(), logits[:, 0]
        reading.answers[:read] = logits[:, 1]
        _mark(outputs[ANSWER_BOUNDS][block], starts, pair.offsets[block], reading)


def find_reranker(name: str | None) -> Path:
    """Return the folder of a re-ranker of ours. Raises UsageError: there is none."""
    if name is None or name in (*SHIPPED, PASSAGE_RERANKER):
        return Path(__file__).with_name("weights") / (name or DEFAULT_RERANKER)
    folder = Path(name).expanduser()
    if not (folder / "reranker.json").is_file():
        raise UsageError(f"re-ranker {name!r}: no folder with a reranker.json")
    return folder


def read_folder(folder: Path) -> tuple[dict[str, Any], Tokenizer, Path, dict[str, Vectors]]:
    """Return a re-ranker's settings, tokenizer, file of the graph and BERT's weights, or raise
    EncoderError.
    """
    settings = json.loads((folder / "reranker.json").read_text("utf-8"))
    if int(settings["format"]) > FORMAT:
        raise EncoderError(f"{folder}: made by a newer lmkrag: upgrade")
    base, layers = find_model(settings["base"]), int(settings["layers"])
    _, weights = read_body(folder, base, layers)
    ranges = choose_ranges(folder, find_precision())
    if ranges is not None:
        check_ranges(ranges, weights, layers)
        weights = quantize(weights, ranges, layers)
    graph = folder / ("float32.onnx" if ranges is None else "int8.onnx")
    return settings, Tokenizer.from_file(str(base / "tokenizer.json")), graph, weights


def read_body(folder: Path, base: Path, layers: int) -> tuple[dict[str, Any], dict[str, Vectors]]:
    """Return a re-ranker's configuration and BERT, with the words of ``base`` if it has none.
    Raises EncoderError.
    """
    config = {**read_config(base), "num_hidden_layers": layers}
    weights = read_weights(folder / "model.safetensors", rows=True)
    if WORDS not in unpacked_names(weights):
        weights |= read_weights(base / "model.safetensors", only=WORDS, rows=True)
    if missing := sorted(expected_names(config) - unpacked_names(weights)):
        raise EncoderError(f"{folder}: can't be loaded as a re-ranker ({missing[0]} is missing)")
    return config, fuse_weights(weights, layers)


def read_head(folder: Path) -> tuple[dict[str, Vectors], Vectors]:
    """Return the weights of the head's layers, as the graph multiplies by them, and those of late
    interaction.
    """
    with safe_open(folder / "model.safetensors", "np") as file:
        head = {}
        for module in _LINEAR:
            weight = file.get_tensor(f"head.{module}.weight").astype(np.float32)
            head[f"head.{module}.weight"] = np.ascontiguousarray(weight.T)
            head[f"head.{module}.bias"] = file.get_tensor(f"head.{module}.bias").astype(np.float32)
        return head, file.get_tensor("head.match.weight").astype(np.float32)


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


def _mark(ends: Vectors, starts: Ids, offsets: Ids, reading: PassageScores) -> None:
    """Fill in the likeliest short answer of each sentence, from the logits ``[tokens, 2]`` of its
    ends.
    """
    first, last = (
        column - np.log(np.exp(column - column.max()).sum()) - column.max() for column in ends.T
    )
    for number, (start, stop) in enumerate(pairwise([*starts.tolist(), len(ends)])):
        tokens = stop - start - 1  # the landmark is no answer
        if not tokens:
            continue
        both = first[start : stop - 1, None] + last[None, start : stop - 1]
        both[
            ~np.tri(tokens, k=_LONGEST_ANSWER - 1, dtype=bool) | np.tri(tokens, k=-1, dtype=bool)
        ] = -np.inf
        begin, end = divmod(int(both.argmax()), tokens)
        reading.strength[number] = both[begin, end]
        reading.short[number] = offsets[start + begin][0], offsets[start + end][1]
