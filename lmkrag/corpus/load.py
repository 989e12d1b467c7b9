"""Turn a file into a ``Document``: one reader a format, chosen by the file's name."""

import hashlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from lmkrag.corpus.formats.base import Loaded
from lmkrag.errors import DocumentError
from lmkrag.types import Document

_READERS = {
    "html": (("read", (".html", ".htm", ".xhtml")),),
    "epub": (("read", (".epub",)),),
    "pdf": (("read", (".pdf",)),),
    "docx": (("read", (".docx",)),),
    "notebook": (("read", (".ipynb",)),),
    "tabular": (
        ("read_csv", (".csv", ".tsv")),
        ("read_json", (".json",)),
        ("read_json_lines", (".jsonl", ".ndjson")),
    ),
}
_BY_SUFFIX = {
    suffix: (module, function)
    for module, functions in _READERS.items()
    for function, suffixes in functions
    for suffix in suffixes
}

_LONG = 4 << 20  # bytes
_NOT_TEXT = frozenset(
    """.png .jpg .jpeg .gif .bmp .ico .webp .tif .tiff .heic .psd .mp3 .wav .flac .ogg .m4a .mp4 .mov .avi .mkv
    .webm .zip .gz .bz2 .xz .zst .7z .rar .tar .tgz .whl .jar .exe .dll .so .dylib .a .o .obj .class .pyc .pyo
    .bin .dat .iso .img .dmg .deb .rpm .msi .apk .ttf .otf .woff .woff2 .eot .sqlite .sqlite3 .db .parquet
    .arrow .feather .npy .npz .pt .pth .onnx .safetensors .pkl .faiss .doc .xls .xlsx .ppt .pptx .odt .ods .odp
    .mobi""".split()
)


def load_document(path: Path, doc_id: str) -> Document:
    """Read one file.

    Args:
        path: a regular file.
        doc_id: what the document is called.

    Raises:
        DocumentError: it can't be read, with the reason in one line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DocumentError(f"can't be read ({error.strerror or error})") from error
    return load_bytes(data, path.name, doc_id=doc_id, path=str(path))


def load_bytes(data: bytes, name: str, *, doc_id: str, path: str) -> Document:
    """Read a file's bytes; ``name`` ends in the suffix that tells the format.

    Raises:
        DocumentError: empty, binary, broken, encrypted or of a format that is not read.
    """
    if not data.strip():
        raise DocumentError("empty file")
    suffix = Path(name).suffix.lower()
    if suffix in _NOT_TEXT:
        raise DocumentError(f"not a format that is read ({suffix})")
    try:
        loaded = _reader(suffix)(data, name)
    except DocumentError:
        raise
    except MemoryError as error:
        raise DocumentError("needs more memory than it may use: skipped") from error
    except Exception as error:  # a parser's own bug must cost one file, not the run
        raise DocumentError(f"can't be parsed ({type(error).__name__})") from error
    if not loaded.text.strip():
        raise DocumentError("no text in it")
    return Document(
        doc_id=doc_id,
        path=path,
        text=loaded.text,
        title=loaded.title or Path(name).stem,
        kind=loaded.kind,
        page_starts=loaded.page_starts,
        meta=loaded.meta,
        fingerprint=fingerprint(data),
    )


def fingerprint(data: bytes) -> str:
    """Return the hash by which a changed file is told from a touched one."""
    return hashlib.sha256(data).hexdigest()


def is_plain(path: Path) -> bool:
    """Return whether a file's characters are its text, so that there is nothing to parse."""
    return path.suffix.lower() not in _BY_SUFFIX


def is_long(path: Path, size: int) -> bool:
    """Return whether a file of ``size`` bytes is plain text that had better stay on the disk."""
    return size > _LONG and is_plain(path) and path.suffix.lower() not in _NOT_TEXT


def _reader(suffix: str) -> Callable[[bytes, str], Loaded]:
    module, function = _BY_SUFFIX.get(suffix, ("text", "read"))
    reader: Callable[[bytes, str], Loaded] = getattr(import_module(f"lmkrag.corpus.formats.{module}"), function)
    return reader
