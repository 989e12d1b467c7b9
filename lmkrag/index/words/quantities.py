"""Numbers and dates as people write them: ``1,250,000`` is ``1.250.000``, and ``3 January 2024`` is ``2024-01-03``."""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from typing import NamedTuple

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
"""The names of each month in English, German, French, Spanish, Italian, Dutch and Portuguese, with ``|`` between."""

_MONTH = "|".join(MONTHS)
_DAY = r"(\d\d?)(?:st|nd|rd|th|er|\.|º)?"
_NUMERIC = r"(?<![\w.,/-])%s(?!\w|[-/.,]\d)"
_YEAR_FIRST = re.compile(_NUMERIC % r"((?:19|20)\d\d)([-/.])(\d\d?)\2(\d\d?)")
_YEAR_LAST = re.compile(_NUMERIC % r"(\d\d?)([-/.])(\d\d?)\2((?:19|20)?\d\d)")
_DAY_MONTH = re.compile(rf"(?<!\w){_DAY} (?:of |de )?({_MONTH})\b\.?(?:,? (?:del? )?((?:19|20)\d\d)\b)?", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b({_MONTH})\.? {_DAY}(?!\w|[.,:]\d)(?:,? ((?:19|20)\d\d)\b)?", re.IGNORECASE)
_GROUPED = re.compile(
    r"(?<![\w.,])(?:\d{1,3}([., \u00a0\u202f'’])\d{3}(?:\1\d{3})*(?:(?!\1)[.,]\d{1,2})?"
    r"|\d{4,}(?:[.,]\d{1,2})?)(?!\w|[.,]\d)"
)


class Day(NamedTuple):
    """A day of a year, or of any year."""

    year: int | None
    month: int
    day: int


def find_days(text: str) -> Iterator[tuple[str, frozenset[Day]]]:
    """Yield the dates of a text with the days that they may be: ``03/01/2024`` is one of two."""
    for match in _YEAR_FIRST.finditer(text):
        yield match[0], _days(match[1], (match[3], match[4]))
    for match in _YEAR_LAST.finditer(text):
        yield match[0], _days(match[4], (match[3], match[1]), (match[1], match[3]))
    for pattern, month, day in ((_DAY_MONTH, 2, 1), (_MONTH_DAY, 1, 2)):
        for match in pattern.finditer(text):
            if match[3] or match[month] not in ("may", "march", "mar"):  # "12 may enter"
                yield match[0], _days(match[3], (number_month(match[month]), match[day]))


def find_numbers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a text that have four digits or more, as they are written and without dividers."""
    for match in _GROUPED.finditer(text):
        whole, fraction = re.fullmatch(r"(.*?)(?:[.,](\d\d?))?", match[0]).groups()  # type: ignore[union-attr]
        fraction = (fraction or "").rstrip("0")
        yield match[0], "".join(filter(str.isdigit, whole)) + (f".{fraction}" if fraction else "")


def add_spellings(question: str) -> str:
    """Return a question with its dates and numbers in the spellings of tables at its end."""
    days = [day for _, days in find_days(question) for day in sorted(days) if day.year]
    spellings = [f"{day.year}-{day.month:02}-{day.day:02}" for day in days]
    spellings += [digits for written, digits in find_numbers(question)]
    return " ".join([question, *(spelling for spelling in dict.fromkeys(spellings) if spelling not in question)])


def respell(question: str, text: str) -> str:
    """Return a question with its dates and numbers as a text writes them."""
    for written, readings in find_days(question):
        days = ((spelling, day) for spelling, days in find_days(text) for day in days)
        same = (spelling for spelling, day in days if any(is_same_day(reading, day) for reading in readings))
        question = question.replace(written, next(same, written))
    for written, digits in find_numbers(question):
        same = (spelling for spelling, number in find_numbers(text) if number == digits)
        question = question.replace(written, next(same, written))
    return question


def is_same_day(day: Day, other: Day) -> bool:
    """Return whether two dates may be the same day; one without a year is a day of any year."""
    return day[1:] == other[1:] and (day.year is None or other.year in (None, day.year))


def number_month(name: str) -> int:
    """Return the number of a month, from 1, by one of its names."""
    return next(number for number, names in enumerate(MONTHS, 1) if name.lower() in names.split("|"))


def _days(year: str | None, *readings: tuple[str | int, str | int]) -> frozenset[Day]:
    """The days of a year that pairs of month and day name; a pair that is on no calendar names none."""
    number = int(year) + (2000 if len(year) == 2 else 0) if year else None
    days = set()
    for month, day in readings:
        with suppress(ValueError):  # of what is no day of the calendar
            days.add(Day(number, *date(number or 2000, int(month), int(day)).timetuple()[1:3]))
    return frozenset(days)
