"""Re-encode an index from its stored texts, beside the old one, which the new one replaces when it
is complete.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lmkrag.encoder.index_encoder import load_encoder
from lmkrag.index.catalog import read_stored
from lmkrag.index.store import IndexStore
from lmkrag.index.vectors.recipes import load_recipe
from lmkrag.index.working import WorkingFolder
from lmkrag.ingest.changes import read_known, read_skipped
from lmkrag.ingest.ingest import ingest
from lmkrag.ingest.report import Progress, Run, SourceDocument
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.types import IndexReport

if TYPE_CHECKING:
    from lmkrag.encoder.landmark import LandmarkEncoder

_RECORD = "made-with.json"


@dataclass(slots=True)
class StoredTexts:
    """The documents of another index as stored there: a
    :class:`lmkrag.ingest.sources.DocumentSource`.

    Documents that the source lacks are removed.
    """

    source: IndexStore

    def read(self, store: IndexStore, run: Run) -> Iterator[SourceDocument]:
        """Yield the documents of the source that the store does not have in the same version."""
        rows = read_known(self.source)
        run.total = sum(row.size for row in rows.values())
        gone = [doc_id for doc_id in run.known if doc_id not in rows]
        if gone:
            store.commit_removed(gone)
        with self.source.reader.snapshot(segments=False) as snapshot:
            for row in snapshot.all_documents():
                known = run.known.get(row.doc_id)
                if known is not None and known.fingerprint == row.fingerprint:
                    run.unchanged += 1
                    run.advance(row.doc_id, row.size)
                    continue
                staged = read_stored(snapshot.connection, row)
                yield SourceDocument(staged.document, staged.text, staged.root, staged.stamp)

    def finish(self, store: IndexStore, run: Run) -> None:
        """Record which files the source has skipped."""
        store.note_files(skipped=read_skipped(self.source).values())


def reindex(
    path: Path,
    *,
    encoder: "str | LandmarkEncoder | None" = None,
    recipe: str | None = None,
    progress: Progress | None = None,
) -> IndexReport:
    """Encode the texts of an index again, by another encoder or under another recipe.

    No source file is read. The new index is built beside the old one, which answers searches until
    it is replaced. If the process is killed, one of them is in place, and the next call resumes.
    Engines that are open on the index have to be reopened.

    Args:
        path: the directory of the index.
        encoder: a folder, a hub name or a loaded encoder; None for the encoder of the index.
        recipe: name of a recipe or a ``.toml`` file; None for the recipe of the index.
        progress: called with (document, bytes done, bytes in all) as documents are encoded.

    Returns:
        The counts of the run.

    Raises:
        IndexNotFound: there is no index.
        IndexMismatch: it has another format; index its sources instead.
        IndexLocked: another process is writing to it.
        IndexCorrupt: a text is damaged; the index is unchanged.
        EncoderError: ``encoder`` can't be loaded.
        UsageError: ``recipe`` is unknown.
    """
    work = WorkingFolder(path, "reindex")
    work.finish_interrupted()
    stored = load_recipe(recipe) if recipe else None
    with contextlib.closing(IndexStore.open(path, recipe=stored)) as old, old.writing(job=work.job):
        loaded = load_encoder(encoder or old.encoder.name)
        with contextlib.closing(_open_new(work, loaded.spec, old.recipe)) as new:
            report = ingest(new, lambda: loaded, StoredTexts(old), progress=progress)
        (work.path / _RECORD).unlink()  # from now on, a later call must not resume this one
        work.take_place()
    work.remove()
    return report


def _open_new(work: WorkingFolder, spec: EncoderSpec, recipe: Recipe) -> IndexStore:
    """Create the new index, or open that of a killed run with the same purpose."""
    purpose = json.dumps([spec.fingerprint, repr(recipe)])
    record = work.path / _RECORD
    if record.is_file() and record.read_text("utf-8") == purpose and IndexStore.exists(work.new):
        return IndexStore.open(work.new)
    work.remove()
    work.claim()
    record.write_text(purpose, "utf-8")
    return IndexStore.create(work.new, encoder=spec, recipe=recipe)
