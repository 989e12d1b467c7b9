"""Whole sentences in every language: wrapped lines, abbreviations, mark-up, and what a language is judged by."""

import base64
import random
import textwrap

import pytest

from lmkrag.formats.text import describe
from lmkrag.rendering.blocks import parse_blocks
from lmkrag.rendering.tree import Node
from lmkrag.search.outline import outline
from lmkrag.sentences.languages import document_language
from lmkrag.sentences.split import MAX_CHARS, split_sentences
from lmkrag.types import Document

TEXTS = {
    "de": "Die Leiterin der Werft übernimmt im Herbst die Leitung des Hafenamts, wenn der Rat der Stadt zustimmt. "
    "Am 3. März wird das Amt im Rathaus bzw. unter der Brücke geöffnet. Das Verfahren ist bekannt (vgl. S. 12 ff. und "
    "Abb. 5), weshalb niemand es z.B. ein zweites Mal beschreibt.",
    "en": "The Harbour Master of the Port of Bergen takes over the Office of Tides in March, if the Council agrees. "
    "The Dock opens at approx. 5 p.m. on weekdays. See Fig. 3 and Table 2 of the Report of the Board of Trade.",
    "fr": "La capitaine du port de Brest prend la direction du Bureau des Marées au printemps, si le Conseil est "
    "d'accord. L'art. 5 s'applique aux bateaux de la Compagnie du Nord. Le bureau ouvre à neuf heures.",
    "es": "La capitana del puerto de Vigo toma la dirección de la Oficina de Mareas en marzo, si el Consejo está de "
    "acuerdo. Su casa está en el núm. 5 de la plaza Mayor. La oficina abre a las nueve y cierra a las cinco.",
    "it": "La comandante del porto di Genova prende la direzione dell'Ufficio delle Maree in marzo, se il Consiglio è "
    "d'accordo. L'art. 5 si applica alle barche della Compagnia. L'ufficio apre alle nove e chiude alle cinque.",
    "nl": "De havenmeester van Vlissingen neemt in maart de leiding van het Bureau van de Getijden over, als de Raad "
    "het goed vindt. Zie afb. 5 en blz. 12 van het Verslag. Het bureau gaat om negen uur open.",
    "pl": "Kapitan portu w Gdyni obejmuje w marcu kierownictwo Biura Pływów, jeżeli Rada Miasta wyrazi na to zgodę. "
    "Pokazuje to rys. 5 w Sprawozdaniu Biura. Biuro otwiera się o dziewiątej i zamyka o piątej.",
    "ru": "Капитан порта Находка принимает в марте руководство Бюро приливов, если Совет города на это согласится. "
    "См. рис. 3 и табл. 2 в отчёте Совета. Бюро открывается в девять часов и закрывается в пять.",
}
KINDS = ("markdown", "rst", "text")


def parts(text: str, **how) -> list[str]:
    return [" ".join(text[s.start : s.end].split()) for s in split_sentences(text, **how)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [55, 72, 100])
@pytest.mark.parametrize("language", TEXTS)
def test_wrapped_lines_change_no_sentence(language, width, kind):
    text = TEXTS[language]
    wrapped = "\n".join(textwrap.wrap(text, width, break_on_hyphens=False))
    assert len(parts(text)) == 3
    assert parts(wrapped, kind=kind) == parts(text)


@pytest.mark.parametrize("head", ["= Hafen\n\n", "\\section{Hafen}\n\n"], ids=["asciidoc", "latex"])
@pytest.mark.parametrize("language", TEXTS)
def test_one_long_line_ends_no_other(language, head):
    lines = textwrap.wrap(TEXTS[language], 50, break_on_hyphens=False)
    long = [" ".join(lines[:3]), *lines[3:]]
    for start, kind in ((head, "text"), ("# Hafen\n\n", "markdown")):
        assert parts(start + "\n".join(long), kind=kind)[1:] == parts(TEXTS[language])


@pytest.mark.parametrize("kind", ["text", "markdown"])
def test_lists_transcripts_and_code_keep_their_lines(kind):
    text = "- Seil\n- Anker\n\nAnna: Wo ist er?\nBen: Im Hafen.\n\n```\nx = 1\nY = 2\n```\n"
    assert parts(text, kind=kind) == [
        "- Seil", "- Anker", "Anna: Wo ist er?", "Ben: Im Hafen.", "``` x = 1 Y = 2 ```",
    ]  # fmt: skip


def test_short_lines_of_a_plain_text_end_themselves():
    text = "Öffnungszeiten\nDas Amt öffnet an jedem Tag der Woche um neun Uhr am Morgen\nund schließt um fünf.\n"
    assert parts(text)[0] == "Öffnungszeiten"
    address = "Hafenamt Bergen\nKai 12, Haus Nord\n5003 Bergen\n"
    assert parts(address) == ["Hafenamt Bergen Kai 12, Haus Nord 5003 Bergen"]
    verse = "Der Mond ist aufgegangen,\nDie goldnen Sternlein prangen\nAm Himmel hell und klar;\n"
    assert len(parts(verse)) == 1


def test_names_with_colons_keep_their_lines_in_markdown():
    assert parts("Leitung: Frau Weber\nOrt: Hafen\n", kind="markdown") == [
        "Leitung: Frau Weber",
        "Ort: Hafen",
    ]


def test_a_long_sentence_is_cut_between_words():
    words = ["Hafenamt", "x" * 900, *["Anker"] * 10, "y" * 700]
    pieces = parts(" ".join(words))
    assert " ".join(pieces).split() == words
    assert max(map(len, pieces)) <= MAX_CHARS


MARKED = """# Harbour fares {#fares .wide}

::: {.callout-note}
The ferry leaves at nine. It costs 4 \\* 2 crowns {{< fa ship >}} each way.
:::

:::tip[Tides]
Ask the office.
:::

(target-one)=
## Second part

{{< video clip.mp4 >}}

---
layout: center
class: inverse
---

## Third slide

Ends here.
"""
UNSEEN = ("{#", ":::", "{{<", ")=", "layout:", "inverse", "\\")


def read(nodes: list[Node]) -> str:
    return "".join(
        node["text"] if "text" in node else read(node["children"]) + "\n" for node in nodes
    )


def test_marks_that_nobody_is_meant_to_see_are_no_sentences_and_no_titles():
    sentences = split_sentences(MARKED, kind="markdown")
    seen = [MARKED[each.start : each.end] for each in sentences if each.kind == "text"]
    assert [" ".join(each.split()) for each in seen] == [
        "The ferry leaves at nine.",
        "It costs 4 \\* 2 crowns {{< fa ship >}} each way.",
        ":::tip[Tides]",
        "Ask the office.",
        "Ends here.",
    ]
    assert describe(MARKED, "fares.md").title == "Harbour fares"
    headings = [each.text for each in outline(Document(text=MARKED, kind="markdown"))]
    assert headings == ["Harbour fares", "Second part", "Third slide"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "<!--\n# Draft: not for release\n-->\n\n# Ferry\n\nIt leaves.\n"),
        ("b.md", "% # Draft\n\n(ferry)=\n\n# Ferry\n\nIt leaves.\n"),
        ("c.rst", "..\n   Draft\n   =====\n\nFerry\n=====\n\nIt leaves.\n"),
        ("d.rst", ".. Draft\n   Second\n\n.. _ferry:\n\nFerry\n=====\n\nIt leaves.\n"),
        ("e.rst", ".. index:: boat\n\nFerry\n=====\n\n.. seealso::\n   It leaves.\n"),
        ("f.adoc", "////\n= Draft\n////\n\n= Ferry\n\n// Draft.\n\nIt leaves.\n"),
    ],
)
def test_comments_and_targets_are_no_sentences_and_no_titles(name, text):
    loaded = describe(text, name)
    assert loaded.title == "Ferry"
    sentences = split_sentences(text, kind=loaded.kind)
    shown = [text[each.start : each.end].split()[0] for each in sentences if each.kind == "text"]
    headings = [text[each.start : each.end] for each in sentences if each.kind == "heading"]
    assert shown == ["It"]
    assert len(headings) == 1
    assert "Ferry" in headings[0]


def test_what_is_shown_has_no_such_marks_and_exact_offsets():
    nodes = parse_blocks(MARKED, kind="markdown")
    shown = read(nodes)
    assert not [mark for mark in UNSEEN if mark in shown]
    assert "It costs 4 * 2 crowns each way." in shown
    assert "Tides" in shown

    def check(inside: list[Node]) -> None:
        for node in inside:
            if "text" not in node:
                check(node["children"])
            elif node["start"] >= 0 and node["text"] != "*":
                assert MARKED[node["start"] :].startswith(node["text"])

    check(nodes)
    latex = "The pump\\index{pump} runs\\label{sec:run} at night.\n"
    assert read(parse_blocks(latex, kind="text")).strip() == "The pump runs at night."


def test_numbers_base64_and_code_are_no_language():
    random.seed(1)
    names = [
        "Freetown",
        "Kenema",
        "Makeni",
        "Koidu",
        "Bonthe",
        "Kambia",
        "Pujehun",
        "Moyamba",
        "Tonkolili",
        "Kailahun",
    ]
    rows = "\n".join(
        f"{name}  {random.random():.3f}  {random.randrange(9999)}  n/a" for name in names * 30
    )
    picture = base64.b64encode(random.randbytes(3_000)).decode()
    german = TEXTS["de"] * 3
    assert document_language(rows) == "en"
    assert document_language(f"![Karte](data:image/png;base64,{picture})", "markdown") == "en"
    assert (
        document_language(
            f"{german}\n\n![Karte](data:image/png;base64,{picture})\n\n{german}", "markdown"
        )
        == "de"
    )
    assert (
        document_language(
            f"{german}\n\n```\n{'if the x and that y: return with this ' * 40}\n```\n"
        )
        == "de"
    )


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("es", ["El alquiler lo paga la Sra. Gómez en la Avda. Marina."]),
        ("es", ["Son aprox. 20 metros según el señor Pérez.", "La señora Gómez lo sabe."]),
        (
            "de",
            [
                "Der 2. Vorsitzende des Vereins fährt gern am 30. September nach Süden zurück.",
                "Die 3. Mahnung ist spät.",
            ],
        ),
        ("de", ["Das Gerüst der Kirche steht bis zum 30.", "Das wäre für alle zu spät."]),
        ("de", ["Die Schlüssel gehören Hrn. Krämer von der Fa. Björn Grün in Süderhafen."]),
    ],
)
def test_short_texts_are_cut_by_the_rules_of_their_language(language, sentences):
    text = " ".join(sentences)
    assert (document_language(text), parts(text)) == (language, sentences)
