"""What an index holds, as its catalog and files say."""

from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection

from lmkrag.index import catalog, catalog_segments
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.types import IndexStatus, Skipped

_LISTED = 200  # skipped files


def read_status(path: Path, connection: Connection, encoder: EncoderSpec, recipe: Recipe) -> IndexStatus:
    """Return what an index holds, without reading its documents or vectors.

    Args:
        path: of the index.
        connection: to its catalog.
        encoder: that made it.
        recipe: how it stores vectors.
    """
    documents, sentences, characters = connection.execute(
        "SELECT COUNT(*), IFNULL(SUM(sentences), 0), IFNULL(SUM(length), 0) FROM document"
    ).fetchone()
    segments = catalog_segments.read_segments(connection)
    # The catalog was last written when its log was, where there is one.
    written = [one for one in path.glob("catalog.sqlite*") if not one.name.endswith("-shm")]
    changed = max(one.stat().st_mtime for one in written)
    return IndexStatus(
        path=str(path),
        documents=documents,
        sentences=sentences,
        characters=characters,
        dead=sum(file.rows for file, _ in segments) - sentences,
        segments=len(segments),
        bytes=sum(one.stat().st_size for one in path.rglob("*") if one.is_file()),
        recipe=recipe.name,
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        dimensions=encoder.dimensions,
        version=int(catalog.read_meta(connection)["format"]),
        generation=catalog.generation(connection),
        skipped=connection.execute("SELECT COUNT(*) FROM skipped_file").fetchone()[0],
        changed=datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds"),
        kinds=_count(connection, "kind"),
        roots=_count(connection, "root"),
        skipped_files=tuple(
            Skipped(*row)
            for row in connection.execute("SELECT path, reason FROM skipped_file ORDER BY path LIMIT ?", (_LISTED,))
        ),
    )


def _count(connection: Connection, column: str) -> dict[str, int]:
    """How many documents there are of each value of a column."""
    rows = connection.execute(f"SELECT {column}, COUNT(*) FROM document GROUP BY {column} ORDER BY {column}")
    return {value: count for value, count in rows if value}
