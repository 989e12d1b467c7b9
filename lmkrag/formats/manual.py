"""Manual pages in the macros of man(7) and mdoc(7): sections, options as items, examples as code.

Fonts, sizes and what only a typesetter needs are left out. The macros are those that
https://man.openbsd.org/man.7 and https://man.openbsd.org/mdoc.7 describe.
"""

import re
import shlex
from collections.abc import Sequence

from lmkrag.formats.base import INDENT, Loaded, fold
from lmkrag.formats.text import decode

_HEADINGS = {"SH": "## ", "Sh": "## ", "SS": "### ", "Ss": "### "}
_BREAKS = ("PP", "P", "LP", "Pp", "sp", "br", "HP", "RS", "RE", "El", "Ed")
_DEPTHS = {"RS": 1, "RE": -1}
_CODE = {"nf": True, "EX": True, "Bd": True, "fi": False, "EE": False, "Ed": False}
_ITEMS = ("TP", "TQ", "IP", "It")
_ALTERNATING = ("BI", "BR", "IB", "IR", "RB", "RI")  # fonts, so that words are joined
_WORDS = ("B", "I", "SM", "SB", "Nd", "UR", "MT")
_SEMANTIC = frozenset(  # macros of mdoc that may stand within a line
    """Ad An Ao Aq Ar Bo Bq Brq Cd Cm Dq Dv Em Er Ev Fa Fl Fn Ft Ic In Li Lk Ms Mt Nm No Ns Op Pa
    Pf Pq Ql Qq Sq Sx Sy Tn Va Vt Xr Xo Xc""".split()  # noqa: SIM905
)
_TEXTS = frozenset((*_ALTERNATING, *_WORDS, *_SEMANTIC))
_SIGNS = {"aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "en": "–", "em": "—"}
_SIGNS |= {"bu": "•", "co": "©", "ha": "^", "ti": "~", "rs": "\\", "ga": "`", "mi": "-", "hy": "-"}
_ESCAPE = re.compile(
    r"\\(?:\"[^\n]*"  # a comment
    r"|[fFmMn](?:\([^\n]{2}|\[[^\]\n]*\]|[^\n])|s[-+]?\d{1,2}|[hvwl]'[^'\n]*'"
    r"|\*?(?:\((?P<two>[^\n]{2})|\[(?P<name>[^\]\n]*)\])"
    r"|(?P<sign>[-e\\ ~0.'`])|[^\n]?)"
)
_END = re.compile(r"[.'][ \t]*\.")  # of the definition of a macro, or of lines to ignore
_SHOWN = {"e": "\\", "~": " ", "0": " "}
_PUNCTUATION = re.compile(r" (?=[.,:;?!)\]](?:\s|$))|(?<=[(\[]) ")


def read(data: bytes, name: str) -> Loaded:
    """Read a manual page."""
    page = _Page()
    for line in decode(data).splitlines():
        page.add(line)
    page.end_item()
    return Loaded(re.sub(r"\n{3,}", "\n\n", "\n".join(page.lines)).strip(), "man", page.title)


class _Page:
    """The lines of a page, as they are written.

    State: the lines of the open item, of which the first is its term, how deep lines are indented,
    whether they are code or left out, and the program's name.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.title = ""
        self._item: list[str] | None = None
        self._depth = 0
        self._is_code = self._is_left_out = False
        self._program = ""

    def add(self, line: str) -> None:
        """Take the next line of the source."""
        if self._is_left_out:
            self._is_left_out = _END.match(line) is None
        elif line[:1] not in (".", "'"):
            self._write(_show(line))
        elif words := _split(line[1:].strip()):
            self._obey(words[0], words[1:])

    def _obey(self, macro: str, words: Sequence[str]) -> None:
        """Do what a macro says."""
        if macro in ("de", "ig", "am"):
            self._is_left_out = True
        elif macro in ("TH", "Dt"):
            self.title = f"{words[0].lower()}({words[1]})" if len(words) > 1 else "".join(words)
            self.lines = [f"# {self.title}", ""]
        elif macro in _ITEMS:
            self._begin_item(macro, words)
        elif macro in _TEXTS:
            self._write(self._show_text(macro, words))
        elif macro in _HEADINGS:
            self.end_item()
            self._depth = 0
            self.lines += ["", _HEADINGS[macro] + fold(" ".join(words)), ""]
        elif macro in _BREAKS or macro in _CODE:
            self.end_item()
            is_code = _CODE.get(macro, self._is_code) and (macro != "Bd" or "-literal" in words)
            if is_code != self._is_code:
                self.lines.append("```")
            elif macro != "RS":  # the term of a definition stands right above it
                self.lines.append("")
            self._is_code = is_code
            self._depth = max(0, self._depth + _DEPTHS.get(macro, 0))

    def _begin_item(self, macro: str, words: Sequence[str]) -> None:
        """Open an item, whose term is on this line or the next one."""
        self.end_item()
        self._item = []
        if words and macro == "It":
            self._write(_show_mdoc(words))
        elif words and macro == "IP":
            self._write(words[0])

    def _show_text(self, macro: str, words: Sequence[str]) -> str:
        """What a macro shows in the line of text that it is."""
        if macro in _ALTERNATING:
            return "".join(words)
        if macro == "Nm":
            self._program = words[0] if words else self._program
            return _show_mdoc([self._program, *words[1:]])
        return " ".join(words) if macro in _WORDS else _show_mdoc([macro, *words])

    def _write(self, text: str) -> None:
        """Add a line of text to what is open."""
        if self._is_code:
            self.lines.append(text)
        elif self._item is None:
            self.lines.append((self._depth * INDENT + text.strip()).rstrip())
        elif text.strip():
            self._item.append(text.strip())

    def end_item(self) -> None:
        """Write the open item."""
        if self._item:
            term, *words = self._item
            is_bullet = term in ("•", "*", "-", "o")
            parts = ["" if is_bullet else term, " ".join(words)]
            self.lines.append(self._depth * INDENT + "- " + ": ".join(filter(None, parts)))
        self._item = None


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
        elif word not in _SEMANTIC:
            shown += f"-{word}" if before == "Fl" else f" {word}"
        elif word == "Fl":
            shown += " "
    return _PUNCTUATION.sub("", shown + closing).strip()
