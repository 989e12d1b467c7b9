import subprocess
import sys

import pytest

import lmkrag
from lmkrag import errors

HEAVY = ["torch", "transformers", "faiss", "nltk", "lxml", "docx", "pypdfium2", "nbformat", "langchain", "llama_index"]


def test_the_public_names():
    assert lmkrag.__all__ == [
        "Answer",
        "Citation",
        "Context",
        "Document",
        "Engine",
        "Hit",
        "IndexReport",
        "IndexStatus",
        "LandmarkEncoder",
        "LmkragError",
        "Sentence",
        "Span",
        "grow_spans",
        "plan_windows",
        "split_sentences",
    ]
    for name in lmkrag.__all__:
        assert getattr(lmkrag, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Chunker'"):
        _ = lmkrag.Chunker


@pytest.mark.parametrize("statement", ["import lmkrag", "from lmkrag.cli import main", "import lmkrag.engine"])
def test_nothing_heavy_is_imported(statement):
    code = f"import sys; {statement}; print([m for m in {HEAVY} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom lmkrag.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        f"print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"


def test_the_error_tree():
    def parents(error):
        return {parent.__name__ for parent in error.__mro__}

    every = [value for value in vars(errors).values() if isinstance(value, type)]
    assert all(issubclass(error, errors.LmkragError) for error in every)
    assert "ValueError" in parents(errors.UsageError)
    assert {"StorageError", "FileNotFoundError"} <= parents(errors.IndexNotFound)
    assert "ImportError" in parents(errors.MissingExtra)
    assert str(errors.MissingExtra("eval", "scipy")) == "scipy is not installed: pip install 'lmkrag[eval]'"


def test_changelog_and_version_agree():
    from pathlib import Path

    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    assert f"## {lmkrag.__version__}" in changelog
