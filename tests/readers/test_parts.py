from dataclasses import replace

import pytest
from lmkrag.readers.parts import cover_parts, find_parts

from lmkrag import Document, Engine
from lmkrag.results import Span


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Who employs more people, Alder or Borealis?", ("Alder", "Borealis")),
        ("How did Alder Foods compare with the Borealis?", ("Alder Foods", "Borealis")),
        ("What is the difference between R-12 and R-13?", ("R-12", "R-13")),
        ("In what order were the Tern, the Swift and the Gull built?", ("Tern", "Swift", "Gull")),
        ("What was the profit in 2023 and 2022?", ("2023", "2022")),
        ("How did the profit of 2023 compare with the year before?", ("2023", "2022")),
        ("What was first paid in 2020 and then in 2021?", ("2020", "2021")),
        ("How did the profit grow between 2019 and 2023?", ()),
        ("How many people work for Alder Foods?", ()),
        ("Who leads the OSCAL project at NIST?", ()),
        ("Wer beschäftigt mehr, Alder oder Borealis?", ()),
    ],
)
def test_the_parts_of_a_question(question, parts):
    assert find_parts(question) == parts


def make_spans(*texts: str) -> list[Span]:
    return [Span(f"{number}.md", "", 0, len(text), text, 1.0) for number, text in enumerate(texts)]


def test_passages_that_have_what_those_before_lack():
    spans = make_spans(
        "Alder has 30.", "Alder is old.", "Cobalt has 9.", "Borealis has 40.", "Borealis and Alder"
    )
    assert cover_parts(("Alder", "Borealis"), spans) == [0, 3]
    assert cover_parts(("Alder", "Dorado"), spans) == [0]
    assert cover_parts((), spans) == [0]
    assert cover_parts(("Alder",), []) == []
    titled = replace(spans[1], title="Dorado Energy")
    assert cover_parts(("Alder", "Dorado"), [spans[0], titled]) == [0, 1]
    dated = replace(spans[1], date="2024-03-05", date_source="heading")
    assert cover_parts(("Alder", "March"), [spans[0], dated]) == [0, 1]


def test_an_answer_about_two_things_quotes_both(encoder, tmp_path):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        people = {"Alder": 30, "Borealis": 40}
        for name, count in people.items():
            engine.add(
                Document(
                    f"{name}.md",
                    "",
                    f"{name} employs {count} people in {count} towns.",
                    kind="markdown",
                )
            )
        for number in range(4):
            text = f"Alder employs people of trade {number}, all of them in a town of its own."
            engine.add(Document(f"trade-{number}.md", "", text, kind="markdown"))
        answer = engine.ask("Who employs more people, Alder or Borealis?")
        assert answer.short == ()
        assert "Alder" in answer.text and "Borealis employs 40 people" in answer.text
        assert "Borealis.md" in {citation.span.doc_id for citation in answer.citations}
        assert len(answer.citations) <= 3
