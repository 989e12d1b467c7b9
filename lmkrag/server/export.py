"""Verdicts on results as a labelled set, in the format that ``eval`` and ``train`` read."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmkrag.engine import Engine
from lmkrag.errors import StorageError, UsageError
from lmkrag.evaluation.dataset import write_records
from lmkrag.server.feedback import Verdict, read_verdicts
from lmkrag.types import DocumentInfo


@dataclass(frozen=True, slots=True)
class FeedbackReport:
    """What was written: questions, their good spans, spans found bad; ``lost`` were left out."""

    queries: int
    spans: int
    rejected: int
    lost: int


def export_feedback(engine: Engine, out: Path) -> FeedbackReport:
    """Write a set: all documents of the index, and the questions that a span was found good for.

    A document that has changed is searched for the words that were judged; where they are gone, or stand twice, the
    verdict is left out. Spans that were found bad are written to ``rejected.jsonl.gz``, in the form of the questions.

    Raises:
        UsageError: there is no good span. StorageError: the files can't be read or written.
    """
    verdicts = read_verdicts(Path(engine.status().path))
    documents = engine.documents()
    judged = {verdict.doc_id for verdict in verdicts}
    texts = {info.doc_id: engine.read(info.doc_id) for info in documents if info.doc_id in judged}
    placed = [(verdict, _place(verdict, texts.get(verdict.doc_id, ""))) for verdict in verdicts]
    lost = sum(evidence is None for _, evidence in placed)
    good = _group(placed, "up")
    bad = _group(placed, "down")
    if not good:
        raise UsageError("no span was found good yet whose document is still as it was: there is nothing to export")
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_records(out / "docs.jsonl.gz", _documents(engine, documents))
        write_records(out / "queries.jsonl.gz", _records(good))
        write_records(out / "rejected.jsonl.gz", _records(bad))
    except OSError as error:
        raise StorageError(f"{out}: can't be written ({error.strerror or error})") from error
    return FeedbackReport(len(good), sum(map(len, good.values())), sum(map(len, bad.values())), lost)


def _place(verdict: Verdict, text: str) -> tuple[int, int] | None:
    """Where the words that were judged stand now."""
    if text[verdict.start : verdict.end] == verdict.quote:
        return verdict.start, verdict.end
    if text.count(verdict.quote) != 1:
        return None
    start = text.index(verdict.quote)
    return start, start + len(verdict.quote)


def _group(
    placed: Iterable[tuple[Verdict, tuple[int, int] | None]], kind: str
) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Places by question and document."""
    grouped = defaultdict(set)
    for verdict, evidence in placed:
        if verdict.verdict == kind and evidence is not None:
            grouped[verdict.question, verdict.doc_id].add(evidence)
    return {key: sorted(spans) for key, spans in grouped.items()}


def _records(grouped: dict[tuple[str, str], list[tuple[int, int]]]) -> Iterable[dict[str, Any]]:
    for number, ((question, doc_id), spans) in enumerate(grouped.items()):
        yield {"query_id": str(number), "query": question, "doc_id": doc_id, "spans": spans}


def _documents(engine: Engine, documents: Iterable[DocumentInfo]) -> Iterable[dict[str, Any]]:
    for info in documents:
        yield {"doc_id": info.doc_id, "title": info.title, "text": engine.read(info.doc_id)}
