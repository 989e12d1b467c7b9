"""Date passages by their headings, and the metadata, header, name or file of their document.

A date is ISO 8601, as precise as it is known: ``2026-11-03``, ``2026-11`` or ``2026``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from lmkrag.index.catalog import DocumentRow
from lmkrag.index.view import DocumentView
from lmkrag.index.words.quantities import MONTHS, find_days, number_month
from lmkrag.system import LateRegex

DATE_KEYS = (
    *("date", "updated", "last_updated", "lastupdated", "modified", "last_modified", "lastmod", "revised", "effective"),
    *("effective_date", "valid_from", "published", "issued", "created", "datum", "stand", "fecha"),
)
WITH_PROPERTIES = frozenset({"pdf", "docx", "pptx", "xlsx", "odt", "odp", "ods", "epub"})
"""Kinds of documents whose metadata are written by the program that made them."""

_MONTH = "|".join(MONTHS)
_DAY = LateRegex(r"(?<![\d.])((?:19|20)\d\d)[-_./]?(0[1-9]|1[0-2])[-_./]?(0[1-9]|[12]\d|3[01])(?!\d)")
_EAST_ASIAN = LateRegex(
    r"((?:19|20)\d\d) ?[年년] ?(\d\d?) ?[月월](?: ?(\d\d?) ?[日일])?|((?:19|20)\d\d)\. (\d\d?)\. (\d\d?)\."
)
_MONTH_YEAR = LateRegex(rf"(?<![^\W_])({_MONTH})\.?(?: de| of|,)?[ -]?((?:19|20)\d\d)(?!\d)", re.IGNORECASE)
_NAMED_MONTH = LateRegex(rf"(?<![\d.-])((?:19|20)\d\d)[ -]({_MONTH})(?![^\W_])", re.IGNORECASE)
_YEAR_MONTH = LateRegex(r"(?<![\d.-])((?:19|20)\d\d)(?:[-_/](0[1-9]|1[0-2])|[-_]([1-9]))(?![\d-])")
_MONTH_NUMBER = LateRegex(r"(?<![\d./-])(0?[1-9]|1[0-2])[./-]((?:19|20)\d\d)(?!\d|[./-]\d)")
_QUARTER = LateRegex(
    r"(?<![^\W_])Q([1-4])[ /_-]?((?:19|20)\d\d)(?!\d)|(?<!\d)((?:19|20)\d\d)[ /_-]?Q([1-4])(?!\w)"
    r"|(?<!\d)([1-4])(?:\.|st|nd|rd|th|er|e|º)? (?:quarter|Quartal|trimestre|kwartaal)(?: de)? ((?:19|20)\d\d)(?!\d)",
    re.IGNORECASE,
)
_YEAR = LateRegex(
    r"(?:(?<=\bFY)|(?<=\bv)|(?<=\bversion )|(?<=\brelease )|(?<![\w.,$€£/-])(?<!\d:)(?<!\brfc )(?<!\biso )"
    r"(?<!\broom )(?<!\bpage )(?<!\bport ))((?:19|20)\d\d)"
    r"(?:(?<=\bv....)|(?<=\brelease ....)|(?<=\bversion ....)|(?!\.\d))(?![\w%]|,\d)",
    re.IGNORECASE,
)
_GLUED = LateRegex(r"(?<=[^\W\d_])(?=(?:19|20)\d\d(?!\d))|(?<=(?<!\d)(?:19|20)\d\d)(?=[^\W\d_]{4})")
_MAY_DATE = re.compile(r"(?<!\d)(?:[Qq]\d)?(?:19|20)\d\d|\d([./-])\d\d?\1\d\d")
_HEADER = 600  # characters at a document's beginning that may date it
_DATES_TEXT = LateRegex(
    r"^(?:[^\w\n]*+(?:date|sent|version|release|revision|stand|datum|version du|fecha|data"
    r"|[^\n]{0,40}?\b(?:dated|effective|amended|amendment|updated|modified|changed|revised|published|issued"
    r"|valid from|in force|fassung vom|gültig ab|mis à jour|actualizado|aggiornato|bijgewerkt|atualizado))\b)"
    r"[^\n]{0,60}$",
    re.IGNORECASE | re.MULTILINE,
)
_MAIL = re.compile(r"(?=[A-Z][a-z]+: )(?:(?:From|To|Cc): [^\n]*(?:\n|\Z))*(?:Date: ([^\n]*)|Subject: |\Z)")
_MAIL_HEADER = 8_000  # characters; it may name many recipients

_REMEMBERED = 10_000  # documents


class Dated(NamedTuple):
    """A date, and where it was found: see :class:`lmkrag.results.Span`."""

    date: str = ""
    source: str = ""


_dated_documents: dict[tuple[object, ...], Dated] = {}


@lru_cache(maxsize=4_096)
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
    for match in _EAST_ASIAN.finditer(text):
        parts = [f"{int(part):02}" for part in match.groups() if part]
        dates.append((match.start(), -len(parts), "-".join(parts)))
    months: list[tuple[re.Match[str], str, int | str]]
    months = [(match, match[2], number_month(match[1])) for match in _MONTH_YEAR.finditer(text)]
    months += [(match, match[1], number_month(match[2])) for match in _NAMED_MONTH.finditer(text)]
    months += [(match, match[1], match[2] or match[3]) for match in _YEAR_MONTH.finditer(text)]
    months += [(match, match[2], match[1]) for match in _MONTH_NUMBER.finditer(text)]
    for match in _QUARTER.finditer(text):
        first, second = filter(None, match.groups())
        year, quarter = sorted((first, second), key=len, reverse=True)
        months.append((match, year, 3 * int(quarter) - 2))
    dates += [(match.start(), -2, f"{year}-{int(month):02}") for match, year, month in months]
    dates = [dated for dated in dates if _exists(dated[2])]
    if years and not dates:
        newest = datetime.now(UTC).year + 2  # later years are plans, or no years
        dates = [(match.start(), -1, match[1]) for match in _YEAR.finditer(text) if int(match[1]) <= newest]
    return min(dates, default=(0, 0, ""), key=lambda dated: (dated[1], dated[0]))[2]


def first_day(iso: str) -> date:
    """Return the first day of a date as ISO 8601 writes it: ``2026``, ``2026-11`` or ``2026-11-03``."""
    return date.fromisoformat(iso + "-01-01"[len(iso) - 4 :])


def _exists(iso: str) -> bool:
    """Whether a date is on the calendar: 30 February is not."""
    with suppress(ValueError):
        return bool(first_day(iso))
    return False


def date_passage(view: DocumentView, ordinal: int, headings: Sequence[str]) -> Dated:
    """Return the date of a passage; in a mailbox, that of its mail.

    Args:
        view: its document.
        ordinal: a sentence of it.
        headings: above it, the outermost first.
    """
    row, read = view.row, view.text
    headed = next((day for heading in reversed(headings) if (day := find_date(heading, years=True))), "")
    for above in view.headings_before(ordinal) if row.kind == "mail" and not date_meta(row.meta) else ():
        _, end = view.bounds(above)
        if mail := _MAIL.match(read(end, end + _MAIL_HEADER)):
            day = find_date(mail[1] or "")
            return Dated(day or headed, "header" if day else "heading" if headed else "")
    if headed:
        return Dated(headed, "heading")
    key = (row.content_checksum, row.path, row.root, row.kind, row.mtime_ns, str(row.meta))
    dated = _dated_documents.get(key)
    if dated is None:
        if len(_dated_documents) >= _REMEMBERED:
            _dated_documents.clear()
        dated = _dated_documents[key] = _date_document(row, read)
    return dated


def _date_document(row: DocumentRow, read: Callable[[int, int], str]) -> Dated:
    """The date of a document, its headings aside."""
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
    keys = {name_key(key): value for key, value in meta.items()}
    return next((day for key in DATE_KEYS if (day := find_date(str(keys.get(key, "")), years=True))), "")


def name_key(key: str) -> str:
    """Return a key of metadata as :data:`DATE_KEYS` spells it."""
    return str(key).lower().rpartition(":")[2].rpartition(".")[2].replace("-", "_").removesuffix("_time")


def date_name(doc_id: str) -> str:
    """Return the date in a file's name, or in the names of its folders; empty without one."""
    if not _MAY_DATE.search(doc_id):
        return ""
    parts = (doc_id.rpartition("/")[2].rpartition(".")[0], doc_id)
    plain = (re.sub(r"(?<=\D)[-_/]|[-_/](?=\D)", " ", _GLUED.sub(" ", part)) for part in parts)
    return next((day for part in plain if (day := find_date(part, years=True))), "")
