"""An index whose shards are held by other processes, searched as one.

Each process is asked for what its shard's files decide, and what comes back is put together here: the same spans with
the same scores as :class:`lmkrag.index.shards.ShardedStore` finds in one process.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from lmkrag.arrays import Bytes, Hashes, Ids, Mask, Scores, Vectors
from lmkrag.cluster.hosting import Lookup, Opened, WholeDocument, pack_documents
from lmkrag.cluster.memory import Memory
from lmkrag.errors import IndexClosed, IndexMismatch, SnapshotExpired, UsageError
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.live import Selection
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.shards import (
    choose_shard,
    combine_ranges,
    first_id,
    narrow,
    narrow_id,
    narrow_ids,
    owner_or_self,
    widen,
)
from lmkrag.index.snapshot import NOTHING_NEAR, Description, Matches, Nearest, spread_scores
from lmkrag.index.status import combine_status
from lmkrag.index.store import IndexStore
from lmkrag.index.view import DocumentView
from lmkrag.index.words.lexical import COMMON, Terms, Totals, weigh_words
from lmkrag.types import EncoderSpec, IndexStatus, Mode, Recipe

_FRESH = 1.0  # seconds that a state is taken for the newest
_WORDS = 256  # questions whose words are remembered
_VIEWS = 256  # documents that are remembered
_LENGTHS = 2  # states whose documents' lengths are


class Shards(Protocol):
    """The processes that hold the shards of one index."""

    count: int

    joint: bool
    """Whether the shards' states have the same names: those of snapshots of all of them."""

    def start(self, shard: int, method: str, *arguments: Any) -> Callable[[], Any]:
        """Call a method of a shard's :class:`lmkrag.cluster.hosting.ShardHost`; return what waits for the result.

        The result is the method's, or what it raises; ShardUnreachable where the process does not answer.
        """


class _State(NamedTuple):
    """One state of each shard, by their ``names``, and what they are together.

    There are no names once a state has expired, so that all shards are asked again before the next search.
    """

    number: int
    names: dict[int, str]
    opened: dict[int, Opened]
    documents: DocumentRanges
    places: dict[int, tuple[int, int]]
    totals: Totals


class ScatteredStore:
    """An index in other processes, for reading."""

    def __init__(self, path: Path, shards: Shards) -> None:
        """Ask every shard for its newest state.

        Args:
            path: of the index, or where files beside it are to be, such as those of feedback.
            shards: the processes.

        Raises:
            ShardUnreachable: one does not answer. IndexMismatch: one was made with another encoder.
        """
        self.path = path
        self.shards = shards.count
        self.reader = ScatteredReader(str(path), shards)
        first = self.reader.first
        self.encoder: EncoderSpec = first.encoder
        self.recipe: Recipe = first.recipe

    @property
    def parts(self) -> tuple[IndexStore, ...]:
        """Refuse: the shards are in other processes.

        Raises:
            UsageError: always.
        """
        raise self._refusal()

    def number_of(self, doc_id: str, meta: Mapping[str, object] | None = None) -> int:
        """Return the shard that a document belongs to."""
        return choose_shard(owner_or_self(doc_id, meta or {}), self.shards)

    def to_local(self, key: int) -> tuple[int, int]:
        """Return the shard of a row id of a snapshot, and the row id there."""
        return narrow_id(key)

    def to_global(self, part: int, key: int) -> int:
        """Return the row id in snapshots of the whole index of a row of a shard."""
        return key + first_id(part)

    def writing(self) -> AbstractContextManager[None]:
        """Refuse, as :attr:`parts` does."""
        raise self._refusal()

    def commit_removed(self, doc_ids: Iterable[str]) -> None:
        """Refuse, as :attr:`parts` does."""
        raise self._refusal()

    def compact(self) -> None:
        """Refuse, as :attr:`parts` does."""
        raise self._refusal()

    def _refusal(self) -> UsageError:
        return UsageError(f"{self.path}: is read from other processes; work on the index itself")

    def status(self) -> IndexStatus:
        """Return what the index holds."""
        with self.reader.snapshot() as snapshot:
            parts: dict[int, IndexStatus] = snapshot.ask("status")
        return combine_status(self.path, list(parts.values()))

    def close(self) -> None:
        """Refuse new snapshots."""
        self.reader.close()


class ScatteredReader:
    """Snapshots of the shards that other processes hold. State: the newest one."""

    def __init__(self, name: str, shards: Shards) -> None:
        """Take the processes."""
        self._name, self._shards = name, shards
        self._guard = threading.Lock()
        self._closed = False
        self._numbered = 0
        self._checked = 0.0
        self._state: _State | None = None
        self._known = _Answers(Memory(_WORDS), Memory(_LENGTHS), Memory(_VIEWS))
        self.first = self._newest().opened[0]

    @contextmanager
    def snapshot(self, *, segments: bool = True) -> "Iterator[ScatteredSnapshot]":
        """Give the newest state, or one that was the newest a second ago.

        Raises:
            IndexClosed: the reader is closed. ShardUnreachable: a shard does not answer. IndexMismatch: another
                encoder made what is there now.
        """
        del segments  # they are elsewhere
        if self._closed:
            raise IndexClosed(f"{self._name}: this index was closed; open it again")
        state = self._newest()
        yield ScatteredSnapshot(
            generation=state.number,
            documents=state.documents,
            totals=state.totals,
            places=state.places,
            count=self._shards.count,
            known=self._known,
            scatter=partial(self._scatter, state),
        )

    def close(self, *, wait: bool = False) -> None:
        """Refuse new snapshots."""
        del wait
        self._closed = True

    def _newest(self) -> _State:
        """The newest state, asked for once a second at most, by one thread; others take what there is meanwhile."""
        state = self._state
        if state is not None and state.names and time.monotonic() - self._checked < _FRESH:
            return state
        if not self._guard.acquire(blocking=state is None or not state.names):
            assert state is not None
            return state
        try:
            now = time.monotonic()
            if self._state is None or not self._state.names or now - self._checked >= _FRESH:
                names = self._find_names()
                self._checked = time.monotonic()
                if self._state is None or names != self._state.names:
                    self._state = self._open(names)
            return self._state
        finally:
            self._guard.release()

    def _find_names(self) -> dict[int, str]:
        names: dict[int, str] = self._gather({shard: ("newest",) for shard in range(self._shards.count)})
        if self._shards.joint:
            names = dict.fromkeys(names, min(names.values(), key=int))  # all of them have that
        return names

    def _open(self, names: dict[int, str]) -> _State:
        known = {} if self._state is None else self._state.opened
        same = {} if self._state is None else self._state.names
        fresh = {shard: name for shard, name in names.items() if same.get(shard) != name or shard not in known}
        opened = {shard: known[shard] for shard in names if shard not in fresh}
        opened |= self._gather({shard: ("call", name, "open", ()) for shard, name in fresh.items()})
        opened = dict(sorted(opened.items()))
        encoder = self.first.encoder if self._state is not None else opened[0].encoder
        for shard, one in opened.items():
            if one.encoder != encoder:
                raise IndexMismatch(f"{self._name}: shard {shard} was made with another encoder: {one.encoder.name!r}")
        ranges = {shard: one.documents for shard, one in opened.items()}
        stops = np.cumsum([len(one.keys) for one in ranges.values()]).tolist()
        places = {shard: (stop - len(one.keys), stop) for (shard, one), stop in zip(ranges.items(), stops, strict=True)}
        totals = Totals(*(sum(values) for values in zip(*(one.totals for one in opened.values()), strict=True)))
        self._numbered += 1
        return _State(self._numbered, names, opened, combine_ranges(ranges), places, totals)

    def _scatter(self, state: _State, asked: Mapping[int, tuple[str, tuple[Any, ...]]]) -> dict[int, Any]:
        """Ask some shards at once; raises SnapshotExpired where it is worth the while to search again."""
        try:
            return self._gather({shard: ("call", state.names[shard], *what) for shard, what in asked.items()})
        except SnapshotExpired:
            self._forget(state)
            raise

    def _forget(self, state: _State) -> None:
        """Ask for the newest state before the next search."""
        with self._guard:
            if self._state is state:
                self._state = state._replace(names={})

    def _gather(self, calls: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Ask some shards at once, and return what they answer."""
        waiting = {shard: self._shards.start(shard, *call) for shard, call in calls.items()}
        return {shard: wait() for shard, wait in waiting.items()}


class _Places(NamedTuple):
    """Of each word of a question, in how many sentences it is, and where first in each document."""

    matches: list[int]
    first: list[tuple[Ids, Ids]]


class _Answers(NamedTuple):
    """What shards have answered and would answer again, by the number of the state."""

    words: Memory[_Places]
    lengths: Memory[Ids]
    views: Memory[DocumentView]


@dataclass(frozen=True)
class ScatteredSnapshot:
    """One state of every shard: what :class:`lmkrag.index.snapshot.Snapshot` is to one index.

    ``places`` are the positions ``[first, stop)`` of each shard's documents in ``documents``; ``count`` is how many
    shards there should be; ``scatter`` asks some of them at once.
    """

    generation: int
    documents: DocumentRanges
    totals: Totals
    places: Mapping[int, tuple[int, int]]
    count: int
    known: _Answers
    scatter: Callable[[Mapping[int, tuple[str, tuple[Any, ...]]]], dict[int, Any]]

    def ask(self, operation: str, *arguments: Any, shards: Iterable[int] | None = None) -> dict[int, Any]:
        """Ask all shards the same, or some."""
        return self.scatter({shard: (operation, arguments) for shard in (self.places if shards is None else shards)})

    def search(
        self,
        vector: Scores | None,
        words: Hashes,
        *,
        mode: Mode,
        top_k: int,
        allowed: Selection | None = None,
        nearest: Nearest | None = None,
    ) -> Matches:
        """Find the sentences nearest to a question, and those with its words: see :meth:`Snapshot.search`."""
        kept = self._pack(allowed)
        wanted = vector if nearest is None and mode != "lexical" else None
        nearest = self._find(wanted, None if mode == "dense" else words, top_k, kept) if nearest is None else nearest
        terms: Terms | None = None
        sentences, lexical, dense = _nothing()
        if mode != "dense":
            terms = self.find_terms(words)
            sentences, lexical, dense = self._match(terms, vector, top_k, kept)
        found = np.union1d(nearest.sentences, sentences)
        similarity = spread_scores(dense, sentences, found)
        similarity[np.searchsorted(found, nearest.sentences)] = nearest.dense
        return Matches(found, similarity, spread_scores(lexical, sentences, found), terms, nearest)

    def _find(
        self, vector: Scores | None, words: Hashes | None, top_k: int, kept: dict[int, bytes | None] | None
    ) -> Nearest:
        """What is near a question; where its words are is remembered."""
        if words is not None and self.known.words.get(self._key(words)) is not None:
            words = None
        asked: dict[int, tuple[str, tuple[Any, ...]]] = {}
        for shard in self.places:
            near = vector if kept is None or shard in kept else None
            if near is not None or words is not None:
                asked[shard] = "find", (near, words, top_k, None if kept is None else kept.get(shard))
        found: dict[int, Lookup] = self.scatter(asked) if asked else {}
        if words is not None:
            self.known.words.put(self._key(words), self._join_places(found, len(words)))
        if not found:
            return NOTHING_NEAR
        sentences = np.concatenate([one.nearest.sentences + first_id(shard) for shard, one in found.items()])
        dense = np.concatenate([one.nearest.dense for one in found.values()])
        order = np.lexsort((sentences, -dense))[:top_k]
        return Nearest(sentences[order], dense[order])

    def _join_places(self, found: Mapping[int, Lookup], words: int) -> _Places:
        matches = [sum(one.matches[word] for one in found.values()) for word in range(words)]
        first: list[tuple[Ids, Ids]] = []
        for word in range(words):
            kept = found.items() if matches[word] <= COMMON else ()
            owners = [one.first[word][0] + self.places[shard][0] for shard, one in kept]
            before = [one.first[word][1] for _, one in kept]
            nothing = np.zeros(0, np.int64)
            first.append((np.concatenate([nothing, *owners]), np.concatenate([nothing, *before])))
        return _Places(matches, first)

    def _match(
        self, terms: Terms, vector: Scores | None, top_k: int, kept: dict[int, bytes | None] | None
    ) -> tuple[Ids, Scores, Scores]:
        """Sentences that have words: their ids, scores and similarities, best first."""
        shards = self.places if kept is None else kept
        found = self.scatter(
            {
                shard: (
                    "match",
                    (terms.words, terms.weights, terms.totals, vector, top_k, None if kept is None else kept[shard]),
                )
                for shard in shards
            }
        )
        if not found:
            return _nothing()
        sentences = np.concatenate([one.sentences + first_id(shard) for shard, one in found.items()])
        lexical = np.concatenate([one.lexical for one in found.values()])
        dense = np.concatenate([one.dense for one in found.values()])
        order = np.lexsort((sentences, -lexical))[:top_k]
        return sentences[order], lexical[order], dense[order]

    def find_terms(self, words: Hashes) -> Terms:
        """Look up some words."""
        places = self._look_up(words)
        return Terms(words, [], weigh_words(places.matches, self.totals), self.totals)

    def _look_up(self, words: Hashes) -> _Places:
        def look_up() -> _Places:
            return self._join_places(self.ask("find", None, words, 0, None), len(words))

        return self.known.words.remember(self._key(words), look_up)

    def _key(self, words: Hashes) -> tuple[int, bytes]:
        return self.generation, words.tobytes()

    def search_lexical(self, terms: Terms, top_k: int, allowed: Selection | None = None) -> tuple[Ids, Scores]:
        """Find sentences by BM25 over any of some words."""
        sentences, scores, _ = self._match(terms, None, top_k, self._pack(allowed))
        return sentences, scores

    def find_first(self, terms: Terms) -> list[tuple[Ids, Ids]]:
        """Return where each word first stands in each document."""
        return self._look_up(terms.words).first

    def count_document_words(self) -> Ids:
        """Return how many words each document has: ``[documents]``."""

        def count() -> Ids:
            counted = self.ask("count_document_words")
            return np.concatenate([counted[shard] for shard in self.places])

        return self.known.lengths.remember(self.generation, count)

    def words_in_titles(self, words: Hashes, documents: Ids) -> Mask:
        """Return which of some words stand in the titles of documents ``[k]``: ``[words, k]``."""
        held = np.zeros((len(words), len(documents)), bool)
        parts = self._divide(documents)
        found = self.scatter({shard: ("words_in_titles", (words, ids)) for shard, (_, ids) in parts.items()})
        for shard, (place, _) in parts.items():
            held[:, place] = found[shard]
        return held

    def describe(self, sentences: Ids, owners: Ids, vector: Scores | None, matches: Matches) -> Description:
        """Return all that ranking needs to know of some sentences: see :meth:`Snapshot.describe`."""
        terms = matches.terms
        parts = self._divide(sentences)
        known = self._divide(matches.sentences)
        asked = {}
        for shard, (_, ids) in parts.items():
            place, given = known.get(shard, (np.zeros(0, np.int64), np.zeros(0, np.int64)))
            near = Nearest(given, matches.dense[place])
            how = (None, [], self.totals) if terms is None else (terms.words, terms.weights, terms.totals)
            asked[shard] = "describe", (ids, vector, near, *how)
        found: dict[int, Description] = self.scatter(asked) if asked else {}

        def join(field: str, kind: Any, *, wide: bool = False) -> Any:
            joined = np.zeros(len(sentences), kind)
            for shard, (place, _) in parts.items():
                joined[place] = getattr(found[shard], field) + (first_id(shard) if wide else 0)
            return joined

        alone = len(np.unique(owners)) < 2
        return Description(
            dense=join("dense", np.float32),
            documents=join("documents", np.int64, wide=True),
            paragraphs=join("paragraphs", np.int64, wide=True),
            roles=join("roles", np.uint8),
            title_match=None if terms is None else join("title_match", np.float32),
            document_score=None if terms is None or alone else join("document_score", np.float32),
        )

    def read_vectors(self, sentences: Ids) -> Vectors:
        """Return the stored vectors ``[len(sentences), dimensions]`` of some sentences."""
        parts = self._divide(sentences)
        found = self.scatter({shard: ("read_vectors", (ids,)) for shard, (_, ids) in parts.items()})
        some = next(iter(found.values()))
        vectors = np.zeros((len(sentences), some.shape[1]), np.float32)
        for shard, (place, _) in parts.items():
            vectors[place] = found[shard]
        return vectors

    def find_document(self, doc_id: str) -> DocumentRow | None:
        """Return the row of a document."""
        first = choose_shard(doc_id, self.count)
        likely = [first] if first in self.places else []
        for shards in (likely, [shard for shard in self.places if shard != first]):  # an attachment may be elsewhere
            for shard, row in self.ask("find_document", doc_id, shards=shards).items():
                if row is not None:
                    return widen(row, shard)
        return None

    def nearby_ids(self, doc_id: str) -> list[str]:
        """Return the names of some documents that are like a name which is not there."""
        return [name for names in self.ask("nearby_ids", doc_id).values() for name in names]

    def all_documents(self, after: str = "", limit: int | None = None) -> Iterable[DocumentRow]:
        """Return the rows of documents, by ``doc_id``: all, or at most ``limit`` after one."""
        found = self.ask("all_documents", after, limit)
        rows = (widen(row, shard) for shard, rows in found.items() for row in rows)
        return sorted(rows, key=lambda row: row.doc_id)[:limit]

    def select_documents(self, keep: Callable[[DocumentRow], bool]) -> list[int]:
        """Return the row ids of the documents that ``keep``, which is sent to every shard, is true of."""
        found = self.ask("select_documents", keep)
        return [key + first_id(shard) for shard, keys in found.items() for key in keys]

    def view_document(self, key: int) -> DocumentView:
        """Return a document by its row id. The newest ones are remembered."""
        return self.known.views.remember((self.generation, key), lambda: self._view_document(key))

    def _view_document(self, key: int) -> DocumentView:
        shard, own = narrow_id(key)
        found: WholeDocument = self.ask("view_document", own, shards=[shard])[shard]
        sentences, text = found.sentences, found.text

        def read_sentences(first: int) -> tuple[Ids, Bytes]:
            if sentences is not None:
                return sentences[first]
            block: tuple[Ids, Bytes] = self.ask("read_sentences", found.row, first, shards=[shard])[shard]
            return block

        def read_text(start: int, end: int) -> str:
            return self._read_text(shard, found.row, start, end) if text is None else text[start:end]

        return DocumentView(widen(found.row, shard), read_sentences, read_text)

    def read_text(self, row: DocumentRow, start: int = 0, end: int | None = None) -> str:
        """Return characters ``[start, end)`` of a document, as far as there are such; all of them by default."""
        shard, own = narrow(row)
        return self._read_text(shard, own, start, end)

    def _read_text(self, shard: int, row: DocumentRow, start: int, end: int | None) -> str:
        return str(self.ask("read_text", row, start, end, shards=[shard])[shard])

    def _divide(self, ids: Ids) -> dict[int, tuple[Ids, Ids]]:
        """Of each shard that has some of the ids ``[n]``: their positions, and the ids that they have there."""
        shards, own = narrow_ids(ids)
        return {
            int(shard): (place := np.flatnonzero(shards == shard), own[place]) for shard in np.unique(shards).tolist()
        }

    def _pack(self, allowed: Selection | None) -> dict[int, bytes | None] | None:
        """Which documents of each shard may be found; without the shards of which none may; None for all."""
        if allowed is None:
            return None
        parts = {shard: allowed.kept[first:stop] for shard, (first, stop) in self.places.items()}
        return {shard: None if kept.all() else pack_documents(kept) for shard, kept in parts.items() if kept.any()}


def _nothing() -> tuple[Ids, Scores, Scores]:
    return np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.float32)
