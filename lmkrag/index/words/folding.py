"""Letters without their marks and case, so that ``Café`` and ``cafe`` are one word."""

import unicodedata

_INVISIBLE = frozenset("\u00ad\u200c\u200d\u2060\ufeff")  # inside words: soft hyphens, joiners, byte order marks
_SPELLING = range(0x0900, 0x1000)  # scripts of India and South-East Asia, whose marks are vowels


def fold(text: str) -> str:
    """Return a text in lower case, without the marks of its letters and without what is invisible inside words."""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(
            c for c in decomposed if not (unicodedata.combining(c) and ord(c) not in _SPELLING) and c not in _INVISIBLE
        )
        text = unicodedata.normalize("NFC", text)
    return text.lower()


def lower(text: str) -> str:
    """Return a text in lower case, with the marks of its letters, which stemmers know."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", "".join(c for c in text if c not in _INVISIBLE))
    return text.lower()
