"""Manual pages in the macros of man(7) and mdoc(7): sections, options as items, examples as code.

Fonts, sizes and what only a typesetter needs are left out. The macros are those that
https://man.openbsd.org/man.7 and https://man.openbsd.org/mdoc.7 describe.
"""

import re
import shlex
from collections.abc import Sequence

from lmkrag.formats.base import INDENT, Loaded, fold
from lmkrag.formats.marked_tables import add_rule
from lmkrag.formats.tabular import bar_lines
from lmkrag.formats.text import decode

_HEADINGS = {"SH": "## ", "Sh": "## ", "SS": "### ", "Ss": "### "}
_BREAKS = ("PP", "P", "LP", "Pp", "IP", "sp", "Sp", "br", "HP", "RS", "RE", "Bl", "El")
_WITHIN_ITEMS = ("IP", "sp", "Sp", "br", "RS")  # breaks after which an item goes on
_DEPTHS, _LISTS = {"RS": 1, "RE": -1}, {"Bl": 1, "El": -1}
_CODE = {"nf": True, "EX": True, "Vb": True, "Bd": True}
_CODE |= {"fi": False, "EE": False, "Ve": False, "Ed": False}
_AS_WRITTEN = frozenset(("-literal", "-unfilled"))  # displays of mdoc that keep their lines
_BULLETS = ("•", "*", "-", "o")
_NEXT_LINE = "the next line"  # with which the term of an item may end
_ITEMS = ("TP", "TQ", "IP", "It")
_ALTERNATING = ("BI", "BR", "IB", "IR", "RB", "RI")  # fonts, so that words are joined
_WORDS = ("B", "I", "SM", "SB", "Nd", "UR", "MT")
_SEMANTIC = frozenset(  # macros of mdoc that may stand within a line
    """Ad An Ao Aq Ar Bo Bq Brq Cd Cm Dq Dv Em Er Ev Fa Fl Fn Ft Ic In Li Lk Ms Mt Nm No Ns Op Pa
    Pf Pq Ql Qq Sq Sx Sy Tn Va Vt Xr Xo Xc""".split()  # noqa: SIM905
)
_TEXTS = frozenset((*_ALTERNATING, *_WORDS, *_SEMANTIC))
_SIGNS = {"aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "en": "–", "em": "—"}
_SIGNS |= {"Aq": "'", 'L"': "“", 'R"': "”"}  # strings of pod2man
_SIGNS |= {"bu": "•", "co": "©", "ha": "^", "ti": "~", "rs": "\\", "ga": "`", "mi": "-", "hy": "-"}
_ESCAPE = re.compile(
    r"\\(?:\"[^\n]*"  # a comment
    r"|[fFmMn](?:\([^\n]{2}|\[[^\]\n]*\]|[^\n])|s[-+]?\d{1,2}|[hvwl]'[^'\n]*'"
    r"|\*?(?:\((?P<two>[^\n]{2})|\[(?P<name>[^\]\n]*)\])"
    r"|(?P<sign>[-e\\ ~0.'`])|[^\n]?)"
)
_TAB = re.compile(r"\btab ?\((.)\)")  # the sign between the cells of a table
_TABLE_HEAD = re.compile(r"\A.*?\.[ \t]*\n", re.DOTALL)  # options, and formats up to a full stop
_TEXT_BLOCK = re.compile(r"T\{\n((?:(?!T[{}]).)*+)T\}", re.DOTALL)  # a cell of several lines
_MACRO = re.compile(r"^[.']\w+", re.MULTILINE)
_DEFINITION = re.compile(r"[.'][ \t]*(?:de|ig|am)\b")  # of a macro, or lines to ignore
_DEFINITION_END = re.compile(r"[.'][ \t]*\.")
_BRANCH = re.compile(r"[.'][ \t]*ie\b[^\n]*\\\{\\?[ \t]*\Z")  # the other one is shown
_BRANCH_END = re.compile(r"[.'][ \t]*\\\}")
_SHOWN = {"e": "\\", "~": " ", "0": " "}
_PUNCTUATION = re.compile(r" (?=[.,:;?!)\]](?:\s|$))|(?<=[(\[]) ")


def read(data: bytes, name: str) -> Loaded:
    """Read a manual page."""
    page = _Page()
    for line in decode(data).splitlines():
        page.add(line)
    page.end_table()
    return Loaded(re.sub(r"\n{3,}", "\n\n", "\n".join(page.lines)).strip(), "man", page.title)


class _Page:
    """The paragraphs of a page, each on a line of its own.

    State: the words of the open paragraph, the term of the item that it begins, if any, and until
    when lines belong to the term; whether the paragraph belongs to an item, how deep it is
    indented, how many lists of mdoc are open, whether lines are code or left out, and the program's
    name.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.title = ""
        self._words: list[str] = []
        self._term: list[str] | None = None
        self._term_until = ""  # the macro or line with which the term ends; empty if it ended
        self._is_in_item = self._is_code = False
        self._left_out_end: re.Pattern[str] | None = None
        self._depth = self._lists = 0
        self._program = ""
        self._table: list[str] = []  # with its macro

    def add(self, line: str) -> None:
        """Take the next line of the source."""
        if self._table and line.startswith(".TE"):  # of tbl(1)
            self.end_table()
        elif self._table:
            self._table.append(line)
        elif self._left_out_end is not None:
            self._left_out_end = None if self._left_out_end.match(line) else self._left_out_end
        elif _DEFINITION.match(line):
            self._left_out_end = _DEFINITION_END
        elif _BRANCH.match(line):
            self._left_out_end = _BRANCH_END
        elif line[:1] not in (".", "'"):
            if line[:1].isspace() and not self._is_code:
                self.end_paragraph()
            self._write(_show(line))
        elif words := _split(line[1:].strip()):
            self._obey(words[0], words[1:])

    def _obey(self, macro: str, words: Sequence[str]) -> None:
        """Do what a macro says."""
        if macro == "TS":
            self._table = [".TS"]
        elif macro in ("TH", "Dt"):
            self.title = f"{words[0].lower()}({words[1]})" if len(words) > 1 else "".join(words)
            self.lines = [f"# {self.title}", ""]
        elif macro == "Xc":
            self._term_until = ""
        elif macro in _ITEMS and (words or macro != "IP"):
            self._begin_item(macro, words)
        elif macro in _TEXTS:
            self._write(self._show_text(macro, words))
        elif macro in ("D1", "Dl"):
            self.end_paragraph()
            self.lines += ["```", _show_mdoc(words), "```"]
        elif macro in _HEADINGS:
            self.end_paragraph()
            self._is_in_item = False
            self._depth = self._lists = 0
            self.lines += ["", _HEADINGS[macro] + fold(" ".join(words)), ""]
        elif macro in _BREAKS or macro in _CODE:
            self.end_paragraph()
            self._lists = max(0, self._lists + _LISTS.get(macro, 0))
            self._depth = max(0, self._depth + _DEPTHS.get(macro, 0))
            goes_on = self._lists > 0 or macro in _WITHIN_ITEMS
            self._is_in_item = self._is_in_item and goes_on
            keeps_lines = macro != "Bd" or not _AS_WRITTEN.isdisjoint(words)
            is_code = _CODE.get(macro, self._is_code) and keeps_lines
            if is_code != self._is_code:
                self.lines.append("```")
            elif macro not in ("RS", "br"):  # a definition stands right below its term
                self.lines.append("")
            self._is_code = is_code

    def end_table(self) -> None:
        """Write the open paragraph, and the open table."""
        self.end_paragraph()
        if self._table:
            self.lines += ["", *_show_table("\n".join(self._table)), ""]
        self._table = []

    def _begin_item(self, macro: str, words: Sequence[str]) -> None:
        """Open an item, whose term is on this line or the next one. The terms of items without text
        stand before it: they mean the same.
        """
        term = "" if self._words or not self._term else " ".join(self._term)
        terms = [f"{term},"] if term and not term.endswith(":") else []
        if not terms:
            self.end_paragraph()
        self._term, self._is_in_item = terms, True
        if macro == "It":
            self._term_until = "Xc" if "Xo" in words else ""
            self._term.append(_show_mdoc(words))
        elif macro == "IP":
            self._term.append("" if words[0] in _BULLETS else words[0])
        else:
            self._term_until = _NEXT_LINE

    def _show_text(self, macro: str, words: Sequence[str]) -> str:
        """What a macro shows in the line of text that it is."""
        if macro in _ALTERNATING:
            return "".join(words)
        if macro == "Nd":
            return " ".join(("-", *words))
        if macro == "Nm":
            if words and any(map(str.isalnum, words[0])):  # else a sign after the name
                self._program, *words = words
            return _show_mdoc([self._program, *words])
        return " ".join(words) if macro in _WORDS else _show_mdoc([macro, *words])

    def _write(self, text: str) -> None:
        """Add a line of text to what is open."""
        text = text if self._is_code else text.strip()
        if self._is_code:
            self.lines.append(text)
        elif not text:
            self.end_paragraph()
            self.lines.append("")
        elif self._term is not None and self._term_until:
            self._term.append(text)
            if self._term_until == _NEXT_LINE:
                self._term_until = ""
        else:
            self._words.append(text)

    def end_paragraph(self) -> None:
        """Write the open paragraph."""
        depth = self._depth + max(0, self._lists - 1)
        words = fold(" ".join(self._words))
        if self._term is not None:
            term = " ".join(self._term).strip()
            words = ": ".join(filter(None, (term.removesuffix(":") if words else term, words)))
            mark = "- "
        else:
            mark = INDENT if self._is_in_item else ""
        if words:
            self.lines.append(depth * INDENT + mark + words)
        self._words, self._term, self._term_until = [], None, ""


def _show_table(source: str) -> list[str]:
    """The rows of a table between bars; rules and macros in it are left out."""
    tab = _TAB.search(source)
    rows = _TEXT_BLOCK.sub(
        lambda cell: fold(_MACRO.sub("", cell[1])), _TABLE_HEAD.sub("", source, count=1)
    )
    cells = [
        [_show(cell) for cell in line.split(tab[1] if tab else "\t")]
        for line in rows.split("\n")
        if line[:1] not in (".", "'") and line.strip("_=")
    ]
    return add_rule("\n".join(bar_lines(cells))).split("\n")


def _split(line: str) -> list[str]:
    """The macro of a line and its words, of which one in quotation marks may hold spaces."""
    lexer = shlex.shlex(line.partition('\\"')[0], posix=True)
    lexer.whitespace_split, lexer.quotes, lexer.escape, lexer.commenters = True, '"', "", ""
    try:
        return [_show(word) for word in lexer]
    except ValueError:  # a quotation mark that is not closed
        return [_show(word.strip('"')) for word in line.split()]


def _show(text: str) -> str:
    """A text without escapes."""
    return _ESCAPE.sub(_show_escape, text)


def _show_escape(match: re.Match[str]) -> str:
    sign = match["sign"]
    if sign is not None:
        return _SHOWN.get(sign, sign)
    return _SIGNS.get(match["two"] or match["name"] or "", "")


def _show_mdoc(words: Sequence[str]) -> str:
    """A line of mdoc: options with their hyphens, what is optional in brackets."""
    shown, closing = "", ""
    for number, word in enumerate(words):
        before = words[number - 1] if number else ""
        if word == "Op":
            shown, closing = f"{shown} [", f"]{closing}"
        elif word == "Fl":
            shown += "-" if before == "Fl" else " -"
        elif word not in _SEMANTIC:
            shown += word if before == "Fl" else f" {word}"
    return _PUNCTUATION.sub("", shown + closing).strip()
