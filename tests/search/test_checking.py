"""Citations checked later: same, moved, reworded or gone, after any edit."""

import json
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmkrag import Document, Engine
from lmkrag.errors import UsageError
from lmkrag.search.checking import Quotation, check_quotation

WORDS = ("harbour", "keeper", "lamp", "wick", "tide", "boat", "rope", "signal", "storm", "anchor", "ledger", "chart")


def check(quotation, documents):
    """Check against texts by id; every document may hold anything."""
    read = {doc_id: Document(doc_id, text=text) for doc_id, text in documents.items() if text}
    return check_quotation(quotation, read.get, lambda words: list(documents))


def sentence(rng, length=9) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(length)).capitalize() + f" {rng.randrange(10**6)}."


@settings(max_examples=500)
@example(seed=7_074, edit="inside")  # the longest words in common are those of another sentence
@example(seed=13_270, edit="inside")
@given(seed=st.integers(0, 10**9), edit=st.sampled_from(["before", "after", "wrap", "inside", "remove", "rename"]))
def test_it_is_right_after_any_edit(seed, edit):
    rng = random.Random(seed)
    sentences = [sentence(rng) for _ in range(12)]
    place = rng.randrange(12)
    text = " ".join(sentences)
    start = text.index(sentences[place])
    quotation = Quotation(sentences[place], "a.txt", start, start + len(sentences[place]))
    doc_id, words = "a.txt", sentences[place].split()
    if edit == "before":
        text = sentence(rng) + " " + text
    elif edit == "after":
        text += " " + sentence(rng)
    elif edit == "wrap":
        text = text.replace(sentences[place], sentences[place].replace(" ", "\n", 3))
    elif edit == "inside":
        words[rng.randrange(1, len(words) - 1)] = "unheard"
        text = text.replace(sentences[place], " ".join(words))
    elif edit == "remove":
        text = text.replace(sentences[place], "")
    else:
        doc_id = "b.txt"
    found = check(quotation, {doc_id: text})
    there = " ".join(sentences[place].split()) in " ".join(text.split())
    if edit == "after":
        assert found.state == "same"
    elif there:
        assert found.state == "moved" and found.similarity == 1.0
        assert " ".join(text[found.start : found.end].split()) == sentences[place]
        assert found.doc_id == doc_id
    elif edit == "inside":
        assert found.state == "reworded" and "unheard" in text[found.start : found.end]
    else:
        assert found.state in ("gone", "reworded") and found.similarity < 1


def test_a_reworded_sentence_is_told_from_one_that_shares_a_piece_of_it():
    elsewhere = "lamp anchor keeper rope ledger anchor stays dry."
    here = "Chart lamp anchor keeper unheard ledger anchor boat tide 5."
    quotation = Quotation(here.replace("unheard", "rope"), "a", 60, 120)
    found = check(quotation, {"a": f"{elsewhere} {here}"})
    assert found.state == "reworded" and f"{elsewhere} {here}"[found.start : found.end] == here.rstrip(".")


def test_never_the_same_where_the_words_changed():
    text = "The fee is 40 dollars a year."
    quotation = Quotation("The fee is 40 dollars a year.", "a", 0, 29)
    assert check(quotation, {"a": text}).state == "same"
    changed = check(quotation, {"a": text.replace("40", "44")})
    assert changed.state == "reworded" and changed.similarity < 1
    inside = check(Quotation("fee is 4", "a", 4, 12), {"a": text.replace("is 40", "is  40")})
    assert inside.state == "reworded"  # 40 is not 4
    assert check(quotation, {}).state == "gone"
    assert check(Quotation("   ", "a", 0, 0), {"a": text}).state == "gone"


def test_of_several_places_the_nearest_counts():
    text = "One rule. " * 20
    found = check(Quotation("One rule.", "a", 101, 110), {"a": text})
    assert found.state == "moved" and found.start == 100


@pytest.fixture
def engine(tmp_path):
    with Engine.open(tmp_path / "index", create=True) as opened:
        opened.add(
            [
                Document("leave.md", "leave.md", "# Leave\n\nLeave is accrued by the month.\nAnn approves it.\n"),
                Document("boats.md", "boats.md", "# Boats\n\nThe rescue boat holds six people.\n"),
            ]
        )
        yield opened


def test_an_engine_checks_answers_spans_json_and_texts(engine):
    spans = engine.search("how many people does the boat hold?", top_k=1)
    answer = engine.ask("how many people does the boat hold?")
    assert [one.state for one in engine.check(spans)] == ["same"]
    assert engine.check(answer)[0].place == "boats.md:3"
    engine.add(Document("boats.md", "boats.md", "# Boats\n\nNew.\n\nThe rescue boat holds eight people.\n"))
    (changed,) = engine.check(spans)
    assert (changed.state, changed.cited, changed.place) == ("reworded", "boats.md", "boats.md:5")
    said = 'It says "Leave is accrued by the month." and “Boats are free of charge for all.”\n> ann approves it\n'
    checks = engine.check(said)
    assert [(one.state, one.doc_id) for one in checks] == [("same", "leave.md"), ("gone", ""), ("same", "leave.md")]
    for said in (
        "»Leave is accrued by the month«",
        "‚Leave is accrued by the month‘",
        "「Leave is accrued by the month」",
    ):
        assert [one.state for one in engine.check(said)] == ["same"]
    assert [one.state for one in engine.check("「休暇は毎月与えられる」")] == ["gone"]
    assert engine.check("Nothing is quoted.") == []
    with pytest.raises(UsageError, match="nothing is cited"):
        engine.check({"a": 1})
    with pytest.raises(UsageError, match="a citation has doc_id"):
        engine.check({"spans": [{"text": "x"}]})


def test_the_command_line_reads_what_it_printed(lmkrag, index, tmp_path):
    evidence = tmp_path / "evidence.json"
    evidence.write_text(lmkrag("search", "how is leave accrued?", "-k", 2, "--index", index, "--json").stdout)
    checked = lmkrag("check", evidence, "--index", index)
    assert checked.returncode == 0
    assert [line.split()[0] for line in checked.stdout.splitlines()] == ["same", "same"]
    (tmp_path / "answer.md").write_text('The handbook says "leave is granted by the postmaster general".\n')
    missing = lmkrag("check", tmp_path / "answer.md", "--index", index, "--json")
    assert missing.returncode == 1
    (one,) = json.loads(missing.stdout)
    assert one["state"] in ("gone", "reworded")
