"""PDF, by pypdfium2 (PDFium): the text layer, page by page."""

import pypdfium2

from lmkrag.corpus.formats.base import Loaded
from lmkrag.errors import DocumentError

_GAP = "\n\n"


def read(data: bytes, name: str) -> Loaded:
    """Read a PDF: the text of its pages, and where each page starts in it."""
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise DocumentError("encrypted PDF: it needs a password") from error
        raise DocumentError(f"broken PDF ({error})") from error
    try:
        pages = [_page_text(pdf, number) for number in range(len(pdf))]
        facts = pdf.get_metadata_dict(skip_empty=True)
    except pypdfium2.PdfiumError as error:
        raise DocumentError(f"broken PDF ({error})") from error
    finally:
        pdf.close()
    starts, position = [], 0
    for page in pages:
        starts.append(position)
        position += len(page) + len(_GAP)
    text = _GAP.join(pages)
    if not text.strip():
        raise DocumentError("PDF without a text layer: scanned pages need OCR first")
    meta = {key.lower(): facts[key] for key in ("Author", "Subject", "Keywords") if key in facts}
    return Loaded(text, "pdf", facts.get("Title", ""), tuple(starts), meta)


def _page_text(pdf: pypdfium2.PdfDocument, number: int) -> str:
    page = pdf[number]
    try:
        text: str = page.get_textpage().get_text_bounded()
    finally:
        page.close()
    # PDFium ends lines with CRLF and marks a hyphen at a line's end with U+FFFE or U+0002
    return text.replace("\r\n", "\n").replace("\ufffe", "-").replace("\x02", "-").replace("\0", "").strip()
