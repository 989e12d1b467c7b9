"""What requests and responses look like; ``/openapi.json`` is made of it."""

from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, StrictBool, create_model, model_validator

from lmkrag.engine import Engine
from lmkrag.errors import UsageError
from lmkrag.evidence.checking import CitationCheck
from lmkrag.evidence.quotations import read_quotations
from lmkrag.results import Answer, CitationRecord, Span, SpanList
from lmkrag.search.request import AskOptions, SearchOptions, refuse_unknown, to_pydantic
from lmkrag.types import MAX_DOC_ID, DocumentInfo, SentenceScore

MAX_QUERY = 10_000  # characters of a question
MAX_HISTORY = 20  # exchanges before a question
MAX_CITATIONS, MAX_QUOTE = 200, 20_000  # citations that a request may hold, and characters of one
MAX_BATCH = 64  # questions of one request
Question = Annotated[
    str, Field(min_length=1, max_length=MAX_QUERY, examples=["how is leave accrued?"])
]
IndexName = Annotated[
    str | None,
    Field(max_length=200, description="Name of the index; may be left out when there is one."),
]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, body: Any) -> Any:
        if isinstance(body, dict):
            refuse_unknown(body, cls.model_fields)
        return body

    def options(self) -> dict[str, Any]:
        """Return the options of a search that this asks for."""
        return self.model_dump(
            exclude={"query", "queries", "question", "index", "stream", "history", "blocks"}
        )


WithBlocks = Annotated[
    StrictBool, Field(description="Also return what is shown of each text, as a tree of elements.")
]
AskFields: Any = create_model(
    "AskFields", __base__=_Request, **to_pydantic(AskOptions.__annotations__)
)
SearchFields: Any = create_model(
    "SearchFields", __base__=_Request, **to_pydantic(SearchOptions.__annotations__)
)


class SearchBody(SearchFields):  # type: ignore[misc]  # made of the options of a search
    """A search."""

    index: IndexName = None
    query: Question
    blocks: WithBlocks = False


class BatchBody(SearchFields):  # type: ignore[misc]
    """Several searches, in one state of the index."""

    index: IndexName = None
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

    index: IndexName = None
    question: Question
    explain: StrictBool = Field(False, description="Explain why each passage was found.")
    history: list[tuple[Question, str]] = Field(
        [],
        max_length=MAX_HISTORY,
        description="Questions and answers before this one, oldest first.",
    )
    stream: StrictBool = Field(
        False, description="Answer as server-sent events: spans, text, ..., answer (or error)."
    )
    blocks: WithBlocks = False


Blocks = list[dict[str, Any]]  # what is shown of a text: see :data:`lmkrag.rendering.tree.Node`

_SPAN_FIELDS: dict[str, Any] = {
    **{
        each.name: (
            get_type_hints(Span)[each.name],
            ... if each.default is MISSING else each.default,
        )
        for each in fields(Span)
    },
    "meta": (dict[str, Any], {}),
    "place": (str, Field(description="Where it is: `notes.md:12`, `report.pdf, page 3`.")),
    "url": (str, Field(description="The address of the web page that it is of, or empty.")),
    "section": (str, Field(description="The title and the headings that it stands under.")),
    "weak": (bool, Field(description="Little speaks for an answer in it.")),
    "instructs_model": (
        bool,
        Field(description="It speaks to a language model: words to be distrusted."),
    ),
}
SpanModel: Any = create_model("Span", **_SPAN_FIELDS)


class SpansReply(BaseModel):
    """Results, best first; with `blocks`, what is shown of each."""

    spans: list[SpanModel]
    notes: list[str] = Field(
        [], description="Sentences to show with the results, such as which are stale."
    )
    blocks: list[Blocks] | None = None


class BatchResult(SpansReply):
    """Results of a question of several, or why it has none."""

    error: str | None = None


class BatchReply(BaseModel):
    """Results of each question, in the order of the questions."""

    results: list[BatchResult]


_ANSWER_FIELDS: dict[str, Any] = {
    "question": (str, ...),
    **{name: (kind, ...) for name, kind in get_type_hints(Answer).items()},
    "citations": (list[CitationRecord], ...),
    "label": (
        str,
        Field(
            description=(
                "`strong`, `likely`, `unsure` or `weak`; empty where a language model answered."
            )
        ),
    ),
    "spans": (list[SpanModel], ...),
    "blocks": (
        Blocks | None,
        Field(None, description="With `blocks`: what is shown of the answer."),
    ),
}
AnswerReply: Any = create_model(
    "AnswerReply",
    __doc__="An answer; ``found`` is false when the documents do not answer the question.",
    **_ANSWER_FIELDS,
)


class DocumentsReply(BaseModel):
    """Some of the documents that a filter keeps, and how many there are."""

    documents: list[DocumentInfo]
    total: int


class TextReply(BaseModel):
    """Characters ``[start, end)`` of a document that has ``characters``."""

    doc_id: str
    start: int
    end: int
    text: str
    characters: int


class Excerpt(TextReply):
    """Characters ``[start, end)`` of a document that has ``characters``."""

    title: str

    @classmethod
    def read(cls, engine: Engine, doc_id: str, start: int, end: int | None, *, most: int) -> Self:
        """Read at most ``most`` of characters ``[start, end)``. Raises DocumentNotFound: it is not
        in the index.
        """
        (info,) = engine.documents(doc_ids=[doc_id])
        first = min(start, info.characters)
        stop = min(
            info.characters if end is None else max(end, first), info.characters, first + most
        )
        text = engine.read(doc_id, first, stop)
        counts = {"start": first, "end": first + len(text), "characters": info.characters}
        return cls(doc_id=doc_id, title=info.title, text=text, **counts)


class RelevanceReply(BaseModel):
    """Sentences of a document with their scores, in order; of ``total``, where there are too many
    to show.
    """

    sentences: list[SentenceScore]
    total: int


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


class DocumentBody(_Request):
    """A document that is in no file."""

    text: str = Field(
        min_length=1, description="What is indexed; offsets of results are offsets into it."
    )
    title: str = Field("", max_length=1_000)
    kind: Literal["text", "markdown", "rst", "code"] = "text"
    path: str = Field(
        "", max_length=2_000, description="Where it comes from, such as a URL; its id without one."
    )
    meta: dict[str, str | int | float | bool | None] = Field(default_factory=dict)


class JobReply(BaseModel):
    """A document that is being added."""

    job_id: str
    doc_id: str
    state: Literal["waiting", "running", "done", "failed"]
    done: int = Field(description="Bytes that are encoded.")
    total: int
    error: str | None = None
    report: dict[str, Any] | None = None


class RemovedReply(BaseModel):
    """How many documents were removed."""

    removed: int


class IndexingModel(BaseModel):
    """How far indexing is, in bytes of the files it reads; ``total`` is 0 until it is known."""

    done: int
    total: int


class StatusReply(BaseModel):
    """What an index holds, and what may be done with it here."""

    model_config = ConfigDict(extra="allow")

    name: str
    documents: int
    sentences: int
    characters: int
    writable: bool
    reader: str
    generation: int
    indexing: IndexingModel | None = None
    follows: bool = Field(
        False, description="Whether the index is of a folder that is served and followed."
    )
    not_followed_since: str | None = Field(
        None, description="From when on changes of the folder may be missing."
    )


class IndexModel(BaseModel):
    """An index and what may be done with it here."""

    name: str
    documents: int
    sentences: int
    generation: int
    error: str | None = None


class IndexesReply(BaseModel):
    """All indexes of this server."""

    indexes: list[IndexModel]
    writable: bool
    reader: str


class CitedBody(_Request):
    """Words that were cited: characters ``[start, end)`` of a document."""

    doc_id: str = Field(max_length=MAX_DOC_ID)
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    quote: str = Field(min_length=1, max_length=MAX_QUOTE)


class CheckBody(_Request):
    """Citations, or a text with quotations."""

    index: IndexName = None
    citations: list[CitedBody] = Field([], max_length=MAX_CITATIONS)
    text: str = Field(
        "", max_length=200_000, description="Whose quotations are looked for, instead of citations."
    )

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


class SummaryModel(BaseModel):
    """A document in a line."""

    doc_id: str
    title: str
    kind: str
    summary: str = Field(
        description="Its first sentence, or the columns of its table; empty where there is neither."
    )


class SummariesReply(BaseModel):
    """The first documents."""

    documents: list[SummaryModel]


class LoginBody(_Request):
    """The server's token."""

    token: str = Field(max_length=1_000)
