"""An index behind ``lmkrag serve``: the reading methods of an engine, over HTTP."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar, Unpack, cast
from urllib.parse import quote, urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import httpx

from lmkrag.errors import (
    DocumentNotFound,
    IndexClosed,
    LmkragError,
    ReaderError,
    ServerError,
    UsageError,
    make_error,
)
from lmkrag.evidence.checking import CitationCheck, check_citations
from lmkrag.evidence.quotations import Source
from lmkrag.readers.base import AnswerStream, AsyncAnswerStream, LanguageModelReader, Reader
from lmkrag.results import Answer, SpanList
from lmkrag.search.filters import Filter, to_expression
from lmkrag.search.request import (
    DEFAULT_CONTEXT,
    AskOptions,
    SearchOptions,
    SearchRequest,
    check_queries,
    check_query,
    search_each,
    show_options,
)
from lmkrag.serialization import (
    BatchReply,
    DocumentsReply,
    RelevanceReply,
    SpansReply,
    TextReply,
    answer_from_json,
    from_json,
    to_json,
)
from lmkrag.system.clients import open_async_client, open_client
from lmkrag.types import (
    Document,
    DocumentInfo,
    IndexStatus,
    SentenceScore,
    check_doc_id,
    check_limit,
    check_range,
)
from lmkrag.types.json_values import replace_surrogates

_PIECE = 200_000  # characters of a text that are asked for at a time
_LISTED = 1_000  # documents that are asked for at a time
_BATCH = 64  # questions that are sent at a time
_TRIES = 10  # to read a document that changes meanwhile
_UNLIMITED = 60_000  # milliseconds, the most that a server re-ranks

Value = TypeVar("Value")


class RemoteEngine:
    """An index behind a server. Its methods may be called from any thread; the ``a...`` ones from
    any event loop.

    Results are ranked as on this machine: without ``rerank_timeout_ms``, re-ranking has no time
    limit. Lists of documents have no ``page_starts``. Only an :class:`lmkrag.Engine` writes, and
    builds contexts.

    >>> from lmkrag import RemoteEngine
    >>> engine = RemoteEngine("http://localhost:8700/handbook")  # doctest: +SKIP
    >>> engine.search("how is leave accrued?")  # doctest: +SKIP
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 60.0) -> None:
        """Take a server's URL; nothing is sent before the first call.

        Args:
            url: of the server and the index: ``http://localhost:8700/handbook``; the name may be
                left out if there is one index, and the path of a server behind a proxy then ends in
                a slash.
            token: that the server asks for; defaults to ``LMKRAG_TOKEN``; empty for none.
            timeout: seconds to wait for the server.

        Raises:
            UsageError: the URL is not one.
        """
        parts = urlsplit(url)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.query
            or parts.fragment
        ):
            raise UsageError(
                f"{url!r} is not the URL of a server, such as http://localhost:8700/handbook"
            )
        folder, _, self._index = parts.path.rpartition("/")
        self._url = urlunsplit((parts.scheme, parts.netloc, folder, "", ""))
        token = os.environ.get("LMKRAG_TOKEN") if token is None else token
        self._settings: dict[str, Any] = {
            "base_url": self._url,
            "timeout": timeout,
            "headers": {"Authorization": f"Bearer {token}"} if token else {},
        }
        self._client = open_client(self._url, **self._settings)
        self._async_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient]  # noqa: TID251
        self._async_clients = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"RemoteEngine({self._url + '/' + self._index!r})"

    def close(self) -> None:
        """Close the connections; those of an event loop are closed by :meth:`aclose`, or with the
        loop.
        """
        self._client.close()

    async def aclose(self) -> None:
        """Close the connections, also those of this event loop."""
        self.close()
        if client := self._async_clients.pop(asyncio.get_running_loop(), None):
            await client.aclose()

    @property
    def _async_client(self) -> httpx.AsyncClient:  # noqa: TID251
        """The client of the running event loop: connections belong to one."""
        loop = asyncio.get_running_loop()
        if loop not in self._async_clients:
            self._async_clients[loop] = open_async_client(self._url, **self._settings)
        return self._async_clients[loop]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Searching

    @show_options(SearchOptions)
    def search(self, query: str, **options: Unpack[SearchOptions]) -> SpanList:
        """Find the passages that answer ``query``, best first: see :meth:`lmkrag.Engine.search`."""
        return _to_spans(self._post("/api/search", self._search_body(query, options), SpansReply))

    @show_options(SearchOptions)
    async def asearch(self, query: str, **options: Unpack[SearchOptions]) -> SpanList:
        """Like :meth:`search`, without blocking the event loop."""
        body = self._search_body(query, options)
        with _wrapped(self._url):
            reply = _check(await self._async_client.post("/api/search", json=body)).json()
            return _to_spans(from_json(SpansReply, reply))

    @show_options(SearchOptions)
    def search_many(
        self, queries: Sequence[str], **options: Unpack[SearchOptions]
    ) -> list[SpanList | UsageError]:
        """Like :meth:`search` for many queries; up to 64 of them are searched in one state of the
        index.

        Returns the results, or an error: see :meth:`lmkrag.Engine.search_many`.
        """
        body = self._options_body(options)

        def search(asked: Sequence[str]) -> list[SpanList | UsageError]:
            results: list[SpanList | UsageError] = []
            for first in range(0, len(asked), _BATCH):
                part = asked[first : first + _BATCH]
                batch = self._post("/api/search/batch", body | {"queries": part}, BatchReply)
                if len(batch.results) != len(part):
                    raise ServerError(
                        f"{self._url}: {len(batch.results)} results came of {len(part)}"
                    )
                results += [
                    _to_spans(result) if result.error is None else UsageError(result.error)
                    for result in batch.results
                ]
            return results

        return search_each(check_queries(queries), search)

    def score_sentences(self, query: str, doc_id: str) -> list[SentenceScore]:
        """Return how well every sentence of a document fits ``query``: see
        :meth:`lmkrag.Engine.score_sentences`.
        """
        path, query = f"{_document(doc_id)}/relevance", check_query(query)
        return list(self._get(path, RelevanceReply, query=query, points=0).sentences)

    # Asking

    @show_options(AskOptions)
    def ask(
        self, question: str, *, reader: Reader | None = None, **options: Unpack[AskOptions]
    ) -> Answer:
        """Answer a question, with citations: by the server's reader, or here by a ``reader`` of
        your own.
        """
        return self.ask_stream(question, reader=reader, **options).answer()

    @show_options(AskOptions)
    def ask_many(
        self,
        questions: Sequence[str],
        *,
        reader: Reader | None = None,
        **options: Unpack[AskOptions],
    ) -> Iterator[Answer | ReaderError | UsageError]:
        """Like :meth:`ask` for many questions, one after the other: see
        :meth:`lmkrag.Engine.ask_many`.
        """
        self._options_body(options)

        def answer(question: str) -> Answer | ReaderError | UsageError:
            try:
                return self.ask(question, reader=reader, **options)
            except (ReaderError, UsageError) as error:
                return error

        return map(answer, check_queries(questions))

    @show_options(AskOptions)
    def ask_stream(
        self, question: str, *, reader: Reader | None = None, **options: Unpack[AskOptions]
    ) -> AnswerStream:
        """Like :meth:`ask`, piece by piece: iterate over the text, then call ``.answer()``."""
        if reader is not None:
            spans = self.search(question, **_to_search(reader, options))
            return reader.stream(question, spans).with_notes(spans.notes)
        events = _AnswerEvents()
        return AnswerStream(
            self._pieces(self._ask_body(question, options), events), lambda _: events.answer()
        )

    @show_options(AskOptions)
    def aask_stream(
        self, question: str, *, reader: Reader | None = None, **options: Unpack[AskOptions]
    ) -> AsyncAnswerStream:
        """Like :meth:`ask_stream`, for ``async for``."""
        if reader is not None:

            async def begin() -> AsyncAnswerStream:
                spans = await self.asearch(question, **_to_search(reader, options))
                return reader.astream(question, spans).with_notes(spans.notes)

            return AsyncAnswerStream.begin_with(begin)
        events = _AnswerEvents()
        return AsyncAnswerStream(
            self._apieces(self._ask_body(question, options), events), lambda _: events.answer()
        )

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
        """Return what the index knows of its documents, by ``doc_id``: see
        :meth:`lmkrag.Engine.documents`.
        """
        check_limit(limit)
        if doc_ids is not None:
            return [self._get(_document(doc_id), DocumentInfo) for doc_id in doc_ids]
        filter, after = to_expression(filter), check_doc_id(after or "")
        listed: list[DocumentInfo] = []
        while limit is None or len(listed) < limit:
            count = _LISTED if limit is None else min(_LISTED, limit - len(listed))
            page = self._get(
                "/api/documents", DocumentsReply, filter=filter, after=after, limit=count
            ).documents
            if page and page[0].doc_id <= after:
                raise ServerError(f"{self._url}: the same documents are listed again")
            listed += page
            if len(page) < count:
                break
            after = listed[-1].doc_id
        return listed

    def read(self, doc_id: str, start: int = 0, end: int | None = None) -> str:
        """Return the text of a document, or its characters ``[start, end)``: see
        :meth:`lmkrag.Engine.read`.
        """
        check_range(start, end)
        parts: list[str] = []
        while not parts or end is None or start < end:
            most = start + _PIECE if end is None else max(start, min(end, start + _PIECE))
            part = self._get(f"{_document(doc_id)}/text", TextReply, start=start, end=most)
            if len(part.text) != max(0, min(most, part.characters) - start):
                raise ServerError(
                    f"{self._url}: {len(part.text)} characters came of {most - start}"
                )
            parts.append(part.text)
            start = most
            if start >= part.characters:
                break
        return "".join(parts)

    def document(self, doc_id: str) -> Document:
        """Return a document with its text exactly as indexed, and its metadata."""
        for _ in range(_TRIES):
            info = self._get(_document(doc_id), DocumentInfo)
            text = self.read(doc_id)
            if self._get(_document(doc_id), DocumentInfo) == info:  # else it was replaced meanwhile
                with _wrapped(self._url):
                    return from_json(Document, to_json(info) | {"text": text})
        raise ServerError(f"{self._url}: {doc_id} changes all the time")

    def check(self, source: Source) -> list[CitationCheck]:
        """Check citations: see :meth:`lmkrag.Engine.check`."""
        return check_citations(self, source)

    def status(self) -> IndexStatus:
        """Return what the index holds."""
        return self._get("/api/status", IndexStatus)

    # Requests

    def _body(self, options: Any) -> dict[str, Any]:
        body = {**options, "filter": to_expression(options.get("filter"))}
        body = {name: value for name, value in body.items() if value is not None}
        return body | ({"index": self._index} if self._index else {})

    def _options_body(self, options: Any) -> dict[str, Any]:
        SearchRequest(**options)  # wrong options are refused here, without a request
        # as an engine on this machine, not as the server
        timeout_ms = options.get("rerank_timeout_ms") or _UNLIMITED
        return self._body({**options, "rerank_timeout_ms": timeout_ms})

    def _search_body(self, query: str, options: SearchOptions) -> dict[str, Any]:
        return self._options_body(options) | {"query": check_query(query)}

    def _ask_body(self, question: str, options: AskOptions) -> dict[str, Any]:
        return self._options_body(options) | {"question": check_query(question), "stream": True}

    def _get(self, path: str, kind: type[Value], **query: Any) -> Value:
        with _wrapped(self._url):
            return from_json(kind, _check(self._client.get(path, params=self._body(query))).json())

    def _post(self, path: str, body: dict[str, Any], kind: type[Value]) -> Value:
        with _wrapped(self._url):
            return from_json(kind, _check(self._client.post(path, json=body)).json())


@contextlib.contextmanager
def _wrapped(url: str) -> Iterator[None]:
    """Raise errors of httpx, and of replies in another form, as :class:`ServerError`."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise ServerError(f"{url}: no reply in time ({type(error).__name__})") from error
    except LmkragError:
        raise
    except (httpx.HTTPError, httpx.InvalidURL, json.JSONDecodeError) as error:
        raise ServerError(f"{url}: can't be used ({str(error) or type(error).__name__})") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ServerError(f"{url}: the reply is not one of lmkrag serve ({why})") from error
    except RuntimeError as error:  # of httpx
        raise IndexClosed(f"{url}: the connections are closed ({error})") from error


def _document(doc_id: str) -> str:
    return f"/api/documents/{quote(replace_surrogates(check_doc_id(doc_id)), safe='')}"


def _to_spans(reply: SpansReply) -> SpanList:
    return SpanList(reply.spans, reply.notes)


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
    if not isinstance(problem, dict) or not isinstance(problem.get("detail"), str):
        return ServerError(f"the server answered with status {status}: is it lmkrag serve?")
    kind = str(problem.get("type", "")).rpartition(":")[2]
    if kind == "invalid":
        return UsageError(problem["detail"])
    if kind == "not-found":
        return ServerError(
            "the server has nothing at this address: the URL of an index does not end in a slash"
        )
    if kind == "document-not-found":
        return DocumentNotFound(
            *(str(problem.get(name) or "") for name in ("doc_id", "index", "near"))
        )
    return make_error(kind, problem["detail"], ServerError)


class _AnswerEvents:
    """Reads the events of an answer. State: the current line and event, and the answer once it has
    come.
    """

    def __init__(self) -> None:
        self._line = self._event = ""
        self._answer: Answer | None = None

    def read(self, text: str) -> Iterator[str]:
        """Take the next characters; yield the text of their events. Lines end with a line feed, not
        at U+2028.
        """
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if line.startswith("event:"):
                self._event = line[6:].strip()
            elif line.startswith("data:"):
                data = json.loads(line[5:].rstrip("\r"))
                if self._event == "text":
                    yield from_json(str, data)
                elif self._event == "answer":
                    self._answer = answer_from_json(data)
                elif self._event == "error":
                    raise _to_error(data, data.get("status", 500))

    def answer(self) -> Answer:
        """Return the answer. Raises ServerError: it did not come."""
        if self._answer is None:
            raise ServerError("the answer is not whole: the server went away")
        return self._answer


def _to_search(reader: Reader, options: AskOptions) -> SearchOptions:
    """The options of a search for a reader of this process; the server counts tokens with the
    index's encoder.
    """
    search: dict[str, Any] = dict(options)
    context_tokens = search.pop("context_tokens", None)
    if isinstance(reader, LanguageModelReader) or context_tokens:
        search["max_tokens"] = context_tokens or DEFAULT_CONTEXT
    return cast(SearchOptions, search)
