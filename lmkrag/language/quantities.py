"""Numbers as people write them, ``1,250,000`` or ``1.250.000``, and the spellings of tables."""

import re
from collections.abc import Iterator

from lmkrag.language.dates import find_days, is_same_day

_GROUPED = re.compile(
    r"(?<![\w.,])(?:\d{1,3}([., \u00a0\u202f'’])\d{3}(?:\1\d{3})*(?:(?!\1)[.,]\d{1,2})?"
    r"|\d{4,}(?:[.,]\d{1,2})?)(?!\w|[.,]\d)"
)


def find_numbers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a text that have at least four digits, as they are written and without
    dividers.
    """
    for match in _GROUPED.finditer(text):
        whole, fraction = re.fullmatch(r"(.*?)(?:[.,](\d\d?))?", match[0]).groups()  # type: ignore[union-attr]
        fraction = (fraction or "").rstrip("0")
        yield match[0], "".join(filter(str.isdigit, whole)) + (f".{fraction}" if fraction else "")


def add_spellings(question: str) -> str:
    """Return a question with its dates and numbers in the spellings of tables at its end."""
    days = [day for _, days in find_days(question) for day in sorted(days) if day.year]
    spellings = [f"{day.year}-{day.month:02}-{day.day:02}" for day in days]
    spellings += [digits for written, digits in find_numbers(question)]
    return " ".join(
        [question, *(spelling for spelling in dict.fromkeys(spellings) if spelling not in question)]
    )


def respell(question: str, text: str) -> str:
    """Return a question with its dates and numbers as a text writes them."""
    for written, readings in find_days(question):
        days = ((spelling, day) for spelling, days in find_days(text) for day in days)
        same = (
            spelling
            for spelling, day in days
            if any(is_same_day(reading, day) for reading in readings)
        )
        question = question.replace(written, next(same, written))
    for written, digits in find_numbers(question):
        same = (spelling for spelling, number in find_numbers(text) if number == digits)
        question = question.replace(written, next(same, written))
    return question
