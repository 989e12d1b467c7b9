"""PDF, by pypdfium2 (PDFium): the text layer, page by page; pages as images, and where text stands on them."""

import contextlib
import ctypes
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate
from typing import Any

import pypdfium2
import pypdfium2.raw as raw

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded, join_pages
from lmkrag.formats.columns import Box, mark_columns
from lmkrag.formats.ocr import is_installed

_SPECIAL = re.compile("\r\n|[\ufffe\x02\0]")
_CLEANED = {"\r\n": "\n", "\ufffe": "-", "\x02": "-", "\0": ""}
_MAGIC = b"%PDF"
_FEW_CHARACTERS = 200  # of a page that may be a scan with a stamp or a page number
_LINE = re.compile(r"[^\n]*\S[^\n]*")
_PAGE_NUMBER = re.compile(r"^\d+\b|\b\d+(?: (?:of|/) \d+)?$")
_EDGE = 2  # lines at the top and at the bottom of a page, at most, that may be headers and footers
_FEWEST_RUNNING, _RUNNING_SHARE = 3, 0.4  # pages that share one, and share of all: left and right pages may differ
_UNITS = 100_000  # that a page is divided into, either way


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
    text, starts = join_pages(blank_running_lines([page for page, _ in contents]))
    scanned = tuple(number for number, (_, is_scan) in enumerate(contents, 1) if is_scan)
    if not text.strip() and not (scanned and is_installed()):
        if not scanned:
            raise DocumentError("PDF without text")
        pages = f"{len(scanned)} scanned page{'s' * (len(scanned) != 1)}"
        raise DocumentError(f"{pages} without a text layer: pip install 'lmkrag[ocr]' reads them", lasting=False)
    meta = {key.lower(): metadata[key] for key in ("Author", "Subject", "Keywords") if key in metadata}
    return Loaded(text, "pdf", metadata.get("Title", ""), starts, meta, scanned=scanned)


def blank_running_lines(pages: Sequence[str]) -> list[str]:
    """Return the texts of pages with spaces for the headers and footers that most of them share, page numbers aside.

    Characters keep their places, so that they are still found on the page.
    """
    edges = [_find_edges(page) for page in pages]
    counts = Counter(key for found in edges for key in found)
    least = max(_FEWEST_RUNNING, _RUNNING_SHARE * len(pages))
    blanked = []
    for page, found in zip(pages, edges, strict=True):
        for key, (start, end) in found.items():
            if counts[key] >= least:
                page = page[:start] + " " * (end - start) + page[end:]
        blanked.append(page)
    return blanked


def _find_edges(page: str) -> dict[tuple[bool, str], tuple[int, int]]:
    """Where the first and last lines of a page stand, by whether they are first ones and their words.

    Of words, page numbers are left out: numbers at either end of a line.
    """
    lines = [match.span() for match in _LINE.finditer(page)]
    edge = min(_EDGE, len(lines) // 4)
    found = {}
    for number, (start, end) in enumerate(lines):
        if not edge <= number < len(lines) - edge:
            words = " ".join(page[start:end].lower().split())
            found[number < edge, _PAGE_NUMBER.sub("#", words)] = start, end
    return found


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
        from lmkrag.formats.ocr import open_picture

        return open_picture(data, number)
    with _open_page(data, number) as page:
        return page.render(scale=scale).to_pil()


def find_rectangles(data: bytes, number: int, start: int, end: int) -> tuple[Box, ...]:
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
        found = _PageText(page)
        wanted = (found.box(place) for place in range(start, end) if not found.text[place : place + 1].isspace())
        return tuple(merge_boxes(_to_shares(page, box) for box in wanted if box is not None))


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
        text = _PageText(page).text
        few = len(text) < _FEW_CHARACTERS
        is_scan = few and next(page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3), None) is not None
    finally:
        page.close()
    return text, is_scan


class _PageText:
    """The text of a page as it is indexed, and where its characters stand on the page."""

    def __init__(self, page: Any) -> None:
        self._textpage = page.get_textpage()
        self._bounded = self._textpage.get_text_bounded()
        self.text, self._sources = _clean(self._bounded)
        self.text, self._sources = mark_columns(self.text, self._sources, self.box)

    @cached_property
    def _numbers(self) -> list[int | None]:
        return _number_characters(self._bounded, self._textpage.get_text_range())

    def box(self, character: int) -> Box | None:
        """Return the box of a character (left, bottom, right, top) in points; None if it has none."""
        if not 0 <= character < len(self._sources):
            return None
        number = self._numbers[self._sources[character]]
        return None if number is None else self._textpage.get_charbox(number, loose=True)


def _clean(bounded: str) -> tuple[str, Sequence[int]]:
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


def merge_boxes(boxes: Iterable[Box]) -> list[Box]:
    """Merge the boxes of characters into one for each line.

    Args:
        boxes: (left, top, right, bottom), in reading order.
    """
    merged: list[Box] = []
    for box in boxes:
        if merged and _continues_line(merged[-1], box):
            last = merged[-1]
            merged[-1] = min(last[0], box[0]), min(last[1], box[1]), max(last[2], box[2]), max(last[3], box[3])
        else:
            merged.append(box)
    return merged


def _continues_line(line: Box, box: Box) -> bool:
    """Whether a box stands beside or behind the line before it: they share half of the lower one's height."""
    height = min(line[3] - line[1], box[3] - box[1])
    common = min(line[3], box[3]) - max(line[1], box[1])
    return common >= height / 2 and box[2] > line[0]


def _to_shares(page: Any, box: Box) -> Box:
    """(left, top, right, bottom) on the page as it is shown, of a box (left, bottom, right, top) in its own units."""
    corners = []
    for x, y in ((box[0], box[1]), (box[2], box[3])):
        across, down = ctypes.c_int(), ctypes.c_int()
        raw.FPDF_PageToDevice(page, 0, 0, _UNITS, _UNITS, 0, x, y, across, down)
        corners.append((across.value / _UNITS, down.value / _UNITS))
    (x0, y0), (x1, y1) = corners
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)
