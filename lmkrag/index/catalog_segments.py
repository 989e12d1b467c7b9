"""The SQL of segments: which files there are, and whose sentences their rows are."""

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection

from lmkrag.errors import REPAIR, IndexCorrupt
from lmkrag.index import catalog, codec
from lmkrag.index.columns import count_documents
from lmkrag.index.files import File
from lmkrag.index.segments import SegmentFile
from lmkrag.index.vectors.recipes import build_recipe
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.types import IndexStatus, Skipped
from lmkrag.types.arrays import Ids

_SEGMENT = re.compile("[0-9a-f]{32}")  # nothing that could lead out of segments/
_LISTED = 200  # skipped files


def insert_segment(connection: Connection, file: SegmentFile, runs: Ids) -> None:
    """Record a segment and the sentences of its rows.

    Args:
        connection: a connection inside a transaction.
        file: the segment.
        runs: ``[n, 3]`` int64: ``count`` rows from ``row`` on are the sentences from ``first`` on,
            as (row, first, count).
    """
    details = json.dumps(
        {key: value for key, value in asdict(file).items() if key != "name"}, sort_keys=True
    )
    connection.execute(
        "INSERT INTO segment (name, facts, runs, row_checksum) VALUES (?, ?, ?, ?)",
        (
            file.name,
            details,
            codec.pack_runs(runs, file.name),
            codec.checksum(file.name, details.encode()),
        ),
    )


def delete_segment(connection: Connection, name: str) -> None:
    """Forget a segment and its runs."""
    connection.execute("DELETE FROM segment WHERE name = ?", (name,))


def read_segments(connection: Connection) -> list[tuple[SegmentFile, Ids]]:
    """Return every segment with its runs ``[n, 3]``, oldest first.

    Raises:
        IndexCorrupt: a row of the catalog is damaged.
    """
    segments = []
    query = "SELECT name, facts, runs, row_checksum FROM segment ORDER BY id"
    for name, text, packed, recorded in connection.execute(query):
        if recorded != codec.checksum(name, text.encode()) or not _SEGMENT.fullmatch(name):
            raise IndexCorrupt(
                f"the catalog's row of segment {name!r} is damaged (checksum); {REPAIR}"
            )
        details = json.loads(text)
        parts = (File(**details[part]) for part in ("vectors", "words", "structure"))
        file = SegmentFile(name, details["rows"], build_recipe(details["recipe"]), *parts)
        segments.append((file, codec.unpack_runs(packed, name)))
    return segments


def read_status(
    path: Path, connection: Connection, encoder: EncoderSpec, recipe: Recipe
) -> IndexStatus:
    """Return what an index holds, without reading its documents or vectors.

    Args:
        path: the directory of the index.
        connection: a connection that holds a snapshot.
        encoder: the encoder that made the index.
        recipe: the recipe by which vectors are stored.
    """
    counts = count_documents(connection)
    segments = read_segments(connection)
    # The catalog was last written when its log was; readers make one without content.
    written = [
        file.stat() for file in path.glob("catalog.sqlite*") if not file.name.endswith("-shm")
    ]
    changed = max(file.st_mtime for file in written if file.st_size)
    return IndexStatus(
        path=str(path),
        **counts,
        dead=sum(file.rows for file, _ in segments) - counts["sentences"],
        segments=len(segments),
        bytes=sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file()),
        recipe=recipe.name,
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        dimensions=encoder.dimensions,
        version=int(catalog.read_meta(connection)["format"]),
        generation=catalog.generation(connection),
        skipped=connection.execute("SELECT COUNT(*) FROM skipped_file").fetchone()[0],
        changed=datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds"),
        skipped_files=tuple(
            Skipped(*row)
            for row in connection.execute(
                "SELECT path, reason FROM skipped_file ORDER BY path LIMIT ?", (_LISTED,)
            )
        ),
    )
