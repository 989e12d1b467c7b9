"""Scanned pages and pictures: their text, its place, and what happens without the extra."""

import io
import os
import subprocess
import sys
import time
from email.message import EmailMessage
from pathlib import Path

import pytest
from click.testing import CliRunner
from fpdf import FPDF
from PIL import Image, ImageDraw, ImageFont

from lmkrag import Engine
from lmkrag.cli import main
from lmkrag.errors import DocumentError, EmptyDocument
from lmkrag.formats import ocr, pdf
from lmkrag.formats.isolated import IsolatedLoader
from lmkrag.formats.load import load_document
from lmkrag.formats.ocr import Line, arrange
from lmkrag.formats.scans import fill_scans, find_boxes
from lmkrag.types import Document

TEXT = ["Ferry to Skerry", "", "The ferry leaves at seven.", "Dogs travel free of charge."]
needs_ocr = pytest.mark.skipif(
    not ocr.is_installed(), reason="rapidocr is not installed (the extra 'ocr')"
)


def draw(lines, size=(900, 420)) -> Image.Image:
    image = Image.new("L", size, "white")
    font = ImageFont.load_default(34)
    for number, line in enumerate(lines):
        ImageDraw.Draw(image).text((60, 40 + 60 * number), line, fill="black", font=font)
    return image


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """A PDF of one scanned page."""
    path = tmp_path_factory.mktemp("scan") / "ferry.pdf"
    draw(TEXT).save(path, resolution=100)
    return path


@pytest.fixture
def cache(monkeypatch, tmp_path_factory):
    """A cache directory that the tests of this module share, so that a page is read once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "ocr-cache"))


@needs_ocr
def test_a_scanned_pdf_is_read_found_and_marked(scan, cache, tmp_path):
    with IsolatedLoader() as loader:
        document = loader.load(scan, "ferry.pdf")
        assert document.text.split() == " ".join(TEXT).split()
        assert document.text.startswith("Ferry to Skerry\n\nThe ferry leaves at seven.\nDogs")
        assert document.kind == "pdf" and document.page_starts == (0,)
        assert document.meta["scanned_pages"] == [1] and document.meta["ocr_confidence"] > 0.9
        start = document.text.index("seven")
        ((left, top, right, bottom),) = loader.find_scanned(
            scan, document.fingerprint, 1, start, start + 5
        )
        assert 0.3 < left < right < 0.7 and 0.35 < top < bottom < 0.55
    again = IsolatedLoader(seconds=20)  # the page is remembered: no model is loaded
    assert again.load(scan, "ferry.pdf").text == document.text
    again.close()
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(scan)
        (span,) = engine.search("when does the ferry leave?", top_k=1)
        assert "at seven" in span.text and span.page == 1


def modes(folder: Path) -> dict[str, int]:
    """The permissions of a folder and of all that is in it."""
    return {
        str(path.relative_to(folder)): path.stat().st_mode & 0o777
        for path in (folder, *folder.rglob("*"))
    }


@needs_ocr
def test_what_was_read_is_kept_for_its_user_only_and_read_again_if_it_is_damaged(
    scan, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "lmkrag" / "ocr").mkdir(parents=True)  # as others may read it
    with IsolatedLoader() as loader:
        document = loader.load(scan, "ferry.pdf")
        kept = modes(tmp_path / "lmkrag")
        (entry,) = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert kept.pop(str(entry.relative_to(tmp_path / "lmkrag"))) == 0o600
        assert len(kept) >= 4 and set(kept.values()) == {0o700}
        whole = entry.read_bytes()
        assert b"seven" in whole
        for damaged in (whole.replace(b"seven", b"eight"), whole[:-9]):
            entry.write_bytes(damaged)
            assert loader.load(scan, "ferry.pdf") == document
            assert entry.read_bytes() == whole


def test_other_models_read_again(tmp_path):
    code = "from lmkrag.formats.ocr import name_models; print(name_models())"
    names = []
    for model in (b"one", b"two", b"one"):
        models = tmp_path / model.decode() / "rapidocr" / "models"
        models.mkdir(parents=True, exist_ok=True)
        (models.parent / "__init__.py").touch()
        (models / "lines.onnx").write_bytes(model)
        environment = {**os.environ, "PYTHONPATH": str(models.parents[1])}
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        names.append(run.stdout)
    assert names[0] == names[2] != names[1]


@needs_ocr
def test_what_reads_pictures_writes_down_nothing_of_this_machine(lmkrag_process, tmp_path):
    draw(TEXT[2:], size=(700, 240)).save(tmp_path / "note.png")
    folders = {name: tmp_path / name for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR")}
    for folder in folders.values():
        folder.mkdir()
    environment = {name: str(folder) for name, folder in folders.items()}
    run = lmkrag_process(
        "index", tmp_path / "note.png", "--index", tmp_path / "index", env=environment
    )
    assert run.returncode == 0, run.stderr
    written = [path for folder in folders.values() for path in folder.rglob("*") if path.is_file()]
    assert written and all(
        path.is_relative_to(tmp_path / "XDG_CACHE_HOME" / "lmkrag") for path in written
    )


@needs_ocr
def test_a_picture_is_a_document(cache, tmp_path):
    draw(TEXT[2:], size=(700, 240)).save(tmp_path / "note.png")
    with IsolatedLoader() as loader:
        document = loader.load(tmp_path / "note.png", "note.png")
        assert (
            document.kind == "image"
            and document.text == "The ferry leaves at seven.\nDogs travel free of charge."
        )
        assert loader.render_page(tmp_path / "note.png", document.fingerprint, 1).startswith(
            b"\x89PNG"
        )
        Image.new("L", (400, 200), "white").save(tmp_path / "blank.png")
        with pytest.raises(EmptyDocument, match="no text on its scanned pages"):
            loader.load(tmp_path / "blank.png", "blank.png")
        Image.new("L", (16, 16)).save(tmp_path / "icon.png")
        with pytest.raises(EmptyDocument, match="too small"):
            loader.load(tmp_path / "icon.png", "icon.png")
        (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff" + b"x" * 500)
        with pytest.raises(DocumentError, match="broken picture"):
            loader.load(tmp_path / "broken.jpg", "broken.jpg")


@needs_ocr
def test_scans_attached_to_mail_are_read(scan, cache, tmp_path):
    mail = EmailMessage()
    mail["Subject"] = "Timetable"
    mail.set_content("The new one is attached.\n")
    blank = io.BytesIO()
    Image.new("L", (400, 200), "white").save(blank, "pdf")
    for name, data in (("ferry.pdf", scan.read_bytes()), ("blank.pdf", blank.getvalue())):
        mail.add_attachment(data, maintype="application", subtype="pdf", filename=name)
    (tmp_path / "news.eml").write_bytes(bytes(mail))
    with IsolatedLoader() as loader:
        _, (attached,), (skipped,) = loader.load_with_attachments(tmp_path / "news.eml", "news.eml")
    assert (attached.doc_id, attached.meta["scanned_pages"]) == ("news.eml/ferry.pdf", [1])
    assert "The ferry leaves at seven." in attached.text
    assert (skipped.path, skipped.reason) == ("news.eml/blank.pdf", "no text on its scanned pages")


def test_without_the_extra_a_scan_says_what_to_install(scan, monkeypatch, tmp_path):
    monkeypatch.setattr(pdf, "is_installed", lambda: False)
    with pytest.raises(
        DocumentError, match=r"1 page without a text layer: pip install 'lmkrag\[ocr\]'"
    ):
        load_document(scan, "ferry.pdf")
    monkeypatch.setattr("lmkrag.formats.load.find_spec", lambda module: None)
    draw(TEXT).save(tmp_path / "note.png")
    with pytest.raises(DocumentError, match=r"picture: pip install 'lmkrag\[ocr\]'") as refused:
        load_document(tmp_path / "note.png", "note.png")
    assert not refused.value.lasting, "once it is installed, the picture is tried again"


@needs_ocr
def test_the_time_limit_holds_for_all_pages_of_a_scan(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pages = [draw([f"{number}. {TEXT[2]}"] * 6) for number in range(12)]
    pages[0].save(tmp_path / "long.pdf", save_all=True, append_images=pages[1:])
    began = time.monotonic()
    with (
        IsolatedLoader(seconds=4) as loader,
        pytest.raises(DocumentError, match="takes longer than 4 s to read"),
    ):
        loader.load(tmp_path / "long.pdf", "long.pdf")
    assert time.monotonic() - began < 8


def page_with(picture: Image.Image, text: str, size: int) -> bytes:
    """A PDF of a page of text, and one that a picture fills, with a line of text on it."""
    pdf = FPDF(unit="pt", format=(800, 600))
    pdf.set_margin(10)
    pdf.set_font("helvetica", size=size)
    pdf.add_page()
    pdf.cell(0, 30, "The timetable of the ferry")
    pdf.add_page()
    pdf.image(picture, 0, 0, 800, 600)
    pdf.cell(0, 30, text)
    return bytes(pdf.output())


def test_a_stamp_does_not_make_a_scan_a_page_of_text_but_a_slide_has_its_own():
    picture = draw(TEXT)
    assert pdf.read(page_with(picture, "page 2 of 2", 7), "x.pdf").scanned == (2,)
    slide = pdf.read(page_with(picture, "Thank you!", 24), "x.pdf")
    assert (slide.scanned, slide.text.split("\n")[-1]) == ((), "Thank you!")


def test_pages_that_were_not_read_are_said(monkeypatch, tmp_path):
    (tmp_path / "ferry.pdf").write_bytes(page_with(draw(TEXT), "", 7))
    monkeypatch.setattr("lmkrag.formats.isolated.is_installed", lambda: False)
    with Engine.open(tmp_path / "index", create=True) as engine:
        report = engine.add(tmp_path / "ferry.pdf")
        assert report.warnings == (
            "1 page of 1 document without readable text: pip install 'lmkrag[ocr]' reads them",
        )
        assert engine.status().unread_pages == 1
    listed = CliRunner().invoke(main, ["list", "--index", str(tmp_path / "index")])
    assert listed.output == "ferry.pdf  1 page without readable text: pip install 'lmkrag[ocr]'\n"


def test_pages_with_text_are_no_scans(corpus):
    document = load_document(corpus / "reports" / "viaduct-inspection.pdf", "v.pdf")
    assert "scanned_pages" not in document.meta


def test_only_scanned_pages_are_filled():
    document = Document(
        "a.pdf", "a.pdf", "One.\n\n\n\nThree.", "", "pdf", (0, 6, 8), {"scanned_pages": [2]}
    )
    asked = []

    def read(number):
        asked.append(number)
        return {"text": "Two.", "places": [], "confidence": 0.8}

    filled, _ = fill_scans(document, read)
    assert (filled.text, filled.page_starts, asked) == ("One.\n\nTwo.\n\nThree.", (0, 6, 12), [2])
    assert filled.meta["ocr_confidence"] == 0.8


def line(text, left, top, right, height=0.02, score=1.0) -> Line:
    return Line(text, (left, top, right, top + height), score)


def test_lines_are_read_in_columns_and_rows_of_tables_stay_together():
    prose = "a line of prose that fills its column"
    columns = [line(f"{prose} {n}", 0.05, 0.1 + 0.03 * n, 0.47) for n in range(4)]
    columns += [line(f"{prose} {n + 4}", 0.53, 0.1 + 0.03 * n, 0.95) for n in range(4)]
    title = line("A title over both of the columns", 0.1, 0.02, 0.9)
    read = arrange([*reversed(columns), title]).text
    assert [int(one[-1]) for one in read.splitlines()[2:] if one] == list(range(8))
    assert read.startswith("A title over both of the columns\n\n")
    table = [
        line("Item", 0.1, 0.1, 0.2),
        line("Stock", 0.6, 0.1, 0.7),
        line("B-7", 0.1, 0.14, 0.15),
    ]
    table.append(line("12", 0.6, 0.141, 0.63))
    assert arrange(table).text == "| Item | Stock |\n| B-7 | 12 |"
    words = [line("Two", 0.1, 0.1, 0.15), line("words", 0.16, 0.1, 0.25)]
    page = arrange(words)
    assert page.text == "Two words" and page.places == (
        (0, 9, pytest.approx((0.1, 0.1, 0.25, 0.12))),
    )
    assert arrange([]).text == ""


def test_boxes_are_cut_to_the_characters():
    page = {"places": [(0, 10, (0.0, 0.1, 1.0, 0.2)), (11, 21, (0.0, 0.3, 1.0, 0.4))]}
    assert find_boxes(page, 5, 12) == [(0.5, 0.1, 1.0, 0.2), (0.0, 0.3, pytest.approx(0.1), 0.4)]
    assert find_boxes(page, 10, 11) == []


def test_a_tiff_has_pages(tmp_path, monkeypatch):
    monkeypatch.setattr("lmkrag.formats.load.is_installed", lambda: True)
    frames = [draw(TEXT), draw(TEXT[::-1])]
    packed = io.BytesIO()
    frames[0].save(packed, "TIFF", save_all=True, append_images=frames[1:])
    (tmp_path / "two.tiff").write_bytes(packed.getvalue())
    document = load_document(tmp_path / "two.tiff", "two.tiff")
    assert document.meta["scanned_pages"] == [1, 2] and len(document.page_starts) == 2
