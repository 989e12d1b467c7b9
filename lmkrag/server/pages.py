"""Pages of PDF files as images, and where text stands on them: drawn by the limited process that reads such files."""

import threading
from itertools import pairwise
from pathlib import Path

from lmkrag.errors import DocumentError, UsageError
from lmkrag.formats.columns import Box
from lmkrag.formats.isolated import IsolatedLoader
from lmkrag.formats.scans import SCANNED
from lmkrag.specs import ATTACHED_TO
from lmkrag.types import DocumentInfo

_SECONDS = 20.0
_MOST_PAGES = 20  # in one call; a passage is on one or two
SCALES = (0.25, 4.0)  # pixels to a point (1/72 inch), at least and at most


class Pages:
    """Draws pages one at a time: PDFium serves one thread. State: the process that does it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._loader = IsolatedLoader(seconds=_SECONDS)

    def render(self, info: DocumentInfo, number: int, scale: float) -> bytes:
        """Return a page, from 1, as WebP. Raises UsageError: there is none. DocumentError: its file has changed."""
        _check(info, number)
        with self._guard:
            return self._loader.render_page(Path(info.path), info.fingerprint, number, scale)

    def find_places(self, info: DocumentInfo, start: int, end: int) -> list[tuple[int, list[Box]]]:
        """Return (page, rectangles) of characters, on the first pages with some. Raises UsageError, DocumentError."""
        _check(info, 1)
        borders = [*info.page_starts, info.characters]
        places: list[tuple[int, list[Box]]] = []
        for number, (first, stop) in enumerate(pairwise(borders), 1):
            low, high = max(start, first), min(end, stop)
            if low < high and len(places) < _MOST_PAGES:
                with self._guard:
                    scanned = number in info.meta.get(SCANNED, ())
                    find = self._loader.find_scanned if scanned else self._loader.find_rectangles
                    rectangles = find(Path(info.path), info.fingerprint, number, low - first, high - first)
                places.append((number, rectangles))
        return places

    def close(self) -> None:
        with self._guard:
            self._loader.close()


def _check(info: DocumentInfo, number: int) -> None:
    if not info.pages:
        raise UsageError(f"{info.doc_id} has no pages")
    if not 1 <= number <= info.pages:
        raise UsageError(f"{info.doc_id} has {info.pages} pages")
    if info.kind not in ("pdf", "image"):
        raise DocumentError(f"{info.doc_id} is not a PDF file or a picture: only those have images of pages")
    if ATTACHED_TO in info.meta:
        raise DocumentError(f"{info.doc_id} is an attachment: only files have images of pages")
