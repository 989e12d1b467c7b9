"""The front door: composes the parts, computes nothing itself."""

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from lmkrag.errors import DocumentNotFound, IndexClosed, IndexNotFound, ReaderError, UsageError
from lmkrag.json_values import replace_surrogates
from lmkrag.retrieval.request import AskOptions, SearchOptions, SearchRequest, check_queries
from lmkrag.system import renew_in_forks
from lmkrag.types import (
    MAX_DOC_ID,
    Answer,
    Context,
    Document,
    DocumentInfo,
    IndexCounts,
    IndexReport,
    IndexStatus,
    Level,
    Mode,
    RepairReport,
    SentenceScore,
    Span,
)

if TYPE_CHECKING:
    from lmkrag.cluster.scattering import ScatteredStore
    from lmkrag.encoder.landmark import LandmarkEncoder
    from lmkrag.index.catalog import DocumentRow
    from lmkrag.index.shards import Store
    from lmkrag.index.snapshot import Searchable, SnapshotReader
    from lmkrag.indexing import Progress
    from lmkrag.readers.base import AnswerStream, AsyncAnswerStream, Reader
    from lmkrag.remote import RemoteEngine
    from lmkrag.reranker.base import Reranker


class Engine:
    """An index and the encoder that made it.

    Reading methods may be called from any thread and after a fork; one process at a time may write. A closed engine
    refuses further calls; those that are running end as if it were open.

    >>> engine = Engine.open("indexes/handbook", create=True)  # doctest: +SKIP
    >>> engine.add("docs/")  # doctest: +SKIP
    >>> engine.search("how is leave accrued?", top_k=8)  # doctest: +SKIP
    """

    def __init__(
        self,
        store: "Store | ScatteredStore",
        encoder: "LandmarkEncoder | None" = None,
        *,
        reranker: "Reranker | str | None" = None,
        rerank: bool | float = True,
    ) -> None:
        """Take an open store; the encoder and the re-ranker are loaded when they are first needed, unless given."""
        from lmkrag.encoders import IndexEncoders
        from lmkrag.searching import Searcher

        if isinstance(store, str | Path):
            raise UsageError(f"an engine is opened from a directory by Engine.open({str(store)!r})")
        self._store = store
        self._encoders = IndexEncoders(store.path, store.encoder, encoder)
        self._searcher = Searcher(self._reading, self._encoders, reranker, rerank=rerank)
        self.renew_locks()
        renew_in_forks(self)

    def renew_locks(self) -> None:
        """Begin with a lock that no thread holds."""
        self._switch = threading.Lock()  # held while another store takes the place of this one

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = False,
        encoder: "str | LandmarkEncoder | None" = None,
        recipe: str | None = None,
        shards: int | None = None,
        reranker: "Reranker | str | None" = None,
        rerank: bool | float = True,
        partial: bool = False,
    ) -> Self:
        """Open an index directory.

        Args:
            path: the index.
            create: make it if it is not there.
            encoder: a model folder, hub name or loaded encoder. An existing index knows its own.
            recipe: how vectors are stored, a name or ``.toml`` file; only when the index is made.
            shards: divide the documents among so many indexes below ``path``, which are searched as one; only when the
                index is made, see :meth:`reshard`.
            reranker: what reads again what a search found: a folder or hub name, or one that is loaded; our own by
                default.
            rerank: the default of ``rerank`` in searches: see :meth:`search`.
            partial: read the shards that there are; ``missing`` tells which are not.

        Raises:
            IndexNotFound: there is none and ``create`` is false. UsageError: another ``recipe`` than the index has.
            IndexMismatch: the index was made with another encoder, or a newer lmkrag. IndexCorrupt: it is damaged.
        """
        from lmkrag.encoders import load_encoder, load_new_encoder
        from lmkrag.index.recipes import DEFAULT_RECIPE, load_recipe
        from lmkrag.index.shards import ShardedStore, check_shards, index_exists, open_store, parts_of
        from lmkrag.index.store import IndexStore
        from lmkrag.system import check_platform, set_wait_policy

        check_platform()
        set_wait_policy()
        path = _check_opening(path, encoder, create=create, partial=partial)
        if shards is not None:
            check_shards(shards)
        if index_exists(path):
            store = open_store(path, partial=partial)
            if shards is not None and shards != len(parts_of(store)):
                raise UsageError(
                    f"{path}: has {len(parts_of(store))} shards; run lmkrag cluster reshard --shards {shards}"
                )
            if recipe is not None and recipe != store.recipe.name and load_recipe(recipe) != store.recipe:
                raise UsageError(
                    f"{path}: made with recipe {store.recipe.name!r}; run lmkrag index-tools reindex --recipe {recipe}"
                )
            spec = store.encoder
            if encoder is None:
                return cls(store, reranker=reranker, rerank=rerank)
            loaded = load_encoder(encoder, window=spec.window, overlap=spec.overlap)
            return cls(store, loaded, reranker=reranker, rerank=rerank)
        if not create:
            raise IndexNotFound(f"{path}: no index here; make one with: lmkrag index PATH --index {path}")
        made_with = load_recipe(recipe or DEFAULT_RECIPE)
        loaded = load_new_encoder(encoder)
        if shards is not None:
            sharded = ShardedStore.create(path, encoder=loaded.spec, recipe=made_with, shards=shards)
            return cls(sharded, loaded, reranker=reranker, rerank=rerank)
        created = IndexStore.create(path, encoder=loaded.spec, recipe=made_with)
        return cls(created, loaded, reranker=reranker, rerank=rerank)

    @staticmethod
    def connect(url: str, *, token: str | None = None, timeout: float = 60.0) -> "RemoteEngine":
        """Connect to an index behind ``lmkrag serve``: the reading methods of an engine, over HTTP.

        Args:
            url: of the server, and after it the name of the index: ``http://localhost:8700/handbook``. Without a name
                (``http://localhost:8700``) the server's only index.
            token: that the server asks for; defaults to ``LMKRAG_TOKEN``; empty for none.
            timeout: seconds to wait for the server.

        Raises:
            UsageError: the URL is not one.
        """
        from lmkrag.remote import RemoteEngine

        return RemoteEngine(url, token=token, timeout=timeout)

    @property
    def missing(self) -> tuple[str, ...]:
        """A line for each shard that was missing or failed, of an index that was opened with ``partial``."""
        from lmkrag.index.store import IndexStore

        missing = None if isinstance(self._store, IndexStore) else self._store.missing
        return tuple(f"shard {number} is missing: {why}" for number, why in sorted((missing or {}).items()))

    @property
    def encoder(self) -> "LandmarkEncoder":
        """The encoder that made the index, loaded at first use."""
        return self._encoders.encoder

    def close(self) -> None:
        """Close the index's files, once nobody reads them any more; further calls are refused."""
        self._store.close()

    def _own_store(self) -> "Store":
        """The store, if its files are this process's to write and check.

        Raises:
            UsageError: they are other processes'.
        """
        from lmkrag.cluster.scattering import ScatteredStore

        if isinstance(self._store, ScatteredStore):
            raise UsageError(f"{self._store.path}: is read from other processes; work on the index itself")
        return self._store

    def __enter__(self) -> Self:
        """Return the engine; it is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the engine."""
        self.close()

    def __repr__(self) -> str:
        """Return where the index is."""
        return f"Engine({str(self._store.path)!r})"

    @contextlib.contextmanager
    def _reading(self, *, segments: bool = True) -> "Iterator[Searchable]":
        with contextlib.ExitStack() as held:
            store = self._store
            snapshot: Searchable
            try:
                reader: SnapshotReader = store.reader
                snapshot = held.enter_context(reader.snapshot(segments=segments))
            except IndexClosed:
                with self._switch:  # a repair puts another index in this one's place
                    if self._store is store:
                        raise
                again: SnapshotReader = self._store.reader
                snapshot = held.enter_context(again.snapshot(segments=segments))
            yield snapshot

    # Writing

    def add(
        self,
        source: str | Path | Document | Mapping[str, str | Path] | Iterable[Any],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        prune: bool = False,
        follow_links: bool = False,
        workers: int = 1,
        ray: str | None = None,
        gpus: float = 0.0,
        progress: "Progress | None" = None,
    ) -> IndexReport:
        """Index files, directories or documents.

        Args:
            source: a path, a URL that fsspec reads (``s3://bucket/docs``), several, or documents: ours, LangChain's or
                LlamaIndex's; an iterator of documents is read as they are needed. A mapping of names to paths gives
                files the ``doc_id`` that you choose.
            include: globs of ``.gitignore`` form; only files that match one.
            exclude: globs; no files that match one.
            prune: remove documents whose files are gone from a directory in ``source``.
            follow_links: also follow links to files outside the directories in ``source``.
            workers: number of processes that read and encode files; each loads the encoder.
            ray: address of a Ray cluster whose machines those processes are on, and see all paths as this one does:
                ``HOST:PORT``, ``auto``, or ``local`` to start one here.
            gpus: share of a card that each of them takes there.
            progress: called with (document, bytes done, bytes in all or 0) as documents are encoded.

        Returns:
            What was added, updated, unchanged, removed and skipped.

        Raises:
            UsageError: a path does not exist, ``workers`` is no positive number, options for files are given with
                documents, or no cluster answers.
            IndexLocked: somebody writes. StorageError: writing failed.
        """
        from lmkrag.cluster.processes import Workers
        from lmkrag.corpus.foreign import is_foreign
        from lmkrag.corpus.mirror import localize
        from lmkrag.indexing import add_documents, add_files, add_named_files

        store = self._own_store()
        who = Workers(workers, ray, gpus)
        if isinstance(source, Mapping):
            if include or exclude or prune or follow_links or who.elsewhere:
                raise UsageError("include, exclude, prune, follow_links and workers are for directories")
            named = {_check_doc_id(doc_id): Path(_as_path(path)) for doc_id, path in source.items()}
            return add_named_files(store, lambda: self.encoder, named, progress=progress)
        one = isinstance(source, str | Path | Document) or is_foreign(source)
        if not one and not isinstance(source, Iterable):
            raise UsageError(f"add paths, or documents of lmkrag, LangChain or LlamaIndex, not {type(source).__name__}")
        items: Iterator[Any] = iter([source] if one else source)  # type: ignore[arg-type]  # told apart above
        first = next(items, None)
        if first is None or isinstance(first, str | Path):
            sources = [_as_path(item) for item in chain([] if first is None else [first], items)]
            paths, left_out = localize(sources, include=include, exclude=exclude)
            how: dict[str, Any] = {"include": include, "exclude": exclude, "prune": prune, "progress": progress}
            how["follow_links"] = follow_links
            if not who.elsewhere:
                report = add_files(store, lambda: self.encoder, paths, **how)
            else:
                from lmkrag.cluster.indexing import add_files_by_workers

                report = add_files_by_workers(store, lambda: self.encoder, paths, workers=who, **how)
            return replace(report, skipped=(*left_out, *report.skipped))
        if include or exclude or prune or who.elsewhere:
            raise UsageError("include, exclude, prune and workers are for files: documents given as values have none")
        documents = map(_as_document, chain([first], items))
        return add_documents(store, lambda: self.encoder, documents, progress=progress)

    def adopt(self, folders: str | Path | Iterable[str | Path]) -> IndexReport:
        """Take the documents of blocks, which ``lmkrag cluster encode`` made, or of other indexes; nothing is encoded.

        Args:
            folders: a block, a folder of blocks or an index; or several.

        Raises:
            UsageError: a folder holds no block. IndexMismatch: another encoder made one. IndexCorrupt: one is damaged;
                those before it are adopted. IndexLocked: somebody writes.
        """
        from lmkrag.cluster.indexing import adopt_blocks

        wanted = [folders] if isinstance(folders, str | Path) else list(folders)
        return adopt_blocks(self._own_store(), [Path(folder) for folder in wanted])

    def remove(self, doc_ids: str | Iterable[str]) -> int:
        """Remove documents, with what is attached to them; return how many were named.

        Raises:
            DocumentNotFound: one is not in the index; nothing is removed then.
        """
        given = [doc_ids] if isinstance(doc_ids, str) or not isinstance(doc_ids, Iterable) else list(doc_ids)
        wanted = [_check_doc_id(doc_id) for doc_id in dict.fromkeys(given)]
        store = self._own_store()
        with store.writing():
            with self._reading(segments=False) as snapshot:
                for doc_id in wanted:
                    _find(snapshot, doc_id, self._store.path)
            store.commit_removed(wanted)
        return len(wanted)

    def reshard(self, shards: int) -> int:
        """Divide the documents among so many shards, nothing encoded; return how many documents there are.

        Engines that other processes have open on this index have to be opened again.

        Raises:
            UsageError: there are that many already, or the number makes no sense. IndexLocked: somebody writes.
        """
        from lmkrag.cluster.resharding import reshard_index

        with self._switching():
            return reshard_index(self.path, shards)

    def compact(self) -> None:
        """Rewrite the index without what was deleted, as its recipe says for its size."""
        store = self._own_store()
        with store.writing():
            store.compact()

    def repair(self) -> RepairReport:
        """Rebuild a damaged index: what is whole is kept, what is not is read from its file again, if that is there.

        The damaged index is kept beside the new one, which takes its place; nothing is done to one without problems.
        Searches go on meanwhile. Only repair an index you made: the files it names are read.

        Raises:
            StorageError: there is no room for a second copy, or somebody writes.
        """
        from lmkrag.repairing import repair_index

        return repair_index(self._own_store().path, encoder=lambda: self.encoder, switch=self._switching)

    @contextlib.contextmanager
    def _switching(self) -> Iterator[None]:
        """Let another index take the place of this one: nobody reads meanwhile."""
        from lmkrag.index.shards import open_store

        with self._switch:
            self._own_store().reader.close(wait=True)
            try:
                yield
            finally:
                self._store = open_store(self._store.path)
                self._searcher.forget()

    # Reading

    def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        budget: int | None = None,
        mode: Mode = "hybrid",
        level: Level = "passage",
        filter: str | None = None,
        per_document: int | None = None,
        explain: bool = False,
        operators: bool = False,
        rerank: bool | float | None = None,
    ) -> list[Span]:
        """Find the passages that answer ``query``, best first.

        Args:
            query: a question or words.
            top_k: number of results; defaults to 8, or with a budget to as many as fit.
            budget: tokens (of the encoder's tokenizer) the results may add up to.
            mode: ``"hybrid"``, ``"dense"`` or ``"lexical"``.
            level: ``"passage"``, which can be read alone: a span with the header of its table, the question it replies
                to, the rest of its short paragraph; ``"span"``, what answers and nothing else; ``"sentence"``; or
                ``"document"``.
            filter: which documents to search, such as ``kind=pdf and path=docs/*``.
            per_document: number of results of one document, at most.
            explain: give each span its ``explanation``; ``print(span.explain())``.
            operators: take ``-word`` and ``-"a phrase"`` at the end of ``query`` for what to leave out.
            rerank: read the best places together with the question and put them in a new order; a number is how many
                milliseconds that may take. Done by default, except in lexical mode.

        Raises:
            UsageError: an argument is out of range, or the filter can't be parsed.
        """
        request = SearchRequest(
            top_k=top_k,
            budget=budget,
            mode=mode,
            level=level,
            filter=filter,
            per_document=per_document,
            explain=explain,
            operators=operators,
            rerank=rerank,
        )
        return self._searcher.search([query], request)[0]

    async def asearch(self, query: str, **options: Unpack[SearchOptions]) -> list[Span]:
        """Like :meth:`search`, without blocking the event loop."""
        return (await asyncio.to_thread(self._searcher.search, [query], SearchRequest(**options)))[0]

    def search_many(self, queries: Sequence[str], **options: Unpack[SearchOptions]) -> list[list[Span]]:
        """Like :meth:`search` for many queries, encoded together and searched in one snapshot."""
        return self._searcher.search(check_queries(queries), SearchRequest(**options))

    def ask(
        self,
        question: str,
        *,
        reader: "Reader | None" = None,
        top_k: int | None = None,
        budget: int | None = None,
        mode: Mode = "hybrid",
        filter: str | None = None,
        per_document: int | None = None,
        rerank: bool | float | None = None,
    ) -> Answer:
        """Answer a question from the documents, with citations.

        Args:
            question: in words.
            reader: what answers; without one the spans themselves, their best sentences cited.
            top_k: number of spans the reader gets, at most; defaults to as many as fit the budget.
            budget: tokens of context the reader gets; defaults to 2,000, counted with its own tokenizer where it has
                one. For a language model the source that frames each span counts, too.
            mode: see :meth:`search`.
            filter: see :meth:`search`.
            per_document: see :meth:`search`.
            rerank: see :meth:`search`. Not done by default without a language model, since the reader that quotes reads
                the passages together with the question itself.

        Raises:
            UsageError: as :meth:`search`. ReaderError: the reader failed.
        """
        options: AskOptions = {
            "top_k": top_k,
            "budget": budget,
            "mode": mode,
            "filter": filter,
            "per_document": per_document,
            "rerank": rerank,
        }
        answer = next(self.ask_many([question], reader=reader, **options))
        if isinstance(answer, ReaderError):
            raise answer
        return answer

    def ask_many(
        self, questions: Sequence[str], *, reader: "Reader | None" = None, **options: Unpack[AskOptions]
    ) -> Iterator[Answer | ReaderError]:
        """Like :meth:`ask` for many questions, searched together and read as many at a time as the reader can.

        Yields the answers in the order of the questions, and the error instead of an answer where the reader fails.
        """
        from lmkrag.readers.base import LanguageModelReader, answer_or_error

        reader, questions = reader or _default_reader(), check_queries(questions)
        spans = self.search_for(reader, questions, **options)
        if isinstance(reader, LanguageModelReader):
            return reader.answer_each(questions, spans)
        return map(partial(answer_or_error, reader.answer), questions, spans)

    def ask_stream(
        self, question: str, *, reader: "Reader | None" = None, **options: Unpack[AskOptions]
    ) -> "AnswerStream":
        """Like :meth:`ask`, piece by piece: iterate over the text, then call ``.answer()``."""
        reader = reader or _default_reader()
        (spans,) = self.search_for(reader, [question], **options)
        return reader.stream(question, spans)

    async def aask(self, question: str, *, reader: "Reader | None" = None, **options: Unpack[AskOptions]) -> Answer:
        """Like :meth:`ask`, without blocking the event loop."""
        async with await self.aask_stream(question, reader=reader, **options) as stream:
            return await stream.answer()

    async def aask_stream(
        self, question: str, *, reader: "Reader | None" = None, **options: Unpack[AskOptions]
    ) -> "AsyncAnswerStream":
        """Like :meth:`ask_stream`, for ``async for``."""
        reader = reader or _default_reader()
        (spans,) = await asyncio.to_thread(self.search_for, reader, [question], **options)
        return reader.astream(question, spans)

    def search_for(self, reader: "Reader", questions: Sequence[str], **options: Unpack[AskOptions]) -> list[list[Span]]:
        """Return the spans that a reader gets for each question, within its budget.

        Raises:
            UsageError: as :meth:`ask`.
        """
        return self._searcher.search_for(reader, questions, SearchRequest(**options))

    def build_context(self, question: str, **options: Unpack[AskOptions]) -> Context:
        """Return the spans for a question laid out for a prompt of your own: numbered, with their sources."""
        (context,) = self._searcher.build_contexts([question], SearchRequest(**options))
        return context

    def explain(self, query: str, doc_id: str) -> list[SentenceScore]:
        """Return how well every sentence of a document fits ``query``, from its first to its last character.

        The scores compare sentences of this document; those of a search compare documents, too.

        Raises:
            DocumentNotFound: it is not in the index. UsageError: the question is empty.
        """
        from lmkrag.index.snapshot import retry_expired

        def explain() -> list[SentenceScore]:
            with self._reading() as snapshot:
                row = _find(snapshot, doc_id, self._store.path)
                return self._searcher.score_sentences(query, row, snapshot)

        return retry_expired(explain)

    def documents(
        self, *, filter: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[DocumentInfo]:
        """Return what the index knows of its documents, by ``doc_id``.

        Args:
            filter: which, such as ``kind=pdf and path=docs/*``.
            after: only documents whose ``doc_id`` comes after this one, the last of the page before.
            limit: the most documents to return; all without.

        Raises:
            UsageError: the filter can't be parsed, or an argument is of another type.
        """
        from lmkrag.retrieval.selecting import list_documents

        if limit is not None and (type(limit) is not int or limit < 0):
            raise UsageError(f"limit must be a whole number of at least 0, not {limit!r}")
        with self._reading(segments=False) as snapshot:
            return list_documents(snapshot, filter, _check_doc_id(after or ""), limit)

    def describe(self, doc_id: str) -> DocumentInfo:
        """Return what the index knows of one document, its text aside.

        Raises:
            DocumentNotFound: it is not in the index.
        """
        from lmkrag.retrieval.selecting import describe_row

        with self._reading(segments=False) as snapshot:
            return describe_row(_find(snapshot, doc_id, self._store.path))

    def read(self, doc_id: str, start: int = 0, end: int | None = None) -> str:
        """Return the text of a document, or its characters ``[start, end)``, exactly as indexed.

        Raises:
            DocumentNotFound: it is not in the index. UsageError: ``start`` is negative.
        """
        if type(start) is not int or type(end) not in (int, type(None)):
            raise UsageError(f"start and end must be whole numbers, not {start!r} and {end!r}")
        if start < 0:
            raise UsageError(f"start must be at least 0, not {start}")
        with self._reading(segments=False) as snapshot:
            return snapshot.read_text(_find(snapshot, doc_id, self._store.path), start, end)

    def document(self, doc_id: str) -> Document:
        """Return a document with its text exactly as indexed, and its metadata.

        Raises:
            DocumentNotFound: it is not in the index.
        """
        with self._reading(segments=False) as snapshot:
            row = _find(snapshot, doc_id, self._store.path)
            return Document(
                doc_id=row.doc_id,
                path=row.path,
                text=snapshot.read_text(row),
                title=row.title,
                kind=row.kind,
                page_starts=row.page_starts,
                meta=row.meta,
                fingerprint=row.fingerprint,
            )

    @property
    def path(self) -> Path:
        """Where the index is."""
        return self._store.path

    def count(self) -> IndexCounts:
        """Return how many documents and sentences there are; sooner than :meth:`status`."""
        with self._reading() as snapshot:
            documents = snapshot.documents
            return IndexCounts(snapshot.generation, len(documents.keys), documents.sentences)

    def count_tokens(self, text: str) -> int:
        """Return how many tokens ``text`` is to the index's encoder: what budgets are counted in."""
        return self._encoders.count_tokens(text)

    def status(self) -> IndexStatus:
        """Return what the index holds."""
        from lmkrag.cluster.scattering import ScatteredStore
        from lmkrag.index.verify import read_status

        return self._store.status() if isinstance(self._store, ScatteredStore) else read_status(self._store)

    def verify(self) -> tuple[str, ...]:
        """Check every file and row of the index; return what is wrong, empty when it is whole."""
        from lmkrag.index.verify import find_problems

        return find_problems(self._own_store())


def _check_opening(path: object, encoder: object, **flags: object) -> Path:
    if not isinstance(path, str | Path):
        raise UsageError(f"an index is a directory, not {path!r}")
    if encoder is not None and not isinstance(encoder, str) and not hasattr(encoder, "spec"):
        raise UsageError(f"an encoder is a folder, a name or a loaded encoder, not {encoder!r}")
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise UsageError(f"{name} must be true or false, not {value!r}")
    return Path(path)


def _check_doc_id(doc_id: object) -> str:
    if not isinstance(doc_id, str):
        raise UsageError(f"a doc_id is a string, not {doc_id!r}")
    return doc_id


def _find(snapshot: "Searchable", doc_id: str, path: Path) -> "DocumentRow":
    row = snapshot.find_document(replace_surrogates(_check_doc_id(doc_id)))
    if row is None:
        near = get_close_matches(doc_id[:MAX_DOC_ID], snapshot.nearby_ids(doc_id), 1)
        raise DocumentNotFound(doc_id, str(path), *near)
    return row


def _as_path(item: object) -> str | Path:
    if not isinstance(item, str | Path):
        raise UsageError("add paths or documents, not both in one call")
    return item


def _as_document(item: object) -> Document:
    from lmkrag.corpus.foreign import from_foreign, is_foreign

    if isinstance(item, Document):
        return item
    if isinstance(item, str | Path):
        raise UsageError("add paths or documents, not both in one call")
    if not is_foreign(item):
        raise UsageError("add paths, or documents of lmkrag, LangChain or LlamaIndex")
    return from_foreign(item)


def _default_reader() -> "Reader":
    from lmkrag.readers.extractive import ExtractiveReader

    return ExtractiveReader()
