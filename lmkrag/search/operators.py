"""Search operators: ``"quoted phrases"`` rank higher, ``-word`` and ``-"a phrase"`` at the end exclude results.

Rows of tables with a code, version or identifier of the query also rank higher.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lmkrag.arrays import Mask
from lmkrag.language.keys import add_fiscal_years, find_exact_words, holds
from lmkrag.language.quantities import add_spellings
from lmkrag.language.terms import split_words
from lmkrag.search.candidates import Candidates
from lmkrag.search.code_blocks import CodeQuestion, read_code_question

_MOST_PHRASES = 8
_QUOTED = re.compile(r"""(?<![\w"“])(?:"(?=\S)([^"]+)(?<=\S)"|“([^“”]+)”|«([^«»]+)»)(?!\w)""")
_EXCLUDED = re.compile(r"""(?<=\S)\s+-(?:"([^"]+)"|([^\W\d_][\w.-]*\w))$""")


class Operators(NamedTuple):
    """The operators of a query. Phrases are in the form of :func:`_normalize`."""

    phrases: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()  # its codes, versions and identifiers
    excluded: tuple[str, ...] = ()
    alone: bool = False  # the query is nothing but phrases
    code: CodeQuestion = CodeQuestion()

    def excludes(self, text: str) -> bool:
        """Return whether a text has an excluded phrase."""
        if not self.excluded:
            return False
        words = _normalize(text)
        return any(phrase in words for phrase in self.excluded)


NO_OPERATORS = Operators()


def parse_operators(query: str, *, exclusions: bool = True) -> tuple[str, Operators]:
    """Return a query without its exclusions, and its operators; without ``exclusions``, quoted phrases only.

    A phrase has two words or more, since questions quote single words that results need not have. It may be one word
    in a query of nothing but phrases. A word with a hyphen before it is an exclusion only at the query's end: elsewhere
    it is an option of a command.
    """
    text, excluded = add_fiscal_years(query.rstrip()), []
    while exclusions and (match := _EXCLUDED.search(text)) and split_words(match[1] or match[2]):
        text = text[: match.start()]
        excluded.append(_normalize(match[1] or match[2]))
    unquoted = _QUOTED.sub(" ", text)
    alone = not split_words(unquoted)
    quoted = (_normalize(next(filter(None, match.groups()))) for match in _QUOTED.finditer(text))
    phrases = dict.fromkeys(phrase for phrase in quoted if len(phrase.split()) >= (1 if alone else 2))
    operators = Operators(
        phrases=tuple(phrases)[:_MOST_PHRASES],
        exact=find_exact_words(unquoted)[:_MOST_PHRASES],
        excluded=tuple(excluded),
        alone=alone and bool(phrases),
        code=read_code_question(unquoted),
    )
    return add_spellings(text if excluded else query), operators


def apply_operators(operators: Operators, candidates: Candidates, read: Callable[[int], str]) -> Candidates:
    """Raise candidates with phrases and exact words, and remove excluded ones; ``read`` returns their texts."""
    weights = candidates.weights
    if operators.exact:
        # Only rows: prose is often about a code that its heading or its document names.
        held = np.zeros(len(candidates.sentences))
        for position in np.flatnonzero(candidates.record).tolist():
            text = read(position)
            held[position] = sum(holds(text, word) for word in operators.exact)
        candidates = candidates.times("exact words", (weights.exact**held).astype(np.float32))
    if not (operators.phrases or operators.excluded):
        return candidates
    texts = [_normalize(read(position)) for position in range(len(candidates.sentences))]
    if operators.phrases:
        held = np.array([sum(phrase in text for phrase in operators.phrases) for text in texts])
        factor = weights.only_phrases if operators.alone else weights.phrase
        candidates = candidates.times("quoted phrase", (factor**held).astype(np.float32))
    mask: Mask = np.array([not any(phrase in text for phrase in operators.excluded) for text in texts], bool)
    return candidates if mask.all() else candidates.keep(mask)


def _normalize(text: str) -> str:
    """The words of a text with a space around each, so that a phrase is a part of it."""
    return f" {' '.join(split_words(text))} "
