"""What a committed state of an index gives to a search, whether it lies in a folder or on an engine."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from lmkrag.arrays import Bytes, Hashes, Ids, Mask, Scores, Vectors
from lmkrag.errors import SnapshotExpired
from lmkrag.index.catalog import DocumentRow, SkippedFile
from lmkrag.index.files import Tables
from lmkrag.index.live import Selection
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.staged import Staged
from lmkrag.index.view import DocumentView
from lmkrag.index.words.lexical import Openings, Terms, Totals
from lmkrag.specs import EncoderSpec
from lmkrag.system import FileStamp
from lmkrag.types import IndexStatus, Mode

Result = TypeVar("Result")

_TRIES = 3


class Nearest(NamedTuple):
    """Sentences by similarity, best first, and their similarities ``dense``, each ``[n]``."""

    sentences: Ids
    dense: Scores


NOTHING_NEAR = Nearest(np.zeros(0, np.int64), np.zeros(0, np.float32))


class Matches(NamedTuple):
    """Sentences that the dense or the lexical search found."""

    sentences: Ids  # ``[n]``, increasing ids
    dense: Scores  # ``[n]``, 0 where no vector was given
    lexical: Scores  # ``[n]``, 0 where no word matches
    terms: Terms | None  # None when words do not count
    nearest: Nearest  # what the dense search alone found


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
    """What the index knows of some sentences, each ``[k]``."""

    dense: Scores  # similarities to the question
    documents: Ids
    paragraphs: Ids  # the ids of their paragraphs' first sentences
    roles: Bytes  # the bits of their structure
    title_match: Scores | None  # share of its title's words that the question names; None when words do not count
    document_score: Scores | None  # BM25 of the document as one text; None when words do not count


class Searchable(ABC):
    """One committed state of an index, for as long as the reader holds it."""

    documents: DocumentRanges

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
        """Find the sentences nearest to a question, and those with its words, ``top_k`` each at most.

        ``vector`` ``[dimensions]`` has length one; in lexical mode None will do, and similarities are 0 then. ``words``
        are from :func:`lmkrag.index.words.terms.query_words`. ``allowed`` are the documents to search in; words weigh
        the same either way. ``nearest`` is what an earlier search for the same vector, mode, number and documents
        found.
        """
        if nearest is None:
            nearest = NOTHING_NEAR
            if mode != "lexical" and vector is not None:
                scores, ids = self.search_dense(vector[None], top_k, allowed)
                nearest = Nearest(ids[0][ids[0] >= 0], scores[0][ids[0] >= 0])
        matched, bm25, terms = np.zeros(0, np.int64), np.zeros(0, np.float32), None
        if mode != "dense":
            terms = self.find_terms(words)
            matched, bm25 = self.search_lexical(terms, top_k, allowed)
        sentences = np.union1d(nearest.sentences, matched)
        dense = self.score_sentences(vector, sentences, nearest.sentences, nearest.dense)
        return Matches(sentences, dense, spread_scores(bm25, matched, sentences), terms, nearest)

    def describe(self, sentences: Ids, owners: Ids, vector: Scores | None, matches: Matches) -> Description:
        """Return all that ranking needs to know of ``sentences`` ``[k]``, increasing, those of ``matches`` among them.

        ``owners`` ``[k]`` are the positions of their documents in ``documents``; without ``vector``, similarity is left
        out.
        """
        terms = matches.terms
        dense = self.score_sentences(vector, sentences, matches.sentences, matches.dense)
        distinct, position = np.unique(owners, return_inverse=True)
        paragraphs, roles = self.read_structure(sentences)
        return Description(
            dense=dense,
            documents=self.documents.keys[owners],
            paragraphs=paragraphs,
            roles=roles,
            title_match=None if terms is None else self.match_titles(distinct, terms.words)[position],
            document_score=None
            if terms is None or len(distinct) < 2
            else self.score_documents(distinct, terms)[position],
        )

    def score_sentences(self, vector: Scores | None, sentences: Ids, known: Ids, similarity: Scores) -> Scores:
        """Return the inner product of a question with sentences ``[n]``, increasing; of the ``known`` it is given."""
        dense = spread_scores(similarity, known, sentences)
        if vector is not None:
            fresh = np.ones(len(sentences), bool)
            fresh[np.searchsorted(sentences, known)] = False
            if fresh.any():
                dense[fresh] = self.score_vectors(vector, sentences[fresh])
        return dense

    def score_vectors(self, vector: Scores, sentences: Ids) -> Scores:
        """Return the inner product of a question with the stored vectors of sentences ``[n]``, increasing."""
        # too few for BLAS, whose threads would cost more than they save
        scores: Scores = np.einsum("ij,j->i", self.read_vectors(sentences), vector)
        return scores

    def prepare(self, keys: Iterable[int]) -> None:  # noqa: B027
        """Take the row ids of documents that will be read next; there is nothing to do where reading takes no call."""

    @property
    @abstractmethod
    def totals(self) -> Totals:
        """What the index holds in all."""

    @abstractmethod
    def search_dense(self, queries: Vectors, top_k: int, allowed: Selection | None = None) -> tuple[Vectors, Ids]:
        """Find the sentences nearest to each query ``[n, dimensions]`` of length one, by inner product.

        Returns scores ``[n, k]`` and sentence ids ``[n, k]`` with ``k <= top_k``, best first, ties by id; id -1 where
        there are no more.
        """

    @abstractmethod
    def find_terms(self, words: Hashes) -> Terms:
        """Look up some words, from :func:`lmkrag.index.words.terms.query_words`."""

    @abstractmethod
    def search_lexical(self, terms: Terms, top_k: int, allowed: Selection | None = None) -> tuple[Ids, Scores]:
        """Find sentences by BM25 over any of some words: ids and scores, at most ``top_k``, best first, ties by id."""

    @abstractmethod
    def read_structure(self, sentences: Ids) -> tuple[Ids, Bytes]:
        """Return the first sentences of the paragraphs of sentences ``[k]``, increasing, and their roles as bits."""

    @abstractmethod
    def find_openings(self, terms: Terms, among: Ids | None, border: tuple[float, int, int]) -> Openings:
        """Find in which openings and titles words are: see :func:`lmkrag.index.words.lexical.find_openings`."""

    @abstractmethod
    def score_documents(self, positions: Ids, terms: Terms) -> Scores:
        """Return the BM25 scores of whole documents at increasing ``positions`` ``[k]``, each without its title."""

    @abstractmethod
    def match_titles(self, positions: Ids, words: Hashes) -> Scores:
        """Return which share of the words of documents' titles are among some words: ``[k]``, 0 without a title."""

    @abstractmethod
    def read_vectors(self, sentences: Ids) -> Vectors:
        """Return the stored vectors ``[len(sentences), dimensions]``. Raises IndexCorrupt: one has none."""

    @abstractmethod
    def find_document(self, doc_id: str) -> DocumentRow | None:
        """Return the row of a document."""

    @abstractmethod
    def find_attachments(self, row: DocumentRow) -> list[DocumentRow]:
        """Return the documents that are attached to one."""

    @abstractmethod
    def nearby_ids(self, doc_id: str) -> list[str]:
        """Return the names of some documents that are like a name which is not there."""

    @abstractmethod
    def all_documents(
        self, after: str = "", limit: int | None = None, among: Iterable[int] | None = None
    ) -> Iterable[DocumentRow]:
        """Yield the rows of documents by ``doc_id``: all, or those ``among`` some ids, at most ``limit`` after one."""

    @abstractmethod
    def match_field(self, key: str, test: Callable[[Any], bool]) -> Mask:
        """Return which documents have a value of a field that passes a test, None where there is none."""

    @abstractmethod
    def select(self, predicate: Callable[[Callable[[str, Callable[[Any], bool]], Any]], Any]) -> list[int]:
        """Return the row ids of the documents that a filter's predicate keeps, also without segments."""

    @abstractmethod
    def view_document(self, key: int) -> DocumentView:
        """Return a document by its row id, to be read piece by piece. Raises IndexCorrupt: there is none."""

    @abstractmethod
    def read_text(self, row: DocumentRow, start: int = 0, end: int | None = None) -> str:
        """Return characters ``[start, end)`` of a document, clipped to its length; its whole text by default."""

    @abstractmethod
    def read_windows(self, row: DocumentRow) -> tuple[Hashes, Ids]:
        """Return the hash of each window a document was read in, and the ordinal of its first own sentence."""

    @abstractmethod
    def read_stored(self, row: DocumentRow) -> Staged:
        """Read a document with its text, sentences and windows, or raise IndexCorrupt."""

    @abstractmethod
    def read_skipped(self) -> dict[str, SkippedFile]:
        """Return the files that could not be indexed when they were last read, by path."""


class Reader(Protocol):
    """Gives the states of an index."""

    def snapshot(self, *, segments: bool = True) -> contextlib.AbstractContextManager[Searchable]:
        """Hold the newest committed state; without ``segments`` only its documents and texts are needed."""


class Store(Protocol):
    """An index that is read and written: a folder, or collections of an engine. Methods as of ``IndexStore``."""

    encoder: EncoderSpec
    chooses_encoder: bool

    @property
    def path(self) -> Path | str:
        """The directory, or the address."""

    @property
    def reader(self) -> Reader: ...

    def close(self) -> None: ...

    def status(self) -> IndexStatus: ...

    def find_problems(self) -> tuple[str, ...]: ...

    def writing(self) -> contextlib.AbstractContextManager[None]: ...

    def change_encoder(self, encoder: EncoderSpec) -> None: ...

    def stage_segment(self, vectors: Sequence[Vectors], words: Tables, structure: Tables) -> Any: ...

    def commit(
        self, staged: Sequence[Staged], segments: Sequence[Any] = (), *, removed: Iterable[str] = ()
    ) -> None: ...

    def commit_removed(self, doc_ids: Iterable[str]) -> None: ...

    def note_files(
        self,
        *,
        touched: Iterable[tuple[int, FileStamp]] = (),
        skipped: Iterable[SkippedFile] = (),
        forgotten: Iterable[str] = (),
    ) -> None: ...

    def merge_small(self) -> None: ...

    def compact(self) -> None: ...
