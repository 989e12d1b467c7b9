"""The error tree. Every error that crosses the package's border is one of these.

A caller catches :class:`LmkragError` for all of them, or one branch. Errors about arguments are
ValueErrors, too. Messages are one line that names the thing, says what is wrong and what to do. The
servers and the command line name the kinds by :func:`name_kind`.

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
  ServerError                           a server can't be reached, or failed
  MissingExtra(ImportError)             an optional package is not installed
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# ends a message about a damaged index
REPAIR = "restore a backup, or index the sources again, elsewhere"


class LmkragError(Exception):
    """Base class of every error that lmkrag raises on purpose.

    The message is for users: one line that names the thing, says what is wrong, and what to do.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and the attributes, whatever arguments the class takes."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class UsageError(LmkragError, ValueError):
    """An argument is invalid; the message says what to pass instead.

    It is a ValueError, too.
    """


class IndexClosed(UsageError):
    """The index was closed; open it again with :meth:`lmkrag.Engine.open`."""


class DocumentNotFound(UsageError):
    """There is no such document in the index.

    Attributes:
        doc_id: the name that was asked for.
        near: the most similar name in the index; empty if none is similar.
    """

    def __init__(self, doc_id: str, where: str, near: str = "") -> None:
        """Make the message from the name of the document and the index.

        Args:
            doc_id: the name that was asked for.
            where: the path of the index, for the message.
            near: the most similar name in the index; empty if none is similar.
        """
        super().__init__(
            f"no document {doc_id!r} in {where}" + (f"; did you mean {near!r}?" if near else "")
        )
        self.doc_id, self.near = doc_id, near


class FilesGone(UsageError):
    """All files that were indexed from a directory are gone, as those of a disk that is not
    mounted.

    ``prune`` of :meth:`lmkrag.Engine.add` says what to do with their documents.
    """


class DocumentError(LmkragError):
    """One file can't be read. It is collected in the report of a run, which continues.

    Attributes:
        lasting: whether reading the file again is no use until it changes. False for a cause
            outside the file, such as a full disk.
    """

    lasting: bool = True

    def __init__(self, message: str, *, lasting: bool = True) -> None:
        """Take the message, and whether the file is to be left alone until it changes."""
        super().__init__(message)
        self.lasting = lasting


class EmptyDocument(DocumentError):
    """A file has no text to index."""


class TookTooLong(DocumentError):
    """A file took longer to read than it may."""


class StorageError(LmkragError):
    """The index directory can't be used, as on a full disk."""


class IndexNotFound(StorageError, FileNotFoundError):
    """There is no index at the path. It is a FileNotFoundError, too."""


class IndexLocked(StorageError):
    """Another process is writing to the index; reading is possible meanwhile."""


class IndexMismatch(StorageError):
    """The index was made by another encoder, or by a newer version of lmkrag."""


class IndexCorrupt(StorageError):
    """A file of the index is damaged or gone."""


class SnapshotExpired(StorageError):
    """The state of the index that is being read has been removed after later commits; read
    again.
    """


class EncoderError(LmkragError):
    """A model folder can't be loaded, or its model can't encode."""


class TrainingError(LmkragError):
    """A training run can't go on, as after a loss that is infinite or NaN."""


class ReaderError(LmkragError):
    """A reader, which answers questions, failed, as when the server of a language model can't be
    reached.
    """


class ServerError(LmkragError):
    """A server of lmkrag or of a re-ranker can't be reached, or failed to answer a request."""


class MissingExtra(LmkragError, ImportError):
    """An optional package is not installed; the message is the pip command that installs it.

    It is an ImportError, too.
    """

    def __init__(self, extra: str, package: str) -> None:
        """Make the message from the extra of lmkrag and the package that is missing.

        Args:
            extra: the extra that has the package, such as ``qdrant``.
            package: the missing package, by its name for pip.
        """
        super().__init__(f"{package} is not installed: pip install 'lmkrag[{extra}]'")


@contextmanager
def needs(extra: str, package: str = "") -> Iterator[None]:
    """Turn a failed import inside the block into an error that says what to install.

    Args:
        extra: the extra of lmkrag that has the package.
        package: name of the package in the message; by default that of the module that is missing.

    Raises:
        MissingExtra: an import inside the block failed.
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
    """Return the error that a server has named in its reply.

    Args:
        name: the kind of the error on the wire, such as ``index-locked``: see :func:`name_kind`.
        message: the message of the error.
        otherwise: the class of the error if the name is unknown, as one of a newer server.
    """
    kind = list_kinds().get(name, otherwise)
    return kind.__new__(kind, message)
