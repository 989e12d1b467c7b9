"""The words of a text, as the lexical index knows them: stemmed, hashed, without marks."""

import re
import threading
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain

import numpy as np
from Stemmer import Stemmer
from xxhash import xxh3_64_intdigest

from lmkrag.language.patterns import LateRegex
from lmkrag.specs import CODE, ENGLISH
from lmkrag.types.arrays import Hashes

# one character for one: offsets stay
STRAIGHT = str.maketrans("“”„«»「」『』‘’‚‹›–—", '"' * 9 + "'" * 5 + "--")
# inside words: soft hyphens, joiners, byte order marks
_INVISIBLE = frozenset("\u00ad\u200c\u200d\u2060\ufeff")
_SPELLING = range(0x0900, 0x1000)  # scripts of India and South-East Asia, whose marks are vowels


def fold(text: str) -> str:
    """Return a text in lower case, without diacritics and without invisible characters inside
    words.
    """
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(
            c
            for c in decomposed
            if not (unicodedata.combining(c) and ord(c) not in _SPELLING) and c not in _INVISIBLE
        )
        text = unicodedata.normalize("NFC", text)
    return text.lower()


def lower(text: str) -> str:
    """Return a text in lower case with its diacritics, which stemmers know."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", "".join(c for c in text if c not in _INVISIBLE))
    return text.lower()


_STEMMERS = """ar arabic|ca catalan|cs czech|da danish|de german|el greek|es spanish|et estonian
eu basque|fa persian|fi finnish|fr french|ga irish|hi hindi|hu hungarian|hy armenian|id indonesian
it italian|lt lithuanian|nb norwegian|ne nepali|nl dutch|nn norwegian|no norwegian|pl polish
pt portuguese|ro romanian|ru russian|sr serbian|sv swedish|ta tamil|tr turkish|uk russian"""
STEMMERS = dict(pair.split() for pair in re.split(r"[|\n]", _STEMMERS))
"""Languages other than English with their stemmers. Words of any other language are stemmed as
English ones are.
"""

_MARKS = "".join(
    c for c in map(chr, range(0x0900, 0x1000)) if unicodedata.category(c) in ("Mn", "Mc")
)
_CJK_CHARACTERS = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_CJK = LateRegex(f"[{_CJK_CHARACTERS}]")
_CJK_RUN = LateRegex(f"[{_CJK_CHARACTERS}]{{2,}}")
_UNSPACED = LateRegex(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")  # Thai, Lao, Burmese, Khmer
_WORD = re.compile(rf"[^\W_]+(?:[{_MARKS}]+[^\W_]*)*")
# possessive: a long word costs one look
_JOINED = re.compile(r"(?<![^\W_])[^\W_]++(?:(?:[-.:/+#]|_+)[^\W_]++)+")
_VERSION = re.compile(r"v\d+\.\d.*")
_CAMEL_CASE = re.compile(r"(?<![A-Za-z])(?:[A-Za-z]*[a-z][A-Z][A-Za-z]*|[A-Z]{2,}[a-z]+)")
_CAMEL_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONGEST_IDENTIFIER = 48  # characters
_LONGEST = 64  # characters of a word that count
_STEM = 4  # letters that a word keeps at least when its ending is cut off


def split_words(text: str) -> list[str]:
    """Return the words of a text, in lower case and without diacritics.

    A Chinese, Japanese or Korean character is a word. Identifiers (``VX-1007``, ``Z_SYNC_FLUSH``,
    ``db.internal``, ``v2.1.0-rc1``) come whole after their parts, versions also without their
    ``v``.
    """
    return _split(fold(text))


def _split(text: str) -> list[str]:
    """Return the words of a text that is folded or in lower case, identifiers after their parts."""
    if not text.isascii():
        text = _CJK.sub(r" \g<0> ", text)
    words: list[str] = []
    position = 0
    for joined in _JOINED.finditer(text):
        if _is_identifier(joined[0]):
            words += _WORD.findall(text, position, joined.end())
            words.append(joined[0])
            if _VERSION.fullmatch(joined[0]):
                words.append(joined[0][1:])
            position = joined.end()
    return words + _WORD.findall(text, position)


def _is_identifier(joined: str) -> bool:
    """Return whether joined words name one thing: they have a digit or an underscore, or dots
    between words.
    """
    if len(joined) > _LONGEST_IDENTIFIER:
        return False
    if "_" in joined or any(map(str.isdigit, joined)):
        return True
    return (
        "." in joined and "-" not in joined and all(len(part) > 1 for part in _WORD.findall(joined))
    )


def hash_words(text: str, language: str = ENGLISH) -> Hashes:
    """Return the hash of the stem of each word of a text, in order.

    Chinese, Japanese and Korean characters also count in pairs, and Thai, Lao, Burmese and Khmer in
    threes, since no spaces divide their words (Nie et al., "On the use of words and n-grams for
    Chinese information retrieval", IRAL 2000).

    Args:
        text: the text.
        language: whose stemmer is used, one of :data:`STEMMERS`; ``code`` divides ``camelCase``;
            any other is read as English.

    Returns:
        ``[n]`` uint64.
    """
    return np.array([_hash_word(word, language) for word in _terms(text, language)], np.uint64)


def hash_forms(text: str, languages: Collection[str] = ()) -> set[int]:
    """Return the hashes of the words of a text by the stemmers of English and of other languages.

    Args:
        text: the text.
        languages: the other languages.
    """
    forms = set(hash_words(text, CODE if CODE in languages else ENGLISH).tolist())
    others = {*languages} - {CODE, ENGLISH}
    if others:
        algorithms = tuple(sorted({STEMMERS.get(language, "porter") for language in others}))
        forms.update(*(_hash_stems(word, algorithms) for word in set(_terms(text, ""))))
    return forms


def query_words(query: str, languages: Iterable[str] = ()) -> Hashes:
    """Return the hashes of the words of a question, once each, by the stemmers of English and of
    other languages.

    Function words are left out, unless there are no others: BM25 gives those of most texts next to
    no weight, but each matches most of an index, and those of a language that few texts are in
    would weigh a lot.

    Args:
        query: the question.
        languages: languages other than English that words of the index are in.

    Returns:
        ``[n]`` uint64.
    """
    return merge_variants(query_variants(query, languages))


def merge_variants(variants: Iterable[Iterable[int]]) -> Hashes:
    """Return the hashes of all words from :func:`query_variants`, once each: ``[n]`` uint64."""
    return np.fromiter(dict.fromkeys(chain.from_iterable(variants)), np.uint64)


def query_variants(
    query: str, languages: Iterable[str], *, stop_words: bool = False
) -> list[tuple[int, ...]]:
    """Return for each word of a question its hashes by the rules of several languages: see
    :func:`query_words`.

    Args:
        query: the question.
        languages: languages other than English that words of the index are in.
        stop_words: whether stop words are kept.
    """
    languages = tuple(languages)
    words = list(_terms(query, CODE if CODE in languages else ENGLISH))
    content = set(words if stop_words else drop_stop_words(words) or words)
    marked = {fold(word): word for word in _terms(query, "")} if languages else {}
    variants = dict[tuple[int, ...], None]()
    for word in words:
        if word in content:
            variants[word_forms(marked.get(word, word), languages)] = None
    return list(variants)


def word_forms(word: str, languages: Iterable[str]) -> tuple[int, ...]:
    """Return the hashes of a word in lower case by the stemmers of English and of other languages,
    once each.
    """
    own = [_hash_word(word, language) for language in languages]
    return tuple(dict.fromkeys([_hash_word(fold(word), ENGLISH), *own]))


def stem_word(word: str, language: str) -> str:
    """Return the stem of a word in lower case, by the stemmer of a language."""
    return _stem(word, (STEMMERS.get(language, "porter"),)).pop()


def hash_content(text: str) -> set[int]:
    """Return the hashes of the words of a text without function words.

    Scripts without spaces have those of groups of characters.
    """
    words = drop_stop_words([word for word in _terms(text, ENGLISH) if not _CJK.fullmatch(word)])
    return {_hash_word(word, ENGLISH) for word in words}


def find_words(
    text: str, words: Iterable[int], languages: Iterable[str] = ()
) -> list[tuple[int, int]]:
    """Find words of a text by their stems.

    Args:
        text: the text.
        words: hashes of words.
        languages: languages other than English whose stemmers are used, too.

    Returns:
        Ranges ``(start, end)`` of the words whose hashes are among ``words``.
    """
    hashes, languages = set(words), frozenset(languages)
    return [word.span() for word in _WORD.finditer(text) if hashes & hash_forms(word[0], languages)]


def _terms(text: str, language: str) -> Iterable[str]:
    """Return the terms of a text in a language: its words, and groups of characters of scripts
    without spaces.
    """
    if language == CODE:
        return _split_identifiers(text)
    text = fold(text) if language == ENGLISH else lower(text)
    words = _split(text)
    if text.isascii():
        return words
    return chain((word for word in words if not _UNSPACED.match(word)), _grams(text))


def _split_identifiers(text: str) -> Iterator[str]:
    """Yield the parts of ``camelCase`` identifiers of a text, then all of its words."""
    for identifier in _CAMEL_CASE.findall(text):
        yield from (part.lower() for part in _CAMEL_PART.findall(identifier) if len(part) > 1)
    yield from _terms(text, ENGLISH)


def _grams(text: str) -> Iterator[str]:
    """Pairs of Chinese, Japanese and Korean characters, and threes of scripts without spaces."""
    for run in _CJK_RUN.finditer(text):
        yield from map("".join, zip(run[0], run[0][1:], strict=False))
    for run in _UNSPACED.finditer(text):
        for start in range(max(1, len(run[0]) - 2)):
            yield run[0][start : start + 3]


_thread = threading.local()  # a stemmer serves one thread


@lru_cache(1 << 17)
def _hash_word(word: str, language: str) -> int:
    """Return the hash of the stem of a word."""
    return _hash_stems.__wrapped__(word, (STEMMERS.get(language, "porter"),)).pop()


@lru_cache(1 << 15)
def _hash_stems(word: str, algorithms: tuple[str, ...]) -> set[int]:
    """Return the hashes of the stems of a word by several stemmers; most stemmers agree."""
    stems = _stem(word, algorithms)
    return {xxh3_64_intdigest(fold(stem).encode("utf-8", "surrogatepass")) for stem in stems}


def _stem(word: str, algorithms: Iterable[str]) -> set[str]:
    """Return the stems of a word by several stemmers."""
    stemmers = _thread.__dict__
    for algorithm in algorithms:
        if algorithm not in stemmers:
            stemmers[algorithm] = Stemmer(algorithm, 0)
    return {stemmers[algorithm].stemWord(word[:_LONGEST]) for algorithm in algorithms}


_ENGLISH_WORDS = """a about after all also an and any are as at be because been before being
between both but by can could did do does doing for from had has have having he her his how i if
in into is it its me more most my no not of on or other our s she should so some such t than
that the their them then there these they this those to under was we were what when where which
while who whom why will with would you your"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_OTHER_LANGUAGES = "ar bg ca cs da de el es fr he hi hu id it nb nl pl pt ro ru sk sv tr uk"
_OTHERS = _OTHER_LANGUAGES.split()
"""Languages whose lists, of the stop-words package, hold function words and little else."""

_SURE = 2  # function words of a language beyond those of English


def drop_stop_words(words: Sequence[str]) -> list[str]:
    """Return words without the function words of English, and of the language that most of the
    words are in.

    That is a language with at least two more of the words than English has. If several are as
    likely, as Danish and Norwegian are, the function words of all of them are dropped.
    """
    distinct = set(words)
    dropped, least = _ENGLISH, len(distinct & _ENGLISH) + _SURE
    if len(distinct) >= least:
        counts = {language: len(distinct & _stop_words(language)) for language in _OTHERS}
        best = max(counts.values())
        if best >= least:
            dropped = dropped.union(
                *(_stop_words(language) for language, count in counts.items() if count == best)
            )
    return [word for word in words if word not in dropped]


@cache
def _stop_words(language: str) -> frozenset[str]:
    """Return the function words of a language, folded."""
    from stop_words import get_stop_words

    # One call of ``fold`` is far faster than one for each word.
    return frozenset(fold("\n".join(get_stop_words(language))).split("\n"))


def find_stems(query: str) -> list[str]:
    """Return the words of a question without their last three letters, so that ``expired`` and
    ``expires`` are alike.

    At least four letters of a word stay; function words and single letters are left out.
    """
    words = dict.fromkeys(
        word[: max(_STEM, len(word) - 3)] for word in drop_stop_words(split_words(query))
    )
    return [word for word in words if len(word) > 1]
