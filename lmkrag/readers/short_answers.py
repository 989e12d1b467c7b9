"""Short answers: the words of a passage that answer a question, if that is likely enough."""

import re

from lmkrag.language.keys import find_keys, holds
from lmkrag.language.terms import drop_stop_words, hash_words, split_words
from lmkrag.readers.weights import ANSWERS
from lmkrag.rendering.places import is_record
from lmkrag.reranker.passages import Reading
from lmkrag.results import Citation, ShortAnswer
from lmkrag.sentences.table_rows import is_row

_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|old|far|often|tall|high|deep|wide|large|heavy|fast)\b"
    r"|\b(?:what|which)(?: is| was|'s)? (?:the )?(?:\w+ "
    r"){0,2}(?:percent(?:age)?|share|rate|number|price|salary|age)\b"
    r"|\bin (?:euros?|dollars?|pounds|percent|met(?:re|er)s|miles|kilomet(?:re|er)s|kilograms|hours|days|years)\b"  # noqa: E501
)
_ASKS_TIME = re.compile(
    r"\bwhat time\b|\A(?:(?!\b(?:what|which|who|whose|whom|how|where)\b).)*\bwhen\b"
    r"|\b(?:what|which)(?: is| was|'s)? (?:the )?(?:\w+ ){0,2}(?:year|date|day|month|deadline)\b"
)
_NUMERALS = (
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty|thirty"
    r"|forty|fifty|hundred"
    r"|thousand|million|half|once|twice|daily|weekly|monthly|yearly|every|never|always|none|no)\b"
)
_TIMES = (
    r"january|february|march|april|may|june|july|august|september|october|november|december|monday"
    r"|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday|noon|midnight|dawn|dusk|sunrise|sunset|morning|evening"
    r"|night|spring|summer|autumn"
    r"|fall|winter|before|after|during|once|when|today|tomorrow|yesterday|century|week|day"
)
_INTERROGATIVE = re.compile(
    r"\b(?:how (?:many|much|long|old|far|often|tall|high|deep|wide|thick|large|big|small|fast|heavy|hot|cold|soon|late"  # noqa: E501
    r"|early)|(why|how|what (?:does|do|did) .* mean|what "
    r"happens)|who|whom|whose|what|which|when|where)\b",
    re.IGNORECASE,
)
_ASKS_FOR_SEVERAL = re.compile(
    r"\b(?:list|name|enumerate)\s+(?:all|the|every|each)\b|\b(?:what|which)\s+are\b"
    r"|\bwhat\s+(?:\w+\s+)?\w+[^s\W]s\s+(?:are|were|do|did|have|can|may|must|should)\b"
    r"|\bwhich\s+(?!(?:was|does|has)\b)\w+[^isu\W]s\s+[a-z]",
    re.IGNORECASE,
)
_WHOLE_NUMBER = re.compile(
    r"(?<![\w.,])(?:[-−+±] ?)?[€$£]?(?:\d{1,3}(?:[ "
    r"\u00a0\u202f]\d{3})+(?!\d)|\d+)(?:[.,:/’'–-]\d+)*(?!\d)"
)
_ASKS_WHETHER = re.compile(
    r"\W*(?!\w+ you (?:please )?(?:tell|say|show|give)\b)"
    r"(?:(?:if|when|in|on|at|for)\b[^,]*, "
    r")?(?:is|are|was|were|do|does|did|can|could|may|might|must|should|will"
    r"|would|has|have|had)\b",
    re.IGNORECASE,
)
_ASKS_TWICE = re.compile(
    (
        r"\band (?:\w+ "
        r")?(?:how|what|which|who|whom|whose|when|where|why)\b|\bdifference\b|\bbetween "
        r"(?!\d)"
    ),
    re.IGNORECASE,
)
_VALUE = re.compile(
    rf"(?:{_WHOLE_NUMBER.pattern}|(?!one\b){_NUMERALS})"
    r"(?:[ \u00a0]?[%‰]|[ \u00a0](?:million|billion|thousand|[ap]m)\b)?",
    re.IGNORECASE,
)
_COUNT = rf"\d|{_NUMERALS}|\ban? (?:second|minute|hour|day|week|month|year|decade|century)\b"
_DATE = (
    r"(?:1[5-9]|20)\d\d|\d[:./-]\d|\d "
    r"?(?:st|nd|rd|th|[ap]\.?m|h|hours?|minutes?|days?|weeks?|months?|years?)\b"
)
_WEIGHT = re.compile(r"\d\s?(?:k?g|lbs?|[€£$%])(?!\w)|[€£$]")
_AMOUNT = re.compile(rf"[-+±€$£ ]*\d[\d.,:/ \u00a0–-]*|{_NUMERALS}", re.IGNORECASE)
_CURRENCY = re.compile(r"(?:(?:US|CA|AU)?[€$£] ?|\b(?:USD|EUR|GBP|CHF) )\Z")
_LOOSE_END = re.compile(r"(?:(?<!\s)\s+)?\([^()]*\Z|(?<![\s.,;:])[\s.,;:]+\Z")
_YEAR = re.compile(r"(?:19|20)\d\d")
_SCALE = re.compile(r"[ \u00a0](?:hundred|thousand|million|billion|trillion)\b")
_UNIT = re.compile(
    r"[ \u00a0\u202f]?(?:[%‰€£$]|°[CF]?|(?:[kcmμ]?m|k?g|[kKMGT]i?B|[ap]m)(?!\w))"
    r"|[ \u00a0-](?:percentage points?|per "
    r"?cent|USD|EUR|GBP|CHF|dollars?|month|week|day|hour|year|minute)\b"
    r"|[ \u00a0]([a-z]{3,}s|feet|people|inch)\b"
)
_ENDS = re.compile(r"[.!?:;…][\"'”’)*\]\s]*$")
_CLAUSE = re.compile(r"[,;](?: and| but| while)? | (?:and|but|while) ")
_CODE = re.compile(r"(?<!\w)\w+(?:[-_/.@]\w+)+")
_NAME_END = re.compile(r"(?<![\w.])[A-Z][\w'’.-]{0,60}\Z")
_NAME_AFTER = re.compile(r"(?:[ \r\n]+[A-Z][\w'’-]*\w)+")
_OTHER_ROLE = re.compile(r", (?:[a-z]+ )+[A-Z]")  # Maud Ellery, treasurer Mr Okafor
# Python in "Python versions 3.6"
_OWNER = re.compile(r"\b(?!V(?:ersions?)?\b)([A-Z][\w.+#]{1,60})(?:'s)?(?: versions?)? \Z")
_NOUN_AFTER = re.compile(r"[ \u00a0]+[^\W\d_]{3,}")
_WORD_BEFORE = re.compile(r"(?<![^\W\d_])([^\W\d_]{3,})[ \u00a0]\Z")

# words without a subject
LIGHT = "much many people have get give last take need use current exact tell show please"


def hash_singles(text: str) -> set[int]:
    """Return the hashes of a text's words without stop words; each Chinese, Japanese or Korean
    character is a word.
    """
    return set(hash_words(" ".join(drop_stop_words(split_words(text)))).tolist())


def has_short_answer(question: str) -> bool:
    """Return whether a few words can answer a question: not if it asks why, how something is done,
    or for a list.

    >>> has_short_answer("What is the flag's colour?"), has_short_answer("What are the colours of the flag?")
    (True, False)
    >>> has_short_answer("Which firm asked why it leaks?"), has_short_answer("Why does it leak?")
    (True, False)
    """  # noqa: E501
    asks = _INTERROGATIVE.search(question)
    is_open = (asks and asks[1]) or _ASKS_FOR_SEVERAL.search(question)
    return not (is_open or _ASKS_WHETHER.match(question) or _ASKS_TWICE.search(question))


def find_short_answer(
    question: str, reading: Reading, citation: Citation, confidence: float
) -> ShortAnswer | None:
    """Return the words of a citation's passage that answer by its reading, if they are of the type
    asked for.
    """
    span = citation.span
    text, start, end = span.text, reading.start, reading.end
    if not has_short_answer(question) or confidence < ANSWERS.min_confidence:
        return None
    sentence = text[citation.start - span.start : citation.end - span.start]
    first = citation.start - span.start
    row = text[text.rfind("\n", 0, start) + 1 :].split("\n", 1)[0]
    if not first <= start < end <= first + len(sentence) or is_row(row) or is_record(row):
        return None  # find_cell answers from rows
    is_label = len(row.split()) <= ANSWERS.max_label_words and not _ENDS.search(row)
    if is_label and not all(holds(row, key) for key in find_keys(question)):
        return None  # a label and its value, of a table without its layout
    start, end = start - first, end - first
    numbers = [*_WHOLE_NUMBER.finditer(sentence)]  # "2 480" is one
    for piece in [*numbers, *_CODE.finditer(sentence)]:
        start = piece.start() if piece.start() < start < piece.end() else start
        end = piece.end() if piece.start() < end < piece.end() else end
    value = _find_value_of(question, sentence) if _ASKS_NUMBER.search(question.lower()) else None
    start, end = value or _complete(question, sentence, start, end)
    end = start + len(_LOOSE_END.sub("", sentence[start:end]))
    is_asked = set(split_words(sentence[start:end])) <= set(split_words(question))
    start, end = _add_unit(sentence, start, end)
    words = sentence[start:end]
    fit = fit_type(question, words)
    is_torn = "\n" in words and (
        ":" in words or not fit
    )  # labels and values on several lines, or words of two lines
    if (
        is_asked
        or is_torn
        or _OTHER_ROLE.search(words)
        or fit < 0
        or _is_unrelated(question, sentence, start, end)
    ):
        return None
    if not _VALUE.search(words) and len(words.split()) > ANSWERS.max_name_words:
        return None
    has_others = _VALUE.search(words) and _VALUE.search(f"{sentence[:start]} {sentence[end:]}")
    margin = ANSWERS.beside_others if has_others else 0.0
    needed = ANSWERS.min_evidence + (0 if fit else ANSWERS.untyped) + margin
    strength, lead = reading.strength, reading.lead
    is_sure = bool(value) or (lead >= max(ANSWERS.min_lead, margin) and strength + lead >= needed)
    if confidence < ANSWERS.min_short_confidence:
        is_sure = fit > 0 and strength + lead >= ANSWERS.min_evidence_in_doubt
    if strength < ANSWERS.min_short_strength or not is_sure:
        return None
    if _NAME_END.fullmatch(words) and (
        full := re.search(rf"\b{re.escape(words)}{_NAME_AFTER.pattern}", text)
    ):
        return ShortAnswer(
            citation.number, full[0], span.start + full.start(), span.start + full.end()
        )
    return ShortAnswer(citation.number, words, citation.start + start, citation.start + end)


def _is_unrelated(question: str, sentence: str, start: int, end: int) -> bool:
    """Whether a number is another product's version, or has no noun in a sentence without words of
    the question.
    """
    lowered = question.lower()
    if "version" in lowered and (owner := _OWNER.search(sentence[:start])):
        return owner[1].lower() not in lowered
    is_bare = sentence[start:end].replace(",", "").isdigit() and not _NOUN_AFTER.match(
        sentence, end
    )
    return "how many" in lowered and is_bare and not hash_singles(sentence) & hash_singles(question)


def _complete(question: str, text: str, start: int, end: int) -> tuple[int, int]:
    """The same words with the rest of a name, and the number before them where one is asked for."""
    if _ASKS_NUMBER.search(question.lower()) and not _VALUE.search(text, start, end):
        values = (
            [*_VALUE.finditer(text, 0, max(0, start - 1))]
            if text[start - 1 : start].isspace()
            else []
        )
        is_before = values and values[-1].end() == start - 1
        return (values[-1].start() if is_before else start), end
    if text[start:end].isdigit() and (before := _WORD_BEFORE.search(text[:start])):
        is_kind = re.search(
            rf"\b(?:which|what) {before[1]}\b", question, re.IGNORECASE
        )  # terminal 3
        return (before.start() if is_kind else start), end
    if _NAME_END.search(text[:end]) and (after := _NAME_AFTER.match(text, end)):
        end = after.end()
    return start, end


def _find_value_of(question: str, sentence: str) -> tuple[int, int] | None:
    """Where the number of the question's subject is, if each clause has one: ``cooks 32 days``,
    ``32 for cooks``.
    """
    subject = hash_singles(question) - hash_singles(LIGHT)
    places: list[tuple[int, int]] = []
    before: list[set[int]] = []  # words of each number's clause
    last: list[set[int]] = []
    begin = 0
    for stop in (*(clause.start() for clause in _CLAUSE.finditer(sentence)), len(sentence)):
        numbers = [
            number
            for number in _WHOLE_NUMBER.finditer(sentence, begin, stop)
            if not holds(question, number[0])
        ]
        if len(numbers) > 1:
            return None
        for start, end in map(re.Match.span, numbers):
            places.append((start, end))
            before.append(hash_singles(sentence[begin:start]))
            last.append(
                hash_singles(" ".join(drop_stop_words(split_words(sentence[end:stop]))[-1:]))
            )
            begin = stop
    for words in (before, last) if len(places) > 1 else ():
        named = [
            place
            for place, clause_words in zip(places, words, strict=True)
            if clause_words & subject
        ]
        if len(named) == 1 and all(words):
            return named[0]
    return None


def _add_unit(text: str, start: int, end: int) -> tuple[int, int]:
    """The same words, an amount among them with its currency and its unit: ``3.1 percentage
    points``, ``$60,000``.
    """
    if not _AMOUNT.fullmatch(text, start, end):
        return start, end
    start += len(text[start:end]) - len(
        text[start:end].lstrip("€$£ ")
    )  # _CURRENCY takes these, with US before
    currency, scale = _CURRENCY.search(text[:start]), _SCALE.match(text, end)
    start, end = currency.start() if currency else start, scale.end() if scale else end
    unit = _UNIT.match(text, end)
    is_other = (
        unit and unit[1] and (_YEAR.fullmatch(text, start, end) or not drop_stop_words([unit[1]]))
    )
    return start, unit.end() if unit and not is_other else end


def fit_type(question: str, answer: str) -> float:
    """Return 1 for an answer of the type that a question in English asks for, -1 for another, 0 if
    unknown.
    """
    lowered, answer = question.lower(), answer.lower()
    is_number = bool(re.fullmatch(r"[\d\s.,]+", answer))
    if re.search(r"\be-?mail\b|\bmail address\b", lowered):
        return 1.0 if "@" in answer else -1.0
    if "@" in answer and re.search(
        r"\bwhere\b(?!.*\b(?:ask|send|write|apply|report|order)\b)", lowered
    ):
        return -1.0
    if re.search(r"\bhow much\b|\bcosts?\b", lowered):
        return 0.0 if is_number else 1.0 if re.search(_COUNT, answer) else -1.0
    if _ASKS_NUMBER.search(lowered):
        is_other = "how long" in lowered and _WEIGHT.search(answer)
        return 1.0 if re.search(_COUNT, answer) and not is_other else -1.0
    if re.search(r"\b(?:what|which) month\b", lowered):
        return 1.0 if re.search(_TIMES.partition("|monday")[0], answer) else -1.0
    if _ASKS_TIME.search(lowered):
        return (
            1.0
            if re.search(rf"{_TIMES}|{_DATE}|{_NUMERALS}", answer)
            else 0.0
            if is_number
            else -1.0
        )
    if re.search(r"\bwho(?:se|m)?\b", lowered):
        return -1.0 if re.search(r"\d", answer) else 1.0
    return 0.0
