"""Whether a short text is of a language, by its letters.

Fonts that do not say which characters their glyphs are give letters of other words, or of many
scripts.
"""

import re
import unicodedata
from collections import Counter

_FEWEST = 4  # letters that say something
_FREQUENT = frozenset("etaoinsr")  # in languages of Latin script half of the letters and more
_ACCENTED = 0.4  # of the letters of a language, at most
_WORD, _VOWEL = re.compile(r"[a-z]{3,}"), re.compile("[aeiouy]")
_FEWEST_VOWELS = 0.7  # share of words that have a vowel, in any language
_ONE_SCRIPT = 0.9  # of the letters beyond Latin
_HAN = ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA")
_KANA = 0.15  # of the letters of a Japanese text, at least
_IDEOGRAPHS = frozenset("的一是不了在人有我中大上国國个到年月日本会會分出时時生十三二部")
_FREQUENT_IDEOGRAPHS = 0.1  # of a Chinese text, at least


def is_legible(text: str) -> bool:
    r"""Return whether the letters of a text are as frequent as in a language of their script.

    >>> is_legible("KEY INVESTOR INFORMATION"), is_legible("NH\ LQYHVWRU LQIRUPDWLRQ")
    (True, False)
    """
    letters = [letter for letter in text.lower() if letter.isalpha()]
    scripts = Counter(map(_find_script, letters))
    if len(letters) < _FEWEST:
        return False
    if 2 * scripts.pop("LATIN", 0) >= len(letters):
        return _is_latin_text(text, letters)
    script, count = scripts.most_common(1)[0]
    if count < _ONE_SCRIPT * scripts.total():
        return False
    return script != "HAN" or _is_han_text([each for each in letters if each > "\u2fff"])


def is_spoken(words: list[str]) -> bool:
    """Return whether enough of the words have a vowel for the text to be in a language."""
    spoken = sum(_VOWEL.search(word) is not None for word in words)
    return spoken >= _FEWEST_VOWELS * len(words)


def find_words(text: str) -> list[str]:
    """Return the words of Latin letters that say whether a text is of a language."""
    return _WORD.findall(text.lower())


def _find_script(letter: str) -> str:
    name = unicodedata.name(letter, "").partition(" ")[0]
    return "HAN" if name in _HAN else name


def _is_latin_text(text: str, letters: list[str]) -> bool:
    plain = [letter for letter in letters if letter.isascii()]
    frequent = sum(letter in _FREQUENT for letter in plain)
    is_plain = len(plain) >= (1 - _ACCENTED) * len(letters)
    return is_spoken(find_words(text)) and is_plain and 2 * frequent >= len(plain)


def _is_han_text(letters: list[str]) -> bool:
    kana = sum(
        "HIRAGANA" in (name := unicodedata.name(each)) or "KATAKANA" in name for each in letters
    )
    frequent = sum(letter in _IDEOGRAPHS for letter in letters)
    return kana >= _KANA * len(letters) or frequent >= _FREQUENT_IDEOGRAPHS * len(letters)
