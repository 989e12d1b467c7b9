"""How values of the catalog are laid out as bytes, each under a checksum."""

import zlib

import numpy as np
from xxhash import xxh3_64_digest, xxh3_128

from lmkrag.errors import REPAIR, IndexCorrupt, UsageError
from lmkrag.specs import Text
from lmkrag.types.arrays import Bytes, Hashes, Ids

_CHECKSUM = 8  # bytes
_MAX_UNPACKED = 1 << 30  # bytes: the runs of a segment of a hundred million sentences are below it
_SLICE = 1 << 20  # characters in memory at a time


def checksum(key: str, data: bytes) -> bytes:
    """Return the XXH3 checksum (64 bits) of a packed value.

    Args:
        key: what the value is, such as ``text 12 4096``; a value in another's place has a wrong
            checksum.
        data: the bytes of the value.
    """
    return xxh3_64_digest(key.encode("utf-8", "surrogatepass") + b"\0" + data)


def pack(data: bytes, key: str) -> bytes:
    """Compress a value, and put a checksum before it that also covers its key.

    Args:
        data: the bytes of the value.
        key: what the value is, for the checksum and for messages.

    Raises:
        UsageError: the value has more than 2^30 bytes.
    """
    if len(data) > _MAX_UNPACKED:
        raise UsageError(
            f"{key}: {len(data):,} bytes are more than an index holds in one place "
            f"({_MAX_UNPACKED:,})"
        )
    body = zlib.compress(data, 6)
    return checksum(key, body) + body


def unpack(packed: bytes, key: str) -> bytes:
    """Return the value that :func:`pack` was given.

    Args:
        packed: a checksum and compressed bytes.
        key: what the value must be.

    Raises:
        IndexCorrupt: the value is damaged, or was packed for another key.
    """
    body = packed[_CHECKSUM:]
    if packed[:_CHECKSUM] != checksum(key, body):
        raise IndexCorrupt(f"the catalog is damaged at {key} (checksum); {REPAIR}")
    decompressor = zlib.decompressobj()
    try:
        data = decompressor.decompress(body, _MAX_UNPACKED)
    except zlib.error as error:
        raise IndexCorrupt(f"the catalog is damaged at {key} ({error}); {REPAIR}") from error
    if not decompressor.eof:
        raise IndexCorrupt(f"the catalog is damaged at {key} (it has no end); {REPAIR}")
    return data


def pack_text(text: str, document: int, start: int) -> bytes:
    """Encode a block of a document's text.

    Args:
        text: the characters of the block.
        document: row id of the document.
        start: offset of the block's first character.
    """
    return pack(text.encode("utf-8", "surrogatepass"), f"text {document} {start}")


def unpack_text(packed: bytes, document: int, start: int) -> str:
    """Return the text that :func:`pack_text` was given.

    Args:
        packed: the bytes.
        document: row id of the document.
        start: offset of the block's first character.

    Raises:
        IndexCorrupt: the bytes are damaged.
    """
    return unpack(packed, f"text {document} {start}").decode("utf-8", "surrogatepass")


def pack_sentences(starts: Ids, ends: Ids, kinds: Bytes, document: int, first: int) -> bytes:
    """Encode a block of a document's sentences.

    Args:
        starts: ``[n]`` int64, offsets of their first characters; each is the end before it.
        ends: ``[n]`` int64, offsets of the characters after them.
        kinds: ``[n]`` uint8, positions in ``SENTENCE_KINDS``.
        document: row id of the document.
        first: ordinal of the first sentence.
    """
    data = (
        starts[:1].astype("<i8").tobytes()
        + (ends - starts).astype("<i4").tobytes()
        + kinds.tobytes()
    )
    return pack(data, f"sentences {document} {first}")


def unpack_sentences(packed: bytes, document: int, first: int) -> tuple[Ids, Bytes]:
    """Return a block of sentences that :func:`pack_sentences` encoded.

    Args:
        packed: the bytes.
        document: row id of the document.
        first: ordinal of the first sentence.

    Returns:
        Borders ``[n + 1]`` int64, offsets where sentences begin and the last one ends, and kinds
            ``[n]`` uint8.

    Raises:
        IndexCorrupt: the bytes are damaged.
    """
    data = unpack(packed, f"sentences {document} {first}")
    count = (len(data) - 8) // 5
    start = np.frombuffer(data, "<i8", 1)
    ends = start + np.cumsum(np.frombuffer(data, "<i4", count, 8), dtype=np.int64)
    return np.concatenate([start, ends]), np.frombuffer(data, np.uint8, count, 8 + 4 * count)


def pack_windows(hashes: Hashes, ordinals: Ids, document: int) -> bytes:
    """Encode the windows of a document.

    Args:
        hashes: ``[n]`` uint64, the hash of each window.
        ordinals: ``[n]`` int64, the first sentence that each window owns.
        document: row id of the document.
    """
    return pack(
        hashes.astype("<u8").tobytes() + ordinals.astype("<i8").tobytes(), f"windows {document}"
    )


def unpack_windows(packed: bytes, document: int) -> tuple[Hashes, Ids]:
    """Return the hashes and ordinals that :func:`pack_windows` was given.

    Raises:
        IndexCorrupt: the bytes are damaged.
    """
    data = unpack(packed, f"windows {document}")
    count = len(data) // 16
    return np.frombuffer(data, "<u8", count), np.frombuffer(data, "<i8", count, 8 * count)


def pack_runs(runs: Ids, segment: str) -> bytes:
    """Encode the runs ``[n, 3]`` of a segment: row, first sentence, count."""
    return pack(runs.astype("<i8").tobytes(), f"runs {segment}")


def unpack_runs(packed: bytes, segment: str) -> Ids:
    """Return the runs ``[n, 3]`` that :func:`pack_runs` was given.

    Raises:
        IndexCorrupt: the bytes are damaged.
    """
    return np.frombuffer(unpack(packed, f"runs {segment}"), "<i8").reshape(-1, 3)


def checksum_content(doc_id: str, text: Text, ends: Ids) -> str:
    """Return the XXH3 checksum (128 bits, hexadecimal) of a document's content, which ``verify``
    compares.

    Args:
        doc_id: name of the document.
        text: its text, in memory or on disk; read in slices.
        ends: ``[n]`` int64, the end of each sentence.
    """
    digest = xxh3_128(doc_id.encode("utf-8", "surrogatepass"))
    digest.update(b"\0")
    for start in range(0, len(text), _SLICE):
        digest.update(text[start : start + _SLICE].encode("utf-8", "surrogatepass"))
    digest.update(b"\0")
    digest.update(ends.astype("<i8").tobytes())
    return digest.hexdigest()
