"""The Model Context Protocol: tools and resources that let an assistant search documents and read
them.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, cast
from urllib.parse import quote

from mcp.server.mcpserver import Image, MCPServer, ResourceSecurity
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp_types import CallToolResult, Resource, TextContent, ToolAnnotations
from pydantic import Field

from lmkrag.engine import Engine
from lmkrag.errors import LmkragError, UsageError
from lmkrag.readers.base import Reader
from lmkrag.readers.confidence import find_missing
from lmkrag.results import Span, SpanList
from lmkrag.search.filters import explain_filter
from lmkrag.search.request import (
    DEFAULT_CONTEXT,
    Function,
    SearchOptions,
    SearchRequest,
    add_parameters,
    find_options,
    option_of,
    refuse_unknown,
    to_pydantic,
)
from lmkrag.serialization import answer_to_json
from lmkrag.server import mcp_replies as replies
from lmkrag.server.asking import find_evidence
from lmkrag.server.indexes import ServedIndexes
from lmkrag.server.problems import Problem
from lmkrag.server.schemas import MAX_QUERY, CheckBody, Excerpt, Outline, drop_blank, find_info
from lmkrag.server.uploads import Uploads
from lmkrag.types import Document
from lmkrag.version import __version__

_READ = 20_000  # characters of a document in one reply
_LISTED = 200  # documents in one reply
_MOST_RESULTS = 50
_PASSAGE = 1_000  # characters of a passage that find_related searches with
_PATIENCE = 25.0  # seconds that a call waits until its text is indexed
_INTERVAL = 0.05
_LONGEST_SIDE = 1_568  # pixels of an image; models scale larger ones down
_INSTRUCTIONS = (
    "Search the user's documents and read them. Results are exact passages with their places: "
    "quote them, and name the document and place. read_document gives what stands around a "
    "passage, document_outline its headings, page_image a picture of its page."
)

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

_Query = Annotated[
    str, Field(min_length=1, max_length=MAX_QUERY, description="A question in words.")
]
_Filter = Annotated[
    str | None,
    Field(
        max_length=MAX_QUERY,
        description="Documents to look in, such as 'kind=pdf and path=reports/*'.",
    ),
]
_Start = Annotated[int, Field(ge=0, description="First character.")]
_DocId = Annotated[
    str, Field(max_length=2_000, description="As search and list_documents give it.")
]
_Index = Annotated[
    str | None, Field(description="Name of the index; may be left out when there is one.")
]


class _DocumentServer(MCPServer[Any]):
    """A server that lists documents as its resources."""

    def __init__(self, indexes: ServedIndexes) -> None:
        super().__init__(
            "lmkrag",
            title=f"Documents: {', '.join(indexes.by_name)}",
            version=__version__,
            instructions=_INSTRUCTIONS,
            log_level="WARNING",
        )
        self._indexes = indexes

    def reading_tool(self, title: str) -> Callable[[Function], Function]:
        """Return a decorator that adds a tool which reads an index and changes nothing.

        It is a function of an engine. The tool has an argument ``index`` instead, and runs on a
        thread with the engine of the index that a call names.
        """

        def add(read: Function) -> Function:
            @wraps(read)
            async def tool(index: str | None = None, **arguments: Any) -> Any:
                return await self._indexes.run(index, lambda engine: read(engine, **arguments))

            shown = signature(read)
            _, *parameters = shown.parameters.values()
            index = Parameter("index", Parameter.KEYWORD_ONLY, default=None, annotation=_Index)
            cast(Any, tool).__signature__ = shown.replace(parameters=[*parameters, index])
            self.tool(title=title, annotations=_READS)(tool)
            return read

        return add

    async def call_tool(self, name: str, arguments: dict[str, Any], *context: Any) -> Any:
        """Call a tool; arguments that it does not have are refused with a hint, blank ones that
        may be left out are. What it says is also its text, without indentation, and an error of
        ours is its message alone.
        """
        try:
            for tool in await self.list_tools():
                if tool.name == name:
                    refuse_unknown(arguments, tool.input_schema["properties"])
                    arguments = drop_blank(arguments, tool.input_schema.get("required", ()))
            result = await super().call_tool(name, arguments, *context)
        except (UsageError, ToolError) as error:
            for ours in (error, error.__cause__):
                if isinstance(ours, (Problem, LmkragError)):
                    raise ToolError(str(ours)) from error
            raise
        if isinstance(result, CallToolResult) and result.structured_content is not None:
            text = json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))
            result.content = [TextContent(type="text", text=text)]
        return result

    async def list_resources(self) -> list[Resource]:
        """Return the documents of every index, 200 at most."""
        listed: list[Resource] = []
        for index in self._indexes.by_name.values():
            documents = await index.run(
                lambda engine: engine.documents(limit=_LISTED - len(listed))
            )
            listed.extend(
                Resource(
                    uri=f"lmkrag://{index.name}/{quote(info.doc_id)}",
                    name=info.doc_id,
                    title=info.title or None,
                    mime_type="text/plain",
                )
                for info in documents
            )
        return listed


def create_mcp_server(
    indexes: ServedIndexes, reader: Reader, uploads: Uploads | None = None
) -> MCPServer[Any]:
    """Return a server of tools and resources over some indexes; adding and removing only where
    there are uploads.
    """
    # Else MCPServer would install a handler of its own.
    logging.basicConfig(format="%(name)s: %(message)s")
    server = _DocumentServer(indexes)
    _add_search_tools(server, indexes, reader)
    _add_document_tools(server, indexes)
    if uploads is not None:
        _add_writing_tools(server, indexes, uploads)
    return server


def _check_filter(engine: Engine, filter: str | None, results: Sequence[Any]) -> None:
    """Explain a filter without results. Raises Problem: no document matches it."""
    if not filter or results:
        return
    if why := explain_filter(engine.documents, filter, for_owner=engine.finder.names_folders):
        raise Problem(400, "usage", why)


def _with_search_options(tool: Function) -> Function:
    """Give a tool the options of a search that are for assistants."""
    declared = find_options(SearchOptions.__annotations__).items()
    names = [name for name, option in declared if option_of(option).agents]
    options = {
        name: (Annotated[kind, field], field.default)
        for name, (kind, field) in to_pydantic(names).items()
    }
    return add_parameters(tool, options)


def _add_search_tools(server: _DocumentServer, indexes: ServedIndexes, reader: Reader) -> None:
    @server.reading_tool("Search documents")
    @_with_search_options
    def search(engine: Engine, query: _Query, **options: Any) -> replies.Passages:
        """Find the passages of the user's documents that answer a question, best first, with their
        exact places.
        """
        if (options["top_k"] or 0) > _MOST_RESULTS:
            raise UsageError(f"top_k must be at most {_MOST_RESULTS}, not {options['top_k']}")
        spans = engine.search(query, **options)
        _check_filter(engine, options["filter"], spans)
        return replies.Passages.of(spans)

    @server.reading_tool("Gather evidence")
    def gather_evidence(
        engine: Engine,
        question: _Query,
        max_tokens: Annotated[
            int, Field(ge=50, le=100_000, description="Of all passages with their places.")
        ] = DEFAULT_CONTEXT,
        filter: _Filter = None,
    ) -> replies.Evidence:
        """Gather what the user's documents have on a question within a number of tokens, and name
        what they lack.
        """

        def cost(_: int, span: Span) -> int:  # of all that is said of a passage
            passage = replies.Passage.model_validate(span)
            return engine.encoders.count_tokens(passage.model_dump_json())

        request = SearchRequest(max_tokens=max_tokens, filter=filter)
        (spans,) = engine.finder.search([question], request, cost=cost)
        _check_filter(engine, filter, spans)
        return replies.Evidence.of(
            spans,
            question=question,
            missing=find_missing(question, spans),
            generation=engine.status().generation,
        )

    @server.reading_tool("Find related passages")
    def find_related(
        engine: Engine,
        doc_id: _DocId,
        start: _Start,
        end: Annotated[int, Field(ge=1, description="After its last character.")],
        top_k: Annotated[int, Field(ge=1, le=_MOST_RESULTS)] = 5,
    ) -> replies.Passages:
        """Find passages about the same as a passage, elsewhere in the user's documents."""
        text = engine.read(doc_id, start, min(end, start + _PASSAGE))
        spans = engine.search(text, top_k=top_k + 1)
        others = [
            span
            for span in spans
            if span.doc_id != doc_id or span.end <= start or end <= span.start
        ]
        return replies.Passages.of(SpanList(others[:top_k], spans.notes))

    @server.tool(title="Ask documents", annotations=_READS)
    async def ask(
        question: _Query, filter: _Filter = None, index: _Index = None
    ) -> replies.AnswerWithQuotations:
        """Answer a question from the user's documents, every statement with the words it rests
        on.
        """
        served = indexes.find(index)
        evidence = await find_evidence(served, reader, question, {"filter": filter})
        if not evidence.spans:
            await served.run(lambda engine: _check_filter(engine, filter, evidence.spans))
        record = answer_to_json(question, await evidence.answer())
        return replies.AnswerWithQuotations.model_validate({**record, "answer": record["text"]})


def _add_document_tools(server: _DocumentServer, indexes: ServedIndexes) -> None:
    @server.reading_tool("Read a document")
    def read_document(
        engine: Engine,
        doc_id: _DocId,
        start: _Start = 0,
        end: Annotated[
            int | None, Field(ge=0, description=f"After the last; {_READ:,} later at most.")
        ] = None,
    ) -> replies.Excerpt:
        """Read a part of a document exactly as it was indexed."""
        return Excerpt.read(engine, doc_id, start, end or None, most=_READ)

    @server.reading_tool("Outline a document")
    def document_outline(engine: Engine, doc_id: _DocId) -> Outline:
        """List the first 200 headings of a document, or functions and classes of source code, with
        their places.
        """
        return Outline.read(engine, doc_id, most=_LISTED)

    @server.reading_tool("Show a page")
    def page_image(
        engine: Engine,
        doc_id: _DocId,
        page: Annotated[
            int | None, Field(ge=1, description="From 1; that of the characters without it.")
        ] = None,
        start: _Start = 0,
        end: Annotated[
            int | None, Field(ge=1, description="After the last; nothing is outlined without it.")
        ] = None,
    ) -> Image:
        """Draw a page of a PDF file or a picture, with the characters of a passage outlined."""
        info = find_info(engine, doc_id)
        span = None if end is None else (start, end)
        image = engine.pages.draw(info, page, span, form="JPEG", longest=_LONGEST_SIDE)
        return Image(data=image, format="jpeg")

    @server.reading_tool("Check citations")
    def check(
        engine: Engine,
        text: Annotated[
            str,
            Field(max_length=200_000, description="Your answer; its quotations are looked for."),
        ],
    ) -> replies.Checks:
        """Tell of every quotation in a text whether the user's documents have it, word for word,
        and where.
        """
        return replies.Checks(citations=CheckBody(text=text).check(engine))

    @server.reading_tool("List documents")
    def list_documents(
        engine: Engine,
        filter: _Filter = None,
        cursor: Annotated[
            str | None, Field(max_length=2_000, description="From the reply before.")
        ] = None,
    ) -> replies.Listing:
        """List the user's documents by id, 200 at a time."""
        documents = engine.documents(filter=filter, after=cursor, limit=_LISTED + 1)
        _check_filter(engine, filter, documents)
        listed = documents[:_LISTED]
        cursor = listed[-1].doc_id if len(documents) > _LISTED else None
        return replies.Listing.model_validate({"documents": listed, "cursor": cursor})

    @server.resource(
        "lmkrag://{index}/{+doc_id}",
        title="A document",
        description="The text of a document exactly as it was indexed.",
        mime_type="text/plain",
        # an id, even if it begins with "/", and no path
        security=ResourceSecurity(exempt_params={"doc_id"}),
    )
    async def document(index: str, doc_id: str) -> str:
        try:
            return await indexes.run(index, lambda engine: engine.read(doc_id))
        except Problem as problem:
            raise ResourceError(str(problem)) from problem


def _add_writing_tools(server: _DocumentServer, indexes: ServedIndexes, uploads: Uploads) -> None:
    @server.tool(title="Add a document", annotations=_WRITES)
    async def add_document(
        doc_id: Annotated[str, Field(max_length=2_000, description="Such as notes/today.md.")],
        text: Annotated[str, Field(min_length=1, max_length=1_000_000)],
        title: Annotated[str, Field(max_length=1_000)] = "",
        index: _Index = None,
    ) -> replies.Change:
        """Add a text to the user's documents, or replace the one of this id."""
        kind = "markdown" if doc_id.lower().endswith((".md", ".markdown")) else "text"
        document = Document(doc_id, doc_id, text, title or doc_id, kind)
        job = await uploads.add_document(indexes.find(index), document)
        deadline = time.monotonic() + _PATIENCE
        while not job.ended and time.monotonic() < deadline:
            await asyncio.sleep(_INTERVAL)
        if job.error:
            raise ToolError(job.error)
        if job.report is None:
            raise ToolError(
                f"{doc_id} is accepted and still being indexed; search for it in a while"
            )
        return replies.Change.model_validate(job.report)

    @server.tool(title="Remove a document", annotations=_WRITES)
    async def remove_document(doc_id: _DocId, index: _Index = None) -> replies.Change:
        """Remove a document from the index; a file that was not uploaded is left where it is."""
        served = indexes.find(index)
        return await served.run(lambda _: replies.Change(removed=uploads.remove(served, doc_id)))
