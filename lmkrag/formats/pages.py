"""Draw pages as images and find text on them, in the sandboxed process."""

import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lmkrag.errors import DocumentError, UsageError
from lmkrag.formats.columns import Box
from lmkrag.specs import ATTACHED_TO
from lmkrag.system.files import find_path
from lmkrag.types import DocumentInfo

if TYPE_CHECKING:
    from lmkrag.formats.isolated import IsolatedLoader

_SECONDS = 20.0
_MOST_PAGES = 20  # in one call; a passage is on one or two
SCALES = (0.25, 4.0)  # pixels to a point (1/72 inch), at least and at most
_DRAWN = ("pdf", "image")


class Pages:
    """Draws pages, one at a time, since PDFium is not thread-safe.

    State: the sandboxed process, started on demand.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._started: IsolatedLoader | None = None

    @property
    def _loader(self) -> "IsolatedLoader":
        from lmkrag.formats.isolated import IsolatedLoader

        self._started = self._started or IsolatedLoader(seconds=_SECONDS)
        return self._started

    def draw(
        self,
        info: DocumentInfo,
        page: int | None = None,
        span: tuple[int, int] | None = None,
        **how: Any,
    ) -> bytes:
        """Draw a page with characters outlined.

        Args:
            info: the document, whose file is a PDF or a picture.
            page: the page, from 1; by default the first that shows some of the characters.
            span: the characters ``[start, end)`` of the document to outline; None for none.
            how: further options of :func:`lmkrag.formats.pdf.render_page`.

        Returns:
            An image file, PNG by default.

        Raises:
            UsageError: there is no such page, or it shows none of the characters.
            DocumentError: the page can't be drawn, or its file has changed.
        """
        _check(info, page or 1, _DRAWN)
        places = [] if span is None else self.find_places(info, *span)
        number = page or next((place for place, rectangles in places if rectangles), 1)
        boxes = [box for place, rectangles in places if place == number for box in rectangles]
        if span is not None and not boxes:
            raise UsageError(
                f"{info.doc_id}: page {number} shows none of the characters {span[0]} to {span[1]}"
            )
        with self._guard:
            return self._loader.render_page(
                find_path(info.path), info.fingerprint, number, boxes=boxes, **how
            )

    def find_places(self, info: DocumentInfo, start: int, end: int) -> list[tuple[int, list[Box]]]:
        """Find where characters of a document stand on its pages.

        Args:
            info: the document, whose file is a PDF, a picture or a presentation.
            start: the first character of the document.
            end: the character after the last one.

        Returns:
            (page, boxes) of the first 20 pages that have some of the characters. Boxes are (left,
                top, right, bottom) as shares of the page, 0 to 1.

        Raises:
            UsageError: the document has no pages.
            DocumentError: a page can't be read, or the file has changed.
        """
        from lmkrag.formats.scans import SCANNED

        _check(info, 1, (*_DRAWN, "pptx"))
        borders = [*info.page_starts, info.characters]
        places: list[tuple[int, list[Box]]] = []
        for number, (first, stop) in enumerate(pairwise(borders), 1):
            low, high = max(start, first), min(end, stop)
            if low < high and len(places) < _MOST_PAGES:
                with self._guard:
                    scanned = number in info.meta.get(SCANNED, ())
                    find = self._loader.find_scanned if scanned else self._loader.find_rectangles
                    rectangles = find(
                        find_path(info.path), info.fingerprint, number, low - first, high - first
                    )
                places.append((number, rectangles))
        return places

    def close(self) -> None:
        """End the process; the next call starts a new one."""
        with self._guard:
            if self._started is not None:
                self._started.close()


def _check(info: DocumentInfo, number: int, kinds: Sequence[str]) -> None:
    """Raise an error unless pages of a document can be shown, and it has one of this number."""
    if not info.pages:
        raise UsageError(f"{info.doc_id} has no pages")
    if not 1 <= number <= info.pages:
        raise UsageError(f"{info.doc_id} has {info.pages} pages")
    if info.kind not in kinds:
        raise DocumentError(
            f"{info.doc_id}: pages of {info.kind} files can't be shown, only those of "
            "PDF and pictures"
        )
    if ATTACHED_TO in info.meta:
        raise DocumentError(f"{info.doc_id} is an attachment: only files have images of pages")
