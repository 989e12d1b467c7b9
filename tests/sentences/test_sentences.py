from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk import redos

from lmkrag.sentences import split as sentences_module
from lmkrag.sentences.prose import find_starts
from lmkrag.sentences.split import MAX_CHARS, split_sentences

HOSTILE = st.text(
    alphabet=st.one_of(
        st.characters(),
        st.sampled_from(list(" \t\n\r\f.!?。！？…:;|-#*`~=\"'()[]0aA1一\u200b\u202e\u0301\ufeff")),
    ),
    max_size=400,
)


def parts(text: str, **how) -> list[str]:
    return [text[s.start : s.end].strip() for s in split_sentences(text, **how)]


def assert_tiles(text: str, sentences) -> None:
    assert "".join(text[s.start : s.end] for s in sentences) == text
    assert all(left.end == right.start for left, right in pairwise(sentences))
    assert all(s.start < s.end for s in sentences)
    assert all(s.end - s.start <= MAX_CHARS + 1 or text[s.start : s.end].strip() for s in sentences)


@given(HOSTILE)
@settings(max_examples=200, deadline=None)
def test_sentences_tile_any_text(text):
    assert_tiles(text, split_sentences(text))


@given(HOSTILE)
@settings(max_examples=80, deadline=None)
def test_code_tiles_any_text(text):
    assert_tiles(text, split_sentences(text, kind="code"))


@given(HOSTILE, st.integers(1, 50))
@settings(max_examples=80, deadline=None)
def test_where_sections_end_makes_no_difference(text, section):
    whole = split_sentences(text), split_sentences(text, kind="code")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentences_module, "_SECTION", section)
        assert (split_sentences(text), split_sentences(text, kind="code")) == whole


@pytest.mark.parametrize(
    "unit", ["one line without a stop\n", "```\ncode\n", "word ", "\n", "\r\n"]
)
def test_blocks_without_end_are_cut(unit, monkeypatch):
    monkeypatch.setattr(sentences_module, "_LONGEST_BLOCK", 3_000)
    monkeypatch.setattr(sentences_module, "_LONGEST_LINE", 1_000)
    text = unit * (100_000 // len(unit))
    held: list[int] = []
    for start, block, _ in sentences_module._blocks(sentences_module._lines(text)):
        held.append(len(block))
        assert text.startswith(block, start)
    assert sum(held) == len(text)
    assert max(held) <= 4_000 + len(unit)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("Hi there", ["Hi there"], id="no-full-stop"),
        pytest.param(
            "Dr. Hale left. Mr. Roe stayed.", ["Dr. Hale left.", "Mr. Roe stayed."], id="titles"
        ),
        pytest.param(
            "J. R. R. Tolkien wrote it. We read it.",
            ["J. R. R. Tolkien wrote it.", "We read it."],
            id="initials",
        ),
        pytest.param(
            "It costs 3.50 now. Buy it.", ["It costs 3.50 now.", "Buy it."], id="decimals"
        ),
        pytest.param(
            "See https://a.b/c?d=1. Then go.", ["See https://a.b/c?d=1.", "Then go."], id="urls"
        ),
        pytest.param(
            "Use e.g. tar. See Fig. 3 there.",
            ["Use e.g. tar.", "See Fig. 3 there."],
            id="abbreviations",
        ),
        pytest.param('"Why?" she asked. He left.', ['"Why?" she asked.', "He left."], id="quotes"),
        pytest.param(
            'He said "No." Then he left.', ['He said "No."', "Then he left."], id="quoted-end"
        ),
        pytest.param(
            "It is No. 5 there. We said no. They left.",
            ["It is No. 5 there.", "We said no.", "They left."],
            id="no",
        ),
        pytest.param(
            "Contract no. HX-4471 is valid. See Nr. B22, ref. AB/7. We said no. B is right.",
            [
                "Contract no. HX-4471 is valid.",
                "See Nr. B22, ref. AB/7.",
                "We said no.",
                "B is right.",
            ],
            id="no-before-a-code",
        ),
        pytest.param(
            "Call tel. +44 20 7946 or pay max. €45. Tel.: 7181. See it. :ref:`More` is there.",
            [
                "Call tel. +44 20 7946 or pay max. €45.",
                "Tel.: 7181.",
                "See it.",
                ":ref:`More` is there.",
            ],
            id="figures-with-a-sign",
        ),
        pytest.param(
            "Tel. No. 7181 is that of Rm. B12. Reg. No. HX-4 ended. It is red. No. 5 is blue.",
            [
                "Tel. No. 7181 is that of Rm. B12.",
                "Reg. No. HX-4 ended.",
                "It is red.",
                "No. 5 is blue.",
            ],
            id="labels-of-numbers",
        ),
        pytest.param(
            "See ![a pump](p.png) there. Go!", ["See ![a pump](p.png) there.", "Go!"], id="image"
        ),
        pytest.param("Well... he paused. Go on!", ["Well... he paused.", "Go on!"], id="ellipsis"),
        pytest.param(
            "これは文です。二つ目！三つ目？", ["これは文です。", "二つ目！", "三つ目？"], id="cjk"
        ),
        pytest.param("他说：“好。”然后走了。", ["他说：“好。”", "然后走了。"], id="cjk-quote"),
        pytest.param("यह पहला है। यह दूसरा है।", ["यह पहला है।", "यह दूसरा है।"], id="hindi"),
        pytest.param("هل هذا سؤال؟ نعم هذا جواب.", ["هل هذا سؤال؟", "نعم هذا جواب."], id="arabic"),
        pytest.param("یہ پہلا ہے۔ یہ دوسرا ہے۔", ["یہ پہلا ہے۔", "یہ دوسرا ہے۔"], id="urdu"),
        pytest.param(
            f"{'ก' * 90} {'ข' * 30} {'ค' * 60}", ["ก" * 90, f"{'ข' * 30} {'ค' * 60}"], id="thai"
        ),
        pytest.param("# Title\nText here.", ["# Title", "Text here."], id="heading"),
        pytest.param("Title\n=====\nText here.", ["Title\n=====", "Text here."], id="underlined"),
        pytest.param(
            "A ~~ B\n~~~~~~\nOne. Two.",
            ["A ~~ B\n~~~~~~", "One.", "Two."],
            id="underlined-by-tildes",
        ),
        pytest.param(
            "Title\n`````\nOne. Two.",
            ["Title\n`````", "One.", "Two."],
            id="underlined-by-backticks",
        ),
        pytest.param(
            "So, this:\n~~~~\nx. y.\n~~~~\n",
            ["So, this:", "~~~~\nx. y.\n~~~~"],
            id="fence-of-tildes",
        ),
        pytest.param("First\n\nSecond", ["First", "Second"], id="blank-line"),
        pytest.param("First\r\n\r\nSecond", ["First", "Second"], id="blank-crlf"),
        pytest.param("First\r\rSecond", ["First", "Second"], id="blank-cr"),
        pytest.param("- one\n- two\n- three", ["- one", "- two", "- three"], id="items"),
        pytest.param("1. Do this\n2. Do that", ["1. Do this", "2. Do that"], id="numbered"),
        pytest.param("| a | b |\n| c | d |", ["| a | b |", "| c | d |"], id="table"),
        pytest.param("Ann Lee: Hello.\nBob: Yes.", ["Ann Lee: Hello.", "Bob: Yes."], id="turns"),
        pytest.param(
            "a line that is wrapped by\nsomeone's editor. And another\nsentence that is wrapped.",
            [
                "a line that is wrapped by\nsomeone's editor.",
                "And another\nsentence that is wrapped.",
            ],
            id="hard-wrapped",
        ),
        pytest.param(
            "Intro:\n```\nx = 1\ny = 2\n```\nAfter.",
            ["Intro:", "```\nx = 1\ny = 2\n```", "After."],
            id="fence",
        ),
    ],
)
def test_boundaries(text, expected):
    assert parts(text) == expected


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        pytest.param(
            "Dr. Hale paid. Then she left.", ["Dr. Hale paid.", "Then she left."], id="abbreviation"
        ),
        pytest.param(
            "J. Bach left. A. went, too.", ["J. Bach left.", "A. went, too."], id="initial"
        ),
        pytest.param(
            "It was 5. of May. It rained.", ["It was 5. of May.", "It rained."], id="ordinal"
        ),
        pytest.param(
            'He said "Go." Then (why?) he left.',
            ['He said "Go."', "Then (why?)", "he left."],
            id="closing",
        ),
        pytest.param(
            "They sell **rope, tar etc.**  and more. Ask.",
            ["They sell **rope, tar etc.**  and more.", "Ask."],
            id="bold words before two spaces",
        ),
        pytest.param(
            "It is in [1]_. The rest is not.",
            ["It is in [1]_.", "The rest is not."],
            id="underscore",
        ),
    ],
)
def test_where_sentences_of_prose_begin(text, sentences):
    starts = [*find_starts(text), len(text)]
    assert [text[start:end].strip() for start, end in pairwise(starts)] == sentences
    assert parts(text) == sentences


def test_splitting_has_no_limit_on_time(monkeypatch):
    """NLTK gives a pattern five seconds, in which it counts what all threads take: the encoder's, too."""
    monkeypatch.setattr(redos, "DEFAULT_TIMEOUT", 0.05)
    assert len(split_sentences("Nobody knew. " * 8_000)) == 8_000


@pytest.mark.parametrize(
    "text",
    [
        "# Title\nText.",
        "Title\n=====\nText.",
        "- one\n- two",
        "| a | b |\n| c | d |",
        "```\nx = 1\n```\nText.",
    ],
)
def test_a_byte_order_mark_hides_no_structure(text):
    marked = "\ufeff" + text
    sentences = split_sentences(marked)
    assert_tiles(marked, sentences)
    assert [(s.end - 1, s.kind) for s in sentences] == [
        (s.end, s.kind) for s in split_sentences(text)
    ]


def test_a_rule_of_asciidoc_may_follow_a_long_block():
    text = (
        "= Tides\n\n" + "the sea \n" * 22_223 + "----\ncode\n----\n"
    )  # 200,007 characters without a blank line
    assert_tiles(text, split_sentences(text))


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        pytest.param(
            "lamp(1)\n=======\n\nUSE\n---\n[verse]\nlamp\n\nAt dusk:\n+\n-----------\n$ lamp now\n-----------\n\nIt burns.\n",
            "text",
            "+\n-----------\n$ lamp now\n-----------",
            id="a rule below code ends a block of AsciiDoc",
        ),
        pytest.param(
            "At dusk::\n\n    $ lamp\n\n    $ lamp off\n\nIt burns.\n",
            "rst",
            "$ lamp\n\n    $ lamp off",
            id="two colons announce code",
        ),
        pytest.param(
            "- At dusk:\n\n  .. code-block:: sh\n\n     $ lamp\n\n  It burns.\n",
            "rst",
            ".. code-block:: sh\n\n     $ lamp",
            id="a directive begins a listing",
        ),
        pytest.param("- At dusk::\n\n  It burns.\n", "rst", "", id="text of an item is no code"),
        pytest.param("At dusk::\n\n    It burns.\n", "text", "", id="only in reStructuredText"),
    ],
)
def test_listings(text, kind, code):
    sentences = split_sentences(text, kind=kind)
    assert_tiles(text, sentences)
    listed = [text[s.start : s.end] for s in sentences if s.kind == "code"]
    assert "".join(listed).strip() == code


@pytest.mark.parametrize(
    ("text", "kind", "kinds"),
    [
        ("=head2 How do I sail?\n\nBy wind.\n", "text", ["heading", "text"]),
        (
            "* Noteworthy changes in release 1.2 (2026-11-29)\n\n** Bug fixes\n\n  cp is quiet.\n",
            "text",
            ["heading", "heading", "text"],
        ),
        ("* Changes in Lamp 1.1\n\n* It burns.\n", "text", ["heading", "item"]),
        ("Changes in release 1.1 are many.\n", "text", ["text"]),
        ("* a boat\n** its deck\n", "text", ["item"]),
        (
            "It sails.\n\n.. setting:: SAIL\n\nSAIL\n----\n\nDefault.\n",
            "rst",
            ["text", "metadata", "heading", "text"],
        ),
    ],
    ids=["Perl", "news of GNU", "older news", "prose", "items", "a directive above a heading"],
)
def test_headings_in_the_markup_of_others(text, kind, kinds):
    assert [sentence.kind for sentence in split_sentences(text, kind=kind)] == kinds


def test_kinds_follow_structure():
    text = "# H\n- item\n| a | b |\nTom: hi.\nplain words here\n"
    kinds = {text[s.start : s.end].strip(): s.kind for s in split_sentences(text)}
    assert kinds["# H"] == "heading"
    assert kinds["- item"] == "item"
    assert kinds["| a | b |"] == "row"


def test_a_long_line_is_cut_at_white_space():
    text = "word " * 5_000
    sentences = split_sentences(text)
    assert_tiles(text, sentences)
    assert max(s.end - s.start for s in sentences) <= MAX_CHARS
    assert all(text[s.end - 1] == " " for s in sentences)


def test_one_word_without_end_is_cut_anywhere():
    text = "x" * 1_000_000
    sentences = split_sentences(text)
    assert_tiles(text, sentences)
    assert max(s.end - s.start for s in sentences) <= MAX_CHARS


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("---\ntitle: Ferry\nlayout: a\n---\n\nIt leaves at nine.\n", ["metadata", "text"]),
        (
            "\ufeff---\r\ntitle: Ferry\r\n...\r\n# Ferry\r\nIt leaves.\r\n",
            ["metadata", "heading", "text"],
        ),
        ("---\n\nIt leaves at nine.\n\n---\n", ["text"]),
        ("---\ntitle: never closed\n\nIt leaves at nine.\n", ["text", "text"]),
        ("It leaves.\n\n---\ntitle: Ferry\n---\n", ["text", "heading"]),
        (
            "\\documentclass{book}\n\\begin{document}\n\\section{Ferry}\nIt leaves.\n",
            ["metadata", "heading", "text"],
        ),
        ("= Manual\n\n== Ferry\n\nIt leaves at nine.\n", ["heading", "heading", "text"]),
    ],
)
def test_front_matter_is_no_sentence(text, kinds):
    sentences = split_sentences(text)
    assert "".join(text[s.start : s.end] for s in sentences) == text
    assert [s.kind for s in sentences if text[s.start : s.end].strip(" -\r\n\ufeff")] == kinds


@pytest.mark.parametrize(
    ("text", "records"),
    [
        (
            "---\ntitle: Kestrel\nowner: Ben Marsh\nlayout: page\ntags:\n  - sloop\n  - wood\nrating:\n---\n",
            ["owner: Ben Marsh", "tags:\n  - sloop\n  - wood"],
        ),
        ("+++\ntitle = 'Kestrel'\nberth = 9\n+++\n\nText.\n", ["berth = 9"]),
        ("# Kestrel\n\nowner:: Ben Marsh\n- berth:: 9\n", ["owner:: Ben Marsh", "- berth:: 9"]),
        (
            "# Kestrel\n\nOwner: Ben Marsh\nDue date: June 1\n\nText.\n\nFee: 40\nTax: 8\n",
            ["Owner: Ben Marsh", "Due date: June 1"],
        ),
        ("# Talk\n\nAda: Where is the key?\nBen: In the box.\n", []),
        ("# Talk\n\nAda: The key\nBen: Which one\nAda: The small one\n", []),
        ("# Kestrel\n\nOwner: Ben Marsh\n", []),
    ],
)
def test_a_property_of_a_note_is_a_record(text, records):
    sentences = split_sentences(text, kind="markdown")
    assert_tiles(text, sentences)
    assert [text[s.start : s.end].strip() for s in sentences if s.kind == "record"] == records


def test_each_section_of_settings_is_a_group():
    sections = [
        "# Settings of the doors.\n\n",
        '[server]\nhost = "quay.example"\nport = 8443\n\n',
        "[doors.wood]\n# People carry boards.\nopen_seconds = 15\n",
        "[[doors]]\nrelay = 4\nopen_seconds = 7\n",
    ]
    text = "".join(sections)
    groups = [text[each.start : each.end] for each in split_sentences(text, kind="code")]
    assert groups == sections
    array = "ports = [\n    1,\n]\nnames = names[1:]\n[1, 2]\n"
    assert len(split_sentences(array, kind="code")) == 1


def test_a_picture_is_no_sentence():
    badge = (
        ".. image:: https://ci.example/badge.svg\n   :target: https://ci.example\n   :alt: Build\n"
    )
    text = f"Pump\n====\n\n{badge}\nThe pump has two valves.\n"
    kinds = [
        (each.kind, line)
        for each in split_sentences(text, kind="rst")
        for line in text[each.start : each.end].splitlines()
    ]
    assert {kind for kind, line in kinds if line in badge.splitlines()} == {"metadata"}
    assert ("text", "The pump has two valves.") in kinds
