"""Divide the documents of an index among another number of shards, with their vectors and words: nothing is encoded."""

import contextlib
import shutil
from functools import partial
from pathlib import Path

from lmkrag.errors import UsageError
from lmkrag.index.adopting import adopt_index
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.opening import open_store
from lmkrag.index.pool import CATALOG
from lmkrag.index.shard_ids import choose_shard, owner_or_self
from lmkrag.index.shards import RECORD, check_shards, create_shards, folder_name, read_record, write_record


def reshard_index(path: Path, shards: int) -> int:
    """Change the number of shards of an index; return how many documents it has.

    The new shards are made beside the old ones, whole, before the record names them: killed at any instant, the index
    is as it was or as it is to be, and what is left over is removed by the next call. Readers of the old shards in
    other processes have to open the index again.

    Raises:
        UsageError: it has that many shards already, or the number makes no sense. IndexLocked: somebody writes.
        IndexCorrupt: a shard is damaged; the index is as it was.
    """
    check_shards(shards)
    store = open_store(path)
    with contextlib.closing(store), store.writing():
        if store.shards == shards:
            _remove_leftovers(path)
            raise UsageError(f"{path}: has {shards} shards already")
        _remove_leftovers(path)
        folder = path / folder_name(shards)
        documents = 0
        for number, shard in enumerate(create_shards(folder, shards, encoder=store.encoder, recipe=store.recipe)):
            wanted = partial(_belongs, number, shards)
            with contextlib.closing(shard), shard.writing():
                for part in store.parts:
                    documents += adopt_index(shard, part.path, wanted=wanted).added
                shard.drop_dead()
                shard.merge_small()
        write_record(path, folder.name, shards)
        _remove_leftovers(path)
    return documents


def _belongs(number: int, shards: int, row: DocumentRow) -> bool:
    return choose_shard(owner_or_self(row.doc_id, row.meta), shards) == number


def _remove_leftovers(path: Path) -> None:
    """Remove what the index does not consist of any more, or does not yet."""
    named = read_record(path)[0] if (path / RECORD).exists() else None
    for folder in path.glob("shards-*"):
        if folder.name != named:
            shutil.rmtree(folder, ignore_errors=True)
    if named is not None:
        for file in path.glob(f"{CATALOG}*"):
            file.unlink()
        shutil.rmtree(path / "segments", ignore_errors=True)
