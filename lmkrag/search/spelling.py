"""Read a question in the spelling of an index: one letter of a word may be wrong."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lmkrag.index.snapshot import Snapshot
from lmkrag.language.question import QUOTED
from lmkrag.language.spelling import near_words
from lmkrag.language.terms import drop_stop_words, fold, lower, merge_variants, word_forms

# a word, and no part of a code, a path, an address or a compound with hyphens
_WORD = re.compile(r"(?<![\w.:/@#+-])[^\W\d_]{5,40}(?![\w:/@#+-]|\.\w)")
_NAME = 7  # letters of a capitalised word, at least: every second shorter name is near another word
_MOST = 4  # words that are replaced: each costs milliseconds


class Spelled(NamedTuple):
    """A question in the spelling of an index.

    Attributes:
        text: the question.
        notes: a sentence for each word that was replaced.
    """

    text: str
    notes: tuple[str, ...] = ()


def correct_spelling(snapshot: Snapshot, question: str, is_word: Callable[[str], bool]) -> Spelled:
    """Return a question with words of an index in place of those that have one letter wrong.

    Such a word has five letters or more, no document has it in any form, it is no word of the
    language, and a word of the documents differs from it by one letter. Of several, words of the
    language come first, then the most frequent, then the first by name. Quoted words, those with
    capitals inside, and capitalised ones of less than seven letters stay as they are. No more than
    four words are replaced.

    Args:
        snapshot: the documents.
        question: the question.
        is_word: returns whether a word in lower case is one of the language.
    """
    unquoted = QUOTED.sub(lambda quoted: " " * len(quoted[0]), question)
    places = [match for match in _WORD.finditer(unquoted) if _may_be_misspelt(match[0])]
    words = _find_unknown(snapshot, [match[0] for match in places])
    misspelt = [word for word in words if not is_word(lower(word))][:_MOST]
    nearest = {word: _find_nearest(snapshot, lower(word), is_word) for word in misspelt}
    for match in reversed(places):
        if near := nearest.get(match[0]):
            question = question[: match.start()] + near + question[match.end() :]
    notes = (
        f'no document has "{word}": "{near}" is searched for'
        for word, near in nearest.items()
        if near
    )
    return Spelled(question, tuple(notes))


def _may_be_misspelt(word: str) -> bool:
    """Whether a word is written as a common word is, or as a long name."""
    return word.islower() or (word[1:].islower() and len(word) >= _NAME)


def _find_unknown(snapshot: Snapshot, words: Sequence[str]) -> list[str]:
    """The words that no document has in any form, once each; none of them is a function word."""
    content = drop_stop_words([fold(word) for word in words])
    words = [word for word in dict.fromkeys(words) if fold(word) in content]
    counts = _count_sentences(snapshot, [lower(word) for word in words])
    return [word for word, count in zip(words, counts, strict=True) if not count]


def _find_nearest(snapshot: Snapshot, word: str, is_word: Callable[[str], bool]) -> str | None:
    """The word of the documents that a misspelt one stands for; None if none is near."""
    near = sorted(near_words(word))
    known = [pair for pair in zip(near, _count_sentences(snapshot, near), strict=True) if pair[1]]
    best = min(known, key=lambda pair: (not is_word(pair[0]), -pair[1], pair[0]), default=None)
    return best[0] if best else None


def _count_sentences(snapshot: Snapshot, words: Sequence[str]) -> list[int]:
    """How many sentences have each word, in that of its forms which most have."""
    forms = [word_forms(word, snapshot.totals.languages) for word in words]
    terms = snapshot.find_terms(merge_variants(forms))
    counts = dict(zip(terms.words.tolist(), terms.counts, strict=True))
    return [max(counts[form] for form in each) for each in forms]
