"""Turn sentences into tokens, each with its landmark, and windows of them into the tensors a model reads."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from lmkrag.encoder.spec import encodable
from lmkrag.types import Sentence, Text

_BATCH = 256  # sentences


class Piece(NamedTuple):
    """A sentence and its token ids, its landmark last."""

    sentence: Sentence
    ids: list[int]


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows side by side.

    ``input_ids``, ``attention_mask`` and ``owner`` are ``[windows, width]`` int64; ``is_landmark`` is the same shape,
    bool. ``owner`` is the sentence, counted through the batch, that a token belongs to; ``count``, the number of
    sentences, for special tokens and padding.
    """

    input_ids: Tensor
    attention_mask: Tensor
    owner: Tensor
    is_landmark: Tensor
    count: int

    def to(self, device: torch.device) -> Self:
        """Return the same on a device."""
        return replace(
            self,
            input_ids=self.input_ids.to(device),
            attention_mask=self.attention_mask.to(device),
            owner=self.owner.to(device),
            is_landmark=self.is_landmark.to(device),
        )


class SentenceTokenizer:
    """A fast tokenizer of Hugging Face, used sentence by sentence.

    Args:
        tokenizer: the model's.
        window: tokens a window, special tokens not counted; no piece is longer.
        landmark: the token that ends each sentence, none if empty.
        query_prefix: what comes before a question.
    """

    def __init__(self, tokenizer: Any, *, window: int, landmark: str = "", query_prefix: str = "") -> None:
        self.window = window
        self.prefix, self.suffix = special_tokens(tokenizer)
        self._tokens = tokenizer.backend_tokenizer  # calling the tokenizer itself would undo what follows
        self._tokens.no_truncation()
        self._tokens.no_padding()
        self._tokens.encode_special_tokens = True  # a literal "[SEP]" in a document is text
        self._pad = tokenizer.pad_token_id or 0
        self._landmark = [tokenizer.convert_tokens_to_ids(landmark)] if landmark else []
        self._query_prefix = query_prefix

    def pieces(self, text: Text, sentences: Iterable[Sentence]) -> Iterator[Piece]:
        """Tokenize sentence by sentence, and split those that no window holds at white space."""
        budget = self.window - len(self._landmark)
        remaining = iter(sentences)
        while batch := list(islice(remaining, _BATCH)):
            texts = [encodable(text[sentence.start : sentence.end]) for sentence in batch]
            encodings = self._tokens.encode_batch(texts, add_special_tokens=False)
            for sentence, encoding in zip(batch, encodings, strict=True):
                while len(encoding.ids) > budget:
                    cut = sentence.start + _cut(text[sentence.start : sentence.end], encoding.offsets, budget)
                    head = self._tokens.encode(encodable(text[sentence.start : cut]), add_special_tokens=False)
                    # A piece tokenizes almost as it did in place; what little it gains is cut off its vector only.
                    yield Piece(Sentence(sentence.start, cut, sentence.kind), head.ids[:budget] + self._landmark)
                    sentence = Sentence(cut, sentence.end, sentence.kind)
                    encoding = self._tokens.encode(encodable(text[cut : sentence.end]), add_special_tokens=False)
                yield Piece(sentence, encoding.ids + self._landmark)

    def landmarks(self, text: str, sentences: Iterable[Sentence], *, interval: int = 0) -> list[list[int]]:
        """Return a text's token ids, cut after each sentence or each ``interval`` tokens, landmarks there."""
        if not interval:
            return [piece.ids for piece in self.pieces(text, sentences)]
        ids = self._tokens.encode(encodable(text), add_special_tokens=False).ids
        return [ids[first : first + interval] + self._landmark for first in range(0, len(ids), interval)]

    def query(self, query: str) -> Piece:
        """Tokenize a question; what no window holds is cut off."""
        text = encodable(self._query_prefix + query)
        ids = self._tokens.encode(text, add_special_tokens=False).ids[: self.window - len(self._landmark)]
        return Piece(Sentence(0, len(text)), ids + self._landmark)

    def count(self, text: str) -> int:
        """Return how many tokens ``text`` is, special tokens and landmarks not counted."""
        return len(self._tokens.encode(encodable(text), add_special_tokens=False).ids)

    def pack(self, windows: Sequence[Sequence[Sequence[int]]]) -> Batch:
        """Lay windows, each a list of sentences' token ids, side by side."""
        rows = [[*self.prefix, *(token for ids in window for token in ids), *self.suffix] for window in windows]
        width = max(map(len, rows))
        total = sum(map(len, windows))
        input_ids = torch.full((len(rows), width), self._pad, dtype=torch.long)
        owner = torch.full((len(rows), width), total, dtype=torch.long)
        is_landmark = torch.zeros((len(rows), width), dtype=torch.bool)
        sentence = 0
        for row, (window, tokens) in enumerate(zip(windows, rows, strict=True)):
            input_ids[row, : len(tokens)] = torch.tensor(tokens)
            column = len(self.prefix)
            for ids in window:
                end = column + len(ids)
                owner[row, column:end] = sentence
                if self._landmark:
                    is_landmark[row, end - 1] = True
                column, sentence = end, sentence + 1
        lengths = torch.tensor([len(tokens) for tokens in rows])
        mask = (torch.arange(width)[None] < lengths[:, None]).long()
        return Batch(input_ids, mask, owner, is_landmark, total)


def special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return what the tokenizer puts before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    dressed = tokenizer("a")["input_ids"]
    for start in range(len(dressed) - len(bare) + 1):
        if dressed[start : start + len(bare)] == bare:
            return dressed[:start], dressed[start + len(bare) :]
    return [], []


def _cut(text: str, offsets: list[tuple[int, int]], budget: int) -> int:
    """Where to cut ``text`` so that its head has at most ``budget`` tokens: the last white space, else a token."""
    limit = offsets[budget][0] or 1
    for position in range(limit, limit // 2, -1):
        if text[position - 1].isspace():
            return position
    return limit
