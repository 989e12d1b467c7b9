"""Date passages by their headings, and the metadata, header, name or file of their document.

A date is ISO 8601, as precise as it is known: ``2026-11-03``, ``2026-11`` or ``2026``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lmkrag.index.view import DocumentView
from lmkrag.language.dates import MAY_DATE, find_date, names_day_first, read_day
from lmkrag.language.patterns import LateRegex
from lmkrag.search.messages import MAIL, find_message, list_messages

_DATE_KEYS = """date updated last_updated lastupdated modified last_modified lastmod revised
effective effective_date valid_from published issued created datum stand fecha"""
DATE_KEYS = _DATE_KEYS.split()
WITH_PROPERTIES = frozenset({"pdf", "docx", "pptx", "xlsx", "odt", "odp", "ods", "epub"})
"""Kinds of documents whose metadata are written by the program that made them."""

_GLUED = LateRegex(r"(?<=[^\W\d_])(?=(?:19|20)\d\d(?!\d))|(?<=(?<!\d)(?:19|20)\d\d)(?=[^\W\d_]{4})")
_HEADER = 600  # characters at a document's beginning that may date it
_DATES_TEXT = LateRegex(
    r"^(?:[^\w\n]*+(?:date|sent|version|release|revision|stand|datum|version du|fecha|data"
    r"|[^\n]{0,40}?\b(?:dated|effective|amended|amendment|updated|modified|changed|revised"
    r"|published|issued"
    r"|valid from|in force|fassung vom|gültig ab|mis à "
    r"jour|actualizado|aggiornato|bijgewerkt|atualizado))\b)"
    r"[^\n]{0,60}$",
    re.IGNORECASE | re.MULTILINE,
)
_REMEMBERED = 10_000  # documents


class Dated(NamedTuple):
    """A date, and where it was found: see :class:`lmkrag.results.Span`."""

    date: str = ""
    source: str = ""


_dated_documents: dict[tuple[object, ...], Dated] = {}
_day_first: dict[str, bool | None] = {}  # whether dates in a conversation name the day first


def date_passage(view: DocumentView, ordinal: int, headings: Sequence[str]) -> Dated:
    """Return the date of a passage; in a conversation or a mailbox, that of its message.

    Args:
        view: its document.
        ordinal: a sentence of it.
        headings: above it, the outermost first.
    """
    row, headed = view.row, _find_first_date(reversed(headings))
    message = None if date_meta(row.meta) else find_message(view, ordinal)
    if message is not None and (day := _date_message(view, message.time)):
        return Dated(day, "header")
    if headed or (message is not None and row.kind == MAIL):
        return Dated(headed, "heading") if headed else Dated()
    key = (row.content_checksum, row.path, row.root, row.kind, row.mtime_ns, str(row.meta))
    dated = _dated_documents.get(key)
    if dated is None:
        if len(_dated_documents) >= _REMEMBERED:
            _dated_documents.clear()
        dated = _dated_documents[key] = _date_document(view)
    return dated


def _date_message(view: DocumentView, time: str) -> str:
    """The day of a message. All messages of the document decide which number names the month."""
    day = find_date(time)
    if not day.isdecimal():  # else only the year is certain
        return day
    key = view.row.content_checksum
    if key not in _day_first:
        if len(_day_first) >= _REMEMBERED:
            _day_first.clear()
        _day_first[key] = names_day_first([message.time for message in list_messages(view)])
    day_first = _day_first[key]
    return day if day_first is None else read_day(time, day_first=day_first)


def _date_document(view: DocumentView) -> Dated:
    """The date of a document, its headings aside."""
    row, stated = view.row, date_meta(view.row.meta)
    is_property = row.kind in WITH_PROPERTIES
    if stated and not is_property:
        return Dated(stated, "header" if row.kind == "mail" else "front matter")
    beginning = view.text(0, _HEADER)
    for match in _DATES_TEXT.finditer(beginning) if MAY_DATE.search(beginning) else ():
        if day := find_date(match[0]):
            return Dated(day, "header")
    if day := date_name(row.doc_id):
        return Dated(day, "file name")
    if stated:
        return Dated(stated, "properties")
    if row.root and row.mtime_ns:
        changed = datetime.fromtimestamp(row.mtime_ns / 1e9, UTC)
        return Dated(changed.date().isoformat(), "file")
    return Dated()


def date_meta(meta: Mapping[str, Any]) -> str:
    """Return the date of a document by its metadata; empty without one."""
    keys = {name_key(key): value for key, value in meta.items()}
    return _find_first_date(str(keys.get(key, "")) for key in DATE_KEYS)


def name_key(key: str) -> str:
    """Return a key of metadata as :data:`DATE_KEYS` spells it."""
    last = re.split("[:.]", str(key).lower())[-1]
    return last.replace("-", "_").removesuffix("_time")


def date_name(doc_id: str) -> str:
    """Return the date in a file's name, or in the names of its folders; empty without one."""
    if not MAY_DATE.search(doc_id):
        return ""
    parts = (doc_id.rpartition("/")[2].rpartition(".")[0], doc_id)
    plain = (re.sub(r"(?<=\D)[-_/]|[-_/](?=\D)", " ", _GLUED.sub(" ", part)) for part in parts)
    return _find_first_date(plain)


def _find_first_date(texts: Iterable[str]) -> str:
    """The date in the first text that has one; empty if none has."""
    return next((day for text in texts if (day := find_date(text, years=True))), "")
