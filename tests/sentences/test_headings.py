"""Headings without markup: short lines before what they head."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag.sentences.headings import mark_headings
from lmkrag.sentences.split import split_sentences
from lmkrag.specs import SENTENCE_KINDS, Sentence


def headings(text: str) -> list[str]:
    return [text[s.start : s.end].strip() for s in split_sentences(text) if s.kind == "heading"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            "HONEY\n\nBees make it.\n\nWax\n\nIt burns.", ["HONEY", "Wax"], id="blank lines"
        ),
        pytest.param("Bees\nThey live in hives.\nWax\nIt burns slowly.", [], id="no blank lines"),
        pytest.param(
            "BEES\nThey live in hives.\nWORK\nIt burns slowly.", ["BEES", "WORK"], id="capitals"
        ),
        pytest.param(
            "It ends.\n\n\nTHE HIVE.\n\nIt is warm.", ["THE HIVE."], id="capitals and a full stop"
        ),
        pytest.param("Chapter 1. The Hive\n\nIt is warm.", ["Chapter 1. The Hive"], id="a chapter"),
        pytest.param(
            "It ends.\n\nKapitel 2: Der Stock\n\nEr ist warm.",
            ["Kapitel 2: Der Stock"],
            id="ein Kapitel",
        ),
        pytest.param(
            "Section 3 applies to hives.\n\nArticle 4. It is warm.\n\nNow.", [], id="a clause"
        ),
        pytest.param("IV. Of honey\n\nIt is sweet.", ["IV. Of honey"], id="a Roman number"),
        pytest.param(
            'He said so.\n\n"I was there, and\nyou came\n\nto see me."\n\nWe left.',
            [],
            id="a speech",
        ),
        pytest.param("_Ida._\n\nWho is there?\n\n_Ruth._\n\nIt is me.", [], id="a play"),
        pytest.param(
            "HALLA\nCome here.\n\nRUTH\nI will.\n\n" * 3 + "Curtain.",
            ["HALLA", "RUTH"] * 2,
            id="speakers",
        ),
        pytest.param("It was told thus--\n\nA bee came.", [], id="a dash"),
        pytest.param("4. Scheduling and\n\nIt is due.", [], id="cut at the end of the line"),
        pytest.param(
            "www.example.org/hives\n\nBees, 12, 14\n\nWax       4\n\nIt is sold.", [], id="no words"
        ),
        pytest.param(
            "**OR**\n\nTake two.\n\n**Fees**\n\nThey are due.", ["**Fees**"], id="bold words"
        ),
        pytest.param(
            "# Hives\n\nPaint them\n\nThey rot.\n\n2. Nails\n\nThey rust.",
            ["# Hives"],
            id="marked ones",
        ),
        pytest.param(
            "The manual\n\nPart 1\n\nHives\n\nPaint them.",
            ["The manual", "Part 1", "Hives"],
            id="one below the other",
        ),
        pytest.param(
            "It sells.\n\n4.2 Taxes\n\n4.2.1 Taxes are due.", ["4.2 Taxes"], id="numbered"
        ),
        pytest.param("It sells.\n\n**Taxes**\n\nThey are due in May.", ["**Taxes**"], id="bold"),
        pytest.param(
            "2.1. The bees\n\nThey fly.\n\n2.2. The wax\n\nIt melts.",
            ["2.1. The bees", "2.2. The wax"],
            id="numbers with dots",
        ),
        pytest.param(
            "2. Bees\n\n2.1. The wax\n\nIt melts.",
            ["2. Bees", "2.1. The wax"],
            id="numbers of two levels",
        ),
        pytest.param(
            "The hive\n====\n\n1.1. The wax\n\nIt melts.",
            ["The hive\n====", "1.1. The wax"],
            id="one underlined title",
        ),
        pytest.param(
            "1. Who may join?\n\nAll may.\n\n2. When?\n\nIn May.",
            ["1. Who may join?", "2. When?"],
            id="FAQ",
        ),
        pytest.param("* \n****\n\nIt is sold.", [], id="a line of stars"),
        pytest.param(
            "Comments begin with the\n# sign and end with the\nline.",
            [],
            id="a sign within a paragraph",
        ),
        pytest.param(
            "The choices for the roof are\n\nThatch, which is dear.",
            [],
            id="a sentence that goes on",
        ),
        pytest.param(
            "All of the hives (of which some are\n\nThatched ones) rot.",
            [],
            id="an open parenthesis",
        ),
        pytest.param(
            "The wax of a hive can be sold in any of the shops\n\nIt melts.",
            [],
            id="a sentence without a stop",
        ),
        pytest.param(
            "Part II. Bees\n\n1. Wax          12\n2. Honey        15\n\nIt is sold.",
            [],
            id="contents",
        ),
        pytest.param(
            "_Ida_ (_sits down_).\n\nAre you angry?\n\n_Ruth_ (_rises_). I am.",
            [],
            id="a play with directions",
        ),
        pytest.param("How do I join?\n\nSend a card.", ["How do I join?"], id="question"),
        pytest.param(
            "".join(f"CHAPTER {n}\n\nIt rained.\n\n" for n in (1, 2, 3, 4))
            + "What was that?\n\nA bell rang.",
            ["CHAPTER 1", "CHAPTER 2", "CHAPTER 3", "CHAPTER 4"],
            id="a question in a book",
        ),
        pytest.param(
            "§ 3 Haftung\n\nWer ein Boot leiht, haftet.", ["§ 3 Haftung"], id="a section of a law"
        ),
        pytest.param("Dann baut man.\n\n# make install\n\nDas ist alles.", [], id="a command"),
        pytest.param(
            "Note\n\nIt burns.\n\nC:\\bees\n\nIt is a folder.\n\nwax.png\n\nA picture.",
            [],
            id="no titles",
        ),
        pytest.param(
            "1. Bees\n1.1. How do they fly?\n1.2. How do they sleep?\n\nNow.",
            [],
            id="contents with questions",
        ),
        pytest.param(
            "We sell | 2 |\nWax     | 1 |\n-----------\n\nIt melts.", [], id="a rule below a table"
        ),
        pytest.param(
            "It pays.\nAll that we sold\nItem\tMay\tJune\nWax\t4\t1\n",
            [],
            id="a line that goes on above a table",
        ),
        pytest.param("Boats\n- Ida\n- Ruth\n", ["Boats"], id="of a list"),
        pytest.param(
            "Oars by boat\n\n| Ida | four |\n| Ruth | two |\n", ["Oars by boat"], id="of a table"
        ),
        pytest.param("蜂蜜的来源\n\n蜜蜂采集花蜜。", ["蜂蜜的来源"], id="no capitals"),
        pytest.param("Rooms.\r\n\r\nPrices\r\n\r\nThey vary.\r\n", ["Prices"], id="windows"),
        pytest.param("# Hives\n\nPaint them.", ["# Hives"], id="markup"),
        pytest.param(
            "Milk\n\nEggs\n\nFlour\n\nButter\n\nMix it all.", [], id="list without bullets"
        ),
        pytest.param("1. Wash it.\n2. Peel\n3. Bake it well.", [], id="numbered list"),
        pytest.param("We met at the\nTown Hall\nThen we left.", [], id="a sentence over lines"),
        pytest.param("All is well.\n\nYours\n\nRuth", [], id="nothing follows"),
        pytest.param('"Who is there?"\n\nNobody answered.', [], id="someone speaks"),
        pytest.param("He left in May.\nIt rained.\n", [], id="sentences"),
        pytest.param("Ruth: I agree\nIda: So do I.\n", [], id="turns"),
        pytest.param("Fees\n\nfor boats are due.\n\n12 34 56\n\nThat is all.", [], id="figures"),
        pytest.param("So:\n\n" + "Word " * 17 + "\n\nThat is all.", [], id="too long"),
    ],
)
def test_which_lines_are_headings(text, found):
    assert headings(text) == found


def test_slides_have_none_but_their_titles():
    text = "# Ferry\n\nRuth Okafor\n\nIt leaves at nine.\n\nYES\n\nIt does."
    kinds = [sentence.kind for sentence in split_sentences(text, kind="pptx")]
    assert kinds == ["heading", *["text"] * 4]


def test_code_has_none():
    assert {
        s.kind for s in split_sentences("Total\n\nprint(total)\n\nDone\n\nreturn it.", kind="code")
    } == {"code"}


LINES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "Wax\n",
                "Wax\n\n",
                "It burns.\n",
                "It burns. ",
                "4. Wax\n",
                "4.1 Wax\r\n",
                "Why?\n",
                "and so\n\n",
                "\n",
            ]
        ),
        st.sampled_from(SENTENCE_KINDS),
    ),
    max_size=30,
)


@given(LINES)
def test_only_lines_before_what_they_head_are_marked(lines):
    given_kinds = [kind for _, kind in lines]
    sentences = [
        (Sentence(number, number + 1, kind), text) for number, (text, kind) in enumerate(lines)
    ]
    marked = list(mark_headings(sentences))
    assert [(s.start, s.end) for s in marked] == [(s.start, s.end) for s, _ in sentences]
    fresh = [s.kind == "heading" != kind for s, kind in zip(marked, given_kinds, strict=True)]
    assert all(
        s.kind == kind or new for s, kind, new in zip(marked, given_kinds, fresh, strict=True)
    )
    assert not any(all(fresh[first : first + 4]) for first in range(len(fresh) - 3))
    for number in (number for number, new in enumerate(fresh) if new):
        assert given_kinds[number] in ("text", "item")
        following = next(
            (
                kind
                for kind, new in zip(given_kinds[number:], fresh[number:], strict=True)
                if not new
            ),
            None,
        )
        assert following not in (None, "heading")


def test_mark_headings_by_example():
    texts = ["HONEY\n", "Bees make it.\n\n", "How long it keeps\n\n", "For years."]
    assert [s.kind for s in mark_headings((Sentence(0, 0), text) for text in texts)] == [
        "heading",
        "text",
        "heading",
        "text",
    ]


def test_a_long_rule_below_several_lines_underlines_no_title():
    for lines, kinds in (
        (["So you have a disaster.", "2:00 p.m. ET", "-" * 60], ["text", "text"]),
        (["", "2:00 p.m. ET", "-" * 60], ["heading"]),
        (["So you have a disaster.", "Tickets of today", "-" * 16], ["text", "heading"]),
    ):
        text = "\n".join([*lines, "", "It begins late."])
        assert [each.kind for each in split_sentences(text)[:-1]] == kinds


def test_short_titles_of_restructuredtext_have_underlines_and_no_fences():
    text = (
        "FAQ\n~~~\n\nDoes it sail? It does.\n\nFares\n'''''\n\nThey are low.\n\nSo they say\n...\n"
    )
    sentences = split_sentences(text, kind="rst")
    titles = [
        text[each.start : each.end].split("\n")[0] for each in sentences if each.kind == "heading"
    ]
    assert titles == ["FAQ", "Fares"]
    assert "code" not in {each.kind for each in sentences}
    fenced = split_sentences("FAQ\n~~~\nfare()\n~~~\n", kind="markdown")
    assert [each.kind for each in fenced][-1] == "code"


@pytest.mark.parametrize("heading", ["6. USE", "Use", "4.2 Use", "May"])
def test_a_verb_alone_is_a_heading_and_no_line_that_goes_on(heading):
    text = f"5. REPAIRS\n\nThe landlord repairs the roof.\n\n{heading}\n\nNobody paints inside.\n"
    headings = [
        text[each.start : each.end].strip()
        for each in split_sentences(text)
        if each.kind == "heading"
    ]
    assert headings == ["5. REPAIRS", heading]


def test_a_line_that_ends_with_a_verb_goes_on():
    text = "The keys are kept here.\n\nKeys that the keepers may\n\nNobody paints inside.\n"
    assert "heading" not in {each.kind for each in split_sentences(text)}


def test_a_name_below_a_mail_heads_no_mail_that_is_quoted():
    text = "The lorry comes at nine.\n\nPiers\n\nOn Monday, Ruth wrote:\n> It weighs 210 kg.\n"
    assert "heading" not in {each.kind for each in split_sentences(text, kind="mail")}
