r"""LaTeX in a tree of elements: its symbols as characters, its commands as what they show.

It shows what a reader needs and typesets nothing: ``$\alpha \leq \frac{1}{2}$`` is ``α≤1/2``. A
command that is not known is shown as it is written, so that nothing is lost without a trace. Every
text keeps the offset of what it is shown for, and is never longer than that: marks and citations
need no table of places.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from lmkrag.rendering.tree import Node, element, text_node

FORMULA = re.compile(
    r"(?P<marks>\$\$|\$(?=[^$\s]))(?=[^$\n]*[\\^_])[^$\n]++(?P=marks)(?<!\s\$)(?!\d)"
)
"""A formula between dollars, with a command or an index in it; sums of money are told from it by
the spaces and digits beside a dollar, as in Pandoc.
"""

_COMMAND = re.compile(
    r"\\(?P<above>(?:sub)*section|chapter|title|textbf)\*?\{(?P<strong>[^{}]*+)\}"
    r"|\\(?:emph|textit|text|mathrm|mathbf|author|date|caption)\{(?P<em>[^{}]*+)\}"
    r"|\\begin\{tabular\}\{[^{}]*+\}"
    r"|\\(?:begin|end|documentclass|usepackage|label)(?:\[[^\[\]]*+\])?\{[^{}]*+\}"
    r"|\\footnote\{(?P<aside>[^{}]*+)\}"
    r"|\\(?:cite|citep|citet|ref|eqref)\{(?P<cited>[^{}]*+)\}"
    r"|\\[dt]?frac\{(?P<over>[^{}]*+)\}\{(?P<under>[^{}]*+)\}"
    r"|(?P<script>[\^_])(?:\{(?P<digits>[0-9+-]++)\}|(?P<digit>[0-9]))"
    # commands around which a group was not read, or that only lay out what follows
    r"|\\(?:centering|left|maketitle|noindent|quad|right|section|subsection)(?![A-Za-z]) ?"
    r"|\\(?:hline|toprule|midrule|bottomrule)(?![A-Za-z]) ?"
    r"|\\(?P<symbol>[A-Za-z]++) ?|\\(?P<escaped>[%&#_{}$])|\\[,;:!\\]|[{}$]"
    r"|(?P<tie>~)|(?P<cell>&)|(?P<dash>---?)"
)
_RAISED = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
_LOWERED = str.maketrans("0123456789+-", "₀₁₂₃₄₅₆₇₈₉₊₋")
_SYMBOLS = {
    "approx": "≈",
    "cdot": "·",
    "geq": "≥",
    "in": "∈",
    "infty": "∞",
    "int": "∫",
    "item": "• ",
    "leq": "≤",
    "neq": "≠",
    "partial": "∂",
    "pm": "±",
    "prod": "∏",
    "rightarrow": "→",
    "sqrt": "√",
    "sum": "∑",
    "times": "×",
    "to": "→",
    # functions, which are shown as they are called
    **{name: name for name in ("cos", "exp", "lim", "ln", "log", "max", "min", "sin", "tan")},
}


def show_latex(nodes: Sequence[Node], *, whole: bool) -> list[Node]:
    """Return a tree in which LaTeX is shown instead of its source; code is left as it is.

    Args:
        nodes: the tree.
        whole: whether all text is LaTeX; else only what stands between dollars and has a command.
    """
    shown: list[Node] = []
    for node in nodes:
        if "text" in node:
            shown += _show_text(node, whole)
        elif node["tag"] == "code":
            shown.append(node)
        else:
            shown.append({**node, "children": show_latex(node["children"], whole=whole)})
    return shown


def _show_text(node: Node, whole: bool) -> Iterator[Node]:
    text, start = node["text"], node["start"]
    if whole:
        yield from _show(text, start)
        return
    position = 0
    for match in FORMULA.finditer(text):
        yield from _piece(text[position : match.start()], start, position)
        yield from _show(match[0], start, match.start())
        position = match.end()
    yield from _piece(text[position:], start, position)


def _piece(text: str, start: int, position: int) -> Iterator[Node]:
    """A text that begins at ``position`` of one that begins at ``start`` of the document."""
    if text:
        yield text_node(text, start + position if start >= 0 else -1)


def _show(text: str, start: int, first: int = 0) -> Iterator[Node]:
    """What LaTeX shows. What is shown of a command is no longer than it, and begins where it
    does.
    """
    position = 0
    for match in _COMMAND.finditer(text):
        yield from _piece(text[position : match.start()], start, first + position)
        position = match.end()
        shown = list(_piece(_replace(match), start, first + match.start()))
        if shown and match["above"]:
            shown = [element("strong", *shown)]
        elif shown and match["em"]:
            shown = [element("em", *shown)]
        yield from shown
    yield from _piece(text[position:], start, first + position)


def _replace(match: "re.Match[str]") -> str:
    """The characters that a command shows, such as the letter that it names or the words between
    its braces; empty if it shows none.
    """
    if match["script"]:
        table = _RAISED if match["script"] == "^" else _LOWERED
        return (match["digits"] or match["digit"]).translate(table)
    if match["over"] is not None:
        return f"{match['over']}/{match['under']}"
    if match["cited"] is not None:
        return f"[{match['cited']}]"
    if match["aside"]:
        return f" ({match['aside']})"
    if match["symbol"]:
        return _SYMBOLS.get(match["symbol"]) or _find_letter(match["symbol"]) or match[0]
    if match["tie"]:
        return "\N{NO-BREAK SPACE}"
    if match["cell"]:  # of a table
        return "\N{EM SPACE}"
    if match["dash"]:
        return "–"
    return match["strong"] or match["em"] or match["escaped"] or ""


def _find_letter(name: str) -> str:
    """The Greek letter of a name such as ``alpha`` or ``Omega``; empty if there is none."""
    case = "SMALL" if name.islower() else "CAPITAL"
    try:
        return unicodedata.lookup(f"GREEK {case} LETTER {name}")
    except KeyError:
        return ""
