"""Which files a run reads, names, remembers and removes."""

import json
import os
import re
import resource
import sys
import time
from pathlib import Path

import pytest

from lmkrag import Engine
from lmkrag.errors import DocumentError, EmptyDocument, FilesGone, UsageError
from lmkrag.formats import isolated
from lmkrag.formats.load import load_document
from lmkrag.serialization import to_json


@pytest.fixture
def docs(tmp_path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_text("The mill was built in 1801.")
    (folder / "b.txt").write_text("The bridge was painted green.")
    (folder / "sub" / "c.txt").write_text("The church has two bells.")
    return folder


@pytest.fixture
def empty(tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        yield engine


def ids(engine) -> list[str]:
    return [document.doc_id for document in engine.documents()]


def age(path: Path) -> None:
    """As if a file had been written an hour ago: one just written may still change within its clock's tick."""
    os.utime(path, (time.time() - 3600,) * 2)


def test_a_file_from_the_far_future_is_indexed(docs, empty):
    os.utime(
        docs / "a.md", (11_000_000_000,) * 2
    )  # in 2318, beyond what 64 bits have of nanoseconds
    assert empty.add(docs).added == 3
    assert empty.add(docs).unchanged == 3


# Removing


def test_prune_keeps_files_that_exist(docs, empty):
    empty.add(docs)
    assert empty.add(docs, include=["*.md"], prune=True).removed == 0
    assert empty.add(docs, exclude=["sub/"], prune=True).removed == 0
    (docs / ".gitignore").write_text("b.txt\n")
    assert empty.add(docs, prune=True).removed == 0
    assert ids(empty) == ["a.md", "b.txt", "sub/c.txt"]
    (docs / "b.txt").unlink()
    assert empty.add(docs, include=["*.md"], prune=True).removed == 1
    assert ids(empty) == ["a.md", "sub/c.txt"]


def test_prune_keeps_what_can_not_be_seen(docs, empty, monkeypatch):
    empty.add(docs)
    real = os.scandir

    def scandir(path):
        if Path(path).name == "sub":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    report = empty.add(docs, prune=True)
    assert (report.removed, [item.reason for item in report.skipped]) == (
        0,
        ["can't be read (Permission denied)"],
    )
    assert "sub/c.txt" in ids(empty)


def test_a_file_that_became_a_folder_is_pruned(docs, empty):
    empty.add(docs)
    (docs / "b.txt").unlink()
    (docs / "b.txt").mkdir()
    (docs / "b.txt" / "inner.txt").write_text("The bridge was painted red.")
    assert empty.add(docs, prune=True).removed == 1
    assert ids(empty) == ["a.md", "b.txt/inner.txt", "sub/c.txt"]


def test_prune_of_a_folder_inside_what_was_added(docs, empty):
    empty.add(docs)
    (docs / "sub" / "c.txt").unlink()
    (docs / "a.md").unlink()
    (docs / "sub" / "d.txt").write_text("The church has a clock.")
    empty.add(docs / "sub")
    assert empty.add(docs / "sub", prune=True).removed == 1
    assert ids(empty) == ["a.md", "b.txt", "d.txt"]


# A directory whose files are all gone, as those of a disk that is not mounted


@pytest.fixture
def unmounted(docs, empty):
    """The folder is there, and none of its files."""
    empty.add(docs)
    docs.rename(docs.with_name("away"))
    docs.mkdir()
    return docs


GONE = r"docs: all files that were indexed from it are gone \(documents: 3; is it mounted\?\); "


def test_nothing_is_removed_where_all_files_are_gone(unmounted, empty, tmp_path):
    with pytest.raises(FilesGone, match=GONE + "nothing was removed; --prune=all removes them"):
        empty.add(unmounted, prune=True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "new.md").write_text("The lock is new.")
    with pytest.raises(UsageError, match=GONE):
        empty.add([unmounted, other], prune=True)
    assert ids(empty) == ["a.md", "b.txt", "sub/c.txt"]
    report = empty.add([unmounted, other], prune="some")
    assert (report.added, report.removed) == (1, 0)
    assert [
        re.match(".*" + GONE + "they are kept; --prune=all removes them$", each)
        for each in report.warnings
    ] != [None]
    assert empty.add(unmounted).warnings == ()  # without prune nothing is removed anyway
    (tmp_path / "away").rename(unmounted.with_name("again"))
    unmounted.rmdir()
    unmounted.with_name("again").rename(unmounted)
    assert empty.add(unmounted, prune=True).unchanged == 3


def test_all_are_removed_if_that_is_asked_for(unmounted, empty):
    assert empty.add(unmounted, prune="all").removed == 3
    assert ids(empty) == []
    with pytest.raises(UsageError, match='prune must be true, false, "some" or "all"'):
        empty.add(unmounted, prune="everything")


def test_new_files_on_the_mount_point_do_not_remove_those_of_the_disk(unmounted, empty):
    (unmounted / "log.txt").write_text("The disk could not be mounted.")
    with pytest.raises(FilesGone):
        empty.add(unmounted, prune=True)
    assert len(ids(empty)) == 3


def test_files_that_all_moved_are_there(docs, empty):
    empty.add(docs)
    (docs / "2026").mkdir()
    for name in ("a.md", "b.txt", "sub/c.txt"):
        (docs / name).rename(docs / "2026" / Path(name).name)
    assert empty.add(docs, prune=True).removed == 3
    assert ids(empty) == ["2026/a.md", "2026/b.txt", "2026/c.txt"]


def test_a_disk_inside_of_a_directory_that_was_added_by_itself_is_not_removed(docs, empty):
    """Files of a subdirectory that came with its parent are removed: whether a disk was mounted there is not known."""
    (docs / "disk").mkdir()
    (docs / "disk" / "d.txt").write_text("The pier has three lamps.")
    empty.add(docs / "disk")
    empty.add(docs)
    (docs / "disk" / "d.txt").unlink()
    (docs / "b.txt").unlink()
    with pytest.raises(FilesGone, match=r"docs/disk: all files .*documents: 1;"):
        empty.add(docs, prune=True)
    assert empty.add(docs, prune="some").removed == 1
    assert ids(empty) == ["a.md", "d.txt", "sub/c.txt"]
    (docs / "sub" / "c.txt").unlink()
    assert empty.add(docs, prune="all").removed == 2


def test_a_file_that_became_empty_is_removed_and_one_that_broke_is_kept(docs, empty):
    cell = {"cell_type": "markdown", "metadata": {}, "source": "The Ida leaks."}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (docs / "d.ipynb").write_text(json.dumps(notebook))
    empty.add(docs)
    (docs / "b.txt").write_text("  \n")
    (docs / "d.ipynb").write_text('{"cells": ')
    report = empty.add(docs)
    reasons = {item.path: item.reason for item in report.skipped}
    assert reasons["b.txt"] == "empty file; the text indexed before is removed"
    assert reasons["d.ipynb"].endswith("; the text indexed before is kept")
    assert report.removed == 1
    assert ids(empty) == ["a.md", "d.ipynb", "sub/c.txt"]
    assert "leaks" in empty.search("does the Ida leak?", top_k=1)[0].text
    again = {item.path: item.reason for item in empty.add(docs).skipped}
    assert again["d.ipynb"] == reasons["d.ipynb"]


# Naming


def test_a_file_is_one_document_whatever_leads_to_it(docs, empty, tmp_path):
    (docs / "alias.txt").symlink_to(docs / "b.txt")
    (tmp_path / "elsewhere").symlink_to(docs)
    assert empty.add(docs).added == 3
    assert ids(empty) == ["a.md", "b.txt", "sub/c.txt"]
    for again in (
        docs / "sub",
        tmp_path / "elsewhere",
        docs / "alias.txt",
        [docs, docs / "sub", docs / "b.txt"],
    ):
        report = empty.add(again)
        assert (report.added, report.updated, report.skipped) == (0, 0, ())
    assert ids(empty) == ["a.md", "b.txt", "sub/c.txt"]


def test_a_link_that_was_indexed_first_stays_the_name(docs, empty, tmp_path):
    target = tmp_path / "store" / "3f9a"
    target.parent.mkdir()
    target.write_text("# Tides\n\nHigh water is at noon.")
    (docs / "tides.md").symlink_to(target)
    outside = empty.add(docs)
    assert [one.reason for one in outside.skipped] == [
        "link to a file outside the directory: --follow-links (follow_links=True) reads it"
    ]
    empty.add(docs, follow_links=True)
    assert empty.document("tides.md").kind == "markdown"
    assert empty.add(target.parent).added == 0
    assert "3f9a" not in ids(empty)


def test_files_of_one_name_are_called_by_their_folders(tmp_path, empty):
    for place in ("x/proj/README.md", "y/proj/README.md", "z/README.md"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(f"This is {place}.")
    report = empty.add(
        [tmp_path / "x" / "proj", tmp_path / "y" / "proj", tmp_path / "z" / "README.md"]
    )
    assert (report.added, report.skipped) == (3, ())
    assert ids(empty) == ["README.md", "proj/README.md", "y/proj/README.md"]
    before = {document.doc_id: document.path for document in empty.documents()}
    assert (
        empty.add([tmp_path / "z", tmp_path / "y" / "proj", tmp_path / "x" / "proj"]).unchanged == 3
    )
    assert {document.doc_id: document.path for document in empty.documents()} == before


def test_names_that_differ_in_case_only(docs, empty):
    for name in ("Lamp.txt", "lamp.txt", "LAMP.TXT"):
        (docs / name).write_text(f"The lamp of {name} is lit.")
    if len(list(docs.glob("*.[tT]*"))) < 3:
        pytest.skip("this file system holds one of them")
    empty.add(docs)
    names = {"Lamp.txt", "lamp.txt", "LAMP.TXT"}
    assert names <= {info.doc_id for info in empty.documents()}
    spans = empty.search("The lamp of LAMP.TXT", level="span")[
        :3
    ]  # equally good: neither words nor models know case
    assert {span.doc_id: span.text for span in spans} == {
        name: f"The lamp of {name} is lit." for name in names
    }


def test_a_document_without_a_file_keeps_its_name(tmp_path, empty):
    from lmkrag import Document

    empty.add(Document("a.md", "notion://1", "A memo about the tide."))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("A file about the moon.")
    assert empty.add(tmp_path / "docs").added == 1
    assert ids(empty) == ["a.md", "docs/a.md"]


def test_names_that_are_not_utf8_are_kept_and_pruned(tmp_path, empty):
    folder = tmp_path / "docs"
    folder.mkdir()
    name = os.fsencode(folder) + b"/bad\xff.txt"
    try:
        with open(name, "w") as file:
            file.write("The heron waits.")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    os.utime(name, (0, 0))
    assert empty.add(folder).added == 1
    assert empty.add(folder, prune=True).unchanged == 1
    assert ids(empty) == ["bad\\xff.txt"]
    os.unlink(name)
    assert empty.add(folder, prune="all").removed == 1


# Skipping


def test_bad_patterns_in_a_gitignore_cost_their_line_only(docs, empty):
    (docs / ".gitignore").write_text("!\nb.txt\n\\\n")
    report = empty.add(docs)
    assert {(item.path, item.reason) for item in report.skipped} == {
        (".gitignore", "line 1 is not a pattern: '!' was ignored"),
        (".gitignore", "line 3 is not a pattern: '\\\\' was ignored"),
    }
    assert ids(empty) == ["a.md", "sub/c.txt"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"include": ["!"]}, "include '!': not a glob"),
        ({"exclude": ["*.md", "\\"]}, r"exclude '\\\\': not a glob"),
        ({"include": "*.md"}, r"include must be a list of globs, such as \['\*.md'\]"),
        ({"exclude": [3]}, "exclude must be a list of globs"),
    ],
)
def test_bad_globs_are_wrong_usage(docs, empty, how, message):
    with pytest.raises(UsageError, match=message):
        empty.add(docs, **how)


def test_what_was_skipped_is_not_read_again_until_it_changes(docs, empty, monkeypatch):
    (docs / "film.mkv").write_bytes(b"\0" * 1000)
    (docs / "blob.xyz").write_bytes(bytes(range(256)) * 20)
    (docs / "bad.json").write_text("{")
    for path in docs.rglob("*"):
        age(path)
    first = empty.add(docs)
    assert len(first.skipped) == 3
    reads = []
    monkeypatch.setattr("lmkrag.ingest.sources._read", lambda *asked: reads.append(asked))
    second = empty.add(docs)
    assert (second.unchanged, reads) == (3, [])
    assert second.skipped == first.skipped
    monkeypatch.undo()
    (docs / "bad.json").write_text('{"boat": "Ida"}')
    third = empty.add(docs)
    assert (third.added, len(third.skipped)) == (1, 2)
    (docs / "film.mkv").unlink()
    empty.add(docs)
    with empty._store.reader.snapshot() as snapshot:
        from lmkrag.index import catalog

        assert [Path(path).name for path in catalog.read_skipped(snapshot.connection)] == [
            "blob.xyz"
        ]


def test_what_only_this_run_can_not_read_is_tried_again(docs, empty, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("lmkrag.formats.load.check_file", refuse)
    assert len(empty.add(docs).skipped) == 3
    monkeypatch.undo()
    assert empty.add(docs).added == 3


@pytest.mark.parametrize("name", ["film.mp4", "film.xyz", "film.pdf", "film.docx"])
def test_large_binaries_are_not_read_into_memory(tmp_path, name):
    path = tmp_path / name
    with path.open("wb") as file:
        file.write(b"\x00\x01\x02binary")
        file.truncate(3 << 30)  # sparse
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    with pytest.raises(DocumentError), isolated.IsolatedLoader() as loader:
        loader.load(path, name)
    with pytest.raises(DocumentError):
        load_document(path, name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
    assert time.monotonic() - began < 20


def test_a_file_too_large_for_memory_costs_itself_only(docs, empty, monkeypatch):
    real = Path.read_bytes

    def read_bytes(path):
        if path.name == "b.txt":
            raise MemoryError
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    report = empty.add(docs)
    assert report.added == 2
    assert [item.reason for item in report.skipped] == [
        "needs more memory than it may use: skipped"
    ]


def test_an_empty_file_is_called_empty(tmp_path):
    for text in ("", " \n"):
        (tmp_path / "a.txt").write_text(text)
        with pytest.raises(EmptyDocument, match="empty file"):
            load_document(tmp_path / "a.txt", "a.txt")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit address space")
def test_a_lower_limit_of_the_shell_is_kept_to_not_crashed_on(tmp_path):
    """The limit of the process that reads files is at most what its parent may have."""
    import subprocess

    (tmp_path / "a.json").write_text(json.dumps({"boat": "Ida"}))
    code = f"""
import resource
from pathlib import Path
from lmkrag.formats.isolated import IsolatedLoader
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
with IsolatedLoader() as loader:
    print(loader.load(Path({str(tmp_path / "a.json")!r}), "a").text)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "boat: Ida\n", done.stderr


def test_a_folder_whose_name_is_not_utf8(tmp_path, empty, monkeypatch):
    monkeypatch.setattr("lmkrag.formats.load._LONG", 10_000)  # bytes: longer texts stay on the disk
    folder = tmp_path / os.fsdecode(b"bad\xff")
    folder.mkdir()
    (folder / "a.txt").write_text("The gate is red.")
    (folder / os.fsdecode(b"b\xfe.html")).write_text("<p>The lamp is lit.</p>")
    (folder / "long.log").write_text("The pump is oiled.\n" * 1_000)
    assert empty.add(folder).added == 3
    assert empty.add(folder).unchanged == 3
    assert all(json.dumps(to_json(info)).encode() for info in empty.documents())
    assert empty.status().roots == {str(tmp_path) + "/bad\\xff": 3}
    (folder / "a.txt").unlink()
    assert empty.add(folder, prune=True).removed == 1
    assert empty.verify() == ()


def test_files_under_names_of_ones_own(tmp_path, empty):
    (tmp_path / "x1.txt").write_text("The gate is red.")
    (tmp_path / "x2.md").write_text("# Lamp\n\nThe lamp is lit.")
    named = {"gates/north.txt": tmp_path / "x1.txt", "lamp": str(tmp_path / "x2.md")}
    assert empty.add(named).added == 2
    assert [info.doc_id for info in empty.documents()] == ["gates/north.txt", "lamp"]
    assert empty.documents(doc_ids=["lamp"])[0].kind == "markdown"
    assert empty.add(named).unchanged == 2
    (tmp_path / "x1.txt").write_text("The gate is green.")
    assert empty.add(named).updated == 1
    report = empty.add({"gone": tmp_path / "none.txt", "lamp": tmp_path / "x2.md"})
    assert (report.unchanged, [one.path for one in report.skipped]) == (1, ["gone"])
    with pytest.raises(UsageError, match="are for directories"):
        empty.add(named, prune=True)
