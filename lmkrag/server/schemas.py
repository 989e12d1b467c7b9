"""What requests and responses look like; ``/openapi.json`` is made of it."""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, StrictBool, create_model, model_validator

from lmkrag import serialization
from lmkrag.engine import Engine
from lmkrag.errors import UsageError
from lmkrag.evidence.checking import CitationCheck
from lmkrag.evidence.quotations import read_quotations
from lmkrag.results import Answer, CitationRecord, Span, SpanList
from lmkrag.search.outline import Heading, outline
from lmkrag.search.request import (
    AskOptions,
    SearchOptions,
    SearchRequest,
    refuse_unknown,
    to_pydantic,
)
from lmkrag.serialization import TextReply
from lmkrag.server.settings import IndexingProgress
from lmkrag.types import MAX_DOC_ID, Document, DocumentInfo

MAX_QUERY = 10_000  # characters of a question
MAX_HISTORY = 20  # exchanges before a question
MAX_CITATIONS, MAX_QUOTE = 200, 20_000  # citations that a request may hold, and characters of one
_OUTLINED = 2_000_000  # characters of a document
MAX_BATCH = 64  # questions of one request
Question = Annotated[
    str, Field(min_length=1, max_length=MAX_QUERY, examples=["how is leave accrued?"])
]
IndexName = Annotated[
    str | None,
    Field(max_length=200, description="Name of the index; may be left out when there is one."),
]


def drop_blank(given: Mapping[str, Any], required: Collection[str]) -> dict[str, Any]:
    """Return arguments without the blank ones that may be left out, which language models and forms
    fill in.
    """
    return {
        name: value
        for name, value in given.items()
        if name in required or not isinstance(value, str) or value.strip()
    }


class Described(BaseModel):
    """A model that the strings below its fields describe, and that reads attributes, too."""

    model_config = ConfigDict(use_attribute_docstrings=True, from_attributes=True)


class Lenient(Described):
    """A request in which options may be blank; where unknown ones are forbidden, the error has a
    hint.
    """

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        if cls.model_config.get("extra") == "forbid":
            refuse_unknown(body, cls.model_fields)
        required = [name for name, field in cls.model_fields.items() if field.is_required()]
        return drop_blank(body, required)


class _Request(Lenient):
    model_config = ConfigDict(extra="forbid")

    def options(self) -> dict[str, Any]:
        """Return the options of a search that this asks for."""
        return self.model_dump(include={option.name for option in fields(SearchRequest)})


class _IndexRequest(_Request):
    index: IndexName = None


WithBlocks = Annotated[
    StrictBool, Field(description="Also return what is shown of each text, as a tree of elements.")
]
AskFields: Any = create_model(
    "AskFields", __base__=_IndexRequest, **to_pydantic(AskOptions.__annotations__)
)
SearchFields: Any = create_model(
    "SearchFields", __base__=_IndexRequest, **to_pydantic(SearchOptions.__annotations__)
)


class SearchBody(SearchFields):  # type: ignore[misc]  # made of the options of a search
    """A search."""

    query: Question
    blocks: WithBlocks = False


class SearchQuery(_IndexRequest):
    """A search in the address of a request."""

    q: Question
    top_k: int | None = None
    filter: str | None = Field(None, max_length=MAX_QUERY)
    since: str | None = None
    until: str | None = None


class BatchBody(SearchFields):  # type: ignore[misc]
    """Several searches, in one state of the index."""

    queries: list[str] = Field(
        min_length=1,
        max_length=MAX_BATCH,
        description=(
            f"Each has at most {MAX_QUERY:,} characters; one that can't be searched gets an error."
        ),
    )

    def search(self, engine: Engine) -> list[SpanList | UsageError]:
        """Search for each question; the error of one that is blank or too long takes the place of
        its results.
        """
        fit = [query for query in self.queries if len(query) <= MAX_QUERY]
        results = iter(engine.search_many(fit, **self.options()))
        too_long = UsageError(f"a question has at most {MAX_QUERY:,} characters")
        return [next(results) if len(query) <= MAX_QUERY else too_long for query in self.queries]


class AskBody(AskFields):  # type: ignore[misc]
    """A question to be answered."""

    question: Question
    explain: StrictBool = False
    """Explain why each passage was found."""
    history: list[tuple[Question, str]] = Field([], max_length=MAX_HISTORY)
    """Questions and answers before this one, oldest first."""
    stream: StrictBool = False
    """Answer as server-sent events: spans, text, ..., answer (or error)."""
    blocks: WithBlocks = False


Blocks = list[dict[str, Any]]  # what is shown of a text: see :data:`lmkrag.rendering.tree.Node`


def describe(kind: type, *, required: bool = False, **types: Any) -> dict[str, Any]:
    """Return the JSON of a dataclass as fields for ``pydantic.create_model``.

    Args:
        kind: a dataclass, whose ``derived`` properties become fields, too.
        required: whether the JSON always has all fields, also those with defaults.
        types: of fields whose JSON is of another type than the dataclass has.

    Returns:
        (type, ``Field``) by name.
    """
    hints: dict[str, Any] = get_type_hints(kind) | types
    described: dict[str, Any] = {}
    for declared in fields(kind):
        default: Any = declared.default
        if declared.default_factory is not MISSING:
            default = declared.default_factory()
        if required or default is MISSING:
            default = ...
        described[declared.name] = hints[declared.name], Field(default, **declared.metadata)
    for name, text in getattr(kind, "derived", {}).items():
        returned = get_type_hints(getattr(kind, name).fget)["return"]
        described[name] = returned, Field(description=text)
    return described


def to_model(kind: type, **types: Any) -> Any:
    """Return a pydantic model of the JSON of a dataclass.

    Args:
        kind: the dataclass, which gives the model its name and description.
        types: of fields whose JSON is of another type than the dataclass has.
    """
    return create_model(
        kind.__name__, __base__=Described, __doc__=kind.__doc__, **describe(kind, **types)
    )


SpanModel: Any = create_model("Span", **describe(Span))
_SPANS: Any = {"spans": list[SpanModel], "blocks": list[Blocks] | None}

SpansReply = to_model(serialization.SpansReply, **_SPANS)
BatchResult: Any = to_model(serialization.BatchResult, **_SPANS)
BatchReply = to_model(serialization.BatchReply, results=list[BatchResult])
AnswerReply: Any = create_model(
    "AnswerReply",
    __doc__="An answer; ``found`` is false when the documents do not answer the question.",
    question=(str, ...),
    **describe(Answer, required=True, citations=list[CitationRecord], spans=list[SpanModel]),
    blocks=(Blocks | None, Field(None, description="With `blocks`: what is shown of the answer.")),
)


def find_info(engine: Engine, doc_id: str) -> DocumentInfo:
    """Return what an index knows of a document. Raises DocumentNotFound: it is not in the index."""
    (info,) = engine.documents(doc_ids=[doc_id])
    return info


@dataclass(frozen=True, slots=True)
class Excerpt(TextReply):
    """Characters ``[start, end)`` of a document that has ``characters``."""

    title: str

    @classmethod
    def read(cls, engine: Engine, doc_id: str, start: int, end: int | None, *, most: int) -> Self:
        """Read at most ``most`` of characters ``[start, end)``. Raises DocumentNotFound: it is not
        in the index.
        """
        info = find_info(engine, doc_id)
        first = min(start, info.characters)
        last = first + most if end is None else min(end, first + most)
        text = engine.read(doc_id, first, last)
        return cls(doc_id, first, first + len(text), text, info.characters, info.title)


class PlaceModel(BaseModel):
    """Where text stands on a page: (left, top, right, bottom) as shares of its width and height."""

    page: int
    rectangles: list[tuple[float, float, float, float]]


class PlacesReply(BaseModel):
    """Where text stands on the pages of a PDF."""

    places: list[PlaceModel]


class BlocksReply(BaseModel):
    """Characters ``[start, end)`` of a document as a tree; ``line`` is the number of its first
    line.
    """

    blocks: Blocks
    start: int
    end: int
    line: int
    characters: int


class MatchesReply(BaseModel):
    """Where words stand in a document, in order: characters ``[start, end)``."""

    matches: list[Annotated[list[int], Field(min_length=2, max_length=2)]]


class Outline(BaseModel):
    """The headings of a document, its slides, or the functions and classes of source code."""

    doc_id: str
    headings: list[Heading]

    @classmethod
    def read(cls, engine: Engine, doc_id: str, *, most: int) -> Self:
        """Read the first ``most`` headings. Raises DocumentNotFound: it is not in the index."""
        info = find_info(engine, doc_id)
        document = Document(doc_id, text=engine.read(doc_id, 0, _OUTLINED), kind=info.kind)
        return cls(doc_id=doc_id, headings=outline(document)[:most])


class DocumentBody(_Request):
    """A document that is in no file."""

    text: str = Field(min_length=1)
    """What is indexed; offsets of results are offsets into it."""
    title: str = Field("", max_length=1_000)
    kind: Literal["text", "markdown", "rst", "code"] = "text"
    path: str = Field("", max_length=2_000)
    """Where it comes from, such as a URL; its id without one."""
    meta: dict[str, str | int | float | bool | None] = Field(default_factory=dict)


class RemovedReply(BaseModel):
    """How many documents were removed."""

    removed: int


class StatusReply(Described):
    """What an index holds, and what may be done with it here."""

    model_config = ConfigDict(extra="allow")

    name: str
    documents: int
    sentences: int
    characters: int
    writable: bool
    reader: str
    generation: int
    indexing: IndexingProgress | None = None
    follows: bool = False
    """Whether the index is of a folder that is served and followed."""
    not_followed_since: str | None = None
    """From when on changes of the folder may be missing."""


class IndexModel(BaseModel):
    """An index and what may be done with it here."""

    name: str
    documents: int = 0
    sentences: int = 0
    generation: int = 0
    error: str | None = None


class IndexesReply(Described):
    """All indexes of this server."""

    indexes: list[IndexModel]
    writable: bool
    reader: str
    feedback: bool
    """Whether `POST /api/feedback` is answered."""


class CitedBody(_Request):
    """Words that were cited: characters ``[start, end)`` of a document."""

    doc_id: str = Field(max_length=MAX_DOC_ID)
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    quote: str = Field(min_length=1, max_length=MAX_QUOTE)


class CheckBody(_IndexRequest):
    """Citations, or a text with quotations."""

    citations: list[CitedBody] = Field(default=[], max_length=MAX_CITATIONS)
    text: str = Field("", max_length=200_000)
    """Whose quotations are looked for, instead of citations."""

    def check(self, engine: Engine) -> list[CitationCheck]:
        """Check the citations. Raises UsageError: the text has too many quotations, or one that is
        too long.
        """
        lengths = [len(cited.text) for cited in read_quotations(self.text)]
        if len(lengths) > MAX_CITATIONS or max(lengths, default=0) > MAX_QUOTE:
            raise UsageError(
                f"a text may have {MAX_CITATIONS} quotations at most, each of "
                f"{MAX_QUOTE:,} characters"
            )
        return engine.check(
            self.text or {"spans": [cited.model_dump() for cited in self.citations]}
        )


class CheckReply(BaseModel):
    """What became of each citation."""

    citations: list[CitationCheck]


class FeedbackBody(_Request):
    """An answer that did not help."""

    index: str = Field(max_length=200)
    question: Question
    answer: str = Field("", max_length=20_000)
    places: list[Annotated[str, Field(max_length=MAX_DOC_ID)]] = Field([], max_length=MAX_CITATIONS)
    """What it cites."""


class LoginBody(_Request):
    """The server's token."""

    token: str = Field(max_length=1_000)
