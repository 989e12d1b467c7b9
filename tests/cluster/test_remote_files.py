"""Corpora in object storage and elsewhere: mirrored, indexed, changed, removed, and what can't be fetched."""

import os

import pytest

from lmkrag import Engine
from lmkrag.corpus.remote_files import mirror
from lmkrag.errors import MissingExtra, StorageError, UsageError


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def memory(request):
    """A folder of fsspec's file system in memory."""
    import fsspec

    files = fsspec.filesystem("memory")
    folder = f"/{request.node.name}"
    yield files, folder
    files.store.clear()


def put(memory, name, text):
    files, folder = memory
    files.pipe_file(f"{folder}/{name}", text.encode())


def names(engine):
    return [document.doc_id for document in engine.documents()]


def test_an_index_of_a_bucket_follows_it(s3, lmkrag, corpus, encoder, tmp_path):
    import s3fs

    files = s3fs.S3FileSystem()
    files.put(str(corpus), "bucket/docs", recursive=True)
    files.pipe_file("bucket/docs/.gitignore", b"drafts/\n")
    files.pipe_file("bucket/docs/drafts/old.md", b"Never read.")
    files.pipe_file("bucket/docs/picture.gif", b"GIF89a")
    index = tmp_path / "index"
    with Engine.open(index, create=True, encoder=encoder) as engine:
        first = engine.add("s3://bucket/docs")
        assert first.added == 5
        assert [(one.path, one.reason) for one in first.skipped] == [("picture.gif", "unsupported format (.gif)")]
        assert engine.add("s3://bucket/docs", prune=True).unchanged == 5
        files.pipe_file("bucket/docs/glass-river.txt", b"The glass river froze in 1911.")
        files.rm("bucket/docs/beekeeping.html")
        changed = engine.add("s3://bucket/docs", prune=True)
        assert (changed.updated, changed.unchanged, changed.removed) == (1, 3, 1)
        assert "beekeeping.html" not in names(engine)
        assert engine.search("When did the glass river freeze?")[0].text == "The glass river froze in 1911."
        with pytest.raises((UsageError, StorageError), match="no-such-bucket"):
            engine.add("s3://no-such-bucket/docs")
    gone = lmkrag("index", "s3://bucket/nothing", "--index", index)
    assert (gone.returncode, gone.stderr.strip()) == (2, "lmkrag: s3://bucket/nothing: no such file or directory")


def test_globs_and_one_file(memory, encoder, tmp_path):
    put(memory, "a.md", "The ferry leaves at nine.")
    put(memory, "drafts/b.md", "Nobody reads this.")
    put(memory, "c.txt", "The lamp is lit at dusk.")
    url = f"memory:/{memory[1]}"
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(url, include=["*.md"], exclude=["drafts/"])
        assert names(engine) == ["a.md"]
        engine.add([f"{url}/c.txt"])
        assert names(engine) == ["a.md", "c.txt"]


def test_only_what_changed_travels(memory, monkeypatch):
    put(memory, "a.md", "one")
    put(memory, "b.md", "two")
    fetched = []
    own = type(memory[0]).get_file
    monkeypatch.setattr(
        type(memory[0]), "get_file", lambda self, name, *rest: fetched.append(name) or own(self, name, *rest)
    )
    url = f"memory:/{memory[1]}"
    folder, _ = mirror(url)
    assert len(fetched) == 2
    put(memory, "b.md", "three")
    assert mirror(url) == (folder, [])
    assert len(fetched) == 3
    assert (folder / "b.md").read_text() == "three"
    memory[0].rm(f"{memory[1]}/a.md")
    mirror(url)
    assert not (folder / "a.md").exists()


def test_names_that_lead_elsewhere_and_files_that_fail(memory, monkeypatch, tmp_path):
    put(memory, "fine.md", "Fine.")
    put(memory, "broken.md", "Broken.")
    files, folder = memory
    found = {
        f"{folder}/fine.md": {},
        f"{folder}/broken.md": {},
        f"{folder}/../../../out.md": {},
        f"{folder}/a//b.md": {},
    }
    monkeypatch.setattr(
        type(files), "find", lambda self, path, **_: {name: {"name": name, "size": 5} for name in found}
    )
    own = type(files).get_file

    def get_file(self, name, *rest):
        if "broken" in name:
            raise PermissionError("Access\nDenied")
        return own(self, name, *rest)

    monkeypatch.setattr(type(files), "get_file", get_file)
    place, skipped = mirror(f"memory:/{folder}")
    assert [path.name for path in place.iterdir() if not path.name.startswith(".")] == ["fine.md"]
    assert {(one.path, one.reason) for one in skipped} == {
        ("broken.md", "can't be read (Access Denied)"),
        ("../../../out.md", "not a name that a file can have"),
        ("a//b.md", "not a name that a file can have"),
    }
    assert not list(tmp_path.rglob("out.md"))


def test_what_can_not_be_read_at_all(memory, monkeypatch, tmp_path):
    with pytest.raises(UsageError, match="no such file or directory"):
        mirror("memory://nowhere")
    with pytest.raises(UsageError, match="Protocol not known"):
        mirror("nonsense://a/b")
    with pytest.raises((MissingExtra, UsageError)):
        mirror("gs://bucket/docs")
    put(memory, "a.md", "one")
    monkeypatch.setattr(type(memory[0]), "find", lambda *_, **__: (_ for _ in ()).throw(PermissionError("Forbidden")))
    with pytest.raises(StorageError, match="can't be listed \\(Forbidden\\)"):
        mirror(f"memory:/{memory[1]}")
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    with pytest.raises(StorageError, match="can't hold the mirror"):
        mirror(f"memory:/{memory[1]}")
