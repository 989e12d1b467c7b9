"""Questions to begin with: of headings, one a document first, and only those that are answered."""

import pytest

from lmkrag import Document, Engine
from lmkrag.evidence.suggestions import Suggestion, suggest

FERRY = """# Ferry rules

## 1. Dogs and bicycles

Dogs travel free of charge, but on the upper deck they are kept on a leash at all times. A bicycle
costs four crowns, and it is carried in the stern; there is room for twelve of them on each crossing.
Whoever brings a larger animal asks the master of the ferry on the day before the crossing.

## How are tickets sold?

Tickets are sold on board, in the saloon, by the purser, who takes coins and cards alike. A ticket
for ten crossings is cheaper by a fifth, and it holds for a year from the day on which it was bought.
Children below six years travel without a ticket.

## Appendix ${NAME}

{text} The words of this appendix are filled in by whoever prints the rules, once in every summer, and
nobody has ever seen what stands here before that has been done, which is why nothing is said of it.

## Fees

Four crowns.
"""
LAMP = """# Lamps

## The care of wicks

A wick is trimmed at dawn with the brass scissors that hang beside the stairs. It is never trimmed
while it is hot, since the brass would lose its edge, and whoever finds a blunt pair sharpens it on
the stone in the yard before the next dawn comes.
"""


@pytest.fixture(scope="module")
def island(tmp_path_factory):
    with Engine.open(tmp_path_factory.mktemp("island") / "index", create=True) as engine:
        engine.add(Document("ferry.md", "ferry.md", FERRY, "Ferry rules", kind="markdown"))
        engine.add(Document("lamp.md", "lamp.md", LAMP, "Lamps", kind="markdown"))
        engine.add(Document("wick.py", "wick.py", "def trim_the_wick(): ...\n", kind="code"))
        yield engine


def test_headings_become_questions_one_a_document_first(island):
    assert [each.question for each in suggest(island, island.documents())] == [
        "What is said about dogs and bicycles in Ferry rules?",
        "What is said about the care of wicks in Lamps?",
        "How are tickets sold?",
    ]


def test_headings_are_asked_about_in_a_sentence(tmp_path):
    body = "The bell is rung by the keeper at noon, and again when the fog comes in. " * 4
    headings = ("The Great Bell", "Ringing at noon", "How it is cast", "SOS signals of ships")
    text = "\n\n".join(f"## {heading}\n\n{body}" for heading in headings)
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(Document("bell.md", "bell.md", text, "bell", kind="markdown"))
        assert [each.question for each in suggest(engine, engine.documents())] == [
            "What is said about The Great Bell?",
            "What is said about ringing at noon?",
            "What is said about SOS signals of ships?",
        ]


def test_a_question_is_kept_only_if_its_section_answers(island):
    sold, *_ = [each for each in suggest(island, island.documents()) if "sold" in each.question]
    assert sold.is_answered(island)
    assert not Suggestion(sold.question, "lamp.md", sold.heading).is_answered(island)
    unknown = Suggestion("Who is the mayor of Porto?", sold.doc_id, sold.heading)
    assert not unknown.is_answered(island)
