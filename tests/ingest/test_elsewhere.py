"""Documents from elsewhere: fetched by other programs, then indexed as any folder; pages keep their address."""

import gzip
import json
import os
import shutil
import subprocess
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urldefrag

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import UsageError

PAGE = "<html><head><title>Install</title>{}</head><body><p>Turn the brass key twice.</p></body></html>"
CANONICAL = '<link rel="canonical" href="https://example.org/docs/install">'
OPEN_GRAPH = '<meta property="og:url" content="https://example.org/og/install">'


@pytest.fixture
def empty(tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        yield engine


def run(*command, cwd):
    subprocess.run([str(part) for part in command], cwd=cwd, check=True, capture_output=True)


# What has to be fetched or unpacked first


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "https://example.org/docs/?a=1&b=2",
            "https://example.org/docs/?a=1&b=2: is not a file or directory; run wget --mirror --no-parent "
            "--adjust-extension --no-if-modified-since -P DIR 'https://example.org/docs/?a=1&b=2', then index DIR",
        ),
        (
            "git+https://example.org/project@v2",
            "git+https://example.org/project@v2: is not a file or directory; run git clone URL DIR, then index DIR",
        ),
        (
            "s3://bucket/docs",
            "s3://bucket/docs: is not a file or directory; run aws s3 sync s3://bucket/docs DIR, then index DIR",
        ),
        (
            "gs://bucket/docs",
            "gs://bucket/docs: is not a file or directory; run rclone sync REMOTE:PATH DIR, then index DIR",
        ),
        (
            "my export.zip",
            "my export.zip: is an archive; run unzip 'my export.zip' -d DIR, then index DIR",
        ),
        (
            "notes.tgz",
            "notes.tgz: is an archive; run mkdir DIR && tar -xf notes.tgz -C DIR, then index DIR",
        ),
        (
            "a.TAR.xz",
            "a.TAR.xz: is an archive; run mkdir DIR && tar -xf a.TAR.xz -C DIR, then index DIR",
        ),
        ("gone.zip", "gone.zip: no such file or directory"),
    ],
)
def test_urls_and_archives_are_refused_with_what_to_run_instead(
    empty, lmkrag, tmp_path, monkeypatch, source, message
):
    monkeypatch.chdir(tmp_path)
    for name in ("my export.zip", "notes.tgz", "a.TAR.xz"):
        (tmp_path / name).write_bytes(b"PK\x03\x04")
    with pytest.raises(UsageError) as refused:
        empty.add(source)
    assert str(refused.value) == message
    command = lmkrag("index", source, "--index", "other")
    assert (command.returncode, command.stderr) == (2, f"lmkrag: {message}\n")
    assert not (tmp_path / "other").exists()


def test_a_url_is_refused_as_a_named_path_and_as_a_path_object(empty, tmp_path):
    with pytest.raises(UsageError, match="run git clone URL DIR"):
        empty.add({"a.md": "git+https://example.org/project"})
    with pytest.raises(UsageError, match="run aws s3 sync"):
        empty.add(tmp_path.__class__("s3://bucket/docs"))


def test_folders_that_are_called_like_urls_and_archives_are_indexed(empty, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("s3:/bucket", "site.zip"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / f"{name[:2]}.md").write_text(f"The lamp of {name} is lit.")
    assert empty.add(["s3://bucket", "site.zip"]).added == 2


def test_archives_in_a_folder_are_skipped(empty, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "notes.md").write_text("The lamp is trimmed at dawn.")
    for name in ("a.zip", "b.tar", "c.tgz", "d.tar.gz"):
        (docs / name).write_bytes(gzip.compress(b"notes"))
    report = empty.add(docs)
    assert report.added == 1
    assert {skipped.path: skipped.reason for skipped in report.skipped} == {
        "a.zip": "unsupported format (.zip)",
        "b.tar": "unsupported format (.tar)",
        "c.tgz": "unsupported format (.tgz)",
        "d.tar.gz": "an archive inside an archive: unpack it first",
    }


# Addresses of pages that were saved


@pytest.mark.parametrize(
    ("head", "url"),
    [
        (CANONICAL, "https://example.org/docs/install"),
        (OPEN_GRAPH, "https://example.org/og/install"),
        (OPEN_GRAPH + CANONICAL, "https://example.org/docs/install"),
        ('<link rel="Canonical nofollow" href=" http://example.org/a ">', "http://example.org/a"),
        (
            '<link rel="canonical" href="/docs/install">' + OPEN_GRAPH,
            "https://example.org/og/install",
        ),
        ('<link rel="canonical" href="javascript:alert(1)">', None),
        ('<link rel="canonical">', None),
        ('<link rel="stylesheet" href="https://example.org/a.css">', None),
        ("", None),
    ],
)
def test_a_page_keeps_the_address_that_it_gives_as_its_own(empty, tmp_path, head, url):
    (tmp_path / "install.html").write_text(PAGE.format(head))
    empty.add(tmp_path / "install.html")
    assert empty.document("install.html").meta.get("url") == url
    (span,) = empty.search("How often is the key turned?")
    assert span.url == (f"{url}#:~:text=Turn%20the%20brass%20key%20twice." if url else "")


def test_an_address_in_the_body_of_a_page_is_not_its_own(empty, tmp_path):
    (tmp_path / "blog.html").write_text(
        f"<p>The bell is rung at noon.</p><div>{CANONICAL}{OPEN_GRAPH}</div>"
    )
    empty.add(tmp_path / "blog.html")
    assert "url" not in empty.document("blog.html").meta


def test_results_show_the_address_on_the_command_line_and_in_json(lmkrag, tmp_path):
    (tmp_path / "install.html").write_text(PAGE.format(CANONICAL))
    index = ("--index", tmp_path / "index")
    assert lmkrag("index", tmp_path / "install.html", *index).returncode == 0
    url = "https://example.org/docs/install#:~:text=Turn%20the%20brass%20key%20twice."
    question = "How often is the key turned?"
    assert f"   {url}\n" in lmkrag("search", question, *index).stdout
    assert json.loads(lmkrag("search", question, *index, "--json").stdout)["spans"][0]["url"] == url
    assert (
        json.loads(lmkrag("ask", question, *index, "--json").stdout)["citations"][0]["url"] == url
    )


# The commands of docs/how-to/elsewhere.md


@pytest.mark.skipif(shutil.which("wget") is None, reason="needs wget")
def test_a_website_that_wget_mirrors_is_followed(empty, tmp_path):
    pages = tmp_path / "served" / "docs"
    (pages / "deep").mkdir(parents=True)
    (pages / "index.html").write_text(
        '<a href="install">Install</a><a href="deep/">Deep</a><a href="/blog/">Blog</a>'
    )
    (pages / "install").write_text(PAGE.format(CANONICAL))
    (pages / "deep" / "index.html").write_text("<p>The hemp rope is for the dinghy.</p>")
    (tmp_path / "served" / "blog").mkdir()
    (tmp_path / "served" / "blog" / "index.html").write_text("<p>Never read.</p>")

    for page in pages.rglob("*"):
        os.utime(page, (1_700_000_000, 1_700_000_000))

    class Handler(SimpleHTTPRequestHandler):
        extensions_map = {"": "text/html"}  # noqa: RUF012

        def log_message(self, *_) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path / "served"))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/docs/"
    wget = (
        "wget",
        "--mirror",
        "--no-parent",
        "--adjust-extension",
        "--no-if-modified-since",
        "-nH",
        "-P",
        "site",
        url,
    )
    try:
        run(*wget, cwd=tmp_path)
        assert empty.add(tmp_path / "site", prune=True).added == 3
        assert [info.doc_id for info in empty.documents()] == [
            "docs/deep/index.html",
            "docs/index.html",
            "docs/install.html",
        ]
        assert urldefrag(empty.search("brass key")[0].url).url == "https://example.org/docs/install"
        (pages / "deep" / "index.html").write_text("<p>The hemp rope is for the new ferry.</p>")
        run(*wget, cwd=tmp_path)
        again = empty.add(tmp_path / "site", prune=True)
        assert (again.updated, again.unchanged) == (1, 2)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_clone_is_indexed_and_pulled(empty, tmp_path):
    git = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    project = tmp_path / "project"
    project.mkdir()
    run(*git, "init", "-q", "-b", "main", cwd=project)
    (project / "lamp.md").write_text("The lamp is trimmed at dawn.\n")
    (project / "bell.md").write_text("The bell is rung at noon.\n")
    run(*git, "add", ".", cwd=project)
    run(*git, "commit", "-qm", "one", cwd=project)
    run("git", "clone", "--depth", "1", "--branch", "main", project.as_uri(), "clone", cwd=tmp_path)
    assert empty.add(tmp_path / "clone", prune=True).added == 2
    run(*git, "rm", "-q", "bell.md", cwd=project)
    (project / "lamp.md").write_text("The lamp is trimmed at dusk.\n")
    run(*git, "commit", "-qam", "two", cwd=project)
    run("git", "-C", "clone", "pull", cwd=tmp_path)
    report = empty.add(tmp_path / "clone", prune=True)
    assert (report.updated, report.removed) == (1, 1)


@pytest.mark.skipif(shutil.which("unzip") is None, reason="needs unzip")
def test_an_unpacked_archive_is_indexed_and_refreshed(empty, tmp_path):
    def pack(**texts):
        with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
            for name, text in texts.items():
                archive.writestr(f"notes/{name}.md", text)

    pack(lamp="The lamp is trimmed at dawn.", bell="The bell is rung at noon.")
    run("unzip", "export.zip", "-d", "export", cwd=tmp_path)
    assert empty.add(tmp_path / "export").added == 2
    pack(lamp="The lamp is trimmed at dawn.", bell="The bell is rung at one.")
    run("unzip", "-o", "export.zip", "-d", "export", cwd=tmp_path)
    report = empty.add(tmp_path / "export")
    assert (report.updated, report.unchanged) == (1, 1)


def test_documents_of_loaders_are_indexed(empty, corpus):
    from langchain_core.document_loaders import BaseLoader
    from langchain_core.documents import Document as LangChainDocument
    from llama_index.core import SimpleDirectoryReader

    class TicketLoader(BaseLoader):
        def lazy_load(self):
            for number, text in enumerate(["The ferry is late.", "The pump leaks."]):
                yield LangChainDocument(
                    text,
                    metadata={"source": f"ticket {number}", "url": f"https://example.org/{number}"},
                )

    assert empty.add(TicketLoader().lazy_load()).added == 2
    assert empty.search("what leaks?")[0].url == "https://example.org/1"
    files = SimpleDirectoryReader(input_files=[corpus / "glass-river.txt"]).load_data()
    assert empty.add(files).added == len(files)
    assert empty.add(Document("own", text="The mill was built in 1801.")).added == 1
