"""The options of a search, declared and checked once.

Python, the command line, HTTP, MCP, LangChain and LlamaIndex make their arguments from
:class:`SearchRequest`: a new option is a field of it, and a line of :class:`SearchOptions` or
:class:`AskOptions` for type checkers.
"""

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import (
    Any,
    Literal,
    NamedTuple,
    Self,
    TypedDict,
    TypeVar,
    cast,
    get_args,
)

from lmkrag.errors import UsageError
from lmkrag.language.dates import is_on_calendar
from lmkrag.results import SpanList
from lmkrag.search.filters import Filter, to_expression
from lmkrag.types import Level, Mode
from lmkrag.types.json_values import replace_surrogates

DEFAULT_TOP_K = 8
MOST_RESULTS = 10_000
_BLANK = "the question is empty"

_ISO_DATE = re.compile(
    r"^(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$"
)

_SYNONYMS = (
    ("top_k", "similarity_top_k", "k", "n", "top_n", "n_results", "num_results", "limit"),
    ("query", "question", "text", "q", "prompt"),
    ("filter", "filters", "where"),
    ("engine", "index", "store", "retriever"),
)
"""Names of an option: here, in frameworks and in other libraries."""

_NEAR = 0.75  # the least share of letters that two spellings of a name have in common

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_CONTEXT = 2_000  # tokens of context that a reader gets


class CommonOptions(TypedDict, total=False):
    """Options of any search; see :class:`SearchRequest`."""

    top_k: int | None
    mode: Mode
    filter: Filter | None
    per_document: int | None
    rerank: bool | None
    rerank_timeout_ms: float | None
    since: str | None
    until: str | None
    abstain_below: float | None


class AskOptions(CommonOptions, total=False):
    """Options of a search for a reader; see :class:`SearchRequest`."""

    context_tokens: int | None


class SearchOptions(CommonOptions, total=False):
    """Options of a search; see :class:`SearchRequest`."""

    max_tokens: int | None
    level: Level
    explain: bool
    boxes: bool
    operators: bool


class Option(NamedTuple):
    """The description of an option, from which every surface makes its argument.

    ``kind`` is ``count`` (a whole number from 1 to ``most``), ``number`` (above 0 and up to
    ``most``), ``share`` (above 0, up to 1), ``flag``, ``switch`` (true, false or None), ``filter``,
    ``date`` or ``choice``, one of ``choices``.
    """

    kind: Literal["count", "number", "share", "flag", "switch", "filter", "choice", "date"]
    help: str
    most: int = 0
    choices: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # of the command line
    metavar: str | None = None  # its placeholder there
    variable: str | None = None  # its environment variable
    agents: bool = False  # whether assistants may set it


def _option(default: Any, *details: Any, **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(*details, **more)})


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """The options of a search, whatever the question.

    Args:
        top_k: maximum number of results; defaults to 8, or to as many as fit if their tokens are
            limited.
        max_tokens: maximum number of tokens (of the encoder's tokenizer) in all results together.
        context_tokens: maximum number of tokens that a reader gets; defaults to 2,000, counted with
            the reader's own tokenizer where it has one. For a language model the source that frames
            each span counts, too.
        mode: ``"hybrid"`` (meaning and words), ``"dense"`` (meaning) or ``"lexical"`` (words).
        level: ``"passage"``, which is self-contained: a span with the header of its table, the
            question it replies to, the rest of its short paragraph; ``"span"``, what answers and
            nothing else; ``"sentence"``; or ``"document"``.
        filter: only search matching documents, such as ``kind=pdf and path=docs/*`` or ``{"kind":
            "pdf"}``.
        per_document: maximum number of results per document.
        explain: give each span its ``explanation``; ``print(span.explain())``.
        boxes: give each span its ``boxes`` on the pages of a PDF file, a picture or slides, read
            from the file.
        operators: exclude ``-word`` and ``-"a phrase"`` at the end of the query.
        rerank: re-rank the best passages; on by default, except in lexical mode.
        rerank_timeout_ms: maximum time for re-ranking, in milliseconds.
        since: only passages from this day, month or year on, such as ``2026-03``; see
            ``Span.date``.
        until: only passages up to this day, month or year, which is included.
        abstain_below: find nothing if the probability that the best passages answer is lower, from
            0 to 1: see ``Answer.confidence``.

    Raises:
        UsageError: an option is out of range, or the filter can't be parsed.
    """

    top_k: int | None = _option(
        None,
        "count",
        (
            "Maximum number of results; defaults to 8, or to as many as fit if their tokens "
            "are limited."
        ),
        most=MOST_RESULTS,
        flags=("-k", "--top-k", "--top"),
        metavar="N",
        variable="LMKRAG_TOP_K",
        agents=True,
    )
    max_tokens: int | None = _option(
        None,
        "count",
        "Maximum number of tokens in all results together.",
        most=100_000,
        metavar="N",
        agents=True,
    )
    context_tokens: int | None = _option(
        None,
        "count",
        "Maximum number of tokens of passages that the reader gets; defaults to 2,000.",
        most=100_000,
        metavar="N",
    )
    mode: Mode = _option(
        "hybrid",
        "choice",
        "Search by meaning and words, by meaning only, or by words only.",
        choices=get_args(Mode),
    )
    level: Level = _option(
        "passage",
        "choice",
        "What to return: passages are self-contained, spans are what answers and nothing else.",
        choices=get_args(Level),
    )
    filter: Filter | None = _option(
        None,
        "filter",
        "Only search matching documents, such as 'kind=pdf and path=docs/*'.",
        most=10_000,
        metavar="EXPR",
        agents=True,
    )
    per_document: int | None = _option(
        None,
        "count",
        "Maximum number of results per document.",
        most=10_000,
        metavar="N",
        agents=True,
    )
    explain: bool = _option(False, "flag", "Explain why each result was found.")
    boxes: bool = _option(
        False,
        "flag",
        "Find where each result stands on its page: PDF files, pictures and slides.",
        agents=True,
    )
    operators: bool = _option(
        False, "flag", "Exclude -word and -'a phrase' at the end of the query."
    )
    rerank: bool | None = _option(
        None,
        "switch",
        "Re-rank the best passages; on by default, except in lexical mode.",
        variable="LMKRAG_RERANK",
    )
    rerank_timeout_ms: float | None = _option(
        None, "number", "Maximum time for re-ranking, in milliseconds.", most=60_000, metavar="MS"
    )
    since: str | None = _option(
        None,
        "date",
        "Only passages from this day, month or year on, such as 2026-03.",
        metavar="DATE",
        agents=True,
    )
    until: str | None = _option(
        None,
        "date",
        "Only passages up to this day, month or year, such as 2026-03.",
        metavar="DATE",
        agents=True,
    )
    abstain_below: float | None = _option(
        None,
        "share",
        "Find nothing if the probability that the best passages answer is lower, from 0 to 1.",
        most=1,
        metavar="P",
        agents=True,
    )

    def __new__(cls, **options: Any) -> Self:
        """Refuse unknown options, with a hint where another library has an option of that name."""
        refuse_unknown(options, [declared.name for declared in fields(cls)])
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for declared in fields(self):
            _check(
                declared.name, getattr(self, declared.name), option_of(declared), declared.default
            )
        to_expression(self.filter)
        for name, value in (("since", self.since), ("until", self.until)):
            if value is None:
                continue
            is_date = isinstance(value, str) and _ISO_DATE.fullmatch(value)
            if not (is_date and is_on_calendar(value)):
                raise UsageError(
                    f"{name} must be a day, month or year such as 2026-03-01, not {value!r}"
                )
        if self.since and self.until:
            precision = min(len(self.since), len(self.until))
            if self.since[:precision] > self.until[:precision]:
                raise UsageError(f"since={self.since} is later than until={self.until}")

    @property
    def limit(self) -> int | None:
        """The most results to return; None when only their tokens are limited."""
        return DEFAULT_TOP_K if self.top_k is None and self.token_limit is None else self.top_k

    @property
    def token_limit(self) -> int | None:
        """The most tokens that all results together may have."""
        return self.max_tokens or self.context_tokens


def refuse_unknown(names: Iterable[str], known: Collection[str]) -> None:
    """Raise UsageError for the first option that is not known, with a hint at the known one that it
    may mean.
    """
    for name in names:
        if name in known:
            continue
        synonyms = next((group for group in _SYNONYMS if name in group), ())
        near = [synonym for synonym in synonyms if synonym in known] or get_close_matches(
            name, known, 1, _NEAR
        )
        raise UsageError(f"no option {name!r}" + (f": use {near[0]}" if near else ""))


def option_of(declared: "Field[Any]") -> Option:
    """Return the description of a field of :class:`SearchRequest`."""
    option: Option = declared.metadata["option"]
    return option


def show_options(names: type) -> Callable[[Function], Function]:
    """Return a decorator that shows the options of a class in a signature in place of
    ``**options``.
    """
    options = {
        name: (declared.type, declared.default)
        for name, declared in find_options(names.__annotations__).items()
    }
    return lambda function: add_parameters(function, options)


def add_parameters(function: Function, options: Mapping[str, tuple[Any, Any]]) -> Function:
    """Show options, (annotation, default) by name, in a function's signature in place of
    ``**options``.
    """
    shown = signature(function)
    parameters = [
        item for item in shown.parameters.values() if item.kind is not Parameter.VAR_KEYWORD
    ]
    for name, (annotation, default) in options.items():
        parameters.append(
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    cast(Any, function).__signature__ = shown.replace(parameters=parameters)
    return function


def find_options(names: Collection[str]) -> dict[str, "Field[Any]"]:
    """Return fields of :class:`SearchRequest` by names, such as ``SearchOptions.__annotations__``,
    in its order.
    """
    return {declared.name: declared for declared in fields(SearchRequest) if declared.name in names}


def to_pydantic(names: Collection[str]) -> dict[str, Any]:
    """Return options as fields for ``pydantic.create_model``: (type, ``Field``) by name."""
    from pydantic import Field as PydanticField
    from pydantic import StrictBool

    pydantic_fields: dict[str, Any] = {}
    for name, declared in find_options(names).items():
        option, kind = option_of(declared), declared.type
        limits: dict[str, Any] = {}
        if option.kind == "count":
            limits = {"ge": 1, "le": option.most}
        elif option.kind in ("number", "share"):
            limits = {"gt": 0, "le": option.most}
        elif option.kind == "filter":
            kind, limits = str | None, {"max_length": option.most}
        elif option.kind == "date":
            limits = {"pattern": _ISO_DATE.pattern}
        elif option.kind in ("flag", "switch"):
            kind = StrictBool if option.kind == "flag" else StrictBool | None
        pydantic_fields[name] = (
            kind,
            PydanticField(declared.default, description=option.help, **limits),
        )
    return pydantic_fields


def check_query(query: object) -> str:
    """Return a question, lone surrogates as U+FFFD. Raises UsageError: it is not a string, or
    blank.
    """
    if not isinstance(query, str):
        raise UsageError(f"a question must be a string, not {type(query).__name__}")
    if not query.strip():
        raise UsageError(_BLANK)
    return replace_surrogates(query)


def check_queries(queries: object) -> list[str]:
    """Return several questions, blank ones among them. Raises UsageError: they are no list of
    strings.
    """
    if isinstance(queries, str | bytes | Mapping) or not isinstance(queries, Iterable):
        raise UsageError(
            f"several questions must be a list of strings, not {type(queries).__name__}"
        )
    return [
        replace_surrogates(query) if isinstance(query, str) else check_query(query)
        for query in queries
    ]


def search_each(
    queries: Sequence[str], search: Callable[[list[str]], Sequence[SpanList | UsageError]]
) -> list[SpanList | UsageError]:
    """Search for several questions; the error of one that can't be searched takes the place of its
    results.

    Args:
        queries: any strings.
        search: searches for some of them together.

    Raises:
        UsageError: none of them can be searched, blank ones aside: an option is wrong.
    """

    def search_alone(query: str) -> SpanList | UsageError:
        try:
            return search([query])[0]
        except UsageError as error:
            return error

    asked = [query for query in queries if query.strip()]
    try:
        found = search(asked) if asked else []
    except UsageError:
        found = list(map(search_alone, asked))
        if all(isinstance(spans, UsageError) for spans in found):
            raise
    results = iter(found)
    return [next(results) if query.strip() else UsageError(_BLANK) for query in queries]


def _check(name: str, value: object, option: Option, default: object) -> None:
    """Raise UsageError unless an option may have a value."""
    if value is None and default is None:
        return
    if option.kind in ("flag", "switch") and not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false, not {value!r}")
    if option.kind == "choice" and not (isinstance(value, str) and value in option.choices):
        *others, last = map(repr, option.choices)
        raise UsageError(f"{name} {value!r}: use {', '.join(others)} or {last}")
    if option.kind == "count":
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise UsageError(f"{name} must be a whole number, not {value!r}")
        if int(value) < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")
        if int(value) > option.most:
            raise UsageError(f"{name} must be at most {option.most:,}, not {value:,}")
    elif option.kind in ("number", "share"):
        most = 1.0 if option.kind == "share" else sys.float_info.max
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number or not 0 < cast(float, value) <= most:
            wanted = "above 0, up to 1" if option.kind == "share" else "a positive number"
            raise UsageError(f"{name} must be {wanted}, not {str(value)[:50]}")
