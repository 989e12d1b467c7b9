"""What requests and responses look like; ``/openapi.json`` is made of it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from lmkrag.retrieval.request import MAX_BUDGET
from lmkrag.types import Level, Mode

MAX_QUERY = 10_000
"""Characters of a question."""

MAX_BATCH = 64
"""Questions of one request."""

_MAX_RESULTS = 1_000
_MAX_WAIT = 60_000

Question = Annotated[str, Field(min_length=1, max_length=MAX_QUERY, examples=["how is leave accrued?"])]
IndexName = Annotated[
    str | None, Field(max_length=200, description="Name of the index; may be left out when there is one.")
]
Filter = Annotated[str | None, Field(max_length=MAX_QUERY, examples=["kind=pdf and path=docs/*"])]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AskFields(_Request):
    """How to search for a reader."""

    top_k: int | None = Field(None, ge=1, le=_MAX_RESULTS, description="Number of results; 8 without a budget.")
    budget: int | None = Field(None, ge=1, le=MAX_BUDGET, description="Tokens that the results may add up to.")
    mode: Mode = "hybrid"
    filter: Filter = None
    per_document: int | None = Field(None, ge=1, le=_MAX_RESULTS, description="Results of one document, at most.")
    rerank: StrictBool | Annotated[float, Field(gt=0, le=_MAX_WAIT)] | None = Field(
        None,
        description="Read the best places with the question and order them anew; a number: milliseconds. "
        "By default what the server was started with.",
    )
    index: IndexName = None

    def options(self) -> dict[str, Any]:
        """Return the options of a search that this asks for."""
        return self.model_dump(exclude={"query", "queries", "question", "index", "stream"})


class SearchFields(AskFields):
    """How to search."""

    level: Level = "passage"
    explain: StrictBool = Field(False, description="Say of each result why it was found.")
    operators: StrictBool = Field(False, description="Take -word at the end of the query for what to leave out.")


class SearchBody(SearchFields):
    """A search."""

    query: Question


class NamedQuery(_Request):
    """A question and what its results are called."""

    query_id: str | int
    query: Question


class BatchBody(SearchFields):
    """Several searches, in one state of the index."""

    queries: list[Question | NamedQuery] = Field(min_length=1, max_length=MAX_BATCH)


class AskBody(AskFields):
    """A question to be answered."""

    question: Question
    stream: StrictBool = Field(False, description="Answer as server-sent events: spans, text, ..., answer (or error).")


class HitModel(BaseModel):
    """A sentence that was found, with the parts of its score."""

    sentence_id: int
    doc_id: str
    ordinal: int
    start: int
    end: int
    score: float
    dense: float
    lexical: float


class PartModel(BaseModel):
    """A part of a score: it adds ``value`` times ``weight``."""

    name: str
    value: float
    weight: float


class FactorModel(BaseModel):
    """A factor of a score."""

    name: str
    value: float


class ExplanationModel(BaseModel):
    """Why a span was found."""

    score: float
    parts: list[PartModel]
    factors: list[FactorModel]
    words: list[str]
    sentences_before: int
    sentences_after: int
    stopped_before: str
    stopped_after: str
    added_before: int
    added_after: int


class SpanModel(BaseModel):
    """An exact piece of a document; offsets count Unicode code points."""

    doc_id: str
    path: str
    title: str
    kind: str
    headings: list[str]
    start: int
    end: int
    line: int | None
    last_line: int | None
    page: int | None
    score: float
    text: str
    also_in: list[str]
    header: str
    coverage: float
    meta: dict[str, Any]
    hits: list[HitModel]
    explanation: ExplanationModel | None = None


class SpansReply(BaseModel):
    """Results, best first."""

    spans: list[SpanModel]


class NamedSpans(SpansReply):
    """Results of one question."""

    query_id: str | int


class BatchReply(BaseModel):
    """Results of each question, in the order of the questions."""

    results: list[NamedSpans]


class CitationModel(BaseModel):
    """``[number]`` of an answer: characters of a document, quoted exactly."""

    number: int
    doc_id: str
    path: str
    start: int
    end: int
    page: int | None
    place: str
    quote: str


class ShortAnswerModel(BaseModel):
    """The words that answer: characters of the document of citation ``[number]``."""

    number: int
    text: str
    start: int
    end: int


class AnswerReply(BaseModel):
    """An answer; ``found`` is false when the documents do not answer the question."""

    question: str
    answer: str
    found: bool
    reader: str
    citations: list[CitationModel]
    short: list[ShortAnswerModel]
    confidence: float | None
    warnings: list[str]
    spans: list[SpanModel]


class DocumentModel(BaseModel):
    """What an index knows of a document."""

    doc_id: str
    path: str
    title: str
    kind: str
    root: str
    meta: dict[str, Any]
    characters: int
    sentences: int
    pages: int


class DocumentReply(DocumentModel):
    """All that an index knows of a document, its text aside."""

    page_starts: list[int]
    fingerprint: str


class DocumentsReply(BaseModel):
    """Some of the documents that a filter keeps, and how many there are."""

    documents: list[DocumentModel]
    total: int


class TextReply(BaseModel):
    """Characters ``[start, end)`` of a document that has ``characters``."""

    doc_id: str
    start: int
    end: int
    text: str
    characters: int


class SentenceModel(BaseModel):
    """How well a sentence fits a question."""

    start: int
    end: int
    score: float
    dense: float
    lexical: float


class RelevanceReply(BaseModel):
    """Sentences of a document with their scores, in order; of ``total``, where there are too many to show."""

    sentences: list[SentenceModel]
    total: int


class PlaceModel(BaseModel):
    """Where text stands on a page: (left, top, right, bottom) as shares of its width and height."""

    page: int
    rectangles: list[tuple[float, float, float, float]]


class PlacesReply(BaseModel):
    """Where text stands on the pages of a PDF."""

    places: list[PlaceModel]


class BlocksReply(BaseModel):
    """A Markdown document as a tree: ``{"tag", "attributes", "children"}`` and ``{"text", "start"}``."""

    blocks: list[dict[str, Any]]


class DocumentBody(_Request):
    """A document that is in no file."""

    text: str = Field(min_length=1, description="What is indexed; offsets of results are offsets into it.")
    title: str = Field("", max_length=1_000)
    kind: Literal["text", "markdown", "rst", "code"] = "text"
    path: str = Field("", max_length=2_000, description="Where it comes from, such as a URL; its id without one.")
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


class JobsReply(BaseModel):
    """Jobs, the newest first."""

    jobs: list[JobReply]


class RemovedReply(BaseModel):
    """How many documents were removed."""

    removed: int


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


class FeedbackBody(_Request):
    """A verdict on a span."""

    question: Question
    doc_id: str = Field(min_length=1, max_length=2_000)
    start: int = Field(ge=0)
    end: int = Field(ge=1)
    verdict: Literal["up", "down", "none"] = Field(description='"none" takes an earlier verdict back.')
    index: IndexName = None


class FeedbackModel(BaseModel):
    """A verdict that was stored."""

    question: str
    doc_id: str
    start: int
    end: int
    verdict: Literal["up", "down", "none"]


class FeedbackReply(BaseModel):
    """Verdicts on what was found for a question."""

    verdicts: list[FeedbackModel]


class LoginBody(_Request):
    """The server's token."""

    token: str = Field(max_length=1_000)


class ProblemModel(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
