"""One shard, and what its own files decide of a search that goes over all shards.

A search takes three calls to each shard: what is near the question, and where its words are; what has the words,
weighed by all shards together; and what ranking needs to know of the sentences found. Texts are read after that.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lmkrag.arrays import Bytes, Hashes, Ids, Mask, Scores, Vectors
from lmkrag.index.catalog import SENTENCES_PER_BLOCK, DocumentRow
from lmkrag.index.live import Selection
from lmkrag.index.memory import Memory
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.searchable import NOTHING_NEAR, Description, Matches, Nearest
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.store import IndexStore
from lmkrag.index.words.lexical import Terms, Totals, count_matches, find_first, find_postings
from lmkrag.index.words.postings import Posting
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.types import IndexStatus

_REMEMBERED = 32  # questions' words and selections, by state
_SENT_WHOLE = 1 << 18  # characters of a document that are sent at once


class Opened(NamedTuple):
    """What those that search all shards need to know of one state of a shard before they ask."""

    encoder: EncoderSpec
    recipe: Recipe
    documents: DocumentRanges


class Lookup(NamedTuple):
    """What is near a question on a shard, and of each of its words in how many sentences and where first it is."""

    nearest: Nearest
    matches: list[int]
    first: list[tuple[Ids, Ids]]


class Matched(NamedTuple):
    """Sentences that have a question's words, best first: BM25 scores, and similarities (0 without a vector)."""

    sentences: Ids
    lexical: Scores
    dense: Scores


class WholeDocument(NamedTuple):
    """A document's row, its blocks of sentences by their first ordinals, and its text; None if they are too long."""

    row: DocumentRow
    sentences: dict[int, tuple[Ids, Bytes]] | None
    text: str | None


@dataclass(frozen=True)
class ShardMemory:
    """What was worked out for one state of a shard and may be asked for again."""

    postings: Memory[list[list[Posting]]] = field(default_factory=lambda: Memory(_REMEMBERED))
    selections: Memory[Selection] = field(default_factory=lambda: Memory(_REMEMBERED))


class HeldShard:
    """One state of a shard: what a search asks of it. The ids are the shard's own. Any thread may ask."""

    def __init__(self, store: IndexStore, snapshot: Snapshot, memory: ShardMemory | None = None) -> None:
        """Take the state, which is held for as long as this is used."""
        self._store, self._snapshot = store, snapshot
        self._memory = memory or ShardMemory()
        self._guard = threading.RLock()  # the catalog's connection is one

    def open(self) -> Opened:
        """Return what those that ask have to know."""
        snapshot = self._snapshot
        return Opened(self._store.encoder, self._store.recipe, snapshot.documents)

    def totals(self) -> Totals:
        """Return what the shard holds in all."""
        return self._snapshot.totals

    def find(self, vector: Scores | None, words: Hashes | None, top_k: int, kept: bytes | None) -> Lookup:
        """Find the sentences nearest to a question, and where its words are.

        Args:
            vector: ``[dimensions]`` of the question; None to look for words only.
            words: of the question; None to look for what is near only.
            top_k: how many sentences.
            kept: which of the shard's documents are searched for what is near, from :func:`pack_documents`.
        """
        nearest = NOTHING_NEAR
        if vector is not None:
            scores, ids = self._snapshot.search_dense(vector[None], top_k, self._select(kept))
            exists = ids[0] >= 0
            nearest = Nearest(ids[0][exists], scores[0][exists])
        if words is None:
            return Lookup(nearest, [], [])
        postings = self._find_postings(words)
        matches = count_matches(postings) or [0] * len(words)
        first = find_first(self._snapshot.segments, postings) or [(np.zeros(0, np.int64),) * 2] * len(words)
        return Lookup(nearest, matches, first)

    def match(
        self,
        words: Hashes,
        weights: list[float],
        totals: Totals,
        vector: Scores | None,
        top_k: int,
        kept: bytes | None,
    ) -> Matched:
        """Find sentences by BM25 over any of some words, weighed as all shards together weigh them."""
        terms = self._terms(words, weights, totals)
        sentences, lexical = self._snapshot.search_lexical(terms, top_k, self._select(kept))
        dense = np.zeros(len(sentences), np.float32)
        if vector is not None and len(sentences):
            order = np.argsort(sentences)
            dense[order] = self._snapshot.score_sentences(vector, sentences[order], *NOTHING_NEAR)
        return Matched(sentences, lexical, dense)

    def describe(
        self,
        sentences: Ids,
        vector: Scores | None,
        known: Nearest,
        words: Hashes | None,
        weights: list[float],
        totals: Totals,
    ) -> Description:
        """Return all that ranking needs to know of some sentences; ``known`` are increasing, their similarities given.

        The scores of documents are given even if there is but one.
        """
        snapshot = self._snapshot
        owners = snapshot.documents.owners(sentences)
        nothing = np.zeros(len(known.sentences), np.float32)
        matches = Matches(known.sentences, known.dense, nothing, None, NOTHING_NEAR)
        with self._guard:
            described = snapshot.describe(sentences, owners, vector, matches)
            if words is None:
                return described
            terms = self._terms(words, weights, totals)
            titles = snapshot.match_titles(described.documents, words)
        return described._replace(title_match=titles, document_score=snapshot.score_owners(owners, terms))

    def words_in_titles(self, words: Hashes, documents: Ids) -> Mask:
        """Return which words stand in the titles of documents: see :meth:`Snapshot.words_in_titles`."""
        with self._guard:
            return self._snapshot.words_in_titles(words, documents)

    def count_document_words(self) -> Ids:
        """Return how many words each document has."""
        return self._snapshot.count_document_words()

    def read_vectors(self, sentences: Ids) -> Vectors:
        """Return the vectors of some sentences."""
        return self._snapshot.read_vectors(sentences)

    def find_document(self, doc_id: str) -> DocumentRow | None:
        """Return the row of a document."""
        with self._guard:
            return self._snapshot.find_document(doc_id)

    def nearby_ids(self, doc_id: str) -> list[str]:
        """Return the names of some documents that are like a name which is not there."""
        with self._guard:
            return self._snapshot.nearby_ids(doc_id)

    def all_documents(self, after: str = "", limit: int | None = None) -> list[DocumentRow]:
        """Return the rows of documents, by ``doc_id``: all, or at most ``limit`` after one."""
        with self._guard:
            return list(self._snapshot.all_documents(after, limit))

    def select_documents(self, keep: Callable[[DocumentRow], bool]) -> list[int]:
        """Return the row ids of the documents that ``keep`` is true of."""
        with self._guard:
            return self._snapshot.select_documents(keep)

    def view_document(self, key: int) -> WholeDocument:
        """Return a document by its row id: its row, and the rest unless that is too long."""
        with self._guard:
            row = self._snapshot.read_documents([key])[key]
            if row.length > _SENT_WHOLE:
                return WholeDocument(row, None, None)
            firsts = range(0, row.sentences, SENTENCES_PER_BLOCK)
            blocks = {first: self._snapshot.read_sentences(row, first) for first in firsts}
            return WholeDocument(row, blocks, self._snapshot.read_text(row))

    def read_sentences(self, row: DocumentRow, first: int) -> tuple[Ids, Bytes]:
        """Return borders and kinds of a block of sentences."""
        with self._guard:
            return self._snapshot.read_sentences(row, first)

    def read_text(self, row: DocumentRow, start: int, end: int | None) -> str:
        """Return characters ``[start, end)`` of a document."""
        with self._guard:
            return self._snapshot.read_text(row, start, end)

    def status(self) -> IndexStatus:
        """Return what the shard holds."""
        return self._store.status()

    def _terms(self, words: Hashes, weights: list[float], totals: Totals) -> Terms:
        return Terms(words, self._find_postings(words), weights, totals)

    def _find_postings(self, words: Hashes) -> list[list[Posting]]:
        return self._memory.postings.remember(words.tobytes(), lambda: find_postings(self._snapshot.segments, words))

    def _select(self, kept: bytes | None) -> Selection | None:
        if kept is None:
            return None
        keys = self._snapshot.documents.keys

        def select() -> Selection:
            return Selection(self._snapshot.documents, keys[unpack_documents(kept, len(keys))].tolist())

        return self._memory.selections.remember(kept, select)


def pack_documents(kept: Mask) -> bytes:
    """Return which documents are kept ``[n]`` as bytes."""
    return np.packbits(kept).tobytes()


def unpack_documents(packed: bytes, count: int) -> Mask:
    """Return what :func:`pack_documents` packed."""
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=count).astype(bool)


OPERATIONS = frozenset(name for name in vars(HeldShard) if not name.startswith("_"))
