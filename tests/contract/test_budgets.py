"""How large the package may be: a limit for each room, lowered by the commit that makes it possible.

A limit that is raised has its reason beside it. ``python tests/contract/test_budgets.py`` prints the table.
"""

import re
import tomllib
from collections import Counter
from pathlib import Path

import click
import pytest

import lmkrag
from lmkrag.cli import main

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "lmkrag"

LINES = {
    "": 2_547,  # the single files of lmkrag/; notes, dates, contrasts; a session that begins without click
    "cli": 2_017,  # remembers what the arguments of `lmkrag mcp` mean
    "encoder": 1_138,  # a single question without ONNX Runtime
    "evaluation": 684,
    "formats": 4_499,  # headers of tables, merged cells, Excel's formats, layouts of JSON, parts of mail, text of PDFs
    "index": 3_886,  # columns of fields, tiers of segments; the names and numbers of a question
    "ingest": 1_520,  # a folder in step needs no parser
    "integrations": 250,  # options that do not exist get a hint
    "models": 772,  # weights in 4 bits, words in 8; a single question in NumPy
    "qdrant": 683,  # an index on Qdrant
    "readers": 2_174,  # which cell, whose version, which of several values; warnings; a model on this machine
    "rendering": 647,  # rows without names of columns
    "reranker": 768,  # a reader of passages, which marks words; a length that training shares
    "search": 4_482,  # what 230 probes of evidence asked for: subjects, versions, periods, ellipses; stale files, dates
    "sentences": 1_044,  # headings by the layout; what declares a name
    "server": 3_165,  # a session that begins without click, and names no folder to clients
    "training": 1_215,  # questions that nothing answers
}
"""Lines of Python in each folder of ``lmkrag/``."""

LIMITS = {
    "lines": 31_491,  # below the 31,500 that are to be the most; an index on Qdrant takes 690 of them
    "files": 219,
    "files at the top": 17,
    "base dependencies": 24,
    "members of Engine": 20,
    "public names": 28,  # with ServerError and MissingExtra, which callers catch
    "commands": 18,
    "options": 203,  # copying to Qdrant; --since, --until and --question-dates of search, ask and chat
    "environment variables": 10,
}


def count_lines() -> dict[str, int]:
    """Lines of Python by folder of the package; ``""`` is the package itself."""
    lines: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[:-1]
        lines[room[0] if room else ""] += len(path.read_text().splitlines())
    return dict(sorted(lines.items()))


def walk_commands(group: click.Group) -> list[click.Command]:
    """Every command of a group and of the groups inside it."""
    commands: list[click.Command] = []
    for command in group.commands.values():
        commands += walk_commands(command) if isinstance(command, click.Group) else [command]
    return commands


def count_all() -> dict[str, int]:
    """What :data:`LIMITS` limits, as it is."""
    sources = [path.read_text() for path in PACKAGE.rglob("*.py")]
    variables = set(re.findall(r"\bLMKRAG_[A-Z_]*[A-Z]\b", "".join(sources))) - {"LMKRAG_COMPLETE"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    options = {
        (command.name, option.name)
        for command in walk_commands(main)
        for option in command.params
        if isinstance(option, click.Option)
    }
    return {
        "lines": sum(count_lines().values()),
        "files": len(sources),
        "files at the top": len(list(PACKAGE.glob("*.py"))),
        "base dependencies": len(project["dependencies"]),
        "members of Engine": len([name for name in dir(lmkrag.Engine) if not name.startswith("_")]),
        "public names": len(lmkrag.__all__),
        "commands": len(main.commands),
        "options": len(options),
        "environment variables": len(variables),
    }


def format_table() -> str:
    """The limits beside what is there."""
    rows = [(f"lmkrag/{room}", lines, LINES.get(room, 0)) for room, lines in count_lines().items()]
    rows += [(name, count, LIMITS[name]) for name, count in count_all().items()]
    return "\n".join(f"{name:<24}{count:>8,}{limit:>8,}" for name, count, limit in rows)


@pytest.mark.parametrize("room", sorted({*count_lines(), *LINES}))
def test_the_lines_of_a_room(room: str) -> None:
    assert count_lines().get(room, 0) <= LINES.get(room, 0), f"lmkrag/{room}: remove lines, or say why it may grow"


@pytest.mark.parametrize("name", LIMITS)
def test_the_size_of_the_package(name: str) -> None:
    assert count_all()[name] <= LIMITS[name]


def test_a_limit_is_no_looser_than_the_package_needs() -> None:
    assert [room for room in LINES if not (PACKAGE / room).is_dir()] == []
    slack = {name: limit - count_all()[name] for name, limit in LIMITS.items() if name not in ("lines", "files")}
    assert {name for name, spare in slack.items() if spare > 0} == set()


if __name__ == "__main__":
    print(format_table())
