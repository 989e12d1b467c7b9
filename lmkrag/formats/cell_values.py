"""Values of cells as Excel shows them: dates, numbers, currencies and units."""

import datetime
import re
from typing import Any

from openpyxl.styles.numbers import is_date_format
from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH, from_excel
from openpyxl.utils.escape import unescape as unescape_text

from lmkrag.formats.base import fold
from lmkrag.formats.html import read_value

_MIDNIGHT = datetime.time()
_DIGITS = 15  # Excel's own precision: 0.1 + 0.2 is 0.3 there
# Text, escapes, currencies, colours and gaps of a format.
_LITERAL = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\[\]-]*+)[^\[\]]*\]|\[[^\[\]]*\]|[_*].')
_CONDITION = re.compile(r"\[[<>=]")
_HELD = 0xE000  # the first of the private characters that stand for literals
_NUMBER = re.compile(r"([^#0?]*)[#0?](?:[#0?,]*[#0?])?(?:\.([#0?]+))?([^#0?,]*)")
_DIGITS_ONLY = re.compile(r"(?=[^0]*0[^0]*0)[0\- ()/\ue000-\uf8ff]*")


def show_number(value: float, number_format: str, *, since_1904: bool = False) -> str:
    """Return a number as its format shows it; a number of days as its date.

    Args:
        value: the number.
        number_format: its format, such as ``d-mmm-yy``.
        since_1904: whether days are counted as old versions for the Mac do.
    """
    if not is_date_format(number_format):
        return show_value(value, number_format)
    return show_value(from_excel(value, MAC_EPOCH if since_1904 else WINDOWS_EPOCH), number_format)


def show_value(value: Any, number_format: str) -> str:
    """Return a value as Excel shows it."""
    if isinstance(value, datetime.datetime) and value.time() == _MIDNIGHT:
        day, letters = value.date().isoformat(), _LITERAL.sub("", number_format).lower()
        if "d" in letters or "y" not in letters:
            return day
        return day[:7] if "m" in letters else day[:4]
    if isinstance(value, datetime.datetime | datetime.time):
        return str(value.replace(microsecond=0)).removesuffix(":00")
    if isinstance(value, datetime.timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")
    if isinstance(value, int | float) and not isinstance(value, bool):
        positive, negative, zero, *_ = [*number_format.split(";"), "", ""]
        section = positive
        if value <= 0:
            section = (negative if value < 0 else zero) or positive
        literal = _LITERAL.sub(lambda match: match[1] or match[2] or "", section).strip()
        if literal and not re.search(r"[#0?@]|General", _LITERAL.sub("", section)):
            return literal  # Yes, No
        return _show_number(value, "General" if _CONDITION.search(number_format) else positive)
    return read_value(str(unescape_text(str(value))).strip())


def _show_number(value: float, number_format: str) -> str:
    """Return a number with the leading zeros, thousands, currency or unit of its format, else in
    full precision.
    """
    plain = f"{value:.0f}" if 10**_DIGITS <= abs(value) < 10**20 else f"{value:.{_DIGITS}g}"
    if number_format == "General":
        return plain
    literals: dict[int, str] = {}

    def hold(match: re.Match[str]) -> str:
        literals[_HELD + len(literals)] = next(filter(None, match.groups()), "")
        return chr(_HELD + len(literals) - 1)

    shape = _LITERAL.sub(hold, number_format)
    if "%" in shape:
        return f"{100 * value:.{_DIGITS}g}%"
    if _DIGITS_ONLY.fullmatch(shape) and value >= 0 and value == int(value):
        digits = list(f"{value:0{shape.count('0')}.0f}")
        filled = "".join(digits.pop() if sign == "0" else sign for sign in reversed(shape))[::-1]
        return ("".join(digits) + filled).translate(literals)
    match = _NUMBER.fullmatch(shape)
    if match is None:
        return plain
    before, after = match[1].translate(literals), match[3].translate(literals)
    thousands = "," if "," in shape else ""
    if thousands or before.strip() or after.strip():
        plain = f"{abs(value):{thousands}.{len(match[2] or '')}f}"
        before = f"-{before.lstrip()}" if value < 0 else before.lstrip()
    return fold(f"{before}{plain}{after}")
