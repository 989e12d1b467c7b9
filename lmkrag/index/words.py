"""The words of a text, as the lexical index knows them: stemmed, hashed, without marks."""

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from Stemmer import Stemmer
from xxhash import xxh3_64_intdigest

from lmkrag.arrays import Hashes

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_WORD = re.compile(r"[^\W_]+")
_JOINED = re.compile(r"(?<![^\W_])[^\W_]++(?:(?:[-.:/+#]|_+)[^\W_]++)+")  # possessive: a long word costs one look
_LONGEST_IDENTIFIER = 48  # characters
_STOP_WORDS = frozenset(
    """a about after all also an and any are as at be because been before being between both but by can could did do
    does doing for from had has have having he her his how i if in into is it its me more most my no not of on or
    other our s she should so some such t than that the their them then there these they this those to under was we
    were what when where which while who whom why will with would you your""".split()
)
_LONGEST = 64  # characters of a word that count


def split_words(text: str) -> list[str]:
    """Return the words of a text, in lower case and without marks; a Chinese, Japanese or Korean character is one.

    Identifiers (``VX-1007``, ``Z_SYNC_FLUSH``, ``db.internal``, ``v2.1.0-rc1``) come whole after their parts.

    >>> split_words("Valve VX-1007, e.g. in well-known places.")
    ['valve', 'vx', '1007', 'vx-1007', 'e', 'g', 'in', 'well', 'known', 'places']
    """
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
        text = _CJK.sub(r" \g<0> ", unicodedata.normalize("NFC", text))
    text = text.lower()
    words: list[str] = []
    done = 0
    for joined in _JOINED.finditer(text):
        if _is_identifier(joined[0]):
            words += _WORD.findall(text, done, joined.end())
            words.append(joined[0])
            done = joined.end()
    return words + _WORD.findall(text, done)


def _is_identifier(joined: str) -> bool:
    """Whether words that are joined name one thing: a digit or underscore tells, or dots between more than letters."""
    if len(joined) > _LONGEST_IDENTIFIER:
        return False
    if "_" in joined or any(map(str.isdigit, joined)):
        return True
    return "." in joined and "-" not in joined and all(len(part) > 1 for part in _WORD.findall(joined))


def hash_words(text: str) -> Hashes:
    """Return the hash of each word of a text, in order."""
    return np.array(list(map(_hash_word, split_words(text))), np.uint64)


def query_words(query: str) -> Hashes:
    """Return the hashes of the words of a question, once each.

    English function words are left out, unless there are no others: BM25 gives them next to no weight, and each
    matches most of an index.
    """
    words = split_words(query)
    content_words = [word for word in words if word not in _STOP_WORDS]
    return np.fromiter(dict.fromkeys(map(_hash_word, content_words or words)), np.uint64)


_own = threading.local()  # a stemmer serves one thread


def find_words(text: str, words: Iterable[int]) -> list[tuple[int, int]]:
    """Return where words of a text stand, ``(start, end)``, whose hashes are among some, by their stems."""
    wanted = set(words)
    return [word.span() for word in _WORD.finditer(text) if wanted & set(hash_words(word[0]).tolist())]


@lru_cache(1 << 17)
def _hash_word(word: str) -> int:
    if not hasattr(_own, "stemmer"):
        _own.stemmer = Stemmer("porter", 0)
    stem = _own.stemmer.stemWord(word[:_LONGEST])
    return xxh3_64_intdigest(stem.encode("utf-8", "surrogatepass"))
