"""Find the parts of a question about several things, and the passages that together cover all of
them.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from lmkrag.language.dates import MONTHS
from lmkrag.language.keys import find_exact_words, holds
from lmkrag.language.languages import asks_in_english
from lmkrag.results import Span

_NAME = re.compile(
    r"(?<![.?!] )(?<!\A)\b[A-Z](?:[\w&'’./-]*\w)?(?: (?:[A-Z](?:[\w&'’./-]*\w)?|\d+))*"
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_YEAR_BEFORE = re.compile(
    r"\b(?:previous|preceding|prior) year\b|\byear (?:before|earlier)\b", re.IGNORECASE
)
_PERIOD = re.compile(
    r"\b(?:between|from|since)\b.{0,20}(?:19|20)\d\d\b.{0,20}\b(?:and|to|until)\b", re.IGNORECASE
)
_JOINED = re.compile(
    (
        r"\W*(?:\w+\W+){0,2}(?:and|or|than|versus|vs|against|with|from|to)\W+(?:\w+\W+){0,3}|, "
        r"(?:the )?"
    ),
    re.IGNORECASE,
)
_COMPARES = re.compile(
    r"\b(?:or|than|versus|vs|against|compare[ds]?|comparison|different(?:ly)?|differences?|differs?|both|each|respectively|order|and)\b",
    re.IGNORECASE,
)
_STATED = (
    "heading",
    "front matter",
    "header",
    "file name",
)  # sources of a date that a document states itself


def find_parts(question: str) -> tuple[str, ...]:
    """Return the names, codes or years that a question in English asks about together; none where
    it asks about one.

    >>> find_parts("Who employs more people, Alder Foods or Borealis?")
    ('Alder Foods', 'Borealis')
    >>> find_parts("How did sales in 2023 compare with the year before?")
    ('2023', '2022')
    >>> find_parts("What did Alder Foods sell from 2019 to 2023?")
    ()
    """
    if not asks_in_english(question):
        return ()
    years = [*dict.fromkeys(_YEAR.findall(question))]
    if len(years) == 1 and _YEAR_BEFORE.search(question):
        years.append(str(int(years[0]) - 1))
    if len(years) > 1 and not _PERIOD.search(question):
        return tuple(years)
    if not _COMPARES.search(question):
        return ()
    places = [match.span() for match in _NAME.finditer(question)]
    places += [
        (start, start + len(code))
        for code in find_exact_words(question)
        if (start := question.find(code)) >= 0
    ]
    places = sorted(place for place in places if not _YEAR.fullmatch(question, *place))
    parts: dict[str, None] = {}
    for (first, end), (start, last) in pairwise(places):
        if _JOINED.fullmatch(question, end, start):
            parts |= {
                question[first:end].removesuffix("'s"): None,
                question[start:last].removesuffix("'s"): None,
            }
    return tuple(parts)


def cover_parts(parts: Sequence[str], spans: Sequence[Span]) -> list[int]:
    """Return the numbers, from 0, of the first passage and of each later one that adds a part.

    A part may stand in the context of a passage: see :func:`add_context`.
    """
    numbers: list[int] = []
    missing = list(parts)
    for number, span in enumerate(spans):
        text = add_context(span)
        absent = [part for part in missing if not holds(text, part)]
        if not number or len(absent) < len(missing):
            numbers.append(number)
        missing = absent
    return numbers


def add_context(span: Span) -> str:
    """Return the text of a passage with its table's header, headings, title, name and month."""
    year, _, rest = span.date.partition("-") if span.date_source in _STATED else ("", "", "")
    month = [MONTHS[int(rest[:2]) - 1].partition("|")[0].capitalize(), year] if rest else []
    return "\n".join(
        [span.text, span.header, *span.headings, span.title, span.doc_id, " ".join(month)]
    )
