"""Word documents, by python-docx: headings, lists, tables, text boxes and notes in document order.

python-docx gives the paragraphs that stand directly in the body; what is inside content controls,
tracked insertions, text boxes and notes is found in its XML.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any

import docx
from docx.enum.style import WD_STYLE_TYPE
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import qn

from lmkrag.formats.base import (
    MATH_TEXT,
    Links,
    Loaded,
    Parts,
    fold,
    is_inside,
    mark_raised,
    open_package,
    read_core_properties,
    read_margins,
    read_run,
    read_whole,
    show_symbols,
)
from lmkrag.formats.drawings import read_drawings
from lmkrag.formats.tabular import MOST_COVERED, Grid, bar_lines
from lmkrag.formats.word_numbers import MOST_BASES, WordNumbers, find_value, format_ordinal

_PARAGRAPH, _TABLE, _RUN = qn("w:p"), qn("w:tbl"), qn("w:r")
_NAMES = ("w:sdt", "w:sdtContent", "w:ins", "w:moveTo", "w:customXml", "w:smartTag")
_WRAPPERS = tuple(map(qn, _NAMES))
# the same once more, for old Word
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_RAISED = f"{qn('w:rPr')}/{qn('w:vertAlign')}[@{qn('w:val')}='superscript']"
_NOT_SHOWN = ("w:strike", "w:dstrike", "w:vanish")  # the first two: what is no longer so
_LINK, _FIELD = qn("w:hyperlink"), re.compile(r'\bHYPERLINK\s+"([^"]+)"')
_NO_LEVEL = 9  # of an outline: text
_ON = ("1", "true", "on")
_NOT_READ = (qn("w:moveFrom"), qn("w:rt"), _FALLBACK)  # w:rt: how to pronounce the text below it
_NOTES = (
    (qn("w:footnoteReference"), RELATIONSHIP_TYPE.FOOTNOTES, "decimal"),
    (qn("w:endnoteReference"), RELATIONSHIP_TYPE.ENDNOTES, "lowerRoman"),
    (qn("w:commentReference"), RELATIONSHIP_TYPE.COMMENTS, ""),
)


def read(data: bytes, name: str) -> Loaded:
    """Read a .docx file or one of its kin.

    A paragraph is a line, a heading begins with ``#``, a row of a table stands between ``|``. Of
    tracked changes what was inserted is read, and what was deleted is not. A note or a comment
    follows its paragraph; headers and footers come first, each once.

    Args:
        data: the bytes of the file.
        name: its name.

    Raises:
        DocumentError: it is encrypted, of a version before 2007, or too large.
    """
    parts = Parts()
    document = open_package(data, "Word", ".docx", docx.Document, parts)
    reader = _Reader(document, parts)
    text = "\n\n".join([*reader.margins(), *reader.all_blocks()])
    title, meta = read_core_properties(document.part.package)
    return Loaded(text, "docx", title or reader.title, meta=meta, left_out=parts.left_out)


class _Reader:
    """Reads the blocks of one document, in order.

    Attributes:
        title: the first paragraph in the style of titles; empty if there is none.
    """

    def __init__(self, document: Any, parts: Parts) -> None:
        self._part, self._parts, self._body = document.part, parts, document.element.body
        self._style = cache(self._name_style)
        self._numbers = WordNumbers(
            next(self._related(RELATIONSHIP_TYPE.NUMBERING), None), document.styles.element
        )
        self._notes = []
        for mark, kind, ordinals in _NOTES:
            notes = {note.get(qn("w:id")): note for root in self._related(kind) for note in root}
            self._notes.append((mark, notes, ordinals, count(1)))
        self._links = Links()
        self.title = ""
        _join_drop_caps(self._body)

    def _name_style(self, key: str | None) -> str:
        """Return the English name of a style, ``Heading 1`` if it is made from that or stands on
        its level.
        """
        style = first = self._part.get_style(key, WD_STYLE_TYPE.PARAGRAPH)
        for _ in range(MOST_BASES):
            if style is None:
                break
            level = _read_level(style.element)
            name = style.name or ""
            if level < _NO_LEVEL and name != "Title":
                name = f"Heading {level + 1}"
            if name == "Title" or _is_heading(name):
                return name
            style = style.base_style
        return first.name or ""

    def _related(self, kind: str) -> Iterator[Any]:
        """Yield the roots of the document's parts of a kind."""
        for rel in self._part.rels.values():
            if rel.reltype == kind and not rel.is_external:
                part = rel.target_part
                name = part.partname.lstrip("/")
                if (root := self._parts.read(name, parse_xml, part.blob)) is not None:
                    yield root

    def margins(self) -> list[str]:
        """Return the headers and footers of all sections."""
        kinds = (RELATIONSHIP_TYPE.HEADER, RELATIONSHIP_TYPE.FOOTER)
        roots = [root for kind in kinds for root in self._related(kind)]
        paragraphs = (paragraph for root in roots for paragraph in root.iter(_PARAGRAPH))
        return read_margins(map(self._text, paragraphs))

    def all_blocks(self) -> Iterator[str]:
        """Yield the blocks of the text, without those that can't be read."""
        for number, block in enumerate(_children(self._body, _PARAGRAPH, _TABLE), 1):
            what = "table" if block.tag == _TABLE else "paragraph"
            blocks = self._parts.read(f"{what} {number}", self._read, block) or []
            if blocks and blocks[0].startswith("#"):
                yield from self._show_links()
            yield from blocks
        yield from self._show_links()

    def _show_links(self) -> list[str]:
        """Return the addresses of a section's links."""
        return ["\n".join(lines)] if (lines := self._links.take()) else []

    def _read(self, block: Any) -> list[str]:
        return [*(self._table(block) if block.tag == _TABLE else self._paragraph(block))]

    def blocks(self, parent: Any) -> Iterator[str]:
        """Yield the blocks in a part of the text, such as a box."""
        for block in _children(parent, _PARAGRAPH, _TABLE):
            yield from self._read(block)

    def _paragraph(self, paragraph: Any) -> Iterator[str]:
        text = self._text(paragraph)
        prefix = self._prefix(paragraph, text)  # of an empty paragraph, too: Word counts it
        if text:
            yield prefix + (fold(text) if prefix.startswith("#") else text)
        for box in _inside(paragraph, qn("w:txbxContent")):
            yield from self.blocks(box)
        for drawing in _inside(paragraph, qn("w:drawing")):
            yield from read_drawings(drawing, self._part)
        yield from self._notes_of(paragraph)

    def _prefix(self, paragraph: Any, text: str) -> str:
        """Return the mark of a heading, or the number or bullet of an item; an empty string for
        other paragraphs.
        """
        style = self._style(paragraph.style)
        level = _read_level(paragraph)
        if level < _NO_LEVEL:
            style = f"Heading {level + 1}"
        number = self._numbers.next(paragraph)
        if style == "Title":
            self.title = self.title or fold(text)
            return "# "
        if _is_heading(style):
            mark = "#" * min(6, int(style[-1]))
            return f"{mark} {number} " if number not in ("", "-") else f"{mark} "
        return (number or "-") + " " if number or style.startswith("List") else ""

    def _text(self, paragraph: Any) -> str:
        """Return the text of a paragraph without what is hidden or struck through; note its
        links.
        """
        if is_inside(paragraph, *_NOT_READ):
            return ""
        text = words = address = field = ""
        for run in _inside(paragraph, _RUN, MATH_TEXT):
            field = _follow_field(run, field)
            target = self._find_address(run) or field
            if target != address:
                text += self._links.add(text, address, words)
                address, words = target, ""
            shown = _show_run(run, text)
            text, words = text + shown, words + shown
        is_alone = words.strip() == text.strip() or is_inside(paragraph, qn("w:tc"))
        return (text + self._links.add(text, address, words, is_alone=is_alone)).strip()

    def _find_address(self, run: Any) -> str:
        """Return the address of the link that a run belongs to; an empty string if it has none."""
        link = next(run.iterancestors(_LINK), None)
        relation = None if link is None else self._part.rels.get(link.get(qn("r:id")))
        return str(relation.target_ref) if relation is not None and relation.is_external else ""

    def _notes_of(self, paragraph: Any) -> Iterator[str]:
        """Yield the notes of a paragraph with their numbers, and its comments; each once."""
        for mark, notes, ordinals, numbers in self._notes:
            for reference in _inside(paragraph, mark):
                if (note := notes.pop(reference.get(qn("w:id")), None)) is None:
                    continue
                text = fold(" ".join(map(self._text, _children(note, _PARAGRAPH))))
                if ordinals:
                    yield f"[^{format_ordinal(next(numbers), ordinals)}]: {text}"
                else:
                    author = note.get(qn("w:author"))
                    yield f"[{author}: {text}]" if author else f"[{text}]"

    def _table(self, table: Any) -> Iterator[str]:
        """Yield the lines of a table, its merged cells repeated, and then its notes."""
        grid = Grid()
        above: dict[int, str] = {}  # by column
        for row in _children(table, qn("w:tr")):
            if row.find(f"{qn('w:trPr')}/{qn('w:del')}") is not None:
                continue
            column = read_whole(find_value(row, "w:trPr", "w:gridBefore"), 0)
            if column:
                grid.add("", columns=column)
            for cell in _children(row, qn("w:tc")):
                if _is_covered(cell, "w:hMerge"):
                    text = above.get(column - 1, "")
                else:
                    text = self._cell(cell)  # of a cell that is not shown, too: Word counts it
                if _is_covered(cell, "w:vMerge"):
                    text = above.get(column, "")
                width = max(1, read_whole(find_value(cell, "w:tcPr", "w:gridSpan"), 1))
                above |= dict.fromkeys(range(column, column + min(width, MOST_COVERED)), text)
                grid.add(text, columns=width)
                column += width
            grid.end_row()
        if lines := bar_lines(grid.rows):
            yield "\n".join(lines)
        for paragraph in table.iter(_PARAGRAPH):
            yield from self._notes_of(paragraph)

    def _cell(self, cell: Any) -> str:
        """Return the text of a cell, tables and boxes in it included."""
        paragraphs = cell.iter(_PARAGRAPH)
        numbered = ((self._numbers.next(each), self._text(each)) for each in paragraphs)
        return fold(" ".join(f"{number} {text}" for number, text in numbered if text))


def _join_drop_caps(body: Any) -> None:
    """Put large letters with a frame of their own before the paragraphs that they begin."""
    for frame in [*body.iter(qn("w:framePr"))]:
        letter = frame.getparent().getparent()
        following = letter.getnext()
        is_letter = frame.get(qn("w:dropCap"), "none") != "none" and letter.tag == _PARAGRAPH
        if is_letter and following is not None and following.tag == _PARAGRAPH:
            place = len(following.findall(qn("w:pPr")))
            following[place:place] = [part for part in letter if part.tag != qn("w:pPr")]
            letter.getparent().remove(letter)


def _read_level(element: Any) -> int:
    """Return the level of the outline, from 0, on which a paragraph or a style stands."""
    return read_whole(find_value(element, "w:pPr", "w:outlineLvl"), _NO_LEVEL)


def _is_covered(cell: Any, merge: str) -> bool:
    """Return whether a cell belongs to the one on its left (hMerge) or above it (vMerge)."""
    return find_value(cell, "w:tcPr", merge, default="continue") == "continue"


def _is_heading(style: str) -> bool:
    return style.startswith("Heading") and style[-1].isdigit()


def _children(parent: Any, *tags: str) -> Iterator[Any]:
    """Yield the children of some kinds; elements that only wrap others are looked into."""
    for child in parent:
        if child.tag in tags:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _children(child, *tags)


def _inside(paragraph: Any, *tags: str) -> Iterator[Any]:
    """Yield the elements of some kinds in a paragraph.

    Those in another paragraph inside it, and hidden ones, are left out.
    """
    for element in paragraph.iter(*tags):
        above = list(element.iterancestors())
        inner = above[: above.index(paragraph)]
        if not any(ancestor.tag == _PARAGRAPH or ancestor.tag in _NOT_READ for ancestor in inner):
            yield element


def _follow_field(run: Any, field: str) -> str:
    """Return the address of the field that is open after a run; an empty string if none is."""
    code = "".join(part.text or "" for part in run.iterfind(qn("w:instrText")))
    if link := _FIELD.search(code):
        return link[1]
    kinds = [sign.get(qn("w:fldCharType")) for sign in run.iterfind(qn("w:fldChar"))]
    return "" if "end" in kinds else field


def _read_field(run: Any) -> str:
    """Return what the field of a form in a run shows: a box that is ticked or not, or the chosen
    entry of a list; an empty string for other runs.
    """
    field = run.find(f"{qn('w:fldChar')}/{qn('w:ffData')}")
    if field is None:
        return ""
    if (box := field.find(qn("w:checkBox"))) is not None:
        given = [find_value(box, name, default="1") for name in ("w:checked", "w:default")]
        return "☒" if next(filter(None, given), "0") in _ON else "☐"
    entries = [entry.get(qn("w:val"), "") for entry in field.iter(qn("w:listEntry"))]
    chosen = read_whole(find_value(field, "w:ddList", "w:result"), 0)
    return "".join(entries[chosen : chosen + 1])


def _show_run(run: Any, before: str) -> str:
    """Return the text of a run after the text before it; an empty one if it is not shown."""
    if any(find_value(run, "w:rPr", kind, default="1") in _ON for kind in _NOT_SHOWN):
        return ""
    codes = [sign.get(qn("w:char"), "20") for sign in run.iterfind(qn("w:sym"))]
    symbols = "".join(chr(int(code, 16)) for code in codes)
    lift = read_whole(find_value(run, "w:rPr", "w:position"), 0)
    raised = run.find(_RAISED) is not None or lift > 0
    shown = read_run(run) + show_symbols(symbols) + _read_field(run)
    return mark_raised(before, shown) if raised else shown
