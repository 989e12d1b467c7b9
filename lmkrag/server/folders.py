"""Clients learn ids and places of documents, and no folder of the server: what leaves an index
passes here.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmkrag.readers.base import name_model
from lmkrag.results import Span, SpanList
from lmkrag.system.files import is_local_path
from lmkrag.types import DocumentInfo, IndexStatus


def hide_folders(value: Any, index: str) -> Any:
    """Return what a call of an engine returned, with the name of the index and ids instead of paths
    of this machine.

    A document that is in no file keeps its ``path``, such as the URL that it is from.
    """
    match value:
        case Span():
            return _hide_path(value)
        case DocumentInfo():
            return replace(_hide_path(value), root="")
        case IndexStatus():
            skipped = tuple(
                replace(file, path=_shorten(file.path, value.roots)) for file in value.skipped_files
            )
            return replace(
                value,
                path=index,
                roots={},
                encoder=name_model(value.encoder),
                skipped_files=skipped,
            )
        case SpanList():
            spans = [hide_folders(span, index) for span in value]
            return SpanList(spans, value.notes, confidence=value.confidence)
        case dict():
            return {key: hide_folders(item, index) for key, item in value.items()}
        case list() | tuple():
            items = [hide_folders(item, index) for item in value]
            kind = type(value)
            return kind(*items) if hasattr(value, "_fields") else kind(items)
    return value


def _hide_path(value: Span | DocumentInfo) -> Any:
    """The same with its id in place of the path of a file, also in the metadata, in which other
    frameworks repeat it.
    """
    if not is_local_path(value.path):
        return value
    meta = {key: value.doc_id if item == value.path else item for key, item in value.meta.items()}
    return replace(value, path=value.doc_id, meta=meta)


def _shorten(path: str, roots: Iterable[str]) -> str:
    """The path of a file below the folder that was indexed; only its name where that folder is
    unknown.
    """
    above = [root for root in roots if path.startswith(f"{root}/")]
    return path.removeprefix(max(above, key=len) + "/") if above else Path(path).name
