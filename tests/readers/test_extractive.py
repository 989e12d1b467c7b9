import re
from dataclasses import replace

import pytest

from lmkrag import Document, Engine
from lmkrag.readers.extractive import (
    INTRODUCTIONS,
    NOT_FOUND,
    ExtractiveReader,
    cite_read,
    cite_sentence,
    find_words,
)
from lmkrag.readers.quotes import write_quotes
from lmkrag.readers.values import complete_value
from lmkrag.results import COVERAGE, Quote, Span, weigh_evidence
from lmkrag.types import Hit

TEXT = "The lamp is lit at dusk. Nobody may trim the wick before midnight."


def make_span(*hits: Hit, text: str = TEXT, start: int = 100) -> Span:
    return Span("a.md", "/a.md", start, start + len(text), text, 1.0, None, hits, coverage=0.8)


def hit(start: int, end: int, score: float, dense: float = 0.6) -> Hit:
    return Hit(1, "a.md", 0, start, end, score, dense, 0.0)


def test_the_best_sentence_is_quoted_with_its_exact_passage():
    span = make_span(hit(125, 166, 1.0), hit(100, 125, 0.5))
    answer = ExtractiveReader().answer("May anybody trim the wick?", [span])
    (citation,) = answer.citations
    assert answer.found
    assert citation.quote == "Nobody may trim the wick before midnight."
    assert span.text[citation.start - span.start : citation.end - span.start] == citation.quote
    assert answer.text.splitlines()[-1] == f"> {TEXT} [1]"


def test_a_sentence_that_a_budget_cut_is_quoted_as_far_as_it_is_there():
    span = make_span(hit(125, 166, 1.0), text=TEXT[:45])
    (citation,) = ExtractiveReader().answer("May anybody trim the wick?", [span]).citations
    assert citation.quote in TEXT[:45]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (
            "What's the deposit for the sail loft?",
            "The sail loft is let from May to September. *A deposit of 80 euros is left with the office, "
            "which gives it back when the floor has been swept and the key has been returned.*",
        ),
        (
            "How many wooden posts did we order for the lawn at the quay?",
            "The lawn isn't ours: it belongs to the port, which won't have posts there because of the gas main. "
            "It would agree to wooden posts no deeper than 30 cm. *The club has ordered fourteen of these and "
            "Mr Dunn will set them up in the last week of July, if the weather lets him.*",
        ),
    ],
)
def test_a_long_sentence_with_the_value_is_marked_before_a_short_one_on_the_subject(question, text):
    _, marked, _ = text.split("*")
    text = text.replace("*", "")
    (citation,) = ExtractiveReader().answer(question, [make_span(text=text)]).citations
    assert citation.quote == marked


def test_nothing_to_answer_from_is_not_found():
    answer = ExtractiveReader().answer("When?", [])
    assert (answer.found, answer.text, answer.citations) == (False, NOT_FOUND, ())
    assert answer.confidence == 0.0


LIST = "To open the door by hand:\n\n1. Close valve H3.\n2. Turn the crank left.\n\nThen secure it with chains."


def quote(text: str, piece: str) -> list[str]:
    """What is quoted of a span for a question in the words of the sentence that begins so."""
    start = text.index(piece)
    end = min(
        (text.index(stop, start) + 1 for stop in ".?:" if stop in text[start:]), default=len(text)
    )
    span = make_span(hit(start, end, 1.0), text=text, start=0)
    answer = ExtractiveReader().answer(text[start:end], [span])
    return [citation.quote for citation in answer.citations]


def test_a_colon_is_quoted_with_its_list():
    text = LIST.replace("To open the door by hand:", "Two steps open the door by hand:")
    cited = cite_sentence(1, make_span(text=text, start=0), 0, text.index("1."))
    assert cited.quote == text[: text.index("\n\nThen")]


def test_a_question_is_no_answer_but_what_follows_is():
    text = "Can I bring my dog?\n\nYes, on a lead. Cats stay at home."
    assert quote(text, "Can I") == ["Yes, on a lead."]
    assert quote("Can I bring my dog?", "Can I") == []


@pytest.mark.parametrize("said", ["Ann: When does the ferry leave?", "Bob: At seven."])
def test_a_question_in_a_dialogue_is_quoted_with_its_reply(said):
    text = "Bob: It is late.\nAnn: When does the ferry leave?\nBob: At seven."
    start = text.index(said)
    cited = cite_sentence(1, make_span(text=text, start=0), start, start + len(said))
    assert cited.quote == text[text.index("Ann:") :]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("The winch cost 1,450,000 euros.", "What cost 1,450,000 euros?"),
        (
            "Moorings by pier\nEast 5\nWest 9\nQuay 1 3\nQuay 2 7",
            "How many moorings does Quay 1 have?",
        ),
        ("The ferry takes 40 minutes.", "Does the ferry take 40 minutes?"),
        ("The ferry takes 40 minutes.", "How long does the ferry take and who steers it?"),
        (
            "The warranty lasts 24 months; for spare parts it lasts 6 months.",
            "How long does the warranty for spare parts last?",
        ),
    ],
)
def test_what_is_no_short_answer(encoder, tmp_path, text, question):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(Document("note.md", "note.md", f"# Note\n\n{text}\n", kind="markdown"))
        assert engine.ask(question).short == ()


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("How long does the ferry take?", ["40 minutes"]),
        ("How long does the bus take?", []),
    ],
)
def test_no_short_answer_from_a_passage_without_a_name_of_the_question(
    encoder, tmp_path, question, value
):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(
            Document(
                "note.md", "note.md", "# Note\n\nThe ferry takes 40 minutes.\n", kind="markdown"
            )
        )
        assert [short.text for short in engine.ask(question).short] == value


def test_a_row_of_a_table_is_no_heading():
    spans = [
        replace(make_span(hit(100, 125, 1.0)), headings=(heading,), score=1.0)
        for heading in ("Lamp", "when | where |")
    ]
    first, second = (ExtractiveReader().answer("When is the lamp lit?", [span]) for span in spans)
    assert "Lamp\n" in first.text and "|" not in second.text


def quote_passage(text: str, kind: str) -> str:
    """What an answer shows of a passage, without its introduction and number."""
    span = replace(make_span(hit(0, 9, 1.0), text=text, start=0), kind=kind, coverage=1.0)
    answer = ExtractiveReader().answer("When is the lamp lit?", [span])
    has_introduction = answer.short or answer.label != "strong"
    shown = answer.text.partition("\n\n")[2] if has_introduction else answer.text
    lines = shown.removesuffix("[1]").removesuffix(" ").split("\n")
    assert all(re.match("> |>$", line) for line in lines)
    return "\n".join(line[2:] for line in lines)


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        (
            "markdown",
            "<!-- old -->\n\n# Lamps\n\nIt is lit at **dusk**, see\n[the rules](https://a.example/r) or [more](#more).",
            "Lamps\n\nIt is lit at dusk, see\nthe rules (https://a.example/r) or more.",
        ),
        ("markdown", "Lamps\n=====\nthe lamp is lit at dusk.", "Lamps\nthe lamp is lit at dusk."),
        (
            "markdown",
            "> [!NOTE]\n> Lit at dusk. See [the rota][rota].",
            "Lit at dusk. See the rota.",
        ),
        ("markdown", "```\nlamp = a[0][1] ** 2\n# dusk\n```", "lamp = a[0][1] ** 2\n# dusk\n"),
        (
            "rst",
            "When is the lamp of the northern pier lit?\n~~~~~~~~~~\n\nAt dusk.",
            "When is the lamp of the northern pier lit?\n\nAt dusk.",
        ),
        (
            "rst",
            "Lamps\n~~~~~\n\nThe lamp of the northern pier is always lit at\ndusk.",
            "Lamps\n\nThe lamp of the northern pier is always lit at dusk.",
        ),
        (
            "text",
            "is lit\nat dusk, when the keeper has climbed the stairs",
            "is lit at dusk, when the keeper has climbed the stairs",
        ),
        (
            "pdf",
            "• The lamp is lit at dusk by one of the keepers,\n  who climbs the stairs\n• The horn sounds in fog",
            "• The lamp is lit at dusk by one of the keepers, who climbs the stairs\n• The horn sounds in fog",
        ),
        (
            "pdf",
            "”^47 The lamp is lit.^48 It costs 10^3 euros.",
            "The lamp is lit. It costs 10^3 euros.",
        ),
        (
            "markdown",
            "## When is the lamp of the northern pier lit?\nIt is lit at dusk. `te**ne` matches **both** of `a**b`.",
            "When is the lamp of the northern pier lit?\nIt is lit at dusk. `te**ne` matches both of `a**b`.",
        ),
        (
            "rst",
            ".. _lamps:\n\nLamps\n~~~~~\n\nSee :ref:`the rota <rota>` and :option:`--dusk`.\n\n"
            "1 Hour\n    The lamp of the northern pier is always lit at\n    dusk.\n2 Hours\n    It is dark.",
            "Lamps\n\nSee the rota and --dusk.\n\n"
            "1 Hour\nThe lamp of the northern pier is always lit at dusk.\n\n2 Hours\nIt is dark.",
        ),
        (
            "rst",
            "Light it::\n\n    lamp --at dusk\n      --for 2",
            "Light it:\n\nlamp --at dusk\n  --for 2\n",
        ),
    ],
)
def test_a_quotation_reads_as_plain_text(kind, text, shown):
    assert quote_passage(text, kind) == shown


def test_a_table_of_contents_is_no_answer():
    text = "Fog and wind ........ 12\nLoading ........ 9"
    span = make_span(hit(0, 24, 1.0), text=text, start=0)
    assert ExtractiveReader().answer("What about fog?", [span]).found is False


def test_the_evidence_of_passages():
    near = make_span(hit(100, 125, 1.0, dense=0.05))
    assert weigh_evidence([replace(near, coverage=0.5)]) == pytest.approx(0.05 + COVERAGE / 2)


def test_a_question_of_how_or_why_has_no_short_answer():
    text = "To open the hatch, turn the crank to the left until it clicks. Then push."
    span = make_span(hit(100, 162, 1.0), text=text)
    assert ExtractiveReader().answer("How do I open the hatch?", [span]).short == ()


def test_an_hour_in_words_may_be_a_value():
    text = "The signs come first. The ferry leaves at seven sharp. Dogs travel free."
    span = make_span(hit(122, 153, 1.0), text=text)
    (read,) = ExtractiveReader().read("when does the ferry leave?", [span])
    words = find_words(read, next(cite_read([read])))
    assert "seven" in text[words.start : words.end]


def test_a_weak_answer_says_so_and_shows_one_sentence():
    near = replace(make_span(hit(100, 125, 1.0, dense=0.1)), coverage=0.2)
    answer = ExtractiveReader().answer("Who sold the painting of the bridge?", [near, near, near])
    assert (answer.found, answer.label) == (False, "weak")
    (citation,) = answer.citations
    assert answer.text == f"{INTRODUCTIONS['weak']}\n\n> {citation.quote} [1]"
    assert citation.quote in TEXT and citation.quote != TEXT


def test_a_list_is_quoted_up_to_twelve_items():
    items = "".join(f"{number}. Turn valve {number} to the left.\n" for number in range(1, 21))
    introduction = "To open the door:\n\n"
    span = make_span(text=introduction + items, start=0)
    citation = cite_sentence(1, span, 0, len(introduction))
    assert citation.quote.endswith("12. Turn valve 12 to the left.")


@pytest.mark.parametrize(
    ("text", "question", "value"),
    [
        (
            "Guides get 28 days of leave, pilots 32 days, and cooks 30 days.",
            "How many days of leave do cooks get?",
            "30 days",
        ),
        (
            "Guides get 28 days of leave, pilots 32 days, and cooks 30 days.",
            "How many days of leave do guides get?",
            "28 days",
        ),
        (
            "Pilots get 31 days of leave, cooks 27 days, and guides 22 days.",
            "How many days of leave do cooks get?",
            "27 days",
        ),
        (
            "The gate has 40 seats, the pier has 35 seats.",
            "How many seats does the pier have?",
            "35 seats",
        ),
        (
            "The toll is 12 euros for cars, 30 euros for lorries.",
            "How much is the toll for lorries?",
            "30 euros",
        ),
        (
            "The ferry leaves Cork at 7:30 and returns at 18:00.",
            "When does the ferry return?",
            "18:00",
        ),
        (
            "The toll for the bridge is 3 175 euros a year.",
            "How much is the toll for the bridge?",
            "3 175 euros",
        ),
        ("The toll is 3 175 euros.", "What is the toll in euros?", "3 175 euros"),
        (
            "The toll rose by 3.1 percentage points.",
            "By how much did the toll rise?",
            "3.1 percentage points",
        ),
        (
            "The fund has US$ 60,000 for pilots.",
            "How much does the fund have for pilots?",
            "US$ 60,000",
        ),
        (
            "The fund has 2.5 million euros for pilots.",
            "How much does the fund have?",
            "2.5 million euros",
        ),
        (
            "The harbour keeps 40 % of the toll.",
            "What share of the toll does the harbour keep?",
            "40 %",
        ),
        (
            "The harbour was opened in 1908 plus or minus a year.",
            "In which year was the harbour opened?",
            "1908",
        ),
        ("The ferry leaves at 7:30 am from Cork.", "When does the ferry leave Cork?", "at 7:30 am"),
        (
            "Ola Brandt went ashore. Ola's lamp was never lit again.",
            "Whose lamp was never lit again?",
            "Ola Brandt",
        ),
        (
            "The flight to Lisbon leaves from terminal 3.",
            "Which terminal does the flight to Lisbon use?",
            "terminal 3",
        ),
        (
            "The harbour has a pool of up to 15 pilots.",
            "How many pilots does the harbour have?",
            "15 pilots",
        ),
        (
            "The keepers are trained in Skerry by the pilots.",
            "In which town are the keepers trained?",
            "Skerry",
        ),
        (
            "The lease has the contract number QN-5502 since 2019.",
            "What is the contract number?",
            "QN-5502",
        ),
        (
            "The parcel is kept at the pier for up to a day.",
            "How long is the parcel kept?",
            "up to a day",
        ),
    ],
)
def test_of_several_values_only_that_of_the_subject_is_a_short_answer(
    encoder, tmp_path, text, question, value
):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(Document("note.md", "note.md", f"# Note\n\n{text}\n", kind="markdown"))
        answer = engine.ask(question)
        for short in answer.short:
            assert short.text == engine.read("note.md")[short.start : short.end] == value


@pytest.mark.parametrize("question", ["Who?", "灯台はいつ建てられたか", "qzxv wqpt", "?"])
def test_a_question_that_can_not_be_read_has_no_answer(encoder, tmp_path, question):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(Document("a.md", "a.md", TEXT))
        answer = engine.ask(question)
        assert (answer.label, answer.found) == ("weak", False)


@pytest.mark.parametrize(
    ("text", "found", "whole"),
    [
        ("The toll is 3 175 euros.", "175", "3 175 euros"),
        ("The toll rose by 3.1 percentage points.", "3.1", "3.1 percentage points"),
        ("The fund has US$ 60,000 for pilots.", "60,000", "US$ 60,000"),
        ("The fund has 2.5 million euros.", "2.5", "2.5 million euros"),
        ("The harbour keeps 40 % of the toll.", "40", "40 %"),
        ("The ferry leaves at 7:30 am from Cork.", "7:30", "7:30 am"),
        ("Ola Brandt went ashore.", "Ola", "Ola Brandt"),
        ("The contract is QN-5502 since 2019.", "5502", "QN-5502"),
        ("The pool (of 15 pilots) is small.", "15", "15 pilots"),
        ("It was opened in 1908, in May.", "1908,", "1908"),
        ("It was opened in 1908 plus or minus a year.", "1908", "1908"),
        ("The lamp is lit.", "lamp", "lamp"),
        (
            "Date: April 9, 2023 | Id: 63874 | Paid: 18",
            "April 9, 2023 | Id: 63874",
            "April 9, 2023",
        ),
        ("Web page: list (https://a.example/b) | Days: 3", "list", "list (https://a.example/b)"),
    ],
)
def test_a_value_is_whole(text, found, whole):
    start = text.index(found)
    start, end = complete_value(text, start, start + len(found))
    assert text[start:end] == whole


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Present: H. Quill (chair), Mrs Tanaka, Mr Olufsen\nApologies: Mr Bruns", 2),
        ("Present: H. Quill (chair), Mrs Tanaka, Mr Olufsen\nApologies:\nMr Bruns", 3),
        ("RRULE: FREQ=WEEKLY;BYDAY=TU;UNTIL=20261231T000000Z\nSUMMARY: Choir practice", 2),
        (
            "[12/03/2025, 10:31] Mira: the boat leaves from the north pier\n[12/03/2025, 10:32] Jon: no",
            2,
        ),
        (
            "12.03.25, 10:31 - Mira: the boat leaves from the north pier\n12.03.25, 10:32 - Jon: no",
            2,
        ),
        (
            "Article 43499: the keeper trims the wick of the lamp each night.\nArticle 43500: the lamp is lit at dusk.",
            2,
        ),
        (
            "Apologies: Mr Bruns, who has the watch on the pier that\nnight and cannot come: the storm is near",
            1,
        ),
        (
            "The boat leaves at the hours that the harbour master sets,\nwhich are these: six and nine",
            1,
        ),
    ],
    ids=["label", "label alone", "calendar", "chat", "stamps", "articles", "wrapped", "colon"],
)
def test_lines_with_labels_or_times_are_not_run_into_one(text, count):
    quoted = write_quotes([Quote(1, 0, len(text), "", "")], [make_span(text=text, start=0)])
    lines = [line.removeprefix("> ") for line in quoted]
    assert len(lines) == count and " ".join(lines) == " ".join(text.split()) + " [1]"
