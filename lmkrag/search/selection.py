"""Select the documents of a snapshot that match a filter."""

from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from lmkrag.errors import DocumentNotFound
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.live import Selection
from lmkrag.index.snapshot import Snapshot
from lmkrag.search.filters import Expression, Filter, Match, Test, parse_filter, to_expression
from lmkrag.system.files import is_local_path
from lmkrag.types import MAX_DOC_ID, Document, DocumentInfo, check_doc_id, check_limit
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
        mask = parse_filter(expression)(_match(snapshot.match_field, names_folders))
        selection = Selection(snapshot.documents, np.flatnonzero(mask))
        others = [item for item in self._selections.items() if item[0] != expression]
        self._selections = dict([*others[1 - _REMEMBERED :], (expression, selection)])
        return selection


def _match(match: Match, names_folders: bool) -> Match:
    """Return a function for the conditions of a filter, which without ``names_folders`` know ids
    instead of paths.
    """
    if names_folders:
        return match
    return lambda key, test: match(key, _IdTest(test) if key in ("path", "root") else test)


class _IdTest:
    """The test of a path that no path of this machine passes."""

    def __init__(self, test: Test) -> None:
        self._test = test

    def __call__(self, field: Any) -> bool:
        return not is_local_path(field) and self._test(field)


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
    expression = to_expression(condition)
    if expression is None:
        return [describe_row(row) for row in snapshot.all_documents(after, limit)]
    mask = parse_filter(expression)(_match(snapshot.match_field, names_folders))
    return [
        describe_row(row)
        for row in snapshot.all_documents(after, limit, snapshot.documents.keys[mask])
    ]


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
    values = {name: getattr(row, name) for name in same}
    changed = row.mtime_ns and datetime.fromtimestamp(row.mtime_ns / 1e9, UTC)
    return DocumentInfo(
        **values,
        characters=row.length,
        pages=len(row.page_starts),
        modified=changed.isoformat(timespec="seconds") if changed else "",
    )


def to_document(row: DocumentRow, text: str) -> Document:
    """Return a document of the catalog with its text."""
    places = (row.kind, row.page_starts, row.meta)
    return Document(row.doc_id, row.path, text, row.title, *places, fingerprint=row.fingerprint)
