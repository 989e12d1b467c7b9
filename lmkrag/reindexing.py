"""The reindex job: an index is made anew from its own texts, beside the old one, and takes its place when whole."""

import contextlib
import json
from pathlib import Path

from lmkrag.encoders import load_new_encoder
from lmkrag.errors import IndexNotFound
from lmkrag.index.files import sync
from lmkrag.index.recipes import load_recipe
from lmkrag.index.shards import ShardedStore, Store, index_exists, open_store
from lmkrag.index.store import IndexStore
from lmkrag.index.vector_stores import remove_index
from lmkrag.indexing import Progress, encode_again
from lmkrag.types import EncoderSpec, IndexReport, Reading, Recipe

_NEW, _OLD = ".reindexed", ".old"


def reindex(
    path: Path,
    *,
    encoder: str | None = None,
    recipe: str | None = None,
    overlap: float | None = None,
    reading: Reading | None = None,
    shards: int | None = None,
    progress: Progress | None = None,
) -> IndexReport:
    """Encode the texts of an index again, by another encoder or in another way; no source file is read.

    The new index is made beside the old one, which is searched meanwhile and goes when the new one has taken its
    place. Killed at any instant, the old one or the new one is there; the next call goes on. Engines that are open on
    the index have to be opened again.

    Args:
        path: the index directory.
        encoder: a model folder or hub name; by default that of the index's encoder.
        recipe: how vectors are stored; by default as before.
        overlap: see :meth:`lmkrag.Engine.open`.
        reading: see :meth:`lmkrag.Engine.open`; that of the index without.
        shards: number of shards; by default as many as before.
        progress: called as documents are encoded.

    Raises:
        IndexNotFound: there is none. IndexMismatch: another format than this lmkrag's: its sources have to be indexed.
        IndexLocked: somebody writes. IndexCorrupt: a text is damaged; the index is as it was.
    """
    new_path, old_path = (path.with_name(path.name + ending) for ending in (_NEW, _OLD))
    _finish_interrupted(path, new_path, old_path)
    if not index_exists(path):
        raise IndexNotFound(f"{path}: no index here; make one with: lmkrag index PATH --index {path}")
    with contextlib.closing(open_store(path)) as old, old.writing():
        loaded = load_new_encoder(encoder or old.encoder.name, overlap=overlap, reading=reading or old.encoder.reading)
        stored = load_recipe(recipe) if recipe else old.recipe
        if shards is None and isinstance(old, ShardedStore):
            shards = len(old.shards)
        with contextlib.closing(_open_new(new_path, loaded.spec, stored, shards)) as new:
            report = encode_again(new, loaded, old, progress)
        path.rename(old_path)
        new_path.rename(path)
        sync(path.parent)
    _record_path(new_path).unlink()
    remove_index(old_path)
    return report


def _record_path(new_path: Path) -> Path:
    """Where it says what the new index is made with."""
    return new_path.with_name(f"{new_path.name}.json")


def _open_new(new_path: Path, spec: EncoderSpec, recipe: Recipe, shards: int | None) -> Store:
    """Make the new index, or open what a killed run has made of the same one."""
    wanted = json.dumps([spec.fingerprint, repr(recipe), shards])
    record = _record_path(new_path)
    if new_path.exists() and record.is_file() and record.read_text("utf-8") == wanted and index_exists(new_path):
        return open_store(new_path)
    remove_index(new_path)
    record.write_text(wanted, "utf-8")
    if shards is None:
        return IndexStore.create(new_path, encoder=spec, recipe=recipe)
    return ShardedStore.create(new_path, encoder=spec, recipe=recipe, shards=shards)


def _finish_interrupted(path: Path, new_path: Path, old_path: Path) -> None:
    """Go on where a run was killed after it had moved the old index away."""
    if not path.exists() and index_exists(new_path) and old_path.exists():
        new_path.rename(path)
        sync(path.parent)
    if index_exists(path) and old_path.exists():
        remove_index(old_path)
