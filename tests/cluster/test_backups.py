"""Snapshots: in a folder and on a real S3 server, pushed by halves, by two at once, damaged, collected."""

import json
import socket
import threading
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
import s3fs
from lmkrag.cluster.resharding import reshard_index
from lmkrag.index.opening import open_store

from lmkrag import Document, Engine
from lmkrag.cluster import backups as snapshots
from lmkrag.cluster.backups import Remote
from lmkrag.cluster.manifests import checksum_of
from lmkrag.corpus import remote_files as mirror
from lmkrag.errors import IndexCorrupt, IndexMismatch, StorageError, UsageError


def answers(path) -> list:
    with Engine.open(path) as engine:
        assert not engine.verify()
        found = [(span.doc_id, span.start) for span in engine.search("who approves leave?")]
        return [[info.doc_id for info in engine.documents()], found]


@pytest.fixture(params=["folder", "s3"])
def url(request, tmp_path):
    if request.param == "s3":
        request.getfixturevalue("s3")
        return f"s3://bucket/{tmp_path.name}"
    return str(tmp_path / "remote")


@pytest.mark.parametrize("shards", [0, 2])
def test_push_and_pull(engine, url, tmp_path, shards):
    if shards:
        reshard_index(engine._store.path, shards)
        Engine.__init__(engine, open_store(engine._store.path))
    remote, here = Remote(url), tmp_path / "pulled"
    first = remote.push(engine._store.path, tag="first")
    assert (first.number, first.files) == (1, 4 * max(1, shards))
    assert remote.push(engine._store.path).files == 0  # nothing new but the manifest
    expected = answers(engine._store.path)
    assert remote.pull(here).files == first.files
    assert answers(here) == expected

    engine.remove("beekeeping.html")
    engine.add([Document("memo", "", "A memo about the winch.")])
    third = remote.push(engine._store.path)
    assert third.number == 3 and 0 < third.files <= 4 + shards
    again = remote.pull(here)
    assert again.number == 3 and again.files <= 4 + shards
    assert answers(here) == answers(engine._store.path) != expected
    assert remote.pull(here, tag="first").number == 1
    assert answers(here) == expected
    assert [(one.number, one.tag, one.documents) for one in remote.snapshots()] == [
        (1, "first", 5),
        (2, "", 5),
        (3, "", 5),
    ]
    assert remote.verify() == [] and remote.verify(number=1) == []
    with Engine.open(here) as pulled:  # an ordinary index
        pulled.add([Document("own", "", "A page of its own.")])
        assert pulled.search("its own page")[0].doc_id == "own"


def test_half_a_push_is_invisible(engine, url, tmp_path, monkeypatch):
    original = Remote._send
    for after in range(4):
        remote = Remote(f"{url}-{after}")
        sent = []

        def send(self, source, stored, sent=sent, after=after):
            if len(sent) == after:
                raise KeyboardInterrupt
            sent.append(stored)
            original(self, source, stored)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Remote, "_send", send)
            remote.push(engine._store.path)
        assert remote.snapshots() == []
        with pytest.raises(UsageError, match="no snapshots here"):
            remote.pull(tmp_path / "pulled")
    assert remote.push(engine._store.path).number == 1
    assert remote.verify() == []


def test_of_two_that_push_at_once_one_is_refused(engine, url, monkeypatch):
    original, pushed = Remote._create, []

    def create(self, place, made):
        if not pushed:
            pushed.append(made)
            Remote(url).push(engine._store.path)  # somebody else is faster
        original(self, place, made)

    monkeypatch.setattr(Remote, "_create", create)
    with pytest.raises(StorageError, match="somebody else has pushed meanwhile; push again"):
        Remote(url).push(engine._store.path)
    assert [one.number for one in Remote(url).snapshots()] == [1]
    assert Remote(url).push(engine._store.path).number == 2


def test_a_damaged_snapshot_replaces_nothing(engine, tmp_path):
    remote, here = Remote(str(tmp_path / "remote")), tmp_path / "pulled"
    remote.push(engine._store.path)
    remote.pull(here)
    expected = answers(here)
    engine.remove("beekeeping.html")
    engine.compact()
    remote.push(engine._store.path)
    newest = remote.find().files
    (words,) = [file for name, file in newest.items() if name.endswith(".words")]
    place = tmp_path / "remote" / words.name
    whole = place.read_bytes()
    place.write_bytes(whole[:-1] + b"x")
    assert "not the file that was pushed" in remote.verify()[0]
    with pytest.raises(IndexCorrupt, match="not the file that was pushed"):
        remote.pull(here)
    assert answers(here) == expected
    place.unlink()
    with pytest.raises(StorageError):
        remote.pull(here)
    place.write_bytes(whole)
    manifest = tmp_path / "remote" / "manifests" / "00000002.json"
    manifest.write_text("{")
    with pytest.raises(IndexCorrupt, match="not a manifest"):
        remote.snapshots()
    assert answers(here) == expected


def seal(manifest, **changes):
    """Change a manifest as somebody would who can write to the folder: its checksum fits."""
    record = json.loads(manifest.read_bytes()) | changes
    del record["checksum"]
    manifest.write_text(json.dumps(record | {"checksum": checksum_of(record)}))


def test_no_flipped_bit_of_a_manifest_replaces_an_index(engine, tmp_path):
    remote, here = Remote(str(tmp_path / "remote")), tmp_path / "pulled"
    remote.push(engine._store.path)
    remote.pull(here)
    expected = answers(here)
    manifest = tmp_path / "remote" / "manifests" / "00000001.json"
    whole = manifest.read_bytes()
    for position in range(0, len(whole), 7):
        for bit in (0x01, 0x20):
            manifest.write_bytes(whole[:position] + bytes([whole[position] ^ bit]) + whole[position + 1 :])
            with pytest.raises((IndexCorrupt, IndexMismatch)):
                remote.pull(here)
    manifest.write_bytes(whole)
    assert answers(here) == expected
    assert remote.pull(here).number == 1


def test_a_manifest_that_names_what_no_push_writes(engine, tmp_path):
    remote, here = Remote(str(tmp_path / "remote")), tmp_path / "pulled"
    remote.push(engine._store.path)
    manifest = tmp_path / "remote" / "manifests" / "00000001.json"
    whole = manifest.read_bytes()
    files = json.loads(whole)["files"]
    one = files["catalog.sqlite"]
    for changes in (
        {"files": {"../../escaped": one}},
        {"files": files | {"segments/x": {**one, "name": "../../secret"}}},
        {"files": files | {"segments/x": {**one, "bytes": -1}}},
        {"files": {}},
        {"folder": "../../x"},
        {"folder": "../../x", "shards": 2},
        {"shards": 10**9, "folder": "x"},
        {"number": "x" * 10, "surplus": 1},
    ):
        seal(manifest, **changes)
        with pytest.raises(IndexCorrupt, match="not a manifest"):
            remote.pull(here)
        manifest.write_bytes(whole)
    assert not here.exists() and not (tmp_path / "escaped").exists()


def test_an_object_larger_than_said_is_not_read_to_its_end(engine, tmp_path, monkeypatch):
    remote = Remote(str(tmp_path / "remote"))
    remote.push(engine._store.path)
    words = next(file for name, file in remote.find().files.items() if name.endswith(".words"))
    with (tmp_path / "remote" / words.name).open("ab") as grown:
        grown.truncate(1 << 40)  # a terabyte, if it were read
    with pytest.raises(IndexCorrupt, match="not the file that was pushed"):
        remote.pull(tmp_path / "pulled")
    assert not (tmp_path / "pulled").exists()


def test_what_can_not_be_opened_replaces_nothing(engine, tmp_path):
    remote, here = Remote(str(tmp_path / "remote")), tmp_path / "pulled"
    remote.push(engine._store.path)
    remote.pull(here)
    expected = answers(here)
    engine.add([Document("memo", "", "A memo about the winch.")])
    remote.push(engine._store.path)
    manifest = tmp_path / "remote" / "manifests" / "00000002.json"
    files = json.loads(manifest.read_bytes())["files"]
    seal(manifest, files={name: file for name, file in files.items() if not name.endswith(".faiss")})
    with pytest.raises(IndexCorrupt):
        remote.pull(here)
    assert answers(here) == expected


def test_a_push_beside_a_writer_that_compacts(engine, tmp_path, monkeypatch):
    """The files of the state that is being pushed are gone in the midst of it: the newer state is pushed."""
    remote = Remote(str(tmp_path / "remote"))
    engine.add([Document("memo", "", "A memo about the winch.")])
    original, sent = Remote._send, []

    def send(self, source, stored):
        sent.append(stored)
        if len(sent) == 2:
            engine.compact()
        original(self, source, stored)

    monkeypatch.setattr(Remote, "_send", send)
    assert remote.push(engine._store.path).number == 1
    monkeypatch.undo()
    assert remote.verify() == []
    remote.pull(tmp_path / "pulled")
    assert answers(tmp_path / "pulled") == answers(engine._store.path)


def test_a_push_beside_a_collector(engine, tmp_path, monkeypatch):
    """What only an old snapshot has may be collected at any instant: it is sent again."""
    remote = Remote(str(tmp_path / "remote"))
    remote.push(engine._store.path)
    engine.add([Document("memo", "", "A memo about the winch.")])
    remote.push(engine._store.path)
    engine.remove("memo")
    engine.compact()
    monkeypatch.setattr(snapshots, "_FRESH", timedelta(0))  # everything is old
    sent: set[str] = set()
    original = Remote._create

    def create(self, place, made):
        Remote(self.url).collect(1)  # at the worst instant
        original(self, place, made)

    monkeypatch.setattr(Remote, "_create", create)
    monkeypatch.setattr(Remote, "_age", lambda self, name: timedelta(0) if name in sent else timedelta(days=2))
    send = Remote._send
    monkeypatch.setattr(
        Remote, "_send", lambda self, source, stored: (sent.add(stored.name), send(self, source, stored))
    )
    remote.push(engine._store.path)
    monkeypatch.undo()
    assert remote.verify() == []


def test_a_store_that_hangs(engine, s3, monkeypatch):
    listening = socket.create_server(("127.0.0.1", 0))  # accepts and never answers
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{listening.getsockname()[1]}")
    assert 5 * mirror._WAITS["read_timeout"] <= 60
    monkeypatch.setattr(mirror, "_WAITS", {**mirror._WAITS, "connect_timeout": 1, "read_timeout": 1})
    s3fs.S3FileSystem.clear_instance_cache()
    began = time.monotonic()
    with pytest.raises(StorageError, match="s3://bucket/hang: "):
        Remote("s3://bucket/hang").push(engine._store.path)
    assert time.monotonic() - began < 60
    s3fs.S3FileSystem.clear_instance_cache()
    listening.close()


def test_old_snapshots_are_collected(engine, url, tmp_path, monkeypatch):
    remote = Remote(url)
    remote.push(engine._store.path, tag="kept")
    for number in range(3):
        engine.add([Document("memo", "", f"A memo about winch {number}.")])
        remote.push(engine._store.path)
    engine.compact()
    remote.push(engine._store.path)
    assert remote.collect(1) == 0  # all of it is of today
    assert [(one.number, one.tag) for one in remote.snapshots()] == [(1, "kept"), (5, "")]
    monkeypatch.setattr(snapshots, "_FRESH", timedelta(0))
    assert remote.collect(1) > 0
    assert remote.verify() == [] and remote.verify(tag="kept") == []
    assert remote.push(engine._store.path).number == 6
    remote.pull(tmp_path / "pulled", tag="kept")


def test_what_is_refused(engine, tmp_path, s3):
    remote = Remote(str(tmp_path / "remote"))
    remote.push(engine._store.path, tag="one")
    for act, message in (
        (lambda: remote.push(engine._store.path, tag="one"), "there is a snapshot 'one' already"),
        (lambda: remote.push(engine._store.path, tag="../x"), "can't be the name of a snapshot"),
        (lambda: remote.pull(tmp_path / "x", tag="two"), "no snapshot two"),
        (lambda: remote.pull(tmp_path / "x", number=7), "no snapshot 7"),
        (lambda: remote.pull(engine._store.path), "holds something that was not pulled"),
        (lambda: remote.collect(0), "at least one snapshot"),
        (lambda: Remote("nosuch://x/y"), "nosuch"),
    ):
        with pytest.raises(UsageError, match=message):
            act()
    with pytest.raises(StorageError, match="s3://no-such-bucket/x: "):
        Remote("s3://no-such-bucket/x").push(engine._store.path)


def test_on_the_command_line(lmkrag, index, tmp_path, s3):
    url = "s3://bucket/command-line"
    pushed = lmkrag("backup", "push", url, "--index", index, "--tag", "monday")
    assert pushed.returncode == 0 and "backup 1; 4 files" in pushed.stderr, pushed.stderr
    pulled = lmkrag("backup", "pull", url, "--index", tmp_path / "pulled")
    assert pulled.returncode == 0 and "backup 1; 4 files" in pulled.stderr
    assert "approves leave" in lmkrag("search", "who approves leave?", "--index", tmp_path / "pulled").stdout
    listed = lmkrag("backup", "list", url, "--verify", "--keep", "3")
    assert listed.returncode == 0 and "monday" in listed.stdout and "no problems" in listed.stderr
    assert json.loads(lmkrag("backup", "list", url, "--json").stdout)["backups"][0]["documents"] == 5


@pytest.fixture
def slow_s3(s3, monkeypatch):
    """The S3 server behind one that answers some requests by itself: ``refuse[method]`` statuses, one a request."""
    refuse = {}

    class Between(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if refuse.get(self.command):
                status, code = refuse[self.command].pop(0)
                content = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
                headers = {}
            else:
                headers = {name: value for name, value in self.headers.items() if name != "Host"}
                url = s3["AWS_ENDPOINT_URL"] + self.path
                done = httpx.request(self.command, url, headers=headers, content=body)
                status, content = done.status_code, done.content
                headers = {name: value for name, value in done.headers.items() if name.lower().startswith("x-amz")}
                headers |= {name: done.headers[name] for name in ("etag", "last-modified") if name in done.headers}
                if self.command == "HEAD":
                    headers["content-length"] = done.headers.get("content-length", "0")
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    for method in ("GET", "PUT", "HEAD", "POST", "DELETE"):
        setattr(Between, f"do_{method}", Between.forward)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Between)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    s3fs.S3FileSystem.clear_instance_cache()
    yield refuse
    server.shutdown()
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_store_that_slows_down_or_refuses(engine, slow_s3, tmp_path):
    url = f"s3://bucket/{tmp_path.name}"
    slow_s3["PUT"] = [(503, "SlowDown")] * 3
    assert Remote(url).push(engine._store.path).number == 1
    assert not slow_s3["PUT"]
    slow_s3["PUT"] = [(403, "AccessDenied")] * 20
    with pytest.raises(StorageError, match=rf"{url}: .*(AccessDenied|Forbidden|Access Denied)") as caught:
        Remote(url).push(engine._store.path)
    assert "\n" not in str(caught.value)
    slow_s3.clear()
    assert [one.number for one in Remote(url).snapshots()] == [1]
    assert Remote(url).push(engine._store.path).number == 2
