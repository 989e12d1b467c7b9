import importlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import lmkrag
from lmkrag import errors
from lmkrag.errors import IndexLocked, UsageError, name_kind

ROOT = Path(__file__).parents[2]
HEAVY = [
    "torch",
    "transformers",
    "onnx",
    "onnxruntime",
    "faiss",
    "lxml",
    "docx",
    "pypdfium2",
    "nbformat",
]
HEAVY += [
    "openai",
    "vllm",
    "langchain_core",
    "llama_index",
    "httpx",
    "fastapi",
    "uvicorn",
    "mcp",
    "PIL",
    "nltk",
]


def test_the_public_names():
    imports = (Path(lmkrag.__file__)).read_text()
    assert lmkrag.__all__ == sorted(
        set(re.findall(r"^ {4,}(?:from lmkrag\S+ import )?(\w+) as \1,?$", imports, re.M))
    )
    for name in lmkrag.__all__:
        assert getattr(lmkrag, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Chunker'"):
        _ = lmkrag.Chunker


@pytest.mark.parametrize(
    "statement", ["import lmkrag", "from lmkrag.cli import main", "import lmkrag.engine"]
)
def test_nothing_heavy_is_imported(statement):
    code = f"import sys; {statement}; print([m for m in {HEAVY} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom lmkrag.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        f"print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stderr.strip() == "[]"


def test_the_error_tree():
    def parents(error):
        return {parent.__name__ for parent in error.__mro__}

    every = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    assert all(issubclass(error, errors.LmkragError) for error in every)
    assert "ValueError" in parents(errors.UsageError)
    assert {"StorageError", "FileNotFoundError"} <= parents(errors.IndexNotFound)
    assert "ImportError" in parents(errors.MissingExtra)
    assert (
        str(errors.MissingExtra("eval", "scipy"))
        == "scipy is not installed: pip install 'lmkrag[eval]'"
    )


def test_a_wheel_carries_the_recipes_and_the_schema_and_no_built_index(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 95e6
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", str(wheel)],
        check=True,
        capture_output=True,
    )
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    site = tmp_path / "site"
    assert (site / "lmkrag" / "index" / "schema.sql").is_file()
    assert (site / "lmkrag" / "py.typed").is_file()
    page = site / "lmkrag" / "server" / "static"
    imported = re.findall(
        r'"/static/([\w./-]+)"', "".join(path.read_text() for path in page.glob("*.*"))
    )
    assert len(set(imported)) > 5
    assert all((page / name).is_file() for name in imported)
    assert {"LICENSE-htm", "LICENSE-preact"} <= {path.name for path in (page / "vendor").iterdir()}
    folder = site / "lmkrag" / "readers" / "prompts"
    prompts = {path.relative_to(folder).as_posix() for path in folder.rglob("*.txt")}
    assert prompts == {
        "system.txt",
        "answer.txt",
        "rewrite.txt",
        "synthesise.txt",
        "plain/system.txt",
        "plain/answer.txt",
    }
    assert {path.name for path in (site / "lmkrag" / "recipes").iterdir()} == {
        path.name for path in (ROOT / "indexes").glob("*.toml")
    }
    code = "import lmkrag; from lmkrag.index.vectors.recipes import *; print(lmkrag.__file__, len(list_recipes()))"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    result = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=tmp_path,
    )
    assert result.stdout.split() == [str(site / "lmkrag" / "__init__.py"), "5"]


def closure(extra):
    """Names of everything that an extra pulls in, of what is installed here."""
    pending, seen = [f"lmkrag[{extra}]"], set()
    while pending:
        requirement = Requirement(pending.pop())
        key = (requirement.name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            wanted = requires(requirement.name) or []
        except PackageNotFoundError:
            continue
        for line in wanted:
            marker = Requirement(line).marker
            extras = requirement.extras or {""}
            if marker is None or any(marker.evaluate({"extra": name}) for name in extras):
                pending.append(line.partition(";")[0])
    return {name.lower() for name, _ in seen}


def test_an_extra_pulls_in_its_own_framework_only():
    chain, index = closure("langchain"), closure("llamaindex")
    assert "langchain-core" in chain
    assert "llama-index-core" in index
    assert not [name for name in chain if "llama" in name]
    assert not [name for name in index if "langchain" in name]


def test_changelog_and_version_agree():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert f"## {lmkrag.__version__}" in changelog


def test_variables_of_the_environment_are_few_and_documented():
    sources = "".join(path.read_text() for path in (ROOT / "lmkrag").rglob("*.py"))
    names = set(re.findall(r"\bLMKRAG_[A-Z_]*[A-Z]\b", sources)) - {"LMKRAG_COMPLETE"}
    settings = (ROOT / "docs/reference/settings.md").read_text()
    assert [name for name in sorted(names) if f"`{name}`" not in settings] == []


def test_the_systems_it_says_it_supports(monkeypatch, tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [
        line.rpartition(" :: ")[2] for line in project["classifiers"] if "Operating System" in line
    ]
    assert named == ["Linux", "MacOS"]
    assert sys.platform in ("linux", "darwin")
    workflow = (ROOT / ".github/workflows/test.yml").read_text()
    assert all(f"{system}-latest" in workflow for system in ("ubuntu", "macos"))
    limits = (ROOT / "README.md").read_text().partition("## Limits")[2]
    assert "macOS is run by CI only" in limits
    importlib.import_module(
        "lmkrag.index.store"
    )  # packages that it imports look at the platform, too
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(errors.LmkragError, match="on Windows, use the Windows Subsystem for Linux"):
        lmkrag.Engine.open(tmp_path / "index", create=True)


@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_that_wait_sleep_unless_the_user_says_otherwise(given, expected, tmp_path):
    code = (
        "import os, sys\nfrom lmkrag.cli import main\ntry: main(['index-tools', 'recipes'])\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules\nprint(os.environ['OMP_WAIT_POLICY'])"
    )
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    environment |= {"OMP_WAIT_POLICY": given} if given else {}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == expected


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "1 1 0 1"), ({"HF_HUB_DISABLE_TELEMETRY": "0"}, "1 0 0 1")]
)
def test_libraries_report_nothing_unless_the_user_says_otherwise(given, expected):
    names = [
        "ORT_DISABLE_TELEMETRY",
        "HF_HUB_DISABLE_TELEMETRY",
        "RAY_USAGE_STATS_ENABLED",
        "VLLM_NO_USAGE_STATS",
    ]
    code = f"import os, lmkrag; print(*(os.environ[name] for name in {names}))"
    environment = {key: value for key, value in os.environ.items() if key not in names} | given
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == expected


def test_name_kind_by_example():
    assert (name_kind(IndexLocked), name_kind(UsageError)) == ("index-locked", "usage")
