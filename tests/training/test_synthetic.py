"""Questions made by a real model about real files, in the format that training reads."""

import runpy
from pathlib import Path

import pytest

from lmkrag.errors import ReaderError, UsageError
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.readers.base import LanguageModelReader
from lmkrag.readers.transformers import TransformersReader
from lmkrag.types import Document

synthesise = runpy.run_path(str(Path(__file__).parents[2] / "pipelines" / "generate_questions.py"))[
    "synthesise"
]


@pytest.fixture(scope="module")
def reader(causal_model):
    return TransformersReader(str(causal_model), max_tokens=30)


@pytest.fixture
def documents(corpus):
    names = ("lighthouse-handbook.md", "glass-river.txt")
    return [Document(name, name, (corpus / name).read_text("utf-8")) for name in names]


def test_questions_with_exact_evidence(reader, documents, tmp_path):
    found = synthesise(documents, reader, tmp_path / "set", count=8)
    dataset = load_dataset(tmp_path / "set")  # checks that every span lies in its document
    assert 1 <= found == len(dataset.queries) <= 8
    texts = {document.doc_id: document.text for document in documents}
    for query in dataset.queries:
        ((start, end),) = query.spans
        assert texts[query.doc_id][start:end] == texts[query.doc_id][start:end].strip() != ""
        assert query.query.startswith("bonfires are allowed")


def test_an_interrupted_run_goes_on_and_ends_the_same(reader, documents, tmp_path):
    synthesise(documents, reader, tmp_path / "whole", count=5)

    def stop(done: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        synthesise(documents, reader, tmp_path / "parts", count=5, progress=stop)
    journal = tmp_path / "parts" / "questions.jsonl"
    assert len(journal.read_text().splitlines()) == 3
    with journal.open("a") as file:
        file.write('{"number": 3, "que')  # killed in the middle of a line
    synthesise(documents, reader, tmp_path / "parts", count=5)
    assert journal.read_text() == (tmp_path / "whole" / "questions.jsonl").read_text()
    assert load_dataset(tmp_path / "parts").queries == load_dataset(tmp_path / "whole").queries
    with pytest.raises(UsageError, match="of other documents or another seed"):
        synthesise(documents, reader, tmp_path / "parts", count=5, seed=1)


@pytest.mark.parametrize("text", ["", "Short."])
def test_nothing_to_ask_about(reader, tmp_path, text):
    with pytest.raises(UsageError, match="no passage long enough"):
        synthesise([Document("a", "a", text)], reader, tmp_path, count=1)


class SayingReader(LanguageModelReader):
    """A reader whose model always says the same."""

    name = "saying"

    def __init__(self, reply):
        super().__init__()
        self.reply = reply

    def generate(self, messages):
        yield self.reply


@pytest.mark.parametrize(
    "reply",
    [
        "Who trims the wick?",
        "<think>\nWhat does the user want?\n</think>\n\nWho trims the wick?",
        "**Question:** Who trims the wick?",
        "**Question: Who trims the wick?**",
        '\n"Who trims the wick?"\nThe keeper does.',
    ],
)
def test_the_question_in_a_reply(reply, documents, tmp_path):
    synthesise(documents, SayingReader(reply), tmp_path, count=1)
    (query,) = load_dataset(tmp_path).queries
    assert query.query == "Who trims the wick?"


def test_a_model_that_writes_no_question(documents, tmp_path):
    with pytest.raises(ReaderError, match="the model wrote no question"):
        synthesise(documents, SayingReader("No."), tmp_path, count=2)
    assert not (tmp_path / "queries.jsonl.gz").exists()


def test_a_set_keeps_all_documents_with_their_kinds(documents, tmp_path):
    short = Document("trim.py", "trim.py", "trim = 1\n", kind="code")
    synthesise([*documents, short], SayingReader("Who trims the wick?"), tmp_path, count=2)
    kept = {each.doc_id: each.kind for each in load_dataset(tmp_path).documents}
    assert kept == {each.doc_id: each.kind for each in [*documents, short]}
