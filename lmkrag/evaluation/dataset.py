"""Read and write an evaluation set: ``docs.jsonl.gz`` and ``queries.jsonl.gz`` in one folder; read
the files that one is made of.

A line of the first is ``{"doc_id", "text", "title"?, "kind"?}``, one of the second ``{"query_id",
"query", "doc_id", "spans": [[start, end], ...]}``.
"""

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lmkrag.errors import DocumentError, UsageError
from lmkrag.evaluation.metrics import Piece
from lmkrag.formats.isolated import IsolatedLoader
from lmkrag.ingest.changes import find_changes
from lmkrag.types import Document, Skipped

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Query:
    """A question, the document that answers it, and where.

    Attributes:
        query_id: name of the question in its set.
        query: the question.
        doc_id: the document that it is about.
        spans: ranges ``[start, end)`` of characters that answer; empty if the document does not
            answer.
    """

    query_id: str
    query: str
    doc_id: str
    spans: tuple[tuple[int, int], ...]

    @property
    def evidence(self) -> list[Piece]:
        """Its spans as pieces: document, start, end."""
        return [(self.doc_id, start, end) for start, end in self.spans]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Documents and questions about them.

    Attributes:
        name: name of the folder.
        documents: the documents.
        queries: the questions.
        fingerprint: SHA-256 of both files.
    """

    name: str
    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    fingerprint: str = ""


def choose_queries(dataset: Dataset, count: int) -> list[Query]:
    """Return ``count`` questions that have evidence, 0 for all: see :func:`draw_sample`."""
    return draw_sample([query for query in dataset.queries if query.spans], count)


def draw_sample(items: Sequence[Item], count: int) -> list[Item]:
    """Return ``count`` items in their order, drawn at random with a fixed seed; all of them if it
    is 0.
    """
    if not count or len(items) <= count:
        return list(items)
    order = np.random.default_rng(0).permutation(len(items))[:count]
    return [items[i] for i in sorted(order)]


def load_dataset(folder: Path) -> Dataset:
    """Read a folder in the data format.

    Raises:
        UsageError: a file is missing, or a line or a span is wrong.
    """
    documents = tuple(iter_documents(folder))
    lengths = {document.doc_id: len(document.text) for document in documents}
    queries = []
    for _, record in read_records(
        folder / "queries.jsonl.gz", {"query_id", "query", "doc_id", "spans"}
    ):
        spans = tuple(map(tuple, record["spans"]))
        length = lengths.get(record["doc_id"])
        if length is None:
            raise UsageError(f"{folder}: query {record['query_id']!r} names no document of the set")
        if any(not 0 <= start < end <= length for start, end in spans):
            raise UsageError(
                f"{folder}: query {record['query_id']!r} has a span outside its document"
            )
        queries.append(Query(record["query_id"], record["query"], record["doc_id"], spans))
    if not documents or not queries:
        raise UsageError(f"{folder}: the set is empty")
    digest = hashlib.sha256()
    for name in ("docs.jsonl.gz", "queries.jsonl.gz"):
        digest.update((folder / name).read_bytes())
    return Dataset(folder.resolve().name, documents, tuple(queries), digest.hexdigest())


def iter_documents(folder: Path) -> Iterator[Document]:
    """Yield the documents of a folder in the data format, read as they are needed.

    Raises:
        UsageError: the file is missing, a line is wrong, or two documents have the same name.
    """
    names = set()
    for where, record in read_records(folder / "docs.jsonl.gz", {"doc_id", "text"}):
        if record["doc_id"] in names:
            raise UsageError(f"{where}: another document has the doc_id {record['doc_id']!r}")
        names.add(record["doc_id"])
        name, details = record["doc_id"], (record.get("title", ""), record.get("kind", "text"))
        yield Document(name, name, record["text"], *details)


def load_documents(paths: Sequence[Path]) -> tuple[list[Document], list[Skipped]]:
    """Return the documents of files and folders, called as in an index of them, and the files that
    can't be read.

    Raises:
        UsageError: there is no such file or folder.
    """
    changes = find_changes(paths, {}, {}, include=(), exclude=())
    documents, skipped = [], changes.skipped
    with IsolatedLoader() as loader:
        for file in changes.to_read:
            try:
                documents.append(loader.load(file.path, file.doc_id))
            except DocumentError as error:
                skipped.append(Skipped(file.doc_id, str(error)))
    return documents, skipped


def write_dataset(folder: Path, documents: Iterable[Document], queries: Iterable[Query]) -> None:
    """Write documents and questions as a folder in the data format."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = "doc_id", "title", "text", "kind"
    texts = ({key: getattr(document, key) for key in keys} for document in documents)
    write_records(folder / "docs.jsonl.gz", texts)
    write_records(folder / "queries.jsonl.gz", map(asdict, queries))


def write_records(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write a file of a set, such as ``docs.jsonl.gz``, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    with gzip.open(partial, "wt", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    partial.replace(path)


def read_records(path: Path, keys: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of a file, gzipped if its name says so, as records that have some keys, each
    with the place where it stands. Blank lines are left out.

    Raises:
        UsageError: the file is missing, or a line is wrong.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    open_text, what = (gzip.open, "gzipped text") if path.suffix == ".gz" else (open, "text")
    try:
        with open_text(path, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    where = f"{path} line {number}"
                    yield where, _record(line, keys, where)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not {what} ({error})") from error


def _record(line: str, keys: set[str], where: str) -> dict[str, Any]:
    """Return a line as a record, checked.

    Raises:
        UsageError: the line is not a record of a set.
    """
    try:
        record: dict[str, Any] = json.loads(line)
        missing = keys - record.keys()
    except (ValueError, AttributeError, RecursionError):
        raise UsageError(f"{where}: not a JSON object") from None
    if missing:
        raise UsageError(f"{where}: no {sorted(missing)[0]!r}")
    if wrong := [
        name
        for name in sorted(keys & {"doc", "doc_id", "query", "text"})
        if not isinstance(record[name], str)
    ]:
        raise UsageError(f"{where}: {wrong[0]!r} must be text")
    spans = record["spans"] if "spans" in keys else []
    if not isinstance(spans, list) or any(
        type(it) is not list or [*map(type, it)] != [int, int] for it in spans
    ):
        raise UsageError(f"{where}: 'spans' must be pairs of whole numbers")
    return record
