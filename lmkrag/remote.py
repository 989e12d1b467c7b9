"""An index behind ``lmkrag serve``: the reading methods of an engine, over HTTP."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Self, Unpack, cast
from urllib.parse import quote, urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import httpx

from lmkrag.errors import DocumentNotFound, LmkragError, ReaderError, ServerError, UsageError, make_error
from lmkrag.readers.base import AnswerStream, AsyncAnswerStream, Reader, answer_or_error
from lmkrag.results import Answer, Span
from lmkrag.search.checking import CitationCheck, Source, check_citations
from lmkrag.search.filters import Filter, to_expression
from lmkrag.search.request import (
    DEFAULT_CONTEXT,
    AskOptions,
    SearchOptions,
    SearchRequest,
    check_queries,
    check_query,
    show_options,
)
from lmkrag.serialization import answer_from_json, from_json
from lmkrag.types import Document, DocumentInfo, IndexStatus, SentenceScore

_PIECE = 200_000  # characters of a text that are asked for at a time
_LISTED = 1_000  # documents that are asked for at a time
_BATCH = 64  # questions that are sent at a time


class RemoteEngine:
    """An index behind a server. Its methods may be called from any thread; the ``a...`` ones from any event loop.

    >>> from lmkrag import RemoteEngine
    >>> engine = RemoteEngine("http://localhost:8700/handbook")  # doctest: +SKIP
    >>> engine.search("how is leave accrued?")  # doctest: +SKIP
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 60.0) -> None:
        """Take a server's URL; nothing is sent before the first call.

        Args:
            url: of the server and the index: ``http://localhost:8700/handbook``; the name may be left out if there is
                one index.
            token: that the server asks for; defaults to ``LMKRAG_TOKEN``; empty for none.
            timeout: seconds to wait for the server.

        Raises:
            UsageError: the URL is not one.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError(f"{url!r} is not the URL of a server, such as http://localhost:8700/handbook")
        folder, _, self._index = parts.path.rpartition("/")
        self._url = urlunsplit((parts.scheme, parts.netloc, folder, "", ""))
        token = os.environ.get("LMKRAG_TOKEN") if token is None else token
        self._settings: dict[str, Any] = {
            "base_url": self._url,
            "timeout": timeout,
            "headers": {"Authorization": f"Bearer {token}"} if token else {},
        }
        self._client = httpx.Client(**self._settings)
        self._async_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"RemoteEngine({self._url + '/' + self._index!r})"

    def close(self) -> None:
        """Close the connections; those of an event loop are closed by :meth:`aclose`, or with the loop."""
        self._client.close()

    async def aclose(self) -> None:
        """Close the connections, also those of this event loop."""
        self.close()
        if client := self._async_clients.pop(asyncio.get_running_loop(), None):
            await client.aclose()

    @property
    def _async_client(self) -> httpx.AsyncClient:
        """The client of the running event loop: connections belong to one."""
        return self._async_clients.setdefault(asyncio.get_running_loop(), httpx.AsyncClient(**self._settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Searching

    @show_options(SearchOptions)
    def search(self, query: str, **options: Unpack[SearchOptions]) -> list[Span]:
        """Find the passages that answer ``query``, best first: see :meth:`lmkrag.Engine.search`."""
        return _to_spans(self._post("/api/search", self._search_body(query, options)))

    @show_options(SearchOptions)
    async def asearch(self, query: str, **options: Unpack[SearchOptions]) -> list[Span]:
        """Like :meth:`search`, without blocking the event loop."""
        return _to_spans(await self._apost("/api/search", self._search_body(query, options)))

    @show_options(SearchOptions)
    def search_many(self, queries: Sequence[str], **options: Unpack[SearchOptions]) -> list[list[Span]]:
        """Like :meth:`search` for many queries; up to 64 of them are searched in one state of the index."""
        SearchRequest(**options)
        found, queries = [], check_queries(queries)
        for first in range(0, len(queries), _BATCH):
            part = queries[first : first + _BATCH]
            reply = self._post("/api/search/batch", self._body(options) | {"queries": part})
            found += [_to_spans(result) for result in reply["results"]]
        return found

    def score_sentences(self, query: str, doc_id: str) -> list[SentenceScore]:
        """Return how well every sentence of a document fits ``query``: see :meth:`lmkrag.Engine.score_sentences`."""
        query = check_query(query)
        reply = self._get(f"{_document(doc_id)}/relevance", query=query, points=0)
        return [from_json(SentenceScore, sentence) for sentence in reply["sentences"]]

    # Asking

    @show_options(AskOptions)
    def ask(self, question: str, *, reader: Reader | None = None, **options: Unpack[AskOptions]) -> Answer:
        """Answer a question, with citations: by the server's reader, or here by a ``reader`` of your own."""
        return self.ask_stream(question, reader=reader, **options).answer()

    @show_options(AskOptions)
    def ask_many(
        self, questions: Sequence[str], *, reader: Reader | None = None, **options: Unpack[AskOptions]
    ) -> Iterator[Answer | ReaderError]:
        """Like :meth:`ask` for many questions, one after the other: see :meth:`lmkrag.Engine.ask_many`."""
        ask = partial(self.ask, reader=reader, **options)
        return map(partial(answer_or_error, ask), check_queries(questions))

    @show_options(AskOptions)
    def ask_stream(self, question: str, *, reader: Reader | None = None, **options: Unpack[AskOptions]) -> AnswerStream:
        """Like :meth:`ask`, piece by piece: iterate over the text, then call ``.answer()``."""
        if reader is not None:
            return reader.stream(question, self.search(question, **_to_search(options)))
        events = _AnswerEvents()
        return AnswerStream(self._pieces(self._ask_body(question, options), events), lambda _: events.answer())

    @show_options(AskOptions)
    def aask_stream(
        self, question: str, *, reader: Reader | None = None, **options: Unpack[AskOptions]
    ) -> AsyncAnswerStream:
        """Like :meth:`ask_stream`, for ``async for``."""
        if reader is not None:

            async def begin() -> AsyncAnswerStream:
                return reader.astream(question, await self.asearch(question, **_to_search(options)))

            return AsyncAnswerStream.begin_with(begin)
        events = _AnswerEvents()
        return AsyncAnswerStream(self._apieces(self._ask_body(question, options), events), lambda _: events.answer())

    def _pieces(self, body: dict[str, Any], events: "_AnswerEvents") -> Iterator[str]:
        with _wrapped(self._url), self._client.stream("POST", "/api/ask", json=body) as response:
            if response.is_error:
                response.read()
            _check(response)
            for text in response.iter_text():
                yield from events.read(text)

    async def _apieces(self, body: dict[str, Any], events: "_AnswerEvents") -> AsyncIterator[str]:
        with _wrapped(self._url):
            async with self._async_client.stream("POST", "/api/ask", json=body) as response:
                if response.is_error:
                    await response.aread()
                _check(response)
                async for text in response.aiter_text():
                    for piece in events.read(text):
                        yield piece

    # Documents

    def documents(
        self,
        *,
        filter: Filter | None = None,
        after: str | None = None,
        limit: int | None = None,
        doc_ids: Iterable[str] | None = None,
    ) -> list[DocumentInfo]:
        """Return what the index knows of its documents, by ``doc_id``: see :meth:`lmkrag.Engine.documents`."""
        if doc_ids is not None:
            return [from_json(DocumentInfo, self._get(_document(doc_id))) for doc_id in doc_ids]
        filter = to_expression(filter)
        found: list[DocumentInfo] = []
        while limit is None or len(found) < limit:
            wanted = _LISTED if limit is None else min(_LISTED, limit - len(found))
            reply = self._get("/api/documents", filter=filter, after=after, limit=wanted)
            found += [from_json(DocumentInfo, info) for info in reply["documents"]]
            if len(reply["documents"]) < wanted:
                break
            after = found[-1].doc_id
        return found

    def read(self, doc_id: str, start: int = 0, end: int | None = None) -> str:
        """Return the text of a document, or its characters ``[start, end)``: see :meth:`lmkrag.Engine.read`."""
        parts: list[str] = []
        while end is None or start < end:
            most = start + _PIECE if end is None else min(end, start + _PIECE)
            reply = self._get(f"{_document(doc_id)}/text", start=start, end=most)
            parts.append(reply["text"])
            start = most
            if start >= reply["characters"]:
                break
        return "".join(parts)

    def document(self, doc_id: str) -> Document:
        """Return a document with its text exactly as indexed, and its metadata."""
        while True:
            info = self._get(_document(doc_id))
            text = self.read(doc_id)
            if self._get(_document(doc_id)) == info:  # else it was replaced meanwhile
                return from_json(Document, info | {"text": text})

    def check(self, source: Source) -> list[CitationCheck]:
        """Tell whether citations still stand: see :meth:`lmkrag.Engine.check`."""
        return check_citations(self, source)

    def status(self) -> IndexStatus:
        """Return what the index holds."""
        reply = self._get("/api/status")
        return from_json(IndexStatus, reply)

    # Requests

    def _body(self, options: Any) -> dict[str, Any]:
        body = {**options, "filter": to_expression(options.get("filter"))}
        body = {name: value for name, value in body.items() if value is not None}
        return body | ({"index": self._index} if self._index else {})

    def _search_body(self, query: str, options: SearchOptions) -> dict[str, Any]:
        SearchRequest(**options)  # wrong options are refused here, without a request
        return self._body(options) | {"query": check_query(query)}

    def _ask_body(self, question: str, options: AskOptions) -> dict[str, Any]:
        SearchRequest(**options)
        return self._body(options) | {"question": check_query(question), "stream": True}

    def _get(self, path: str, **parameters: Any) -> Any:
        with _wrapped(self._url):
            return _check(self._client.get(path, params=self._body(parameters))).json()

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        with _wrapped(self._url):
            return _check(self._client.post(path, json=body)).json()

    async def _apost(self, path: str, body: dict[str, Any]) -> Any:
        with _wrapped(self._url):
            return _check(await self._async_client.post(path, json=body)).json()


class _wrapped:  # noqa: N801  # reads as what it does: with _wrapped(url)
    """Raise what httpx raises as :class:`ServerError`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpx.TimeoutException):
            raise ServerError(f"{self._url}: no reply in time ({type(error).__name__})") from error
        if isinstance(error, httpx.HTTPError | httpx.InvalidURL | json.JSONDecodeError):
            raise ServerError(f"{self._url}: can't be used ({error or type(error).__name__})") from error


def _document(doc_id: str) -> str:
    return f"/api/documents/{quote(doc_id, safe='')}"


def _to_spans(reply: dict[str, Any]) -> list[Span]:
    return [from_json(Span, span) for span in reply["spans"]]


def _check(response: httpx.Response) -> httpx.Response:
    if response.is_error:
        try:
            problem = response.json()
        except ValueError:
            problem = {}
        raise _to_error(problem, response.status_code)
    return response


def _to_error(problem: Any, status: int) -> LmkragError:
    """The error that a server described (RFC 9457)."""
    if not isinstance(problem, dict) or "detail" not in problem:
        return ServerError(f"the server answered with status {status}: is it lmkrag serve?")
    kind = str(problem.get("type", "")).rpartition(":")[2]
    detail = str(problem["detail"])
    if kind == "document-not-found":
        return DocumentNotFound(problem["doc_id"], problem["index"], problem.get("near", ""))
    return make_error(kind, detail, ServerError)


class _AnswerEvents:
    """Reads the events of an answer. State: the line and the event that are read, and the answer once it came."""

    def __init__(self) -> None:
        self._line = self._event = ""
        self._answer: Answer | None = None

    def read(self, text: str) -> Iterator[str]:
        """Take the next characters; yield the text that they bring.

        Lines end with a line feed alone here: ``splitlines`` also breaks at U+2028, which JSON may hold.
        """
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            yield from self._read_line(line.rstrip("\r"))

    def _read_line(self, line: str) -> Iterator[str]:
        if line.startswith("event:"):
            self._event = line[6:].strip()
        elif line.startswith("data:"):
            data = json.loads(line[5:])
            if self._event == "text":
                yield data
            elif self._event == "answer":
                self._answer = answer_from_json(data)
            elif self._event == "error":
                raise _to_error(data, data.get("status", 500))

    def answer(self) -> Answer:
        """Return the answer.

        Raises:
            ServerError: it did not come.
        """
        if self._answer is None:
            raise ServerError("the answer is not whole: the server went away")
        return self._answer


def _to_search(options: AskOptions) -> SearchOptions:
    """The options of a search for a reader of this process; the server counts tokens with the index's encoder."""
    found = dict(options)
    return cast(SearchOptions, found | {"max_tokens": found.pop("context_tokens", None) or DEFAULT_CONTEXT})
