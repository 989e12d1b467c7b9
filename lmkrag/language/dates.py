"""Dates as people write them: ``3 January 2024`` is ``2024-01-03``, and ``November 2026`` is
``2026-11``.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from lmkrag.language.patterns import LateRegex

MONTHS = (
    "january|januar|januari|janvier|enero|gennaio|janeiro|jan",
    "february|februar|februari|février|fevrier|febrero|febbraio|fevereiro|feb",
    "march|märz|mars|marzo|maart|março|mar",
    "april|avril|abril|aprile|apr",
    "may|mai|mayo|maggio|mei|maio",
    "june|juni|juin|junio|giugno|junho|jun",
    "july|juli|juillet|julio|luglio|julho|jul",
    "august|août|aout|agosto|augustus|aug",
    "september|septembre|septiembre|settembre|setembro|sept|sep",
    "october|oktober|octobre|octubre|ottobre|outubro|oct|okt",
    "november|novembre|noviembre|novembro|nov",
    "december|dezember|décembre|decembre|diciembre|dicembre|dezembro|dec|dez",
)
"""The names of each month in English, German, French, Spanish, Italian, Dutch and Portuguese, with
``|`` between.
"""

_MONTH = "|".join(MONTHS)
_DAY = r"(\d\d?)(?:st|nd|rd|th|er|\.|º)?"
_NUMERIC = r"(?<![\w.,/-])%s(?!\w|[-/.,]\d)"
_YEAR_FIRST = re.compile(_NUMERIC % r"((?:19|20)\d\d)([-/.])(\d\d?)\2(\d\d?)")
_YEAR_LAST = re.compile(_NUMERIC % r"(\d\d?)([-/.])(\d\d?)\2((?:19|20)?\d\d)")
_DOTTED = re.compile(r"\d\.\d\d?\.\d\d")
_DAY_MONTH = re.compile(
    rf"(?<!\w){_DAY} (?:of |de )?({_MONTH})\b\.?(?:,? (?:del? )?((?:19|20)\d\d)\b)?", re.IGNORECASE
)
_MONTH_DAY = re.compile(
    rf"\b({_MONTH})\.? {_DAY}(?!\w|[.,:]\d)(?:,? ((?:19|20)\d\d)\b)?", re.IGNORECASE
)
_ISO_DAY = LateRegex(
    r"(?<![\d.])((?:19|20)\d\d)[-_./]?(0[1-9]|1[0-2])[-_./]?(0[1-9]|[12]\d|3[01])(?!\d)"
)
_EAST_ASIAN = LateRegex(
    r"((?:19|20)\d\d) ?[年년] ?(\d\d?) ?[月월](?: ?(\d\d?) ?[日일])?|((?:19|20)\d\d)\. "
    r"(\d\d?)\. (\d\d?)\."
)
_MONTHS_OF_YEARS = (
    LateRegex(
        rf"(?<![^\W_])(?P<month>{_MONTH})\.?(?: de| of|,)?[ -]?(?P<year>(?:19|20)\d\d)(?!\d)",
        re.IGNORECASE,
    ),
    LateRegex(
        rf"(?<![\d.-])(?P<year>(?:19|20)\d\d)[ -](?P<month>{_MONTH})(?![^\W_])", re.IGNORECASE
    ),
    LateRegex(
        r"(?<![\d.-])(?P<year>(?:19|20)\d\d)[-_/](?P<month>0[1-9]|1[0-2]|(?<!/)[1-9])(?![\d-])"
    ),
    LateRegex(r"(?<![\d./-])(?P<month>0?[1-9]|1[0-2])[./-](?P<year>(?:19|20)\d\d)(?!\d|[./-]\d)"),
)
_QUARTER = LateRegex(
    r"(?<![^\W_])Q([1-4])[ /_-]?((?:19|20)\d\d)(?!\d)|(?<!\d)((?:19|20)\d\d)[ /_-]?Q([1-4])(?!\w)"
    r"|(?<!\d)([1-4])(?:\.|st|nd|rd|th|er|e|º)? (?:quarter|Quartal|trimestre|kwartaal)(?: de)? "
    r"((?:19|20)\d\d)(?!\d)",
    re.IGNORECASE,
)
_YEAR = LateRegex(
    r"(?:(?<=\bFY)|(?<=\bv)|(?<=\bversion )|(?<=\brelease )|(?<![\w.,$€£/-])(?<!\d:)(?<!\brfc "
    r")(?<!\biso )"
    r"(?<!\broom )(?<!\bpage )(?<!\bport ))((?:19|20)\d\d)"
    r"(?:(?<=\bv....)|(?<=\brelease ....)|(?<=\bversion ....)|(?!\.\d))(?![\w%]|,\d)",
    re.IGNORECASE,
)
MAY_DATE = re.compile(r"(?<!\d)(?:[Qq]\d)?(?:19|20)\d\d|\d([./-])\d\d?\1\d\d")
"""Matches in every text with a date of a year, and is faster than to look for one."""


class Day(NamedTuple):
    """A day of a year, or of any year.

    Attributes:
        year: the year; None for any.
        month: the month, from 1.
        day: the day of the month, from 1.
    """

    year: int | None
    month: int
    day: int


def find_days(text: str) -> Iterator[tuple[str, frozenset[Day]]]:
    """Yield the dates of a text as they are written, with the days that each may be.

    ``03/01/2024`` may be two days. A date that is on no calendar has none.
    """
    for match in _YEAR_FIRST.finditer(text):
        yield match[0], _days(match[1], (match[3], match[4]))
    for match in _YEAR_LAST.finditer(text):
        yield match[0], _days(match[4], (match[3], match[1]), (match[1], match[3]))
    for pattern, month, day in ((_DAY_MONTH, 2, 1), (_MONTH_DAY, 1, 2)):
        for match in pattern.finditer(text):
            if match[3] or match[month] not in ("may", "march", "mar"):  # "12 may enter"
                yield match[0], _days(match[3], (number_month(match[month]), match[day]))


def names_day_first(dates: Sequence[str]) -> bool | None:
    """Return whether the numeric dates of one file name the day before the month.

    Only one order may be on the calendar; else dots say so, or the order in which dates ascend.

    Args:
        dates: texts with the dates, in their order.

    Returns:
        None if nothing tells, or some text has no such date.

    >>> names_day_first(["3/5/24", "3/25/24"]), names_day_first(["3/5/24"])
    (False, None)
    """
    days = {order: [read_day(text, day_first=order) for text in dates] for order in (True, False)}
    possible = [order for order in days if all(days[order])]
    if len(possible) > 1:
        if any(_DOTTED.search(text) for text in dates):
            return True
        possible = [order for order in possible if days[order] == sorted(days[order])]
    return possible[0] if len(possible) == 1 else None


def read_day(text: str, *, day_first: bool) -> str:
    """Return the first numeric date of a text in ISO 8601, by its order; empty if that is on no
    calendar.

    >>> read_day("3/5/24, 9:01", day_first=True), read_day("3/5/24, 9:01", day_first=False)
    ('2024-05-03', '2024-03-05')
    """
    match = _YEAR_LAST.search(text)
    if match is None:
        return ""
    first, _, second, year = match.groups()
    days = _days(year, (second, first) if day_first else (first, second))
    return next((f"{day.year}-{day.month:02}-{day.day:02}" for day in days), "")


def is_same_day(day: Day, other: Day) -> bool:
    """Return whether two dates may be the same day; a date without a year is a day of any year."""
    return day[1:] == other[1:] and (day.year is None or other.year in (None, day.year))


def number_month(name: str) -> int:
    """Return the number of a month, from 1, by one of its names in :data:`MONTHS`."""
    return next(
        number for number, names in enumerate(MONTHS, 1) if name.lower() in names.split("|")
    )


def _days(year: str | None, *readings: tuple[str | int, str | int]) -> frozenset[Day]:
    """Return the days that pairs of month and day may be; a pair that is on no calendar is left
    out.
    """
    number = int(year) + (2000 if len(year) == 2 else 0) if year else None
    days = set()
    for month, day in readings:
        with suppress(ValueError):  # of what is no day of the calendar
            days.add(Day(number, *date(number or 2000, int(month), int(day)).timetuple()[1:3]))
    return frozenset(days)


@lru_cache(maxsize=4_096)
def find_date(text: str, *, years: bool = False) -> str:
    """Return the first of the most precise dates of a text.

    Args:
        text: the text.
        years: whether a year alone counts, if the text has no other date.

    Returns:
        ISO 8601, as precise as it is written: a day, a month or a year; an empty string if there is
            no date.

    >>> find_date("Release 17, November 2026"), find_date("since 3 May 2024"), find_date("03/05/2024")
    ('2026-11', '2024-05-03', '2024')
    """  # noqa: E501
    if not MAY_DATE.search(text):
        return ""
    readers = [_read_days, _read_months]
    if years:
        readers.append(_read_years)
    for read in readers:
        dates = [(start, iso) for start, iso in read(text) if is_on_calendar(iso)]
        if dates:
            return min(dates, key=itemgetter(0))[1]
    return ""


def _read_days(text: str) -> Iterator[tuple[int, str]]:
    """Yield the days of a text, with where they begin; the year alone of one that may be two."""
    for match in _ISO_DAY.finditer(text):
        yield match.start(), "-".join(match.groups())
    for written, days in find_days(text):
        exact = sorted(day for day in days if day.year)
        if exact:
            day = exact[0]
            iso = f"{day.year}-{day.month:02}-{day.day:02}"
            yield text.index(written), iso if len(exact) == 1 else str(day.year)
    yield from _read_east_asian(text, parts=3)


def _read_months(text: str) -> Iterator[tuple[int, str]]:
    """Yield the months of a text, and the first ones of its quarters, with where they begin."""
    yield from _read_east_asian(text, parts=2)
    for pattern in _MONTHS_OF_YEARS:
        for match in pattern.finditer(text):
            month = match["month"]
            number = int(month) if month.isdigit() else number_month(month)
            yield match.start(), f"{match['year']}-{number:02}"
    for match in _QUARTER.finditer(text):
        quarter, year = sorted(filter(None, match.groups()), key=len)
        yield match.start(), f"{year}-{3 * int(quarter) - 2:02}"


def _read_east_asian(text: str, *, parts: int) -> Iterator[tuple[int, str]]:
    """Yield the dates of a text that are written with 年 or 년, by how many parts they have."""
    for match in _EAST_ASIAN.finditer(text):
        numbers = [f"{int(number):02}" for number in match.groups() if number]
        if len(numbers) == parts:
            yield match.start(), "-".join(numbers)


def _read_years(text: str) -> Iterator[tuple[int, str]]:
    """Yield the years of a text, with where they begin; later ones are plans, or no years."""
    newest = datetime.now(UTC).year + 2
    for match in _YEAR.finditer(text):
        if int(match[1]) <= newest:
            yield match.start(), match[1]


def first_day(iso: str) -> date:
    """Return the first day of a date in ISO 8601: ``2026``, ``2026-11`` or ``2026-11-03``."""
    year, month, day = [*map(int, iso.split("-")), 1, 1][:3]
    return date(year, month, day)


def is_on_calendar(iso: str) -> bool:
    """Return whether a date is on the calendar: 30 February is not."""
    with suppress(ValueError):
        return bool(first_day(iso))
    return False
