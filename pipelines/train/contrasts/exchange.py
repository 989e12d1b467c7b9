"""Exchange names, numbers, codes and opposites, in passages and in questions."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from pipelines.train.mined import ANSWERS, NO_ANSWER, Passage, make_negative

_KEY = re.compile(
    r"\b(?:[A-Z][\w&'’-]*(?: (?:of |the |and )?[A-Z][\w&'’-]*)*|[A-Z]*\d[\w.,/-]*\d|\d+)\b"
)
_VALUE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.])")
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_LONGER = 0.15  # of other values have one digit more
_TRIES = 8

_NAME = re.compile(r"(?<!^)\b[A-Z][\w'-]+(?: (?:of |the )?[A-Z][\w'-]+)*|\b\d[\d,.]*\d\b|\b\d\b")
_PAIRS = """
    first last|largest smallest|most least|highest lowest|before after|more fewer|north south
    |east west|early late|increase decrease|increased decreased|began ended|start end|won lost
    |older younger|major minor|high low|long short|male female|win lose|best worst|top bottom
    |positive negative|can cannot|is isn't|was wasn't|did didn't|does doesn't|were weren't
    |are aren't|new old|public private|rich poor|upper lower|same different|larger smaller
    |maximum minimum|add remove|allowed forbidden|always never|oldest newest|earliest latest
    |longest shortest|strong weak
"""
_WORDS = [pair.split() for pair in _PAIRS.split("|")]
_OPPOSITES = dict(_WORDS) | {other: word for word, other in _WORDS}
_OPPOSITE_SHARE = 0.4  # of the questions that could be changed in both ways


def find_keys(text: str) -> list[str]:
    """Return the names, numbers and codes of a text, but for its first word."""
    return [match.group() for match in _KEY.finditer(text) if match.start() > 0]


def change_value(text: str, rng: np.random.Generator) -> str:
    """Return another value of the same form: a number, a year, a code of letters and digits."""
    if _YEAR.fullmatch(text):
        return str(int(text) + int(rng.choice([-3, -2, -1, 1, 2, 3])))
    digits = list(text)
    places = [number for number, char in enumerate(digits) if char.isdigit()]
    may_grow = len(places) < 6 and "." not in text and "," not in text
    for _ in range(_TRIES):
        place = places[int(rng.integers(len(places)))]
        digits[place] = str(rng.integers(1, 10))
        changed = "".join(digits)
        if rng.random() < _LONGER and may_grow:
            changed += "0"
        if changed != text:
            return changed
    return text + "1"


def exchange(
    question: str, passage: Passage, names: Sequence[str], rng: np.random.Generator
) -> Passage | None:
    """Return a passage about something else than a question names, or None if none can be made."""
    text = "".join(passage.sentences)
    keys = [key for key in find_keys(question) if re.search(rf"\b{re.escape(key)}\b", text)]
    if not keys:
        return None
    key = keys[int(rng.integers(len(keys)))]
    if any(map(str.isdigit, key)):
        other = change_value(key, rng)
    else:
        other = names[int(rng.integers(len(names)))]
    if other in text or other in question or key in other:
        return None

    def change(match: re.Match[str]) -> str:
        value = match.group()
        return value if value in other else change_value(value, rng)

    pattern = re.compile(rf"\b{re.escape(key)}\b")
    sentences = []
    for sentence, label in zip(passage.sentences, passage.labels, strict=True):
        changed = pattern.sub(lambda _: other, sentence)
        sentences.append(_VALUE.sub(change, changed) if label == ANSWERS else changed)
    return make_negative(pattern.sub(other, passage.place), sentences)


def join(passage: Passage, other: Passage, rng: np.random.Generator) -> Passage:
    """Return what answers and the alike sentences of another passage, in one, either first."""
    good = [number for number, label in enumerate(passage.labels) if label == ANSWERS]
    near = [
        number for number in range(len(passage.sentences)) if good[0] - 1 <= number <= good[-1] + 1
    ]
    own = [_space(passage.sentences[number]) for number in near]
    labels = [passage.labels[number] for number in near]
    alike = [_space(other.sentences[number]) for number in good]
    negative = [NO_ANSWER] * len(alike)
    is_last = rng.random() < 0.5
    short = passage.short
    if short and short[0] >= 0:
        number = near.index(short[0]) + (len(alike) if is_last else 0)
        short = (number, short[1], short[2])
    if is_last:
        return Passage(passage.place, (*alike, *own), (*negative, *labels), short)
    return Passage(passage.place, (*own, *alike), (*labels, *negative), short)


def make_unanswerable(question: str, texts: Iterable[str], rng: np.random.Generator) -> str | None:
    """Return the question as the texts that answer it do not; None if nothing can be exchanged."""
    names = _find_others(question, texts)
    words = [match for match in re.finditer(r"\w+", question) if match.group() in _OPPOSITES]
    if words and (not names or rng.random() < _OPPOSITE_SHARE):
        word = words[int(rng.integers(len(words)))]
        return _replace(question, word, _OPPOSITES[word.group()])
    if not names:
        return None
    name, others = names[int(rng.integers(len(names)))]
    return _replace(question, name, others[int(rng.integers(len(others)))])


def _find_others(question: str, texts: Iterable[str]) -> list[tuple[re.Match[str], list[str]]]:
    """Return the names and numbers of a question, each with those that may stand for it."""
    own = list(_NAME.finditer(question))
    known = {match.group() for match in own}
    found = {match.group() for text in texts for match in _NAME.finditer(f" {text}")}
    pairs = []
    for match in own:
        name = match.group()
        others = [
            other
            for other in sorted(found - known)
            if other[0].isdigit() == name[0].isdigit()
            and other not in question
            and name not in other
        ]
        if others:
            pairs.append((match, others))
    return pairs


def _replace(text: str, match: re.Match[str], other: str) -> str:
    return text[: match.start()] + other + text[match.end() :]


def _space(text: str) -> str:
    return text if text[-1:].isspace() else text + " "
