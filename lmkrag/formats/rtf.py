"""Rich Text Format, by striprtf: its text without formatting."""

import re

from striprtf.striprtf import rtf_to_text

from lmkrag.errors import DocumentError
from lmkrag.formats.base import SOFT_HYPHEN, Links, Loaded, fold, show_symbols, table_row

# notes, margins, boxes, objects; in the second line what is not shown, or no longer so
_GROUP = re.compile(
    rb"\{(?:(?:\\\*)?\\(footnote|annotation|header[lrf]?|footer[lrf]?|shp|object)"
    rb"|(?:\\[a-z]+-?\d* ?){0,20}?\\(?:v|deleted|strike|striked1))(?![a-z0-9-])"
)
# Line ends after a control word are no text, nor are those after the brace that opens a group.
_LINE_END = re.compile(rb"(?:(?<!\\)(\\[a-z]+-?\d*) ?|(?<!\\)(\{))[\r\n]+")
_UNSEEN = re.compile(  # up to where it is switched off, in one group
    rb"\\(v|deleted|strike)(?![a-z0-9-])(?:(?!\\(?:v|deleted|strike)(?![a-z0-9-]))[^{}]){0,10000}?"
    rb"(?:\\\1 ?0(?!\d) ?|(?=\\plain(?![a-z])))"
)
# A large letter with a frame of its own, and the end of its paragraph.
_DROP_CAP = re.compile(
    rb"(\\dropcapt[12](?!\d)(?:(?!\\par(?![a-z])).){0,1000})\\par(?![a-z]) ?", re.DOTALL
)
_INNER = re.compile(rb"\{\\(?:shptxt|result)(?![a-z])")  # what a box or an object shows
_LEVEL = re.compile(rb"\\outlinelevel([0-5])(?!\d) ?")
# The style of a heading.
_HEADING = re.compile(rb"\{\s*\\s(\d+)(?!\d)[^{};]*? heading ([1-6])\b[^{};]*;\}", re.IGNORECASE)
_STYLED = re.compile(rb"\\pard(?:\\plain)?\s*\\s(\d+)(?!\d) ?")
_NO_TITLE = re.compile(r"^#+ *$", re.MULTILINE)
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_BRACE = re.compile(rb"\\.|[{}]", re.DOTALL)
_RAISED = re.compile(rb"\\(?:super|up[1-9]\d*)(?:\\[a-z]+-?\d*){0,20} (?=-?\d)")
_ROW_BEGINS, _ROW_ENDS = re.compile(rb"\\trowd(?![a-z])"), re.compile(rb"\\row(?![a-z])")
_LINK = re.compile(rb'\{\\\*\\fldinst[^"]{0,300}?HYPERLINK\s+"([^"{}]*)"')
_NEAR = 2_000  # bytes between the address of a link and its words
_SHOWN = re.compile(rb"\{\\fldrslt(?![a-z]) ?")
_MARKS = dict.fromkeys(b"\x1d\x1e")
# A cell with the one before it (m), or above it (vm).
_MERGED = re.compile(rb"\\cl(v?m)rg(?![a-z])")
_TITLE = re.compile(rb"\{\\title ([^{}\\]+)\}")


def read(data: bytes, name: str) -> Loaded:
    """Read an .rtf file: headings as ``#``, cells of a table between ``|``, notes and comments in
    place.

    Each header and footer is read once; what is hidden or struck through is left out.

    Raises:
        DocumentError: the content is not RTF.
    """
    if not data.lstrip().startswith(b"{\\rtf"):
        raise DocumentError("content is not RTF")
    data = _NOT_ASCII.sub(lambda byte: b"\\'%02x" % byte[0][0], data)
    data = _LINE_END.sub(lambda end: end[1] + b" " if end[1] else end[2], data)
    data = _DROP_CAP.sub(rb"\1", _UNSEEN.sub(b"", data))
    data = data.replace(b"\\nestcell", b"\\emspace")
    data = data.replace(b"{\\pntext", b"{\\listtext")  # numbers and bullets, as WordPad has them
    styles = [] if _LEVEL.search(data) else _HEADING.findall(data)
    levels = {style: b"\\outlinelevel%d " % (int(level) - 1) for style, level in styles}
    data = _STYLED.sub(lambda style: style[0] + levels.get(style[1], b""), data)
    # Mark in the source what striprtf would lose: exponents, headings, the rows of tables.
    marked = _RAISED.sub(rb"\g<0>^", _show_hidden(_show_addresses(data)))
    marked = _LEVEL.sub(lambda level: level[0] + b"#" * (1 + int(level[1])) + b" ", marked)
    marked = _ROW_BEGINS.sub(b"\x1d\\g<0>", _ROW_ENDS.sub(b"\x1e\\g<0>", marked))
    text = rtf_to_text(marked.decode("latin-1"), errors="replace")
    # Characters beyond U+FFFF are two.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = _NO_TITLE.sub("", show_symbols(text.replace(SOFT_HYPHEN, "")))
    # Put the cells of each row between bars; merged cells repeat their value.
    *rows, rest = text.split("\x1e")
    lines: list[str] = []
    above: list[str] = []
    for written, row in zip(_ROW_ENDS.split(marked), rows, strict=False):
        before, divider, content = row.partition("\x1d") if "\x1d" in row else row.rpartition("\n")
        cells = [*map(fold, content.strip("\x1d\n ").removesuffix("|").split("|"))]
        definitions = written.rpartition(b"\\trowd")[2].split(b"\\cellx")[:-1]
        for place, definition in enumerate(definitions[: len(cells)]):
            if (sign := _MERGED.search(definition)) and not cells[place]:
                is_beside = sign[1] == b"m" and place
                cells[place] = cells[place - 1] if is_beside else "".join(above[place : place + 1])
        above = cells
        lines.append(f"{before}{divider}{table_row(cells) if len(cells) > 1 else cells[0]}")
    lines = "".join([*lines, rest]).translate(_MARKS).splitlines()
    title = _TITLE.search(data)
    name = title[1].decode("latin-1").strip() if title else ""
    return Loaded("\n".join(lines).strip(), "rtf", name)


def _show_addresses(data: bytes) -> bytes:
    """Put the addresses of links after their words."""
    pieces, position = [], 0
    links = Links()
    for link in _LINK.finditer(data):
        shown = _SHOWN.search(data, link.end(), link.end() + _NEAR)
        if shown is None or link.start() < position:
            continue
        end = _find_end(data, shown.end())
        words = data[shown.end() : end].decode("latin-1")
        address = links.add(words, link[1].decode("latin-1"), words, is_alone=True)
        pieces += [data[position : link.start()], b"{", data[shown.end() : end], address.encode()]
        position = end
    return b"".join([*pieces, data[position:]])


def _show_hidden(data: bytes) -> bytes:
    """Turn groups that striprtf drops into text; equal headers and footers only once."""
    pieces, position, margins = [], 0, set()
    for match in _GROUP.finditer(data):
        if match.start() < position:
            continue
        end = _find_end(data, match.end())
        inner = data[match.end() : end]
        if match[1] == b"annotation":
            shown = b" [" + inner + b"]"
        elif match[1] == b"footnote":
            shown = b" " + inner
        elif match[1] in (None, b"shp", b"object"):
            box = _INNER.search(inner) if match[1] else None
            shown = b" %s\\par " % inner[box.end() : _find_end(inner, box.end())] if box else b""
        else:
            is_repeated = inner in margins
            margins.add(inner)
            if is_repeated or b"\\chpgn" in inner:
                shown = b""
            elif inner.rstrip().endswith(b"\\par"):
                shown = b" " + inner
            else:
                shown = b" " + inner + b"\\par "
        pieces += [data[position : match.start()], b"{", shown]
        position = end
    return b"".join([*pieces, data[position:]])


def _find_end(data: bytes, start: int) -> int:
    """Return the position of the brace that closes a group whose content begins at ``start``."""
    depth = 1
    for brace in _BRACE.finditer(data, start):
        depth += {b"{": 1, b"}": -1}.get(brace[0], 0)
        if not depth:
            return brace.start()
    return len(data)
