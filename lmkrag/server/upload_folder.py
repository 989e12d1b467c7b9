"""The folder of an index's uploads, beside the index: files under the ids of their documents.

INDEX.uploads/notes/today.md
INDEX.uploads/memo.lmkrag.json     the document "memo", which was sent as JSON
INDEX.uploads/.incoming/           what is being received
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from lmkrag.errors import UsageError
from lmkrag.types import MAX_DOC_ID

JSON = ".lmkrag.json"
"""How the file of a document that was sent as JSON ends, after the id."""

_LONGEST_NAME = 200  # bytes of a file's or folder's name


def uploads_folder(index: Path) -> Path:
    """Return the folder of an index's uploads."""
    index = index.resolve()  # "." has no name
    return index.with_name(index.name + ".uploads")


def check_doc_id(doc_id: str) -> PurePosixPath:
    """Return the path of a document's file below the uploads.

    Raises:
        UsageError: the id can't be a path that stays there.
    """
    parts = doc_id.split("/")
    bad = (
        not doc_id.strip()
        or any(not part or part.startswith(".") for part in parts)
        or any(len(part.encode("utf-8", "surrogatepass")) > _LONGEST_NAME for part in parts)
        or len(parts) > 32
        or len(doc_id.encode("utf-8", "surrogatepass")) > MAX_DOC_ID  # the system refuses paths of more than 4,096
        or not doc_id.isprintable()
        or "\\" in doc_id
        or doc_id.endswith(JSON)
    )
    if bad:
        raise UsageError(f"{doc_id[:100]!r} can't be the id of an upload: use a relative path such as notes/today.md")
    return PurePosixPath(doc_id)


def upload_files(index: Path, doc_id: str) -> tuple[Path, Path]:
    """Return where the file of an upload is, and where it is if it was sent as JSON; at most one of them is there.

    Raises:
        UsageError: the id can't be used, or leads out of the uploads.
    """
    folder, path = uploads_folder(index), check_doc_id(doc_id)
    file = folder / path
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{doc_id!r} leads out of the uploads")
    if file.is_dir():
        raise UsageError(f"{doc_id!r} is a folder of uploads")
    for parent in path.parents[:-1]:
        if (folder / parent).is_file():
            raise UsageError(f"{str(parent)!r} is an upload, and no folder of uploads")
    return file, file.with_name(file.name + JSON)


def list_uploads(index: Path) -> Iterator[str]:
    """Yield the ids of all uploads of an index; links and hidden files are none."""
    root = uploads_folder(index)
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(folder, name) for name in names):
            doc_id = path.relative_to(root).as_posix().removesuffix(JSON)
            with contextlib.suppress(UsageError):
                if not path.is_symlink() and path in upload_files(index, doc_id):
                    yield doc_id
