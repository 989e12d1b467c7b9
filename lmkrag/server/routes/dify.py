"""Dify's external knowledge API: the shape in which several front ends ask for passages."""

import re
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lmkrag.errors import UsageError
from lmkrag.integrations.metadata import describe_span
from lmkrag.search.filters import quote, quote_key
from lmkrag.server.schemas import Lenient, Question
from lmkrag.server.service import TheService

router = APIRouter(tags=["Dify"])

_NOT_IN_WORDS = re.compile(r"[\s()=<>!\"'*?]")
_SIGNS = {"is": "=", "is not": "!=", "≠": "!=", "≥": ">=", "≤": "<=", "after": ">", "before": "<"}
_PATTERNS = {"contains": "*{}*", "not contains": "*{}*", "start with": "{}*", "end with": "*{}"}


class RetrievalSetting(Lenient):
    """How many passages, and how good at least."""

    top_k: int = Field(default=8, ge=1, le=1_000)
    score_threshold: float = Field(default=0.0, ge=0, le=1)


class Condition(BaseModel):
    """What the metadata of a document must be."""

    name: list[str] = Field(min_length=1, max_length=20)
    comparison_operator: str = Field(max_length=20)
    value: str | int | float | None = None


class MetadataCondition(BaseModel):
    """Conditions of which all or any must hold."""

    logical_operator: Literal["and", "or"] = "and"
    conditions: list[Condition] = Field(default_factory=list, max_length=20)


class RetrievalBody(Lenient):
    """A search in an index, which Dify calls external knowledge."""

    knowledge_id: str = Field(max_length=200)
    query: Question
    retrieval_setting: RetrievalSetting = RetrievalSetting()
    metadata_condition: MetadataCondition | None = None


class Record(BaseModel):
    """A passage."""

    content: str
    score: float
    title: str
    metadata: dict[str, Any]


class RetrievalReply(BaseModel):
    """Passages, best first."""

    records: list[Record]


@router.post("/retrieval")
async def retrieve(body: RetrievalBody, service: TheService) -> RetrievalReply:
    """Find passages for Dify. The knowledge id is the name of an index."""
    options, condition = body.retrieval_setting, body.metadata_condition or MetadataCondition()
    spans = await service.indexes.run(
        body.knowledge_id,
        lambda engine: engine.search(body.query, top_k=options.top_k, filter=to_filter(condition)),
    )
    records = [
        Record(
            content=span.text,
            score=min(1.0, max(0.0, span.score)),
            title=span.title or span.doc_id,
            metadata={**span.meta, **describe_span(span), "place": span.place},
        )
        for span in spans
    ]
    return RetrievalReply(
        records=[record for record in records if record.score >= options.score_threshold]
    )


def to_filter(condition: MetadataCondition) -> str | None:
    """Return Dify's conditions as a filter; one on several names holds if it does for one. Raises
    UsageError.
    """
    terms = [
        "(" + " or ".join(_to_term(name, item) for name in item.name) + ")"
        for item in condition.conditions
    ]
    return f" {condition.logical_operator} ".join(terms) or None


def _to_term(name: str, condition: Condition) -> str:
    name = quote_key(name)
    operator = condition.comparison_operator
    value = "" if condition.value is None else str(condition.value)
    if operator in _SIGNS or operator in ("=", "<", ">"):
        return f"{name}{_SIGNS.get(operator, operator)}{quote(value)}"
    if operator in _PATTERNS:
        pattern = _PATTERNS[operator].format(_NOT_IN_WORDS.sub("?", value))
        return f"{'not ' if operator == 'not contains' else ''}{name}={pattern}"
    if operator in ("empty", "not empty"):
        return f"{'not ' if operator == 'empty' else ''}{name}=*"
    raise UsageError(f"comparison operator {operator!r} is not known")
