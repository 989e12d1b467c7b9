"""Copy the documents of an index into another, on Qdrant or in a directory; nothing is encoded."""

import contextlib
from pathlib import Path

import numpy as np

from lmkrag.arrays import Vectors
from lmkrag.errors import IndexMismatch
from lmkrag.index.searchable import Store
from lmkrag.index.staged import Staged
from lmkrag.index.store import IndexStore
from lmkrag.ingest.opening import open_index
from lmkrag.ingest.repair import read_tables
from lmkrag.ingest.sources import read_known
from lmkrag.specs import EncoderSpec
from lmkrag.system import is_address
from lmkrag.types import IndexReport

_BATCH = 16_384  # sentences committed together; what a killed copy repeats


def copy_index(source: str, target: str) -> IndexReport:
    """Copy documents with their vectors; those that the target has already are left, and others of its own stay.

    The target is created if missing. Raises IndexNotFound: there is no source. IndexMismatch: the target was made with
    another encoder. IndexCorrupt: a document of the source is damaged; those before it are copied.
    """
    with contextlib.closing(open_index(source)[0]) as old, contextlib.closing(_open(target, old.encoder)) as new:
        if new.encoder.fingerprint != old.encoder.fingerprint:
            raise IndexMismatch(f"{target}: made with encoder {new.encoder.name!r}, {source} with {old.encoder.name!r}")
        with new.writing(), old.reader.snapshot() as snapshot:
            known = read_known(new)
            batch: list[tuple[Staged, Vectors]] = []
            copied = [0, 0, 0, 0]  # added, updated, sentences, characters
            total = 0
            for row in snapshot.all_documents():
                total += 1
                here = known.get(row.doc_id)
                if here is not None and (here.fingerprint, here.content_checksum) == (
                    row.fingerprint,
                    row.content_checksum,
                ):
                    continue
                sentences = np.arange(row.first_sentence, row.first_sentence + row.sentences)
                batch.append((snapshot.read_stored(row), snapshot.read_vectors(sentences)))
                changes = (here is None, here is not None, row.sentences, row.length)
                copied = [before + change for before, change in zip(copied, changes, strict=True)]
                if sum(len(vectors) for _, vectors in batch) >= _BATCH:
                    _commit(new, batch)
                    batch = []
            _commit(new, batch)
            new.note_files(skipped=snapshot.read_skipped().values())
    added, updated, count, characters = copied
    return IndexReport(added, updated, total - added - updated, sentences=count, characters=characters)


def _open(target: str, encoder: EncoderSpec) -> Store:
    if is_address(target):
        from lmkrag.qdrant.store import QdrantStore

        return QdrantStore.open(target) or QdrantStore.create(target, encoder=encoder)
    path = Path(target)
    return IndexStore.open(path) if IndexStore.exists(path) else IndexStore.create(path, encoder=encoder)


def _commit(store: Store, batch: list[tuple[Staged, Vectors]]) -> None:
    if batch:
        documents = [staged for staged, _ in batch]
        store.commit(documents, [store.stage_segment([vectors for _, vectors in batch], *read_tables(documents))])
        store.merge_small()
