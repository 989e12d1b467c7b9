"""Write a tree of HTML as lines that the sentence splitter understands; an equation is on one line:
``v = s/t``.
"""

import re
from typing import TypeAlias

from lxml import etree

from lmkrag.formats.base import INDENT, Links, fold, is_inside, mark_raised, read_whole
from lmkrag.formats.tabular import MOST_COVERED, Grid, bar_lines
from lmkrag.formats.word_numbers import format_ordinal

Element: TypeAlias = etree._Element  # which has no public name

# rt: how to pronounce the text below it; del: what is no longer so
_SKIPPED = frozenset(
    """script style noscript template head svg nav iframe object canvas video audio rt rp rtc del s strike""".split()  # noqa: E501
)
# navigation and links to edit: of Sphinx, MediaWiki and DocBook
_SKIPPED_CLASSES = frozenset(
    ("headerlink", "sphinxsidebar", "mw-editsection", "navheader", "navfooter")
)
_PARAGRAPHS = frozenset(
    """p div section article main aside header footer blockquote figure figcaption table caption
    dl dt dd form fieldset legend address details summary hr body option button dialog select
    textarea center""".split()
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_LISTS, _CELLS = ("ol", "ul", "menu"), ("td", "th")
LINE_BOX = "line-box"
"""The tag of an inline element that its style puts on a line of its own."""
_BLOCKS = _PARAGRAPHS.union(_HEADINGS, _CELLS, ["tr", "pre", LINE_BOX])
# of ordered lists
_FORMATS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")
_FENCE = "```"
_PRE = "\x01"  # marks a preformatted line until white space is folded
_NOT_SHOWN = dict.fromkeys(map(ord, f"\u00ad\u200b\ufeff{_PRE}"))  # soft hyphens and the like
_LONGEST_CELL = 1_000  # characters; a table with longer ones lays out a page
_BESIDE = ("label", "output")  # boxes beside each other on a line
_CHIPS = ("a", "span", "small", "b", "strong", "i", "em", "mark", "data", "time")
_ENTRIES = ("p", "li", "dt", "dd", "div", "center")
_LONGEST_NAME = 200  # of a class
_WORD = re.compile("[a-z]{3}")  # of a class; Google Docs calls its styles c1 and c2
_MOST_PARTS = 100  # of a line
_JOINED = ("code", "pre", "kbd", "samp", "tt")  # whose parts are coloured
# Elements, classes and roles around the text of a page.
_AROUND_PAGE = re.compile(
    r"(?:^|[ _-])(?:page|site)?(?:header|footer|aside|nav\w*|menu|\w{0,20}sidebar)\b"
)
# of annotations that say the same as people type it
_SOURCES = ("application/x-tex", "StarMath 5.0")
_SIGNS = {"msup": "^", "msub": "_", "mover": "^", "munder": "_", "mfrac": "/"}


def render(root: Element) -> str:
    """Return the text of a tree: headings as ``#``, items as ``-`` or numbered, one line for each
    row of a table.
    """
    renderer = _Renderer()
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        classes = element.get("class", "").split()
        is_nav = element.get("role") == "navigation" or not _SKIPPED_CLASSES.isdisjoint(classes)
        skipped = element.tag in _SKIPPED or is_nav
        is_formula = element.tag == "math" or (element.tag == "img" and "math" in classes)
        if event == "start" and (skipped or is_formula):
            renderer.write("" if skipped else element.get("alt") or read_math(element))
            walker.skip_subtree()
        elif event == "start":
            renderer.open(element)
            renderer.write(element.text)
        else:
            if not skipped:
                renderer.close(element)
            renderer.write(element.tail)
    return renderer.finish()


class _Lines:
    """Text that is being written.

    State: its parts, how many line ends it ends with, the white space that its lines begin with,
    and a marker that waits for the text it marks.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.ends = 2  # nothing has to be apart from what is not there
        self.indent = self.marker = ""

    def write(self, text: str) -> None:
        if not text or (text == " " and (self.ends or self.marker)):
            return
        if self.ends and not self.marker and not text.startswith(_FENCE):
            self.parts.append(self.indent)
        self.parts += [self.marker, text.lstrip(" ") if self.marker else text]
        self.marker, self.ends = "", 0

    def end(self, lines: int) -> None:
        """Have the next text begin on a line of its own, or with two after a blank one; nothing
        twice.
        """
        if lines > self.ends and not self.marker:
            self.parts.append("\n" * (lines - self.ends))
            self.ends = lines

    def text(self) -> str:
        return "".join(self.parts)


class _Renderer:
    """Writes elements as they open and close.

    State: the open elements, and the texts of cells and preformatted text, which are kept apart.
    """

    def __init__(self) -> None:
        self._lines = [_Lines()]  # the page, and inside it cells and preformatted text
        self._preformatted = 0
        self._cells = 0
        self._raised = False  # is the next text in superscript?
        self._lists: list[
            tuple[str, int]
        ] = []  # the format of each, and the number of its last item
        self._tables: list[Grid | None] = []  # None for a table that lays out a page
        self._links = Links()
        self._around_page = 0  # open headers, footers and menus

    def write(self, text: str | None) -> None:
        if text and (shown := text.translate(_NOT_SHOWN)):
            before = "".join(self._lines[-1].parts[-1:])
            if self._raised and not shown.isspace():
                shown = mark_raised(before, shown.lstrip())
                self._raised = False
            if not self._preformatted:
                shown = _SPACE.sub(" ", shown)
                if not before or before[-1] in " \n":
                    shown = shown.removeprefix(" ")
            self._lines[-1].write(shown)

    def open(self, element: Element) -> None:
        tag, lines = element.tag, self._lines[-1]
        self._around_page += 1 if _is_around_page(element) else 0
        if _stands_apart(element):
            self.write(" ")
        if _is_superscript(element):
            self._raised = not (element.tail or "").startswith(("/", "⁄"))
            self.write("" if self._raised else " ")  # 1 1/2
        if tag in _LISTS:
            lines.end(1 if self._lists else 2)
            kind = _FORMATS.get(element.get("type", ""), "decimal") if tag == "ol" else ""
            self._lists.append((kind, read_whole(element.get("start"), 1) - 1))
        elif tag == "a":
            self._open_link(element)
        elif tag == "li":
            lines.end(1)
            lines.marker = lines.indent + self._mark_item(element)
            lines.indent += INDENT
        elif tag in _HEADINGS:
            self._end_section()
            lines.end(2)
            lines.marker = "" if self._cells else _HEADINGS[tag]
        elif tag == "pre":
            lines.end(2)
            self._preformatted += 1
            self._lines.append(_Lines())
        elif tag in _CELLS and self._table:
            self._cells += 1
            self._lines.append(_Lines())
        elif tag == "br":
            self._break_line(element)
        elif tag in _BLOCKS:
            self._open_block(element)

    def close(self, element: Element) -> None:
        tag, self._raised = element.tag, False
        self._around_page -= 1 if _is_around_page(element) else 0
        if tag in _CELLS and self._table:
            self._cells -= 1
            # 0 are all that follow
            spans = (read_whole(element.get(name), 1) for name in ("rowspan", "colspan"))
            covered = (span or MOST_COVERED for span in spans)
            self._table.add(fold(self._lines.pop().text()), *covered)
        elif tag == "tr" and self._table:
            self._table.end_row()
        elif tag == "a":
            self._close_link(element)
        else:
            self._close_block(tag)

    def _end_section(self) -> None:
        """Write the addresses of the links of a section."""
        if self._cells or self._preformatted:
            return
        self._lines[-1].end(2)
        for line in self._links.take():
            self._lines[-1].write(line)
            self._lines[-1].end(1)

    def _open_block(self, element: Element) -> None:
        lines = self._lines[-1]
        lines.end(1 if element.tag in ("dd", LINE_BOX) else 2)
        if element.tag == "dd":
            lines.indent += INDENT
            lines.marker = lines.indent
        elif element.tag == "table":
            self._tables.append(Grid() if _holds_data(element) else None)

    def _open_link(self, element: Element) -> None:
        """Begin a link of a table of contents, which is written as in Markdown."""
        if _is_in_contents(element):
            lines = self._lines[-1]
            self.write("[" if lines.marker.strip() or not lines.ends else "- [")

    def _close_link(self, element: Element) -> None:
        """Write or note the address of a link, unless it belongs to the page's frame."""
        if _is_in_contents(element):
            self.write(f"]({element.get('href')})")
            return
        if self._around_page:
            return
        parts = self._lines[-1].parts[-_MOST_PARTS:]
        words = fold("".join(element.itertext()))
        is_alone = bool(self._cells) or _is_alone(element)
        line = "".join(parts).rpartition("\n")[2]
        address = self._links.add(line, element.get("href", ""), words, is_alone=is_alone)
        tags = element.get("tags", "").replace(",", ", ")  # of bookmarks
        self.write(address[:-1] + (f"; {tags})" if tags else ")") if address else "")

    def _close_block(self, tag: str) -> None:
        if tag == "pre" and self._preformatted:
            self._close_code()
        if tag in ("li", "dd") or tag in _HEADINGS:
            self._lines[-1].marker = ""  # of nothing
        if tag in ("li", "dd"):
            self._lines[-1].indent = self._lines[-1].indent.removesuffix(INDENT)
        if tag in _LISTS:
            self._lists.pop()
            self._lines[-1].end(1 if self._lists else 2)
        elif tag in _BLOCKS:
            if tag == "table" and (grid := self._tables.pop()):
                for line in bar_lines(grid.rows):
                    self._lines[-1].end(1)
                    self._lines[-1].write(line)
            self._lines[-1].end(1 if tag in ("dt", LINE_BOX) else 2)

    def _close_code(self) -> None:
        self._preformatted -= 1
        code = self._lines.pop().text().strip("\n")
        if code and not self._cells and not self._preformatted:
            code = "\n".join([_FENCE, *(_PRE + line for line in code.split("\n")), _FENCE])
        self._lines[-1].write(code)

    def _break_line(self, element: Element) -> None:
        if is_inside(element, *_HEADINGS):
            self.write(" ")
        else:
            self._lines[-1].end(min(2, self._lines[-1].ends + 1))

    @property
    def _table(self) -> Grid | None:
        return self._tables[-1] if self._tables else None

    def _mark_item(self, element: Element) -> str:
        kind, last = self._lists[-1] if self._lists else ("", 0)
        if not kind:
            return "- "
        number = read_whole(element.get("value"), last + 1)
        self._lists[-1] = kind, number
        shown = format_ordinal(number, kind)
        # "a. " might be somebody's initial
        return f"{shown}. " if kind == "decimal" else f"({shown}) "

    def finish(self) -> str:
        self._end_section()
        lines = self._lines[0].text().split("\n")
        return "\n".join(
            line[1:] if line.startswith(_PRE) else line.rstrip(" ") for line in lines
        ).strip()


def _stands_apart(element: Element) -> bool:
    """Return whether an element begins a box of its own right after another: a label beside its
    value, or one of several links, tags and chips of the same class.
    """
    before = element.getprevious()
    if before is None or before.tail or element.tag in _BLOCKS:
        return False
    if any(each.tag in _BESIDE or "-" in each.tag for each in (before, element)):
        return True
    if before.tag != element.tag or element.tag not in _CHIPS:
        return False
    sides = (fold("".join(each.itertext())) for each in (before, element))
    are_words = all(len(side) > 1 and any(map(str.isalnum, side)) for side in sides)
    if not are_words or is_inside(element, *_JOINED):
        return False
    if element.tag == "a":
        return bool(before.get("href") != element.get("href"))
    return before.get("class") == element.get("class") is not None or _share_name(before, element)


def _share_name(before: Element, element: Element) -> bool:
    """Return whether two elements have a class in common whose name is a word: ``badge red``,
    ``badge``.
    """
    common = {*before.get("class", "").split()}.intersection(element.get("class", "").split())
    return any(map(_WORD.match, common))


def _is_around_page(element: Element) -> bool:
    """Return whether an element is a header, a footer or a menu, by its name, class, id or role."""
    names = (element.tag, *(element.get(key, "") for key in ("class", "id", "role")))
    is_around = any(_AROUND_PAGE.search(name, 0, _LONGEST_NAME) for name in names)
    return is_around and element.tag != "body"


def _is_in_contents(link: Element) -> bool:
    """Return whether a link is of a table of contents: an item that leads to a place on its page,
    or inside an element of that class.
    """
    address = link.get("href", "")
    if address.startswith("#") and link.getparent().tag == "li":
        return _is_alone(link)
    classes = (each.get("class", "").lower().split() for each in link.iterancestors())
    return bool(address) and any("toc" in names for names in classes)


def _is_alone(element: Element) -> bool:
    """Return whether a link is all that its paragraph or item begins with."""
    parent, following = element.getparent(), element.getnext()
    if parent.tag not in _ENTRIES or element.getprevious() is not None:
        return False
    has_text = any((text or "").strip() for text in (parent.text, element.tail))
    return not has_text and (following is None or following.tag in ("br", *_BLOCKS, *_LISTS))


def _is_superscript(element: Element) -> bool:
    """Return whether an element, such as the number of a note, is shown above its line."""
    if element.tag == "sup" or "noteref" in element.get("epub:type", element.get("role", "")):
        return True
    return "vertical-align:super" in element.get("style", "").replace(" ", "")


def _holds_data(table: Element) -> bool:
    """Return whether a table holds data: it has short cells side by side.

    Other tables lay out pages, mails, and notes with a picture.
    """
    if table.get("role") in ("presentation", "none") or table.find(".//table") is not None:
        return False
    texts = (
        ["".join(cell.itertext()).strip() for cell in row.iterchildren("td", "th")]
        for row in table.iter("tr")
    )
    if not any(sum(map(bool, row)) > 1 for row in texts):
        return False
    for cell in table.iter("td", "th"):
        if any(part.tag in _HEADINGS for part in cell.iter()) and cell.tag == "td":
            return False
        if sum(map(len, cell.itertext())) > _LONGEST_CELL:
            return False
    return True


def read_math(node: Element) -> str:
    """Return an equation as its author typed it, in TeX or StarMath, else its parts in order."""
    for annotation in node.iter("{*}annotation"):
        if annotation.get("encoding") in _SOURCES and (annotation.text or "").strip():
            return fold(annotation.text)
    try:
        return _read_math(node)
    except RecursionError:  # no equation is nested so deeply
        return fold("".join(node.itertext()))


def _read_math(node: Element) -> str:
    name = etree.QName(node).localname
    parts = [
        _read_math(child)
        for child in node.iterchildren("*")
        if etree.QName(child).localname != "annotation"
    ]
    if not parts:
        text = fold(node.text or "")
        return f" {text} " if name == "mo" and text in ("=", "<", ">", "≤", "≥", "≈", "→") else text
    if name in _SIGNS and len(parts) == 2:
        return _SIGNS[name].join(map(_enclose, parts))
    if name in ("msubsup", "munderover") and len(parts) == 3:
        return "{}_{}^{}".format(*map(_enclose, parts))
    joined = "".join(parts).strip()
    return f"√{_enclose(joined)}" if name == "msqrt" else joined


def _enclose(part: str) -> str:
    """Put an expression of several signs in parentheses."""
    return part if part.isalnum() else f"({part})"
