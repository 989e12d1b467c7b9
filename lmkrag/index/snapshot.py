"""One committed state of an index directory, and what a search asks of it."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lmkrag.arrays import Bytes, Hashes, Ids, Mask, Scores, Vectors
from lmkrag.errors import REPAIR, IndexCorrupt
from lmkrag.index import catalog, catalog_texts, columns
from lmkrag.index.catalog import DocumentRow, SkippedFile
from lmkrag.index.live import LiveSegment, Selection
from lmkrag.index.ranges import DocumentRanges, find_rows
from lmkrag.index.searchable import Searchable
from lmkrag.index.staged import Staged
from lmkrag.index.vectors.vector_set import VectorFile
from lmkrag.index.view import DocumentView
from lmkrag.index.words import lexical
from lmkrag.index.words.lexical import Openings, Terms, Totals
from lmkrag.json_values import replace_surrogates
from lmkrag.system import computed_once


@dataclass(frozen=True)
class Snapshot(Searchable):
    """A state of an index directory."""

    connection: sqlite3.Connection
    documents: DocumentRanges
    segments: tuple[LiveSegment, ...]

    def read_structure(self, sentences: Ids) -> tuple[Ids, Bytes]:
        paragraphs, roles = sentences.copy(), np.zeros(len(sentences), np.uint8)
        for live in self.segments:
            inside, rows = find_rows(live.by_sentence, sentences)
            structure = live.segment.structure
            paragraphs[inside] -= structure.positions[rows]
            roles[inside] = structure.roles[rows]
        return paragraphs, roles

    def find_document(self, doc_id: str) -> DocumentRow | None:
        return catalog.find_document(self.connection, doc_id)

    def find_attachments(self, row: DocumentRow) -> list[DocumentRow]:
        return catalog.find_attachments(self.connection, row)

    def nearby_ids(self, doc_id: str) -> list[str]:
        return catalog.nearby_ids(self.connection, replace_surrogates(doc_id))

    def all_documents(
        self, after: str = "", limit: int | None = None, among: Iterable[int] | None = None
    ) -> Iterable[DocumentRow]:
        return catalog.all_documents(self.connection, after, limit, among)

    def match_field(self, key: str, test: Callable[[Any], bool]) -> Mask:
        return columns.match_field(self.connection, self.documents, key, test)

    def select(self, predicate: Callable[[Callable[[str, Callable[[Any], bool]], Any]], Any]) -> list[int]:
        documents = columns.read_ranges(self.connection)  # this snapshot may be without
        kept: list[int] = documents.keys[predicate(partial(columns.match_field, self.connection, documents))].tolist()
        return kept

    def view_document(self, key: int) -> DocumentView:
        row = catalog.read_documents(self.connection, [key])[key]
        read_sentences = partial(catalog_texts.read_sentences, self.connection, row)
        return DocumentView(row, read_sentences, partial(self.read_text, row))

    def read_text(self, row: DocumentRow, start: int = 0, end: int | None = None) -> str:
        return catalog_texts.read_text(self.connection, row, start, row.length if end is None else end)

    def read_windows(self, row: DocumentRow) -> tuple[Hashes, Ids]:
        return catalog_texts.read_windows(self.connection, row)

    def read_stored(self, row: DocumentRow) -> Staged:
        return catalog_texts.read_stored(self.connection, row)

    def read_skipped(self) -> dict[str, SkippedFile]:
        return catalog.read_skipped(self.connection)

    # The parts of a search

    def search_dense(self, queries: Vectors, top_k: int, allowed: Selection | None = None) -> tuple[Vectors, Ids]:
        scores = [np.zeros((len(queries), 0), np.float32)]
        ids = [np.zeros((len(queries), 0), np.int64)]
        for live in self.segments:
            mask = allowed.rows(live) if allowed is not None else None if live.whole else live.mask
            if mask is not None and not mask.any():
                continue
            nearest, rows = live.segment.vectors.search(queries, top_k, mask)
            scores.append(np.where(rows >= 0, nearest, -np.inf))
            ids.append(np.where(rows >= 0, live.sentences(np.maximum(rows, 0)), -1))
        all_scores, all_ids = np.concatenate(scores, axis=1), np.concatenate(ids, axis=1)
        order = np.lexsort((all_ids, -all_scores), axis=1)[:, :top_k]
        return np.take_along_axis(all_scores, order, 1), np.take_along_axis(all_ids, order, 1)

    def find_terms(self, words: Hashes) -> Terms:
        return lexical.find_terms(self.segments, self.totals, words)

    @computed_once
    def totals(self) -> Totals:
        """What the index holds in all."""
        words = sum(live.words for live in self.segments)
        languages = frozenset[str]().union(*(live.segment.postings.languages for live in self.segments))
        return Totals(len(self.documents.keys), self.documents.sentences, words, languages)

    def search_lexical(self, terms: Terms, top_k: int, allowed: Selection | None = None) -> tuple[Ids, Scores]:
        return lexical.search_terms(self.segments, terms, top_k, allowed)

    def score_documents(self, positions: Ids, terms: Terms) -> Scores:
        return lexical.score_documents(self.segments, self.documents, positions, terms)

    def match_titles(self, positions: Ids, words: Hashes) -> Scores:
        lengths = self._titles_with(words, positions)
        shares: Scores = ((lengths > 0).sum(axis=0) / np.maximum(lengths.max(axis=0, initial=1), 1)).astype(np.float32)
        return shares

    def find_openings(self, terms: Terms, among: Ids | None, border: tuple[float, int, int]) -> Openings:
        def find_titled(positions: Ids) -> Mask:
            return self._titles_with(terms.words, positions) > 0

        return lexical.find_openings(self.segments, self.documents, terms, among, border, find_titled)

    def _titles_with(self, words: Hashes, positions: Ids) -> Ids:
        """``[words, k]``: how many words a title has in which a word stands, else 0."""
        lengths = np.zeros((len(words), len(positions)), np.int64)
        first, stop = self.documents.first[positions], self.documents.stop[positions]
        for live in self.segments:
            inside, rows = find_rows(live.by_sentence, np.where(first < stop, first, 0))  # no sentence has id 0
            for number, word in enumerate(words.tolist()):
                lengths[number, inside] = live.segment.postings.find_titled(word, rows)
        return lengths

    def read_vectors(self, sentences: Ids) -> Vectors:
        vectors = gather_vectors([(live.segment.vectors, live.by_sentence) for live in self.segments], sentences)
        if vectors is None:
            raise IndexCorrupt(f"no segment holds one of the sentences asked for; {REPAIR}")
        return vectors


def gather_vectors(parts: Sequence[tuple[VectorFile, Ids]], sentences: Ids) -> Vectors | None:
    """Read vectors ``[k, dimensions]`` from files with their runs ``[n, 3]`` by sentence; None if one has none."""
    vectors: Vectors | None = None
    missing = np.ones(len(sentences), bool)
    for file, runs in parts:
        inside, rows = find_rows(runs, sentences)
        if not len(rows):
            continue
        read = file.read(rows)
        if vectors is None:
            vectors = np.zeros((len(sentences), read.shape[1]), np.float32)
        vectors[inside] = read
        missing &= ~inside
    return None if missing.any() else vectors
