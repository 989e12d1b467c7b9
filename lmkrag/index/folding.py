"""Letters without their marks and case, so that ``Café`` and ``cafe`` are one word."""

import unicodedata


def fold(text: str) -> str:
    """Return a text in lower case and without the marks of its letters."""
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
        text = unicodedata.normalize("NFC", text)
    return text.lower()
