"""Records of an index and an encoder, and the pieces of a text that is encoded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

ENGLISH, CODE = (
    "en",
    "code",
)  # languages of documents, as ISO 639-1 names them, and that of source code
SentenceKind = Literal["text", "heading", "item", "row", "code", "turn", "record", "metadata"]
SENTENCE_KINDS: tuple[SentenceKind, ...] = get_args(SentenceKind)
BLOCK_KINDS = frozenset(
    {"heading", "row", "code", "record", "metadata"}
)  # of sentences that are no part of prose


class Text(Protocol):
    """A string, or a text on disk that slices like one."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: slice, /) -> str: ...


@dataclass(frozen=True, slots=True)
class Sentence:
    """Characters ``[start, end)`` of a text, white space after it included, and its ``context``."""

    start: int
    end: int
    kind: SentenceKind = "text"
    context: str = ""

    def read(self, text: Text) -> str:
        """Return its text after its context, as the encoder and the search for words read it."""
        words = text[self.start : self.end]
        return f"{self.context}: {words}" if self.context else words


@dataclass(frozen=True, slots=True)
class Window:
    """Sentences ``[first, stop)`` are encoded together; the vectors of ``[own_first, own_stop)``
    are kept.
    """

    first: int
    stop: int
    own_first: int
    own_stop: int
    tokens: int


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """How an encoder reads text; recorded in every index it makes."""

    name: str
    fingerprint: str
    dimensions: int
    pooling: str = "mean"  # what makes a sentence's vector of its token states
    window: int = 254  # tokens
    overlap: float = 0.5  # a share of the window
    landmark: str = ""  # the token inserted after each sentence, empty for none
    query_prefix: str = ""
    title_tokens: int = 0  # of a document's title, at the beginning of each of its windows


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a segment stores its vectors."""

    name: str
    description: str = ""
    # a FAISS index description, ``{lists}`` standing for a number of clusters that fits the size
    factory: str = ""
    minimum: int = 0  # a segment of fewer sentences is stored exactly instead
    train: int = 0  # how many vectors it learns from, 0 for all
    search: Mapping[str, float] = field(default_factory=dict)  # its search parameters
    tiers: tuple[tuple[int, str], ...] = ()  # (most sentences, recipe name), chosen by size


BYTE_ORDER_MARK = (
    "\ufeff"  # some editors put it before UTF-8; it stays, so that offsets are those of the file
)
# the key of an attachment's metadata that names the document of the file it is in
ATTACHED_TO = "attached_to"
NOT_COMPUTED = "(not computed)"  # stands behind the formula of a cell without a value
