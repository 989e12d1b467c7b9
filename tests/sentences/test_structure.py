import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag.sentences.split import split_sentences
from lmkrag.sentences.structure import (
    HEADING,
    LEAD_IN,
    NAVIGATION,
    NO_CONTENT,
    ParagraphTracker,
    StructureTable,
    is_navigation,
)
from lmkrag.sentences.table_rows import add_contexts, is_header, read_record
from lmkrag.specs import Sentence

LONG = "The smoker calms the colony before the lid is lifted, " * 3


def paragraphs(sentences: list[str]) -> list[list[str]]:
    tracker, found = ParagraphTracker(), []
    for sentence in sentences:
        place = tracker.position(sentence, heading=sentence.lstrip().startswith("#"))
        if place == 0:
            found.append([])
        assert place == len(found[-1])
        found[-1].append(sentence)
    return found


def test_a_blank_line_ends_a_paragraph():
    assert paragraphs(["One. ", "Two.\n\n", "Three."]) == [["One. ", "Two.\n\n"], ["Three."]]


@pytest.mark.parametrize("blank", ["\n\n", "\n \t\n", "\r\n\r\n", "\r\r", "\n\n\n\n"])
def test_blank_lines_of_every_kind(blank):
    assert len(paragraphs([f"One.{blank}", "Two."])) == 2


@pytest.mark.parametrize(
    "lead", ["We need:", "我们需要：", "What do we need?", "“What do we need?”", "需要什么？"]
)
def test_what_a_colon_or_a_question_introduces_is_of_its_paragraph(lead):
    assert paragraphs([f"{lead}\n\n", "- smoke\n\n", "- gloves\n"]) == [
        [f"{lead}\n\n", "- smoke\n\n"],
        ["- gloves\n"],
    ]


def test_headings_begin_the_paragraph_they_head():
    assert paragraphs(["One.\n", "# Hive\n\n", "## Lid\n\n\n", "Two.\n\n", "Three."]) == [
        ["One.\n"],
        ["# Hive\n\n", "## Lid\n\n\n", "Two.\n\n"],
        ["Three."],
    ]
    assert paragraphs(["# Hive\n\n", "# Lid"]) == [["# Hive\n\n", "# Lid"]]


def test_wrapped_lines_go_on():
    assert (
        len(
            paragraphs(
                [
                    "A line that is\nwrapped. ",
                    "Its end.\n",
                    "The next line.\n",
                    "Windows.\r\n",
                    "End.",
                ]
            )
        )
        == 1
    )


def test_a_long_line_is_a_paragraph():
    assert paragraphs(["Title\n", LONG, "And then.\n", "Next."]) == [
        ["Title\n", LONG, "And then.\n"],
        ["Next."],
    ]


def test_what_is_long_is_cut_at_the_next_line():
    turns = [f"Ana: turn {number} of the meeting.\n" for number in range(200)]
    found = paragraphs(turns)
    assert len(found) > 5
    assert all(1_000 < len("".join(part)) < 1_050 for part in found[:-1])
    assert len(paragraphs([f"Sentence {number}. " for number in range(200)])) == 1


@given(
    st.lists(
        st.sampled_from(["Aye. ", "No!\n", "So it is.\n\n", "Wrapped\nhere. ", LONG, "\n"])
    ).map("".join)
)
def test_paragraphs_of_any_text_tile_its_sentences(text):
    sentences = [text[s.start : s.end] for s in split_sentences(text)]
    found = paragraphs(sentences)
    assert [sentence for part in found for sentence in part] == sentences
    for part in found[:-1]:
        assert part[-1].endswith("\n")


def test_roles_tell_what_has_content_and_what_leads_on():
    table, tracker = StructureTable(), ParagraphTracker()
    sentences = [
        ("# Hive\n\n", "heading"),
        ("We need:\n\n", "text"),
        ("- smoke\n\n", "item"),
        ("|---|\n\n", "row"),
    ]
    table.add(sentences, tracker)
    table.add([("Is it warm?\n\n", "text"), ("# Lid", "heading")], tracker)
    arrays = table.take(len(table))
    assert arrays["positions"].tolist() == [0, 1, 2, 0, 0, 0]
    assert arrays["roles"].tolist() == [NO_CONTENT | HEADING, LEAD_IN, 0, NO_CONTENT, LEAD_IN, 0]


def test_a_table_is_taken_in_parts():
    table, whole, tracker, other = (
        StructureTable(),
        StructureTable(),
        ParagraphTracker(),
        ParagraphTracker(),
    )
    sentences = [
        ("One. ", "text"),
        ("Two.\n\n", "text"),
        ("# Lid\n\n", "heading"),
        ("Three.", "text"),
    ]
    whole.add(sentences, other)
    table.add(sentences[:3], tracker)
    first = table.take(2)
    table.add(sentences[3:], tracker)
    second = table.take(len(table))
    expected = whole.take(4)
    for name, array in expected.items():
        assert [*first[name], *second[name]] == array.tolist()
        assert first[name].dtype == array.dtype


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Pumps ........ 12\n", True),
        ("3.2 Pumps . . . . . . . xii\n", True),
        ("Pumps ____________ 4", True),
        ("- [Pumps](#pumps)\n", True),
        ("1. [Pumps](pumps.md)\n", True),
        ("  - 1.2. [Pumps](pumps.md)\n", True),
        ("- [Pumps](pumps.md): how they are oiled\n", False),
        ("He waited.... 3 hours later", False),
        ("It took three.... years", False),
        ("- a pump [1]\n", False),
        ("." * 100_000 + "x", False),
        ("_" * 100_000, False),
        ("", False),
    ],
    ids=range(13),
)
def test_entries_of_contents_and_links(line, expected):
    assert is_navigation(line) is expected


def test_a_table_of_contents_is_navigation_entry_by_entry():
    text = (
        "# Contents\n\n1 Pumps and seals 3\n2 Boilers 17\nRotors ....... 21\n\n"
        "# Pumps and seals\n\nA pump has 3 seals, and the rotor turns in 17\nbearings.\n"
    )
    table, tracker = StructureTable(), ParagraphTracker()
    parts = [(text[s.start : s.end], s.kind) for s in split_sentences(text)]
    table.add(parts, tracker)
    roles = table.take(len(parts))["roles"]
    entries = [
        part.strip() for (part, _), role in zip(parts, roles, strict=True) if role & NAVIGATION
    ]
    assert entries == ["# Contents", "1 Pumps and seals 3\n2 Boilers 17", "Rotors ....... 21"]


def test_an_entry_of_contents_that_asks_is_one_sentence():
    text = "- [Who oils it? The mate](#who)\n- [When?](#when)\n"
    parts = [text[s.start : s.end] for s in split_sentences(text, kind="html")]
    assert parts == text.splitlines(keepends=True)


def test_paragraph_tracker_by_example():
    tracker = ParagraphTracker()
    assert [
        tracker.position(sentence)
        for sentence in ("Honey\n", "Bees make it. ", "It keeps.\n\n", "Wax is next.\n")
    ] == [0, 1, 2, 0]
    assert [tracker.position("# Wax\n\n", heading=True), tracker.position("It is next.\n")] == [
        0,
        1,
    ]


def test_is_header_by_example():
    assert (
        is_header(["Years ended", "2022", "2021"]),
        is_header(["Net sales", "8,392", "5,493"]),
    ) == (True, False)


def test_add_contexts_by_example():
    text = "Cash flows\nIn millions\t2022\t2021\nDividends\t40\t35\n"
    rows = [Sentence(0, 11), Sentence(11, 33, "row"), Sentence(33, len(text), "row")]
    assert [(sentence.kind, sentence.context) for sentence in add_contexts(text, rows)] == [
        ("heading", ""),
        ("row", ""),
        ("row", "Cash flows In millions 2022 2021"),
    ]


def test_the_values_of_a_record_are_where_they_begin():
    line = "name:  bolt | stock:   340"
    assert [line[start : start + len(value)] for _, value, start in read_record(line, 0)] == [
        "bolt",
        "340",
    ]
