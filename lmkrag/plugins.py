"""Formats and readers of other packages, by the entry points ``lmkrag.formats`` and
``lmkrag.readers``.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from lmkrag.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# entry points named after a suffix: ``read(data: bytes, name: str) -> Loaded``
FORMATS = "lmkrag.formats"
# entry points named after a reader: given the user's options, return a ``Reader``
READERS = "lmkrag.readers"


@cache
def list_plugins(group: str) -> "Mapping[str, EntryPoint]":
    """Return the entry points of a group by name; installed packages are looked at once in each
    process.
    """
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}


def load_plugin(group: str, name: str) -> Any:
    """Return the object that an entry point names.

    Args:
        group: :data:`FORMATS` or :data:`READERS`.
        name: name of the entry point.

    Raises:
        UsageError: its module can't be imported.
    """
    point = list_plugins(group)[name]
    try:
        return point.load()
    except Exception as error:  # the code of another package
        package = point.dist.name if point.dist else point.value
        raise UsageError(
            f"{name!r} of {package}: can't be imported ({type(error).__name__}: {error})"
        ) from error
