"""What an entry of the log says, as bytes: documents and their words, files that were seen, an encoder."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, NamedTuple

import numpy as np

from lmkrag.errors import IndexCorrupt
from lmkrag.index import codec
from lmkrag.index.catalog import SkippedFile
from lmkrag.index.files import Tables
from lmkrag.index.staged import SentenceTable, Staged, WindowTable
from lmkrag.specs import EncoderSpec
from lmkrag.system import FileStamp
from lmkrag.types import Document

_DETAILS = ("doc_id", "path", "title", "kind", "page_starts", "meta", "fingerprint")  # of a document, beside its text


class UploadedRows(NamedTuple):
    """Rows of a segment whose vectors are points on Qdrant, with ids from ``first`` on."""

    first: int
    rows: int
    words: Tables
    structure: Tables


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the log. ``segments`` in order are the sentences of ``staged`` in order."""

    staged: Sequence[Staged] = ()
    segments: Sequence[UploadedRows] = ()
    removed: Sequence[str] = ()
    touched: Sequence[tuple[str, FileStamp]] = ()  # by ``doc_id``
    skipped: Sequence[SkippedFile] = ()
    forgotten: Sequence[str] = ()
    encoder: EncoderSpec | None = None

    @property
    def notes_files(self) -> bool:
        """Whether it is about files and not about documents."""
        return bool(self.touched or self.skipped or self.forgotten)

    def pack(self) -> bytes:
        """Return its bytes. Raises UsageError: it is larger than 1 GiB."""
        content = {
            "staged": [_describe(item) for item in self.staged],
            "segments": [(*part[:2], *map(_encode, part[2:])) for part in self.segments],
            "removed": self.removed,
            "touched": self.touched,
            "skipped": [astuple(file) for file in self.skipped],
            "forgotten": self.forgotten,
            "encoder": self.encoder and asdict(self.encoder),
        }
        return codec.pack(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass"), "entry")

    @classmethod
    def unpack(cls, data: bytes) -> "Entry":
        """Return the entry that :meth:`pack` wrote. Raises IndexCorrupt: it is damaged."""
        try:
            content = json.loads(codec.unpack(data, "entry").decode("utf-8", "surrogatepass"))
            return cls(
                [_read_staged(item) for item in content["staged"]],
                [UploadedRows(*part[:2], *map(_decode, part[2:])) for part in content["segments"]],
                content["removed"],
                [(doc_id, FileStamp(*stamp)) for doc_id, stamp in content["touched"]],
                [SkippedFile(*values) for values in content["skipped"]],
                content["forgotten"],
                content["encoder"] and EncoderSpec(**content["encoder"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise IndexCorrupt(f"an entry of the log on Qdrant can't be read ({error}): upgrade lmkrag") from error


def _describe(item: Staged) -> list[Any]:
    sentences, windows = item.sentences, item.windows
    arrays = (array.tolist() for array in (sentences.ends, sentences.kinds, windows.hashes, windows.ordinals))
    details = [getattr(item.document, name) for name in _DETAILS]
    return [details, item.text[0 : len(item.text)], item.root, item.stamp, *arrays]


def _read_staged(values: Sequence[Any]) -> Staged:
    details, text, root, stamp, ends, kinds, hashes, ordinals = values
    document = Document(text=text, **dict(zip(_DETAILS, details, strict=True)))
    return Staged(document, text, SentenceTable(ends, kinds), root, FileStamp(*stamp), WindowTable(hashes, ordinals))


def _encode(tables: Tables) -> dict[str, Any]:
    return {name: (array.dtype.str, base64.b64encode(array.tobytes()).decode()) for name, array in tables.items()}


def _decode(tables: Mapping[str, Any]) -> Tables:
    return {name: np.frombuffer(base64.b64decode(data), dtype) for name, (dtype, data) in tables.items()}
