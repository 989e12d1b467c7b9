"""The numbers of list items: decimals, letters, Roman numerals."""

_ROMAN = {1000: "m", 900: "cm", 500: "d", 400: "cd", 100: "c", 90: "xc", 50: "l", 40: "xl"}
_ROMAN |= {10: "x", 9: "ix", 5: "v", 4: "iv", 1: "i"}


def format_ordinal(count: int, kind: str) -> str:
    """Return a number as a list shows it.

    Args:
        count: the number.
        kind: Word's name of the format: ``lowerLetter``, ``upperLetter``, ``lowerRoman``, ``upperRoman``,
            ``decimalZero`` or ``none``; all others are written in decimals.

    >>> [format_ordinal(4, kind) for kind in ("decimal", "lowerLetter", "upperRoman", "decimalZero")]
    ['4', 'd', 'IV', '04']
    """
    if kind == "none":
        return ""
    if kind == "decimalZero":
        return f"{count:02}"
    if kind in ("lowerLetter", "upperLetter") and count > 0:  # z, aa, bb
        letters = chr(ord("a") + (count - 1) % 26) * min(1 + (count - 1) // 26, 10)
        return letters.upper() if kind == "upperLetter" else letters
    if kind in ("lowerRoman", "upperRoman") and 0 < count < 4_000:
        numerals = ""
        for value, numeral in _ROMAN.items():
            numerals += numeral * (count // value)
            count %= value
        return numerals.upper() if kind == "upperRoman" else numerals
    return str(count)
