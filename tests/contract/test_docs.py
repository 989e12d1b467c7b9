"""The README and the documentation: every command and every piece of Python runs, and the output shown is real."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lmkrag.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LOG = [page for page in sorted((ROOT / "benchmarks/log").glob("*.md")) if page.name != "README.md"]
NOT_RUN = re.compile(r"<!-- not run: .*? -->\n```(?:console|python)\n.*?```", re.DOTALL)
SERVERS = ("serve", "mcp", "chat")  # they do not end
GIVEN_UP = [
    "second look",
    "as far as there are",
    "what is read.",
    "of before",
    "by itself where",
    "nothing encoded again",
    "stands elsewhere",
    "for ever",
]


def console(text: str) -> list[tuple[str, str]]:
    """The commands of a page, and what is printed after each."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [
        found for block in blocks for found in re.findall(r"\$ (.*)\n((?:(?!\$ ).*\n)*)", block)
    ]


def arguments_of(command: str) -> list[str]:
    return shlex.split(command.partition(" && ")[0], comments=True)[1:]


@pytest.fixture
def folder(tmp_path, corpus, built_index, monkeypatch):
    """What a reader of the guides has: documents in ``handbook``, an index of them, and the sample corpus."""
    shutil.copytree(corpus, tmp_path / "handbook")
    shutil.copytree(built_index, tmp_path / "indexes" / "handbook")
    (tmp_path / "tests/data").mkdir(parents=True)
    (tmp_path / "tests/data/corpus").symlink_to(corpus)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_parse(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("token.txt").write_text("secret")
    Path("evidence.json").write_text("{}")
    Path("handbook").mkdir()
    for command, _ in console(page.read_text()):
        if command.startswith("lmkrag "):
            command_line: click.Command = main
            arguments = arguments_of(command)
            while isinstance(command_line, click.Group):
                command_line = command_line.commands[arguments.pop(0)]
            command_line.make_context("lmkrag", arguments, resilient_parsing=False, default_map={})


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "$ lmkrag" in page.read_text()],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_run(page, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    if re.search(r"lmkrag index \S+ --index indexes/handbook\n", page.read_text()):
        shutil.rmtree("indexes/handbook")
    for command, shown in console(NOT_RUN.sub("", page.read_text())):
        arguments = arguments_of(command) if command.startswith("lmkrag ") else ["serve"]
        if arguments[0] in SERVERS or "--watch" in arguments:
            continue
        result = CliRunner().invoke(main, arguments)
        refused = shown.startswith("Nothing in these documents")
        assert result.exit_code == refused, (command, result.output)
        if shown.strip() and arguments[0] in ("ask", "search"):
            score = re.compile(r"  (\d\.\d+)\b")
            assert score.sub("", result.stdout).rstrip() == score.sub("", shown).rstrip(), command
            printed, expected = (
                [float(value) for value in score.findall(text)] for text in (result.stdout, shown)
            )
            assert printed == pytest.approx(
                expected, abs=0.03
            )  # the last digits depend on the processor


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "```python" in page.read_text()],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_python_runs(page, folder, capsys):
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", NOT_RUN.sub("", page.read_text()), re.DOTALL):
        if "localhost:8700" not in code:  # see tests/server/test_readme.py
            exec(code, names)
    if "engine" in names:
        names["engine"].close()


def test_examples_index_nothing_of_the_repository_but_the_sample_corpus():
    indexed = re.compile(
        r"""(?:lmkrag (?:index|serve|grep) |engine\.add\(|Directory\(|-v )["']?(?:\$PWD/)?([\w./-]+)"""
    )
    names = [name for page in PAGES for name in indexed.findall(page.read_text())]
    assert {"tests/data/corpus", "handbook"} <= {*names}
    assert [name for name in names if (ROOT / name).exists() and name != "tests/data/corpus"] == []


def test_the_site_builds_without_a_broken_link(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    http = (tmp_path / "site/reference/http/index.html").read_text()
    assert "POST /api/search" in http
    assert "rerank_timeout_ms" in (tmp_path / "site/reference/python/index.html").read_text()
    assert "--rerank-timeout-ms" in (tmp_path / "site/reference/commands/index.html").read_text()


def test_links_into_the_repository_lead_to_files():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for path in re.findall(
            r"lmkrag/lmkrag/(?:blob|tree|main)/(?:main/)?([^)#\s]+)", page.read_text()
        ):
            assert (ROOT / path).exists(), (page.name, path)


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LOG, ids=lambda page: page.name)
def test_a_page_of_the_log_begins_with_its_conclusion_and_has_the_newest_trial_first(page):
    conclusion, *trials = page.read_text().split("\n## ")
    assert 50 <= len(conclusion.partition("\n")[2].split()) <= 150
    dates = [re.match(r"\d{4}-\d\d-\d\d(?=: )", trial)[0] for trial in trials]
    assert dates == sorted(dates, reverse=True)


def test_every_page_of_the_log_is_in_its_index():
    index = (ROOT / "benchmarks/log/README.md").read_text()
    assert set(re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", index, re.M)) == {page.name for page in LOG}


def test_links_of_the_benchmarks_lead_to_files_and_headings():
    for page in [ROOT / "benchmarks/README.md", ROOT / "benchmarks/log/README.md", *LOG]:
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), (page.name, link)
            assert not anchor or anchor in anchors_of(target), (page.name, link)


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 1_200
    assert len(text.splitlines()) <= 250


def test_words_that_were_given_up_are_in_no_page():
    for page in [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md"]:
        text = " ".join(page.read_text().lower().split())
        assert [word for word in GIVEN_UP if word in text] == [], page.name


def test_every_term_of_the_glossary_is_told_once():
    terms = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/glossary.md").read_text(), re.M)
    assert len(terms) == len(set(terms)) and len(terms) > 30
