"""Plain texts, and documents that the loaders of LangChain and LlamaIndex made, as ours."""

import hashlib
from collections.abc import Mapping
from typing import Any

from lmkrag.types import Document

_SOURCES = ("source", "file_path", "url", "path", "file_name")


def is_foreign(value: object) -> bool:
    """True for a LangChain ``Document`` or a LlamaIndex ``Document`` or node, by its shape: neither is imported."""
    return _text_of(value) is not None


def from_foreign(value: Any) -> Document:
    """Convert a document of another framework; what its metadata says can be filtered by.

    It is named by the framework's own id, else by its source, page and a hash of its text, so that documents added in
    several calls never take each other's place and the same one added again is unchanged.
    """
    text = _text_of(value) or ""
    values = dict(getattr(value, "metadata", None) or {})
    meta = {str(key): item for key, item in values.items() if isinstance(item, str | int | float | bool)}
    source = next((str(meta[name]) for name in _SOURCES if meta.get(name)), "")
    own_id = getattr(value, "id_", None) or getattr(value, "id", None)
    if own_id:
        doc_id = str(own_id)
    else:
        page = meta.get("page_label", meta.get("page"))
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        doc_id = "#".join(part for part in (source, "" if page is None else f"page={page}", digest) if part)
    return Document(doc_id, source or doc_id, text, title=str(meta.get("title", "")), meta=meta)


def _text_of(value: object) -> str | None:
    if isinstance(value, Document) or not isinstance(getattr(value, "metadata", None), Mapping):
        return None
    for name in ("page_content", "text"):
        text = getattr(value, name, None)
        if isinstance(text, str):
            return text
    return None
