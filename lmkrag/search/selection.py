"""Select the documents of a snapshot that match a filter."""

from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path, PurePath

import numpy as np

from lmkrag.errors import DocumentNotFound
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.live import Selection
from lmkrag.index.snapshot import Snapshot
from lmkrag.search.filters import (
    SPEAKER,
    Expression,
    Filter,
    Match,
    Test,
    asks_who_speaks,
    parse_filter,
    to_expression,
)
from lmkrag.search.messages import KINDS, list_messages
from lmkrag.system.files import is_local_path
from lmkrag.types import MAX_DOC_ID, Document, DocumentInfo, check_doc_id, check_limit
from lmkrag.types.arrays import Mask
from lmkrag.types.json_values import replace_surrogates

_REMEMBERED = 32  # filters
_MOST_FOLDERS = 20  # of a path whose end may be the id of a document


class FilterCache:
    """Caches the selections of the last filters, each in its newest snapshot. May be shared by
    threads.
    """

    def __init__(self) -> None:
        self._selections: dict[Expression, Selection] = {}  # replaced, never changed

    def select(
        self, snapshot: Snapshot, expression: Expression, *, names_folders: bool = True
    ) -> Selection:
        """Return the documents of a snapshot that match a filter. Raises UsageError: the filter
        can't be parsed.

        Without ``names_folders``, a filter can't find out where files lie, and neither can
        :func:`list_documents`.
        """
        known = self._selections.get(expression)
        if known is not None and known.documents is snapshot.documents:
            return known  # of the same state of the same index
        selection = _select(snapshot, expression, names_folders=names_folders)
        others = [item for item in self._selections.items() if item[0] != expression]
        self._selections = dict([*others[1 - _REMEMBERED :], (expression, selection)])
        return selection


def _select(snapshot: Snapshot, expression: Expression, *, names_folders: bool) -> Selection:
    """The documents that match a filter; their messages, if it asks who speaks in them."""
    match = snapshot.match_field if names_folders else _hide_folders(snapshot.match_field)
    keeps = parse_filter(expression)
    if not asks_who_speaks(expression):
        return Selection(snapshot.documents, np.flatnonzero(keeps(match)))
    parts = list(_divide(snapshot))
    owners, first, stop = np.array([part[:3] for part in parts], np.int64).reshape(-1, 3).T

    def match_part(key: str, test: Test) -> Mask:
        if key == SPEAKER:
            return np.array([test(speaker) for *_, speaker in parts], bool)
        return match(key, test)[owners]

    mask = keeps(match_part)
    return Selection(snapshot.documents, np.unique(owners[mask]), (first[mask], stop[mask]))


def _divide(snapshot: Snapshot) -> Iterator[tuple[int, int, int, str | None]]:
    """Yield the messages of all documents, and the documents without: the document's position, the
    first sentence, that after the last, and who speaks, None in a document without messages.
    """
    documents = snapshot.documents
    have_messages = snapshot.match_field("kind", lambda kind: kind in KINDS)
    for position, (key, first, stop) in enumerate(
        zip(documents.keys, documents.first, documents.stop, strict=True)
    ):
        messages = (
            list_messages(snapshot.view_document(int(key))) if have_messages[position] else []
        )
        starts = [first, *(first + message.first for message in messages), stop]
        speakers = [None, *(message.speaker or None for message in messages)]
        for (start, end), speaker in zip(pairwise(starts), speakers, strict=True):
            if start < end:
                yield position, start, end, speaker


def _hide_folders(match: Match) -> Match:
    """Return a function for the conditions of a filter, which know ids instead of paths of this
    machine.
    """

    def match_ids(key: str, test: Test) -> Mask:
        if key in ("path", "root"):
            return match(key, lambda field: not is_local_path(field) and test(field))
        return match(key, test)

    return match_ids


def list_documents(
    snapshot: Snapshot,
    condition: Filter | None,
    after: str = "",
    limit: int | None = None,
    *,
    names_folders: bool = True,
) -> list[DocumentInfo]:
    """Return the documents that match a filter, or all, by ``doc_id``: at most ``limit`` that
    follow ``after``.
    """
    check_limit(limit)
    expression, matching = to_expression(condition), None
    if expression is not None:
        selection = _select(snapshot, expression, names_folders=names_folders)
        matching = snapshot.documents.keys[selection.positions]
    return [describe_row(row) for row in snapshot.all_documents(after, limit, matching)]


def find_document(snapshot: Snapshot, doc_id: str, index: Path | str) -> DocumentRow:
    """Return the row of a document. Raises DocumentNotFound: there is none; the message names one
    with a similar id.
    """
    row = snapshot.find_document(replace_surrogates(check_doc_id(doc_id)))
    if row is None:
        near = _find_by_path(snapshot, doc_id) or get_close_matches(
            doc_id[:MAX_DOC_ID], snapshot.nearby_ids(doc_id), 1
        )
        raise DocumentNotFound(doc_id, str(index), *near)
    return row


def _find_by_path(snapshot: Snapshot, doc_id: str) -> list[str]:
    """The id of the document whose file a path names, in a list: ids are the ends of paths."""
    folders = PurePath(doc_id).parts[-_MOST_FOLDERS:]
    ends = ("/".join(folders[start:]) for start in range(1, len(folders)))
    return [end for end in ends if snapshot.find_document(replace_surrogates(end))][:1]


def describe_row(row: DocumentRow) -> DocumentInfo:
    """Return the public description of a document in the catalog."""
    same = (
        "doc_id",
        "path",
        "title",
        "kind",
        "root",
        "meta",
        "sentences",
        "page_starts",
        "fingerprint",
    )
    changed = row.mtime_ns and datetime.fromtimestamp(row.mtime_ns / 1e9, UTC)
    return DocumentInfo(
        **{name: getattr(row, name) for name in same},
        characters=row.length,
        pages=len(row.page_starts),
        modified=changed.isoformat(timespec="seconds") if changed else "",
    )


def to_document(row: DocumentRow, text: str) -> Document:
    """Return a document of the catalog with its text."""
    return Document(
        row.doc_id,
        row.path,
        text,
        row.title,
        row.kind,
        row.page_starts,
        row.meta,
        row.fingerprint,
    )
