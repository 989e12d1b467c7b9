"""The public entry point: open an index, add to it, search it, ask it. It only composes the
parts.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from lmkrag.errors import ReaderError, UsageError, needs
from lmkrag.results import Answer, Context, SpanList
from lmkrag.search.request import (
    AskOptions,
    SearchOptions,
    SearchRequest,
    check_queries,
    search_each,
    show_options,
)
from lmkrag.system import is_address
from lmkrag.types import (
    Document,
    DocumentInfo,
    IndexReport,
    IndexStatus,
    SentenceScore,
    check_doc_id,
    check_range,
)

if TYPE_CHECKING:
    from lmkrag.encoder.landmark import LandmarkEncoder
    from lmkrag.evidence.checking import CitationCheck
    from lmkrag.evidence.quotations import Source as Cited
    from lmkrag.index.catalog import DocumentRow
    from lmkrag.index.snapshot import Snapshot
    from lmkrag.index.store import IndexStore
    from lmkrag.ingest.report import Progress
    from lmkrag.ingest.sources import Prune
    from lmkrag.readers.base import AnswerStream, AsyncAnswerStream, Reader
    from lmkrag.readers.prompt import Layout
    from lmkrag.reranker.base import Reranker
    from lmkrag.search.filters import Filter
    from lmkrag.search.weights import Weights


def find_store_type(path: object) -> "type[IndexStore]":
    """Return the class of the store at a path, a directory or an address. Raises MissingExtra: no
    qdrant-client.
    """
    if is_address(path):
        with needs("qdrant", "qdrant-client"):
            from lmkrag.qdrant.store import QdrantStore

        return QdrantStore
    from lmkrag.index.store import IndexStore

    return IndexStore


class Engine:
    """An index and the encoder that made it: ``engine.encoders.encoder``; ``engine.pages`` draws
    pages.

    Reading methods may be called from any thread and after a fork; one process at a time may write.
    After ``close()``, new calls raise ``IndexClosed``; running calls finish.

    >>> from tempfile import mkdtemp
    >>> engine = Engine.open(f"{mkdtemp()}/orchard", create=True)
    >>> engine.add(Document("apples.txt", "apples.txt", "Pears ripen in October. Apples are picked in May.")).added
    1
    >>> engine.ask("When are apples picked?").citations[0].quote
    'Apples are picked in May.'
    >>> engine.search("When are apples picked?", level="sentence", top_k=1)[0].text
    'Apples are picked in May.'
    """  # noqa: E501

    def __init__(
        self,
        store: "IndexStore",
        encoder: "LandmarkEncoder | None" = None,
        *,
        reranker: "Reranker | str | None" = None,
        rerank: bool = True,
        rerank_timeout_ms: float | None = None,
        weights: "Weights | None" = None,
    ) -> None:
        """Take an open store; the encoder and the re-ranker are loaded when they are first needed,
        unless given.
        """
        from lmkrag.encoder.index_encoder import IndexEncoders
        from lmkrag.evidence.finder import EvidenceFinder
        from lmkrag.search.weights import WEIGHTS

        if isinstance(store, str | Path):
            raise UsageError(f"an engine is opened from a directory by Engine.open({str(store)!r})")
        SearchRequest(rerank=rerank, rerank_timeout_ms=rerank_timeout_ms)
        self._store = store
        self.encoders = IndexEncoders(store.place, store.encoder, encoder)
        self.finder = EvidenceFinder(
            store.reader.snapshot,
            self.encoders,
            reranker,
            rerank=rerank,
            rerank_timeout_ms=rerank_timeout_ms,
            weights=weights or WEIGHTS,
        )
        self.pages = self.finder.pages

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = False,
        encoder: "str | LandmarkEncoder | None" = None,
        recipe: str | None = None,
        reranker: "Reranker | str | None" = None,
        rerank: bool = True,
        rerank_timeout_ms: float | None = None,
    ) -> Self:
        """Open an index directory, or an index on Qdrant.

        Args:
            path: of the index, or its address on Qdrant: ``qdrant://HOST:6333/NAME``.
            create: create it if missing.
            encoder: a model folder, hub name or loaded encoder. An existing index knows its own.
            recipe: how vectors are stored, a name or ``.toml`` file; only for a new index.
            reranker: a folder, a hub name or a loaded re-ranker; our own without one.
            rerank: the default of ``rerank`` in searches.
            rerank_timeout_ms: the default of ``rerank_timeout_ms`` in searches.

        Raises:
            IndexNotFound: there is none and ``create`` is false. UsageError: another ``recipe``
                than the index has.
            IndexMismatch: the index was made with another encoder, or a newer lmkrag. IndexCorrupt:
                it is damaged.
        """
        from lmkrag.ingest.opening import open_index

        kind = find_store_type(path)
        store, loaded = open_index(path, create=create, encoder=encoder, recipe=recipe, kind=kind)
        return cls(
            store, loaded, reranker=reranker, rerank=rerank, rerank_timeout_ms=rerank_timeout_ms
        )

    def close(self) -> None:
        """Close the files of the index once running calls have finished; new calls raise
        IndexClosed.
        """
        self._store.close()
        self.pages.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Engine({str(self._store.place)!r})"

    # Writing

    def add(
        self,
        source: str | Path | Document | Mapping[str, str | Path] | Iterable[Any],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        prune: "Prune" = False,
        follow_links: bool = False,
        ray: str | None = None,
        progress: "Progress | bool" = True,
    ) -> IndexReport:
        """Index files, directories or documents.

        Args:
            source: a path, several, or documents: ours, LangChain's or LlamaIndex's, from an
                iterator. A mapping gives files a ``doc_id``.
            include: globs of ``.gitignore`` form; only files that match one.
            exclude: globs; no files that match one.
            prune: remove documents whose files are gone from a directory in ``source``. Where all
                files of a directory are gone, as those of a disk that is not mounted, true is
                refused, ``"some"`` keeps its documents with a warning, and ``"all"`` removes them.
            follow_links: also follow links to files outside the directories in ``source``.
            ray: address of a Ray cluster whose machines read and encode files: ``HOST:PORT``,
                ``auto`` for the one that this machine belongs to, or ``local`` to start one here.
            progress: shown on a terminal and in a notebook unless false; a function is called
                instead with (document, bytes done, bytes in all or 0) as documents are encoded.

        Raises:
            UsageError: a path does not exist, is a URL or an archive, or an option makes no sense.
                FilesGone: all files
            of a directory are gone. IndexLocked: somebody writes. StorageError: writing failed.
        """
        from lmkrag.ingest.ingest import ingest
        from lmkrag.ingest.report import show_progress
        from lmkrag.ingest.sources import make_source

        encode = None
        if ray is not None:
            if is_address(self._store.place):
                raise UsageError(
                    "ray encodes into a directory: copy it to Qdrant afterwards, lmkrag "
                    "index-tools copy"
                )
            from lmkrag.ray_encoding import encode_on_ray

            encode = partial(encode_on_ray, self._store, ray)
        documents = make_source(
            source,
            include=include,
            exclude=exclude,
            prune=prune,
            follow_links=follow_links,
            encode=encode,
        )
        with (
            show_progress()
            if progress is True
            else contextlib.nullcontext(progress or None) as show
        ):
            return ingest(
                self._store,
                lambda: self.encoders.encoder_of(self._store.encoder),
                documents,
                progress=show,
            )

    def remove(
        self, doc_ids: str | Iterable[str] | None = None, *, filter: "Filter | None" = None
    ) -> int:
        """Remove documents by their ids or by a filter, with their attachments; return how many.

        Raises:
            DocumentNotFound: one is not in the index; nothing is removed then. UsageError: an empty
                or wrong filter.
        """
        if (doc_ids is None) == (filter is None) or not (filter is None or filter):
            raise UsageError("remove documents by their ids, or by a filter that is not empty")
        doc_ids = (
            [doc_ids]
            if isinstance(doc_ids, str) or not isinstance(doc_ids, Iterable | None)
            else doc_ids
        )
        with self._store.writing():
            removed = dict.fromkeys(
                info.doc_id for info in self.documents(filter=filter, doc_ids=doc_ids)
            )
            self._store.commit_removed(removed)
        return len(removed)

    def compact(self) -> None:
        """Rewrite segments without deleted rows, by the recipe for the size of the index."""
        with self._store.writing():
            self._store.compact()

    def verify(self) -> tuple[str, ...]:
        """Check every file and row of the index; return its problems, empty if it is intact."""
        from lmkrag.index.verify import find_problems

        return find_problems(self._store)

    # Searching

    @show_options(SearchOptions)
    def search(self, query: str, **options: Unpack[SearchOptions]) -> SpanList:
        """Find the passages that answer ``query``, best first: a list whose ``notes`` tell which
        are stale.

        Args:
            query: a question or words.
            options: ``top_k``, ``max_tokens``, ``mode``, ``level``, ``filter``, ``per_document``,
                ``explain``, ``boxes``, ``operators``, ``rerank`` and ``rerank_timeout_ms``: see
                :class:`lmkrag.search.request.SearchRequest`.

        Raises:
            UsageError: an option is out of range, or the filter can't be parsed.
        """
        return self.finder.search([query], SearchRequest(**options))[0]

    @show_options(SearchOptions)
    async def asearch(self, query: str, **options: Unpack[SearchOptions]) -> SpanList:
        """Like :meth:`search`, without blocking the event loop."""
        import asyncio

        return (await asyncio.to_thread(self.finder.search, [query], SearchRequest(**options)))[0]

    @show_options(SearchOptions)
    def search_many(
        self, queries: Sequence[str], **options: Unpack[SearchOptions]
    ) -> list[SpanList | UsageError]:
        """Like :meth:`search` for many queries, encoded together and searched in one snapshot.

        Returns the results in the order of the queries, and for one that can't be searched, such as
        a blank one, the error instead.
        """
        request = SearchRequest(**options)
        return search_each(check_queries(queries), lambda asked: self.finder.search(asked, request))

    def score_sentences(self, query: str, doc_id: str) -> list[SentenceScore]:
        """Return how well every sentence of a document fits ``query``, from its first to its last
        character.

        The scores compare sentences of this document; those of a search compare documents, too.

        Raises:
            DocumentNotFound: it is not in the index. UsageError: the question is empty.
        """
        return self.finder.score_sentences(query, partial(self._find, doc_id=doc_id))

    # Asking

    @show_options(AskOptions)
    def ask(
        self, question: str, *, reader: "Reader | None" = None, **options: Unpack[AskOptions]
    ) -> Answer:
        """Answer a question from the documents, with citations.

        Args:
            question: in words.
            reader: what answers; without one the spans themselves, their best sentences cited.
            options: as of :meth:`search`, with ``context_tokens`` instead of ``max_tokens``.

        Raises:
            UsageError: as :meth:`search`. ReaderError: the reader failed.
        """
        answer = next(self.ask_many([question], reader=reader, **options))
        if not isinstance(answer, Answer):
            raise answer
        return answer

    @show_options(AskOptions)
    def ask_many(
        self,
        questions: Sequence[str],
        *,
        reader: "Reader | None" = None,
        **options: Unpack[AskOptions],
    ) -> Iterator[Answer | ReaderError | UsageError]:
        """Like :meth:`ask` for many questions, searched together and read as many at a time as the
        reader can.

        Yields the answers in the order of the questions, and the error instead of an answer where
        the reader fails or the question can't be searched, such as a blank one.
        """
        from lmkrag.readers.base import LanguageModelReader, answer_or_error
        from lmkrag.readers.choose import load_reader

        reader, request, questions = (
            reader or load_reader(),
            SearchRequest(**options),
            check_queries(questions),
        )
        found = search_each(questions, lambda asked: self.finder.search_for(reader, asked, request))
        asked = [
            question
            for question, spans in zip(questions, found, strict=True)
            if isinstance(spans, SpanList)
        ]
        read = [spans for spans in found if isinstance(spans, SpanList)]
        if isinstance(reader, LanguageModelReader):
            answers = reader.answer_each(asked, read)
        else:
            answers = map(partial(answer_or_error, reader.answer), asked, read)
        return (
            spans if isinstance(spans, UsageError) else _with_notes(next(answers), spans)
            for spans in found
        )

    @show_options(AskOptions)
    def ask_stream(
        self, question: str, *, reader: "Reader | None" = None, **options: Unpack[AskOptions]
    ) -> "AnswerStream":
        """Like :meth:`ask`, piece by piece: iterate over the text, then call ``.answer()``."""
        from lmkrag.readers.choose import load_reader

        reader = reader or load_reader()
        (spans,) = self.finder.search_for(reader, [question], SearchRequest(**options))
        return reader.stream(question, spans).with_notes(spans.notes)

    @show_options(AskOptions)
    def aask_stream(
        self, question: str, *, reader: "Reader | None" = None, **options: Unpack[AskOptions]
    ) -> "AsyncAnswerStream":
        """Like :meth:`ask_stream`, for ``async for``; ``await stream.answer()`` is the answer."""
        import asyncio

        from lmkrag.readers.base import AsyncAnswerStream
        from lmkrag.readers.choose import load_reader

        reader, request = reader or load_reader(), SearchRequest(**options)

        async def begin() -> AsyncAnswerStream:
            (spans,) = await asyncio.to_thread(self.finder.search_for, reader, [question], request)
            return reader.astream(question, spans).with_notes(spans.notes)

        return AsyncAnswerStream.begin_with(begin)

    @show_options(AskOptions)
    def build_context(
        self, question: str, *, layout: "Layout" = "fenced", **options: Unpack[AskOptions]
    ) -> Context:
        """Return the spans for a question for a prompt of your own: numbered, fenced or ``plain``,
        with sources.
        """
        (context,) = self.finder.build_contexts([question], SearchRequest(**options), layout=layout)
        return context

    # Reading

    def check(self, source: "Cited") -> "list[CitationCheck]":
        """Check whether the quotations of an answer, spans, their JSON or a text are still in the
        documents.

        Raises:
            UsageError: the source has no citations.
        """
        from lmkrag.evidence.checking import check_citations

        return check_citations(self, source)

    def documents(
        self,
        *,
        filter: "Filter | None" = None,
        after: str | None = None,
        limit: int | None = None,
        doc_ids: Iterable[str] | None = None,
    ) -> list[DocumentInfo]:
        """Return what the index knows of its documents, by ``doc_id``, their texts aside.

        Args:
            filter: which, such as ``kind=pdf and path=docs/*`` or ``{"kind": "pdf"}``.
            after: only documents whose ``doc_id`` comes after this one, the last of the page
                before.
            limit: maximum number of documents; all without.
            doc_ids: these documents, in this order, whatever else is asked for.

        Raises:
            UsageError: the filter can't be parsed, or an argument is of another type.
            DocumentNotFound: one of ``doc_ids`` is not in the index.
        """
        from lmkrag.search.selection import describe_row, list_documents

        with self._reading() as snapshot:
            if doc_ids is not None:
                return [describe_row(self._find(snapshot, doc_id)) for doc_id in doc_ids]
            names_folders = self.finder.names_folders
            return list_documents(
                snapshot, filter, check_doc_id(after or ""), limit, names_folders=names_folders
            )

    def document(self, doc_id: str) -> Document:
        """Return a document with its text exactly as indexed, and its metadata.

        Raises:
            DocumentNotFound: it is not in the index.
        """
        from lmkrag.search.selection import to_document

        with self._reading() as snapshot:
            row = self._find(snapshot, doc_id)
            return to_document(row, snapshot.read_text(row))

    def read(self, doc_id: str, start: int = 0, end: int | None = None) -> str:
        """Return the text of a document, or its characters ``[start, end)``, exactly as indexed.

        Raises:
            DocumentNotFound: it is not in the index. UsageError: ``start`` is negative.
        """
        check_range(start, end)
        with self._reading() as snapshot:
            return snapshot.read_text(self._find(snapshot, doc_id), start, end)

    def status(self) -> IndexStatus:
        """Return what the index holds."""
        return self._store.status()

    def _reading(self, *, segments: bool = False) -> "contextlib.AbstractContextManager[Snapshot]":
        return self._store.reader.snapshot(segments=segments)

    def _find(self, snapshot: "Snapshot", doc_id: str) -> "DocumentRow":
        from lmkrag.search.selection import find_document

        return find_document(snapshot, doc_id, self._store.place)


def _with_notes(answer: Answer | ReaderError, spans: SpanList) -> Answer | ReaderError:
    return answer if isinstance(answer, ReaderError) else answer.with_notes(spans.notes)
