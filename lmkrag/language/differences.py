"""Differences between two texts on one subject: in numbers, dates, units, names, negations, or only
in words.
"""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal, NamedTuple

from lmkrag.language.dates import MONTHS, find_days
from lmkrag.language.terms import STRAIGHT, drop_stop_words

Kind = Literal["number", "date", "unit", "name", "negation", "word"]

_TOKEN = re.compile(
    r"(?:(?<![\w)])[-−])?(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d+(?:[.,:'/-]\d+)*)"
    r"|[^\W\d_]+(?:'[^\W\d_]+)*|[%‰°€$£¥]"
)
_GROUPED = re.compile(
    r"([-−]?\d{1,3}(?:([.,' \u00a0\u202f])\d{3})(?:\2\d{3})*)(?:(?!\2)[.,](\d\d?))?"
)
_NUMERALS = """zero one two three four five six seven eight nine ten eleven twelve thirteen
fourteen fifteen sixteen seventeen eighteen nineteen twenty"""
_ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"""
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_OTHER_NUMBERS = "hundred thousand million billion half once twice dozen"
_NUMBERS = {
    **{word: f"{number}th" for number, word in enumerate(_ORDINALS.split(), 1)},
    **{word: str(number) for number, word in enumerate(_NUMERALS.split())},
    **{word: f"{tens}0" for tens, word in enumerate(_TENS.split(), 3)},
    **{word: word for word in _OTHER_NUMBERS.split()},
}
_UNIT_NAMES = """€ euro euros eur|$ dollar dollars usd|£ pound pounds gbp|¥ yen
% percent prozent pourcent|‰|°|cent
second s|minute min minuten|hour h stunde stunden heure|day tag tage jour|week woche wochen semaine
month monat monate mois|year jahr jahre
mm|cm|metre meter m|km kilometre kilometer|mile|inch inches|foot feet ft|yard
g gram|kg kilogram|mg|tonne ton t|litre liter l|ml
celsius|fahrenheit|watt w|kw|volt v|hz|ms|kb|mb|gb|tb"""
_UNITS = {
    name: names.split()[0] for names in re.split(r"[|\n]", _UNIT_NAMES) for name in names.split()
}
_WEEK = "monday tuesday wednesday thursday friday saturday sunday"
_DAYS = frozenset(_WEEK.split())
FIGURES: tuple[Kind, ...] = ("number", "date", "unit")
"""The kinds of what is counted, measured and dated."""

# months only where they begin with a capital, inside a sentence
_OR_WORDS = frozenset(("may", "mar", "mars", "mai"))
_MONTHS = {name for names in MONTHS for name in names.split("|")} - _OR_WORDS
_NEGATION_WORDS = """not no never nor neither none nobody nothing without cannot nicht kein
keine keinen keiner nie ohne ne pas jamais sans sin nunca senza niet geen nooit não sem"""
_NEGATIONS = frozenset(_NEGATION_WORDS.split())
_PREFIXES = ("un", "in", "im", "il", "ir", "non", "dis")
# of equal words, with which a comparison takes a second; prose of 20,000 characters has 200,000
_MOST_PAIRS = 1_000_000
_BEFORE = 12  # characters before a word that show whether it begins a sentence
_BEGINS = re.compile(rf"(?:(?<!\d)\.|[!?:;|\n])\W{{0,{_BEFORE}}}\Z")
_YEAR = re.compile(r"(?:19|20)\d\d")
_DATED = re.compile(r"\d{1,4}([-/.])\d\d?\1\d{1,4}")
_ZEROS = re.compile(r"(-?\d+)(?:(\.\d*[1-9])|\.)0*")
"""A number with zeros at the end of its fraction."""


class Token(NamedTuple):
    """A word, number or sign of a text.

    Attributes:
        start: offset of its first character.
        end: offset of the character after its last one.
        value: its normalized form, by which texts are compared.
        kind: the kind of a difference in it.
    """

    start: int
    end: int
    value: str
    kind: Kind


class Difference(NamedTuple):
    """A difference between two texts.

    Attributes:
        kind: what differs, by the most important of the words.
        plain: number of ordinary words among those that differ.
        first: range ``[start, end)`` of the first text; empty if the second has more words.
        second: range ``[start, end)`` of the second text; empty if the first has more words.
    """

    kind: Kind
    plain: int
    first: tuple[int, int]
    second: tuple[int, int]

    def describe(self, first: str, second: str) -> str:
        """Return the difference for people, such as ``1,200 for 900``, the words of the first text
        first.

        Args:
            first: the first text.
            second: the second text.
        """
        ours = " ".join(first[slice(*self.first)].split())
        theirs = " ".join(second[slice(*self.second)].split())
        if ours and theirs:
            return f"{ours} for {theirs}"
        return f"{ours} added" if ours else f"{theirs} left out"


def read_tokens(text: str) -> list[Token]:
    """Return the words, numbers and signs of a text, in order, each with its kind."""
    tokens = []
    plain = text.translate(STRAIGHT)
    for match in _TOKEN.finditer(plain):
        word, lower = match[0], match[0].casefold()
        value, kind = _classify(lower)
        if kind == "word" and word[0].isupper():
            before = plain[max(0, match.start() - _BEFORE) : match.start()].rjust(_BEFORE, ".")
            begins = _BEGINS.search(before) is not None
            kind = "name" if drop_stop_words([lower]) or not begins else "word"
            if lower in _OR_WORDS and not begins:
                value, kind = _name_month(lower), "date"
        tokens.append(Token(*match.span(), value, kind))
    return tokens


read_sentence = lru_cache(maxsize=2_000)(read_tokens)
"""The same, cached for the last sentences."""


def _classify(word: str) -> tuple[str, Kind]:
    """Return the normalized value of a word in lower case, and its kind."""
    if word[-1].isdigit():
        if _DATED.fullmatch(word):
            return word, "date"
        word = word.replace("−", "-")
        if grouped := _GROUPED.fullmatch(word):
            word = re.sub(r"[^\d-]", "", grouped[1]) + (f".{grouped[3]}" if grouped[3] else "")
        plain = re.sub(r"(?<=\d),(?=\d{1,2}$)", ".", word)
        if zeros := _ZEROS.fullmatch(plain):
            plain = zeros[1] + (zeros[2] or "")
        return plain.lstrip("0") or "0", "date" if _YEAR.fullmatch(word) else "number"
    if word in _NUMBERS:
        return _NUMBERS[word], "number"
    if word in _NEGATIONS or word.endswith("n't"):
        return "not" if word.endswith("n't") else word, "negation"
    if word in _DAYS or word in _MONTHS:
        return _name_month(word), "date"
    unit = _UNITS.get(word) or _UNITS.get(word.removesuffix("s"))
    return (unit, "unit") if unit else (word, "word")


def _name_month(word: str) -> str:
    """Return all names of a month, or a day of the week as it is."""
    return next((names for names in MONTHS if word in names.split("|")), word)


def match_words(first: Sequence[str], second: Sequence[str]) -> "SequenceMatcher[str]":
    """Return a matcher of two lists of words.

    If few words are repeated endlessly, only the others tell places, which keeps the comparison
    fast.
    """
    counts = Counter(first)
    pairs = sum(counts[word] for word in second)
    return SequenceMatcher(None, first, second, autojunk=pairs > _MOST_PAIRS)


def find_differences(first: str, second: str) -> list[Difference]:
    """Return the differences between two texts, in their order.

    Letter case, punctuation, and the spelling of a number, date or unit make no difference. Words
    that only moved make none either, unless figures change places.

    Args:
        first: the first text.
        second: the second text.

    >>> texts = "It costs 1,200 euros.", "It costs 900 €."
    >>> [difference.describe(*texts) for difference in find_differences(*texts)]
    ['1,200 for 900']
    """
    ours, theirs = read_sentence(first), read_sentence(second)
    changes = _find_changes(ours, theirs)
    moved, movable = _find_moved(changes), _find_movable(ours, theirs)
    differences = []
    for removed, added, *places in changes:
        tokens = [*removed, *added]
        is_one_sided = not (removed and added)
        if is_one_sided and all(each.value in moved and each.kind in movable for each in tokens):
            continue
        if _have_same_day(first[slice(*places[0])], second[slice(*places[1])]):
            continue
        plain = max(sum(token.kind == "word" for token in side) for side in (removed, added))
        differences.append(Difference(_choose_kind(removed, added), plain, *places))
    return differences


class _Change(NamedTuple):
    """Words of one text in place of those of another, and their characters in both."""

    removed: list[Token]
    added: list[Token]
    first: tuple[int, int]
    second: tuple[int, int]


def _find_changes(ours: list[Token], theirs: list[Token]) -> list[_Change]:
    matcher = match_words([token.value for token in ours], [token.value for token in theirs])
    return [
        _Change(ours[a:b], theirs[c:d], _find_bounds(ours, a, b), _find_bounds(theirs, c, d))
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


def _find_bounds(tokens: list[Token], first: int, stop: int) -> tuple[int, int]:
    """The characters of some words; of none, where they would stand: behind the word before."""
    if first < stop:
        return tokens[first].start, tokens[stop - 1].end
    place = tokens[first - 1].end if first else 0
    return place, place


def _find_moved(changes: list[_Change]) -> Counter[str]:
    """Words left out in one place and added in another: "It often rains", "Often it rains"."""
    left_out = Counter(token.value for each in changes if not each.added for token in each.removed)
    added = Counter(token.value for each in changes if not each.removed for token in each.added)
    return left_out & added


def _find_movable(ours: list[Token], theirs: list[Token]) -> set[Kind]:
    """The kinds of words that may move; figures only where none has changed places with another:
    "from 3 to 5 days", "from 5 to 3 days".
    """
    figures = [
        [[token.value for token in tokens if token.kind == kind] for kind in FIGURES]
        for tokens in (ours, theirs)
    ]
    same: tuple[Kind, ...] = FIGURES if figures[0] == figures[1] else ()
    return {"word", "name", *same}


def _have_same_day(first: str, second: str) -> bool:
    """Whether two pieces name one day: "3 May 2024", "2024-05-03"."""
    days = [{day for _, days in find_days(text) for day in days} for text in (first, second)]
    return not days[0].isdisjoint(days[1])


def _choose_kind(first: list[Token], second: list[Token]) -> Kind:
    """Return the kind of a difference, by the most important of its words."""
    counts = [sum(token.kind == "negation" for token in tokens) for tokens in (first, second)]
    words = [" ".join(token.value for token in tokens) for tokens in (first, second)]
    short, long = sorted(words, key=len)
    if counts[0] != counts[1] or (short and long in {prefix + short for prefix in _PREFIXES}):
        return "negation"
    kinds = {token.kind for token in (*first, *second)}
    order: tuple[Kind, ...] = ("date", "number", "unit", "name")
    return next((kind for kind in order if kind in kinds), "word")
