"""What is asked of an index, checked once for Python, the command line and the adapters."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TypedDict, get_args

from lmkrag.errors import UsageError
from lmkrag.json_values import replace_surrogates
from lmkrag.retrieval.filters import parse_filter
from lmkrag.types import Level, Mode

DEFAULT_TOP_K = 8

MAX_BUDGET = 100_000
"""Tokens that results may add up to."""


class AskOptions(TypedDict, total=False):
    """How to search for a reader; see :class:`SearchRequest`."""

    top_k: int | None
    budget: int | None
    mode: Mode
    filter: str | None
    per_document: int | None
    rerank: bool | float | None


class SearchOptions(AskOptions, total=False):
    """How to search; see :class:`SearchRequest`."""

    level: Level
    explain: bool
    operators: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """How to search, whatever the question.

    Args:
        top_k: number of results; 8 without a budget, as many as fit with one.
        budget: tokens that the results may add up to; None for no limit.
        mode: ``"hybrid"``, ``"dense"`` or ``"lexical"``.
        level: ``"passage"`` (can be read alone), ``"span"`` (what answers, and nothing else), ``"sentence"`` or
            ``"document"``.
        filter: which documents to search, such as ``kind=pdf and path=docs/*``.
        per_document: number of results of one document, at most; None for no limit.
        explain: give each span its explanation.
        operators: take ``-word`` and ``-"a phrase"`` at the end of the query for what to leave out.
        rerank: read the best places together with the question and order them anew: always, never, or for so many
            milliseconds; None for what the engine does by default.

    Raises:
        UsageError: an argument is out of range, or the filter can't be parsed.
    """

    top_k: int | None = None
    budget: int | None = None
    mode: Mode = "hybrid"
    level: Level = "passage"
    filter: str | None = None
    per_document: int | None = None
    explain: bool = False
    operators: bool = False
    rerank: bool | float | None = None

    def __post_init__(self) -> None:
        """Check every value."""
        _check_count("top_k", self.top_k, least=1)
        _check_count("budget", self.budget, least=1, unit=" token", most=MAX_BUDGET)
        _check_count("per_document", self.per_document, least=1)
        _check_rerank(self.rerank)
        _check_choice("mode", self.mode, get_args(Mode))
        _check_choice("level", self.level, get_args(Level))
        for name in ("explain", "operators"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} must be true or false, not {getattr(self, name)!r}")
        if self.filter is not None:
            parse_filter(self.filter)

    @property
    def limit(self) -> int | None:
        """The most results to return; None when only the budget limits them."""
        if self.top_k is None and self.budget is None:
            return DEFAULT_TOP_K
        return self.top_k


def check_query(query: object) -> str:
    """Return a question if it is one; lone surrogates become U+FFFD.

    Raises:
        UsageError: it is not a string, or blank.
    """
    if not isinstance(query, str):
        raise UsageError(f"a question must be a string, not {type(query).__name__}")
    if not query.strip():
        raise UsageError("the question is empty")
    return replace_surrogates(query)


def check_queries(queries: object) -> list[str]:
    """Return several questions, if they are.

    Raises:
        UsageError: it is a single string or no sequence, or one of them is not a question.
    """
    if isinstance(queries, str | bytes | Mapping) or not isinstance(queries, Iterable):
        raise UsageError(f"several questions must be a list of strings, not {type(queries).__name__}")
    return [check_query(query) for query in queries]


def _check_count(name: str, value: object, *, least: int, unit: str = "", most: int | None = None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UsageError(f"{name} must be a whole number, not {value!r}")
    if int(value) < least:
        raise UsageError(f"{name} must be at least {least}{unit}, not {value}")
    if most is not None and int(value) > most:
        raise UsageError(f"{name} must be at most {most:,}, not {value:,}")


def _check_rerank(value: object) -> None:
    if value is None:
        return
    if not isinstance(value, Real) or not math.isfinite(value) or (not isinstance(value, bool) and value <= 0):
        raise UsageError(f"rerank must be true, false, or a positive number of milliseconds, not {value!r}")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise UsageError(f"{name} {value!r}: use {', '.join(others)} or {last}")
