"""How large the house may be, by what is in it: tokens, branches, words of documentation.

Lines are no measure: they shrink by being made denser. A docstring is one token, whatever its
length, so documentation is free. A limit is lowered by the commit that makes it possible; one that
is raised has its reason beside it. ``python tests/contract/test_budgets.py`` prints the table.
"""

import ast
import inspect
import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from radon.complexity import cc_rank, cc_visit

import lmkrag
from lmkrag.cli import main

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "lmkrag"

TOKENS = {
    "": 10_560,  # one module makes all HTTP clients; an answer warns of what it cites
    "cli": 15_761,  # what is quoted is marked; left-overs and emptied folders are named; what searches
    "encoder": 8_223,  # the device of the environment
    "evaluation": 5_918,
    "evidence": 10_083,  # questions that an index answers, for the page
    "formats": 63_348,  # groups named once, tables side by side, cards, manual pages, pages of text files, names in Slack, read once, numbered heads of pages
    "index": 30_299,  # words of messages count by pieces; vectors on a card, its memory, forks
    "ingest": 15_744,  # a first answer says what it searches
    "integrations": 1_510,
    "language": 8_504,  # who speaks in a message, whatever program wrote it, or in what a mail quotes; the order of dates
    "models": 5_540,  # the device of the environment
    "qdrant": 6_111,
    "readers": 14_174,  # whose server answers; a check within a request's time
    "rendering": 8_246,  # highlighted code, symbols of LaTeX
    "reranker": 6_714,  # last layers that judge, started when something is judged
    "search": 30_317,  # whole sections and items, signatures of references, what mails quote, kept by their places
    "sentences": 10_617,  # borders and pieces of messages; listings and terms in other markup; marks of bold text
    "server": 23_470,  # errors of tools by their own kind; what the first screen and the document panel show; blank ends
    "system": 2_096,  # what only some systems have, which six rooms asked for; a card's memory
    "training": 10_348,
    "types": 1_880,  # arrays and values of JSON, too
}
"""Tokens of Python in each room of the package."""

LIMITS = {
    "tokens": 289_463,  # groups, cards and tables beside each other; whole sections and items; quoted mails; numbered heads of pages
    "tokens of pipelines": 29_737,
    "tokens of benchmarks": 62_971,  # public sets by their own rules, conversations, a card, what each rule mends
    "lines of JavaScript": 1_667,  # history, all indexes, filters, find in a document
    "files": 274,  # CSV apart from tables, running lines, code pages, chats, messages, highlighting, the overview, a card, manual pages
    "files at the top": 11,
    "functions of radon's rank D": 1,
    "functions of rank E or F": 0,
    "mean complexity, in hundredths": 399,  # manual pages, tables side by side
    "private attributes in tests": 144,  # two are of python-docx, to write an odd table
    "base dependencies": 27,  # pygments, which rich brings anyway
    "members of Engine": 23,  # three of them attributes that an engine is given
    "public names": 28,  # with ServerError and MissingExtra, which callers catch
    "commands": 18,
    "options": 206,  # --feedback of serve
    "environment variables": 12,  # LMKRAG_DEVICE
}

LEAST = {"words of docstrings per 1,000 tokens": 247}

LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.COMMENT,
    tokenize.ENDMARKER,
}
"""Tokens that do not count: a comment is free, and so is how the code is laid out."""


def count_tokens(path: Path) -> int:
    """Return how many tokens a file has; a docstring is one."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return sum(token.type not in LAYOUT for token in tokens)


@cache
def count_rooms() -> dict[str, int]:
    """Return the tokens of each room; ``""`` is the package itself."""
    tokens: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        folders = path.relative_to(PACKAGE).parts[:-1]
        tokens[folders[0] if folders else ""] += count_tokens(path)
    return dict(sorted(tokens.items()))


def count_folder(name: str) -> int:
    """Return the tokens of a folder beside the package."""
    return sum(map(count_tokens, (ROOT / name).rglob("*.py")))


def walk_trees() -> Iterator[ast.AST]:
    """Yield every node of the package's code."""
    for path in PACKAGE.rglob("*.py"):
        yield from ast.walk(ast.parse(path.read_text()))


def count_docstrings() -> int:
    """Return the words of all docstrings of the package."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in walk_trees() if isinstance(node, documented))
    return sum(len((ast.get_docstring(node) or "").split()) for node in nodes)


def measure_complexity() -> list[int]:
    """Return the cyclomatic complexity of every class, function and method (McCabe, 1976)."""
    blocks = (block for path in PACKAGE.rglob("*.py") for block in cc_visit(path.read_text()))
    return [block.complexity for block in blocks]


def count_private() -> int:
    """Return how often tests name a private attribute of something that is not theirs."""
    count = 0
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute):
                continue
            is_private = node.attr.startswith("_") and not node.attr.startswith("__")
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            count += is_private and not is_own
    return count


def count_members() -> int:
    """Return how many public names an engine has: methods, properties, and attributes it is given."""
    tree = ast.parse(inspect.getsource(lmkrag.Engine))
    given = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return len([name for name in {*dir(lmkrag.Engine), *given} if not name.startswith("_")])


def walk_commands(group: click.Group) -> list[click.Command]:
    """Return every command of a group and of the groups inside it."""
    commands: list[click.Command] = []
    for command in group.commands.values():
        commands += walk_commands(command) if isinstance(command, click.Group) else [command]
    return commands


@cache
def count_all() -> dict[str, int]:
    """Return what :data:`LIMITS` limits, as it is."""
    sources = [path.read_text() for path in PACKAGE.rglob("*.py")]
    variables = set(re.findall(r"\bLMKRAG_[A-Z_]*[A-Z]\b", "".join(sources))) - {"LMKRAG_COMPLETE"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    scripts = [path.read_text() for path in PACKAGE.rglob("*.js")]
    complexity = measure_complexity()
    ranks = Counter(map(cc_rank, complexity))
    options = {
        (command.name, option.name)
        for command in walk_commands(main)
        for option in command.params
        if isinstance(option, click.Option)
    }
    return {
        "tokens": sum(count_rooms().values()),
        "tokens of pipelines": count_folder("pipelines"),
        "tokens of benchmarks": count_folder("benchmarks"),
        "lines of JavaScript": sum(len(script.splitlines()) for script in scripts),
        "files": len(sources),
        "files at the top": len(list(PACKAGE.glob("*.py"))),
        "functions of radon's rank D": ranks["D"],
        "functions of rank E or F": ranks["E"] + ranks["F"],
        "mean complexity, in hundredths": round(100 * sum(complexity) / len(complexity)),
        "private attributes in tests": count_private(),
        "base dependencies": len(project["dependencies"]),
        "members of Engine": count_members(),
        "public names": len(lmkrag.__all__),
        "commands": len(main.commands),
        "options": len(options),
        "environment variables": len(variables),
    }


@cache
def count_least() -> dict[str, int]:
    """Return what :data:`LEAST` asks for, as it is."""
    words = 1_000 * count_docstrings() / sum(count_rooms().values())
    return {"words of docstrings per 1,000 tokens": int(words)}


def format_table() -> str:
    """Return the limits beside what is there."""
    rooms = count_rooms().items()
    rows = [(f"lmkrag/{room}", tokens, TOKENS.get(room, 0)) for room, tokens in rooms]
    rows += [(name, count, LIMITS[name]) for name, count in count_all().items()]
    rows += [(name, count, LEAST[name]) for name, count in count_least().items()]
    return "\n".join(f"{name:<40}{count:>8,}{limit:>8,}" for name, count, limit in rows)


@pytest.mark.parametrize("room", sorted({*count_rooms(), *TOKENS}))
def test_the_tokens_of_a_room(room: str) -> None:
    limit = TOKENS.get(room, 0)
    assert count_rooms().get(room, 0) <= limit, (
        f"lmkrag/{room}: remove code, or say why it may grow"
    )


@pytest.mark.parametrize("name", LIMITS)
def test_the_size_of_the_house(name: str) -> None:
    assert count_all()[name] <= LIMITS[name]


def test_the_documentation_is_kept() -> None:
    assert {name: count for name, count in count_least().items() if count < LEAST[name]} == {}


def test_a_limit_is_no_looser_than_the_house_needs() -> None:
    assert [room for room in TOKENS if not (PACKAGE / room).is_dir()] == []
    loose = ("tokens", "files", "mean complexity, in hundredths")
    counts = count_all()
    slack = {name: limit - counts[name] for name, limit in LIMITS.items() if name not in loose}
    spared = {name: spare for name, spare in slack.items() if spare > 0 and "tokens" not in name}
    assert spared == {}


if __name__ == "__main__":
    print(format_table())
