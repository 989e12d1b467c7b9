"""Fill the scanned pages of a document with the text that OCR reads on them, page by page.

Every page is read in the sandboxed process and cached on disk, so that an interrupted run can
resume.
"""

import json
import os
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from xxhash import xxh3_64_hexdigest

from lmkrag.errors import DocumentError, EmptyDocument, TookTooLong
from lmkrag.formats.base import join_pages, split_pages
from lmkrag.formats.columns import Box
from lmkrag.formats.ocr import name_models
from lmkrag.system.cache import cache_path, make_private
from lmkrag.types import Document

# the metadata with the numbers of pages that only OCR can read: no text, or unreadable
SCANNED = "scanned_pages"
# What OCR has read on a page: ``text``, ``places``, ``confidence``.
Page = dict[str, Any]
# Reads a page, from 1, by OCR.
ReadPage = Callable[[int], Page]


def fill_scans(document: Document, read_page: ReadPage) -> tuple[Document, dict[str, str]]:
    """Return a document with the text of its scanned pages.

    Args:
        document: a document whose metadata name its scanned pages.
        read_page: reads a page, from 1, by OCR.

    Returns:
        The document, whose metadata have ``ocr_confidence`` (0 to 1), and why pages are left out,
            by name.

    Raises:
        EmptyDocument: there is no text on the pages.
        DocumentError: OCR fails on this machine, takes too long, or can't read any page.
    """
    pages = split_pages(document.text, document.page_starts)
    letters = sure = 0.0
    left_out: dict[str, str] = {}
    for number in document.meta[SCANNED]:
        try:
            page = read_page(number)
        except DocumentError as error:
            if isinstance(error, TookTooLong) or not error.lasting or len(pages) == 1:
                raise
            left_out[f"page {number}"] = str(error)
            continue
        pages[number - 1] = page["text"]
        letters += len(page["text"])
        sure += len(page["text"]) * page["confidence"]
    text, starts = join_pages(pages)
    if not text.strip():
        reasons = [f"{page}: {why}" for page, why in left_out.items()]
        raise (
            DocumentError(reasons[0]) if reasons else EmptyDocument("no text on its scanned pages")
        )
    meta = {**document.meta, "ocr_confidence": round(sure / letters, 3) if letters else 0.0}
    return replace(document, text=text, page_starts=starts, meta=meta), left_out


def read_cached(fingerprint: str, number: int, read: Callable[[], Page]) -> Page:
    """Return the text of a page from the user's cache, or read it and cache it.

    Pages that other models or another version of this package have read are not used.

    Args:
        fingerprint: SHA-256 of the file.
        number: the page, from 1.
        read: reads the page by OCR.
    """
    name = f"{fingerprint}-{number}"
    path = cache_path("ocr", name_models(), fingerprint[:2], name)
    with suppress(OSError, ValueError):
        return _unpack(name, path.read_bytes())
    page = read()
    with suppress(OSError):  # the next call reads it again
        make_private(path.parent)
        scratch = path.with_suffix(".part")
        with open(scratch, "wb", opener=partial(os.open, mode=0o600)) as file:
            file.write(_pack(name, page))
        scratch.replace(path)
    return page


def _pack(name: str, page: Page) -> bytes:
    """A page as JSON, below a checksum of it and of its name."""
    data = json.dumps(page).encode()
    return _checksum(name, data) + b"\n" + data


def _unpack(name: str, packed: bytes) -> Page:
    """Return the page that :func:`_pack` packed.

    Raises:
        ValueError: the data are damaged, or of another page.
    """
    checksum, _, data = packed.partition(b"\n")
    if checksum != _checksum(name, data):
        raise ValueError("checksum")
    page: Page = json.loads(data)
    return page


def _checksum(name: str, data: bytes) -> bytes:
    return xxh3_64_hexdigest(name.encode() + b"\n" + data).encode()


def find_boxes(page: Page, start: int, end: int) -> list[Box]:
    """Return where characters stand on a page that OCR has read, line by line.

    Args:
        page: the page, with ``text`` and ``places``.
        start: the first character of the page's text, from 0.
        end: the character after the last one.

    Returns:
        Boxes (left, top, right, bottom) as shares of the page, cut to the characters.
    """
    boxes = []
    places = page["places"]
    first = bisect_left(places, start, key=lambda place: place[1])
    for low, high, (left, top, right, bottom) in places[first:]:
        if low >= end:
            break
        unit = (right - left) / max(1, high - low)
        begin, stop = max(start, low) - low, min(end, high) - low
        if begin < stop:
            boxes.append((left + begin * unit, top, left + stop * unit, bottom))
    return boxes
