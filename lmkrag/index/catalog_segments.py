"""The SQL of segments: which files there are, and whose sentences their rows are."""

import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict

from lmkrag.arrays import Ids
from lmkrag.errors import REPAIR, IndexCorrupt
from lmkrag.index import codec
from lmkrag.index.catalog import row_keys
from lmkrag.index.codec import checksum
from lmkrag.index.files import File
from lmkrag.index.segments import SegmentFile
from lmkrag.index.vectors.recipes import recipe_from_json, recipe_to_json

_SEGMENT = re.compile("[0-9a-f]{32}")  # nothing that could lead out of segments/


def insert_segment(connection: sqlite3.Connection, file: SegmentFile, runs: Ids) -> None:
    """Record a segment and which sentences its rows are: ``[n, 3]`` row, first sentence, count."""
    details = json.dumps(
        {
            "rows": file.rows,
            "recipe": json.loads(recipe_to_json(file.recipe)),
            "vectors": asdict(file.vectors),
            "words": asdict(file.words),
            "structure": asdict(file.structure),
        },
        sort_keys=True,
    )
    connection.execute(
        "INSERT INTO segment (name, facts, runs, row_checksum) VALUES (?, ?, ?, ?)",
        (file.name, details, codec.pack_runs(runs, file.name), checksum(file.name, details.encode())),
    )


def delete_segment(connection: sqlite3.Connection, name: str) -> None:
    """Forget a segment and its runs."""
    connection.execute("DELETE FROM segment WHERE name = ?", (name,))


def read_segments(connection: sqlite3.Connection, key: int | None = None) -> list[tuple[SegmentFile, Ids]]:
    """Return every segment, or the one with a row id, with its runs ``[n, 3]``; oldest first.

    Raises:
        IndexCorrupt: a row is damaged.
    """
    segments = []
    query = "SELECT name, facts, runs, row_checksum FROM segment WHERE ? IN (id, 0) ORDER BY id"
    for name, text, packed, recorded in connection.execute(query, (key or 0,)):
        if recorded != checksum(name, text.encode()) or not _SEGMENT.fullmatch(name):
            raise IndexCorrupt(f"the catalog's row of segment {name!r} is damaged (checksum); {REPAIR}")
        details = json.loads(text)
        recipe = recipe_from_json(json.dumps(details["recipe"]))
        parts = (File(**details[part]) for part in ("vectors", "words", "structure"))
        segments.append((SegmentFile(name, details["rows"], recipe, *parts), codec.unpack_runs(packed, name)))
    return segments


def segment_keys(connection: sqlite3.Connection) -> Iterator[int]:
    """Yield row ids of segments, as :func:`document_keys` does of documents."""
    return row_keys(connection, "segment")
