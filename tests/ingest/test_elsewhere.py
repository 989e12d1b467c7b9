"""Websites, git repositories and archives: indexed, followed, and never left for what was not named."""

import io
import subprocess
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urldefrag

import pytest

from lmkrag import Engine
from lmkrag.corpus import archives, websites
from lmkrag.corpus.remote_files import localize
from lmkrag.corpus.websites import SiteLimits, mirror_site
from lmkrag.errors import StorageError, UsageError


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(websites, "_PAUSE", 0.0)


class Site:
    """A server whose ``pages`` (path: text, or status and headers) tests change; it remembers what it was asked."""

    def __init__(self) -> None:
        self.pages: dict = {}
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                found = site.pages.get(self.path, (404, {}, ""))
                status, headers, text = found if isinstance(found, tuple) else (200, {}, found)
                etag = f'"{hash(text)}"'
                if status == 200 and self.headers.get("If-None-Match") == etag:
                    status, text = 304, ""
                self.send_response(status)
                data = text if isinstance(text, bytes) else text.encode()
                for name, value in ({"Content-Type": "text/html; charset=utf-8", "ETag": etag} | headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def site():
    made = Site()
    made.pages = {
        "/docs/": '<h1>Guide</h1><a href="install.html#pip">Install</a> <a href="/docs/deep/ropes">Ropes</a>',
        "/docs/install.html": '<p>Turn the brass key twice.</p><a href="./">Up</a><a href="/blog/">Blog</a>',
        "/docs/deep/ropes": '<p>The hemp rope is for the dinghy.</p><a href="ropes?page=2">More</a>',
        "/blog/": "<p>Never read.</p>",
    }
    threading.Thread(target=made.server.serve_forever, daemon=True).start()
    yield made
    made.server.shutdown()


def names(engine):
    return [document.doc_id for document in engine.documents()]


def test_the_pages_below_an_address_are_indexed_and_followed(site, encoder, tmp_path):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        assert engine.add(f"{site.url}/docs/", prune=True).added == 3
        assert names(engine) == ["deep/ropes.html", "index.html", "install.html"]
        assert not [path for path in site.asked if "blog" in path or "page=" in path]
        assert engine.search("How often is the key turned?")[0].doc_id == "install.html"
        site.pages["/docs/install.html"] = "<p>Turn the brass key three times.</p>"
        site.pages["/docs/"] = '<a href="install.html">Install</a>'
        del site.pages["/docs/deep/ropes"]
        changed = engine.add(f"{site.url}/docs/", prune=True)
        assert (changed.updated, changed.removed) == (2, 1)
        assert engine.add(f"{site.url}/docs/", prune=True).unchanged == 2  # 304 each


def test_results_name_the_address_of_their_page(site, encoder, tmp_path):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(f"{site.url}/docs/")
        found = {span.doc_id: span.url for span in engine.search("key, rope and guide", top_k=10)}
        assert {doc_id: urldefrag(url).url for doc_id, url in found.items()} == {
            "index.html": f"{site.url}/docs/",
            "install.html": f"{site.url}/docs/install.html",
            "deep/ropes.html": f"{site.url}/docs/deep/ropes",
        }
        assert found["install.html"].endswith("#:~:text=Turn%20the%20brass%20key%20twice.")


def test_the_language_of_a_website_chooses_the_encoder(site, lmkrag, tmp_path):
    text = "Das Seil liegt im Schuppen am Hafen. Der Schlüssel wird zweimal gedreht, bevor die alte Tür sich öffnet. "
    site.pages["/docs/"] = f"<p>{text * 3}</p>"
    done = lmkrag("index", f"{site.url}/docs/", "--index", tmp_path / "index")
    assert "encoder landmark-multilingual" in done.stderr
    printed = lmkrag("search", "Wo liegt das Seil?", "--index", tmp_path / "index").stdout
    assert f"   {site.url}/docs/#:~:text=Das%20Seil%20liegt%20im%20Schuppen%20am%20Hafen.\n" in printed


def test_a_sitemap_comes_before_links(site, tmp_path):
    listed = "".join(f"<url><loc>{site.url}/{path}</loc></url>" for path in ("docs/install.html", "blog/"))
    site.pages["/sitemap.xml"] = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{listed}</urlset>'
    assert mirror_site(f"{site.url}/docs/", tmp_path) == []
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["index.html", "install.html"]


def test_robots_are_told_what_they_may_read(site, tmp_path):
    site.pages["/robots.txt"] = "User-agent: lmkrag\nDisallow: /docs/deep/\n"
    (skipped,) = mirror_site(f"{site.url}/docs/", tmp_path)
    assert skipped.path.endswith("/docs/deep/ropes") and skipped.reason == "robots.txt does not allow it"
    assert "/docs/deep/ropes" not in site.asked
    with pytest.raises(UsageError, match="does not allow it"):
        mirror_site(f"{site.url}/docs/deep/ropes", tmp_path)


def test_redirects_elsewhere_circles_and_names_that_no_file_has(site, tmp_path):
    site.pages["/docs/"] = "".join(
        f'<a href="{name}">x</a>' for name in ("out", "circle", "far", "..%2f..%2fevil", "gone")
    )
    site.pages["/docs/out"] = (302, {"Location": "/blog/"}, "")
    site.pages["/docs/far"] = (302, {"Location": "http://example.org/"}, "")
    site.pages["/docs/circle"] = (302, {"Location": "/docs/circle"}, "")
    site.pages["/docs/..%2f..%2fevil"] = "<p>Evil.</p>"
    reasons = {
        skipped.path.rpartition("/docs/")[2]: skipped.reason
        for skipped in mirror_site(f"{site.url}/docs/", tmp_path / "a")
    }
    assert reasons == {
        "out": f"leads elsewhere: {site.url}/blog/",
        "far": "leads elsewhere: http://example.org/",
        "circle": "leads in a circle",
        "..%2f..%2fevil": "not a name that a file can have",
    }
    assert "/blog/" not in site.asked
    assert sorted(path.name for path in tmp_path.rglob("*.html")) == ["index.html"]


def test_large_pages_and_large_sites_are_bounded(site, tmp_path):
    site.pages["/docs/big"] = "x" * 5_000
    site.pages["/docs/"] += '<a href="big">Big</a>'
    (skipped,) = mirror_site(f"{site.url}/docs/", tmp_path / "a", SiteLimits(page_bytes=1_000))
    assert skipped.reason.startswith("larger than")
    skipped_pages = mirror_site(f"{site.url}/docs/", tmp_path / "b", SiteLimits(pages=2))
    assert skipped_pages[-1].reason.endswith("left out: too many")


def test_pages_that_fail_for_now_stay(site, tmp_path):
    mirror_site(f"{site.url}/docs/", tmp_path)
    site.pages["/docs/install.html"] = (503, {}, "")
    (skipped,) = mirror_site(f"{site.url}/docs/", tmp_path)
    assert skipped.reason == "status 503"
    assert "brass key" in (tmp_path / "install.html").read_text()
    site.pages["/docs/"] = (503, {}, "")
    with pytest.raises(StorageError, match="status 503"):
        mirror_site(f"{site.url}/docs/", tmp_path)
    assert (tmp_path / "install.html").is_file()


def test_a_public_name_of_a_private_address_is_refused(site, tmp_path, monkeypatch):
    port = site.server.server_port
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: [(2, 1, 6, "", ("127.0.0.1", 0))])
    with pytest.raises(StorageError, match=r"docs.example.org stands for 127.0.0.1, which is not public"):
        mirror_site(f"http://docs.example.org:{port}/docs/", tmp_path)
    assert site.asked == []


def git(folder, *arguments):
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "notes.md").write_text("The lamp is trimmed at dawn.\n")
    (folder / "old.md").write_text("The bell is rung at noon.\n")
    (folder / "link.md").symlink_to("/etc/hostname")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "v1")
    return folder


def test_the_tree_of_a_commit_is_indexed_and_followed(repository, encoder, tmp_path):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        assert engine.add(f"git+file://{repository}", prune=True).added >= 2
        assert engine.read("notes.md").startswith("The lamp")
        git(repository, "rm", "-q", "old.md")
        (repository / "notes.md").write_text("The lamp is trimmed at dusk.\n")
        git(repository, "commit", "-qam", "two")
        changed = engine.add(f"git+file://{repository}", prune=True)
        assert (changed.updated, changed.removed) == (1, 1)
    (path,), _ = localize([f"git+file://{repository}@v1"])
    assert (path / "old.md").read_text() == "The bell is rung at noon.\n"
    assert not (path / "link.md").is_symlink()
    with pytest.raises(StorageError, match="git failed"):
        localize([f"git+file://{repository}@no-such-tag"])


def test_archives_are_unpacked_and_followed(lmkrag, tmp_path):
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as zipped:
        zipped.writestr("docs/lamp.md", "The lamp is trimmed at dawn.")
        zipped.writestr("../evil.md", "The bell is rung.")
    with tarfile.open(tmp_path / "more.tar.gz", "w:gz") as tarred:
        entry = tarfile.TarInfo("rope.md")
        data = b"The hemp rope is for the dinghy."
        entry.size = len(data)
        tarred.addfile(entry, io.BytesIO(data))
    done = lmkrag("index", tmp_path / "notes.zip", tmp_path / "more.tar.gz", "--index", tmp_path / "index")
    assert done.returncode == 0 and "3 added" in done.stderr
    assert not (tmp_path / "cache" / "lmkrag" / "evil.md").exists()
    found = lmkrag("search", "which rope is for the dinghy?", "--index", tmp_path / "index", "-k", "1")
    assert "hemp rope" in found.stdout
    before = {path.stat().st_ino for path in (tmp_path / "cache").rglob("lamp.md")}
    localize([tmp_path / "notes.zip"])
    assert {path.stat().st_ino for path in (tmp_path / "cache").rglob("lamp.md")} == before


def test_broken_huge_and_outside_archives_are_refused(tmp_path, monkeypatch):
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 broken")
    with tarfile.open(tmp_path / "outside.tar", "w") as tarred:
        tarred.addfile(tarfile.TarInfo("../../evil.md"))
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as zipped:
        for number in range(5):
            zipped.writestr(f"{number}.md", "x")
    monkeypatch.setattr(archives, "_MOST_FILES", 4)
    for name, reason in (
        ("broken.zip", "can't be unpacked"),
        ("outside.tar", "can't be unpacked"),
        ("many.zip", "more than"),
    ):
        with pytest.raises(UsageError, match=reason):
            localize([tmp_path / name])
    assert not list(tmp_path.rglob("evil.md"))
