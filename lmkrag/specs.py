"""Records of an index and an encoder, and the pieces of a text that is encoded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

# languages of documents, as ISO 639-1 names them, and that of source code
ENGLISH, CODE = ("en", "code")
CHAT = "chat"  # the kind of documents whose text is messages
SentenceKind = Literal["text", "heading", "item", "row", "code", "turn", "record", "metadata"]
SENTENCE_KINDS: tuple[SentenceKind, ...] = get_args(SentenceKind)
# of sentences that are no part of prose
BLOCK_KINDS = frozenset({"heading", "row", "code", "record", "metadata"})


class Text(Protocol):
    """A string, or a text on disk that can be sliced like a string."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: slice, /) -> str: ...


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text, with the white space after it.

    Attributes:
        start: offset of its first character.
        end: offset of the character after its last one, white space included.
        kind: what it is, such as ``heading`` or ``row``.
        context: the words that it is read with, such as the columns of its table; empty for none.
    """

    start: int
    end: int
    kind: SentenceKind = "text"
    context: str = ""

    def read(self, text: Text) -> str:
        """Return its text after its context, as the encoder and the lexical index read it."""
        words = text[self.start : self.end]
        return f"{self.context}: {words}" if self.context else words


@dataclass(frozen=True, slots=True)
class Window:
    """A range of sentences that are encoded together.

    Attributes:
        first: ordinal of the first sentence.
        stop: ordinal after the last one.
        own_first: ordinal of the first sentence whose vector is taken from this window.
        own_stop: ordinal after the last such sentence.
        tokens: number of tokens of its sentences, landmarks included.
    """

    first: int
    stop: int
    own_first: int
    own_stop: int
    tokens: int


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """How an encoder reads text; every index records the one that made it.

    Attributes:
        name: a folder, a hub name, or that of a packaged encoder.
        fingerprint: hash of everything that vectors depend on.
        dimensions: length of a vector.
        pooling: how the states of tokens become the vector of a sentence: see
            :class:`lmkrag.encoder.torch_model.Pooling`.
        window: tokens of a window, special tokens not counted.
        overlap: share of a window that the next one repeats, at least 0 and below 1.
        landmark: the token after each sentence; empty for none.
        query_prefix: text before each question.
        title_tokens: the most tokens of a document's title, which begins each of its windows.
    """

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
    """How a segment stores its vectors.

    Attributes:
        name: name of the recipe.
        description: what it is good for, in one line.
        factory: a FAISS factory string, in which ``{lists}`` stands for a number of clusters that
            fits the size; empty for tiers.
        minimum: the least number of sentences; a smaller segment is stored exactly.
        train: maximum number of vectors that clusters are learnt from; 0 for all.
        search: FAISS's parameters of a search, by name.
        tiers: (maximum number of sentences, name of a recipe), by which the size chooses; 0 for no
            maximum.
    """

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
