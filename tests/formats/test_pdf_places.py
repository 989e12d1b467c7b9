"""Where text stands on the pages of a PDF: the rectangles hold the words that they are of."""

import pypdfium2
import pytest
from fpdf import FPDF

from lmkrag.errors import DocumentError
from lmkrag.formats.columns import Rectangle
from lmkrag.formats.isolated import IsolatedLoader
from lmkrag.formats.pdf import find_rectangles, merge_boxes, read, render_page

LINES = [
    "The ferry to Skerry leaves at seven in the morning, and at nine on Sundays.",
    "Dogs travel free. Bicycles cost a pound, and prams nothing at all.",
    "The last ferry goes back at six. Who misses it stays for the night.",
]


def make(*, spacing: float = 0, rotation: int = 0) -> bytes:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("helvetica", size=12)
    pdf.set_char_spacing(spacing)
    for line in LINES:
        pdf.multi_cell(0, 8, line)
        pdf.ln(4)
    data = bytes(pdf.output())
    if rotation:
        document = pypdfium2.PdfDocument(data)
        document[0].set_rotation(rotation)
        import io

        packed = io.BytesIO()
        document.save(packed)
        data = packed.getvalue()
    return data


def inside(data: bytes, rectangle) -> str:
    """The text that PDFium finds in a rectangle of an upright page."""
    page = pypdfium2.PdfDocument(data)[0]
    width, height = page.get_size()
    left, top, right, bottom = rectangle
    return page.get_textpage().get_text_bounded(
        left * width - 1, height - bottom * height, right * width + 1, height - top * height
    )


@pytest.mark.parametrize(
    "quote", ["Dogs travel free.", "cost a pound", "goes back at six. Who", "seven in the morning"]
)
@pytest.mark.parametrize("spacing", [0, 3])
def test_words_stand_in_their_rectangles(quote, spacing):
    data = make(spacing=spacing)
    text = read(data, "x.pdf").text
    start = text.replace("\n", " ").index(quote)
    rectangles = find_rectangles(data, 1, start, start + len(quote))
    assert len(rectangles) <= 2  # one for each line, however wide the letters are spaced
    found = " ".join(inside(data, rectangle) for rectangle in rectangles)
    assert "".join(found.split()) == "".join(quote.split())


def test_lines_get_a_rectangle_each():
    data = make()
    text = read(data, "x.pdf").text
    rectangles = find_rectangles(data, 1, 0, len(text))
    assert len(rectangles) == 3
    assert [rectangle[1] for rectangle in rectangles] == sorted(
        rectangle[1] for rectangle in rectangles
    )


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_turned_pages(rotation):
    upright, turned = make(), make(rotation=rotation)
    text = read(upright, "x.pdf").text
    start = text.index("Dogs")
    (before,) = find_rectangles(upright, 1, start, start + 17)
    start = read(turned, "x.pdf").text.index("Dogs")
    rectangles = find_rectangles(turned, 1, start, start + 17)
    left, top, right, bottom = before
    expected = {
        90: (1 - bottom, left, 1 - top, right),
        180: (1 - right, 1 - bottom, 1 - left, 1 - top),
        270: (top, 1 - right, bottom, 1 - left),
    }[rotation]
    covered = (
        min(r[0] for r in rectangles),
        min(r[1] for r in rectangles),
        max(r[2] for r in rectangles),
        max(r[3] for r in rectangles),
    )
    assert covered == pytest.approx(expected, abs=0.01)


def test_boxes_of_one_line_merge():
    boxes = [Rectangle(0.1 * i, 0.1, 0.1 * i + 0.05, 0.12) for i in range(5)]
    boxes.append(Rectangle(0.0, 0.2, 0.1, 0.22))
    assert merge_boxes(boxes) == [(0.0, 0.1, pytest.approx(0.45), 0.12), (0.0, 0.2, 0.1, 0.22)]
    assert merge_boxes([]) == []


def test_pages_that_are_not_there(tmp_path):
    data = make()
    with pytest.raises(DocumentError, match="no page 2: it has 1"):
        render_page(data, 2, 1.0)
    with pytest.raises(DocumentError, match="broken PDF"):
        render_page(b"%PDF-1.4 nothing", 1, 1.0)
    path = tmp_path / "x.pdf"
    path.write_bytes(data)
    with IsolatedLoader() as loader:
        fingerprint = loader.load(path, "x.pdf").fingerprint
        assert loader.render_page(path, fingerprint, 1, scale=1.0, form="WEBP")[8:12] == b"WEBP"
        assert loader.find_rectangles(path, fingerprint, 1, 0, 9)
        with pytest.raises(DocumentError, match="has changed since it was indexed"):
            loader.render_page(path, "other", 1)
        path.unlink()
        with pytest.raises(DocumentError, match="can't be read"):
            loader.find_rectangles(path, fingerprint, 1, 0, 9)
