"""One state of every shard, whether this process holds them or others do."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lmkrag.arrays import Hashes, Ids, Mask, Scores, Vectors
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.held_shard import Lookup, pack_documents
from lmkrag.index.live import Selection
from lmkrag.index.memory import Memory
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.searchable import NOTHING_NEAR, Description, Matches, Nearest, spread_scores
from lmkrag.index.shard_ids import choose_shard, first_id, narrow, narrow_id, narrow_ids, widen
from lmkrag.index.view import DocumentView
from lmkrag.index.words.lexical import COMMON, Terms, Totals, weigh_words
from lmkrag.types import Mode

_WORDS = 256  # questions whose words are remembered
_STATES = 2  # whose totals and lengths of documents are remembered


class _Lookups(NamedTuple):
    """Of each word of a question, in how many sentences it is, and where first in each document."""

    matches: list[int]
    first: list[tuple[Ids, Ids]]


@dataclass(frozen=True)
class RememberedAnswers:
    """What shards have answered and would answer again, by the number of the state."""

    words: Memory[_Lookups] = field(default_factory=lambda: Memory(_WORDS))
    lengths: Memory[Ids] = field(default_factory=lambda: Memory(_STATES))
    totals: Memory[Totals] = field(default_factory=lambda: Memory(_STATES))


@dataclass(frozen=True)
class ShardedSnapshot:
    """One state of every shard: what :class:`lmkrag.index.snapshot.Snapshot` is to one index.

    Documents and sentences have ids that tell their shard. Numbers of documents, lengths and weights of words are those
    of the whole, so that a search computes what it computes over one index.

    ``positions`` are those ``[first, stop)`` of each shard's documents in ``documents``; ``count`` is how many
    shards there should be; ``scatter`` asks some of them at once for operations of
    :class:`lmkrag.index.held_shard.HeldShard`; ``view`` gives a document of a shard by its id there.
    """

    generation: int
    documents: DocumentRanges
    positions: Mapping[int, tuple[int, int]]
    count: int
    known: RememberedAnswers
    scatter: Callable[[Mapping[int, tuple[str, tuple[Any, ...]]]], dict[int, Any]]
    view: Callable[[int, int], DocumentView]

    @property
    def totals(self) -> Totals:
        """What the index holds in all."""

        def add() -> Totals:
            parts: list[Totals] = list(self.ask("totals").values())
            return Totals(
                documents=sum(part.documents for part in parts),
                sentences=sum(part.sentences for part in parts),
                words=sum(part.words for part in parts),
                languages=frozenset[str]().union(*(part.languages for part in parts)),
            )

        return self.known.totals.remember(self.generation, add)

    def ask(self, operation: str, *arguments: Any, shards: Iterable[int] | None = None) -> dict[int, Any]:
        """Ask all shards the same, or some."""
        return self.scatter({shard: (operation, arguments) for shard in (self.positions if shards is None else shards)})

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
        calls: dict[int, tuple[str, tuple[Any, ...]]] = {}
        for shard in self.positions:
            near = vector if kept is None or shard in kept else None
            if near is not None or words is not None:
                calls[shard] = "find", (near, words, top_k, None if kept is None else kept.get(shard))
        found: dict[int, Lookup] = self.scatter(calls) if calls else {}
        if words is not None:
            self.known.words.put(self._key(words), self._join_lookups(found, len(words)))
        if not found:
            return NOTHING_NEAR
        sentences = np.concatenate([one.nearest.sentences + first_id(shard) for shard, one in found.items()])
        dense = np.concatenate([one.nearest.dense for one in found.values()])
        order = np.lexsort((sentences, -dense))[:top_k]
        return Nearest(sentences[order], dense[order])

    def _join_lookups(self, found: Mapping[int, Lookup], words: int) -> _Lookups:
        matches = [sum(one.matches[word] for one in found.values()) for word in range(words)]
        first: list[tuple[Ids, Ids]] = []
        for word in range(words):
            kept = found.items() if matches[word] <= COMMON else ()
            owners = [one.first[word][0] + self.positions[shard][0] for shard, one in kept]
            before = [one.first[word][1] for _, one in kept]
            nothing = np.zeros(0, np.int64)
            first.append((np.concatenate([nothing, *owners]), np.concatenate([nothing, *before])))
        return _Lookups(matches, first)

    def _match(
        self, terms: Terms, vector: Scores | None, top_k: int, kept: dict[int, bytes | None] | None
    ) -> tuple[Ids, Scores, Scores]:
        """Sentences that have words: their ids, scores and similarities, best first."""
        shards = self.positions if kept is None else kept
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
        found = self._look_up(words)
        return Terms(words, [], weigh_words(found.matches, self.totals), self.totals)

    def _look_up(self, words: Hashes) -> _Lookups:
        def look_up() -> _Lookups:
            return self._join_lookups(self.ask("find", None, words, 0, None), len(words))

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
            return np.concatenate([counted[shard] for shard in self.positions])

        return self.known.lengths.remember(self.generation, count)

    def words_in_titles(self, words: Hashes, documents: Ids) -> Mask:
        """Return which of some words stand in the titles of documents ``[k]``: ``[words, k]``."""
        held = np.zeros((len(words), len(documents)), bool)
        parts = self._divide(documents)
        found = self.scatter({shard: ("words_in_titles", (words, ids)) for shard, (_, ids) in parts.items()})
        for shard, (rows, _) in parts.items():
            held[:, rows] = found[shard]
        return held

    def describe(self, sentences: Ids, owners: Ids, vector: Scores | None, matches: Matches) -> Description:
        """Return all that ranking needs to know of some sentences: see :meth:`Snapshot.describe`."""
        terms = matches.terms
        parts = self._divide(sentences)
        known = self._divide(matches.sentences)
        calls = {}
        for shard, (_, ids) in parts.items():
            rows, given = known.get(shard, (np.zeros(0, np.int64), np.zeros(0, np.int64)))
            near = Nearest(given, matches.dense[rows])
            weighing = (None, [], self.totals) if terms is None else (terms.words, terms.weights, terms.totals)
            calls[shard] = "describe", (ids, vector, near, *weighing)
        found: dict[int, Description] = self.scatter(calls) if calls else {}

        def join(field: str, kind: Any, *, wide: bool = False) -> Any:
            joined = np.zeros(len(sentences), kind)
            for shard, (rows, _) in parts.items():
                joined[rows] = getattr(found[shard], field) + (first_id(shard) if wide else 0)
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
        for shard, (rows, _) in parts.items():
            vectors[rows] = found[shard]
        return vectors

    def find_document(self, doc_id: str) -> DocumentRow | None:
        """Return the row of a document."""
        first = choose_shard(doc_id, self.count)
        likely = [first] if first in self.positions else []
        for shards in (likely, [shard for shard in self.positions if shard != first]):  # an attachment may be elsewhere
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
        """Return a document by its row id, to be read piece by piece."""
        shard, own = narrow_id(key)
        found = self.view(shard, own)
        return found.renumbered(widen(found.row, shard))

    def read_text(self, row: DocumentRow, start: int = 0, end: int | None = None) -> str:
        """Return characters ``[start, end)`` of a document, clipped to its length; its whole text by default."""
        shard, own = narrow(row)
        return str(self.ask("read_text", own, start, end, shards=[shard])[shard])

    def _divide(self, ids: Ids) -> dict[int, tuple[Ids, Ids]]:
        """Of each shard that has some of the ids ``[n]``: their positions, and the ids that they have there."""
        shards, own = narrow_ids(ids)
        return {
            int(shard): (rows := np.flatnonzero(shards == shard), own[rows]) for shard in np.unique(shards).tolist()
        }

    def _pack(self, allowed: Selection | None) -> dict[int, bytes | None] | None:
        """Which documents of each shard may be found; without the shards of which none may; None for all."""
        if allowed is None:
            return None
        parts = {shard: allowed.kept[first:stop] for shard, (first, stop) in self.positions.items()}
        return {shard: None if kept.all() else pack_documents(kept) for shard, kept in parts.items() if kept.any()}


def _nothing() -> tuple[Ids, Scores, Scores]:
    return np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.float32)
