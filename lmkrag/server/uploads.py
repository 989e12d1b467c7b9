"""Uploads: files that clients send are stored in a folder beside the index, and indexed from there.

INDEX.uploads/notes/today.md
INDEX.uploads/memo.lmkrag.json     the document "memo", which was sent as JSON
INDEX.uploads/.incoming/           what is being received

An upload is accepted once its file is renamed into the folder. Files that are not indexed yet,
after a crash or because somebody put them there, are indexed when the server starts.
"""

import asyncio
import contextlib
import json
import logging
import re
import shutil
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from lmkrag.errors import DocumentNotFound, IndexLocked, LmkragError, StorageError, UsageError
from lmkrag.index.files import sync
from lmkrag.index.location import is_address
from lmkrag.server.indexes import ServedIndex, ServedIndexes
from lmkrag.server.problems import Problem, busy
from lmkrag.server.settings import ServerLimits
from lmkrag.types import MAX_DOC_ID, Document, IndexReport

_JSON = ".lmkrag.json"
_LONGEST_NAME, _DEEPEST = 200, 32  # bytes of a file's or folder's name, folders
_REMEMBERED = 200  # jobs that have ended
_PAUSE = 0.5  # seconds before a batch is retried that another writer or a removal interrupted
_PATIENCE = 20.0  # seconds that a removal waits for the running batch
_logger = logging.getLogger(__name__)


class _Interrupted(Exception):
    """The batch is interrupted: the server stops, or a document is removed."""


@dataclass(slots=True)
class UploadJob:
    """An upload on its way into an index. ``done`` and ``total`` are bytes."""

    doc_id: str
    job_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: str = "waiting"
    done: int = 0
    total: int = 0
    error: str | None = None
    report: IndexReport | None = None

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed")

    def end(self, *, error: str | None = None, report: IndexReport | None = None) -> None:
        """Record the outcome."""
        self.done, self.error, self.report = self.total, error, report
        self.state = (
            "failed" if error else "done"
        )  # last: other threads read the rest once it has changed


class Uploads:
    """Accepts uploads and indexes them. State: a thread and the recent jobs."""

    def __init__(self, indexes: ServedIndexes, limits: ServerLimits) -> None:
        self._limits = limits
        self._jobs: dict[str, UploadJob] = {}
        self._waiting: list[tuple[ServedIndex, UploadJob]] = []
        self._changed = threading.Condition()  # guards jobs and folders
        self._writing = threading.Lock()
        self._stopping = self._interrupted = False
        served = list(indexes.by_name.values())
        for index in served:
            if is_address(index.path):
                raise UsageError(
                    f"{index.name}: uploads are for directories; lmkrag index PATH adds "
                    "to one on Qdrant"
                )
        for index in served:
            shutil.rmtree(_folder(index) / ".incoming", ignore_errors=True)
        self._thread = threading.Thread(target=self._work, args=(served,), name="lmkrag-add")
        self._thread.start()

    async def add_document(self, index: ServedIndex, document: Document) -> UploadJob:
        """Accept a document that is in no file; raises what :meth:`receive` does."""

        async def body() -> AsyncIterator[bytes]:
            yield json.dumps(asdict(document)).encode()

        return await self.receive(index, document.doc_id, body(), is_json=True)

    async def receive(
        self, index: ServedIndex, doc_id: str, body: AsyncIterator[bytes], *, is_json: bool = False
    ) -> UploadJob:
        """Accept a file, whose suffix tells its format. Raises UsageError: bad id. StorageError.
        Problem: overload.
        """
        _find_files(index, doc_id)
        job = UploadJob(doc_id)
        with self._changed:
            self._jobs[job.job_id] = job
        received = _folder(index) / ".incoming" / job.job_id

        def store() -> None:
            sync(received)
            with self._changed:
                file, document = _find_files(index, doc_id)
                target, other = (document, file) if is_json else (file, document)
                target.parent.mkdir(parents=True, exist_ok=True)
                other.unlink(missing_ok=True)  # first: an id never has both
                received.replace(target)
                sync(target.parent)
                self._waiting.append((index, job))
                self._changed.notify()

        try:
            self._check_room()
            with _storing():
                received.parent.mkdir(parents=True, exist_ok=True)
                with received.open("wb") as file:
                    async for piece in body:
                        file.write(piece)
                        job.total += len(piece)
                        self._check_room()
                await asyncio.to_thread(store)
        except BaseException:
            received.unlink(missing_ok=True)
            with self._changed:
                del self._jobs[job.job_id]
            raise
        return job

    def _check_room(self) -> None:
        """Refuse uploads beyond the limits, and forget old jobs."""
        with self._changed:
            for job_id in [job.job_id for job in self._jobs.values() if job.ended][:-_REMEMBERED]:
                del self._jobs[job_id]
            waiting = [job.total for job in self._jobs.values() if not job.ended]
        if len(waiting) > self._limits.waiting_uploads or sum(waiting) > self._limits.pending:
            raise busy("too many uploads are waiting to be indexed; try again in a few seconds")

    def find(self, job_id: str) -> UploadJob:
        """Return a job. Raises Problem: there is none."""
        with self._changed:
            if job_id in self._jobs:
                return self._jobs[job_id]
        raise Problem(404, "unknown-job", "No such job", f"no job {job_id!r}")

    def remove(self, index: ServedIndex, doc_id: str) -> int:
        """Remove a document from the index, with its upload if it has one; return how many there
        were: 1.

        Its waiting or running job is cancelled. Raises DocumentNotFound: there is neither a
        document nor an upload. Problem: the running batch does not end. StorageError: another
        process writes.
        """
        deadline = time.monotonic() + _PATIENCE
        while not self._writing.acquire(timeout=_PAUSE / 10):
            self._interrupted = True
            if time.monotonic() > deadline:
                raise busy("documents are being indexed; try again in a few seconds")
        try:
            try:
                index.engine.documents(doc_ids=[doc_id])
            except DocumentNotFound:
                if self._remove_file(index, doc_id):
                    return 1
                raise
            count = index.engine.remove(doc_id)
            self._remove_file(index, doc_id)
            return count
        finally:
            self._writing.release()

    def _remove_file(self, index: ServedIndex, doc_id: str) -> bool:
        """Remove an upload and the folders it leaves empty; return whether there was one."""
        with _storing(), self._changed:
            try:
                uploads = [file for file in _find_files(index, doc_id) if file.is_file()]
            except UsageError:  # a document that was not uploaded may have any id
                return False
            for file in uploads:
                file.unlink()
                with contextlib.suppress(OSError):  # until a folder is not empty
                    for parent in file.relative_to(_folder(index)).parents[:-1]:
                        (_folder(index) / parent).rmdir()
        return bool(uploads)

    def _work(self, indexes: list[ServedIndex]) -> None:
        """Index the folders, then waiting uploads in a loop."""
        jobs = [(index, UploadJob(doc_id)) for index in indexes for doc_id in _list_uploads(index)]
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._waiting or self._stopping, _PAUSE if jobs else None
                )
                if self._stopping:
                    return
                jobs, self._waiting = jobs + self._waiting, []
            for index in dict.fromkeys(index for index, _ in jobs):
                batch, reason = [job for served, job in jobs if served is index], ""
                try:
                    with self._writing:
                        self._interrupted = False
                        self._add(index, batch)
                except (_Interrupted, IndexLocked):
                    pass  # the next turn tries again
                except LmkragError as error:
                    reason = str(index.to_problem(error))
                except Exception:  # the thread must not end: later uploads would never be indexed
                    reason = "this is a bug; the server's log says more"
                    _logger.exception("%s: uploads could not be indexed", index.name)
                for job in batch:
                    if not job.ended:
                        job.state = "waiting"
                        if reason:
                            job.end(error=reason)
            jobs = [(index, job) for index, job in jobs if not job.ended]

    def _add(self, index: ServedIndex, jobs: list[UploadJob]) -> None:
        """Add a batch from the files that the folder has now; each job ends with the outcome of its
        document.
        """
        files: dict[str, Path] = {}
        documents: dict[str, Path] = {}
        for job in jobs:
            job.state = "running"
            path = next(filter(Path.is_file, _find_files(index, job.doc_id)), None)
            if path is None:
                job.end(error="removed before it was indexed")
            else:
                (documents if path.name.endswith(_JSON) else files)[job.doc_id] = path
        latest = {job.doc_id: job for job in jobs}
        offsets: dict[str, int] = {}

        def progress(name: str, done: int, _: int) -> None:
            if self._stopping or self._interrupted:
                raise _Interrupted
            if (job := latest.get(name)) is not None:
                job.done = min(done - offsets.setdefault(name, done), job.total)

        values = []
        for doc_id, path in list(documents.items()):
            try:
                values.append(Document(**json.loads(path.read_bytes())))
            except (ValueError, TypeError, RecursionError):  # somebody has put it there
                del documents[doc_id]
                latest[doc_id].end(error=f"its file {path.name} is damaged")
        for doc_ids, source in ((files, files), (documents, values)):
            if doc_ids:
                report = index.engine.add(source, progress=progress)
                reasons = {skipped.path: skipped.reason for skipped in report.skipped}
                for job in jobs:
                    if job.doc_id in doc_ids:
                        job.end(error=reasons.get(job.doc_id), report=report)

    def close(self) -> None:
        """Stop after the current document; the next server continues with the rest."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()


@contextlib.contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"the upload can't be stored ({error.strerror or error})") from error


def check_doc_id(doc_id: str) -> PurePosixPath:
    """Return the path of a document's file below the uploads. Raises UsageError: it would lead
    elsewhere.
    """
    parts = doc_id.split("/")
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in parts]
    too_long = (
        max(sizes) > _LONGEST_NAME or len(parts) > _DEEPEST or sum(sizes) + len(parts) > MAX_DOC_ID
    )
    hidden = any(not part or part.startswith(".") or part.endswith(_JSON) for part in parts)
    printed = re.sub(
        "[\u200c\u200d\u00a0\u202f\u3000]", "", doc_id
    )  # without joiners and wide spaces
    if too_long or hidden or not printed.strip() or not printed.isprintable() or "\\" in doc_id:
        raise UsageError(
            f"{doc_id[:100]!r} can't be the id of an upload: use a relative path such as "
            "notes/today.md"
        )
    return PurePosixPath(doc_id)


def _folder(index: ServedIndex) -> Path:
    path = index.path.resolve()  # "." has no name
    return path.with_name(path.name + ".uploads")


def _find_files(index: ServedIndex, doc_id: str) -> tuple[Path, Path]:
    """Where an upload's file is, and where it is if sent as JSON: at most one is. Raises
    UsageError: no such id.
    """
    folder, path = _folder(index), check_doc_id(doc_id)
    file = folder / path
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{doc_id!r} leads out of the uploads")
    document = file.with_name(file.name + _JSON)
    if file.is_dir() or document.is_dir():
        raise UsageError(f"{doc_id!r} is a folder of uploads")
    for parent in path.parents[:-1]:
        if (folder / parent).is_file() or (folder / f"{parent}{_JSON}").is_file():
            raise UsageError(f"{str(parent)!r} is an upload, and no folder of uploads")
    return file, document


def _list_uploads(index: ServedIndex) -> Iterator[str]:
    """The ids of all uploads of an index; links and hidden files are none."""
    for path in _folder(index).rglob("*"):
        doc_id = path.relative_to(_folder(index)).as_posix().removesuffix(_JSON)
        with contextlib.suppress(UsageError):
            if not path.is_symlink() and path in _find_files(index, doc_id):
                yield doc_id
