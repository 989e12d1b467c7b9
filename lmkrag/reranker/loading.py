"""Find and load a re-ranker by its name."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from lmkrag.errors import UsageError
from lmkrag.reranker.base import DEFAULT_RERANKER, SHIPPED, Reranker

if TYPE_CHECKING:  # the graph's library takes time to import, and not every search reads
    from lmkrag.reranker.landmark import LandmarkReranker


def load_reranker(reranker: Reranker | str | None = None) -> Reranker:
    """Return a re-ranker: one of ours by its name, one in a folder, or a cross-encoder of sentence-transformers.

    Args:
        reranker: a name, folder or hub name; our own for English without one. One that is loaded already is returned
            as it is.

    Raises:
        UsageError: no such folder. EncoderError: it can't be loaded. MissingExtra: sentence-transformers is missing.
    """
    if reranker is None or isinstance(reranker, str):
        return _load(reranker or DEFAULT_RERANKER)
    return reranker


def load_landmark_reranker() -> "LandmarkReranker":
    """Return our own re-ranker; it is loaded once."""
    from lmkrag.reranker.landmark import LandmarkReranker

    loaded = _load(DEFAULT_RERANKER)
    assert isinstance(loaded, LandmarkReranker)
    return loaded


@lru_cache(maxsize=4)
def _load(name: str) -> Reranker:
    folder = Path(name).expanduser()
    if name in SHIPPED or (folder / "reranker.json").is_file():
        from lmkrag.reranker.landmark import LandmarkReranker

        return LandmarkReranker.load(name)
    if name.startswith((".", "/", "~")) and not folder.is_dir():
        raise UsageError(f"re-ranker {name!r}: no such folder")
    from lmkrag.reranker.cross_encoder import CrossEncoderReranker

    return CrossEncoderReranker.load(name)
