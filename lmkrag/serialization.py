"""Values as JSON: the one form that ``--json`` prints, the server sends and a remote engine reads.

The dataclasses declare it: :mod:`lmkrag.results` and :mod:`lmkrag.types` the values, this module
what a server replies. :func:`to_json` writes it, :func:`from_json` reads it, and
``lmkrag.server.schemas`` describes it in ``/openapi.json``.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from lmkrag.results import Answer, Citation, CitationRecord, Span
from lmkrag.types import DocumentInfo, SentenceScore
from lmkrag.types.json_values import to_json as to_json

Value = TypeVar("Value")

_JSON_TYPES: dict[Any, Any] = {Mapping: dict, float: (int, float)}


@dataclass(frozen=True, slots=True)
class SpansReply:
    """Results, best first; with `blocks`, what is shown of each."""

    spans: tuple[Span, ...]
    notes: tuple[str, ...] = field(
        default=(),
        metadata={"description": "Sentences to show with the results, such as which are stale."},
    )
    blocks: Any = None


@dataclass(frozen=True, slots=True)
class BatchResult(SpansReply):
    """Results of a question of several, or why it has none."""

    error: str | None = None


@dataclass(frozen=True, slots=True)
class BatchReply:
    """Results of each question, in the order of the questions."""

    results: tuple[BatchResult, ...]


@dataclass(frozen=True, slots=True)
class RelevanceReply:
    """Sentences of a document with their scores, in order; of ``total``, where there are too many
    to show.
    """

    sentences: tuple[SentenceScore, ...]
    total: int


@dataclass(frozen=True, slots=True)
class DocumentsReply:
    """Some of the documents that a filter keeps, and how many there are."""

    documents: tuple[DocumentInfo, ...]
    total: int


@dataclass(frozen=True, slots=True)
class TextReply:
    """Characters ``[start, end)`` of a document that has ``characters``."""

    doc_id: str
    start: int
    end: int
    text: str
    characters: int


def from_json(kind: type[Value], record: Any) -> Value:
    """Return the value that :func:`to_json` wrote.

    Args:
        kind: a dataclass, or a type that its fields may have: ``str``, ``tuple[Span, ...]``.
        record: what JSON has, of any shape; unknown fields of objects are left out.

    Raises:
        ValueError: a field is missing, or a value is of another type.
    """
    return cast(Value, _from_json(kind, record))


def _from_json(kind: Any, record: Any) -> Any:
    if isinstance(kind, UnionType):  # of a type and None
        if record is None:
            return None
        kind = get_args(kind)[0]
    outer = get_origin(kind) or kind
    if outer is Any:
        return record
    if is_dataclass(outer):
        return _read_fields(outer, _check(dict, record))
    if outer is tuple:
        return tuple(_from_json(get_args(kind)[0], item) for item in _check(list, record))
    return _check(_JSON_TYPES.get(outer, outer), record)


def _read_fields(kind: Any, record: dict[str, Any]) -> Any:
    hints, values = get_type_hints(kind), {}
    for declared in fields(kind):
        if declared.name in record:
            values[declared.name] = _from_json(hints[declared.name], record[declared.name])
        elif declared.default is MISSING and declared.default_factory is MISSING:
            raise ValueError(f"no {declared.name}")
    return kind(**values)


def _check(kind: Any, record: Any) -> Any:
    """Return a value of JSON if it is of a type; true and false are no numbers."""
    if not isinstance(record, kind) or (isinstance(record, bool) and kind is not bool):
        raise ValueError(f"{str(record)[:40]!r} is of another type")
    return record


def answer_to_json(question: str, answer: Answer) -> dict[str, Any]:
    """Return an answer to a question as JSON has it: citations name their spans by number."""
    return {"question": question, **answer.to_dict()}


def answer_from_json(record: Any) -> Answer:
    """Return the answer that :func:`answer_to_json` wrote. Raises ValueError: it is none."""
    answer = from_json(Answer, {**_check(dict, record), "citations": []})
    records = from_json(tuple[CitationRecord, ...], record["citations"])
    numbered: Any
    for numbered in (*records, *answer.short, *answer.quotes):
        if not 1 <= numbered.number <= len(answer.spans):
            raise ValueError(f"[{numbered.number}] of {len(answer.spans)} passages")
    citations = [
        Citation(each.number, answer.spans[each.number - 1], each.quote, each.start, each.end)
        for each in records
    ]
    return replace(answer, citations=tuple(citations))
