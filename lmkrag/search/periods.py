"""Limit searches to a period that options or the words of a question give."""

import re
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lmkrag.index.words.quantities import MONTHS, find_days, number_month
from lmkrag.search.candidates import Candidates
from lmkrag.search.dating import DATE_KEYS, WITH_PROPERTIES, date_name, date_passage, find_date, first_day
from lmkrag.search.filters import PredicateFilter, Test, parse_filter
from lmkrag.search.results import Views, find_headings
from lmkrag.system import LateRegex

_UNITS = (
    ("day", "days?|tage?n?|jours?|d[íi]as?|giorn[oi]|dag(?:en)?"),
    ("week", "weeks?|wochen?|semaines?|semanas?|settiman[ae]|weken|week"),
    ("month", "months?|monate?n?|mois|mes(?:es)?|mes[ei]|maand(?:en)?|mês"),
    ("year", "years?|jahre?n?|ans?|année|años?|ann[oi]|jaar|anos?"),
)
_UNIT = rf"(?P<unit>{'|'.join(names for _, names in _UNITS)})"
_NUMBER_WORDS = """a an one ein einem einer eine un une una uno een um uma|two zwei deux dos due twee dois duas
three drei trois tres tre drie três|four vier quatre cuatro quattro quatro|five fünf cinq cinco cinque vijf
six sechs seis sei zes|seven|eight|nine|ten|eleven|twelve"""
_NUMBERS = {word: count for count, words in enumerate(re.split(r"[|\n]", _NUMBER_WORDS), 1) for word in words.split()}
_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)})"
_LAST = (
    "last|previous|past|letzte[nrms]?|vorige[nrms]?|vergangene[nrms]?|últim[oa]s|derni(?:ers|ères)|ultim[ie]|laatste"
)
_NOT_PART = r"(?!\s+(?:of|before|des|der|du|del?|van)\b)"  # "the last week of the season"
_SINCE = "since|seit|depuis|desde|dal|sinds"
_RELATIVE = [
    (kind, LateRegex(rf"(?<!\w)(?:{pattern})(?!\w){_NOT_PART}", re.IGNORECASE))
    for kind, pattern in (
        ("ago", "yesterday|gestern|ayer|ieri|gisteren|ontem"),
        ("since", rf"(?:seit|depuis|sinds|desde hace)\s+{_COUNT}\s+{_UNIT}"),
        ("ago", rf"(?:vor|il y a|hace|há)\s+{_COUNT}\s+{_UNIT}"),
        ("ago", rf"{_COUNT}\s+{_UNIT}\s+(?:ago|geleden|fa|atrás)"),
        ("last", rf"(?P<last>{_LAST})\s+(?:{_COUNT}\s+)?{_UNIT}"),
        ("ago", rf"{_UNIT}\s+(?:pasad[oa]|dernière?|scors[oa]|passad[oa])"),
        ("this", rf"(?:this|diese[nrms]?|cette|est[ae]|deze|quest[ao])\s+{_UNIT}"),
        (
            "quarter",
            r"(?<=\b[ie][nm] )(?P<quarter>Q[1-4]|[1-4](?:\.|st|nd|rd|th) (?:quarter|Quartal))(?: (?P<year>20\d\d))?",
        ),
    )
]
_MAY_NAME = re.compile(  # the beginnings of such words, and of those of borders
    r"\b(?:yest|gest|aye|ier|gist|ont|last|prev|letz|vor|verg|past|pas|dern|sco|úl|ul|laa|this|dies|cet|est|dez|quest"
    r"|ago|gel|fa|atr|il y|hac|há|q[1-4]|qua|first|second|third|fourth|since|sei|dep|desd|dal|sin|aft|nac|apr|desp|dop"
    r"|bef|ava|ant|pri|voo|unt|bis|jusq|has|fin|tot|até|bet|from|zwi|vom|ent|du|tra|tus|van)"
)
# These compare figures of two times, and do not ask for what was written at one of them.
_COMPARED = LateRegex(
    r"\b(?:than|compared?|versus|vs|verglichen|(?:over|to|with) (?:last|this)|from last year)\b", re.I
)
_BORDER_WORD = (
    rf"\b(?:(?P<since>{_SINCE})|(?P<after>after|nach|après|después|dopo|depois)"
    r"|(?P<before>before|vor|avant|antes|prima|voor)|(?P<until>until|bis|jusqu'au|hasta|fino|tot|até)"
    r"|(?P<between>between|from|zwischen|vom|entre|du|tra|dal|tussen|van))\b"
)
_BORDER = LateRegex(rf"{_BORDER_WORD}(?P<rest>[^,;?]{{0,40}})", re.IGNORECASE)
_BEFORE = LateRegex(rf"{_BORDER_WORD}\s+(?:the|la|le|der|dem|lo)?\s*\Z", re.IGNORECASE)
_AND = LateRegex(r"(?<!\s)\s+(?:and|to|until|und|bis|et|au|y|al?|e|en|tot)\s+", re.IGNORECASE)
_MONTH = LateRegex(rf"(?<!\w)({'|'.join(MONTHS)})\b", re.IGNORECASE)
_OTHER_YEAR = LateRegex(r"\s*+,?+\s*+1\d{3}\b")
_DAY = 10  # characters of a date that names a day
_FORMATS = {4: "%Y", 7: "%B %Y", _DAY: "%d %B %Y"}
_OLDEST = 10  # years: an earlier time in a question is hardly the time at which documents were written


def _write(day: str) -> str:
    return format(first_day(day), _FORMATS[len(day)]).lstrip("0") if day else ""


class Period(NamedTuple):
    """From a day, month or year to another, both included; empty where open. ``words`` are those of the question."""

    since: str = ""
    until: str = ""
    words: str = ""

    def __str__(self) -> str:
        since, until = _write(self.since), _write(self.until)
        if self.since == self.until:
            return f"{'on' if len(self.since) == _DAY else 'in'} {since}"
        if self.since and self.until:
            return f"from {since.removesuffix(until.partition(' ')[2]).strip() or since} to {until}"
        return f"since {since}" if since else f"until {until}"

    def has(self, day: str) -> bool:
        """Return whether a date is in the period, or may be in it where it is less precise."""
        since, until = self.since[: len(day)], self.until[: len(day)]
        return bool(day) and day[: len(since)] >= since and day[: len(until)] <= until


def find_period(question: str, today: date) -> Period | None:
    """Return the period that the words of a question limit it to, such as ``last week``; None without any."""
    if not _MAY_NAME.search(question.lower()) or _COMPARED.search(question):
        return None
    relative = next(((kind, match) for kind, pattern in _RELATIVE if (match := pattern.search(question))), None)
    if relative is None:
        return next(filter(None, (_read_border(match, today) for match in _BORDER.finditer(question))), None)
    kind, match = relative
    since, until = _read_relative(kind, match, today)
    if not since or int(since[:4]) <= today.year - _OLDEST:
        return None
    border = _BEFORE.search(question[: match.start()])
    return _bound(border, since, until, (border[0] if border else "") + match[0])


def _read_relative(kind: str, match: "re.Match[str]", today: date) -> tuple[str, str]:
    """The first and last day, month or year of words such as ``two weeks ago``."""
    words: dict[str, str | None] = {"unit": None, "count": None, "last": None, **match.groupdict()}
    if kind == "quarter":
        year = words["year"] or today.year
        first = first_day(find_date(f"{words['quarter']} {year}"))
        first = first if words["year"] or first <= today else first.replace(year=today.year - 1)
        return f"{first:%Y-%m}", f"{first.year}-{first.month + 2:02}"
    name = words["unit"] or "day"
    unit = next(unit for unit, names in _UNITS if re.fullmatch(names, name, re.IGNORECASE))
    counted = words["count"] or "1"
    count = int(counted) if counted.isdigit() else _NUMBERS[counted.lower()]
    if kind == "since" or (kind == "last" and (words["count"] or words["last"] == "past")):
        back = timedelta(round(count * {"day": 1, "week": 7, "month": 30.44, "year": 365.25}[unit]))
        return (today - back).isoformat(), "" if kind == "since" else today.isoformat()
    if kind == "last" and unit == "day":
        return "", ""  # "the last day of March", "the last days"
    return _calendar(unit, today, 0 if kind == "this" else count)


def _calendar(unit: str, today: date, back: int) -> tuple[str, str]:
    """Return the day, week, month or year that lies ``back`` units before today's."""
    if unit in ("day", "week"):
        first = today - timedelta(back if unit == "day" else today.weekday() + 7 * back)
        return first.isoformat(), (first + timedelta(6 if unit == "week" else 0)).isoformat()
    months = 12 * today.year + today.month - 1 - back * (12 if unit == "year" else 1)
    name = str(months // 12) if unit == "year" else f"{months // 12}-{months % 12 + 1:02}"
    return name, name


def _bound(border: "re.Match[str] | None", since: str, until: str, words: str) -> Period:
    """The period since, after, before or until another one; that period itself without a border."""
    words = " ".join(words.split())
    if border is None or border["between"]:
        return Period(since, until, words)
    if border["since"]:
        return Period(since, "", words)
    if border["until"]:
        return Period("", until, words)
    return Period(_step(until, 1), "", words) if border["after"] else Period("", _step(since, -1), words)


def _step(day: str, step: int) -> str:
    """The day, month or year ``step`` after another, or before it if negative."""
    if len(day) == _DAY:
        return (first_day(day) + timedelta(step)).isoformat()
    if len(day) == len("2026"):
        return str(int(day) + step)
    return _calendar("month", first_day(day), -step)[0]


def _read_border(match: "re.Match[str]", today: date) -> Period | None:
    """The period that begins or ends with a month or day; without a year, with the last such month or day."""
    if match["between"]:
        first, *second = _AND.split(match["rest"], maxsplit=1)
        until, last = _read_day("".join(second), today)
        since, _ = _read_day(first, today, until[:4])
        return Period(since, until, " ".join([*match[0].partition(last)[0].split(), last])) if since and until else None
    day, written = _read_day(match["rest"], today)
    return _bound(match, day, day, match[0].partition(written)[0] + written) if day else None


def _read_day(text: str, today: date, year: str = "") -> tuple[str, str]:
    """The recent day or month that a text names, in ISO 8601 and as written; ``year`` is its year if it names none."""
    days = [(written, day) for written, readings in find_days(text) if len(readings) == 1 for day in readings]
    iso, written = find_date(text), text
    month = _MONTH.search(text)
    if not iso and days:
        written, day = days[0]
        passed = date(today.year, day.month, min(day.day, 28)) <= today
        iso = find_date(f"{year or today.year - (not passed)}-{day.month:02}-{day.day:02}")  # 29 February may not exist
    elif not iso and month and (month[0][0].isupper() or len(month[0]) > 3):
        written, number = month[0], number_month(month[0])
        iso = f"{year or today.year - (number > today.month)}-{number:02}"
    if not iso or _OTHER_YEAR.match(text.partition(written)[2]):
        return "", ""
    return (iso, written) if today.year - _OLDEST <= int(iso[:4]) <= today.year + 1 else ("", "")


def filter_period(expression: str | None, period: Period) -> PredicateFilter:
    """Return a filter for documents that may have passages from a period, and that match an expression if given."""
    keeps = parse_filter(expression) if expression else None
    later = period._replace(until="")

    def read(value: Any) -> str:
        return find_date(str(value or ""), years=True)

    def predicate(match: Callable[[str, Test], Any]) -> Any:
        by_meta = match("kind", lambda kind: kind not in WITH_PROPERTIES)
        open_, may, read_name = by_meta | True, by_meta & False, cache(date_name)
        for key in DATE_KEYS:
            if key != "modified":  # that of the file
                may = may | open_ & by_meta & match(key, lambda value: period.has(read(value)))
                open_ = open_ & (by_meta & match(key, lambda value: bool(read(value))) ^ True)
        may = may | open_ & match("kind", lambda kind: kind == "mail")  # a mailbox has mails of many days
        may = may | open_ & match("doc_id", lambda name: period.has(read_name(name or "")))
        open_ = open_ & match("doc_id", lambda name: not read_name(name or ""))
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
            dates[key] = date_passage(view, ordinal, find_headings(view, ordinal)).date
        return dates[key]

    inside = np.array([period.has(read_date(candidate)) for candidate in range(len(candidates.sentences))], bool)
    return candidates if inside.all() else candidates.keep(inside)
