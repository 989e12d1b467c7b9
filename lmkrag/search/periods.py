"""Searches limited to a period: given as options, or by the words of a question."""

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np

from lmkrag.index.words.quantities import MONTHS, find_days, number_month
from lmkrag.search.candidates import Candidates
from lmkrag.search.dating import DATE_KEYS, WITH_PROPERTIES, date_name, date_passage, find_date
from lmkrag.search.filters import PredicateFilter, Test, parse_filter
from lmkrag.search.results import Views, find_headings

_LAST = "last|previous|letzte[nrms]?|vorige[nrms]?|vergangene[nrms]?"
_LAST_BEHIND = "pasad[oa]|dernière?|scors[oa]|passad[oa]"
_UNITS = (
    ("days", "days?|tagen?|jours?|días|giorni|dagen|dias"),
    ("week", "weeks?|wochen?|semaines?|semanas?|settiman[ae]|weken|week"),
    ("month", "months?|monate?n?|mois|mes(?:es)?|mes[ei]|maand(?:en)?|mês"),
    ("year", "years?|jahre?n?|ans?|année|años?|ann[oi]|jaar|anos?"),
)
_UNIT = "|".join(names for _, names in _UNITS)
# The figures of that time are meant there, not what was written then.
_COMPARED = r"(?<!\bthan )(?<!\bover )(?<!\bversus )(?<!\bwith )(?<!\bto )"
_YESTERDAY = re.compile(rf"{_COMPARED}\b(?:yesterday|gestern|ayer|ieri|gisteren|ontem)\b", re.IGNORECASE)
_COUNTED = re.compile(
    rf"{_COMPARED}\b(?:{_LAST}|past|últim[oa]s|derni(?:ers|ères)|ultim[ie]|laatste)\s+(\d{{1,3}})\s+({_UNIT})\b",
    re.IGNORECASE,
)
_LAST_ONE = re.compile(
    rf"{_COMPARED}(?:\b(?:{_LAST})\s+({_UNIT})\b|\b({_UNIT})\s+(?:{_LAST_BEHIND})\b"
    rf"|\b(?:this|diese[nrms]?|cette|est[ae]|deze|quest[ao])\s+({_UNIT})\b)",
    re.IGNORECASE,
)
_BORDER = re.compile(
    r"\b(?:(?P<since>since|seit|depuis|desde|dal|sinds)|(?P<after>after|nach|après|después|dopo|depois)"
    r"|(?P<before>before|vor|avant|antes|prima|voor)|(?P<until>until|bis|jusqu'au|hasta|fino|tot|até))\b"
    r"(?P<rest>[^,;?]{0,40})",
    re.IGNORECASE,
)
_MONTH = re.compile(rf"(?<!\w)({'|'.join(MONTHS)})\b", re.IGNORECASE)
_DAY = 10  # characters of a date that names a day
_FORMATS = {4: "%Y", 7: "%B %Y", _DAY: "%d %B %Y"}
_OLDEST = 10  # years: what a question says of a time before that is hardly about when documents were written


def _write(day: str) -> str:
    return format(date.fromisoformat(day + "-01-01"[len(day) - 4 :]), _FORMATS[len(day)]).lstrip("0") if day else ""


class Period(NamedTuple):
    """From a day, month or year to another, both included; empty where open. ``words`` are those that named it."""

    since: str = ""
    until: str = ""
    words: str = ""

    def __str__(self) -> str:
        since, until = _write(self.since), _write(self.until)
        if self.since == self.until:
            return f"{'on' if len(self.since) == _DAY else 'in'} {since}"
        if self.since and self.until:
            return f"from {since.removesuffix(until.partition(' ')[2]).strip()} to {until}"
        return f"since {since}" if since else f"until {until}"

    def has(self, day: str) -> bool:
        """Return whether a date lies in the period; one that is known less precisely does if it may."""
        after, before = (min(len(day), len(border)) for border in (self.since, self.until))
        return bool(day) and day[:after] >= self.since[:after] and day[:before] <= self.until[:before]


def find_period(question: str, today: date) -> Period | None:
    """Return the period that the words of a question limit it to, such as ``last week``; None without any.

    >>> find_period("what was decided last week?", date(2026, 11, 26))
    Period(since='2026-11-16', until='2026-11-22', words='last week')
    >>> find_period("who joined since March?", date(2026, 11, 26))
    Period(since='2026-03', until='', words='since March')
    """
    if match := _YESTERDAY.search(question):
        day = (today - timedelta(1)).isoformat()
        return Period(day, day, match[0])
    if match := _COUNTED.search(question):
        days = {"days": 1, "week": 7, "month": 30.44, "year": 365.25}[_unit(match[2])]
        back = timedelta(round(int(match[1]) * days))
        return Period((today - back).isoformat(), today.isoformat(), match[0]) if back.days < 365 * _OLDEST else None
    if (match := _LAST_ONE.search(question)) and (unit := _unit(match[1] or match[2] or match[3])) != "days":
        if unit == "year" and question[: match.start()].endswith("from "):  # "a rise from last year"
            return None
        return Period(*_calendar(unit, today, last=match[3] is None), match[0])
    if match := _BORDER.search(question):
        return _read_border(match, today)
    return None


def _unit(word: str) -> str:
    return next(unit for unit, names in _UNITS if re.fullmatch(names, word, re.IGNORECASE))


def _calendar(unit: str, today: date, *, last: bool) -> tuple[str, str]:
    """This or the last week, month or year."""
    if unit == "week":
        monday = today - timedelta(today.weekday() + 7 * last)
        return monday.isoformat(), (monday + timedelta(6)).isoformat()
    year, month = today.year, today.month
    if unit == "month":
        year, month = (year, month - last) if month > last else (year - 1, 12)
        return f"{year}-{month:02}", f"{year}-{month:02}"
    return str(year - last), str(year - last)


def _read_border(match: "re.Match[str]", today: date) -> Period | None:
    """The period that begins or ends with a month or day; one without a year is the last one."""
    days = [(written, day) for written, found in find_days(match["rest"]) if len(found) == 1 for day in found]
    iso = find_date(match["rest"])
    words = " ".join(match[0].split())
    if not iso and days:
        day = days[0][1]
        this_year = date(today.year, day.month, min(day.day, 28)) <= today
        iso = f"{today.year - (not this_year)}-{day.month:02}-{day.day:02}"
        words = words[: words.index(days[0][0]) + len(days[0][0])] if days[0][0] in words else words
    elif not iso and (month := _MONTH.search(match["rest"])) and (month[0][0].isupper() or len(month[0]) > 3):
        number = number_month(month[0])
        iso = f"{today.year - (number > today.month)}-{number:02}"
        words = words[: words.index(month[0]) + len(month[0])]
    if not iso or not today.year - _OLDEST <= int(iso[:4]) <= today.year + 1:
        return None
    if match["since"]:
        return Period(iso, "", words)
    if match["until"]:
        return Period("", iso, words)
    step = timedelta(1 if match["after"] else -1)
    if len(iso) == 10:
        border = (date.fromisoformat(iso) + step).isoformat()
    else:
        year, month_number = int(iso[:4]), int(iso[5:7] or 1) + step.days
        border = f"{year + (month_number > 12) - (month_number < 1)}-{(month_number - 1) % 12 + 1:02}"
    return Period(border, "", words) if match["after"] else Period("", border, words)


def filter_period(expression: str | None, period: Period) -> PredicateFilter:
    """Return a filter that keeps documents which may have passages from a period, of those that another one keeps."""
    keeps = parse_filter(expression) if expression else None

    later = period._replace(until="")

    def read(value: Any) -> str:
        return find_date(str(value or ""), years=True)

    def predicate(match: Callable[[str, Test], Any]) -> Any:
        by_meta = match("kind", lambda kind: kind not in WITH_PROPERTIES)
        open_, may = match("doc_id", lambda _: True), match("doc_id", lambda _: False)
        for key in DATE_KEYS:
            if key != "modified":  # that of the file
                may = may | open_ & by_meta & match(key, lambda value: period.has(read(value)))
                open_ = open_ & (by_meta & match(key, lambda value: bool(read(value))) ^ True)
        may = may | open_ & match("doc_id", lambda name: period.has(date_name(name or "")))
        open_ = open_ & match("doc_id", lambda name: not date_name(name or ""))
        may = may | open_ & match("modified", lambda changed: not changed or later.has(changed))
        return may if keeps is None else may & keeps(match)

    return PredicateFilter(f"{period.since}..{period.until} {expression or ''}", predicate)


def keep_period(period: Period, candidates: Candidates, views: Views) -> Candidates:
    """Return the candidates that are from a period."""
    dates: dict[tuple[str, int | None], str] = {}

    def read_date(candidate: int) -> str:
        view, ordinal = views.view(candidate), views.ordinal(candidate)
        key = view.row.doc_id, next(view.headings_before(ordinal), None)
        if key not in dates:
            dates[key] = date_passage(view.row, find_headings(view, ordinal), view.text).date
        return dates[key]

    kept = np.array([period.has(read_date(candidate)) for candidate in range(len(candidates.sentences))], bool)
    return candidates if kept.all() else candidates.keep(kept)
