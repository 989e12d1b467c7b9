"""Real files that are too much for their readers."""

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from functools import partial
from pathlib import Path

import docx
import pytest
import xlwt

from lmkrag.errors import DocumentError
from lmkrag.formats.isolated import IsolatedLoader, module_folders

PAGE = "<p>Ten bees.</p>"


@pytest.fixture
def loader():
    with IsolatedLoader() as opened:
        yield opened


def test_what_comes_back_is_what_the_reader_gave(loader, corpus):
    from lmkrag.formats.load import load_document

    for name in (
        "beekeeping.html",
        "reports/viaduct-inspection.pdf",
        "reports/allotment-minutes.docx",
        "glass-river.txt",
    ):
        assert loader.load(corpus / name, name) == load_document(corpus / name, name)


def test_odd_characters_and_names_come_through(loader, tmp_path):
    path = tmp_path / "ø \udcff 😀.html"
    path.write_text("<p>日本 😀 &#xd800; \u202e x</p>", "utf-8")
    assert "日本 😀" in loader.load(path, "a\nb").text


def test_a_file_that_takes_too_long_is_given_up_and_the_next_one_is_read(tmp_path):
    (tmp_path / "long.html").write_text("<table><tr><td>x</td></tr></table>" * 400_000)
    (tmp_path / "good.html").write_text(PAGE)
    with IsolatedLoader(seconds=1.0) as loader:
        began = time.monotonic()
        with pytest.raises(DocumentError, match="takes longer than 1 s to read: skipped"):
            loader.load(tmp_path / "long.html", "long")
        assert time.monotonic() - began < 10
    with IsolatedLoader() as loader:
        assert loader.load(tmp_path / "good.html", "good").text == "Ten bees."


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit address space")
def test_a_file_that_needs_too_much_memory_is_skipped_and_the_next_one_is_read(tmp_path):
    (tmp_path / "large.html").write_text("<i>x</i>" * 4_000_000)
    (tmp_path / "good.html").write_text(PAGE)
    with IsolatedLoader(memory=500 << 20) as loader:
        with pytest.raises(DocumentError, match="broken HTML"):
            loader.load(tmp_path / "large.html", "large")
        assert loader.load(tmp_path / "good.html", "good").text == "Ten bees."


def test_a_small_packed_file_is_read_by_a_reader_that_has_read_nothing(tmp_path):
    path = tmp_path / "note.txt.gz"
    path.write_bytes(gzip.compress(b"The gate code is 8832."))
    with IsolatedLoader() as loader:
        assert loader.load(path, "note").text == "The gate code is 8832."


def test_a_reader_that_dies_costs_one_file(loader, tmp_path):
    (tmp_path / "good.html").write_text(PAGE)
    assert loader.load(tmp_path / "good.html", "good").text == "Ten bees."
    os.kill(loader._process.pid, 9)
    with pytest.raises(DocumentError, match=r"broken HTML page \(its reader ended\)"):
        loader.load(tmp_path / "good.html", "good")
    assert loader.load(tmp_path / "good.html", "good").text == "Ten bees."


def last_cell() -> bytes:
    """A workbook of 6 kB with the first cell that there is and the last, so that all between are held in memory."""
    book = xlwt.Workbook()
    sheet = book.add_sheet("x")
    sheet.write(0, 0, "near")
    sheet.write(65_535, 255, "far")
    packed = io.BytesIO()
    book.save(packed)
    return packed.getvalue()


def one_word(size: int) -> bytes:
    """A Word file with one word, of ``size`` bytes."""
    packed = io.BytesIO()
    docx.Document().save(packed)
    written = io.BytesIO()
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    with (
        zipfile.ZipFile(packed) as old,
        zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for name in old.namelist():
            if name != "word/document.xml":
                new.writestr(name, old.read(name))
        with new.open("word/document.xml", "w", force_zip64=True) as part:
            part.write(f'<w:document xmlns:w="{space}"><w:body><w:p><w:r><w:t>'.encode())
            for _ in range(size >> 20):
                part.write(b"a" * (1 << 20))
            part.write(b"</w:t></w:r></w:p></w:body></w:document>")
    return written.getvalue()


def packed_lines(count: int) -> bytes:
    """A line that is there so often that a byte of the file stands for a thousand."""
    return gzip.compress(b"<p>The lamp is lit.</p>\n" * count)


READ = """
import resource, sys
from pathlib import Path
from lmkrag.errors import DocumentError
from lmkrag.formats.isolated import IsolatedLoader
with IsolatedLoader() as loader:
    try:
        loader.load(Path(sys.argv[1]), "a")
    except DocumentError as error:
        print(error)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit address space")
@pytest.mark.parametrize(
    ("name", "data", "most", "reason"),
    [
        pytest.param(
            "far.xls", last_cell, 1_100, r"broken Excel file \(its reader ended: (?!note)", id="xls"
        ),
        pytest.param(
            "word.docx", partial(one_word, 800 << 20), 1_100, "broken Word file", id="docx"
        ),
        pytest.param(
            "lines.html.gz",
            partial(packed_lines, 2_000_000),
            1_100,
            "broken (HTML page|gzip file)",
            id="gz",
        ),
        pytest.param(
            "nested.json", lambda: b"[" + b"[1]," * 400_000 + b"1]", 560, "", id="json that is read"
        ),
    ],
)
def test_a_small_file_takes_a_gigabyte_at_most(tmp_path, name, data, most, reason):
    (tmp_path / name).write_bytes(data())
    done = subprocess.run(
        [sys.executable, "-c", READ, tmp_path / name], capture_output=True, text=True, check=True
    )
    *said, peak = done.stdout.splitlines()
    assert int(peak) < most
    assert bool(said) == bool(reason) and re.match(reason, "".join(said)), said


def zipped(name: str, inner: bytes, **others: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, inner)
        for other, data in others.items():
            archive.writestr(other, data)
    return buffer.getvalue()


def test_an_archive_that_lies_about_its_size(loader, tmp_path):
    data = bytearray(zipped("META-INF/container.xml", b"x" * (64 << 20)))
    for signature, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        place = data.index(signature) + offset
        data[place : place + 4] = (10).to_bytes(4, "little")
    (tmp_path / "lie.epub").write_bytes(data)
    with pytest.raises(DocumentError, match="broken EPUB"):
        loader.load(tmp_path / "lie.epub", "lie")


def test_names_in_an_archive_never_leave_it(loader, tmp_path):
    (tmp_path / "secret.xhtml").write_text("<p>the password</p>")
    container = b"<c><rootfile full-path='p.opf'/></c>"
    package = b"<p><item id='a' href='../../../secret.xhtml'/><item id='b' href='b.xhtml'/>"
    package += b"<itemref idref='a'/><itemref idref='b'/></p>"
    files = {"p.opf": package, "b.xhtml": PAGE.encode()}
    (tmp_path / "escape.epub").write_bytes(zipped("META-INF/container.xml", container, **files))
    assert loader.load(tmp_path / "escape.epub", "e").text == "Ten bees."


def test_entities_are_not_expanded_and_nothing_is_fetched(loader, tmp_path):
    (tmp_path / "secret.txt").write_text("the password")
    laughs = "".join(f"<!ENTITY l{i} '{f'&l{i - 1};' * 10}'>" for i in range(1, 12))
    bomb = f"<!DOCTYPE c [<!ENTITY l0 'ha'>{laughs}]><c><t>&l11;</t></c>".encode()
    (tmp_path / "laughs.epub").write_bytes(zipped("META-INF/container.xml", bomb))
    with pytest.raises(DocumentError, match="EPUB"):
        loader.load(tmp_path / "laughs.epub", "l")
    entity = f"<!DOCTYPE c [<!ENTITY f SYSTEM 'file://{tmp_path}/secret.txt'>]>"
    container = b"<c><rootfile full-path='p.opf'/></c>"
    package = f"{entity}<p><title>T&f;</title><item id='b' href='b.xhtml'/><itemref idref='b'/></p>".encode()
    page = f"{entity}<p>Ten bees.&f;</p>".encode()
    files = {"p.opf": package, "b.xhtml": page}
    (tmp_path / "outside.epub").write_bytes(zipped("META-INF/container.xml", container, **files))
    document = loader.load(tmp_path / "outside.epub", "o")
    assert "Ten bees." in document.text
    assert "password" not in document.title + document.text
    (tmp_path / "front.md").write_text(
        "---\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n---\nText.\n"
    )
    assert loader.load(tmp_path / "front.md", "f").meta == {}


def test_deep_nesting_and_many_objects(loader, tmp_path):
    (tmp_path / "deep.html").write_text("<ul>" * 200_000 + "x" + "</ul>" * 200_000)
    (tmp_path / "deep.json").write_text("[" * 200_000 + "]" * 200_000)
    objects = b"".join(b"%d 0 obj<</A %d 0 R>>endobj\n" % (i, i + 1) for i in range(1, 1_000_000))
    (tmp_path / "objects.pdf").write_bytes(
        b"%PDF-1.7\n" + objects + b"trailer<</Root 1 0 R>>\n%%EOF"
    )
    for name in ("deep.html", "deep.json", "objects.pdf"):
        with pytest.raises(DocumentError):
            loader.load(tmp_path / name, name)


def test_what_a_parser_says_is_kept_for_who_asks(loader, tmp_path, caplog):
    (tmp_path / "broken.docx").write_bytes(zipped("word/document.xml", b"<w:document"))
    with (
        caplog.at_level("DEBUG", logger="lmkrag"),
        pytest.raises(DocumentError, match="broken Word file"),
    ):
        loader.load(tmp_path / "broken.docx", "broken")
    assert "Traceback" in caplog.text
    assert "formats/docx.py" in caplog.text


def test_what_a_dying_reader_printed_is_told(loader, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "lmkrag.formats.isolated._START",
        "import os, sys\nsys.stderr.write('libpdf: bad xref\\n')\nos._exit(3)",
    )
    (tmp_path / "a.html").write_text(PAGE)
    with pytest.raises(
        DocumentError, match=r"broken HTML page \(its reader ended: libpdf: bad xref\)"
    ):
        loader.load(tmp_path / "a.html", "a")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_reader_ends_with_a_parent_that_is_killed(tmp_path):
    (tmp_path / "long.html").write_text("<table><tr><td>x</td></tr></table>" * 400_000)
    code = f"""
from pathlib import Path
from lmkrag.formats.isolated import IsolatedLoader, module_folders
loader = IsolatedLoader()
loader._process = loader._start()
print(loader._process.pid, flush=True)
loader.load(Path({str(tmp_path / "long.html")!r}), "long")
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    reader = int(parent.stdout.readline())
    time.sleep(1.0)
    assert Path(f"/proc/{reader}").exists()
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{reader}").exists() and state(reader) != "Z":
        assert time.monotonic() < deadline, "the reader outlives its parent"
        time.sleep(0.05)


def state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_the_reader_limits_its_own_time(tmp_path):
    """As where nobody is there any more to end it."""
    code = f"""
import sys
sys.path[:] = {module_folders()!r}
from lmkrag.formats import isolated
isolated._GRACE = 0
isolated._TASKS["load"] = lambda path, doc_id: exec("while True: pass")
isolated.serve(4 << 30)
"""
    request = json.dumps({"task": "load", "path": "/x", "doc_id": "x", "seconds": 1})
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=request + "\n",
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode in (-signal.SIGALRM, -signal.SIGXCPU, -signal.SIGKILL)
