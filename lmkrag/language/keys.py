"""Exact words of a question: codes, versions, numbers, quoted strings and names, which no other
word can stand for.
"""

import re
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from lmkrag.language.dates import Day, find_days, is_same_day
from lmkrag.language.languages import asks_in_english
from lmkrag.language.quantities import find_numbers
from lmkrag.language.terms import drop_stop_words, hash_forms

_QUOTED = re.compile(r"[\"“«`]\s*+([^\"”»`]{2,60}?)\s*+[\"”»`]")
_TOKEN = re.compile(r"(?<![\w])-{0,2}[^\W_](?:[\w./+:#'’-]*[\w+#])?")
_CODE = re.compile(
    r"(?=.*\d)(?=.*[^\W\d]).*|(?=.*\d)\d+(?:[.:/-]\d+)+|[^_\n]*_.*|[^\W\d_]{2,}(?:\.[^\W\d_]{2,})+|--?[\w-]+"
)
_VERSION = re.compile(r"v?(\d+\.\d\S*)", re.IGNORECASE)
_NUMBER = re.compile(r"\d{2,}")
# "lock 7", not "run 2 tasks"
_NUMBERED = re.compile(r"\b([^\W\d_]{3,}) (\d)\b(?! [^\W\d_]{4,}s\b)")
_NO_CODE = re.compile(
    r"\d+(?:st|nd|rd|th|s|[ap]m)|\d+-[^\W\d]{3,}|\d+(?::\d+)?[ap]m|fy['’]?(?:20)?\d\d",
    re.IGNORECASE,
)
_FISCAL_YEAR = re.compile(r"\bFY ?['’]?(?:20)?(\d\d)\b(?! 20\1\b)")
_YEAR = re.compile(r"20(\d\d)")
_NAME = re.compile(r"[A-Z][^\W\d_]+")


def find_exact_words(question: str) -> tuple[str, ...]:
    """Return the quoted strings, dates, grouped numbers, codes, versions and identifiers of a
    question, once each.
    """
    words = [match[1] for match in _QUOTED.finditer(question)]
    rest = _QUOTED.sub(" ", question)
    quantities = [written for written, days in find_days(rest) if days]
    for written in quantities:
        rest = rest.replace(written, " ")
    quantities += [written for written, _ in find_numbers(rest) if not written.isdigit()]
    for written in quantities:
        rest = rest.replace(written, " ")
    words += quantities
    tokens = _TOKEN.findall(rest)
    words += [token for token in tokens if _CODE.fullmatch(token) and not _NO_CODE.fullmatch(token)]
    return tuple(dict.fromkeys(words))


class Keys(NamedTuple):
    """The words that a passage which answers a question has, or its document.

    Attributes:
        exact: the exact words: see :func:`find_exact_words`.
        numbers: numbers of at least two digits, and numbers of things, such as ``lock 7``.
        names: capitalised words of an English question, its first word aside.
    """

    exact: tuple[str, ...]
    numbers: tuple[str, ...]
    names: tuple[str, ...]


def find_keys(question: str) -> tuple[str, ...]:
    """Return the exact words of a question, its numbers and names, once each."""
    return tuple(dict.fromkeys(chain(*read_keys(question))))


def read_keys(question: str) -> Keys:
    """Return the exact words, the numbers and the names of a question."""
    exact = find_exact_words(question)
    rest = _QUOTED.sub(" ", question)
    for word in exact:
        rest = rest.replace(word, " ")
    words = _TOKEN.findall(rest)
    numbers = [word for word in words if _NUMBER.fullmatch(word)]
    for match in _NUMBERED.finditer(rest):
        if drop_stop_words([match[1].lower()]):
            numbers.append(match[0])
    capitals = words[1:] if asks_in_english(question) else []
    names = [word.removesuffix("'s").removesuffix("’s") for word in capitals]
    names = list(filter(_NAME.fullmatch, names))
    return Keys(exact, tuple(numbers), tuple(names))


def add_fiscal_years(question: str) -> str:
    """Return a question with the year after each fiscal year: ``FY24 2024``."""
    return _FISCAL_YEAR.sub(r"\g<0> 20\1", question)


def holds(text: str, word: str) -> bool:
    """Return whether a text has an exact word.

    It counts as it is written, letter case aside. A name may have another ending, a year may be a
    fiscal year, a date and a number of at least four digits may have another spelling, and a
    version may have a ``v`` or not.

    Args:
        text: the text.
        word: one of :func:`find_keys`.
    """
    if _pattern(word).search(text):
        return True
    if (year := _YEAR.fullmatch(word)) and re.search(rf"\bFY ?['’]?(?:20)?{year[1]}\b", text):
        return True
    days, numbers = _read_quantity(word)
    if days and any(
        is_same_day(day, other) for _, others in find_days(text) for other in others for day in days
    ):
        return True
    if numbers and any(digits in numbers for _, digits in find_numbers(text)):
        return True
    return bool(_NAME.fullmatch(word)) and not hash_forms(word).isdisjoint(hash_forms(text))


@lru_cache(256)
def _read_quantity(word: str) -> tuple[frozenset[Day], frozenset[str]]:
    """Return the days and the number that a word may be."""
    days = next((days for written, days in find_days(word) if written == word), frozenset())
    return days, frozenset(digits for written, digits in find_numbers(word) if written == word)


@lru_cache(256)
def _pattern(word: str) -> re.Pattern[str]:
    # "the code of this error is 1"
    between = r"\W+(?:\w+\W+){0,3}" if _NUMBERED.fullmatch(word) else r"\s+"
    version = _VERSION.fullmatch(word)
    spaced = f"v?{re.escape(version[1])}" if version else between.join(map(re.escape, word.split()))
    return re.compile(rf"(?<![\w])(?<!\d[.,]){spaced}(?![\w])(?![.,-]\d)", re.IGNORECASE)
