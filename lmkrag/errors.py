"""The error tree. Every error that crosses the package's border is one of these.

LmkragError
  UsageError(ValueError)                an invalid argument
    IndexClosed                         the index was closed
    DocumentNotFound                    there is no such document in the index
    FilesGone                           all files of a directory are gone
  DocumentError                         one file; collected in the report, never stops a run
    EmptyDocument                       a file without text
    TookTooLong                         a file that takes longer to read than it may
  StorageError                          the index directory
    IndexNotFound(FileNotFoundError)    there is none
    IndexLocked                         another process is writing
    IndexMismatch                       made by another encoder or a newer lmkrag
    IndexCorrupt                        a file is damaged or gone
    SnapshotExpired                     a state of the index that was read is not kept any more
  EncoderError                          a model folder that can't be used
  TrainingError                         a training run that can't go on
  ReaderError                           the thing that answers failed
  ServerError                           an lmkrag server can't be reached, or failed
  MissingExtra(ImportError)             an optional package is not installed
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# ends a message about a damaged index
REPAIR = "restore a backup, or index the sources again, elsewhere"


class LmkragError(Exception):
    """Base class of every error lmkrag raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and the attributes, whatever arguments the class takes."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class UsageError(LmkragError, ValueError):
    """Invalid argument; the message says what to do instead."""


class IndexClosed(UsageError):
    """The index was closed; open it again."""


class DocumentNotFound(UsageError):
    """There is no such document in the index. ``near`` is the name most like it, empty for none."""

    def __init__(self, doc_id: str, where: str, near: str = "") -> None:
        super().__init__(
            f"no document {doc_id!r} in {where}" + (f"; did you mean {near!r}?" if near else "")
        )
        self.doc_id, self.near = doc_id, near


class FilesGone(UsageError):
    """All files that were indexed from a directory are gone, as those of a disk that is not
    mounted.
    """


class DocumentError(LmkragError):
    """One file can't be read. Collected in the report of a run, never stops it.

    ``lasting`` tells that reading it again is no use until the file changes.
    """

    lasting: bool = True

    def __init__(self, message: str, *, lasting: bool = True) -> None:
        super().__init__(message)
        self.lasting = lasting


class EmptyDocument(DocumentError):
    """A file without text."""


class TookTooLong(DocumentError):
    """A file took longer to read than it may."""


class StorageError(LmkragError):
    """The index directory can't be used."""


class IndexNotFound(StorageError, FileNotFoundError):
    """There is no index at the path."""


class IndexLocked(StorageError):
    """Another process is writing to the index."""


class IndexMismatch(StorageError):
    """The index was made by another encoder, or by a newer version of lmkrag."""


class IndexCorrupt(StorageError):
    """A file of the index is damaged or gone."""


class SnapshotExpired(StorageError):
    """The state of the index that was read is not kept any more; read again."""


class EncoderError(LmkragError):
    """A model folder can't be loaded or can't encode."""


class TrainingError(LmkragError):
    """A training run can't go on."""


class ReaderError(LmkragError):
    """A reader (the thing that answers) failed."""


class ServerError(LmkragError):
    """An lmkrag server can't be reached, or failed."""


class MissingExtra(LmkragError, ImportError):
    """An optional package is missing; the message prints the pip line that installs it."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'lmkrag[{extra}]'")


@contextmanager
def needs(extra: str, package: str = "") -> Iterator[None]:
    """Raise :class:`MissingExtra` where an import inside fails; without a ``package`` for the one
    that is missing.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtra(extra, package or error.name or "a package") from None


def name_kind(kind: type[LmkragError]) -> str:
    """Return what a kind of error is called on the wire: ``index-locked``, ``usage``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__.removesuffix("Error")).lower()


def list_kinds(kind: type[LmkragError] = LmkragError) -> dict[str, type[LmkragError]]:
    """Return every kind of error by its name on the wire."""
    kinds = {name_kind(kind): kind}
    for inner in kind.__subclasses__():
        kinds |= list_kinds(inner)
    return kinds


def make_error(name: str, message: str, otherwise: type[LmkragError]) -> LmkragError:
    """Return an error of a kind by its name on the wire; one that is not known is an error
    ``otherwise``.
    """
    kind = list_kinds().get(name, otherwise)
    return kind.__new__(kind, message)
