"""Passages that say the same with another value: the newer comes first, and that they differ is told."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lmkrag import Document, Engine
from lmkrag.evidence.agreement import compare_passages
from lmkrag.evidence.dating import date_spans
from lmkrag.results import Span

PAIRS = (Path(__file__).parents[1] / "data" / "differences.txt").read_text().splitlines()
ALTERNATIVES = re.compile(r"\{([^|}]*)\|([^}]*)\}")


def read_pair(line: str):
    """Whether two passages really differ, and the passages."""
    titles, _, sentence = line[2:].partition(": ")
    spans = []
    for number, title in enumerate(titles.split(" / ")):
        text = ALTERNATIVES.sub(rf"\{number + 1}", sentence)
        spans.append(Span(f"{number}.md", f"{number}.md", 0, len(text), text, 1.0, title=title))
    return line[0] == "+", spans


def test_nine_in_ten_of_what_is_told_is_a_difference():
    told = []
    for line in PAIRS:
        differs, spans = read_pair(line)
        _, notes = compare_passages("what is it, and who and when?", spans, lambda *_: "")
        if notes:
            told.append(differs)
    real = sum(line[0] == "+" for line in PAIRS)
    assert (real, len(PAIRS) - real) == (80, 104)
    assert sum(told) / len(told) >= 0.9
    assert sum(told) >= 0.9 * real


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    texts = {
        "release-2024.md": "# Release 2024\n\nThe current release needs 4 GB of memory to start.\n",
        "release-2026.md": "# Release 2026\n\nThe current release needs 6 GB of memory to start.\n",
        "north.md": "# North lamp\n\nThe keeper of the lamp works 30 hours a week.\n",
        "south.md": "# South lamp\n\nThe keeper of the lamp works 40 hours a week.\n",
        "first.md": "# Visits\n\nGuests leave the tower at 17:00.\n",
        "second.md": "# Visits, again\n\nThis replaces the notice on Visits.\n\nGuests leave the tower at 18:00.\n",
    }
    with Engine.open(tmp_path_factory.mktemp("agreement") / "index", create=True) as opened:
        opened.add([Document(name, name, text, kind="markdown") for name, text in texts.items()])
        yield opened


def test_the_newer_comes_first_and_both_are_quoted(engine):
    question = "how much memory does the current release need?"
    found = engine.search(question)
    assert [span.doc_id for span in found[:2]] == ["release-2026.md", "release-2024.md"]
    assert [span.superseded_by for span in found[:2]] == ["", "release-2026.md:3"]
    (note,) = found.notes
    assert re.match(
        r"2 documents differ: (6 \(2026\) and 4 \(2024\)|4 \(2024\) and 6 \(2026\)); ", note
    )
    assert "release-2024.md:3 “The current release needs 4 GB of memory to start.”" in note
    (contrast,) = found[0].contrasts
    assert engine.read(found[0].doc_id, contrast.start, contrast.end) == "6"
    assert engine.read(contrast.doc_id, contrast.other_start, contrast.other_end) == "4"
    assert engine.search(question, top_k=1)[0].doc_id == "release-2026.md"
    assert note in engine.ask(question).warnings


def test_an_answer_tells_only_of_what_contradicts_what_it_cites(engine):
    spans = engine.search("how much memory does the current release need?")
    answer = engine.ask("how much memory does the current release need?")
    (contrast,) = spans[0].contrasts
    assert contrast.note in answer.warnings
    lamp = engine.ask("how many hours does the keeper of the north lamp work?")
    elsewhere = replace(lamp, spans=(*lamp.spans, *spans))
    assert contrast.note not in elsewhere.with_notes(spans.notes).warnings
    nearest = replace(answer, warnings=(), confidence=0.1)
    assert contrast.note not in nearest.with_notes(spans.notes).warnings


def test_the_date_of_a_sentence_is_no_second_value(tmp_path):
    old = "# Engine release notes\n\nRelease 14 is the current stable release since March 2024.\n"
    new = (
        "# Engine release notes\n\nRelease 17 is the current stable release since November 2026.\n"
    )
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(
            [
                Document("old.md", text=old, kind="markdown"),
                Document("new.md", text=new, kind="markdown"),
            ]
        )
        for question in ("which release is the current stable one?", "what is the latest release?"):
            found = engine.search(question)
            assert [span.doc_id for span in found] == ["new.md", "old.md"]
            assert (
                found[1].superseded_by == "new.md:3" and "14 (2024) and 17 (2026)" in found.notes[0]
            )


def test_a_question_about_a_year_turns_it_round(engine):
    for question in (
        "how much memory did the release need as of 2024?",
        "memory needed, in the 2024 release",
    ):
        found = engine.search(question)
        assert found[0].doc_id == "release-2024.md" and {span.superseded_by for span in found} == {
            ""
        }


def test_a_text_that_replaces_another_is_newer(engine):
    found = engine.search("when do guests leave the tower?")
    assert found[0].doc_id == "second.md"
    (old,) = (span for span in found if span.doc_id == "first.md")
    assert old.superseded_by.startswith("second.md:")


def test_each_pass_can_be_switched_off(engine, monkeypatch):
    question = "how much memory does the current release need?"
    monkeypatch.setattr("lmkrag.evidence.finder.ORDERING_PASSES", (date_spans,))
    found = engine.search(question)
    assert found.notes == () and {span.superseded_by for span in found} == {""}
    assert {span.date for span in found[:2]} == {"2024", "2026"}
    monkeypatch.setattr("lmkrag.evidence.finder.ORDERING_PASSES", ())
    assert {span.date for span in engine.search(question)} == {""}


def test_different_subjects_are_left_alone(engine):
    found = engine.search("how many hours a week does the keeper of the lamp work?")
    assert found.notes == () and {span.superseded_by for span in found} == {""}


@pytest.mark.parametrize(
    ("names", "differ"),
    [
        (("fees/rules.md", "archive/fees/rules-2019.md"), True),
        (("old/rules.md", "rules.md"), True),
        (("acme/rules.md", "globex/rules.md"), False),  # two customers with a contract of one name
        (("acme.txt", "globex.txt"), False),
        (("room-12.txt", "room-14.txt"), False),
        (("rules-v1.txt", "rules-v2.txt"), True),
    ],
)
def test_files_and_folders_tell_subjects_apart(names, differ):
    spans = [
        Span(
            name,
            name,
            0,
            33,
            f"The deposit is {pay} euros a month.",
            1.0,
            title="" if name[-3:] == "txt" else "Rules",
        )
        for name, pay in zip(names, (900, 800), strict=True)
    ]
    assert bool(compare_passages("what is the deposit?", spans, lambda *_: "")[1]) == differ


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("how much memory does the latest release need?", "release-2026.md"),
        ("how much memory did the previous release need?", "release-2024.md"),
        ("how much memory did the release of 2024 need?", "release-2024.md"),
        ("memory that the release needs in 2026", "release-2026.md"),
    ],
)
def test_the_question_says_which_version_is_meant(engine, question, first):
    found = engine.search(question)
    assert found[0].doc_id == first
    assert {span.superseded_by for span in found if span.doc_id == first} == {""}


def test_an_amendment_is_newer_and_only_what_answers_is_told(tmp_path):
    texts = {
        "agreement.txt": "Service agreement\n\nThe deposit for the hall is 900 euros.\n",
        "second.txt": "Amendment to the agreement, effective 1 July 2026\n\nThe deposit for the hall is 1,200 euros.",
        "tariff 2024.csv": "item,price\nGuest berth a night,22 euros\n",
        "tariff 2025.csv": "item,price\nGuest berth a night,26 euros\n",
    }
    for name, text in texts.items():
        (tmp_path / "docs").mkdir(exist_ok=True)
        (tmp_path / "docs" / name).write_text(text)
    (tmp_path / "docs" / "second.txt").rename(tmp_path / "docs" / "agreement, amendment.txt")
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(tmp_path / "docs")
        found = engine.search("what is the deposit for the hall?", rerank=False)
    assert [span.doc_id for span in found[:2]] == ["agreement, amendment.txt", "agreement.txt"]
    assert found[1].superseded_by.startswith("agreement, amendment.txt")
    (note,) = found.notes  # nothing of berths
    assert re.match(r"2 documents differ: (900 and 1,200 \(2026\)|1,200 \(2026\) and 900); ", note)


@pytest.mark.parametrize(
    ("lead", "told"),
    [
        ("We changed it: the", True),
        ("Correction: the", True),
        ("Wir haben es geändert: the", True),
        ("At the north pier: the", False),
    ],
)
def test_a_sentence_that_begins_as_a_correction_differs_in_its_value_alone(lead, told):
    texts = "The code of the boat house is 1188.", f"{lead} code of the boat house is 4021."
    spans = [
        Span(f"{n}.md", f"{n}.md", 0, len(text), text, 1.0, title="Codes")
        for n, text in enumerate(texts)
    ]
    compared, notes = compare_passages("what is the code of the boat house?", spans, lambda *_: "")
    assert bool(notes) == told
    for span in compared:
        assert [span.text[each.start : each.end] for each in span.contrasts] == [
            span.text[-5:-1]
        ] * told
