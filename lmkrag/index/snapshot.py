"""One committed state of an index, and the searches in it."""

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmkrag.errors import REPAIR, IndexCorrupt
from lmkrag.index import catalog, columns
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.live import LiveSegment, Selection
from lmkrag.index.ranges import DocumentRanges, find_rows
from lmkrag.index.searchable import NOTHING_NEAR, Description, Matches, Nearest, spread_scores
from lmkrag.index.view import DocumentView
from lmkrag.index.words import lexical
from lmkrag.index.words.lexical import Terms, Totals
from lmkrag.system.processes import computed_once
from lmkrag.types import Mode
from lmkrag.types.arrays import NO_IDS, NO_SCORES, Hashes, Ids, Mask, Scores, Vectors
from lmkrag.types.json_values import replace_surrogates


@dataclass(frozen=True)
class Snapshot:
    """One committed state of the index, for as long as the reader holds it.

    Attributes:
        connection: a connection inside a read transaction.
        read_documents: reads the documents when they are first needed.
        segments: the segments with their live rows; empty in a snapshot that is not searched.
    """

    connection: sqlite3.Connection
    read_documents: Callable[[], DocumentRanges]
    segments: tuple[LiveSegment, ...]

    @computed_once
    def documents(self) -> DocumentRanges:
        """All documents by increasing row ids."""
        return self.read_documents()

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
        """Find the sentences nearest to a question, and those with its words, at most ``top_k`` of
        each.

        Args:
            vector: ``[dimensions]`` float32 of length one; None in lexical mode, in which
                similarities are 0.
            words: hashes of the question's words, from :func:`lmkrag.language.terms.query_words`.
            mode: ``"hybrid"``, ``"dense"`` or ``"lexical"``.
            top_k: maximum number of sentences of each search.
            allowed: the documents to search in; None for all. Words weigh the same either way.
            nearest: the result of an earlier search for the same vector, mode, number and
                documents.

        Returns:
            The sentences of both searches, each with its similarity and its BM25 score.
        """
        matched, bm25, terms = NO_IDS, NO_SCORES, None
        if mode != "dense":
            terms = self.find_terms(words)
            matched, bm25 = self.search_lexical(terms, top_k, allowed)
        if nearest is None:
            nearest = NOTHING_NEAR
            if mode != "lexical" and vector is not None:
                nearest = self.find_nearest(vector, top_k, allowed, matched)
        sentences = np.union1d(nearest.sentences, matched)
        dense = self.score_sentences(vector, sentences, nearest.sentences, nearest.dense)
        return Matches(sentences, dense, spread_scores(bm25, matched, sentences), terms, nearest)

    def describe(
        self, sentences: Ids, owners: Ids, vector: Scores | None, matches: Matches
    ) -> Description:
        """Return all that ranking needs to know of sentences.

        Args:
            sentences: ``[k]`` int64, increasing ids, those of ``matches`` among them.
            owners: ``[k]`` int64, positions of their documents in :attr:`documents`.
            vector: ``[dimensions]`` float32, the question; None leaves similarity out.
            matches: the result of :meth:`search`.
        """
        paragraphs = sentences.copy()
        roles = np.zeros(len(sentences), np.uint8)
        for live in self.segments:
            inside, rows = find_rows(live.by_sentence, sentences)
            structure = live.segment.structure
            paragraphs[inside] -= structure["positions"][rows]
            roles[inside] = structure["roles"][rows]
        return Description(
            dense=self.score_sentences(vector, sentences, matches.sentences, matches.dense),
            documents=self.documents.keys[owners],
            paragraphs=paragraphs,
            roles=roles,
        )

    def find_document(self, doc_id: str) -> DocumentRow | None:
        """Return the catalog's row of a document; None if there is none.

        Raises:
            IndexCorrupt: the row is lost.
        """
        return self.find_documents([doc_id]).get(doc_id)

    def find_documents(self, doc_ids: Iterable[str]) -> dict[str, DocumentRow]:
        """Return the rows of documents by ``doc_id``; unknown names are left out.

        Raises:
            IndexCorrupt: a row is lost.
        """
        found = {doc_id: catalog.find_row(self.connection, doc_id) for doc_id in doc_ids}
        rows = {doc_id: row for doc_id, row in found.items() if row is not None}
        if absent := found.keys() - rows.keys():
            lost = self.match_field("doc_id", lambda name: name in absent)
            catalog.check_count(len(rows), len(rows) + int(lost.sum()))
        return rows

    def nearby_ids(self, doc_id: str) -> list[str]:
        """Return names of documents that come before and after an unknown name in their order."""
        return catalog.nearby_ids(self.connection, replace_surrogates(doc_id))

    def all_documents(
        self, after: str = "", limit: int | None = None, among: Ids | None = None
    ) -> Iterable[DocumentRow]:
        """Yield documents by ``doc_id``.

        Args:
            after: only documents whose ``doc_id`` comes after this one; empty for all.
            limit: maximum number of documents; None for no limit.
            among: ``[n]`` int64, row ids of the documents to yield; None for all.

        Raises:
            IndexCorrupt: a row is lost.
        """
        if among is not None:
            return catalog.list_some_documents(self.connection, among, after, limit)
        return catalog.list_documents(self.connection, self.documents.keys, after, limit)

    def check_rows(self) -> None:
        """Check that every document has its row.

        Raises:
            IndexCorrupt: a row is lost.
        """
        for _ in self.all_documents(limit=0):
            pass

    def match_field(self, key: str, test: Callable[[Any], bool]) -> Mask:
        """Return which documents ``[n]`` have a field that passes a test: see
        :func:`lmkrag.index.columns.match_field`.
        """
        return columns.match_field(self.connection, self.documents, key, test)

    def view_document(self, key: int) -> DocumentView:
        """Return a document by its row id, to be read piece by piece.

        Raises:
            IndexCorrupt: there is no such document.
        """
        row = catalog.read_documents(self.connection, [key])[key]
        return DocumentView(row, self.connection)

    def read_text(self, row: DocumentRow, start: int = 0, end: int | None = None) -> str:
        """Return the characters ``[start, end)`` of a document.

        Args:
            row: the document.
            start: the first character, from 0.
            end: the character after the last one, clipped to the length of the text; None for its
                end.

        Raises:
            IndexCorrupt: a block of the text is damaged or missing.
        """
        return catalog.read_text(self.connection, row, start, row.length if end is None else end)

    # The parts of a search

    def find_nearest(
        self, vector: Scores, top_k: int, allowed: Selection | None, matched: Ids
    ) -> Nearest:
        """Find the sentences nearest to a question.

        Args:
            vector: ``[dimensions]`` float32 of length one.
            top_k: maximum number of sentences.
            allowed: the documents to search in; None for all.
            matched: ``[n]`` int64, sentences of the lexical search, which will be compared with the
                question next; a store may fetch them in the same call.
        """
        scores, ids = self.search_dense(vector[None], top_k, allowed)
        return Nearest(ids[0][ids[0] >= 0], scores[0][ids[0] >= 0])

    def search_dense(
        self, queries: Vectors, top_k: int, allowed: Selection | None = None
    ) -> tuple[Vectors, Ids]:
        """Find the sentences nearest to each query, by inner product.

        Args:
            queries: ``[n, dimensions]`` float32 of length one.
            top_k: maximum number of sentences of each query.
            allowed: the documents to search in; None for all.

        Returns:
            Scores ``[n, k]`` float32 and sentence ids ``[n, k]`` int64 with ``k <= top_k``, best
                first, ties by id; the id is -1 where there are no more.
        """
        scores = [np.zeros((len(queries), 0), np.float32)]
        ids = [np.zeros((len(queries), 0), np.int64)]
        for live in self.segments:
            mask = None if live.whole else live.mask
            if allowed is not None:
                mask = allowed.rows(live)
            if mask is not None and not mask.any():
                continue
            nearest, rows = live.segment.vectors.search(queries, top_k, mask)
            scores.append(np.where(rows >= 0, nearest, -np.inf))
            ids.append(np.where(rows >= 0, live.sentences(np.maximum(rows, 0)), -1))
        all_scores, all_ids = np.concatenate(scores, axis=1), np.concatenate(ids, axis=1)
        order = np.lexsort((all_ids, -all_scores), axis=1)[:, :top_k]
        return np.take_along_axis(all_scores, order, 1), np.take_along_axis(all_ids, order, 1)

    def find_terms(self, words: Hashes) -> Terms:
        """Look up words, given by their hashes from :func:`lmkrag.language.terms.query_words`."""
        return lexical.find_terms(self.segments, self.totals, words)

    @computed_once
    def totals(self) -> Totals:
        """The counts of documents, sentences and words, and the languages of the words."""
        words = sum(live.words for live in self.segments)
        languages = frozenset[str]().union(
            *(live.segment.postings.languages for live in self.segments)
        )
        return Totals(len(self.documents.keys), self.documents.sentences, words, languages)

    def search_lexical(
        self, terms: Terms, top_k: int, allowed: Selection | None = None
    ) -> tuple[Ids, Scores]:
        """Find sentences by BM25: see :func:`lmkrag.index.words.lexical.search_terms`.

        Args:
            terms: the words of the question, from :meth:`find_terms`.
            top_k: maximum number of sentences.
            allowed: the documents to search in; None for all.
        """
        return lexical.search_terms(self.segments, terms, top_k, allowed)

    def titles_with(self, words: Hashes, positions: Ids) -> Ids:
        """Return the number of words of each title that has a word.

        Args:
            words: ``[w]`` uint64, hashes of words.
            positions: ``[k]`` int64, positions of documents.

        Returns:
            ``[w, k]`` int64; 0 if the title does not have the word.
        """
        lengths = np.zeros((len(words), len(positions)), np.int64)
        first, stop = self.documents.first[positions], self.documents.stop[positions]
        for live in self.segments:
            # no sentence has id 0
            inside, rows = find_rows(live.by_sentence, np.where(first < stop, first, 0))
            lengths[:, inside] = live.segment.postings.find_titled(words, rows)
        return lengths

    def score_sentences(
        self, vector: Scores | None, sentences: Ids, known: Ids, similarity: Scores
    ) -> Scores:
        """Return the inner products of a question with sentences.

        Args:
            vector: ``[dimensions]`` float32; None leaves unknown scores at 0.
            sentences: ``[n]`` int64, increasing sentence ids.
            known: ids whose scores are known, among ``sentences``.
            similarity: the known scores.

        Returns:
            ``[n]`` float32.
        """
        dense = spread_scores(similarity, known, sentences)
        if vector is not None:
            fresh = np.ones(len(sentences), bool)
            fresh[np.searchsorted(sentences, known)] = False
            if fresh.any():
                dense[fresh] = self.compare_sentences(vector, sentences[fresh])
        return dense

    def compare_sentences(self, vector: Scores, sentences: Ids) -> Scores:
        """Return the inner products ``[n]`` of a question with sentences, given by their ids
        ``[n]``.
        """
        # too few for BLAS, whose threads would cost more than they save
        similarities: Scores = np.einsum("ij,j->i", self.read_vectors(sentences), vector)
        return similarities

    def read_vectors(self, sentences: Ids) -> Vectors:
        """Return the stored vectors ``[len(sentences), dimensions]`` float32 of sentences.

        Raises:
            IndexCorrupt: a sentence has no vector.
        """
        vectors: Vectors | None = None
        missing = np.ones(len(sentences), bool)
        for live in self.segments:
            inside, rows = find_rows(live.by_sentence, sentences)
            if not len(rows):
                continue
            read = live.segment.vectors.read(rows)
            if vectors is None:
                vectors = np.zeros((len(sentences), read.shape[1]), np.float32)
            vectors[inside] = read
            missing &= ~inside
        if vectors is None or missing.any():
            raise IndexCorrupt(f"no segment holds one of the sentences asked for; {REPAIR}")
        return vectors
