"""Values as JSON: what ``--json`` prints and the server sends, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lmkrag.types import Answer, Citation, Document, DocumentInfo, Explanation, Hit, ScorePart, ShortAnswer, Span

_SPAN_FIELDS = (
    "doc_id",
    "path",
    "title",
    "kind",
    "headings",
    "start",
    "end",
    "line",
    "last_line",
    "page",
    "score",
    "text",
    "also_in",
    "header",
    "coverage",
    "meta",
)


def span_to_json(span: Span) -> dict[str, Any]:
    """Return a span as JSON has it."""
    record = {name: getattr(span, name) for name in _SPAN_FIELDS}
    record |= {"meta": dict(span.meta), "hits": [asdict(hit) for hit in span.hits]}
    if span.explanation is not None:
        record["explanation"] = explanation_to_json(span.explanation)
    return record


def explanation_to_json(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as JSON has it."""
    return asdict(explanation) | {"factors": [{"name": name, "value": value} for name, value in explanation.factors]}


def span_from_json(record: Mapping[str, Any]) -> Span:
    """Return the span that JSON describes."""
    explanation = record.get("explanation")
    return Span(
        **{name: record[name] for name in _SPAN_FIELDS if name not in ("headings", "also_in")},
        headings=tuple(record["headings"]),
        also_in=tuple(record["also_in"]),
        hits=tuple(Hit(**hit) for hit in record["hits"]),
        explanation=None if explanation is None else _explanation_from_json(explanation),
    )


def _explanation_from_json(record: Mapping[str, Any]) -> Explanation:
    return Explanation(
        **{
            **record,
            "parts": tuple(ScorePart(**part) for part in record["parts"]),
            "factors": tuple((factor["name"], factor["value"]) for factor in record["factors"]),
            "words": tuple(record["words"]),
        }
    )


def answer_to_json(question: str, answer: Answer) -> dict[str, Any]:
    """Return an answer to a question as JSON has it."""
    return {
        "question": question,
        "answer": answer.text,
        "found": answer.found,
        "reader": answer.reader,
        "citations": [
            {
                "number": citation.number,
                "doc_id": citation.span.doc_id,
                "path": citation.span.path,
                "start": citation.start,
                "end": citation.end,
                "page": citation.span.page,
                "place": citation.place,
                "quote": citation.quote,
            }
            for citation in answer.citations
        ],
        "short": [asdict(short) for short in answer.short],
        "confidence": answer.confidence,
        "warnings": list(answer.warnings),
        "spans": [span_to_json(span) for span in answer.spans],
    }


def answer_from_json(record: Mapping[str, Any]) -> Answer:
    """Return the answer that JSON describes; citations name their spans by number, from 1."""
    spans = tuple(map(span_from_json, record["spans"]))
    return Answer(
        text=record["answer"],
        citations=tuple(
            Citation(
                number=citation["number"],
                span=spans[citation["number"] - 1],
                quote=citation["quote"],
                start=citation["start"],
                end=citation["end"],
            )
            for citation in record["citations"]
        ),
        spans=spans,
        reader=record["reader"],
        found=record["found"],
        warnings=tuple(record["warnings"]),
        short=tuple(ShortAnswer(**short) for short in record.get("short", ())),
        confidence=record.get("confidence"),
    )


def info_to_json(info: DocumentInfo, *, whole: bool = False) -> dict[str, Any]:
    """Return what an index knows of a document as JSON has it; ``whole`` with its fingerprint and where pages begin."""
    record = asdict(info) | {"meta": dict(info.meta)}
    return record if whole else {name: record[name] for name in record if name not in ("page_starts", "fingerprint")}


def info_from_json(record: Mapping[str, Any]) -> DocumentInfo:
    """Return the description of a document that JSON holds."""
    return DocumentInfo(**{**record, "page_starts": tuple(record.get("page_starts", ()))})


def document_from_json(info: Mapping[str, Any], text: str) -> Document:
    """Return the document whose description and text a server sent."""
    return Document(
        doc_id=info["doc_id"],
        path=info["path"],
        text=text,
        title=info["title"],
        kind=info["kind"],
        page_starts=tuple(info["page_starts"]),
        meta=info["meta"],
        fingerprint=info["fingerprint"],
    )
