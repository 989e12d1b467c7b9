"""Contrasts from small sets: what answers is marked, and what differs from it in one thing does not answer."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmkrag.evaluation.dataset import write_records
from pipelines.train.contrasts.exchange import change_value, exchange, make_unanswerable
from pipelines.train.mined import ANSWERS, NO_ANSWER, NO_SHORT, Passage, read_mined

LAMPS = ("Skerry", "Holm", "Vardo", "Utsira", "Ryvingen", "Fruholmen")
ANSWER = "It was approved by Director Berg in 1892."
OPENING = "The harbour committee met in the old boathouse on the quay in"


def write_set(folder, documents, queries):
    folder.mkdir(parents=True)
    rows = [{"doc_id": name, "title": name, "text": text} for name, text in documents.items()]
    write_records(folder / "docs.jsonl.gz", rows)
    records = [
        {"query_id": str(number), "query": query, "doc_id": name, "spans": [list(span)]}
        for number, (query, name, span) in enumerate(queries)
    ]
    write_records(folder / "queries.jsonl.gz", records)


def write_lines(path, records):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sets with the names that the families take: prose and a table, lists, and alike documents."""
    folder = tmp_path_factory.mktemp("train")
    table = "| Lamp | Watts | Keeper |\n|---|---|---|\n"
    table += "".join(f"| {lamp} | {40 + 7 * i} | Keeper {i} |\n" for i, lamp in enumerate(LAMPS))
    prose = "The lighthouse of Skerry burned in 1890. Its keeper was Anna Moe. The lens came from Paris. "
    text = prose + "Nobody was hurt that night at all. The lamp was lit again in May.\n\n"
    start = text.index("Its keeper was Anna Moe.")
    question = (
        "Who kept the lighthouse of Skerry?",
        "report",
        (start, start + len("Its keeper was Anna Moe.")),
    )
    write_set(folder / "tatqa_text", {"report": text + table}, [question])
    lists = "".join(
        f"The keeper of {lamp} needs these things every day:\n- oil for {lamp}\n- a wick\n- leather\n- a ladder\n\n"
        "Everything else comes by boat. The boat comes on Mondays.\n\n"
        for lamp in LAMPS
    )
    write_set(folder / "faq_headings", {"handbook": lists}, [("oil", "handbook", (0, 10))])
    documents = {lamp: f"It rains in autumn. {ANSWER} Boats pass it." for lamp in LAMPS}
    span = documents["Holm"].index(ANSWER), documents["Holm"].index(ANSWER) + len(ANSWER)
    asked = [(f"The {lamp} lighthouse: Approval", lamp, span) for lamp in LAMPS]
    write_set(folder / "rfcs", documents, asked)
    return folder


@pytest.fixture(scope="module")
def made(data, tmp_path_factory, run_module):
    """The contrasts of all three sets, with some reworded, notes, and questions for those who reword."""
    out = tmp_path_factory.mktemp("contrasts")
    first = out / "first"
    run_module(
        "contrasts.__main__",
        data,
        first,
        "--only",
        "tatqa_text",
        "faq_headings",
        "rfcs",
        "--ask",
        100,
    )
    asked = [json.loads(line) for line in (first / "asked.jsonl").read_text().splitlines()]
    chosen = next(each for each in asked if "/row/" in each["id"])
    reworded = write_lines(
        out / "reworded.jsonl.gz", [{"id": chosen["id"], "question": "How bright is it?"}]
    )
    notes: list[dict[str, Any]] = [
        {
            "group": "minutes",
            "lang": "en",
            "place": f"Minutes of {month}",
            "text": f"{OPENING} {month}. It closed {end}.",
        }
        for month, end in (("May", "at noon"), ("June", "at dusk"))
    ]
    answered = {
        "question": "When did it close in May?",
        "sentence": "It closed at noon.",
        "short": "noon",
    }
    notes[0]["questions"] = [
        answered | {"complete": 1},
        {"question": "Who sang in May?", "sentence": ""},
    ]
    notes[1]["questions"] = []
    german = {"group": "protokoll", "lang": "de", "place": "Mai", "text": "Schluss um zwölf."}
    question = {"question": "Wann war Schluss?", "sentence": "Schluss um zwölf.", "short": "zwölf"}
    notes.append(german | {"questions": [question]})
    options = ["--reworded", reworded, "--notes", write_lines(out / "notes.jsonl.gz", notes)]
    options += ["--language", "en"]
    again = out / "again"
    run_module(
        "contrasts.__main__", data, again, "--only", "tatqa_text", "faq_headings", "rfcs", *options
    )
    return first, again, chosen, asked


def read_short(passage):
    number, start, end = passage.short
    assert passage.labels[number] == ANSWERS
    return passage.sentences[number][start:end]


def test_the_same_seed_makes_the_same(made):
    first, again, *_ = made
    files = sorted(path.name for path in first.glob("*.jsonl.gz"))
    assert files == ["faq_headings-list.jsonl.gz", "rfcs-alike.jsonl.gz", "rfcs-list.jsonl.gz", "rfcs-rows.jsonl.gz",
                     "tatqa_text-rows.jsonl.gz", "tatqa_text.jsonl.gz"]  # fmt: skip
    for name in files:
        assert read_mined(first / name) == read_mined(again / name)


def test_a_question_alone(made):
    question, passages = read_mined(made[0] / "tatqa_text.jsonl.gz")[0]
    assert question == "Who kept the lighthouse of Skerry?"
    assert "Its keeper was Anna Moe. " in passages[0].sentences
    assert passages[0].labels[passages[0].sentences.index("Its keeper was Anna Moe. ")] == ANSWERS
    assert any(not passage.answers for passage in passages)
    for passage in passages[1:]:
        assert not passage.answers or "Its keeper was Anna Moe. " in passage.sentences


def test_rows_are_asked_for_by_name_and_by_value(made):
    mined = read_mined(made[0] / "tatqa_text-rows.jsonl.gz")
    cells = {f"{column} of {lamp}": value for i, lamp in enumerate(LAMPS)
             for column, value in (("Watts", f"{40 + 7 * i}"), ("Keeper", f"Keeper {i}"))}  # fmt: skip
    names = {f"which Lamp has {column} {value}?": lamp for i, lamp in enumerate(LAMPS)
             for column, value in (("Watts", f"{40 + 7 * i}"), ("Keeper", f"Keeper {i}"))}  # fmt: skip
    answered = [each for each in mined if each.passages[0].answers]
    assert len(answered) >= 3
    for question, passages in answered:
        assert read_short(passages[0]) == (cells | names)[question]
        assert not any(passage.answers for passage in passages[1:])
    assert any(question in cells for question, _ in answered)


def test_half_a_list_is_not_complete(made):
    answered = [
        each
        for each in read_mined(made[0] / "faq_headings-list.jsonl.gz")
        if each.passages[0].answers
    ]
    assert answered
    for question, (whole, half, none, *rest) in answered:
        assert (whole.complete, half.complete, none.complete) == (1, 0, -1)
        assert len(whole.sentences) == 5 and len(half.sentences) == 3
        assert question in whole.sentences[0] and question in none.sentences[-1]
        assert not any(passage.answers for passage in (none, *rest))


def test_only_the_place_tells_alike_documents_apart(made):
    for question, passages in read_mined(made[0] / "rfcs-alike.jsonl.gz"):
        answering = [passage for passage in passages if passage.answers]
        if not answering:
            continue  # asked as nothing answers it
        (good,) = answering
        assert good.place in question
        others = [
            passage
            for passage in passages
            if ANSWER + " " in passage.sentences and passage is not good
        ]
        assert len({passage.place for passage in others}) >= 2
        assert all(passage.place not in question for passage in others)


def test_notes_answer_for_themselves(made):
    first, second = read_mined(made[1] / "notes" / "notes.jsonl.gz")
    assert first.question == "When did it close in May?"
    own, other, without = first.passages
    assert (read_short(own), own.complete, own.place) == ("noon", 1, "Minutes of May")
    assert not other.answers and other.place == "Minutes of June"
    assert without.sentences == (f"{OPENING} May. ",) and not without.answers
    assert not any(passage.answers for passage in second.passages)


def test_questions_are_asked_again_in_other_words(made):
    _, again, chosen, asked = made
    ((question, passages),) = read_mined(again / "reworded" / "tatqa_text-rows.jsonl.gz")
    assert question == "How bright is it?"
    original = {
        each.question: each.passages for each in read_mined(again / "tatqa_text-rows.jsonl.gz")
    }
    assert passages == original[chosen["question"]]
    assert all(
        "/list/" in each["id"] or "/row/" in each["id"] or "/alike/" in each["id"] for each in asked
    )
    assert chosen["about"] == "report | columns: Lamp, Watts, Keeper"


def test_a_passage_about_something_else():
    passage = Passage(
        "Bergen", ("Bergen had 12 boats. ", "Oslo sleeps."), (ANSWERS, NO_ANSWER), NO_SHORT
    )
    other = exchange("How many boats had Bergen?", passage, ["Molde"], np.random.default_rng(0))
    assert other is not None
    assert other.place == "Molde" and other.sentences[0].startswith("Molde had ")
    assert "12" not in other.sentences[0] and other.sentences[1] == "Oslo sleeps."
    assert not other.answers
    assert (
        exchange("How many boats are there?", passage, ["Molde"], np.random.default_rng(0)) is None
    )


@pytest.mark.parametrize("value", ["1892", "7", "1,250.5", "XR-20"])
def test_another_value_has_the_form_of_the_first(value):
    for seed in range(20):
        other = change_value(value, np.random.default_rng(seed))
        assert other != value
        assert [c for c in other if not c.isdigit()] == [c for c in value if not c.isdigit()]


def test_a_question_made_unanswerable():
    rng = np.random.default_rng(0)
    texts = ["Anna Berg planted the orchard in 1892, and Ivar Moe the hedge in 1901."]
    assert make_unanswerable("What did Anna Berg plant?", texts, rng) == "What did Ivar Moe plant?"
    assert (
        make_unanswerable("Who planted a tree in 1892?", texts, rng)
        == "Who planted a tree in 1901?"
    )
    assert make_unanswerable("Which tree is the oldest?", texts, rng) == "Which tree is the newest?"
    assert make_unanswerable("why?", texts, rng) is None
    burnt = ["Bergen burned in 1702, Oslo in 1624."]
    assert (
        make_unanswerable("When did Bergen burn?", burnt, np.random.default_rng(0))
        == "When did Oslo burn?"
    )


def test_the_command_runs_from_a_clone():
    command = [sys.executable, "-m", "pipelines.train.contrasts", "--help"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=60)
    assert "--reworded" in done.stdout, done.stderr
