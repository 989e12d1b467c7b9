"""Jobs of uploads, and what is kept of them on disk."""

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lmkrag.errors import UsageError
from lmkrag.index.files import sync
from lmkrag.types import IndexReport

_logger = logging.getLogger(__name__)
_LONGEST_NAME = 200  # bytes of a file's or folder's name


@dataclass(frozen=True, slots=True)
class Job:
    """An upload on its way into an index. ``done`` and ``total`` are bytes; ``total`` is 0 until it is known."""

    job_id: str
    index: str
    doc_id: str
    state: str = "waiting"
    done: int = 0
    total: int = 0
    error: str | None = None
    report: IndexReport | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed")


def uploads_folder(index: Path) -> Path:
    """Return the folder of an index's uploads: beside it."""
    index = index.resolve()
    return index.with_name(index.name + ".uploads")


def check_doc_id(doc_id: str) -> PurePosixPath:
    """Return the path of a document's file below the uploads.

    Raises:
        UsageError: the id can't be a path that stays there.
    """
    path = PurePosixPath(doc_id)
    bad = (
        not path.parts
        or not doc_id.strip()
        or path.is_absolute()
        or str(path) != doc_id
        or any(part.startswith(".") for part in path.parts)
        or any(len(part.encode("utf-8", "surrogatepass")) > _LONGEST_NAME for part in path.parts)
        or len(path.parts) > 32
        or not doc_id.isprintable()
        or "\\" in doc_id
    )
    if bad:
        raise UsageError(f"{doc_id[:100]!r} can't be the id of an upload: use a relative path such as notes/today.md")
    return path


def uploaded_file(index: Path, doc_id: str) -> Path:
    """Return where the file of an upload is.

    Raises:
        UsageError: the id can't be used, or leads out of the uploads.
    """
    folder = uploads_folder(index)
    target = folder / check_doc_id(doc_id)
    if not target.parent.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{doc_id!r} leads out of the uploads")
    if target.is_dir():
        raise UsageError(f"{doc_id!r} is a folder of uploads")
    for parent in PurePosixPath(doc_id).parents[:-1]:
        if (folder / parent).is_file():
            raise UsageError(f"{str(parent)!r} is an upload, and no folder of uploads")
    return target


def record_file(index: Path, doc_id: str) -> Path:
    """Return where the record of an upload is."""
    return uploads_folder(index) / ".pending" / f"{hashlib.sha256(doc_id.encode()).hexdigest()[:32]}.json"


def write_record(index: Path, record: dict[str, Any]) -> None:
    """Write a record that is whole or not there."""
    path = record_file(index, record["doc_id"])
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(record), "utf-8")
    sync(partial)
    partial.replace(path)
    sync(path.parent)


def read_records(index: Path) -> list[dict[str, Any]]:
    """Return the uploads that were accepted and are not indexed, the oldest first."""
    found = []
    for path in (uploads_folder(index) / ".pending").glob("*.json"):
        try:
            record = json.loads(path.read_bytes())
            found.append((path.stat().st_mtime_ns, {"job_id": record["job_id"], "doc_id": record["doc_id"]}))
        except (OSError, ValueError, KeyError, TypeError):
            _logger.warning("%s: not the record of an upload; left alone", path)
    return [record for _, record in sorted(found, key=lambda item: item[0])]
