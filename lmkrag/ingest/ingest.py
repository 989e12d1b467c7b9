"""Ingestion: read the changed documents of a source, encode them and commit them in batches."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from lmkrag.formats.isolated import IsolatedLoader
from lmkrag.index.store import IndexStore
from lmkrag.ingest.changes import read_known
from lmkrag.ingest.pipeline import encode_documents
from lmkrag.ingest.report import Progress, Run, SourceDocument
from lmkrag.ingest.sources import DocumentSource, load_files, warn_of_languages
from lmkrag.ingest.walk import SourceFile
from lmkrag.types import IndexReport

if TYPE_CHECKING:  # torch takes seconds to import; a run with nothing to encode needs none of it
    from lmkrag.encoder.landmark import LandmarkEncoder

GetEncoder = Callable[
    [], "LandmarkEncoder"
]  # loads the encoder; called only when there is something to encode


def ingest(
    store: IndexStore,
    encoder: GetEncoder,
    source: DocumentSource,
    *,
    progress: Progress | None = None,
) -> IndexReport:
    """Bring a store up to date with a source, in one run.

    Args:
        store: an open index.
        encoder: loads the encoder; called only if there is something to encode.
        source: the documents, or the files that they are read from.
        progress: called with (document, bytes done, bytes in all or 0) as documents are encoded.

    Returns:
        The counts of the run.

    Raises:
        IndexLocked: another process is writing to the index.
        StorageError: writing failed; what was committed before is kept.
        UsageError: the source is wrong, such as a path that does not exist.
    """
    with store.writing():
        run = Run(read_known(store), progress)
        try:
            _encode(store, encoder, source.read(store, run), run, None)
        finally:
            source.finish(store, run)
        if run.sentences:
            store.merge_small()
        if run.removed:
            store.commit_removed(run.removed)
        warn_of_languages(store, run)
        return run.report()


def encode_files(
    store: IndexStore,
    encoder: GetEncoder,
    files: Sequence[SourceFile],
    *,
    target: IndexStore | None = None,
) -> Run:
    """Encode files into an empty index, which another index may adopt.

    Args:
        store: the empty index.
        encoder: loads the encoder; called only if there is something to encode.
        files: the files to encode.
        target: the index that may adopt it; windows that it has are not encoded again. None for no
            such index.

    Returns:
        The counts of the run.
    """
    run = Run({} if target is None else read_known(target, [file.doc_id for file in files]))
    with store.writing(), IsolatedLoader() as loader:
        _encode(store, encoder, load_files(files, loader, run, None), run, target)
        store.note_files(skipped=run.unreadable)
    return run


def _encode(
    store: IndexStore,
    encoder: GetEncoder,
    documents: Iterator[SourceDocument],
    run: Run,
    target: IndexStore | None,
) -> None:
    """Encode documents; the encoder is loaded only if there are any."""
    for first in documents:
        encode_documents(store, encoder(), chain([first], documents), run, recall_from=target)
