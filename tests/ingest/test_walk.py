import os

import pytest

from lmkrag.errors import UsageError
from lmkrag.ingest.walk import SourceFile, walk
from lmkrag.types import Skipped


@pytest.fixture
def tree(tmp_path):
    for name in (
        "a.md",
        "b/c.txt",
        "b/d/e.py",
        "b/build/x.txt",
        ".hidden/f.md",
        "g h 'q\" 😀.txt",
        "new\nline.md",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    (tmp_path / ".gitignore").write_text(
        "*.log\n/b/build/\n", "utf-8-sig"
    )  # as git, which skips the mark
    (tmp_path / "b" / ".gitignore").write_text("!keep.log\n*.tmp\n")
    (tmp_path / "a.log").write_text("x")
    (tmp_path / "b" / "keep.log").write_text("x")
    (tmp_path / "b" / "z.tmp").write_text("x")
    return tmp_path


def names(source, **how):
    return [item.doc_id for item in walk(source, **how) if isinstance(item, SourceFile)]


def test_files_are_found_in_order_and_ignore_rules_hold(tree):
    expected = ["a.md", "g h 'q\" 😀.txt", "new\nline.md", "b/c.txt", "b/keep.log", "b/d/e.py"]
    assert names(tree) == expected


def test_include_and_exclude(tree):
    assert names(tree, include=["*.md"]) == ["a.md", "new\nline.md"]
    assert names(tree, exclude=["b/"]) == ["a.md", "g h 'q\" 😀.txt", "new\nline.md"]
    assert names(tree, include=["b/**"], exclude=["*.py"]) == ["b/c.txt", "b/keep.log"]


def test_a_single_file_is_called_by_its_name(tree):
    assert names(tree / "b" / "c.txt") == ["c.txt"]


def test_a_missing_path(tmp_path):
    with pytest.raises(UsageError, match="no such file or directory"):
        list(walk(tmp_path / "nothing"))


def test_links(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "good.txt").symlink_to(tmp_path / "a.txt")
    items = list(walk(tmp_path))
    assert [i.doc_id for i in items if isinstance(i, SourceFile)] == ["a.txt", "good.txt"]
    skipped = {i.path: i.reason for i in items if isinstance(i, Skipped)}
    assert skipped["loop"] == "link to a directory: not followed, add it by its own path"
    assert "can't be read" in skipped["self"]


def test_a_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    assert list(walk(tmp_path)) == [Skipped("pipe.txt", "not a regular file")]


def test_a_name_that_is_not_utf8(tmp_path):
    path = os.fsencode(tmp_path) + b"/bad\xff.txt"
    try:
        with open(path, "w") as file:
            file.write("x")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    assert names(tmp_path) == ["bad\\xff.txt"]


def test_indexes_are_no_corpus_but_files_that_are_called_alike_are(tmp_path):
    for folder, entries in {
        "index": ("catalog.sqlite", "segments/a.faiss"),
        "batch": ("batch.json", "catalog.sqlite", "segments/a.faiss"),
        "notes": ("catalog.txt", "segments/a.txt"),
    }.items():
        for entry in entries:
            path = tmp_path / folder / entry
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
    assert sorted(names(tmp_path)) == ["notes/catalog.txt", "notes/segments/a.txt"]


@pytest.mark.parametrize("where", ["root", "below"])
def test_a_gitignore_that_is_no_file_is_left_aside(tree, where):
    """A pipe never returns, and a link to /dev/zero never ends."""
    folder = tree if where == "root" else tree / "b"
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (folder / ".gitignore").unlink()
        make(folder / ".gitignore")
        told = [item for item in walk(tree) if isinstance(item, Skipped)]
        assert [one.reason for one in told] == [
            "is not a regular file of at most 1 MiB: was ignored"
        ]
    (folder / ".gitignore").unlink()
    (folder / ".gitignore").write_text("#" * (2 << 20))
    assert "at most 1 MiB" in next(item.reason for item in walk(tree) if isinstance(item, Skipped))


def test_patterns_of_many_wildcards_are_left_aside(tree):
    evil = "*".join("a" * 30)
    (tree / ".gitignore").write_text(f"{evil}\n{'**/' * 20}x\n{'x' * 2_000}\n*.tmp\n/b/*/x*.t?t\n")
    (tree / ("a" * 200)).write_text("text")
    found = list(walk(tree))
    told = [item.reason for item in found if isinstance(item, Skipped)]
    assert [reason.partition(":")[0] for reason in told] == [
        f"line {number} is not a pattern" for number in (1, 2, 3)
    ]
    assert "a" * 200 in [item.doc_id for item in found if isinstance(item, SourceFile)]


def test_links_out_of_the_folder_are_followed_only_where_that_is_asked_for(tree, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret.txt"
    outside.write_text("secret")
    (tree / "link.txt").symlink_to(outside)
    (tree / "up.txt").symlink_to("../" * 30 + "etc/hostname")
    (tree / "inside.txt").symlink_to("a.md")
    found = list(walk(tree))
    assert {item.path: item.reason for item in found if isinstance(item, Skipped)} == dict.fromkeys(
        ["link.txt", "up.txt"],
        "link to a file outside the directory: --follow-links (follow_links=True) reads it",
    )
    assert "inside.txt" in names(tree)
    assert "link.txt" in names(tree, follow_links=True)
    assert names(tree / "link.txt") == ["link.txt"]  # it was named


def test_hidden_folders_in_which_people_look_for_texts_are_reported(tree):
    (tree / ".github").mkdir()
    (tree / ".github" / "SECURITY.md").write_text("text")
    skipped = [item for item in walk(tree) if isinstance(item, Skipped)]
    assert skipped == [Skipped(".github", "hidden folder: left out, add it by its own path")]
    assert names(tree / ".github") == ["SECURITY.md"]
    assert not [item for item in walk(tree, exclude=[".github/"]) if isinstance(item, Skipped)]
