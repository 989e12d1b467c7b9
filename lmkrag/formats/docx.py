"""Word documents, by python-docx: headings, lists, tables, text boxes and notes in document order.

python-docx gives the paragraphs that stand directly in the body; what is inside content controls,
tracked insertions, text boxes and notes is found in its XML.
"""

from collections.abc import Iterator
from functools import cache, partial
from itertools import count
from typing import Any

import docx
from docx.enum.style import WD_STYLE_TYPE
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import qn

from lmkrag.formats.base import (
    MATH_TEXT,
    Loaded,
    Parts,
    fold,
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
_WRAPPERS = tuple(
    map(qn, ("w:sdt", "w:sdtContent", "w:ins", "w:moveTo", "w:customXml", "w:smartTag"))
)
# the same once more, for old Word
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_RAISED = f"{qn('w:rPr')}/{qn('w:vertAlign')}[@{qn('w:val')}='superscript']"
_LIFT = f"{qn('w:rPr')}/{qn('w:position')}"
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
        self._notes = [
            (
                mark,
                {note.get(qn("w:id")): note for root in self._related(kind) for note in root},
                ordinals,
                count(1),
            )
            for mark, kind, ordinals in _NOTES
        ]
        self.title = ""

    def _name_style(self, key: str | None) -> str:
        """Return the English name of a style, ``Heading 1`` if it is made from that or stands on
        its level.
        """
        style = first = self._part.get_style(key, WD_STYLE_TYPE.PARAGRAPH)
        for _ in range(MOST_BASES):
            if style is None:
                break
            level = read_whole(find_value(style.element, "w:pPr", "w:outlineLvl"), _NO_LEVEL)
            name = (
                f"Heading {level + 1}"
                if level < _NO_LEVEL and style.name != "Title"
                else style.name or ""
            )
            if name == "Title" or (name.startswith("Heading") and name[-1].isdigit()):
                return name
            style = style.base_style
        return first.name or ""

    def _related(self, kind: str) -> Iterator[Any]:
        """Yield the roots of the document's parts of a kind."""
        for rel in self._part.rels.values():
            if rel.reltype == kind and not rel.is_external:
                part = rel.target_part
                root = self._parts.read(
                    str(part.partname).lstrip("/"), partial(parse_xml, part.blob)
                )
                yield from () if root is None else (root,)

    def margins(self) -> list[str]:
        """Return the headers and footers of all sections."""
        kinds = (RELATIONSHIP_TYPE.HEADER, RELATIONSHIP_TYPE.FOOTER)
        roots = [root for kind in kinds for root in self._related(kind)]
        return read_margins(
            _text(paragraph) for root in roots for paragraph in root.iter(_PARAGRAPH)
        )

    def all_blocks(self) -> Iterator[str]:
        """Yield the blocks of the text, without those that can't be read."""
        for number, block in enumerate(_children(self._body, _PARAGRAPH, _TABLE), 1):
            what = "table" if block.tag == _TABLE else "paragraph"
            yield from self._parts.read(f"{what} {number}", partial(self._read, block)) or []

    def _read(self, block: Any) -> list[str]:
        return [*(self._table(block) if block.tag == _TABLE else self._paragraph(block))]

    def blocks(self, parent: Any) -> Iterator[str]:
        """Yield the blocks in a part of the text, such as a box."""
        for block in _children(parent, _PARAGRAPH, _TABLE):
            yield from self._read(block)

    def _paragraph(self, paragraph: Any) -> Iterator[str]:
        text = _text(paragraph)
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
        if (
            level := read_whole(find_value(paragraph, "w:pPr", "w:outlineLvl"), _NO_LEVEL)
        ) < _NO_LEVEL:
            style = f"Heading {level + 1}"
        number = self._numbers.next(paragraph)
        if style == "Title":
            self.title = self.title or fold(text)
            return "# "
        if style.startswith("Heading") and style[-1].isdigit():
            return (
                "#" * min(6, int(style[-1]))
                + " "
                + (number + " " if number not in ("", "-") else "")
            )
        return (number or "-") + " " if number or style.startswith("List") else ""

    def _notes_of(self, paragraph: Any) -> Iterator[str]:
        """Yield the notes of a paragraph with their numbers, and its comments; each once."""
        for mark, notes, ordinals, numbers in self._notes:
            for reference in _inside(paragraph, mark):
                if (note := notes.pop(reference.get(qn("w:id")), None)) is None:
                    continue
                text = fold(" ".join(map(_text, _children(note, _PARAGRAPH))))
                author = note.get(qn("w:author"))
                comment = f"[{author}: {text}]" if author else f"[{text}]"
                yield (
                    f"[^{format_ordinal(next(numbers), ordinals)}]: {text}" if ordinals else comment
                )

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
                covered = [
                    find_value(cell, "w:tcPr", merge, default="continue")
                    for merge in ("w:vMerge", "w:hMerge")
                ]
                from_left = (
                    above.get(column - 1, "") if covered[1] == "continue" else self._cell(cell)
                )
                text = above.get(column, "") if covered[0] == "continue" else from_left
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
        numbered = (
            (self._numbers.next(paragraph), _text(paragraph)) for paragraph in cell.iter(_PARAGRAPH)
        )
        return fold(" ".join(f"{number} {text}" for number, text in numbered if text))


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


def _text(paragraph: Any) -> str:
    """Return the text of a paragraph without what is hidden or struck through."""
    if any(ancestor.tag in _NOT_READ for ancestor in paragraph.iterancestors()):
        return ""
    text = ""
    for run in _inside(paragraph, _RUN, MATH_TEXT):
        if any(
            find_value(run, "w:rPr", kind, default="1") in _ON
            for kind in ("w:strike", "w:dstrike", "w:vanish")
        ):
            continue  # what is no longer so, and what is not shown
        symbols = "".join(
            chr(int(sign.get(qn("w:char"), "20"), 16)) for sign in run.iterfind(qn("w:sym"))
        )
        lifts = [read_whole(lift.get(qn("w:val")), 0) for lift in run.iterfind(_LIFT)]
        raised = run.find(_RAISED) is not None or any(lift > 0 for lift in lifts)
        shown = read_run(run) + show_symbols(symbols)
        text += mark_raised(text, shown) if raised else shown
    return text.strip()
