"""The front door: composes the parts, computes nothing itself."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from lmkrag.errors import IndexMismatch, IndexNotFound, UsageError
from lmkrag.types import Answer, Context, Document, IndexReport, IndexStatus, Level, Mode, RepairReport, Span

if TYPE_CHECKING:
    from lmkrag.encoder.landmark import LandmarkEncoder
    from lmkrag.encoder.questions import QuestionEncoder
    from lmkrag.index.catalog import DocumentRow
    from lmkrag.index.snapshot import Selection, Snapshot
    from lmkrag.index.store import IndexStore
    from lmkrag.indexing import Progress
    from lmkrag.readers.base import AnswerStream, AsyncAnswerStream, Reader

DEFAULT_TOP = 8
DEFAULT_BUDGET = 2_000
"""Tokens of context a reader gets."""


class AskOptions(TypedDict, total=False):
    """How to search for a reader: see :meth:`Engine.ask`."""

    top: int | None
    budget: int | None
    mode: Mode
    filter: str | None


class SearchOptions(AskOptions, total=False):
    """How to search: see :meth:`Engine.search`."""

    level: Level
    front: int | None


_FEW_QUESTIONS = 32  # more are encoded sooner in batches, the framework's import included
_SELECTIONS = 32  # filters remembered
_TOP_OF_BUDGET = 64  # spans looked at when only a budget limits them


class Engine:
    """An index and the encoder that made it.

    Reading methods may be called from any thread; one process at a time may write.

    >>> engine = Engine.open("indexes/handbook", create=True)  # doctest: +SKIP
    >>> engine.add("docs/")  # doctest: +SKIP
    >>> engine.search("how is leave accrued?", top=8)  # doctest: +SKIP
    """

    def __init__(self, store: "IndexStore", encoder: "LandmarkEncoder | None" = None) -> None:
        """Take an open store; the encoder is loaded when it is first needed, unless given."""
        self._store = store
        self._encoder = encoder
        self._questions: QuestionEncoder | None = None
        self._selections: dict[str, tuple[int, Selection]] = {}
        if encoder is not None:
            self._check(encoder)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = False,
        encoder: "str | LandmarkEncoder | None" = None,
        recipe: str | None = None,
        overlap: float | None = None,
    ) -> Self:
        """Open an index directory.

        Args:
            path: the index.
            create: make it if it is not there.
            encoder: a model folder, hub name or loaded encoder. An existing index knows its own.
            recipe: how vectors are stored, a name or ``.toml`` file; only when the index is made.
            overlap: share of each window that the next repeats, in ``[0, 1)``; what the encoder was made for without
                one. Less is faster, and embeds sentences at a window's edge worse. Only when the index is made.

        Raises:
            IndexNotFound: there is none and ``create`` is false. UsageError: another ``recipe`` or ``overlap`` than the
            index has or the loaded encoder was made with.
            IndexMismatch: the index was made with another encoder, or a newer lmkrag. IndexCorrupt: it is damaged.
        """
        from lmkrag.index.store import IndexStore

        path = Path(path)
        if IndexStore.exists(path):
            store = IndexStore.open(path)
            if recipe is not None and recipe != store.recipe.name:
                raise UsageError(
                    f"{path}: made with recipe {store.recipe.name!r}; index into a new directory for {recipe!r}"
                )
            spec = store.encoder
            if overlap is not None and overlap != spec.overlap:
                raise UsageError(f"{path}: made with overlap {spec.overlap}; index into a new directory for {overlap}")
            if encoder is None:
                return cls(store)
            return cls(store, _load_encoder(encoder, window=spec.window, overlap=spec.overlap))
        if not create:
            raise IndexNotFound(f"{path}: no index here; make one with: lmkrag index PATH --index {path}")
        loaded = _load_encoder(encoder, overlap=overlap)
        if overlap is not None and overlap != loaded.spec.overlap:
            raise UsageError(f"the encoder given was loaded with overlap {loaded.spec.overlap}, not {overlap}")
        return cls(IndexStore.create(path, encoder=loaded.spec, recipe=recipe), loaded)

    @property
    def encoder(self) -> "LandmarkEncoder":
        """The encoder that made the index, loaded at first use."""
        if self._encoder is None:
            spec = self._store.encoder
            loaded = _load_encoder(spec.name, window=spec.window, overlap=spec.overlap)
            self._check(loaded)
            self._encoder = loaded
        return self._encoder

    @property
    def _asker(self) -> "LandmarkEncoder | QuestionEncoder":
        """What encodes questions: the encoder if it is loaded, else one that takes no framework, where there is one."""
        from lmkrag.encoder.questions import QuestionEncoder

        if self._encoder is None and self._questions is None:
            self._questions = QuestionEncoder.load(self._store.encoder)
        return self._questions if self._encoder is None and self._questions is not None else self.encoder

    def _check(self, encoder: "LandmarkEncoder") -> None:
        made_with = self._store.encoder
        if encoder.spec.fingerprint != made_with.fingerprint:
            raise IndexMismatch(
                f"{self._store.path}: made with encoder {made_with.name!r} ({made_with.fingerprint[:8]}), not with "
                f"{encoder.spec.name!r} ({encoder.spec.fingerprint[:8]}); open it without an encoder, or index again"
            )

    def close(self) -> None:
        """Close the index's files."""
        self._store.close()

    def __enter__(self) -> Self:
        """Return the engine; it is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the engine."""
        self.close()

    # Writing

    def add(
        self,
        source: str | Path | Document | Iterable[Any],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        prune: bool = False,
        progress: "Progress | None" = None,
    ) -> IndexReport:
        """Index files, directories or documents.

        Args:
            source: a path, several, or documents: ours, LangChain's or LlamaIndex's.
            include: globs of ``.gitignore`` form; only files that match one.
            exclude: globs; no files that match one.
            prune: remove documents whose files are gone from a directory in ``source``.
            progress: called with (document, bytes done, bytes in all) as files are encoded.

        Returns:
            What was added, updated, unchanged, removed and skipped.

        Raises:
            UsageError: a path does not exist. IndexLocked: another process writes. StorageError: writing failed.
        """
        from lmkrag.corpus.foreign import from_foreign, is_foreign
        from lmkrag.indexing import add_documents, add_files

        one = isinstance(source, str | Path | Document) or is_foreign(source)
        items: list[Any] = [source] if one else list(source)  # type: ignore[arg-type]  # told apart above
        foreign = [item for item in items if is_foreign(item)]
        documents = [*(item for item in items if isinstance(item, Document)), *from_foreign(foreign)]
        paths = [Path(item) for item in items if isinstance(item, str | Path)]
        if len(documents) + len(paths) < len(items):
            raise UsageError("add paths, or documents of lmkrag, LangChain or LlamaIndex")
        if documents and paths:
            raise UsageError("add paths or Documents, not both in one call")
        if documents:
            return add_documents(self._store, self.encoder, documents)
        return add_files(
            self._store,
            lambda: self.encoder,
            paths,
            include=include,
            exclude=exclude,
            prune=prune,
            progress=progress,
        )

    def remove(self, doc_ids: str | Iterable[str]) -> int:
        """Remove documents; return how many.

        Raises:
            UsageError: one is not in the index; nothing is removed then.
        """
        wanted = list(dict.fromkeys([doc_ids] if isinstance(doc_ids, str) else doc_ids))
        for doc_id in wanted:
            self._find(doc_id)
        with self._store.writing():
            self._store.commit([], removed=wanted)
        return len(wanted)

    def compact(self) -> None:
        """Rewrite the index without what was deleted, as its recipe says for its size."""
        with self._store.writing():
            self._store.compact()

    def repair(self) -> RepairReport:
        """Rebuild a damaged index: what is whole is kept, what is not is read from its file again, if that is there.

        The damaged index is kept beside the new one, which takes its place. Only repair an index you made: the files it
        names are read.

        Raises:
            StorageError: there is no room for a second copy, or another process writes.
        """
        from lmkrag.index.repair import rebuild
        from lmkrag.index.store import IndexStore
        from lmkrag.indexing import restore_files

        path = self._store.path
        found, damaged = rebuild(path)
        self._store.close()
        self._store = IndexStore.open(path)
        self._selections.clear()
        restored = restore_files(self._store, lambda: self.encoder, found.lost)
        lost = tuple(item.path for item in restored.skipped)
        return RepairReport(found.kept, restored.added, lost, found.unknown, str(damaged))

    # Reading

    def search(
        self,
        query: str,
        *,
        top: int | None = None,
        budget: int | None = None,
        mode: Mode = "hybrid",
        level: Level = "span",
        filter: str | None = None,
        front: int | None = None,
    ) -> list[Span]:
        """Find the spans that answer ``query``, best first.

        Args:
            query: a question or words.
            top: how many spans; 8 unless a budget is given.
            budget: tokens (of the encoder's tokenizer) the spans may add up to.
            mode: ``"hybrid"``, ``"dense"`` or ``"lexical"``.
            level: ``"span"``, ``"sentence"`` or ``"document"``.
            filter: which documents to search, such as ``kind=pdf and path=docs/*``.
            front: grow each hit this many sentences backward, instead of adaptively.

        Raises:
            UsageError: an argument is out of range, or the filter can't be parsed.
        """
        return self.search_batch([query], top=top, budget=budget, mode=mode, level=level, filter=filter, front=front)[0]

    def search_batch(self, queries: Sequence[str], **how: Unpack[SearchOptions]) -> list[list[Span]]:
        """Like :meth:`search` for many queries, encoded together and searched in one snapshot."""
        return self._search(queries, how, encoded=how.get("mode") != "lexical")

    def _search(self, queries: Sequence[str], how: SearchOptions, *, encoded: bool) -> list[list[Span]]:
        """Search; unless the queries are encoded, only their words are known, and hits have no similarity."""
        from lmkrag.index.lexical import query_words
        from lmkrag.retrieval.packing import pack_spans
        from lmkrag.retrieval.search import search_spans

        budget, mode, level = how.get("budget"), how.get("mode", "hybrid"), how.get("level", "span")
        count = _checked_top(how.get("top"), budget)
        if mode not in ("hybrid", "dense", "lexical"):
            raise UsageError(f"mode {mode!r}: use 'hybrid', 'dense' or 'lexical'")
        if level not in ("span", "sentence", "document"):
            raise UsageError(f"level {level!r}: use 'span', 'sentence' or 'document'")
        vectors: Iterable[Any] = [None] * len(queries)
        if encoded:
            asker = self._asker if len(queries) <= _FEW_QUESTIONS else self.encoder
            vectors = asker.encode_queries(queries)
        results = []
        with self._store.reading() as snapshot:
            allowed = self._select(snapshot, expression) if (expression := how.get("filter")) else None
            for query, vector in zip(queries, vectors, strict=True):
                spans = search_spans(
                    snapshot,
                    vector,
                    query_words(query),
                    top=count,
                    mode=mode,
                    level=level,
                    front=how.get("front"),
                    allowed=allowed,
                )
                if budget is not None:
                    spans = pack_spans(spans, budget=budget, count_tokens=self._asker.count_tokens)
                results.append(spans)
        return results

    def ask(
        self,
        question: str,
        *,
        reader: "Reader | None" = None,
        top: int | None = None,
        budget: int | None = None,
        mode: Mode = "hybrid",
        filter: str | None = None,
    ) -> Answer:
        """Answer a question from the documents, with citations.

        Args:
            question: in words.
            reader: what answers; without one the spans themselves, their best sentences cited.
            top: how many spans the reader gets, at most.
            budget: tokens of context the reader gets (2,000 without), counted with its own tokenizer where it has one.
            mode: see :meth:`search`.
            filter: see :meth:`search`.

        Raises:
            UsageError: as :meth:`search`. ReaderError: the reader failed.
        """
        return self.ask_batch([question], reader=reader, top=top, budget=budget, mode=mode, filter=filter)[0]

    def ask_batch(
        self, questions: Sequence[str], *, reader: "Reader | None" = None, **how: Unpack[AskOptions]
    ) -> list[Answer]:
        """Like :meth:`ask` for many questions, searched together and read as many at a time as the reader can."""
        from lmkrag.readers.base import LanguageModelReader

        reader = reader or _default_reader()
        spans = self._read_for(reader, questions, how)
        if isinstance(reader, LanguageModelReader):
            return reader.answer_batch(questions, spans)
        return [reader.answer(question, mine) for question, mine in zip(questions, spans, strict=True)]

    def ask_stream(self, question: str, *, reader: "Reader | None" = None, **how: Unpack[AskOptions]) -> "AnswerStream":
        """Like :meth:`ask`, piece by piece: iterate over the text, then take ``.answer``."""
        reader = reader or _default_reader()
        (spans,) = self._read_for(reader, [question], how)
        return reader.stream(question, spans)

    async def aask(self, question: str, *, reader: "Reader | None" = None, **how: Unpack[AskOptions]) -> Answer:
        """Like :meth:`ask`, without blocking the event loop."""
        stream = await self.aask_stream(question, reader=reader, **how)
        return await stream.answer()

    async def aask_stream(
        self, question: str, *, reader: "Reader | None" = None, **how: Unpack[AskOptions]
    ) -> "AsyncAnswerStream":
        """Like :meth:`ask_stream`, for ``async for``."""
        reader = reader or _default_reader()
        (spans,) = await asyncio.to_thread(self._read_for, reader, [question], how)
        return reader.astream(question, spans)

    def context(self, question: str, **how: Unpack[AskOptions]) -> Context:
        """Return the spans for a question laid out for a prompt of your own: numbered, with their sources."""
        from lmkrag.readers.prompt import lay_out_context

        (spans,) = self._read_for(None, [question], how)
        return lay_out_context(question, spans, self._asker.count_tokens)

    def _read_for(self, reader: "Reader | None", questions: Sequence[str], how: AskOptions) -> list[list[Span]]:
        """The spans a reader gets for each question, packed to its budget."""
        from lmkrag.readers.base import LanguageModelReader
        from lmkrag.retrieval.packing import pack_spans

        def count_tokens(text: str) -> int:
            own = reader.count_tokens(text) if isinstance(reader, LanguageModelReader) else None
            return self._asker.count_tokens(text) if own is None else own

        search: SearchOptions = {**how, "top": how.get("top") or DEFAULT_TOP}  # type: ignore[typeddict-item]  # a part
        budget = search.pop("budget", None) or DEFAULT_BUDGET
        _checked_top(search["top"], budget)
        found = self._search(questions, search, encoded=True)  # readers tell by similarity whether anything answers
        return [pack_spans(spans, budget=budget, count_tokens=count_tokens) for spans in found]

    def show(self, doc_id: str) -> str:
        """Return a document's text exactly as indexed.

        Raises:
            UsageError: it is not in the index.
        """
        from lmkrag.index import catalog

        row = self._find(doc_id)
        with self._store.reading(vectors=False) as snapshot:
            return catalog.read_text(snapshot.connection, row, 0, row.length)

    def status(self) -> IndexStatus:
        """Return what the index holds."""
        from lmkrag.index.verify import read_status

        return read_status(self._store)

    def verify(self) -> tuple[str, ...]:
        """Check every file and row of the index; return what is wrong, empty when it is whole."""
        from lmkrag.index.verify import find_problems

        return find_problems(self._store)

    def _select(self, snapshot: "Snapshot", expression: str) -> "Selection":
        """What a filter keeps of a snapshot; the filters used last are remembered."""
        from lmkrag.index import catalog
        from lmkrag.index.snapshot import Selection
        from lmkrag.retrieval.filters import parse_filter

        known = self._selections.get(expression)
        if known is not None and known[0] == snapshot.generation:
            return known[1]
        keep = parse_filter(expression)
        fields = ("doc_id", "path", "title", "kind", "root")
        keys = [
            row.id
            for row in catalog.all_documents(snapshot.connection)
            if keep({**row.meta, **{name: getattr(row, name) for name in fields}, "path": row.doc_id})
        ]
        selection = Selection(snapshot.living, keys)
        for old in list(self._selections)[: max(0, len(self._selections) - _SELECTIONS + 1)]:
            self._selections.pop(old, None)
        self._selections[expression] = (snapshot.generation, selection)
        return selection

    def _find(self, doc_id: str) -> "DocumentRow":
        row = self._store.find(doc_id)
        if row is None:
            raise UsageError(f"no document {doc_id!r} in {self._store.path}")
        return row


def _default_reader() -> "Reader":
    from lmkrag.readers.extractive import ExtractiveReader

    return ExtractiveReader()


def _load_encoder(
    encoder: "str | LandmarkEncoder | None", *, window: int | None = None, overlap: float | None = None
) -> "LandmarkEncoder":
    from lmkrag.encoder.landmark import LandmarkEncoder

    if isinstance(encoder, LandmarkEncoder):
        return encoder
    return LandmarkEncoder.load(encoder, window=window, overlap=overlap)


def _checked_top(top: int | None, budget: int | None) -> int:
    if top is not None and top < 1:
        raise UsageError(f"top must be at least 1, not {top}")
    if budget is not None and budget < 1:
        raise UsageError(f"budget must be at least 1 token, not {budget}")
    return top or (DEFAULT_TOP if budget is None else _TOP_OF_BUDGET)
