"""Where the uploads of an index lie: a folder beside it, a file for each.

INDEX.uploads/notes/today.md
INDEX.uploads/memo.lmkrag.json     the document "memo", which was sent as JSON
INDEX.uploads/.incoming/           what is being received
"""

import contextlib
import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from lmkrag.errors import StorageError, UsageError
from lmkrag.system.platform import sync
from lmkrag.types import MAX_DOC_ID, Document

_JSON = ".lmkrag.json"
_LONGEST_NAME, _DEEPEST = 200, 32  # bytes of a file's or folder's name, folders
_JOINERS_AND_SPACES = re.compile("[\u200c\u200d\u00a0\u202f\u3000]")


class UploadFolder:
    """The uploads of one index. State: a lock, so that one file at a time comes or goes."""

    def __init__(self, index_path: Path) -> None:
        """Find the folder beside an index; remove what was not received whole.

        Args:
            index_path: the folder of the index; it may be ``.``.
        """
        index_path = index_path.resolve()  # "." has no name
        self._path = index_path.with_name(f"{index_path.name}.uploads")
        self._lock = threading.Lock()
        shutil.rmtree(self._path / ".incoming", ignore_errors=True)

    @contextlib.contextmanager
    def receiving(self, name: str) -> Iterator[Path]:
        """Lend a path to receive an upload at; what is left there afterwards is removed.

        Args:
            name: of the file until it is accepted, which no other upload has.

        Raises:
            StorageError: the file can't be written or accepted.
        """
        path = self._path / ".incoming" / name
        with _storing():
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                yield path
            finally:
                path.unlink(missing_ok=True)

    def accept(self, received: Path, doc_id: str, *, is_json: bool) -> None:
        """Move a received file to its place, where it replaces the upload of the same id.

        Args:
            received: the file, whole.
            doc_id: id of the document, which becomes the path of the file.
            is_json: whether the file is a document as JSON, and not one to be parsed.

        Raises:
            UsageError: no upload can have this id.
            OSError: the file can't be moved.
        """
        sync(received)
        with self._lock:
            file, document = self.find_places(doc_id)
            target, other = (document, file) if is_json else (file, document)
            target.parent.mkdir(parents=True, exist_ok=True)
            other.unlink(missing_ok=True)  # first: an id never has both
            received.replace(target)
            sync(target.parent)

    def remove(self, doc_id: str) -> bool:
        """Remove an upload and the folders it leaves empty.

        Args:
            doc_id: any id, also one that no upload can have.

        Returns:
            Whether there was an upload.

        Raises:
            StorageError: the file can't be removed.
        """
        with _storing(), self._lock:
            file = self.find(doc_id)
            if file is None:
                return False
            file.unlink()
            with contextlib.suppress(OSError):  # until a folder is not empty
                for parent in file.relative_to(self._path).parents[:-1]:
                    (self._path / parent).rmdir()
        return True

    def list_ids(self) -> Iterator[str]:
        """Yield the ids of all uploads; links and hidden files are none."""
        for path in self._path.rglob("*"):
            doc_id = path.relative_to(self._path).as_posix().removesuffix(_JSON)
            if not path.is_symlink() and path == self.find(doc_id):
                yield doc_id

    def find(self, doc_id: str) -> Path | None:
        """Return the file of an upload; None if there is none, whatever the id."""
        try:
            return next(filter(Path.is_file, self.find_places(doc_id)), None)
        except UsageError:
            return None

    def find_places(self, doc_id: str) -> tuple[Path, Path]:
        """Return where the file of an upload is, and where it is if sent as JSON: at most one is.

        Args:
            doc_id: id of the document.

        Raises:
            UsageError: no upload can have this id, or not beside the others that are there.
        """
        path = check_doc_id(doc_id)
        file = self._path / path
        if not file.parent.resolve().is_relative_to(self._path.resolve()):
            raise UsageError(f"{doc_id!r} leads out of the uploads")
        document = _name_json(file)
        if file.is_dir() or document.is_dir():
            raise UsageError(f"{doc_id!r} is a folder of uploads")
        for parent in path.parents[:-1]:
            above = self._path / parent
            if above.is_file() or _name_json(above).is_file():
                raise UsageError(f"{str(parent)!r} is an upload, and no folder of uploads")
        return file, document


def _name_json(file: Path) -> Path:
    return file.with_name(file.name + _JSON)


def read_document(path: Path) -> Document | None:
    """Return the document that was sent as JSON; None for a file that is to be parsed.

    Args:
        path: the file of an upload.

    Raises:
        ValueError: the file should hold a document as JSON and does not.
    """
    if not path.name.endswith(_JSON):
        return None
    try:
        return Document(**json.loads(path.read_bytes()))
    except (TypeError, RecursionError) as error:
        raise ValueError("no document") from error


def check_doc_id(doc_id: str) -> PurePosixPath:
    """Return the path of a document's file below the uploads.

    Args:
        doc_id: a relative path such as ``notes/today.md``.

    Raises:
        UsageError: the path would lead elsewhere, or no file can have it.
    """
    parts = doc_id.split("/")
    printed = _JOINERS_AND_SPACES.sub("", doc_id)
    is_printable = bool(printed.strip()) and printed.isprintable() and "\\" not in doc_id
    if not is_printable or _is_too_long(parts) or any(map(_is_reserved, parts)):
        raise UsageError(
            f"{doc_id[:100]!r} can't be the id of an upload: use a relative path such as "
            "notes/today.md"
        )
    return PurePosixPath(doc_id)


def _is_too_long(parts: list[str]) -> bool:
    sizes = [len(part.encode()) for part in parts]
    length = sum(sizes) + len(parts)
    return len(parts) > _DEEPEST or max(sizes) > _LONGEST_NAME or length > MAX_DOC_ID


def _is_reserved(part: str) -> bool:
    """Whether a name is empty, hidden, leads upward, or has the suffix of documents as JSON."""
    return not part or part.startswith(".") or part.endswith(_JSON)


@contextlib.contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"the upload can't be stored ({error.strerror or error})") from error
