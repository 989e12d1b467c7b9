"""Uploads: files that clients send are stored in a folder beside the index, which is indexed, also at start.

An upload is accepted once its file was renamed into the folder. What a crash left unindexed is indexed when the next
server starts, and so are files that people put there.
"""

import asyncio
import contextlib
import json
import logging
import queue
import shutil
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lmkrag.errors import DocumentNotFound, IndexLocked, LmkragError, StorageError, UsageError
from lmkrag.index.files import sync
from lmkrag.server.indexes import ServedIndex, ServedIndexes
from lmkrag.server.problems import Problem, busy
from lmkrag.server.settings import ServerLimits
from lmkrag.server.upload_folder import list_uploads, upload_files, uploads_folder
from lmkrag.types import Document, IndexReport

_REMEMBERED = 200  # jobs that have ended
_PAUSE = 0.5  # seconds until a batch is tried again that another writer or a removal got in the way of
_PATIENCE = 20.0  # seconds that a removal waits for the batch that is being indexed
_logger = logging.getLogger(__name__)


class _Interrupted(Exception):
    """The batch is given up for now: the server stops, or a document is removed."""


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
        """Whether nothing more will happen."""
        return self.state in ("done", "failed")

    def end(self, *, error: str | None = None, report: IndexReport | None = None) -> None:
        """Note how it ended."""
        self.done, self.error, self.report = self.total, error, report
        self.state = "failed" if error else "done"  # last: who sees it reads the others


class Uploads:
    """Accepts uploads and indexes them. State: a thread, and the jobs that are known."""

    def __init__(self, indexes: ServedIndexes, limits: ServerLimits) -> None:
        self._limits = limits
        self._guard = threading.Lock()  # of jobs and folders
        self._jobs: dict[str, UploadJob] = {}
        self._writing = threading.Lock()
        self._interrupt, self._stopping = threading.Event(), threading.Event()
        self._waiting: queue.SimpleQueue[tuple[ServedIndex, UploadJob] | None] = queue.SimpleQueue()
        served = list(indexes.by_name.values())
        for index in served:
            shutil.rmtree(uploads_folder(index.path) / ".incoming", ignore_errors=True)
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
        """Accept a file, which is written to disk as it comes; the end of ``doc_id`` tells its format.

        Raises:
            UsageError: its id can't be used. StorageError: it can't be stored. Problem: too much is waiting.
        """
        upload_files(index.path, doc_id)
        job = UploadJob(doc_id)
        with self._guard:
            self._jobs[job.job_id] = job
        received = uploads_folder(index.path) / ".incoming" / job.job_id
        try:
            self._check_room()
            with _storing():
                received.parent.mkdir(parents=True, exist_ok=True)
                with received.open("wb") as file:
                    async for piece in body:
                        file.write(piece)
                        job.total += len(piece)
                        self._check_room()
                await asyncio.to_thread(self._store, index, doc_id, received, is_json=is_json)
        except BaseException:
            received.unlink(missing_ok=True)
            with self._guard:
                del self._jobs[job.job_id]
            raise
        self._waiting.put((index, job))
        return job

    def _store(self, index: ServedIndex, doc_id: str, received: Path, *, is_json: bool) -> None:
        """Move a received file to its place; it replaces an earlier upload of the same id."""
        sync(received)
        with self._guard:
            file, document = upload_files(index.path, doc_id)
            target, other = (document, file) if is_json else (file, document)
            target.parent.mkdir(parents=True, exist_ok=True)
            other.unlink(missing_ok=True)  # first: of one id there are never both
            received.replace(target)
            sync(target.parent)

    def _check_room(self) -> None:
        """Refuse what is more than may wait, and forget old jobs."""
        with self._guard:
            for job_id in [job.job_id for job in self._jobs.values() if job.ended][:-_REMEMBERED]:
                del self._jobs[job_id]
            waiting = [job.total for job in self._jobs.values() if not job.ended]
            if len(waiting) > self._limits.waiting_uploads or sum(waiting) > self._limits.pending:
                raise busy("too many uploads are waiting to be indexed; try again in a few seconds")

    def find(self, job_id: str) -> UploadJob:
        """Return a job. Raises Problem: there is none."""
        with self._guard:
            job = self._jobs.get(job_id)
        if job is None:
            raise Problem(404, "unknown-job", "No such job", f"no job {job_id!r}")
        return job

    def remove(self, index: ServedIndex, doc_id: str) -> int:
        """Remove a document from the index, with its upload if it has one; return how many there were: 1.

        An upload that waits is given up, and so is one that is being indexed.

        Raises:
            DocumentNotFound: there is neither. Problem: what is being indexed does not end. StorageError: somebody
                else writes.
        """
        deadline = time.monotonic() + _PATIENCE
        while not self._writing.acquire(timeout=_PAUSE / 10):
            self._interrupt.set()
            if time.monotonic() > deadline:
                raise busy("documents are being indexed; try again in a few seconds")
        try:
            try:
                index.engine.documents(doc_ids=[doc_id])
            except DocumentNotFound:
                if not self._remove_file(index, doc_id):
                    raise
                return 1
            count = index.engine.remove(doc_id)
            self._remove_file(index, doc_id)
            return count
        finally:
            self._writing.release()

    def _remove_file(self, index: ServedIndex, doc_id: str) -> bool:
        """Remove an upload, and folders that are empty then; return whether there was one."""
        folder = uploads_folder(index.path)
        with _storing(), self._guard:
            try:
                uploads = [file for file in upload_files(index.path, doc_id) if file.is_file()]
            except UsageError:  # a document that was not uploaded may have any id
                return False
            for file in uploads:
                file.unlink()
                with contextlib.suppress(OSError):  # until a folder is not empty
                    for parent in file.relative_to(folder).parents[:-1]:
                        (folder / parent).rmdir()
        return bool(uploads)

    def _work(self, indexes: list[ServedIndex]) -> None:
        """Index the folders, then all uploads that wait, again and again."""
        jobs = [(index, UploadJob(doc_id)) for index in indexes for doc_id in list_uploads(index.path)]
        while not self._stopping.is_set():
            with contextlib.suppress(queue.Empty):
                items = [self._waiting.get(timeout=_PAUSE if jobs else None)]
                while True:
                    jobs += [item for item in items if item is not None]
                    items = [self._waiting.get_nowait()]
            for index in dict.fromkeys(index for index, _ in jobs):
                batch = [job for served, job in jobs if served is index]
                try:
                    with self._writing:
                        self._interrupt.clear()
                        self._add(index, batch)
                except (_Interrupted, IndexLocked):
                    for job in batch:
                        job.state = job.state if job.ended else "waiting"
                except Exception as error:  # the thread must not end: later uploads would never be indexed
                    reason = "this is a bug; the server's log says more"
                    if isinstance(error, LmkragError):
                        reason = str(index.to_problem(error))
                    else:
                        _logger.error("%s: uploads could not be indexed", index.name, exc_info=error)
                    for job in batch:
                        if not job.ended:
                            job.end(error=reason)
            jobs = [(index, job) for index, job in jobs if not job.ended]

    def _add(self, index: ServedIndex, jobs: list[UploadJob]) -> None:
        """Add a batch; each job ends with what became of its document, as the folder has it now."""
        files: dict[str, Path] = {}
        documents: dict[str, Path] = {}
        for job in jobs:
            job.state = "running"
            file, document = upload_files(index.path, job.doc_id)
            if file.is_file():
                files[job.doc_id] = file
            elif document.is_file():
                documents[job.doc_id] = document
            else:
                job.end(error="removed before it was indexed")
        latest = {job.doc_id: job for job in jobs}
        offsets: dict[str, int] = {}

        def progress(name: str, done: int, _: int) -> None:
            if self._stopping.is_set() or self._interrupt.is_set():
                raise _Interrupted
            if (job := latest.get(name)) is not None:
                job.done = min(done - offsets.setdefault(name, done), job.total)

        values = (Document(**json.loads(path.read_bytes())) for path in documents.values())
        for doc_ids, source in ((files, files), (documents, values)):
            if doc_ids:
                report = index.engine.add(source, progress=progress)
                reasons = {skipped.path: skipped.reason for skipped in report.skipped}
                for job in jobs:
                    if job.doc_id in doc_ids:
                        job.end(error=reasons.get(job.doc_id), report=report)

    def close(self) -> None:
        """Stop after the document that is being encoded; the next server goes on with what is not whole."""
        self._stopping.set()
        self._waiting.put(None)
        self._thread.join()


@contextlib.contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"the upload can't be stored ({error.strerror or error})") from error
