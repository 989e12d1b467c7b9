"""Formats and readers of another package, installed beside lmkrag."""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPE = "name = Rye bread\nserves = 8\nsteps = Knead the dough for ten minutes. Bake the loaf for an hour at 200 degrees."


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The variable of the environment with which a process has the example package."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(Path(__file__).parent / "example", folder / "source")
    wheel = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(wheel, cwd=folder / "source", check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder / "site"),
    ]
    subprocess.run([*install, str(built)], check=True, capture_output=True)
    return {"PYTHONPATH": f"{folder / 'site'}:{ROOT}"}


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "bread.recipe").write_bytes(base64.b64encode(RECIPE.encode()))
    return tmp_path / "docs"


def test_files_of_a_plugin_are_read(lmkrag_process, example, docs, tmp_path):
    index = tmp_path / "index"
    done = lmkrag_process("index", docs, "--index", index, "--json", env=example)
    assert json.loads(done.stdout)["added"] == 1, done.stderr
    found = lmkrag_process(
        "search", "how long is it baked?", "--index", index, "--json", env=example
    )
    span = json.loads(found.stdout)["spans"][0]
    assert "Bake the loaf for an hour" in span["text"]
    assert (span["kind"], span["title"], span["meta"]) == ("recipe", "Rye bread", {"serves": 8})


def test_without_the_plugin_the_same_file_is_plain_text(lmkrag, docs, tmp_path):
    lmkrag("index", docs, "--index", tmp_path / "index")
    assert lmkrag("show", "bread.recipe", "--index", tmp_path / "index").stdout.startswith("(data)")


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("bad.recipe", b"no base64!", "not a recipe ("),
        ("fields.recipe", base64.b64encode(b"name = Soup"), "can't be parsed (KeyError)"),
        (
            "any.broken",
            b"text",
            "'broken' of lmkrag-example: can't be imported (ModuleNotFoundError",
        ),
    ],
    ids=["its own error", "a bug of the plug-in", "not importable"],
)
def test_a_plugin_that_fails_costs_one_file(
    lmkrag_process, example, docs, tmp_path, name, data, reason
):
    (docs / name).write_bytes(data)
    done = lmkrag_process("index", docs, "--index", tmp_path / "index", "--json", env=example)
    report = json.loads(done.stdout)
    assert report["added"] == 1
    (skipped,) = report["skipped"]
    assert skipped["path"].endswith(name)
    assert skipped["reason"].startswith(reason)


def test_a_reader_of_a_plugin_answers(lmkrag_process, example, docs, tmp_path):
    index = tmp_path / "index"
    lmkrag_process("index", docs, "--index", index, env=example)
    ask = (
        "ask",
        "how long is the dough kneaded?",
        "--index",
        index,
        "--json",
        "--reader",
        "headline",
    )
    answer = json.loads(lmkrag_process(*ask, "--max-tokens", "3", env=example).stdout)
    assert (answer["reader"], answer["text"]) == ("headline", "KNEAD THE DOUGH [1]")
    done = lmkrag_process(*ask, "--model", "m", env=example)
    assert done.returncode == 1
    assert "reader 'headline': can't be loaded (TypeError" in done.stderr


def test_an_unknown_reader_names_those_that_are_there(lmkrag_process, index, example):
    done = lmkrag_process("ask", "who?", "--index", index, "--reader", "nobody", env=example)
    assert done.returncode == 2
    assert done.stderr.strip().endswith(
        "use one of extractive, openai, vllm, transformers, headline"
    )
