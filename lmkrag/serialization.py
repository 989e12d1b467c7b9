"""Values as JSON: the one form that ``--json`` prints, the server sends and a remote engine
reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from lmkrag.results import Answer, Citation, CitationRecord, Quote, ShortAnswer
from lmkrag.types.json_values import to_json as to_json

Value = TypeVar("Value")


def from_json(kind: type[Value], record: Any) -> Value:
    """Return the dataclass that :func:`to_json` made an object of, or raise ValueError; unknown
    fields are left out.
    """
    return cast(Value, _from_json(kind, record))


def _from_json(kind: Any, record: Any) -> Any:
    if kind is Any or (record is None and isinstance(kind, UnionType)):
        return record
    if isinstance(kind, UnionType):
        kind = next(member for member in get_args(kind) if member is not type(None))
    outer = get_origin(kind) or kind
    if is_dataclass(outer):
        known = get_type_hints(outer)
        values = {
            name: _from_json(hint, record[name])
            for name, hint in known.items()
            if name in _check(dict, record)
        }
        required = [
            field
            for field in fields(outer)
            if field.default is MISSING and field.default_factory is MISSING
        ]
        if missing := [field.name for field in required if field.name not in values]:
            raise ValueError(f"no {missing[0]}")
        return cast(Any, outer)(**values)
    if outer is tuple:
        return tuple(_from_json(get_args(kind)[0], item) for item in _check(list, record))
    return _check({Mapping: dict, float: (int, float)}.get(outer, outer), record)


def _check(kind: Any, record: Any) -> Any:
    """Return a value of JSON if it is of a type; true and false are no numbers."""
    if not isinstance(record, kind) or (isinstance(record, bool) and kind is not bool):
        raise ValueError(f"{str(record)[:40]!r} is of another type")
    return record


def answer_to_json(question: str, answer: Answer) -> dict[str, Any]:
    """Return an answer to a question as JSON has it: citations name their spans by number."""
    return {"question": question, **answer.to_dict()}


def answer_from_json(record: Mapping[str, Any]) -> Answer:
    """Return the answer that JSON describes. Raises ValueError: it describes none."""
    answer = from_json(Answer, {**_check(dict, record), "citations": []})
    records = [
        from_json(CitationRecord, citation) for citation in _check(list, record["citations"])
    ]
    lists: tuple[Sequence[CitationRecord | ShortAnswer | Quote], ...] = (
        records,
        answer.short,
        answer.quotes,
    )
    for number in (numbered.number for each in lists for numbered in each):
        if not 1 <= number <= len(answer.spans):
            raise ValueError(f"[{number}] of {len(answer.spans)} passages")
    spans = answer.spans
    citations = [
        Citation(each.number, spans[each.number - 1], each.quote, each.start, each.end)
        for each in records
    ]
    return replace(answer, citations=tuple(citations))
