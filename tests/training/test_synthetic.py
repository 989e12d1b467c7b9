"""Questions made by a real model about real files, in the format that training reads."""

import runpy
from pathlib import Path

import pytest

from lmkrag.errors import UsageError
from lmkrag.evaluation.dataset import load_dataset
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
