"""Copy the documents of an index into another, which may be of another kind; nothing is encoded."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from lmkrag.errors import IndexMismatch
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.catalog_texts import read_stored
from lmkrag.index.files import Tables
from lmkrag.index.staged import Staged
from lmkrag.index.store import IndexStore
from lmkrag.index.words.postings import PostingsBuilder
from lmkrag.sentences.languages import document_language
from lmkrag.sentences.split import with_contexts
from lmkrag.sentences.structure import ParagraphTracker, StructureTable
from lmkrag.specs import CODE, SENTENCE_KINDS, Sentence
from lmkrag.types import IndexReport

_BATCH = 16_384  # sentences committed together; what a killed copy repeats


def copy_documents(old: IndexStore, new: IndexStore) -> IndexReport:
    """Copy documents with their vectors; those that ``new`` has already are left, and others of its own stay.

    Raises IndexMismatch: another encoder made it. IndexCorrupt: a document of ``old`` is damaged; those before it are
    copied.
    """
    if new.encoder.fingerprint != old.encoder.fingerprint:
        raise IndexMismatch(f"{new.place}: made with {new.encoder.name!r}, {old.place} with {old.encoder.name!r}")
    with new.writing(), old.reader.snapshot() as snapshot:
        with new.reader.snapshot(segments=False) as there:
            known = {row.doc_id: (row.fingerprint, row.content_checksum) for row in there.all_documents()}
        documents = list(snapshot.all_documents())
        rows = [row for row in documents if known.get(row.doc_id) != (row.fingerprint, row.content_checksum)]
        for part in _divide(rows):
            staged = [read_stored(snapshot.connection, row) for row in part]
            vectors = [snapshot.read_vectors(row.first_sentence + np.arange(row.sentences)) for row in part]
            new.commit(staged, [new.stage_segment(vectors, *build_tables(staged))])
            new.merge_small()
    updated = sum(row.doc_id in known for row in rows)
    sentences, characters = sum(row.sentences for row in rows), sum(row.length for row in rows)
    unchanged = len(documents) - len(rows)
    return IndexReport(len(rows) - updated, updated, unchanged, sentences=sentences, characters=characters)


def _divide(rows: list[DocumentRow]) -> Iterator[list[DocumentRow]]:
    first = sentences = 0
    for stop, row in enumerate(rows, 1):
        sentences += row.sentences
        if sentences >= _BATCH or stop == len(rows):
            yield rows[first:stop]
            first, sentences = stop, 0


def build_tables(documents: Sequence[Staged]) -> tuple[Tables, Tables]:
    """Return the words and the structure of documents, laid end to end."""
    words, structure = PostingsBuilder(), StructureTable()
    for staged in documents:
        kinds = [SENTENCE_KINDS[kind] for kind in staged.sentences.kinds.tolist()]
        borders = pairwise([0, *staged.sentences.ends.tolist()])
        sentences = [Sentence(start, end, kind) for (start, end), kind in zip(borders, kinds, strict=True)]
        texts = [sentence.read(staged.text) for sentence in with_contexts(staged.text, sentences, staged.document.kind)]
        document = staged.document
        title = "" if document.kind == CODE else document.title
        words.add(texts, document_language(staged.text, document.kind), title)
        structure.add(((staged.text[each.start : each.end], each.kind) for each in sentences), ParagraphTracker())
    return words.take(len(words)), structure.take(len(structure))
