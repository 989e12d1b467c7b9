"""Every regular expression of the package, and texts that show whether one is slow.

A pattern is slow that can read the same characters in several ways, or that reads on from every place of a text. Which
text shows it depends on the pattern: it repeats pieces that the pattern has itself.
"""

import ast
import builtins
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from random import Random
from re import _constants as codes
from re import _parser
from types import ModuleType
from typing import Any

import pytest

import lmkrag
from lmkrag.language.patterns import LateRegex
from lmkrag.sentences import prose

METHODS = ("match", "fullmatch", "search", "finditer")
_METHOD_OF = {name: name for name in METHODS} | dict.fromkeys(
    ("findall", "split", "sub", "subn"), "finditer"
)
"""Functions of ``re``, and the method that takes as long."""

_LENGTH = 4_000  # characters of a text
_SUSPICIOUS = 0.0015  # seconds for so many characters; linear patterns take a tenth of it
_TOO_LONG = 1.0  # seconds of processor time after which a pattern is stopped
_MOST_GROWTH = 2.5  # of the time for twice the characters
_TRIALS = 6

_EXAMPLES = 4  # texts that are made of a part of a pattern
_MOST_PIECES = 80  # of a pattern, that are repeated
_MOST_CHARACTERS = 30  # that are repeated one by one
_RANDOM = 60  # pumps of random characters and pieces
_COMMON = "a1 A\n\t.,-_'\"(:\r0é漢"
_ENDS = ("", "\x00", "a\n")  # of a text: what a pattern wants to follow does not


@dataclass(frozen=True)
class Found:
    """A pattern of the package, where it stands, and the methods that it is used with."""

    place: str
    pattern: re.Pattern[Any]
    methods: tuple[str, ...]


# --- which patterns there are


def find_patterns() -> list[Found]:
    """Return the patterns of all modules: those that they hold, and those inside functions."""
    found: dict[tuple[Any, int], Found] = {}
    root = Path(lmkrag.__file__).parent
    trees = {
        path.relative_to(root): ast.parse(path.read_text()) for path in sorted(root.rglob("*.py"))
    }
    public: dict[str, set[str]] = {}
    for tree in trees.values():
        for name, methods in _methods_by_name(tree).items():
            public.setdefault(name, set()).update(() if name.startswith("_") else methods)
    found |= {(one.pattern.pattern, one.pattern.flags): one for one in _patterns_of_others()}
    for path, tree in trees.items():
        name = ".".join(["lmkrag", *path.with_suffix("").parts]).removesuffix(".__init__")
        if name.endswith("__main__"):
            continue
        for one in _find_in_module(import_module(name), path, tree, public):
            key = one.pattern.pattern, one.pattern.flags
            known = found.get(key, one)
            used = tuple(method for method in METHODS if method in {*known.methods, *one.methods})
            found[key] = Found(known.place, one.pattern, used)
    return list(found.values())


def _patterns_of_others() -> Iterator[Found]:
    """The patterns that the package takes from another one while it runs."""
    language = vars(type(prose._load_punkt("en")._lang_vars))
    yield Found("sentences/prose.py", language["contexts"], ("finditer",))
    yield Found("sentences/prose.py", language["words"], ("finditer",))


_OF_OTHERS = {"sentences/prose.py"}  # modules whose patterns the function above finds


def _find_in_module(
    module: ModuleType, path: Path, tree: ast.Module, public: Mapping[str, set[str]]
) -> Iterator[Found]:
    used = _methods_by_name(tree)
    named: dict[re.Pattern[Any], set[str]] = {}
    for name, value in vars(module).items():
        for pattern in _held_patterns(value, depth=0):
            named.setdefault(pattern, set()).add(name)
    for pattern, names in named.items():
        called = {
            method for name in names for method in used.get(name, set()) | public.get(name, set())
        }
        yield Found(f"{path}: {min(names)}", pattern, tuple(called or METHODS))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "re":
            raise ValueError(f"{path}:{node.lineno}: write import re, so that patterns are found")
        is_ours = path.as_posix() not in _OF_OTHERS
        if is_ours and isinstance(node, ast.Call) and (function := _function_of_re(node)):
            pattern = _evaluate(node, function, module)
            if pattern not in named:
                methods = (_METHOD_OF[function],) if function in _METHOD_OF else METHODS
                yield Found(f"{path}:{node.lineno}", pattern, methods)


def _methods_by_name(tree: ast.Module) -> dict[str, set[str]]:
    """The methods that a module uses of what has a name, or another name."""
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in _METHOD_OF
            and isinstance(node.value, ast.Name)
        ):
            used.setdefault(node.value.id, set()).add(_METHOD_OF[node.attr])
    for target, value in _bindings(tree):
        for name in ast.walk(value):
            if isinstance(name, ast.Name):
                used.setdefault(name.id, set()).update(used.get(target, set()))
    return {name: methods for name, methods in used.items() if methods}


def _bindings(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names that assignments and loops give, each with the value that it is or is taken from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
        elif isinstance(node, (ast.For, ast.comprehension)):
            target, value = node.target, node.iter
        else:
            continue
        for name in ast.walk(target):
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                yield name.id, value


def _held_patterns(value: object, depth: int) -> Iterator[re.Pattern[Any]]:
    """The patterns in a value, in its items, or in the attributes of a class."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, LateRegex):
        yield re.compile(*value._arguments)
    elif depth < 4 and isinstance(value, dict):
        yield from _held_by_all([*value, *value.values()], depth)
    elif depth < 4 and isinstance(value, (list, tuple, set, frozenset)):
        yield from _held_by_all(value, depth)
    elif depth < 1 and isinstance(value, type) and value.__module__.startswith("lmkrag"):
        yield from _held_by_all(vars(value).values(), depth)


def _held_by_all(values: Iterable[object], depth: int) -> Iterator[re.Pattern[Any]]:
    for value in values:
        yield from _held_patterns(value, depth + 1)


def _function_of_re(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name) and call.func.id == "LateRegex":
        return "compile"
    of_re = (
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "re"
    )
    if not of_re or isinstance(
        call.args[0], ast.Starred
    ):  # LateRegex itself, whose arguments are found where it is made
        return ""
    name = call.func.attr  # type: ignore[attr-defined]
    return name if name == "compile" or name in _METHOD_OF else ""


class _Names(dict[str, Any]):
    """The names of a module; local names stand for a word."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, "word")


def _evaluate(call: ast.Call, function: str, module: ModuleType) -> re.Pattern[Any]:
    names = _Names(vars(module))

    def value_of(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "pattern", "eval"), names, names)

    pattern, *_ = map(value_of, call.args[:1])
    flags_at = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(function, 2)
    flags = [keyword.value for keyword in call.keywords if keyword.arg == "flags"] + call.args[
        flags_at : flags_at + 1
    ]
    return re.compile(pattern, *map(value_of, flags))


# --- which texts a pattern is tried with


def make_texts(pattern: re.Pattern[Any]) -> list[Any]:
    """Return texts of about ``_LENGTH`` characters that repeat pieces of a pattern."""
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    alphabet = _alphabet(tree, isinstance(pattern.pattern, bytes))
    pumps = dict.fromkeys(("", character, end) for character in alphabet for end in _ENDS)
    random = Random(0)
    pieces = list(islice(_pieces(tree, "", alphabet), _MOST_PIECES))
    for before, piece in pieces:
        pumps |= dict.fromkeys(
            [(before, piece, random.choice(_ENDS)), ("", piece + " ", ""), ("", piece + "\n", "")]
        )
    for _ in range(_RANDOM):
        before, *pump = (
            random.choice([random.choice(alphabet), random.choice(pieces)[1]]) for _ in range(5)
        )
        pumps["".join(before), "".join(pump[: random.randint(1, 4)]), random.choice(_ENDS)] = None
    texts = (before + pump * (_LENGTH // len(pump)) + end for before, pump, end in pumps)
    if isinstance(pattern.pattern, bytes):
        return [text.encode("latin-1") for text in texts]
    return list(texts)


def _alphabet(tree: Any, is_bytes: bool) -> list[str]:
    """Characters that a pattern names, the ends of its ranges, and some that classes have in common."""
    named: list[int] = []
    for operator, value in _walk(tree):
        if operator in (codes.LITERAL, codes.NOT_LITERAL):
            named.append(value)
        elif operator is codes.RANGE:
            named += value
    characters = dict.fromkeys([*_COMMON, *map(chr, named)])
    fits = [character for character in characters if not is_bytes or ord(character) < 256]
    return fits[:_MOST_CHARACTERS]


def _walk(tree: Any) -> Iterator[tuple[Any, Any]]:
    for operator, value in tree:
        yield operator, value
        if operator is codes.IN:
            yield from value
        for part in _parts(operator, value):
            yield from _walk(part)


def _parts(operator: Any, value: Any) -> list[Any]:
    """The patterns inside a part of a pattern."""
    if operator is codes.BRANCH:
        return list(value[1])
    if operator in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return [value[2]]
    if operator is codes.SUBPATTERN:
        return [value[3]]
    if operator in (codes.ASSERT, codes.ASSERT_NOT):
        return [value[1]]
    if operator is codes.ATOMIC_GROUP:
        return [value]
    if operator is codes.GROUPREF_EXISTS:
        return [part for part in value[1:] if part is not None]
    return []


def _pieces(tree: Any, before: str, alphabet: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Examples of the parts of a pattern between its repeats, each with an example of what stands before."""
    items = list(tree)
    borders = [number for number, item in enumerate(items) if _is_long(*item)]
    borders = sorted({0, len(items), *borders, *(number + 1 for number in borders)})
    for start in borders:
        lead = before + next(iter(_examples(items[:start], alphabet)), "")
        for stop in borders:
            for piece in _examples(items[start:stop], alphabet) if start < stop else ():
                if piece:
                    yield lead, piece
    for number, item in enumerate(items):
        lead = before + next(iter(_examples(items[:number], alphabet)), "")
        for part in _parts(*item):
            yield from _pieces(part, lead, alphabet)


def _is_long(operator: Any, value: Any) -> bool:
    """Whether a part may match a text of any length, or has several parts."""
    return any(
        one in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT) and inside[1] > 3
        for one, inside in _walk([(operator, value)])
    )


def _examples(tree: Any, alphabet: Sequence[str]) -> list[str]:
    """Some texts that a part of a pattern matches, if what stands around it allows."""
    choices = [_examples_of(operator, value, alphabet) for operator, value in tree]
    count = max(map(len, choices), default=1)
    texts = (
        "".join(choice[number % len(choice)] for choice in choices if choice)
        for number in range(count)
    )
    return list(dict.fromkeys(texts))[:_EXAMPLES]


def _examples_of(operator: Any, value: Any, alphabet: Sequence[str]) -> list[str]:
    if operator is codes.LITERAL:
        return [chr(value)]
    if operator in (codes.NOT_LITERAL, codes.ANY, codes.IN):
        matches = partial(_matches, operator, value)
        return list(islice(filter(matches, alphabet), _EXAMPLES))
    if operator in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        inner = _examples(value[2], alphabet)
        return [text * max(1, value[0]) for text in inner] + [""] * (value[0] == 0)
    if operator is codes.ASSERT_NOT:
        return [""]
    inside = [text for part in _parts(operator, value) for text in _examples(part, alphabet)]
    return ["", *inside] if operator is codes.ASSERT else inside


def _matches(operator: Any, value: Any, character: str) -> bool:
    """Whether a class of characters has one."""
    if operator is codes.ANY:
        return character != "\n"
    if operator is codes.NOT_LITERAL:
        return ord(character) != value
    negated = value[0][0] is codes.NEGATE
    return negated != any(_in_class(kind, one, character) for kind, one in value)


_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}


def _in_class(kind: Any, value: Any, character: str) -> bool:
    if kind is codes.LITERAL:
        return ord(character) == value
    if kind is codes.RANGE:
        return value[0] <= ord(character) <= value[1]
    return kind is codes.CATEGORY and re.match(_CATEGORIES[value], character) is not None


# --- how long it takes


class _Stopped(BaseException):
    """A pattern took too long."""


@contextmanager
def _stopwatch() -> Iterator[None]:
    """Stop what takes longer than ``_TOO_LONG`` seconds of processor time, as a regular expression can be."""

    def stop(*_: object) -> None:
        raise _Stopped

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _TOO_LONG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def find_slow_text(pattern: re.Pattern[Any], method: str) -> Any:
    """Return a text whose length a pattern's time does not follow, or None."""
    for text in make_texts(pattern):
        if _measure(pattern, method, text) > _SUSPICIOUS and _grows(pattern, method, text):
            return text
    return None


def _grows(pattern: re.Pattern[Any], method: str, text: Any) -> bool:
    """Whether twice and four times the text take more than 2.5 times as long, each time that it is tried."""
    middle = len(text) // 2
    texts = [text[:middle] * count + text[middle:] for count in (1, 3, 7)]
    best = [_TOO_LONG] * len(texts)
    for _ in range(_TRIALS):
        for number, one in enumerate(texts):
            best[number] = min(best[number], _measure(pattern, method, one))
            longer = number and best[number] < _TOO_LONG
            if longer and best[number] < _MOST_GROWTH * best[number - 1]:
                return False
            if best[number] >= _TOO_LONG:
                return True
    return True


def _measure(pattern: re.Pattern[Any], method: str, text: Any) -> float:
    """Seconds of processor time."""
    began = time.thread_time()
    try:
        with _stopwatch():
            result = getattr(pattern, method)(text)
            for _ in result if method == "finditer" else ():
                pass
    except _Stopped:
        return _TOO_LONG
    return time.thread_time() - began


# --- the tests


def test_the_time_of_every_pattern_follows_the_length_of_the_text():
    slow = {}
    for found in find_patterns():
        for method in found.methods:
            if (text := find_slow_text(found.pattern, method)) is not None:
                slow[f"{found.place}, {method}"] = f"{text[:30]!r} ... {text[-10:]!r}"
    assert slow == {}


POSTMARK = (
    rb"^From (?:[^\r\n]* |)[A-Z][a-z][a-z],? +(?:[A-Z][a-z][a-z] +\d\d?|\d\d? +[A-Z][a-z][a-z])[^\r\n]* \d\d?:\d\d"
    rb"[^\r\n]*\r?\n(?=[!-9;-~]+:)"
)


@pytest.mark.parametrize(
    ("method", "pattern"),
    [
        pytest.param(
            "finditer",
            r"(?<!\w)'(?=\S)((?:[^'\n]|'(?=\w))+)(?<=\S)'(?!\w)",
            id="quadratic: an open quotation",
        ),
        pytest.param("match", POSTMARK, id="cubic: three runs of one class"),
        pytest.param(
            "match",
            r"(?:\W{0,2}[\dIVXLC]{1,5}[.)]?(?:\d{1,3}\.?)*\W+)?[^\W\d_].*[^\W\d_]{2}",
            id="exponential: a repeat in a repeat",
        ),
        pytest.param("search", r"\w+$", id="quadratic: an end that is searched"),
        pytest.param("fullmatch", r".*_.*", id="quadratic: two runs of one class"),
        pytest.param("finditer", r"<[^>\n]*>", id="quadratic: an open bracket"),
    ],
)
def test_a_slow_pattern_is_found(method, pattern):
    assert find_slow_text(re.compile(pattern, re.MULTILINE), method) is not None


@pytest.mark.parametrize(
    ("method", "pattern"),
    [
        ("match", r"\w+$"),
        ("search", r"(?<!\w)\w+$"),
        ("fullmatch", r"[^_]*_.*"),
        ("finditer", r"<[^<>\n]*>"),
    ],
)
def test_a_linear_pattern_is_left_alone(method, pattern):
    assert find_slow_text(re.compile(pattern), method) is None


SOURCE = """
import re
from lmkrag.language.patterns import LateRegex

GLOBAL, BESIDE = re.compile("a"), LateRegex("b", re.IGNORECASE)
IN_A_DICTIONARY = {"c": (re.compile("c"),)}
BY_NAME = {"of a loop": re.compile("h")}

class Reader:
    OF_A_CLASS = re.compile("d")

def read(text, end):
    kept = [re.compile(word) for word in ("e", "f")]
    for name, one in BY_NAME.items():
        if one.fullmatch(text):
            return name
    chosen = GLOBAL if text else BESIDE
    return chosen.match(text) or re.sub(rf"g{end}", "", text, flags=re.DOTALL)
"""


def test_patterns_are_found_wherever_they_are():
    module = ModuleType("lmkrag.sample")
    exec(SOURCE, vars(module))
    found = {
        one.pattern.pattern: one
        for one in _find_in_module(module, Path("sample.py"), ast.parse(SOURCE), {})
    }
    assert {"a", "b", "c", "d", "gword"} <= {*found}
    assert found["a"].methods == found["b"].methods == ("match",)
    assert found["c"].methods == METHODS
    assert found["h"].methods == ("fullmatch",)
    assert (found["gword"].methods, found["gword"].pattern.flags & re.DOTALL) == (
        ("finditer",),
        re.DOTALL,
    )
