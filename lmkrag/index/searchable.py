"""What a search asks of a state of an index, and the values it gets."""

import contextlib
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from lmkrag.arrays import Bytes, Hashes, Ids, Mask, Scores, Vectors
from lmkrag.errors import SnapshotExpired
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.live import Selection
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.view import DocumentView
from lmkrag.index.words.lexical import Terms, Totals
from lmkrag.types import Mode

Result = TypeVar("Result")

_TRIES = 3


class Nearest(NamedTuple):
    """Sentences by similarity, best first, and their similarities ``dense``, each ``[n]``."""

    sentences: Ids
    dense: Scores


NOTHING_NEAR = Nearest(np.zeros(0, np.int64), np.zeros(0, np.float32))


class Matches(NamedTuple):
    """Sentences that the dense or the lexical search found.

    ``sentences`` ``[n]`` are increasing ids, ``dense`` and ``lexical`` their scores, 0 where no vector was given or no
    word matches; ``terms`` is None when words do not count; ``nearest`` is what the dense search alone found.
    """

    sentences: Ids
    dense: Scores
    lexical: Scores
    terms: Terms | None
    nearest: Nearest


def retry_expired(read: Callable[[], Result]) -> Result:
    """Return what a call reads; if the state that it read is gone meanwhile, call again, three times at most."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(SnapshotExpired):
            return read()
    return read()


def join_matches(one: Matches, other: Matches) -> Matches:
    """Return what two searches for the same words found."""
    sentences, position = np.unique(np.concatenate([one.sentences, other.sentences]), return_index=True)
    dense = np.concatenate([one.dense, other.dense])[position]
    lexical = np.maximum(*(spread_scores(found.lexical, found.sentences, sentences) for found in (one, other)))
    return Matches(sentences, dense, lexical, one.terms, one.nearest)


def spread_scores(scores: Scores, known: Ids, sentences: Ids) -> Scores:
    """Return the scores of ``known`` sentences ``[n]`` among increasing ``sentences`` ``[k]``, 0 for the others."""
    spread = np.zeros(len(sentences), np.float32)
    spread[np.searchsorted(sentences, known)] = scores
    return spread


class Description(NamedTuple):
    """What the index knows of some sentences, each ``[k]``.

    ``dense`` are similarities to the question, ``paragraphs`` the ids of their paragraphs' first sentences, ``roles``
    the bits of their structure. ``title_match`` is the share of the words of the document's title that the question
    names, ``document_score`` the BM25 score of the document as one text; both None when words do not count.
    """

    dense: Scores
    documents: Ids
    paragraphs: Ids
    roles: Bytes
    title_match: Scores | None
    document_score: Scores | None


class Searchable(Protocol):
    """One committed state of an index, wherever it is: what a search asks of it.

    See :class:`lmkrag.index.snapshot.Snapshot`.
    """

    @property
    def documents(self) -> DocumentRanges:
        """Its documents by their sentences."""

    @property
    def totals(self) -> Totals:
        """What the index holds in all."""

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
        """Find the sentences nearest to a question, and those with its words."""

    def describe(self, sentences: Ids, owners: Ids, vector: Scores | None, matches: Matches) -> Description:
        """Return all that ranking needs to know of some sentences."""

    def find_terms(self, words: Hashes) -> Terms:
        """Look up some words."""

    def find_first(self, terms: Terms) -> list[tuple[Ids, Ids]]:
        """Return where each word first stands in each document."""

    def count_document_words(self) -> Ids:
        """Return how many words each document has."""

    def words_in_titles(self, words: Hashes, documents: Ids) -> Mask:
        """Return which of some words stand in the titles of documents."""

    def read_vectors(self, sentences: Ids) -> Vectors:
        """Return the stored vectors of some sentences."""

    def find_document(self, doc_id: str) -> DocumentRow | None:
        """Return the row of a document."""

    def nearby_ids(self, doc_id: str) -> list[str]:
        """Return the names of some documents that are like a name which is not there."""

    def all_documents(self, after: str = "", limit: int | None = None) -> Iterable[DocumentRow]:
        """Yield the rows of documents, by ``doc_id``: all, or at most ``limit`` after one."""

    def view_document(self, key: int) -> DocumentView:
        """Return a document by its row id, to be read piece by piece."""

    def read_text(self, row: DocumentRow, start: int = 0, end: int | None = None) -> str:
        """Return characters ``[start, end)`` of a document."""
