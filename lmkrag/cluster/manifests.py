"""The manifest of a backup: which files it consists of."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_hexdigest

from lmkrag.errors import UsageError
from lmkrag.index.files import File
from lmkrag.index.pool import CATALOG
from lmkrag.index.shards import check_shards

FORMAT = 2  # 1 had no checksum
_TAG = re.compile(r"[\w][\w.-]{0,99}")
_STORED = re.compile(r"(?:objects|catalogs)/([0-9a-f]{32})\.\w+")


@dataclass(frozen=True, slots=True)
class Stored:
    """A file in the folder of snapshots: its name there, its size, its XXH3 (128 bits)."""

    name: str
    bytes: int
    checksum: str


@dataclass(frozen=True, slots=True)
class RemoteSnapshot:
    """A snapshot. ``files`` are by their paths in an index; ``number`` counts from 1, ``tag`` is empty for none."""

    number: int
    time: str
    documents: int
    sentences: int
    folder: str
    shards: int
    files: dict[str, Stored]
    tag: str = ""

    @property
    def bytes(self) -> int:
        """The size of its files together."""
        return sum(file.bytes for file in self.files.values())

    def of_shard(self, shard: int) -> "RemoteSnapshot":
        """Return one shard of it as an index without shards; one that has none is its own shard 0.

        Raises:
            UsageError: there is no such shard.
        """
        if not 0 <= shard < max(1, self.shards):
            raise UsageError(f"snapshot {self.number} has no shard {shard}; it has {max(1, self.shards)}")
        below = f"{self.folder}/{shard:03}/" if self.shards else ""
        files = {name.removeprefix(below): file for name, file in self.files.items() if name.startswith(below)}
        return replace(self, folder="", shards=0, files=files)


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a push or pull did: the snapshot, and how many of its files and bytes had to travel."""

    number: int
    files: int
    bytes: int


def stored_file(kind: str, suffix: str, file: File) -> Stored:
    """Return what a manifest says of a file; ``kind`` is its folder, ``objects`` or ``catalogs``."""
    return Stored(f"{kind}/{file.checksum}{suffix}", file.bytes, file.checksum)


def check_tag(tag: str) -> None:
    """Refuse what can't be the name of a snapshot; the empty one means none.

    Raises:
        UsageError: it has other characters.
    """
    if tag and not _TAG.fullmatch(tag):
        raise UsageError(f"{tag!r} can't be the name of a snapshot: letters, digits, dots, hyphens and underscores")


def checksum_of(record: dict[str, Any]) -> str:
    """Return the checksum (XXH3, 128 bits) of a manifest, as JSON with sorted keys."""
    return xxh3_128_hexdigest(json.dumps(record, sort_keys=True).encode())


def check_manifest(found: RemoteSnapshot) -> None:
    """Refuse what no push writes: a manifest from elsewhere must not lead out of the folder or of an index.

    Raises:
        ValueError: a value is not what it must be.
    """
    if found.shards:
        check_shards(found.shards)
    if Path(found.folder).name != found.folder or bool(found.folder) != bool(found.shards):
        raise ValueError(f"{found.folder!r} is not the folder of the shards")
    for name, stored in found.files.items():
        if name.startswith("/") or ".." in Path(name).parts or "\\" in name:
            raise ValueError(f"{name!r} is not inside an index")
        named = _STORED.fullmatch(stored.name)
        if named is None or named[1] != stored.checksum or type(stored.bytes) is not int or stored.bytes < 0:
            raise ValueError(f"{stored.name!r} is not the name of a file here")
    if not any(name.endswith(CATALOG) for name in found.files):
        raise ValueError("it names no catalog")
