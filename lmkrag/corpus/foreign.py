"""Documents that the loaders of LangChain and LlamaIndex made, as ours."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lmkrag.errors import UsageError
from lmkrag.types import Document

_SOURCES = ("source", "file_path", "url", "path", "file_name")


def is_foreign(value: object) -> bool:
    """True for a LangChain ``Document`` or a LlamaIndex ``Document`` or node, by its shape: neither is imported."""
    return _text_of(value) is not None


def from_foreign(values: Iterable[Any]) -> Iterator[Document]:
    """Convert documents of other frameworks; what their metadata says can be filtered by.

    A document is named by its source, and its page where it has one, else by the framework's id; several of one name
    get numbers.

    Raises:
        UsageError: one has neither a source nor an id.
    """
    used: dict[str, int] = {}
    for value in values:
        text = _text_of(value) or ""
        meta = {str(key): item for key, item in dict(getattr(value, "metadata", None) or {}).items() if _plain(item)}
        source = next((str(meta[name]) for name in _SOURCES if meta.get(name)), "")
        page = meta.get("page_label", meta.get("page"))
        identity = getattr(value, "id_", None) or getattr(value, "id", None)
        name = source + (f"#page={page}" if source and page is not None else "") or str(identity or "")
        if not name:
            raise UsageError("a document without a source and an id can't be indexed: set metadata['source'] or its id")
        used[name] = used.get(name, 0) + 1
        doc_id = name if used[name] == 1 else f"{name}#{used[name]}"
        yield Document(doc_id, source or doc_id, text, title=str(meta.get("title", "")), meta=meta)


def _text_of(value: object) -> str | None:
    if isinstance(value, Document) or not isinstance(getattr(value, "metadata", None), Mapping):
        return None
    for name in ("page_content", "text"):
        text = getattr(value, name, None)
        if isinstance(text, str):
            return text
    return None


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool)
