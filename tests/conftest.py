"""Real parts for every test: the shipped encoder, the sample corpus, an index of it made once."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def encoder():
    from lmkrag import LandmarkEncoder

    return LandmarkEncoder.load()


@pytest.fixture(scope="session")
def corpus() -> Path:
    return DATA / "corpus"


@pytest.fixture(scope="session")
def built_index(encoder, corpus, tmp_path_factory) -> Path:
    from lmkrag import Engine

    path = tmp_path_factory.mktemp("built") / "index"
    with Engine.open(path, create=True, encoder=encoder) as engine:
        engine.add(corpus)
    return path


@pytest.fixture
def engine(built_index, encoder, tmp_path):
    """An engine over a copy of the sample index that the test may change."""
    from lmkrag import Engine

    path = tmp_path / "index"
    shutil.copytree(built_index, path)
    with Engine.open(path, encoder=encoder) as opened:
        yield opened


def _write_set(folder: Path, documents: list, queries: list) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in (("docs", documents), ("queries", queries)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
    return folder


@pytest.fixture(scope="session")
def write_set():
    """Write a set in the data format: ``write_set(folder, documents, queries)``."""
    return _write_set


@pytest.fixture(scope="session")
def sample_set(corpus, tmp_path_factory) -> Path:
    """The sample corpus with the labelled questions of ``data/questions.jsonl``, in the data format."""
    texts = {name: (corpus / name).read_text("utf-8") for name in ("lighthouse-handbook.md", "glass-river.txt")}
    queries = []
    for number, line in enumerate((DATA / "questions.jsonl").read_text("utf-8").splitlines()):
        record = json.loads(line)
        starts = [(texts[record["doc"]].index(quote), len(quote)) for quote in record["evidence"]]
        spans = [[start, start + length] for start, length in starts]
        queries.append({"query_id": str(number), "query": record["query"], "doc_id": record["doc"], "spans": spans})
    documents = [{"doc_id": name, "title": name, "text": text} for name, text in texts.items()]
    return _write_set(tmp_path_factory.mktemp("sets") / "sample", documents, queries)
