"""Compare the files of results with what was indexed, and find the boxes of results on their
pages.
"""

import os
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from lmkrag.errors import LmkragError
from lmkrag.evidence.passes import SearchContext
from lmkrag.index.catalog import DocumentRow, owner_of
from lmkrag.index.snapshot import Snapshot
from lmkrag.results import PageBox, SpanList
from lmkrag.search.selection import describe_row
from lmkrag.system.deadline import stop_if_late
from lmkrag.system.files import FileStamp, find_path, hash_file

_LOOKED_AT = 5_000  # files in which a moved file is looked for
_REMEMBERED = 10  # seconds for which the files of a folder are remembered
_NAMED = 3


def mark_stale(spans: SpanList, context: SearchContext) -> SpanList:
    """Mark the results whose files have changed or are gone, and say so in a note.

    The note has the command that updates the index; where the context has none it has no command,
    which would name folders.

    A file of the size and time that were indexed is not read. A file that was moved below its
    folder is found by its fingerprint, and the span gets its new path. Documents without a file, or
    from a folder that is not on this machine, are left as they are.
    """
    snapshot, index = context.snapshot, context.index_path
    # by doc_id: "changed", "gone" or "" if it was moved, and its path
    states: dict[str, tuple[str, str]] = {}
    sources = dict[str, None]()
    for doc_id in {span.doc_id: None for span in spans}:
        row = snapshot.find_document(doc_id)
        if row is not None and (owner := owner_of(row)) is not None:
            row = snapshot.find_document(owner)
        if row is not None and row.root and (state := _compare(row)) != ("", row.path):
            states[doc_id] = state
            sources[_find_source(snapshot, row)] = None
    if not states:
        return spans
    changed = ((span, *states.get(span.doc_id, (span.stale, span.path))) for span in spans)
    marked = [replace(span, stale=stale, path=path) for span, stale, path in changed]
    clauses = [
        f"{_name(doc_ids)} {verb} since indexing"
        for state, verb in (("changed", "changed"), ("gone", "disappeared"), ("", "moved"))
        if (doc_ids := [doc_id for doc_id, (current, _) in states.items() if current == state])
    ]
    note = ", ".join(clauses)
    if index is not None:
        command = ["lmkrag", "index", *sources, "--prune", "--index", str(index)]
        note += f"; to bring the index in step: {shlex.join(command)}"
    return SpanList(marked, [*spans.notes, note])


def find_boxes(spans: SpanList, context: SearchContext) -> SpanList:
    """Add boxes to the results whose files are as they were indexed, if they are asked for; a note
    says why a result has none.
    """
    if not context.request.boxes:
        return spans
    marked, notes = [], list(spans.notes)
    for span in spans:
        stop_if_late()
        row = context.snapshot.find_document(span.doc_id)
        if row is not None and row.page_starts and not span.stale:
            info = replace(describe_row(row), path=span.path)  # it may have moved
            try:
                places = context.pages.find_places(info, span.start, span.end)
                boxes = (
                    PageBox(page, *(round(min(1.0, max(0.0, share)), 5) for share in box))
                    for page, rectangles in places
                    for box in rectangles
                )
                span = replace(span, boxes=tuple(boxes))
            except LmkragError as error:
                notes.append(
                    f"{span.place}: no boxes ({str(error).replace(span.path, span.doc_id)})"
                )
        marked.append(span)
    return SpanList(marked, notes)


def _find_source(snapshot: Snapshot, row: DocumentRow) -> str:
    """The path to index again: the folder of a document, or its file if that was added alone."""
    of_folder = (1 for other in snapshot.all_documents() if other.root == row.root)
    return row.root if len(list(islice(of_folder, 2))) == 2 else row.path


def _name(doc_ids: Sequence[str]) -> str:
    more = f" and {len(doc_ids) - _NAMED} more" if len(doc_ids) > _NAMED else ""
    return ", ".join(doc_ids[:_NAMED]) + more


def _compare(row: DocumentRow) -> tuple[str, str]:
    """Whether the file of a document is ``changed`` or ``gone``, and its path."""
    path = find_path(row.path)
    try:
        stamp = FileStamp.of(path.stat())
    except (FileNotFoundError, NotADirectoryError):
        if not find_path(row.root).is_dir():
            return "", row.path
        moved = _find_moved(row)
        return ("", moved) if moved else ("gone", row.path)
    except OSError:  # it is unknown
        return "", row.path
    with suppress(OSError):
        if stamp == (row.size, row.mtime_ns) or (
            stamp.size == row.size and hash_file(path, stamp) == row.fingerprint
        ):
            return "", row.path
    return "changed", row.path


def _find_moved(row: DocumentRow) -> str:
    """The path of a file with the fingerprint of one that is gone, below the folder that was
    indexed, or nothing.
    """
    for path in _list_files(row.root, int(time.monotonic() / _REMEMBERED)).get(row.size, ()):
        with suppress(OSError):
            stamp = FileStamp.of(path.stat())
            if stamp.size == row.size and hash_file(path, stamp) == row.fingerprint:
                return str(path)
    return ""


@lru_cache(maxsize=8)
def _list_files(root: str, time_slot: int) -> Mapping[int, Sequence[Path]]:
    """The files of a folder by their sizes, cached until ``time_slot`` changes."""
    files: dict[int, list[Path]] = {}
    for path in islice(_walk(find_path(root)), _LOOKED_AT):
        with suppress(OSError):
            files.setdefault(path.stat().st_size, []).append(path)
    return files


def _walk(root: Path) -> Iterable[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(folder, name) for name in names)
