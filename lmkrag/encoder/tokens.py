"""Turn sentences into token ids, each with its landmark."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from tokenizers import Tokenizer

from lmkrag.models.tokens import encodable, tokenize
from lmkrag.specs import Sentence, Text

_BATCH = 256  # sentences


class Piece(NamedTuple):
    """A sentence that fits a window, and its token ids, its landmark last."""

    sentence: Sentence
    ids: list[int]


class SentenceTokenizer:
    """A tokenizer used sentence by sentence.

    The tokenizer's settings for padding and truncation are changed.

    Attributes:
        window: the most tokens of a piece, its landmark included.
        pad: the token id that fills windows up; RoBERTa counts positions by it.
        prefix: token ids before a window, such as ``[CLS]``.
        suffix: token ids after a window, such as ``[SEP]``.
        landmark: the id of the landmark in a list; an empty list if the encoder has none.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        window: int,
        landmark: str = "",
        query_prefix: str = "",
        title_tokens: int = 0,
        pad: int = 0,
    ) -> None:
        """Take a tokenizer and the settings of an encoder.

        Args:
            tokenizer: the tokenizer of the model.
            window: tokens of a window, special tokens not counted.
            landmark: the token inserted after each sentence; empty for none.
            query_prefix: text before each question, such as ``query: ``.
            title_tokens: the most tokens of a title; at most a quarter of the window is used.
            pad: the token id that fills windows up.
        """
        self.window, self.pad = window, pad
        self._tokens = tokenizer
        self.prefix, self.suffix = prepare_tokenizer(tokenizer)
        self.landmark: list[int] = [int(tokenizer.token_to_id(landmark) or 0)] if landmark else []
        self._query_prefix = query_prefix
        self._title_tokens = min(title_tokens, window // 4)

    def title(self, title: str) -> list[int]:
        """Return the token ids that begin each window of a document: its title, cut to fit, and a
        landmark.

        The list is empty if the title is, or if the encoder reads no titles.
        """
        ids = tokenize(self._tokens, title, self._title_tokens).ids
        return ids + self.landmark if ids else []

    def pieces(
        self, text: Text, sentences: Iterable[Sentence], *, taken: int = 0
    ) -> Iterator[Piece]:
        """Tokenize sentences, in batches.

        Args:
            text: the text of the document.
            sentences: sentences of the text, in order.
            taken: tokens of each window that are not for sentences, such as those of the title.

        Yields:
            A piece for each sentence. A sentence that does not fit a window is split at white space
                into several.
        """
        budget = self.window - taken - len(self.landmark)
        remaining = iter(sentences)
        while batch := list(islice(remaining, _BATCH)):
            texts = [encodable(sentence.read(text)) for sentence in batch]
            encodings = self._tokens.encode_batch_fast(texts, add_special_tokens=False)
            for sentence, encoding in zip(batch, encodings, strict=True):
                if len(encoding.ids) <= budget:
                    yield Piece(sentence, encoding.ids + self.landmark)
                else:
                    yield from self._split(
                        sentence, encodable(text[sentence.start : sentence.end]), budget
                    )

    def _split(self, sentence: Sentence, part: str, budget: int) -> Iterator[Piece]:
        """Yield the pieces of a sentence that has more tokens than fit a window."""
        start = sentence.start
        encoding = self._tokens.encode(part, add_special_tokens=False)
        while len(encoding.ids) > budget:
            cut = _cut(part, encoding.offsets, budget)
            head = self._tokens.encode(part[:cut], add_special_tokens=False)
            # A piece alone may have a few more tokens than in place: only its vector lacks those.
            yield Piece(
                Sentence(start, start + cut, sentence.kind), head.ids[:budget] + self.landmark
            )
            start, part = start + cut, part[cut:]
            encoding = self._tokens.encode(part, add_special_tokens=False)
        yield Piece(Sentence(start, sentence.end, sentence.kind), encoding.ids + self.landmark)

    def query(self, query: str) -> Piece:
        """Tokenize a question with its prefix and landmark, cut to a window."""
        text = self._query_prefix + query
        ids = tokenize(self._tokens, text, self.window - len(self.landmark)).ids
        return Piece(Sentence(0, len(text)), ids + self.landmark)

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, special tokens and landmarks not counted."""
        return len(self._tokens.encode(encodable(text), add_special_tokens=False).ids)


def prepare_tokenizer(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Set a tokenizer up to read texts whole, and special tokens in a text as text.

    Returns:
        The token ids that it adds before a text, and those after it.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # a literal "[SEP]" in a document is text
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    framed = tokenizer.encode("a").ids
    for start in range(len(framed) - len(bare) + 1):
        if framed[start : start + len(bare)] == bare:
            return framed[:start], framed[start + len(bare) :]
    return [], []


def _cut(text: str, offsets: list[tuple[int, int]], budget: int) -> int:
    """Return where to cut a text so that its head has at most ``budget`` tokens.

    The cut is after the last white space in the second half of the head, else after a token.
    """
    limit = offsets[budget][0] or 1
    return next(
        (position for position in range(limit, limit // 2, -1) if text[position - 1].isspace()),
        limit,
    )
