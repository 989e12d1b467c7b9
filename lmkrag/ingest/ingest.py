"""Ingestion: read the changed documents of a source, encode them, commit them in batches."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lmkrag.corpus.isolated import IsolatedLoader
from lmkrag.corpus.walk import Found
from lmkrag.encoder.spec import DEFAULT_ENCODER, MULTILINGUAL_ENCODER
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.opening import Store
from lmkrag.index.store import IndexStore
from lmkrag.ingest.languages import MIN_FOREIGN
from lmkrag.ingest.pipeline import Loaded, encode_documents
from lmkrag.ingest.report import EncodedFiles, Progress, Run
from lmkrag.ingest.sources import Source, find_known, find_lost_files, load_files, read_known
from lmkrag.types import IndexReport

if TYPE_CHECKING:  # torch takes seconds to import; a run with nothing to encode needs none of it
    from lmkrag.encoder.landmark import LandmarkEncoder

GetEncoder = Callable[[], "LandmarkEncoder"]
"""Gives the encoder; called only when there is something to encode."""

_logger = logging.getLogger(__name__)


def ingest(store: Store, encoder: GetEncoder, source: Source, *, progress: Progress | None = None) -> IndexReport:
    """Bring a store up to date with a source; a changed document is replaced once its new version is whole.

    Args:
        store: to write to.
        encoder: gives the encoder.
        source: of the documents.
        progress: called as documents are encoded.

    Raises:
        IndexLocked: somebody writes. StorageError: the index can't be written to. UsageError: as the source says.
    """
    with store.writing():
        run = Run(read_known(store), progress)
        try:
            for batch in source.batches(store, run):
                _encode(batch.part, encoder, batch.documents, run, batch.known)
        finally:
            source.finish(store, run)
        if run.sentences:
            for part in store.parts:
                part.merge_small()
        if run.removed:
            store.commit_removed(run.removed)
        if store.encoder.name == DEFAULT_ENCODER and run.foreign > MIN_FOREIGN * (run.added + run.updated):
            _logger.warning(
                "%d of %d documents are not in English, which %s reads: make the index with encoder %s, or change it "
                "by lmkrag index-tools reindex --encoder %s",
                run.foreign,
                run.added + run.updated,
                DEFAULT_ENCODER,
                MULTILINGUAL_ENCODER,
                MULTILINGUAL_ENCODER,
            )
        return run.report()


def encode_files(
    part: IndexStore,
    encoder: GetEncoder,
    files: Sequence[Found],
    *,
    target: IndexStore | None = None,
    progress: Progress | None = None,
) -> EncodedFiles:
    """Encode files into an empty index, from which another one, ``target``, will adopt them.

    Args:
        part: to write to.
        encoder: gives the encoder.
        files: to read.
        target: the index that they are meant for: what it has of them is not encoded again; None for a new one.
        progress: called as documents are encoded.
    """
    run = Run({} if target is None else find_known(target, [file.doc_id for file in files]), progress)
    run.total = sum(file.stamp.size for file in files)
    with part.writing(), IsolatedLoader() as loader:
        _encode(part, encoder, load_files(files, loader, run, None), run, run.known, target)
        part.note_files(skipped=run.unreadable)
    return EncodedFiles(run.report(), run.touched, run.removed)


def restore_files(part: IndexStore, encoder: GetEncoder, rows: Sequence[DocumentRow]) -> IndexReport:
    """Index the files of documents that were lost, under the names they had; those that are gone are skipped."""
    run = Run({})
    files = find_lost_files(rows, run)
    if files:
        with part.writing(), IsolatedLoader() as loader:
            _encode(part, encoder, load_files(files, loader, run, part), run, run.known)
    return run.report()


def _encode(
    part: IndexStore,
    encoder: GetEncoder,
    documents: Iterator[Loaded],
    run: Run,
    known: Mapping[str, DocumentRow],
    recall_from: IndexStore | None = None,
) -> None:
    """Encode documents, if there are any."""
    first = next(documents, None)
    if first is None:
        return

    def every() -> Iterator[Loaded]:
        yield first
        yield from documents

    encode_documents(
        part,
        encoder(),
        every(),
        known,
        on_progress=run.encoded,
        on_finish=run.finished,
        on_commit=run.committed,
        recall_from=recall_from,
    )
