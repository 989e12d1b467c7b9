"""LaTeX is shown as what it says, and every character keeps its place."""

import pytest

from lmkrag.rendering.blocks import parse_blocks
from lmkrag.rendering.tree import mark_nodes, to_html

PAPER = r"""\documentclass[11pt]{article}
\begin{document}
\section{Model}
The height is $h = a_0 \cos(\omega t)$, where $\alpha \leq \frac{1}{2}$ and $E_{10} = a^2$.
It is \emph{never} more than 4~m, as \cite{jones} found: 10\,\% of \unknown{it}.
\end{document}
"""


def plain(nodes) -> str:
    return "".join(node["text"] if "text" in node else plain(node["children"]) for node in nodes)


def test_a_paper_is_shown_without_commands():
    shown = to_html(parse_blocks(PAPER, kind="text", name="tides.tex"))
    assert "<strong>Model</strong>" in shown and "<em>never</em>" in shown
    text = plain(parse_blocks(PAPER, kind="text", name="tides.tex"))
    assert "The height is h = a₀ cos(ωt), where α≤1/2 and E₁₀ = a²." in text
    assert "more than 4\N{NO-BREAK SPACE}m, as [jones] found: 10% of \\unknownit." in text
    assert "document" not in text and "$" not in text


TABLE = r"""\author{A. Keeper}
\begin{table}\caption{Crossings}
\begin{tabular}{lr}
\hline
Month & Delay \\ \midrule
May & 4--5\footnote{Minutes.} \\
\end{tabular}\end{table}
"""


def test_a_table_is_shown_without_what_lays_it_out():
    text = plain(parse_blocks(TABLE, kind="text", name="tides.tex"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    gap = " \N{EM SPACE} "
    assert lines == ["A. Keeper", "Crossings", f"Month{gap}Delay", f"May{gap}4–5 (Minutes.)"]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (r"The energy is $E = \frac{1}{2}\rho a^2$, always.", "The energy is E = 1/2ρa², always."),
        (r"$$\int_0^2 h\,dt = 0$$", "∫₀² hdt = 0"),
        ("It costs $5 or $6, and a_b stays.", "It costs $5 or $6, and a_b stays."),
        ("`$a_b^2$` is code", "$a_b^2$ is code"),
        (r"C:\alpha stays", r"C:\alpha stays"),
        ("$5 for small_files and $6 for big_files", "$5 for small_files and $6 for big_files"),
        ("between $1_000 and $2_000 a week", "between $1_000 and $2_000 a week"),
        ("The rates $a_1$, $b_2$ and $c_3$.", "The rates a₁, b₂ and c₃."),
    ],
)
def test_markdown_has_formulas_between_dollars_only(source, shown):
    assert plain(parse_blocks(source, kind="markdown", name="notes.md")) == shown


def test_what_answers_is_marked_in_a_formula_too():
    start, end = PAPER.index("It is"), PAPER.index(" found")
    nodes = parse_blocks(PAPER, kind="text", name="tides.tex")
    marked = to_html(mark_nodes(nodes, [(start, end, "quoted")]))
    assert "<mark>It is </mark><em><mark>never</mark></em>" in marked
    assert "<mark>[jones]</mark> found" in marked


def test_every_text_begins_where_its_source_does():
    def check(nodes) -> None:
        for node in nodes:
            if "text" not in node:
                check(node["children"])
            elif node["start"] >= 0 and node["text"].isascii() and node["text"].isalpha():
                assert node["text"][0] in PAPER[node["start"] : node["start"] + 20]

    check(parse_blocks(PAPER, kind="text", name="tides.tex"))


def test_without_a_name_it_stays_as_it_is_written():
    source = r"It is $\alpha$."
    assert plain(parse_blocks(source, kind="markdown")) == source
