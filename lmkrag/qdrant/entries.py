"""What an entry of the log says, as bytes: documents with their words, documents removed, an encoder."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from lmkrag.errors import IndexCorrupt
from lmkrag.index import codec
from lmkrag.index.files import Tables
from lmkrag.index.staged import SentenceTable, Staged, WindowTable
from lmkrag.specs import EncoderSpec
from lmkrag.system import FileStamp
from lmkrag.types import Document

_DETAILS = ("doc_id", "path", "title", "kind", "page_starts", "meta", "fingerprint")  # of a document, beside its text


UploadedRows = tuple[int, int, Tables, Tables]  # the first point and the number of some rows; words and structure


class Entry(NamedTuple):
    """An entry of the log. ``segments`` in order are the sentences of ``staged`` in order."""

    staged: Sequence[Staged] = ()
    segments: Sequence[UploadedRows] = ()
    removed: Sequence[str] = ()
    encoder: EncoderSpec | None = None  # from now on

    def pack(self) -> bytes:
        """Return its bytes. Raises UsageError: it is larger than 1 GiB."""
        staged = [_describe(item) for item in self.staged]
        segments = [(*part[:2], *map(_encode, part[2:])) for part in self.segments]
        encoder = self.encoder and asdict(self.encoder)
        content = json.dumps([staged, segments, self.removed, encoder], ensure_ascii=False)
        return codec.pack(content.encode("utf-8", "surrogatepass"), "entry")

    @classmethod
    def unpack(cls, data: bytes) -> "Entry":
        """Return the entry that :meth:`pack` wrote. Raises IndexCorrupt: it is damaged."""
        content = codec.unpack(data, "entry").decode("utf-8", "surrogatepass")
        try:
            staged, segments, removed, encoder = json.loads(content)
            parts = [(first, rows, _decode(words), _decode(roles)) for first, rows, words, roles in segments]
            return cls([_read_staged(*item) for item in staged], parts, removed, encoder and EncoderSpec(**encoder))
        except (ValueError, TypeError) as error:
            raise IndexCorrupt(f"an entry of the log on Qdrant can't be read ({error}): upgrade lmkrag") from error


def _describe(item: Staged) -> list[Any]:
    sentences, windows = item.sentences, item.windows
    arrays = (array.tolist() for array in (sentences.ends, sentences.kinds, windows.hashes, windows.ordinals))
    details = {name: getattr(item.document, name) for name in _DETAILS}
    return [details, item.text[0 : len(item.text)], item.root, item.stamp, *arrays]


def _read_staged(details: Mapping[str, Any], text: str, root: str, stamp: Sequence[int], *arrays: Any) -> Staged:
    sentences, windows = SentenceTable(*arrays[:2]), WindowTable(*arrays[2:])
    return Staged(Document(text=text, **details), text, sentences, root, FileStamp(*stamp), windows)


def _encode(tables: Tables) -> dict[str, Any]:
    return {name: (array.dtype.str, base64.b64encode(array.tobytes()).decode()) for name, array in tables.items()}


def _decode(tables: Mapping[str, Any]) -> Tables:
    return {name: np.frombuffer(base64.b64decode(data), dtype) for name, (dtype, data) in tables.items()}
