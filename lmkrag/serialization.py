"""Values as JSON: the one form that ``--json`` prints, the server sends and a remote engine reads."""

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from lmkrag.json_values import to_json as to_json
from lmkrag.results import Answer, Citation

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
    return {"question": question, **answer.to_dict()}


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
