"""The public entry point: open an index, add to it, search it, ask it.

:class:`Engine` only composes the parts. The index stores documents and vectors, the encoder makes
the vectors, the finder finds passages, and readers answer from them.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from lmkrag.errors import ReaderError, UsageError, needs
from lmkrag.index.location import is_address
from lmkrag.results import Answer, Context, SpanList
from lmkrag.search.request import (
    AskOptions,
    SearchOptions,
    SearchRequest,
    check_queries,
    search_each,
    show_options,
)
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
    """Return the class of the store at a path.

    Args:
        path: a directory, or the address of an index on Qdrant, such as
            ``qdrant://HOST:6333/NAME``.

    Returns:
        ``QdrantStore`` for an address, else ``IndexStore``. The class is returned, no store is
            opened.

    Raises:
        MissingExtra: the path is an address and qdrant-client is not installed.
    """
    if is_address(path):
        with needs("qdrant", "qdrant-client"):
            from lmkrag.qdrant.store import QdrantStore

        return QdrantStore
    from lmkrag.index.store import IndexStore

    return IndexStore


class Engine:
    """An index, the encoder that made it, and the searches in it.

    :meth:`open` opens or creates an index. Reading methods may be called from any thread and after
    a fork; one process at a time may write. After ``close()``, new calls raise ``IndexClosed``;
    running calls finish. An engine is a context manager that closes itself.

    Attributes:
        encoders: the encoders of the index, loaded on first use; ``encoders.encoder`` is its
            :class:`LandmarkEncoder`.
        finder: searches the current state of the index, and marks what it finds.
        pages: draws pages of PDF files, pictures and slides, and finds text on them.

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
        """Take an open store; :meth:`open` is the usual way to an engine.

        Args:
            store: an open index; the engine closes it.
            encoder: the loaded encoder that made the index. By default the one that the index has
                recorded is loaded when it is first needed.
            reranker: a folder, a hub name, the URL of a server's ``/v1/rerank`` or a loaded
                re-ranker; by default the packaged one is loaded when it is first needed.
            rerank: whether searches re-rank their best passages unless they say otherwise.
            rerank_timeout_ms: the default time limit of re-ranking in milliseconds, above 0; None
                for no limit.
            weights: the numbers that searches rank by; defaults to
                :data:`lmkrag.search.weights.WEIGHTS`.

        Raises:
            UsageError: ``store`` is a path, or an option is out of range.
            IndexMismatch: ``encoder`` is not the one that made the index.
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
        """Open an index in a directory, or an index on Qdrant.

        Args:
            path: the directory of the index, or its address on Qdrant: ``qdrant://HOST:6333/NAME``.
            create: whether to create the index if there is none.
            encoder: a model folder, a hub name or a loaded encoder. A new index defaults to the
                packaged English encoder, and may choose another one by the language of its first
                documents; an existing index records which encoder made it.
            recipe: how vectors are stored, by the name of a recipe or as a ``.toml`` file; only for
                a new index. By default the size of each segment decides.
            reranker: a folder, a hub name, the URL of a server's ``/v1/rerank`` or a loaded
                re-ranker; defaults to the packaged one.
            rerank: the default of ``rerank`` in searches.
            rerank_timeout_ms: the default of ``rerank_timeout_ms`` in searches, in milliseconds;
                None for no limit.

        Returns:
            An open engine. It is a context manager: ``with Engine.open(path) as engine``.

        Raises:
            IndexNotFound: there is no index at the path and ``create`` is false.
            IndexMismatch: the index was made with another encoder, or by a newer version of lmkrag.
            IndexCorrupt: a file of the index is damaged or missing.
            EncoderError: ``encoder`` can't be loaded.
            MissingExtra: the path is an address and qdrant-client is not installed.
            UsageError: ``recipe`` is not the recipe of the existing index, or an option is out of
                range.
        """
        from lmkrag.ingest.opening import open_index

        kind = find_store_type(path)
        store, loaded = open_index(path, create=create, encoder=encoder, recipe=recipe, kind=kind)
        return cls(
            store, loaded, reranker=reranker, rerank=rerank, rerank_timeout_ms=rerank_timeout_ms
        )

    def close(self) -> None:
        """Close the files of the index once running calls have finished.

        New calls raise IndexClosed; closing twice does nothing.
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
        generated: bool = False,
        ray: str | None = None,
        progress: "Progress | bool" = True,
    ) -> IndexReport:
        """Index files, directories or documents in one run.

        A document whose ``doc_id`` is in the index replaces the earlier version. Files that did not
        change since they were indexed are neither read nor encoded again. A file that can't be read
        is skipped and listed in the report; the run continues. What was committed when a run is
        interrupted stays in the index.

        Args:
            source: a path, several paths, or documents: those of lmkrag, LangChain or LlamaIndex,
                also from an iterator. A mapping of ``doc_id`` to path gives files their names.
            include: globs in the form of ``.gitignore``; only files that match one are indexed. All
                files by default.
            exclude: globs in the same form; files that match one are not indexed.
            prune: whether documents are removed whose files are gone from a directory in
                ``source``. If all files of a directory are gone, as those of a disk that is not
                mounted, true is refused, ``"some"`` keeps its documents with a warning, and
                ``"all"`` removes them.
            follow_links: whether links to files outside the directories in ``source`` are followed.
            generated: whether files that programs wrote are indexed, too, such as lock files,
                vocabularies, minified code and builds. A file that ``source`` names itself always
                is.
            ray: the address of a Ray cluster whose machines read and encode files: ``HOST:PORT``,
                ``auto`` for the cluster that this machine belongs to, or ``local`` to start one
                here.
            progress: true shows progress on a terminal and in a notebook, false shows none. A
                function is called with (``doc_id``, bytes done, bytes in all) as documents are
                encoded; bytes in all are 0 while they are unknown.

        Returns:
            The counts of documents added, updated, unchanged and removed, and the skipped files
                with reasons.

        Raises:
            UsageError: a path does not exist, is a URL or an archive, or an option is out of range.
            FilesGone: all files of a directory are gone and ``prune`` is true.
            IndexLocked: another process is writing to the index.
            StorageError: writing failed, as on a full disk.
            EncoderError: the encoder of the index can't be loaded.
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
            from lmkrag.ingest.ray_encoding import encode_on_ray

            encode = partial(encode_on_ray, self._store, ray)
        # Say what is to be indexed; nothing is read so far.
        documents = make_source(
            source,
            include=include,
            exclude=exclude,
            prune=prune,
            follow_links=follow_links,
            generated=generated,
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
        """Remove documents by their ids or by a filter, with their attachments, in one commit.

        Args:
            doc_ids: one ``doc_id`` or several.
            filter: removes all matching documents, such as ``kind=pdf and path=docs/*`` or
                ``{"kind": "pdf"}``. Exactly one of ``doc_ids`` and ``filter`` is given.

        Returns:
            The number of documents removed, attachments included.

        Raises:
            DocumentNotFound: one of ``doc_ids`` is not in the index; nothing is removed then.
            UsageError: both or neither of the arguments are given, or the filter is empty or can't
                be parsed.
            IndexLocked: another process is writing to the index.
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
        """Rewrite segments without their deleted rows, by the recipe for the size of the index.

        Results of searches stay the same; they take less memory and time afterwards.

        Raises:
            IndexLocked: another process is writing to the index.
            StorageError: writing failed, as on a full disk.
        """
        with self._store.writing():
            self._store.compact()

    def verify(self) -> tuple[str, ...]:
        """Read every file and row of the index and check them against their checksums.

        Returns:
            The problems, one sentence each; an empty tuple if the index is intact.
        """
        from lmkrag.index.verify import find_problems

        return find_problems(self._store)

    # Searching

    @show_options(SearchOptions)
    def search(self, query: str, **options: Unpack[SearchOptions]) -> SpanList:
        """Find the passages that answer a question.

        Args:
            query: a question or words, in any language that the encoder reads.
            options: ``top_k``, ``max_tokens``, ``mode``, ``level``, ``filter``, ``per_document``,
                ``explain``, ``boxes``, ``operators``, ``rerank``, ``rerank_timeout_ms``,
                ``abstain_below``, ``since`` and ``until``: see
                :class:`lmkrag.search.request.SearchRequest`.

        Returns:
            Spans, best first. ``notes`` of the list are sentences to show with them, such as which
                files changed since they were indexed.

        Raises:
            UsageError: the query is blank, an option is out of range, or the filter can't be
                parsed.
            IndexClosed: the engine was closed.
        """
        return self.finder.search([query], SearchRequest(**options))[0]

    @show_options(SearchOptions)
    async def asearch(self, query: str, **options: Unpack[SearchOptions]) -> SpanList:
        """Run :meth:`search` in a thread, so that the event loop is not blocked."""
        import asyncio

        return await asyncio.to_thread(self.search, query, **options)

    @show_options(SearchOptions)
    def search_many(
        self, queries: Sequence[str], **options: Unpack[SearchOptions]
    ) -> list[SpanList | UsageError]:
        """Search for many queries, which are encoded together and searched in one snapshot.

        Args:
            queries: questions or words.
            options: as of :meth:`search`, the same for all queries.

        Returns:
            The results in the order of the queries. A query that can't be searched, such as a blank
                one, has its UsageError in place of results.

        Raises:
            UsageError: ``queries`` is not a list of strings, or an option is out of range.
        """
        request = SearchRequest(**options)
        return search_each(check_queries(queries), lambda asked: self.finder.search(asked, request))

    def score_sentences(self, query: str, doc_id: str) -> list[SentenceScore]:
        """Return how well every sentence of a document fits a question.

        The scores compare sentences of this document; those of a search compare documents, too.

        Args:
            query: a question or words.
            doc_id: the name of a document.

        Returns:
            A score for each sentence, in their order. The sentences tile the document from its
                first to its last character.

        Raises:
            DocumentNotFound: the document is not in the index.
            UsageError: the question is blank.
        """
        return self.finder.score_sentences(query, partial(self._find, doc_id=doc_id))

    # Asking

    @show_options(AskOptions)
    def ask(
        self, question: str, *, reader: "Reader | None" = None, **options: Unpack[AskOptions]
    ) -> Answer:
        """Answer a question from the documents, with citations.

        Args:
            question: a question in words.
            reader: what answers. By default the best passages are the answer, with the sentences
                that answer cited; a language model needs a reader such as
                :class:`lmkrag.readers.openai.OpenAIReader`.
            options: as of :meth:`search`, with ``context_tokens`` in place of ``max_tokens``,
                ``level``, ``explain``, ``boxes`` and ``operators``.

        Returns:
            The answer. Its ``found`` is false if the documents probably do not answer the question.

        Raises:
            UsageError: as for :meth:`search`.
            ReaderError: the reader failed, as when its server can't be reached.
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
        """Answer many questions, searched together and read as many at a time as the reader can.

        Args:
            questions: questions in words.
            reader: as of :meth:`ask`.
            options: as of :meth:`ask`, the same for all questions.

        Returns:
            An iterator over the answers, in the order of the questions. A question that can't be
                searched, such as a blank one, has its UsageError in place of an answer, and one
                that the reader fails on its ReaderError.

        Raises:
            UsageError: ``questions`` is not a list of strings, or an option is out of range.
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
        # Put both together: one answer or error for each question.
        return (
            spans if isinstance(spans, UsageError) else _with_notes(next(answers), spans)
            for spans in found
        )

    @show_options(AskOptions)
    def ask_stream(
        self, question: str, *, reader: "Reader | None" = None, **options: Unpack[AskOptions]
    ) -> "AnswerStream":
        """Answer a question piece by piece, as a language model writes.

        Args:
            question: a question in words.
            reader: as of :meth:`ask`.
            options: as of :meth:`ask`.

        Returns:
            A stream: iterate over pieces of the text, then call ``.answer()`` for the answer with
                its checked citations.

        Raises:
            UsageError: as for :meth:`search`.
            ReaderError: the reader failed; raised while iterating, too.
        """
        from lmkrag.readers.choose import load_reader

        reader = reader or load_reader()
        (spans,) = self.finder.search_for(reader, [question], SearchRequest(**options))
        return reader.stream(question, spans).with_notes(spans.notes)

    @show_options(AskOptions)
    def aask_stream(
        self, question: str, *, reader: "Reader | None" = None, **options: Unpack[AskOptions]
    ) -> "AsyncAnswerStream":
        """Answer a question piece by piece, without blocking the event loop.

        Args:
            question: a question in words.
            reader: as of :meth:`ask`.
            options: as of :meth:`ask`.

        Returns:
            A stream for ``async for``; ``await stream.answer()`` is the answer. The search begins
                with the iteration, and its errors are raised there.

        Raises:
            UsageError: an option is out of range.
        """
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
        """Return the passages for a question as text for a prompt of your own.

        Args:
            question: a question in words.
            layout: ``"fenced"`` puts each passage between delimiters with an unguessable key, so
                that a document can't pretend to be the prompt; ``"plain"`` numbers passages, names
                their sources and quotes them with ``>``, for small models.
            options: as of :meth:`ask`; ``context_tokens`` limits the text.

        Returns:
            The text, its spans and its cost in tokens of the encoder's tokenizer.

        Raises:
            UsageError: as for :meth:`search`, or the best passage does not fit in
                ``context_tokens``.
        """
        (context,) = self.finder.build_contexts([question], SearchRequest(**options), layout=layout)
        return context

    # Reading

    def check(self, source: "Cited") -> "list[CitationCheck]":
        """Check whether quotations are still in the documents, word for word.

        Args:
            source: an answer, spans, the JSON of either, or a text with quotations.

        Returns:
            The state of each quotation in the documents as they are in the index: same, moved,
                elsewhere, changed, stitched, reworded or gone; see :mod:`lmkrag.evidence.checking`.

        Raises:
            UsageError: ``source`` has no citations.
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
        """Return the records of documents, in the order of ``doc_id``, without their texts.

        Args:
            filter: only matching documents, such as ``kind=pdf and path=docs/*`` or ``{"kind":
                "pdf"}``; all by default.
            after: only documents whose ``doc_id`` comes after this one, such as the last of the
                page before.
            limit: maximum number of documents; None for no limit.
            doc_ids: exactly these documents, in this order; the other arguments have no effect
                then.

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

        Args:
            doc_id: the name of the document.

        Raises:
            DocumentNotFound: the document is not in the index.
        """
        from lmkrag.search.selection import to_document

        with self._reading() as snapshot:
            row = self._find(snapshot, doc_id)
            return to_document(row, snapshot.read_text(row))

    def read(self, doc_id: str, start: int = 0, end: int | None = None) -> str:
        """Return the text of a document, or a range of its characters, exactly as indexed.

        Args:
            doc_id: the name of the document.
            start: the first character, from 0.
            end: the character after the last one; None or a number past the end for the rest of the
                text.

        Raises:
            DocumentNotFound: the document is not in the index.
            UsageError: ``start`` is negative, or one of them is not a whole number.
        """
        check_range(start, end)
        with self._reading() as snapshot:
            return snapshot.read_text(self._find(snapshot, doc_id), start, end)

    def status(self) -> IndexStatus:
        """Return what the index holds: counts, its size on disk, its encoder and its recipe."""
        return self._store.status()

    def _reading(self, *, segments: bool = False) -> "contextlib.AbstractContextManager[Snapshot]":
        return self._store.reader.snapshot(segments=segments)

    def _find(self, snapshot: "Snapshot", doc_id: str) -> "DocumentRow":
        """Return the row of a document, or raise DocumentNotFound with the most similar name."""
        from lmkrag.search.selection import find_document

        return find_document(snapshot, doc_id, self._store.place)


def _with_notes(answer: Answer | ReaderError, spans: SpanList) -> Answer | ReaderError:
    """Return an answer with the notes of its search; an error stays as it is."""
    return answer if isinstance(answer, ReaderError) else answer.with_notes(spans.notes)
