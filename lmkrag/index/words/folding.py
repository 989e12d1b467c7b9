"""Letters without their marks and case, so that ``Café`` and ``cafe`` are one word."""

import unicodedata

_INVISIBLE = frozenset("\u00ad\u200c\u200d\u2060\ufeff")  # inside words: soft hyphens, joiners, byte order marks


def fold(text: str) -> str:
    """Return a text in lower case, without the marks of its letters and without what is invisible inside words."""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.combining(c) and c not in _INVISIBLE)
        text = unicodedata.normalize("NFC", text)
    return text.lower()
