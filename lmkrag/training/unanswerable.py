"""Questions that look answered and are not: a name, a number or a word of a question is exchanged for another.

SQuAD 2.0's unanswerable questions were written in such ways (Rajpurkar et al., "Know What You Don't Know", 2018,
table 1: negation, antonym, entity swap).
"""

import re
from collections.abc import Iterable

import numpy as np

_NAMES = re.compile(r"(?<!^)\b[A-Z][\w'-]+(?: (?:of |the )?[A-Z][\w'-]+)*|\b\d[\d,.]*\d\b|\b\d\b")
_PAIRS = (
    "first last|largest smallest|most least|highest lowest|before after|more fewer|north south|east west|early late"
    "|increase decrease|increased decreased|began ended|start end|won lost|older younger|major minor|high low"
    "|long short|male female|win lose|best worst|top bottom|positive negative|can cannot|is isn't|was wasn't"
    "|did didn't|does doesn't|were weren't|are aren't|new old|public private|rich poor|upper lower|same different"
    "|larger smaller|maximum minimum|add remove|allowed forbidden|always never|oldest newest|earliest latest"
    "|longest shortest|strong weak"
)
_OPPOSITES = {word: other for pair in _PAIRS.split("|") for word, other in (pair.split(), pair.split()[::-1])}
_OPPOSITE_SHARE = 0.4  # of the questions that could be changed in both ways


def make_unanswerable(question: str, texts: Iterable[str], rng: np.random.Generator) -> str | None:
    """Return a question that the texts, which answer it, do not answer any more; None where nothing can be exchanged.

    >>> make_unanswerable("When did Bergen burn?", ["Bergen burned in 1702, Oslo in 1624."], np.random.default_rng(0))
    'When did Oslo burn?'
    """
    here = list(_NAMES.finditer(question))
    known = {match.group(0) for match in here}
    others = sorted({match.group(0) for text in texts for match in re.finditer(_NAMES, f" {text}")} - known)
    names = []
    for match in here:
        alike = [
            other
            for other in others
            if other[0].isdigit() == match.group(0)[0].isdigit()
            and other not in question
            and match.group(0) not in other
        ]
        if alike:
            names.append((match, alike))
    words = [match for match in re.finditer(r"\w+", question) if match.group(0) in _OPPOSITES]
    if words and (not names or rng.random() < _OPPOSITE_SHARE):
        word = words[int(rng.integers(len(words)))]
        return question[: word.start()] + _OPPOSITES[word.group(0)] + question[word.end() :]
    if not names:
        return None
    name, alike = names[int(rng.integers(len(names)))]
    return question[: name.start()] + alike[int(rng.integers(len(alike)))] + question[name.end() :]
