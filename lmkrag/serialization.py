"""Values as JSON: the one form that ``--json`` prints, the server sends and a remote engine reads."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from lmkrag.results import Answer, Citation, Span

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CitationRecord:
    """``[number]`` of an answer: characters of a document, quoted exactly."""

    number: int
    doc_id: str
    path: str
    start: int
    end: int
    page: int | None
    place: str
    url: str
    quote: str


def to_json(value: Any) -> Any:
    """Return a dataclass as an object with its fields, a tuple as an array, and so on within.

    A span also has its ``place``, ``url`` and ``section``, and ``weak``: whether little speaks for an answer in it.
    """
    if is_dataclass(value):
        made = {one.name: to_json(getattr(value, one.name)) for one in fields(value)}
        if isinstance(value, Span):
            made |= {"place": value.place, "url": value.url, "section": value.section, "weak": value.weak}
        return made
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


def from_json(kind: type[Value], record: Any) -> Value:
    """Return the dataclass that :func:`to_json` made an object of; fields that it does not know are left out."""
    return cast(Value, _from_json(kind, record))


def _from_json(kind: Any, record: Any) -> Any:
    if record is None or kind is Any:
        return record
    if isinstance(kind, UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if is_dataclass(kind):
        known = get_type_hints(kind)
        return cast(Any, kind)(
            **{name: _from_json(hint, record[name]) for name, hint in known.items() if name in record}
        )
    if get_origin(kind) is tuple:
        return tuple(_from_json(get_args(kind)[0], item) for item in record)
    return record


def answer_to_json(question: str, answer: Answer) -> dict[str, Any]:
    """Return an answer to a question as JSON has it: citations name their spans by number."""
    citations = [
        CitationRecord(
            number=citation.number,
            doc_id=citation.span.doc_id,
            path=citation.span.path,
            start=citation.start,
            end=citation.end,
            page=citation.span.page,
            place=citation.place,
            url=citation.span.url,
            quote=citation.quote,
        )
        for citation in answer.citations
    ]
    return {"question": question, **to_json(answer), "citations": to_json(citations)}


def answer_from_json(record: Mapping[str, Any]) -> Answer:
    """Return the answer that JSON describes."""
    answer = from_json(Answer, {**record, "citations": ()})
    citations = (from_json(CitationRecord, citation) for citation in record["citations"])
    return replace(
        answer,
        citations=tuple(
            Citation(cited.number, answer.spans[cited.number - 1], cited.quote, cited.start, cited.end)
            for cited in citations
        ),
    )
