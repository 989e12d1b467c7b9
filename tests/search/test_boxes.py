"""Where results stand on pages, and pages as images: what PDFium finds inside the boxes are the words of the result."""

import io
import os
import re

import pypdfium2
import pytest
from click.testing import CliRunner
from fpdf import FPDF
from PIL import Image
from pptx import Presentation
from pptx.util import Inches

from lmkrag import DocumentError, Engine, UsageError
from lmkrag.cli import main
from lmkrag.serialization import from_json, to_json

LEFT = (
    "The harbour committee met on 3 May. It found that the eastern mole had sunk by twelve centimetres. The engineer "
    "proposed to strengthen it with granite from the quarry at Westerholm."
)
RIGHT = (
    "The lighthouse keeper reported that the lamp needs a new lens before the winter. Such a lens costs 4,300 euros "
    "and takes eleven weeks to be delivered."
)
OVER = (
    "The fishing fleet may land its catch at the quay only between five and",
    "nine in the morning, except in July.",
)


def make_pdf(path, *, lens: str = "4,300") -> None:
    """Two columns, with a word divided at a line's end; a sentence over two pages; a turned page."""
    pdf = FPDF()
    pdf.set_auto_page_break(False)
    pdf.set_font("times", size=11)
    pdf.add_page()
    for x, text in ((20, LEFT), (110, RIGHT.replace("4,300", lens))):
        pdf.set_xy(x, 30)
        pdf.multi_cell(80, 6, text)
    pdf.text(20, 200, "The dredger works from April until Septem-")
    pdf.text(20, 206, "ber, and lies at the inner quay in winter.")
    pdf.text(20, 280, OVER[0])
    pdf.add_page()
    pdf.text(20, 20, OVER[1])
    pdf.add_page()
    pdf.text(20, 20, "High water at Skerry is at 6:40 on Mondays.")
    document = pypdfium2.PdfDocument(bytes(pdf.output()))
    document[2].set_rotation(90)
    document.save(path)


def make_slides(path) -> None:
    slides = Presentation()
    slides.slides.add_slide(slides.slide_layouts[5]).shapes.title.text = "Agenda"
    slide = slides.slides.add_slide(slides.slide_layouts[5])  # 10 x 7.5 inches
    slide.shapes.title.text = "Budget"
    box = slide.shapes.add_textbox(Inches(1), Inches(3), Inches(4), Inches(1.5))
    box.text_frame.text = "Dredging costs 88,000 euros a year."
    turned = slide.shapes.add_textbox(Inches(6), Inches(3), Inches(2), Inches(1))
    turned.text_frame.text, turned.rotation = "Nobody pays for the turned shape.", 90
    group = slide.shapes.add_group_shape()
    inner = group.shapes.add_textbox(Inches(0), Inches(0), Inches(4), Inches(2))
    inner.text_frame.text = "The tug is sold in autumn."
    group.left, group.top, group.width, group.height = Inches(5), Inches(6), Inches(2), Inches(1)
    slide.notes_slide.notes_text_frame.text = "Say nothing of the crane."
    slides.save(path)


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    (folder / "docs").mkdir()
    make_pdf(folder / "docs" / "minutes.pdf")
    make_slides(folder / "docs" / "budget.pptx")
    (folder / "docs" / "notes.md").write_text("# Notes\n\nThe ferry leaves at seven.\n")
    with Engine.open(folder / "index", create=True) as engine:
        engine.add(folder / "docs")
    return folder


@pytest.fixture
def engine(docs):
    with Engine.open(docs / "index") as opened:
        yield opened


def bounds(engine, doc_id: str, words: str) -> tuple[int, int]:
    text = engine.read(doc_id)
    start = " ".join(text.split("\n")).index(words)
    return start, start + len(words)


def read_boxes(path, boxes) -> str:
    """What PDFium finds inside boxes."""
    found = []
    for box in boxes:
        page = pypdfium2.PdfDocument(path)[box.page - 1]
        width, height = page.get_size()
        corners = (
            box.x0 * width - 1,
            height - box.y1 * height,
            box.x1 * width + 1,
            height - box.y0 * height,
        )
        found.append(page.get_textpage().get_text_bounded(*corners))
    return " ".join(" ".join(found).split())


def best(engine, question: str, **options):
    spans = engine.search(question, top_k=1, level="sentence", boxes=True, **options)
    assert not [note for note in spans.notes if "no boxes" in note]
    return spans[0]


@pytest.mark.parametrize(
    ("question", "words", "lines"),
    [
        ("where does the granite come from", "The engineer proposed to strengthen it", 2),
        (
            "what does a lens of the lighthouse cost",
            "Such a lens costs 4,300 euros and takes eleven",
            3,
        ),
        ("when does the dredger work", "The dredger works from April until Septem", 2),
    ],
    ids=["left column", "right column", "divided word"],
)
def test_boxes_hold_the_words(engine, docs, question, words, lines):
    span = best(engine, question)
    inside = read_boxes(docs / "docs" / "minutes.pdf", span.boxes)
    assert words in inside and len(span.boxes) == lines
    assert re.sub(r"\W", "", span.text) == re.sub(r"\W", "", inside)


def test_a_span_over_two_pages(engine, docs):
    start, end = (
        bounds(engine, "minutes.pdf", OVER[0])[0],
        bounds(engine, "minutes.pdf", OVER[1])[1],
    )
    span = next(
        found
        for found in engine.search("when may the fishing fleet land its catch", boxes=True)
        if found.start <= start and end <= found.end
    )
    (*_, last), (first, *_) = ([box for box in span.boxes if box.page == page] for page in (1, 2))
    assert last.y0 > 0.9 and first.y1 < 0.1
    assert read_boxes(docs / "docs" / "minutes.pdf", [last, first]) == " ".join(OVER)


def test_a_turned_page_has_boxes_as_it_is_shown(engine):
    (box,) = [box for box in best(engine, "when is high water at Skerry").boxes if box.page == 3]
    assert box.x0 > 0.9 and box.y1 - box.y0 > 5 * (box.x1 - box.x0)  # down the right edge


def test_shapes_of_slides(engine):
    def frame(question):
        ((page, *edges),) = [
            (box.page, box.x0, box.y0, box.x1, box.y1) for box in best(engine, question).boxes
        ]
        assert page == 2
        return pytest.approx(edges, abs=1e-4)

    assert frame("what does dredging cost") == [0.1, 0.4, 0.5, 0.6]
    assert frame("who pays for the turned shape") == [0.65, 2.5 / 7.5, 0.75, 4.5 / 7.5]
    assert frame("when is the tug sold") == [0.5, 0.8, 0.7, 7 / 7.5]
    assert best(engine, "what is said of the crane").boxes == ()  # notes are on no slide
    with pytest.raises(
        DocumentError, match="pages of pptx files can't be shown, only those of PDF and pictures"
    ):
        engine.pages.draw(engine.documents(doc_ids=["budget.pptx"])[0], 2)


def test_only_on_request_and_only_on_pages(engine):
    assert engine.search("what does a lens cost", top_k=1)[0].boxes == ()
    spans = engine.search("when does the ferry leave", top_k=1, boxes=True, filter="kind=markdown")
    assert (spans[0].boxes, spans.notes) == ((), ())
    span = best(engine, "what does a lens of the lighthouse cost")
    assert from_json(type(span), to_json(span)).boxes == span.boxes
    assert to_json(span)["boxes"][0].keys() == {"page", "x0", "y0", "x1", "y1"}


def test_a_changed_file_has_no_boxes(tmp_path):
    path = tmp_path / "docs" / "minutes.pdf"
    path.parent.mkdir()
    make_pdf(path)
    before = path.stat()
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(path.parent)
        (info,) = engine.documents()
        size = len(path.read_bytes())
        path.write_bytes(path.read_bytes()[:-1] + b" ")
        assert len(path.read_bytes()) == size
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # only its content tells
        spans = engine.search("what does a lens cost", top_k=1, boxes=True)
        assert spans[0].boxes == () and "changed since" in spans.notes[0]
        make_pdf(path, lens="9,900")
        spans = engine.search("what does a lens cost", top_k=1, boxes=True)
        assert (spans[0].boxes, spans[0].stale, len(spans.notes)) == ((), "changed", 1)
        with pytest.raises(DocumentError, match="its file has changed"):
            engine.pages.draw(info, 1)
        path.parent.rename(tmp_path / "elsewhere")  # then nobody can tell whether it is stale
        spans = engine.search("what does a lens cost", top_k=1, boxes=True)
        why = "minutes.pdf, page 1: no boxes (its file can't be read (No such file or directory))"
        assert (spans[0].boxes, spans.notes) == ((), (why,))
        with pytest.raises(DocumentError, match="can't be read"):
            engine.pages.draw(info, 1)


def test_a_moved_file_has_its_boxes(tmp_path):
    path = tmp_path / "docs" / "minutes.pdf"
    path.parent.mkdir()
    make_pdf(path)
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(path.parent)
        before = best(engine, "what does a lens of the lighthouse cost").boxes
        path.rename(path.with_name("moved.pdf"))
        assert best(engine, "what does a lens of the lighthouse cost").boxes == before != ()


def outlined(image: Image.Image) -> set[int]:
    """The lines of pixels, in hundredths of the height, with red ones."""
    width, height = image.size
    pixels = image.convert("RGB").load()
    return {
        100 * y // height
        for y in range(height)
        for x in range(0, width, 3)
        if pixels[x, y][0] > 180 > 2 * pixels[x, y][1]
    }


@pytest.mark.parametrize("name", ["page.png", "page.jpg", "page.webp"])
def test_show_draws_a_page_with_a_span_outlined(engine, docs, tmp_path, name):
    start, end = bounds(engine, "minutes.pdf", OVER[1])
    run = CliRunner().invoke(
        main,
        [
            "show",
            "minutes.pdf",
            "--span",
            str(start),
            str(end),
            "--image",
            str(tmp_path / name),
            "--index",
            str(docs / "index"),
        ],
    )
    assert (run.exit_code, run.output) == (0, "")
    image = Image.open(tmp_path / name)
    lines = outlined(image)
    assert image.format == {"png": "PNG", "jpg": "JPEG", "webp": "WEBP"}[name.rpartition(".")[2]]
    assert lines and lines <= set(range(4, 9))  # page 2, whose only line is there


def test_show_says_what_it_can_not_draw(docs, tmp_path):
    def show(*options: str) -> tuple[int, str]:
        run = CliRunner().invoke(main, ["show", *options, "--index", str(docs / "index")])
        return run.exit_code, run.output

    image = str(tmp_path / "page.png")
    assert show("minutes.pdf", "--page", "3", "--span", "0", "40", "--image", image) == (
        2,
        "lmkrag: minutes.pdf: page 3 shows none of the characters 0 to 40\n",
    )
    assert show("minutes.pdf", "--page", "4", "--image", image) == (
        2,
        "lmkrag: minutes.pdf has 3 pages\n",
    )
    assert show("notes.md", "--page", "1", "--image", image) == (
        2,
        "lmkrag: notes.md has no pages\n",
    )
    assert show("minutes.pdf", "--image", f"{image}.bmp")[1].endswith(
        "ends with .png, .jpg or .webp\n"
    )
    assert show("minutes.pdf", "--image", str(tmp_path / "none" / "x.png"))[1].endswith(
        "No such file or directory\n"
    )
    assert show("minutes.pdf", "--page", "1", "--span", "0", "9")[0] == 2
    assert show("minutes.pdf", "--span", "4", "21") == (0, "harbour committee")


def test_the_longest_side_and_the_page_without_a_span(engine):
    (info,) = engine.documents(doc_ids=["minutes.pdf"])
    image = Image.open(io.BytesIO(engine.pages.draw(info, form="JPEG", longest=500)))
    assert max(image.size) == 500 and not outlined(image)
    with pytest.raises(UsageError, match="none of the characters"):
        engine.pages.draw(info, 1, (10_000, 10_001))
