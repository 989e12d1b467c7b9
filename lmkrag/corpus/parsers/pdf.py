"""PDF, by pypdfium2 (PDFium): the text layer, page by page; pages as images, and where text stands on them."""

import contextlib
import ctypes
import io
import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any

import pypdfium2
import pypdfium2.raw as raw

from lmkrag.corpus.parsers.base import Loaded, join_pages
from lmkrag.corpus.parsers.ocr import is_installed
from lmkrag.errors import DocumentError

_SPECIAL = re.compile("\r\n|[\ufffe\x02\0]")
_CLEANED = {"\r\n": "\n", "\ufffe": "-", "\x02": "-", "\0": ""}
_MAGIC = b"%PDF"
_FEW_CHARACTERS = 200  # of a page that may be a scan with a stamp or a page number
_UNITS = 100_000  # that a page is divided into, either way

Rectangle = tuple[float, float, float, float]


def read(data: bytes, name: str) -> Loaded:
    """Read a PDF: the text of its pages, and where each page starts in it."""
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise DocumentError("encrypted PDF: it needs a password") from error
        raise DocumentError(f"broken PDF ({error})") from error
    try:
        contents = [_read_page(pdf, number) for number in range(len(pdf))]
        metadata = pdf.get_metadata_dict(skip_empty=True)
    except pypdfium2.PdfiumError as error:
        raise DocumentError(f"broken PDF ({error})") from error
    finally:
        pdf.close()
    text, starts = join_pages([page for page, _ in contents])
    scanned = tuple(number for number, (_, is_scan) in enumerate(contents, 1) if is_scan)
    if not text.strip() and not (scanned and is_installed()):
        if not scanned:
            raise DocumentError("PDF without text")
        pages = f"{len(scanned)} scanned page{'s' * (len(scanned) != 1)}"
        raise DocumentError(f"{pages} without a text layer: pip install 'lmkrag[ocr]' reads them", lasting=False)
    meta = {key.lower(): metadata[key] for key in ("Author", "Subject", "Keywords") if key in metadata}
    return Loaded(text, "pdf", metadata.get("Title", ""), starts, meta, scanned=scanned)


def render_page(data: bytes, number: int, scale: float) -> bytes:
    """Draw a page, from 1, ``scale`` pixels to a point; return it as WebP. A picture is drawn as it is.

    Raises:
        DocumentError: there is no such page, or it can't be drawn.
    """
    image = draw_page(data, number, scale)
    packed = io.BytesIO()
    image.convert("RGB").save(packed, "WEBP", quality=80)
    return packed.getvalue()


def draw_page(data: bytes, number: int, scale: float) -> Any:
    """Return a page of a PDF or of a picture as a PIL image; ``scale`` counts for PDFs only.

    Raises:
        DocumentError: there is no such page, or it can't be drawn.
    """
    if _MAGIC not in data[:1024]:
        from lmkrag.corpus.parsers.picture import open_picture

        return open_picture(data, number)
    with _open_page(data, number) as page:
        return page.render(scale=scale).to_pil()


def find_rectangles(data: bytes, number: int, start: int, end: int) -> tuple[Rectangle, ...]:
    """Return where characters ``[start, end)`` of a page's text stand on it, a rectangle for each line.

    Args:
        data: of the file.
        number: of the page, from 1.
        start: character of the page's text.
        end: after the last one.

    Returns:
        (left, top, right, bottom) as shares of the page's width and height, from the top left.

    Raises:
        DocumentError: there is no such page.
    """
    with _open_page(data, number) as page:
        textpage = page.get_textpage()
        bounded = textpage.get_text_bounded()
        _, sources = _clean(bounded)
        places = _number_characters(bounded, textpage.get_text_range())
        wanted = [places[source] for source in sources[start:end] if not bounded[source].isspace()]
        boxes = [textpage.get_charbox(place, loose=True) for place in wanted if place is not None]
        return tuple(merge_boxes(_to_shares(page, box) for box in boxes))


@contextlib.contextmanager
def _open_page(data: bytes, number: int) -> Iterator[Any]:
    try:
        pdf = pypdfium2.PdfDocument(data)
        try:
            if not 1 <= number <= len(pdf):
                raise DocumentError(f"no page {number}: it has {len(pdf)}")
            page = pdf[number - 1]
            try:
                yield page
            finally:
                page.close()
        finally:
            pdf.close()
    except pypdfium2.PdfiumError as error:
        raise DocumentError(f"broken PDF ({error})") from error


def _read_page(pdf: pypdfium2.PdfDocument, number: int) -> tuple[str, bool]:
    """The text of a page, from 0, and whether it is a scan: hardly any text, and a picture."""
    page = pdf[number]
    try:
        text, _ = _clean(page.get_textpage().get_text_bounded())
        few = len(text) < _FEW_CHARACTERS
        is_scan = few and next(page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3), None) is not None
    finally:
        page.close()
    return text, is_scan


def _clean(bounded: str) -> tuple[str, list[int]]:
    """A page's text as it is indexed, and which of PDFium's characters each of its characters is.

    PDFium ends lines with CRLF and marks a hyphen at a line's end with U+FFFE or U+0002.
    """
    pieces: list[str] = []
    sources: list[int] = []
    done = 0
    for special in _SPECIAL.finditer(bounded):
        pieces.append(bounded[done : special.start()])
        sources += range(done, special.start())
        replacement = _CLEANED[special[0]]
        pieces.append(replacement)
        sources += range(special.end() - len(replacement), special.end())
        done = special.end()
    pieces.append(bounded[done:])
    sources += range(done, len(bounded))
    text = "".join(pieces)
    first = len(text) - len(text.lstrip())
    stripped = text.strip()
    return stripped, sources[first : first + len(stripped)]


def _number_characters(bounded: str, characters: str) -> list[int | None]:
    """PDFium's number of each character of a page's bounded text; None for one that it does not have.

    The bounded text lacks what lies outside the page's box. Beyond U+FFFF a character has two numbers.
    """
    numbers = list(accumulate((1 + (character > "\uffff") for character in characters), initial=0))
    if bounded == characters:
        return list(numbers[:-1])
    found: list[int | None] = [None] * len(bounded)
    for block in SequenceMatcher(None, bounded, characters, autojunk=False).get_matching_blocks():
        found[block.a : block.a + block.size] = numbers[block.b : block.b + block.size]
    return found


def merge_boxes(boxes: Iterable[Rectangle]) -> list[Rectangle]:
    """Merge the boxes of characters into one for each line.

    Args:
        boxes: (left, top, right, bottom), in reading order.
    """
    merged: list[Rectangle] = []
    for box in boxes:
        if merged and _continues_line(merged[-1], box):
            last = merged[-1]
            merged[-1] = min(last[0], box[0]), min(last[1], box[1]), max(last[2], box[2]), max(last[3], box[3])
        else:
            merged.append(box)
    return merged


def _continues_line(line: Rectangle, box: Rectangle) -> bool:
    """Whether a box stands beside or behind the line before it: they share half of the lower one's height."""
    height = min(line[3] - line[1], box[3] - box[1])
    common = min(line[3], box[3]) - max(line[1], box[1])
    return common >= height / 2 and box[2] > line[0]


def _to_shares(page: Any, box: Rectangle) -> Rectangle:
    """(left, top, right, bottom) on the page as it is shown, of a box (left, bottom, right, top) in its own units."""
    corners = []
    for x, y in ((box[0], box[1]), (box[2], box[3])):
        across, down = ctypes.c_int(), ctypes.c_int()
        raw.FPDF_PageToDevice(page, 0, 0, _UNITS, _UNITS, 0, x, y, across, down)
        corners.append((across.value / _UNITS, down.value / _UNITS))
    (x0, y0), (x1, y1) = corners
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)
