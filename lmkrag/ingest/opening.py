"""Open an index with its encoder, or create one."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lmkrag.encoder.index_encoder import load_encoder
from lmkrag.errors import IndexNotFound, LmkragError, UsageError
from lmkrag.index.store import IndexStore
from lmkrag.index.vectors.recipes import DEFAULT_RECIPE, load_recipe
from lmkrag.system.processes import set_wait_policy

if TYPE_CHECKING:
    from lmkrag.encoder.landmark import LandmarkEncoder


def open_index(
    path: str | Path,
    *,
    create: bool = False,
    encoder: "str | LandmarkEncoder | None" = None,
    recipe: str | None = None,
    kind: type[IndexStore] = IndexStore,
) -> "tuple[IndexStore, LandmarkEncoder | None]":
    """Open an index, and its encoder if one is given or the index is new.

    Args:
        path: the directory of the index, or its address on Qdrant.
        create: whether to create the index if there is none.
        encoder: a folder, a hub name or a loaded encoder; None for the recorded one, which is not
            loaded here.
        recipe: name of the recipe; only for a new index. None for ``auto``.
        kind: the class of the store, by the form of ``path``.

    Returns:
        The store, and the loaded encoder or None.

    Raises:
        IndexNotFound: there is no index and ``create`` is false.
        IndexMismatch: the index is of another version of lmkrag.
        IndexCorrupt: it is damaged.
        EncoderError: ``encoder`` can't be loaded.
        UsageError: ``recipe`` is not that of the existing index, or an argument is of another type.
    """
    if sys.platform == "win32":  # locks, memory maps and limits are those of POSIX
        raise LmkragError(
            "lmkrag runs on Linux and macOS; on Windows, use the Windows Subsystem for Linux"
        )
    set_wait_policy()
    if not isinstance(path, str | Path):
        raise UsageError(f"an index is a directory, not {path!r}")
    if encoder is not None and not isinstance(encoder, str) and not hasattr(encoder, "spec"):
        raise UsageError(f"an encoder is a folder, a name or a loaded encoder, not {encoder!r}")
    if not isinstance(create, bool):
        raise UsageError(f"create must be true or false, not {create!r}")
    path = Path(path)
    try:
        store = kind.open(path)
    except IndexNotFound:
        if not create:
            raise
        chosen, loaded = load_recipe(recipe or DEFAULT_RECIPE), load_encoder(encoder)
        return kind.create(
            path, encoder=loaded.spec, recipe=chosen, chooses_encoder=encoder is None
        ), loaded
    if recipe is not None and recipe != store.recipe.name and load_recipe(recipe) != store.recipe:
        raise UsageError(
            f"{path}: made with recipe {store.recipe.name!r}; run lmkrag index-tools "
            f"reindex --recipe {recipe}"
        )
    spec = store.encoder
    return store, None if encoder is None else load_encoder(
        encoder, window=spec.window, overlap=spec.overlap
    )
