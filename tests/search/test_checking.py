"""Citations checked later, after any edit: changed figures are never called reworded."""

import contextvars
import json
import random
import threading
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmkrag import Document, Engine
from lmkrag.errors import UsageError
from lmkrag.evidence.checking import check_quotation
from lmkrag.evidence.quotations import Quotation, read_quotations
from lmkrag.reranker.highlights import prune
from lmkrag.system.deadline import DEADLINE, Deadline, RequestEnded

WORDS = (
    "harbour",
    "keeper",
    "lamp",
    "wick",
    "tide",
    "boat",
    "rope",
    "signal",
    "storm",
    "anchor",
    "ledger",
    "chart",
)


def check(quotation, documents):
    """Check against texts by id; every document may hold anything."""
    read = {doc_id: Document(doc_id, text=text) for doc_id, text in documents.items() if text}
    return check_quotation(quotation, read.get, lambda words: list(documents))


def sentence(rng, length=9) -> str:
    return (
        " ".join(rng.choice(WORDS) for _ in range(length)).capitalize()
        + f" {rng.randrange(10**6)}."
    )


@settings(max_examples=150)
@example(seed=7_074, edit="inside")  # the longest words in common are those of another sentence
@example(seed=13_270, edit="inside")
@example(
    seed=23_868, edit="inside"
)  # all of its words stand there, with another sentence's number between them
@given(
    seed=st.integers(0, 10**9),
    edit=st.sampled_from(["before", "after", "wrap", "inside", "remove", "rename"]),
)
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
        assert (
            found.state == ("elsewhere" if edit == "rename" else "moved")
            and found.similarity == 1.0
        )
        assert " ".join(text[found.start : found.end].split()) == sentences[place]
        assert found.doc_id == doc_id
    elif edit == "inside":
        assert found.state == "reworded" and "unheard" in text[found.start : found.end]
    else:
        assert found.state in ("gone", "reworded", "changed") and found.similarity < 1


def test_a_reworded_sentence_is_told_from_one_that_shares_a_piece_of_it():
    elsewhere = "lamp anchor keeper rope ledger anchor stays dry."
    here = "Chart lamp anchor keeper unheard ledger anchor boat tide 5."
    quotation = Quotation(here.replace("unheard", "rope"), "a", 60, 120)
    found = check(quotation, {"a": f"{elsewhere} {here}"})
    assert found.state == "reworded" and f"{elsewhere} {here}"[
        found.start : found.end
    ] == here.rstrip(".")


def test_added_words_do_not_hide_the_place():
    text = "See Section 6.1, “How many Debian distributions are there?” and the index."
    quote = "Section days 6.1, 2024 “How many Debian distributions are there?”"
    found = check(Quotation(quote, "a", 0, 9), {"a": text})
    assert (found.state, found.changes) == ("changed", ("days added", "2024 added"))


LEAVE = "Keepers get 21 days of leave a year. Staff may take up to 5 days of bereavement leave."


@pytest.mark.parametrize(
    ("quote", "label"),
    [
        ("30 days of gym", "gone"),
        ("5 days of gym", "gone"),
        ("at most 5 hours of sailing", "gone"),
        ("30 days of bereavement leave", "changed: 30 for 5"),
        ("22 days of leave", "changed: 22 for 21"),
        ("30 days", "changed: 30 for 21"),
    ],
)
def test_what_shares_only_a_number_and_its_unit_is_gone(quote, label):
    assert check(Quotation(quote), {"leave.md": LEAVE}).label == label


def test_never_the_same_where_the_words_changed():
    text = "The fee is 40 dollars a year."
    quotation = Quotation("The fee is 40 dollars a year.", "a", 0, 29)
    assert check(quotation, {"a": text}).state == "same"
    changed = check(quotation, {"a": text.replace("40", "44")})
    assert changed.label == "changed: 40 for 44" and changed.similarity < 1
    inside = check(Quotation("fee is 4", "a", 4, 12), {"a": text.replace("is 40", "is  40")})
    assert inside.label == "changed: 4 for 40"
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
                Document(
                    "leave.md",
                    "leave.md",
                    "# Leave\n\nLeave is accrued by the month.\nAnn approves it.\n",
                ),
                Document("boats.md", "boats.md", "# Boats\n\nThe rescue boat holds six people.\n"),
            ]
        )
        yield opened


def test_an_engine_checks_answers_spans_json_and_texts(engine):
    spans = engine.search("how many people does the boat hold?", top_k=1)
    answer = engine.ask("how many people does the boat hold?")
    assert [one.state for one in engine.check(spans)] == ["same"]
    assert engine.check(answer)[0].place == "boats.md:3"
    engine.add(
        Document("boats.md", "boats.md", "# Boats\n\nNew.\n\nThe rescue boat holds eight people.\n")
    )
    (changed,) = engine.check(spans)
    assert (changed.state, changed.cited, changed.place) == ("changed", "boats.md", "boats.md:5")
    said = 'It says "Leave is accrued by the month." and “Boats are free of charge for all.”\n> ann approves it\n'
    checks = engine.check(said)
    assert [(one.state, one.doc_id) for one in checks] == [
        ("same", "leave.md"),
        ("gone", ""),
        ("same", "leave.md"),
    ]
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
    evidence.write_text(
        lmkrag("search", "how is leave accrued?", "-k", 2, "--index", index, "--json").stdout
    )
    checked = lmkrag("check", evidence, "--index", index)
    assert checked.returncode == 0
    assert [line.split()[0] for line in checked.stdout.splitlines()] == ["same", "same"]
    (tmp_path / "answer.md").write_text(
        'The handbook says "leave is granted by the postmaster general".\n'
    )
    missing = lmkrag("check", tmp_path / "answer.md", "--index", index, "--json")
    assert missing.returncode == 1
    (one,) = json.loads(missing.stdout)
    assert one["state"] in ("gone", "reworded", "changed")


FEES = """# Fees

The annual fee is 900 euros for each boat. Ann Miller approves it before 3 May 2024. Members may not sell their place.
The pump runs at 5 °C for 20 minutes. The old keeper trims the lamp at dusk and writes the log.

An appeal against a refusal goes to the secretary within fourteen days. It holds 1,250 litres, or 2 480 in winter.

No dogs are allowed on the pier. The pump runs between 10 and 15 times. Deliver by 3 May 2024 to the office.

| Winter storage | 480 euros |

The stay ends on the first day.
"""
FERRY = "The ferry leaves at noon from the old pier every second Tuesday of the month."


@pytest.mark.parametrize(
    ("quote", "label"),
    [
        ("The annual fee is 1,200 euros for each boat.", "changed: 1,200 for 900"),
        ("The annual fee is 90 euros for each boat", "changed: 90 for 900"),
        ("The annual fee is 900 dollars for each boat", "changed: dollars for euros"),
        ("Ben Miller approves it before 3 May 2024", "changed: Ben for Ann"),
        ("Ann Miller approves it before 4 May 2025", "changed: 4 for 3, 2025 for 2024"),
        ("Members may sell their place", "changed: not left out"),
        ("Ann Miller never approves it before 3 May 2024", "changed: never added"),
        ("The pump runs at -5 °C for 20 minutes", "changed: -5 for 5"),
        ("The pump runs at 5 °C for 20 hours", "changed: hours for minutes"),
        ("It holds 250 litres", "changed: 250 for 1,250"),
        (
            "The ferry leaves at noon from the old pier every third Tuesday",
            "changed: third for second",
        ),
        ("or 480 in winter", "changed: 480 for 2 480"),
        ("The annual fee is 900 € for each boat.", "reworded"),
        ("An appeal against a refusal goes to the secretary within 14 days", "reworded"),
        ("It holds 1250 litres", "reworded"),
        ("The old keeper polishes the lamp at dusk", "reworded"),
        ("The ferry leaves at noon from the secretary within fourteen days", "stitched"),
        ("The old keeper trims the lamp within fourteen days", "stitched"),
        ("The ferry leaves at noon from the old pier", "same"),
        ("Nothing of the sort stands in any of them", "gone"),
        ("Dogs are allowed on the pier", "changed: No left out"),
        ("dogs are allowed on the pier", "same"),  # the rest of its sentence is not quoted
        ("The annual fee is 900 euros … approves it before 3 May 2024", "same"),
        ("The annual fee is 900 euros [...] before 4 May 2024", "changed: 4 for 3"),
        ("Members may […] sell their place", "changed: not left out"),
        ("The pump runs between 15 and 10 times", "changed: 10 and left out, and 10 added"),
        ("Deliver by 2024-05-03 to the office", "reworded"),
        ("Deliver by 2024-05-04 to the office", "changed: 2024-05-04 for 3 May 2024"),
        ("The annual fee is €900.00 for each boat.", "reworded"),
        ("[T]he **annual fee** is `900 euros`", "same"),
        ("Winter storage 480 euros", "same"),
        ("Winter storage | 580 euros", "changed: 580 for 480"),
        ("The stay ends on the fifteenth day", "changed: fifteenth for first"),
    ],
)
def test_figures_are_checked_without_mercy(quote, label):
    found = check(Quotation(quote), {"fees.md": FEES, "ferry.txt": FERRY})
    assert found.label == label
    assert found.state != "stitched" or found.place.count(" and ") == 1


def test_a_quotation_from_another_document_than_cited_says_which():
    found = check(
        Quotation("leaves at noon from the old pier", "fees.md", 0, 32),
        {"fees.md": FEES, "ferry": FERRY},
    )
    assert (found.label, found.doc_id) == ("elsewhere: ferry", "ferry")


def test_the_sources_that_a_text_names_are_read():
    said = """It is "nine hundred euros a year"[^fee] and "the ferry leaves at noon" [2]; "members may not sell"
(a.md:3).
> The pump runs at five degrees
> for twenty minutes
> -- b.md

> Another paragraph of it[^2]

- "words over two
  lines of a list" (c.md)

“No source is named”, in a sentence whose only number stands so far behind that it is about something else [2].

[^fee]: fees.md, page 3
[2] [The ferry](ferry.txt#noon)
[^2]: d.md
[^3]: b.md: "from the old pier every second"
"""
    named = {cited.text: cited.reference for cited in read_quotations(said)}
    assert named == {
        "nine hundred euros a year": "fees.md, page 3",
        "the ferry leaves at noon": "ferry.txt#noon",
        "members may not sell": "a.md:3",
        "The pump runs at five degrees\n for twenty minutes": "b.md",
        "Another paragraph of it": "d.md",
        "words over two\n  lines of a list": "c.md",
        "No source is named": "",
        "from the old pier every second": 'b.md: "from the old pier every second"',
    }


def test_named_sources_are_where_quotations_are_looked_for_first(engine):
    said = 'The rules say "the rescue boat holds six people"[^1], and "Leave is accrued by the week" (leave.md:3).\n\n'
    checks = engine.check(said + "[^1]: leave.md, line 3\n")
    assert [one.label for one in checks] == ["elsewhere: boats.md", "changed: week for month"]
    assert [one.cited for one in checks] == ["leave.md", "leave.md"]


def test_lines_of_json_are_read(engine):
    spans = [span.to_dict() for span in engine.search("boat leave", top_k=2)]
    lines = "\n".join(
        json.dumps({"query_id": number, "spans": [span]}) for number, span in enumerate(spans)
    )
    assert [one.state for one in engine.check(lines)] == ["same", "same"]
    assert [one.state for one in engine.check(json.dumps(spans))] == ["same", "same"]
    assert engine.check('{"query": "nothing", "spans": [], "notes": []}') == []


def test_brackets_that_json_cannot_nest_are_text():
    assert read_quotations("[" * 100_000) == []


@pytest.mark.timeout(60)
def test_a_quotation_with_many_ellipses_is_checked_at_once():
    document = Document("lamp.md", text="the lamp is lit " * 60)
    quote = " … ".join(["the lamp"] * 12 + ["is out"])
    assert (
        check_quotation(Quotation(quote, "lamp.md"), lambda _: document, lambda _: []).state
        == "reworded"
    )


@pytest.mark.parametrize("quote", ["The ferry costs … 5 euros", "The ferry costs 12 … in summer"])
def test_an_ellipsis_cuts_no_number(quote):
    document = Document("ferry.md", text="The ferry costs 12.5 euros in summer.")
    check = check_quotation(Quotation(quote, "ferry.md"), lambda _: document, lambda _: [])
    assert check.state not in ("same", "moved")


def test_words_that_are_repeated_endlessly_cost_little():
    rng = random.Random(1)
    text, quoted = (" ".join(rng.choices(("ab", "ba"), k=count)) for count in (20_000, 5_000))
    began = time.process_time()
    assert check(Quotation(quoted), {"a.txt": text}).state in ("gone", "changed", "reworded")
    assert time.process_time() - began < 5.0


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda engine: engine.check('"the keepers may fly a kite"'), id="check"),
        pytest.param(lambda engine: engine.search_many(["leave"] * 2), id="search_many"),
        pytest.param(lambda engine: engine.search("leave", boxes=True), id="boxes"),
        pytest.param(
            lambda engine: engine.score_sentences("leave", "glass-river.txt"), id="score_sentences"
        ),
        pytest.param(lambda _: prune("leave", ["Leave is granted."] * 2), id="prune"),
    ],
)
def test_what_a_client_chooses_the_amount_of_ends_with_its_request(built_index, call):
    def run_late(engine):
        DEADLINE.set(Deadline(time.monotonic(), threading.Event()))
        with pytest.raises(RequestEnded):
            call(engine)

    with Engine.open(built_index) as engine:
        contextvars.copy_context().run(run_late, engine)
        call(engine)  # without a request there is no limit
