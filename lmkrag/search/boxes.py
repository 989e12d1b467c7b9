"""Where results stand on the pages of their files."""

from dataclasses import replace

from lmkrag.errors import LmkragError
from lmkrag.formats.pages import Pages
from lmkrag.index.searchable import Searchable
from lmkrag.results import PageBox, SpanList
from lmkrag.search.selection import describe_row


def find_boxes(snapshot: Searchable, spans: SpanList, pages: Pages) -> SpanList:
    """Return results with boxes, read from files that are as they were indexed; a note tells which are not."""
    marked, notes = [], list(spans.notes)
    for span in spans:
        row = snapshot.find_document(span.doc_id)
        if row is not None and row.page_starts and not span.stale:
            info = replace(describe_row(row), path=span.path)  # it may have moved
            try:
                places = pages.find_places(info, span.start, span.end)
                boxes = (PageBox(page, *map(_limit, box)) for page, rectangles in places for box in rectangles)
                span = replace(span, boxes=tuple(boxes))
            except LmkragError as error:
                notes.append(f"{span.place}: no boxes ({error})")
        marked.append(span)
    return SpanList(marked, notes)


def _limit(share: float) -> float:
    return round(min(1.0, max(0.0, share)), 5)
