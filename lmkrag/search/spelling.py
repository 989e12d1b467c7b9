"""Read a question in the spelling of an index, by its letters and by the parts of its compounds."""

import re
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from lmkrag.index.snapshot import Snapshot
from lmkrag.language.question import QUOTED, detect_asked
from lmkrag.language.spelling import near_words
from lmkrag.language.terms import (
    drop_stop_words,
    fold,
    lower,
    merge_variants,
    stem_word,
    word_forms,
)

# a word, and no part of a code, a path, an address or a compound with hyphens
_WORD = re.compile(r"(?<![\w.:/@#+-])[^\W\d_]{5,40}(?![\w:/@#+-]|\.\w)")
_NAME = 7  # letters of a capitalised word, at least: every second shorter name is near another word
_MOST = 4  # words that are replaced or divided: each costs milliseconds
# languages that write compounds as one word
_COMPOUNDING = frozenset(("de", "nl", "sv", "da", "nb", "nn", "no"))
_LINKS = ("", "s", "es", "n", "en", "er", "e")  # between their parts
_PART = 4  # letters of a part, at least


class Spelled(NamedTuple):
    """A question in the spelling of an index.

    Attributes:
        text: the question.
        notes: a sentence for each word that was replaced.
    """

    text: str
    notes: tuple[str, ...] = ()


def correct_spelling(
    snapshot: Snapshot,
    question: str,
    count: Callable[[str], int],
    languages: Container[str] | None,
) -> Spelled:
    """Return a question with words of an index in place of those that have one letter wrong.

    Such a word has five letters or more, no document has it in any form, and a word of the
    documents that has fewer tokens than it and its stem differs from it by one letter. Of several,
    that with the fewest tokens is taken, then the most frequent, then the first by name. Quoted
    words, those with capitals inside, and capitalised ones of less than seven letters stay as they
    are. No more than four words are replaced.

    Args:
        snapshot: the documents.
        question: the question.
        count: returns how many tokens a word in lower case has. Words that are common in their
            language have one, and a wrong letter divides them.
        languages: those whose words ``count`` knows (ISO 639-1), None for all. A question in
            another one stays as it is.
    """
    unquoted = QUOTED.sub(lambda quoted: " " * len(quoted[0]), question)
    places = [match for match in _WORD.finditer(unquoted) if _may_be_misspelt(match[0])]
    words = _find_unknown(snapshot, [match[0] for match in places])
    divided = [word for word in words if count(lower(word)) > 1][:_MOST]
    nearest = {
        word: near for word in divided if (near := _find_nearest(snapshot, lower(word), count))
    }
    if not nearest:
        return Spelled(question)
    language = detect_asked(question)  # takes time, so only where there is something to replace
    if languages is not None and language not in languages:
        return Spelled(question)
    nearest = {
        word: near
        for word, near in nearest.items()
        if count(near) < count(stem_word(lower(word), language))
    }
    for match in reversed(places):
        near = nearest.get(match[0], match[0])
        question = question[: match.start()] + near + question[match.end() :]
    notes = (
        f'no document has "{word}": "{near}" is searched for' for word, near in nearest.items()
    )
    return Spelled(question, tuple(notes))


def split_compounds(snapshot: Snapshot, question: str) -> list[str]:
    """Return the parts of those words of a question that no document has, if documents have both.

    Of several ways to divide a word, the one whose rarer part is the most frequent is taken (Koehn
    and Knight, "Empirical methods for compound splitting", EACL 2003). Words are divided if a
    document is in a Germanic language other than English, four of a question at most.

    Args:
        snapshot: the documents.
        question: the question.
    """
    if not _COMPOUNDING & snapshot.totals.languages:
        return []
    words = _find_unknown(snapshot, _WORD.findall(question))[:_MOST]
    return [part for word in words for part in _split_compound(snapshot, lower(word))]


def _split_compound(snapshot: Snapshot, word: str) -> tuple[str, ...]:
    """The two parts of a word that documents have; none if they have no two."""
    pairs = [
        (word[: place - len(link)], word[place:])
        for place in range(_PART, len(word) - _PART + 1)
        for link in _LINKS
        if word[:place].endswith(link) and place - len(link) >= _PART
    ]
    firsts = _count_sentences(snapshot, [first for first, _ in pairs])
    seconds = _count_sentences(snapshot, [second for _, second in pairs])
    rarest = map(min, firsts, seconds)
    count, best = max(zip(rarest, pairs, strict=True), default=(0, ()))
    return best if count else ()


def _may_be_misspelt(word: str) -> bool:
    """Whether a word is written as a common word is, or as a long name."""
    return word.islower() or (word[1:].islower() and len(word) >= _NAME)


def _find_unknown(snapshot: Snapshot, words: Sequence[str]) -> list[str]:
    """The words that no document has in any form, once each; none of them is a function word."""
    content = drop_stop_words([fold(word) for word in words])
    words = [word for word in dict.fromkeys(words) if fold(word) in content]
    counts = _count_sentences(snapshot, [lower(word) for word in words])
    return [word for word, count in zip(words, counts, strict=True) if not count]


def _find_nearest(snapshot: Snapshot, word: str, count: Callable[[str], int]) -> str:
    """The word of the documents that a misspelt one may stand for; empty if none is near."""
    near, tokens = sorted(near_words(word)), count(word)
    sentences = zip(near, _count_sentences(snapshot, near), strict=True)
    known = [(count(other), -found, other) for other, found in sentences if found]
    fewest, _, best = min(known, default=(tokens, 0, ""))
    return best if fewest < tokens else ""


def _count_sentences(snapshot: Snapshot, words: Sequence[str]) -> list[int]:
    """How many sentences have each word, in that of its forms which most have."""
    forms = [word_forms(word, snapshot.totals.languages) for word in words]
    terms = snapshot.find_terms(merge_variants(forms))
    counts = dict(zip(terms.words.tolist(), terms.counts, strict=True))
    return [max(counts[form] for form in each) for each in forms]
