"""Function words, which say nothing about what is asked for, in the language of a question."""

from collections.abc import Sequence
from functools import cache

from lmkrag.index.words.folding import fold

_ENGLISH_WORDS = """a about after all also an and any are as at be because been before being between both but by can
could did do does doing for from had has have having he her his how i if in into is it its me more most my no not of on
or other our s she should so some such t than that the their them then there these they this those to under was we were
what when where which while who whom why will with would you your"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_OTHERS = (
    *("ar", "bg", "ca", "cs", "da", "de", "el", "es", "fr", "he", "hi", "hu", "id", "it", "nb", "nl", "pl", "pt"),
    *("ro", "ru", "sk", "sv", "tr", "uk"),
)
"""Languages whose lists, of the stop-words package, hold function words and little else."""

_SURE = 2  # function words of a language beyond those of English


def drop_stop_words(words: Sequence[str]) -> list[str]:
    """Return words without function words: the English ones, and those of the language that most of them are of.

    That is a language with at least two more of the words than English has. Where several are as likely, as Danish and
    Norwegian are, the function words of all of them are dropped.

    Args:
        words: in order, from :func:`lmkrag.index.words.terms.split_words`.

    >>> drop_stop_words("who approves the leave".split()), drop_stop_words("wer genehmigt den urlaub".split())
    (['approves', 'leave'], ['genehmigt', 'urlaub'])
    """
    distinct = set(words)
    dropped, least = _ENGLISH, len(distinct & _ENGLISH) + _SURE
    if len(distinct) >= least:
        counts = {language: len(distinct & _stop_words(language)) for language in _OTHERS}
        best = max(counts.values())
        if best >= least:
            dropped = dropped.union(*(_stop_words(language) for language, count in counts.items() if count == best))
    return [word for word in words if word not in dropped]


@cache
def _stop_words(language: str) -> frozenset[str]:
    from stop_words import get_stop_words

    return frozenset(map(fold, get_stop_words(language)))
