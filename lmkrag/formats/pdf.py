"""PDF, by pypdfium2 (PDFium): the text layer, page by page; pages as images, and where text stands
on them.
"""

import contextlib
import ctypes
import io
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pypdfium2
import pypdfium2.raw as raw

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Attachment, Loaded, Parts, describe_properties, join_pages
from lmkrag.formats.columns import Box, Rectangle
from lmkrag.formats.ocr import is_installed
from lmkrag.formats.pdf_text import PageText
from lmkrag.formats.running_lines import blank_running_lines

_MAGIC = b"%PDF"
_FEW_CHARACTERS = 200  # of a page that may be a scan with a stamp
_COVERED = 0.5  # share of such a page under the picture
_OUTLINE = (220, 20, 60)  # colour
_LINES = 500  # widths of the outline on the longer side of a page
_UNITS = 100_000  # that a page is divided into, either way


def read(data: bytes, name: str) -> Loaded:
    """Read a PDF: the text of its pages, and where each page starts in it.

    Running headers and footers are blanked. Pages without a readable text layer are left to OCR.

    Args:
        data: the bytes of the file.
        name: its name.

    Raises:
        DocumentError: it is broken or encrypted, or has only pages that OCR reads, which is not
            installed.
    """
    parts = Parts()
    with _open(data) as pdf:
        contents = [
            parts.read(f"page {number + 1}", _read_page, pdf, number) or ("", "", "")
            for number in range(len(pdf))
        ]
        metadata = pdf.get_metadata_dict(skip_empty=True)
        attached = [
            parts.read(f"attachment {number + 1}", _read_attachment, pdf, number)
            for number in range(pdf.count_attachments())
        ]
    # Join the pages; those that only OCR can read are empty so far.
    bodies = blank_running_lines([body for body, _, _ in contents])
    links = (addresses for _, addresses, _ in contents)
    text, starts = join_pages([*map(operator.add, bodies, links)])
    scanned = tuple(number for number, (*_, fault) in enumerate(contents, 1) if fault)
    if scanned and not text.strip() and not is_installed():
        faults = " or ".join(sorted({fault for *_, fault in contents if fault}))
        pages = f"{len(scanned)} page{'' if len(scanned) == 1 else 's'} {faults}"
        raise DocumentError(f"{pages}: pip install 'lmkrag[ocr]' reads them", lasting=False)
    named = ("Author", "Subject", "Keywords")
    meta = {key.lower(): metadata[key] for key in named if key in metadata}
    meta |= describe_properties("", metadata.get("ModDate") or metadata.get("CreationDate"))
    attachments = tuple(filter(None, attached))
    return Loaded(
        text, "pdf", metadata.get("Title", ""), starts, meta, attachments, scanned, parts.left_out
    )


def _read_attachment(pdf: pypdfium2.PdfDocument, number: int) -> Attachment:
    """Return an attachment, from 0; its data are empty if it has none."""
    attachment = pdf.get_attachment(number)
    data = b""
    with contextlib.suppress(pypdfium2.PdfiumError):
        data = bytes(attachment.get_data())
    return Attachment(attachment.get_name(), data)


def render_page(
    data: bytes,
    number: int,
    scale: float = 2,
    boxes: Sequence[Box] = (),
    form: str = "PNG",
    longest: int | None = None,
) -> bytes:
    """Draw a page with boxes outlined, as an image file.

    Args:
        data: the bytes of a PDF or a picture.
        number: the page, from 1.
        scale: pixels to a point (1/72 inch).
        boxes: (left, top, right, bottom) as shares of the page, 0 to 1.
        form: ``PNG``, ``JPEG`` or ``WEBP``.
        longest: the most pixels of the longer side; None for no limit.

    Raises:
        DocumentError: the page can't be drawn.
    """
    from PIL import ImageDraw

    image = draw_page(data, number, scale).convert("RGB")
    if longest is not None:
        image.thumbnail((longest, longest))
    drawing, line = ImageDraw.Draw(image), max(2, max(image.size) // _LINES)
    for left, top, right, bottom in boxes:
        upper_left = left * image.width - line, top * image.height - line
        lower_right = right * image.width + line, bottom * image.height + line
        drawing.rectangle((upper_left, lower_right), outline=_OUTLINE, width=line)
    packed = io.BytesIO()
    image.save(packed, form, quality=80)
    return packed.getvalue()


def draw_page(data: bytes, number: int, scale: float) -> Any:
    """Return a page of a PDF, or a picture, as an image of Pillow.

    Args:
        data: the bytes of a PDF or a picture.
        number: the page, from 1.
        scale: pixels to a point (1/72 inch), of a PDF.

    Raises:
        DocumentError: the page can't be drawn.
    """
    if _MAGIC not in data[:1024]:
        from lmkrag.formats.ocr import open_picture

        return open_picture(data, number)
    with _open_page(data, number) as page:
        return page.render(scale=scale).to_pil()


def find_rectangles(data: bytes, number: int, start: int, end: int) -> tuple[Box, ...]:
    """Return where the lines with some characters of a page stand.

    Args:
        data: the bytes of a PDF.
        number: the page, from 1.
        start: the first character of the page's text, from 0.
        end: the character after the last one.

    Returns:
        Boxes (left, top, right, bottom) as shares of the page as it is shown, 0 to 1.

    Raises:
        DocumentError: the page can't be read.
    """
    with _open_page(data, number) as page:
        content = PageText(page)
        shown = [
            place for place in range(start, end) if not content.text[place : place + 1].isspace()
        ]
        lines = merge_boxes(filter(None, map(content.box, shown)))  # before a page is turned
        return tuple(_to_shares(page, box) for box in lines)


@contextlib.contextmanager
def _open(data: bytes) -> Iterator[pypdfium2.PdfDocument]:
    try:
        with contextlib.closing(pypdfium2.PdfDocument(data)) as pdf:
            pdf.init_forms()  # the text of a page has their values
            yield pdf
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise DocumentError("encrypted PDF: it needs a password") from error
        raise DocumentError(f"broken PDF ({error})") from error


@contextlib.contextmanager
def _open_page(data: bytes, number: int) -> Iterator[Any]:
    with _open(data) as pdf:
        if not 1 <= number <= len(pdf):
            raise DocumentError(f"no page {number}: it has {len(pdf)}")
        with contextlib.closing(pdf[number - 1]) as page:
            yield page


def _read_page(pdf: pypdfium2.PdfDocument, number: int) -> tuple[str, str, str]:
    """Return the text of a page, from 0, the addresses after it, and why it needs OCR; the reason
    is empty if it does not.
    """
    with contextlib.closing(pdf[number]) as page:
        content = PageText(page)
        if content.is_garbage:
            return "", "", "with an unreadable text layer"
        body, addresses = content.text[: content.body_end], content.text[content.body_end :]
        is_scan = len(body) < _FEW_CHARACTERS and _is_scan(page, content)
        return body, addresses, "without a text layer" if is_scan else ""


def _is_scan(page: Any, content: PageText) -> bool:
    """Return whether a page is a picture with at most a stamp or a page number.

    A slide with few words is no scan.
    """
    width, height = page.get_size()
    pictures = [
        picture.get_bounds()
        for picture in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3)
    ]
    if not content.text or not pictures:
        return bool(pictures)
    covered = max((right - left) * (top - bottom) for left, bottom, right, top in pictures)
    return covered > _COVERED * width * height and not content.has_large_text()


def merge_boxes(boxes: Iterable[Rectangle]) -> list[Rectangle]:
    """Merge the rectangles of characters, in reading order, into one for each line."""
    merged: list[Rectangle] = []
    for box in boxes:
        last = merged[-1] if merged else box
        height = min(last.height, box.height)
        common = min(last.top, box.top) - max(last.bottom, box.bottom)
        is_beside = common >= height / 2 and box.right > last.left
        if merged and is_beside:
            lower = map(min, last[:2], box[:2])
            merged[-1] = Rectangle(*lower, *map(max, last[2:], box[2:]))
        else:
            merged.append(box)
    return merged


def _to_shares(page: Any, box: Rectangle) -> Box:
    """Return a rectangle in a page's own units as (left, top, right, bottom), shares of the page as
    shown.
    """
    corners = []
    for x, y in (box[:2], box[2:]):
        across, down = ctypes.c_int(), ctypes.c_int()
        raw.FPDF_PageToDevice(page, 0, 0, _UNITS, _UNITS, 0, x, y, across, down)
        corners.append((across.value / _UNITS, down.value / _UNITS))
    (x0, y0), (x1, y1) = corners
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)
