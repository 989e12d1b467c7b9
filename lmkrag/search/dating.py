"""From when a passage is: the date that tells it best, and where that stands.

A date is ISO 8601 as far as it is known: ``2026-11-03``, ``2026-11`` or ``2026``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lmkrag.index.catalog import DocumentRow
from lmkrag.index.words.quantities import MONTHS, find_days, number_month

DATE_KEYS = ("date", "updated", "modified", "last_modified", "lastmod", "revised", "published", "issued", "created")
WITH_PROPERTIES = frozenset({"pdf", "docx", "pptx", "xlsx", "odt", "odp", "ods", "epub"})
"""Kinds of documents whose metadata are those of their program."""

_MONTH = "|".join(MONTHS)
_DAY = re.compile(r"(?<![\d.])((?:19|20)\d\d)[-_./]?(0[1-9]|1[0-2])[-_./]?(0[1-9]|[12]\d|3[01])(?!\d)")
_MONTH_YEAR = re.compile(rf"(?<![^\W_])({_MONTH})\.?(?: de| of|,)? ?((?:19|20)\d\d)(?!\d)", re.IGNORECASE)
_YEAR_MONTH = re.compile(r"(?<![\d.-])((?:19|20)\d\d)[-_/](0[1-9]|1[0-2])(?![\d-])")
_YEAR = re.compile(r"(?<![\w.,$€£/-])((?:19|20)\d\d)(?![\w%]|[.,]\d)")
_MAY_DATE = re.compile(r"(?<!\d)(?:19|20)\d\d|\d[./-]\d")
_HEADER = 600  # characters at a document's beginning that may date it
_DATES_TEXT = re.compile(
    r"^(?:\W*(?:date|sent|version|release|revision|stand|datum|version du|fecha|data|[^\n]{0,40}?\b(?:dated|effective"
    r"|amended|amendment|updated|modified|changed|revised|published|issued|valid from|in force|fassung vom|gültig ab"
    r"|mis à jour|actualizado|aggiornato|bijgewerkt|atualizado))\b)[^\n]{0,60}$",
    re.IGNORECASE | re.MULTILINE,
)


class Dated(NamedTuple):
    """A date, and where it stands: see :class:`lmkrag.results.Span`."""

    date: str = ""
    source: str = ""


def find_date(text: str, *, years: bool = False) -> str:
    """Return the first date of a text, as precise as it is there; with ``years`` also a year alone; empty without one.

    >>> find_date("Release 17, November 2026"), find_date("since 3 May 2024"), find_date("03/05/2024")
    ('2026-11', '2024-05-03', '2024')
    """
    dates: list[tuple[int, int, str]] = []
    if not _MAY_DATE.search(text):
        return ""
    for match in _DAY.finditer(text):
        dates.append((match.start(), -3, "-".join(match.groups())))
    for written, days in find_days(text):
        exact = sorted({day for day in days if day.year})
        if exact:
            day = exact[0]
            iso = f"{day.year}-{day.month:02}-{day.day:02}" if len(exact) == 1 else str(day.year)
            dates.append((text.index(written), -3, iso))
    dates += [(match.start(), -2, f"{match[2]}-{number_month(match[1]):02}") for match in _MONTH_YEAR.finditer(text)]
    dates += [(match.start(), -2, "-".join(match.groups())) for match in _YEAR_MONTH.finditer(text)]
    if years and not dates:
        dates = [(match.start(), -1, match[1]) for match in _YEAR.finditer(text)]
    return min(dates, default=(0, 0, ""), key=lambda one: (one[1], one[0]))[2]


def date_passage(row: DocumentRow, headings: Sequence[str], read: Callable[[int, int], str]) -> Dated:
    """Return from when a passage is.

    Args:
        row: its document.
        headings: that it stands under, the outermost first.
        read: returns characters of the document.
    """
    for heading in reversed(headings):
        if day := find_date(heading, years=True):
            return Dated(day, "heading")
    stated = date_meta(row.meta)
    is_property = row.kind in WITH_PROPERTIES
    if stated and not is_property:
        return Dated(stated, "header" if row.kind == "mail" else "front matter")
    beginning = read(0, _HEADER)
    for match in _DATES_TEXT.finditer(beginning) if _MAY_DATE.search(beginning) else ():
        if day := find_date(match[0]):
            return Dated(day, "header")
    if day := date_name(row.doc_id):
        return Dated(day, "file name")
    if stated:
        return Dated(stated, "properties")
    changed = row.root and row.mtime_ns and datetime.fromtimestamp(row.mtime_ns / 1e9, UTC).date().isoformat()
    return Dated(changed, "file") if changed else Dated()


def date_meta(meta: Mapping[str, Any]) -> str:
    """Return the date of a document by its metadata; empty without one."""
    keys = {str(key).lower().replace("-", "_"): value for key, value in meta.items()}
    return next((day for key in DATE_KEYS if (day := find_date(str(keys.get(key, "")), years=True))), "")


def date_name(doc_id: str) -> str:
    """Return the date in a file's name, or in the names of its folders; empty without one."""
    parts = (doc_id.rpartition("/")[2].rpartition(".")[0], doc_id)
    plain = (re.sub(r"(?<=\D)[-_/]|[-_/](?=\D)", " ", part) for part in parts)
    return next((day for part in plain if (day := find_date(part, years=True))), "")
