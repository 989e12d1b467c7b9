"""Filter expressions over documents: ``kind=pdf and (path=docs/* or author="Jane Roe") and not
year<2020``.

    expression := term {"or" term}        term  := factor {"and" factor}
    factor     := "not" factor | "(" expression ")" | key operator value | key ["not"] "in" "(" value {"," value} ")"

Operators: ``=`` ``!=`` ``<`` ``<=`` ``>`` ``>=``. An unquoted value may contain the wildcards ``*``
and ``?``, and its case does not matter; a quoted one is exact; ``key=*`` keeps what has a value.
Keys, in any case: ``speaker`` (of a message of a conversation or a mail), ``doc_id``, ``path`` (the
``doc_id``, or where the document was read from), ``title``, ``kind``, ``root``, ``modified`` (the
day its file was last changed), else a key of the document's front matter. A ``path`` equals its
folders, too: ``path=docs/handbook``. Dates (ISO 8601) are compared as far as the value says:
``modified=2024-03``, ``date<=2023``.
"""  # noqa: E501

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from functools import reduce
from itertools import accumulate
from numbers import Real
from operator import and_, ge, gt, le, lt, or_
from typing import TYPE_CHECKING, Any

from lmkrag.errors import UsageError
from lmkrag.types import DocumentInfo
from lmkrag.types.json_values import to_json_value

if TYPE_CHECKING:
    from lmkrag.types.arrays import Mask

Test = Callable[[Any], bool]
"""A test of a field's value, which is None where a document has none, and a list where it has
several. One with a method ``each`` tests many values at once: see
:class:`lmkrag.index.columns.BatchTest`.
"""

Match = Callable[[str, Test], "Mask"]
"""Returns which documents ``[n]`` have a field, by its key, that passes a test."""

Predicate = Callable[[Match], "Mask"]
"""Returns which documents ``[n]`` a filter keeps, by what their fields match."""

_TOKEN = re.compile(
    r"\s*(?:(?P<paren>[()])|(?P<operator>!=|<=|>=|=|<|>)"
    r'|(?P<quoted>"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')|(?P<word>[^\s()=<>!"\']+))'
)
_KEY = re.compile(r"""[^\s()=<>!"']+""")
_VALUES = ("word", "quoted")  # kinds of tokens
_RESERVED = frozenset({"and", "or", "not", "in"})
_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d)?)?")
_DATED = re.compile(r"\d{4}-\d\d-\d\d")
_REST_OF_DATE = {4: r"-\d\d-\d\d", 7: r"-\d\d", 10: ""}  # by the length of what is written
_ORDERS = {"<": lt, "<=": le, ">": gt, ">=": ge}
_ANY, _NUL = "[^\0]", "\x1e"  # in patterns: any character, and what a null character is taken for
_MAX_DEPTH = 50
_NAMES = frozenset({"doc_id", "path", "title", "kind", "root"})  # keys whose values are no dates
SPEAKER = "speaker"
"""A key of messages, not of documents."""
_ASKED = "path, doc_id, title, modified, speaker"
_LISTED = 20  # keys of front matter that are named
_MAX_PATTERN = 1_000  # characters of a value with wildcards


@dataclass(frozen=True, slots=True)
class PredicateFilter:
    """A filter that no expression can state; two of one ``name`` keep the same documents."""

    name: str
    predicate: Predicate = field(compare=False)

    def __str__(self) -> str:
        return self.name


Expression = str | PredicateFilter
Filter = Expression | Mapping[str, Any]  # a mapping has the values of some keys

Token = tuple[str, str]  # kind ("paren", "operator", "quoted", "word"), text


def filter_files(
    *, include: Sequence[str] = (), exclude: Sequence[str] = (), path: str = ""
) -> PredicateFilter | None:
    """Return a filter for documents by globs of ``.gitignore`` form on their ids and by a path;
    None without either.
    """
    if not (include or exclude or path):
        return None
    from pathspec import GitIgnoreSpec

    included = GitIgnoreSpec.from_lines(include or ["*"])
    excluded = GitIgnoreSpec.from_lines(exclude)
    is_path = _TextTest([(re.escape(path) or f"{_ANY}*", True)])

    def is_included(doc_id: str | None) -> bool:
        if doc_id is None:
            return False
        return included.match_file(doc_id) and not excluded.match_file(doc_id)

    def predicate(match: Match) -> "Mask":
        return match("doc_id", is_included) & match("path", is_path)

    return PredicateFilter(f"{include} {exclude} {path}", predicate)


def parse_filter(expression: Expression) -> Predicate:
    """Compile an expression, or raise UsageError, which says where it is wrong.

    >>> import numpy as np
    >>> years = [2021, 2019, None]
    >>> keeps = parse_filter("year>=2020")
    >>> keeps(lambda key, test: np.array([test(year) for year in years])).tolist()
    [True, False, False]
    """
    if isinstance(expression, PredicateFilter):
        return expression.predicate
    if not isinstance(expression, str):
        raise UsageError(f"a filter is a string such as 'kind=pdf', not {expression!r}")
    return _Parser(expression).parse()


def to_expression(expression: Filter | None) -> Expression | None:
    """Return a filter as an expression. A mapping keeps documents with all of its values, a list of
    them with any.

    Raises UsageError: a key or value can't stand in a filter, or the filter can't be parsed.
    """
    if isinstance(expression, Mapping):
        parts = [f"{quote_key(key)}{_values(key, value)}" for key, value in expression.items()]
        expression = " and ".join(parts) or None
    if expression is not None:
        parse_filter(expression)
    return expression


def asks_who_speaks(expression: Filter | None) -> bool:
    """Return whether a filter may keep some messages of a document and not others."""
    return SPEAKER in str(expression).lower()


def quote_key(key: object) -> str:
    """Return a key as it stands in an expression. Raises UsageError: it is no text, or empty."""
    if not isinstance(key, str) or not key:
        raise UsageError(f"{key!r} is no key of a filter")
    return key if _KEY.fullmatch(key) and key.lower() not in _RESERVED else quote(key)


def _values(key: str, value: object) -> str:
    if isinstance(value, list | tuple | set | frozenset) and value:
        return f" in ({', '.join(_show(key, item) for item in value)})"
    return "=" + _show(key, value)


def _show(key: str, value: object) -> str:
    if not isinstance(value, str | Real | date | time):
        raise UsageError(
            f"a filter can't compare {key} with {value!r}: use text, a number, a date or "
            "a list of them"
        )
    text = _text(to_json_value(value))  # as the values of documents are stored
    return text if _DATE.fullmatch(text) and key.lower() not in _NAMES else quote(text)


def explain_filter(
    list_documents: Callable[..., Sequence[DocumentInfo]],
    expression: str,
    *,
    for_owner: bool = True,
) -> str:
    """Return a hint if no document matches a filter; else an empty string.

    The owner of an index is told the kinds and keys that its documents have; others could learn
    there of documents that the filter keeps from them.
    """
    if list_documents(filter=expression, limit=1):
        return ""
    if not for_owner:
        return (
            f"no document matches the filter {expression!r}; a filter asks for kind, {_ASKED} or a "
            "key of front matter"
        )
    documents = list_documents()
    kinds = sorted({document.kind for document in documents})
    keys = sorted({str(key) for document in documents for key in document.meta})
    more = f"; front matter: {', '.join(keys[:_LISTED])}" if keys else ""
    return (
        f"no document matches the filter {expression!r}; kind is one of {', '.join(kinds)}; "
        f"{_ASKED} and root can be asked for, too{more}; a part of a value needs stars, such as "
        "title=*report*"
    )


def quote(value: str) -> str:
    """Return ``value`` as an exact value of a filter expression."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _has(key: str, test: Test) -> Predicate:
    """Return a predicate that keeps documents with a field that passes a test."""
    return lambda match: match(key, test)


def _negate(inner: Predicate) -> Predicate:
    """Return a predicate that keeps the documents that another does not keep."""
    return lambda match: ~inner(match)


def _join(operation: Callable[["Mask", "Mask"], "Mask"], parts: Sequence[Predicate]) -> Predicate:
    """Return a predicate that keeps documents by what all of its parts keep."""
    return lambda match: reduce(operation, [part(match) for part in parts])


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = deque(_tokenize(expression))

    def parse(self) -> Predicate:
        predicate = self._either(0)
        if self._tokens:
            raise self._error(f"{self._tokens[0][1]!r} is not expected")
        return predicate

    def _either(self, depth: int) -> Predicate:
        options = [self._both(depth)]
        while self._take("or"):
            options.append(self._both(depth))
        return _join(or_, options)

    def _both(self, depth: int) -> Predicate:
        parts = [self._factor(depth)]
        while self._take("and"):
            parts.append(self._factor(depth))
        return _join(and_, parts)

    def _factor(self, depth: int) -> Predicate:
        if depth > _MAX_DEPTH:
            raise self._error("it is nested too deeply")
        if self._take("not"):
            return _negate(self._factor(depth + 1))
        if self._take("("):
            inner = self._either(depth + 1)
            if not self._take(")"):
                raise self._error("a ')' is missing")
            return inner
        return self._comparison()

    def _comparison(self) -> Predicate:
        key_kind, key = self._pop()
        key = key.lower()
        if key_kind in _VALUES and (listed := self._listed(key)) is not None:
            return listed
        kind, operator = self._pop() if self._tokens else ("", "")
        if key_kind in _VALUES and kind != "operator":
            raise self._error(f"an operator such as = is missing after {key!r}")
        value_kind, value = self._pop()
        if key_kind not in _VALUES or value_kind not in _VALUES:
            raise self._error("expected: key operator value, such as kind=pdf")
        exact = value_kind == "quoted"
        if key == "path":
            value = value.rstrip("/") or value  # a folder, as completion writes it
        if operator not in ("=", "!="):
            return _has(key, _test_order(operator, value, exact))
        equal = _has(key, _TextTest([self._pattern(value, exact)]))
        return _negate(equal) if operator == "!=" else equal

    def _listed(self, key: str) -> Predicate | None:
        """The test of ``key in (value, value)`` or ``key not in (...)``, if that is what comes
        next.
        """
        negated = self._take("not")
        if not self._take("in"):
            if negated:
                raise self._error("expected 'in' after 'not'")
            return None
        if not self._take("("):
            raise self._error("expected a list after 'in', such as kind in (pdf, docx)")
        values: list[tuple[str, bool]] = []
        while not self._take(")"):
            kind, text = self._pop()
            if kind not in _VALUES:
                raise self._error(f"{text!r} is not expected in a list")
            parts = [text] if kind == "quoted" else text.split(",")
            values += [(part, kind == "quoted") for part in parts if part or kind == "quoted"]
        if not values:
            raise self._error("the list is empty")
        listed = _has(key, _TextTest([self._pattern(text, exact) for text, exact in values]))
        return _negate(listed) if negated else listed

    def _pattern(self, value: str, exact: bool) -> tuple[str, bool]:
        """The regular expression of a value, and whether case matters: else it is that of a text in
        lower case.
        """
        value = value.replace("\0", _NUL)
        if exact:
            return re.escape(value), True
        if _DATE.fullmatch(value):
            return f"{value}(?:{_REST_OF_DATE[len(value)]}{_ANY}*)?", True
        if len(value) > _MAX_PATTERN and ("*" in value or "?" in value):
            raise self._error(f"a value with wildcards has at most {_MAX_PATTERN:,} characters")
        value = value if value.strip("*") else "?*"  # any value but the empty one
        first, *others = (
            re.escape(part).replace(r"\?", _ANY) for part in re.split(r"\*+", value.lower())
        )
        if not others:
            return first, False
        *middle, last = others
        # Atomic: many stars do not backtrack.
        inner = "".join(f"(?>{_ANY}*?{part})" for part in middle)
        return f"{first}{inner}{_ANY}*{last}", False

    def _take(self, text: str) -> bool:
        if not self._tokens:
            return False
        kind, next_text = self._tokens[0]
        is_next = kind != "quoted" and next_text.lower() == text
        if is_next:
            self._tokens.popleft()
        return is_next

    def _pop(self) -> Token:
        if not self._tokens:
            raise self._error("it ends too early")
        return self._tokens.popleft()

    def _error(self, why: str) -> UsageError:
        return UsageError(f"filter {self._expression!r}: {why}")


def _tokenize(expression: str) -> list[Token]:
    tokens: list[Token] = []
    position, end = 0, len(expression.rstrip())
    while position < end:
        match = _TOKEN.match(expression, position)
        if match is None:
            raise UsageError(f"filter {expression!r}: can't be read at character {position + 1}")
        position = match.end()
        kind = str(match.lastgroup)
        text = match.group(kind)
        if kind == "quoted":
            text = re.sub(r"\\(.)", r"\1", text[1:-1])
        tokens.append((kind, text))
    return tokens


class _TextTest:
    """The test whether a field, or one of its values where it has several, matches one of some
    patterns; None never.
    """

    def __init__(self, patterns: Sequence[tuple[str, bool]]) -> None:
        """Take patterns, and whether case matters; they are compiled once and kept in no other
        cache.
        """
        self._patterns = [
            (re.compile(f"\0(?:{pattern})(?=\0)").split, exact) for pattern, exact in patterns
        ]

    def __call__(self, field: Any) -> bool:
        if isinstance(field, list):
            return any(map(self, field))
        return field is not None and any(self.each([_text(field), _other_text(field)]))

    def each(self, fields: list[Any]) -> list[bool]:
        """Test many fields ``[n]`` at once, as one text in which each stands between null
        characters.
        """
        try:
            text = "\0".join(["", *fields, ""])
        except TypeError:  # not all are texts
            return list(map(self, fields))
        if text.count("\0") > len(fields) + 1:
            return self.each([field.replace("\0", _NUL) for field in fields])
        lower = text.lower()
        hits = [False] * len(fields)
        for split, exact in self._patterns:
            *before, _ = split(text if exact else lower)
            for place in accumulate(1 + part.count("\0") for part in before):
                hits[place - 1] = True
        return hits


def _text(field: Any) -> str:
    """A field as a filter compares it; YAML's ``true`` stays ``true``."""
    return str(field).lower() if isinstance(field, bool) else str(field)


def _other_text(field: Any) -> str:
    """A whole number as it reads when stored as the other type, ``2024`` or ``2024.0``; other
    fields as they are.
    """
    if type(field) is int:
        return f"{field}.0"
    text = _text(field)
    return text.removesuffix(".0") if isinstance(field, float) else text


def _test_order(operator: str, value: str, exact: bool) -> Test:
    """Return the test whether a field, or one of its values, is less or greater than a value.

    Both are compared as numbers, else as dates, as far as the value says, else as texts, whose case
    matters if the value is ``exact``.
    """

    def test(field: Any) -> bool:
        if isinstance(field, list):
            return any(map(test, field))
        if field is None:
            return False
        try:
            left: Any = float(field)
            right: Any = float(value)
        except (TypeError, ValueError, OverflowError):
            left, right = _text(field), value
            if not exact:
                left, right = left.lower(), right.lower()
            if _DATED.match(left) and _DATE.fullmatch(right):
                left = left[: len(right)]  # the year or month that is compared
        return bool(_ORDERS[operator](left, right))

    return test
