"""The questions of the written corpora can be answered: a pattern that no text matches measures nothing."""

from pathlib import Path

import pytest

from lmkrag.formats.load import load_with_attachments

WRITTEN = Path(__file__).parents[2] / "benchmarks" / "packages" / "written"


@pytest.mark.parametrize("corpus", sorted(path.name for path in WRITTEN.iterdir()))
def test_each_pattern_matches_a_text_of_its_corpus(corpus, monkeypatch):
    monkeypatch.syspath_prepend(WRITTEN.parents[1])
    from real import read_questions  # type: ignore[import-not-found]

    texts = []
    for path in sorted((WRITTEN / corpus / "files").rglob("*")):
        if path.is_file():
            file = load_with_attachments(path, path.name)
            texts += [document.text for document in (file.document, *file.attached)]
    unmatched = [
        question.id
        for question in read_questions(WRITTEN / corpus / "questions.jsonl")
        if question.pattern and not any(map(question.pattern.search, texts))
    ]
    assert texts and unmatched == []
