"""The words of a text, as the lexical index knows them: stemmed, hashed, without marks."""

import re
import threading
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from Stemmer import Stemmer
from xxhash import xxh3_64_intdigest

from lmkrag.arrays import Hashes
from lmkrag.index.words.folding import fold
from lmkrag.index.words.stop_words import drop_stop_words

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_WORD = re.compile(r"[^\W_]+")
_JOINED = re.compile(r"(?<![^\W_])[^\W_]++(?:(?:[-.:/+#]|_+)[^\W_]++)+")  # possessive: a long word costs one look
_LONGEST_IDENTIFIER = 48  # characters
_LONGEST = 64  # characters of a word that count


def split_words(text: str) -> list[str]:
    """Return the words of a text, in lower case and without marks; a Chinese, Japanese or Korean character is one.

    Identifiers (``VX-1007``, ``Z_SYNC_FLUSH``, ``db.internal``, ``v2.1.0-rc1``) come whole after their parts.

    >>> split_words("Valve VX-1007, e.g. in well-known places.")
    ['valve', 'vx', '1007', 'vx-1007', 'e', 'g', 'in', 'well', 'known', 'places']
    """
    text = fold(text)
    if not text.isascii():
        text = _CJK.sub(r" \g<0> ", text)
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

    Function words are left out, unless there are no others: BM25 gives those of most texts next to no weight, but
    each matches most of an index, and those of a language that few texts are in would weigh a lot.
    """
    words = split_words(query)
    return np.fromiter(dict.fromkeys(map(_hash_word, drop_stop_words(words) or words)), np.uint64)


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
