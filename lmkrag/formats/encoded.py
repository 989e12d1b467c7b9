"""Files as base64 or hexadecimal digits inside a text, such as pasted pictures: no text for
readers.
"""

import re

_URI = r"data:(?P<kind>\w{0,30}+)[\w/.+-]{0,100}+(?:;[\w=.+-]{1,60}+){0,8}+,[^\s\"'<>()\[\]]{20,}+"
_ADDRESS = re.compile(_URI)
# of Markdown: ![sketch](data:...), and [image1]: <data:...> of Google Docs, on a line of its own
_INLINE = re.compile(rf"(!?\[[^\[\]\n]*\])\(<?{_URI}[^()\n]*\)")
_DEFINITION = re.compile(rf"^ {{0,3}}\[([^\[\]\n]+)\]:[ \t]*<?{_URI}.*$", re.MULTILINE)
_REFERENCE = re.compile(r"!\[([^\[\]\n]*)\]\[([^\[\]\n]+)\]")
# Words of base64 or digits that no language has: a long one, or several lines of about 70.
_RUN = re.compile(
    r"(?<![\w+/=?&.%-])(?:[\w+/-]{60,}[ \t\r\n]{1,4}){3,}(?:[\w+/-]{4,}={0,2})?"
    r"|(?<![\w+/=?&.%-])[\w+/-]{120,}={0,2}",
    re.ASCII,
)
_HEXADECIMAL = re.compile(r"[0-9a-fA-F\s]{200,}={0,2}")
_SHARES = ((str.isupper, 0.15), (str.islower, 0.15), (str.isdigit, 0.04))  # of base64, at least


def drop_encoded(text: str) -> str:
    """Return a text without the files that are in it as base64 or hexadecimal digits.

    Words in parentheses say what was there. Every line keeps its number.

    >>> drop_encoded("Pump ![sketch](data:image/png;base64,iVBORw0KGgoAAAANSUhEUg==) 12 kg")
    'Pump ![sketch] 12 kg'
    """
    if "data:" in text:
        defined = {match[1] for match in _DEFINITION.finditer(text)}
        text = _DEFINITION.sub("", _INLINE.sub(r"\1", text))
        if defined:
            text = _REFERENCE.sub(lambda match: match[1] if match[2] in defined else match[0], text)
        text = _ADDRESS.sub(lambda uri: "(image)" if uri["kind"] == "image" else "(data)", text)
    return _RUN.sub(_shorten, text)


def _shorten(run: re.Match[str]) -> str:
    """Return what stands for a long run of letters and digits: itself if words may be in it."""
    shares = ((sum(map(kind, run[0])), least * len(run[0])) for kind, least in _SHARES)
    is_base64 = all(count >= least for count, least in shares)
    is_hexadecimal = _HEXADECIMAL.fullmatch(run[0]) and any(map(str.isalpha, run[0]))
    if not is_base64 and not is_hexadecimal:
        return run[0]
    body = run[0].rstrip()
    return "(data)" + "\n" * body.count("\n") + run[0][len(body) :]
