"""Short answers: the words of a passage that answer a question, where that is likely enough."""

import re

from lmkrag.index.words.exact import find_keys, holds
from lmkrag.index.words.quantities import find_days
from lmkrag.index.words.terms import drop_stop_words, hash_words, split_words
from lmkrag.places import is_record
from lmkrag.readers.weights import ANSWERS
from lmkrag.reranker.passages import Reading
from lmkrag.results import Citation, ShortAnswer, Span
from lmkrag.sentences.table_rows import is_row

_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|old|far|often|tall|high|deep|wide|large|heavy|fast)\b"
    r"|\b(?:what|which)(?: is| was|'s)? (?:the )?(?:\w+ ){0,2}(?:percent(?:age)?|share|rate|number|price|salary|age)\b"
    r"|\bin (?:euros?|dollars?|pounds|percent|met(?:re|er)s|miles|kilomet(?:re|er)s|kilograms|hours|days|years)\b"
)
_ASKS_TIME = re.compile(
    r"\bwhat time\b|\bwhen\b|\b(?:what|which)(?: is| was|'s)? (?:the )?(?:\w+ ){0,2}(?:year|date|day|month|deadline)\b"
)
_NUMERALS = (
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty|thirty|forty|fifty|hundred"
    r"|thousand|million|half|once|twice|daily|weekly|monthly|yearly|every|never|always|none|no)\b"
)
_TIMES = (
    r"january|february|march|april|may|june|july|august|september|october|november|december|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday|noon|midnight|dawn|dusk|sunrise|sunset|morning|evening|night|spring|summer|autumn"
    r"|fall|winter|before|after|during|once|when|today|tomorrow|yesterday|century|week|day"
)
_HAS_SHORT_ANSWER = re.compile(
    r"(?!.*\bhow (?!(?:many|much|long|old|far|often|tall|high|deep|wide|thick|large|big|small|fast|heavy|hot|cold|soon"
    r"|late|early)\b))(?!.*\bwhy\b)",
    re.IGNORECASE | re.DOTALL,
)
_ASKS_FOR_SEVERAL = re.compile(
    r"\b(?:list|name|enumerate)\s+(?:all|the|every|each)\b|\b(?:what|which)\s+are\b"
    r"|\b(?:what|which)\s+(?:\w+\s+)?\w+[^s\W]s\s+(?:are|were|do|did|have|can|may|must|should)\b",
    re.IGNORECASE,
)

_WHOLE_NUMBER = re.compile(
    r"(?<![\w.,])(?:[-−+±] ?)?[€$£]?(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d+)(?:[.,:/’'–-]\d+)*(?!\d)"
)
_ASKS_WHETHER = re.compile(
    r"\W*(?:(?:if|when|in|on|at|for)\b[^,]*, )?(?:is|are|was|were|do|does|did|can|could|may|might|must|should|will"
    r"|would|has|have|had)\b",
    re.IGNORECASE,
)
_ASKS_TWICE = re.compile(
    r"\band (?:\w+ )?(?:how|what|which|who|whom|whose|when|where|why)\b|\bdifference\b|\bbetween\b", re.IGNORECASE
)

_VALUE = re.compile(
    rf"(?:{_WHOLE_NUMBER.pattern}|(?!one\b){_NUMERALS})"
    r"(?:[ \u00a0]?[%‰]|[ \u00a0](?:million|billion|thousand|[ap]m)\b)?",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"(?:[,;]\s+|\b(?=and\b|but\b|or\b|while\b|whereas\b))(?:(?:and|but|or|while|whereas)\s+)?")
_RANGE = re.compile(r"\d[\d.,]* ?[-–] ?\d[\d.,]*")
_AMOUNT = re.compile(rf"[-+±€$£ ]*\d[\d.,:/ \u00a0–-]*|{_NUMERALS}", re.IGNORECASE)
_CURRENCY = re.compile(r"(?:(?:US|CA|AU)?[€$£] ?|\b(?:USD|EUR|GBP|CHF) )\Z")
_YEAR = re.compile(r"(?:19|20)\d\d")
_SCALE = re.compile(r"[ \u00a0](?:hundred|thousand|million|billion|trillion)\b")
_UNIT = re.compile(
    r"[ \u00a0\u202f]?(?:[%‰€£$]|°[CF]?|(?:[kcmμ]?m|k?g|[kKMGT]i?B|[ap]m)(?!\w))"
    r"|[ \u00a0-](?:percentage points?|per ?cent|USD|EUR|GBP|CHF|dollars?|month|week|day|hour|year|minute)\b"
    r"|[ \u00a0]([a-z]{3,}s|feet|people|inch)\b"
)
_ENDS = re.compile(r"[.!?:;…][\"'”’)*\]\s]*$")
_CODE = re.compile(r"\w+(?:[-_/.]\w+)+")
_NEXT_WORD = re.compile(r"[ \u00a0]([^\W\d_]+)")

LIGHT = "much many have get give last need use current exact tell show please"  # words that ask for nothing


def hash_singles(text: str) -> set[int]:
    """Return the hashes of the words of a text but stop words; a Chinese, Japanese or Korean character is a word."""
    return set(hash_words(" ".join(drop_stop_words(split_words(text)))).tolist())


def has_short_answer(question: str) -> bool:
    """Return whether a few words can answer a question: not what asks why, how something is done, or for a list.

    >>> has_short_answer("What is the flag's colour?"), has_short_answer("What are the colours of the flag?")
    (True, False)
    """
    return _HAS_SHORT_ANSWER.match(question) is not None and not _ASKS_FOR_SEVERAL.search(question)


def find_short_answer(question: str, reading: Reading, citation: Citation) -> ShortAnswer | None:
    """Return the words of a citation's passage, as it was read, that answer, if they are of the type asked for."""
    span = citation.span
    text, start, end = span.text, reading.start, reading.end
    if not has_short_answer(question) or _ASKS_WHETHER.match(question) or _ASKS_TWICE.search(question):
        return None
    if reading.strength < ANSWERS.min_strength or reading.lead < ANSWERS.min_lead:
        return None
    sentence = text[citation.start - span.start : citation.end - span.start]
    first = citation.start - span.start
    row = text[text.rfind("\n", 0, start) + 1 :].split("\n", 1)[0]
    if not first <= start < end <= first + len(sentence) or is_row(row) or is_record(row):
        return None  # find_cell answers from rows
    is_label = len(row.split()) <= ANSWERS.max_label_words and not _ENDS.search(row)
    if is_label and not all(holds(row, key) for key in find_keys(question)):
        return None  # a label and its value, of a table that has lost its form
    start, end = start - first, end - first
    numbers = [*_WHOLE_NUMBER.finditer(sentence)]  # "2 480" is one
    for piece in [*numbers, *_CODE.finditer(sentence), *_RANGE.finditer(sentence)]:
        start = piece.start() if piece.start() < start < piece.end() else start
        end = piece.end() if piece.start() < end < piece.end() else end
    if len(numbers) > ANSWERS.max_values and not _CLAUSE.search(sentence):
        return None  # a table that has lost its lines
    is_plain = reading.lead >= ANSWERS.plain_lead and not _CLAUSE.search(sentence, start, end)
    chosen = (start, end) if is_plain else _choose_value(question, span, sentence, start, end)
    if chosen is None:
        return None
    start, end = chosen
    start, end = _add_unit(sentence, start, start + len(sentence[start:end].rstrip(" \r\n.,;:")))
    words = sentence[start:end]
    is_asked = set(split_words(words)) <= set(split_words(question))
    if is_asked or fit_type(question, words) <= 0 or len(words) > ANSWERS.max_short_share * len(sentence):
        return None
    return ShortAnswer(citation.number, words, citation.start + start, citation.start + end)


def _choose_value(question: str, span: Span, text: str, start: int, end: int) -> tuple[int, int] | None:
    """The value that a question asks for, whole, of those in a sentence; None if it is not plain which.

    A later clause with words of the question before its value (``managers 32 days``) is meant; the first clause only
    if the sentence, its headings and title have all words of the question.
    """
    clauses: list[tuple[int, int, re.Match[str]]] = []  # start, end and first value
    begin = 0
    for stop in [*(match.end() for match in _CLAUSE.finditer(text)), len(text)]:
        if value := _VALUE.search(text, begin, stop):
            clauses.append((begin, stop, value))
            begin = stop
    if len(clauses) < 2 or not _VALUE.search(text, start, end):
        return start, end
    asked = hash_singles(_ASKS_NUMBER.sub(" ", question.lower()))
    words = [hash_singles(text[first:stop]) & asked for first, stop, _ in clauses]
    words = [one.difference(*words[:number], *words[number + 1 :]) for number, one in enumerate(words)]
    later = [number for number in range(1, len(clauses)) if words[number]]
    before = [text[first : (_NEXT_WORD.match(text, value.end()) or value).end()] for first, _, value in clauses]
    meant = [number for number in later if words[number] & hash_singles(before[number])]
    marked = next((number for number, (_, stop, _) in enumerate(clauses) if start < stop), 0)
    if not meant:
        known = hash_singles(" ".join([text, span.title, *span.headings, LIGHT]))
        meant = later if marked in later else [] if later or not asked <= known else [0 if words[0] else marked]
    if len(meant) != 1 or marked == meant[0]:
        return (start, end) if marked in meant else None
    first, stop, _ = clauses[meant[0]]
    days = [written for written, _ in find_days(text[first:stop])] if _ASKS_TIME.search(question.lower()) else []
    values = [match.span() for match in _VALUE.finditer(text, first, stop) if match[0] not in question]
    if days:
        values = [(text.index(day, first), text.index(day, first) + len(day)) for day in days]
    if len(values) != 1:
        return None
    return values[0]


def _add_unit(text: str, start: int, end: int) -> tuple[int, int]:
    """The same words, an amount among them with its currency and its unit: ``3.1 percentage points``, ``$60,000``."""
    if not _AMOUNT.fullmatch(text, start, end):
        return start, end
    currency, scale = _CURRENCY.search(text[:start]), _SCALE.match(text, end)
    start, end = currency.start() if currency else start, scale.end() if scale else end
    unit = _UNIT.match(text, end)
    is_other = unit and unit[1] and (_YEAR.fullmatch(text, start, end) or not drop_stop_words([unit[1]]))
    return start, unit.end() if unit and not is_other else end


def fit_type(question: str, answer: str) -> float:
    """Return 1 for an answer of the type that a question in English asks for, -1 for another, 0 if unknown."""
    lowered, answer = question.lower(), answer.lower()
    is_number = bool(re.fullmatch(r"[\d\s.,]+", answer))
    if re.search(r"\bhow much\b|\bcosts?\b", lowered):
        return 0.0 if is_number else 1.0 if re.search(r"\d|" + _NUMERALS, answer) else -1.0
    if _ASKS_NUMBER.search(lowered):
        return 1.0 if re.search(r"\d|" + _NUMERALS, answer) else -1.0
    if _ASKS_TIME.search(lowered):
        return 1.0 if re.search(rf"\d|{_TIMES}|{_NUMERALS}", answer) else -1.0
    if re.search(r"\bwho(?:se|m)?\b", lowered):
        return -1.0 if is_number else 1.0
    return 0.0
