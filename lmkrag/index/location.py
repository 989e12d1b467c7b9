"""Where an index is: a directory, or an address on Qdrant."""

from pathlib import Path


def is_address(path: object) -> bool:
    """Return whether an index lies on Qdrant instead of in a directory.

    >>> is_address("qdrant://localhost:6333/handbook"), is_address("indexes/handbook")
    (True, False)
    """
    return str(path).startswith(("qdrant:", "qdrant+https:"))


def locate_index(path: str | Path) -> Path:
    """Return the directory of an index without links, or its address on Qdrant as it is."""
    return Path(path) if is_address(path) else Path(path).resolve()


def absolute_index(path: str | Path) -> Path:
    """Return the absolute path of an index, whose links may lead to another one later, or its
    address as it is.
    """
    return Path(path) if is_address(path) else Path(path).absolute()
