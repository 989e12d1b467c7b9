"""Arguments that many functions take, checked in one place."""

from lmkrag.errors import UsageError


def check_doc_id(doc_id: object) -> str:
    """Return a ``doc_id`` if it is a string.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(doc_id, str):
        raise UsageError(f"a doc_id is a string, not {doc_id!r}")
    return doc_id


def check_range(start: object, end: object) -> None:
    """Raise UsageError unless characters ``[start, end)`` may be asked for; ``end`` may be None."""
    if type(start) is not int or type(end) not in (int, type(None)):
        raise UsageError(f"start and end must be whole numbers, not {start!r} and {end!r}")
    if start < 0:
        raise UsageError(f"start must be at least 0, not {start}")
