"""Complete the value that a model found in a text: its number, its unit, its name.

The model learns where values begin and end; here only what was cut in the midst is mended.
"""

import re

_NUMBER = re.compile(
    r"(?<![\w.,])(?:[-−+±] ?)?(?:(?:US|CA|AU)?[€$£] ?)?"
    r"(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d+)"
    r"(?:[.,:/’'–-]\d+)*(?!\d)"
)
_CODE = re.compile(r"(?<!\w)\w+(?:[-_/.@]\w+)+")
_CURRENCY = re.compile(r"(?:(?:US|CA|AU)?[€$£] ?|\b(?:USD|EUR|GBP|CHF) )\Z")
_SCALE = re.compile(r"[ \u00a0](?:hundred|thousand|million|billion|trillion)\b")
_UNIT = re.compile(
    r"[ \u00a0\u202f]?(?:[%‰€£$]|°[CF]?|(?:[kcmμ]?m|k?g|[kKMGT]i?B|[ap]m)(?!\w))"
    r"|[ \u00a0-](?:percentage points?|per cent|USD|EUR|GBP|CHF|dollars?|month|week|day|hour|year"
    r"|minute)\b"
    r"|[ \u00a0](?:(?!(?:plus|across|unless|versus)\b)[a-z]{3,}s|feet|people|inch)\b"
)
_NAME_END = re.compile(r"(?<![\w.])[A-Z][\w'’.-]{0,60}\Z")
_NAME_AFTER = re.compile(r"(?:[ \r\n]+[A-Z][\w'’-]*\w)+")
_NEXT_CELL = re.compile(r" \| (?=[^|\n]{1,100}: )")
_ADDRESS = re.compile(r" \((?:https?|ftp|mailto):[^\s()]+\)")
_LOOSE_END = re.compile(r"(?<![\s.,;:])[\s.,;:]+\Z")
_OPEN = re.compile(r"(?<!\s)\s*+\([^()]*+\Z")


def complete_value(text: str, start: int, end: int) -> tuple[int, int]:
    """Return where a value begins and ends of which characters ``[start, end)`` were found.

    >>> text = "Revenue was $4.1 million. Maud Ellery keeps 2 480 ledgers."
    >>> for found in ("4.1", "Maud", "480"):
    ...     start, end = complete_value(text, text.index(found), text.index(found) + len(found))
    ...     text[start:end]
    '$4.1 million'
    'Maud Ellery'
    '2 480 ledgers'
    """
    # 1. Numbers and codes are whole.
    for piece in (*_NUMBER.finditer(text), *_CODE.finditer(text)):
        if piece.start() < start < piece.end():
            start = piece.start()
        if piece.start() < end < piece.end():
            end = piece.end()
    # 2. So are names that begin here.
    if _NAME_END.search(text[start:end]) and (rest := _NAME_AFTER.match(text, end)):
        end = rest.end()
    # 3. One of a row ends with its cell.
    if border := _NEXT_CELL.search(text, start, end):
        end = border.start()
    # 4. No loose end.
    end = start + len(_LOOSE_END.sub("", _OPEN.sub("", text[start:end])))
    # 5. A number has its currency, scale and unit.
    if text[start:end][-1:].isdigit():
        if currency := _CURRENCY.search(text[:start]):
            start = currency.start()
        for after in (_SCALE, _UNIT):
            if rest := after.match(text, end):
                end = rest.end()
    # 6. The words of a link have its address.
    if address := _ADDRESS.match(text, end):
        end = address.end()
    return start, end
