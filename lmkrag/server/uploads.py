"""Uploads: documents that clients send, kept beside the index and indexed one batch after the other.

    INDEX.uploads/notes/today.md    a file, under the name of its document
    INDEX.uploads/.pending/         a record of each upload that is accepted and not indexed yet
    INDEX.uploads/.incoming/        what is being received

An upload is accepted once its record and its file are on disk. What a crash leaves is indexed when the server starts.
"""

import asyncio
import contextlib
import json
import logging
import queue
import shutil
import threading
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lmkrag.errors import DocumentNotFound, IndexLocked, LmkragError, StorageError, UsageError
from lmkrag.index.files import sync
from lmkrag.server.indexes import ServedIndex, ServedIndexes
from lmkrag.server.problems import Problem, busy
from lmkrag.server.settings import Limits
from lmkrag.server.upload_records import (
    Job,
    check_doc_id,
    read_records,
    record_file,
    uploaded_file,
    uploads_folder,
    write_record,
)
from lmkrag.types import Document, IndexReport

_REMEMBERED = 200  # jobs that have ended
_PAUSE = 0.05  # seconds
_LOCKED = 2.0  # seconds until another writer of the index is asked again
_PATIENCE = 20.0  # seconds that a removal waits for the batch that is being indexed
_logger = logging.getLogger(__name__)


class _Interrupted(Exception):
    """The batch is given up: the server stops, or a document of it is removed."""


class Uploads:
    """Accepts uploads and indexes them. State: a thread and a lock for each index, and the jobs that are known."""

    def __init__(self, indexes: ServedIndexes, limits: Limits) -> None:
        """Begin with what an earlier server accepted and did not index."""
        self._limits = limits
        self._guard = threading.Lock()  # of what is in memory
        self._disk = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._receiving = 0  # bytes
        self._stopping = threading.Event()
        self._removed: set[tuple[str, str]] = set()  # index and document of removals that wait for a batch
        self._queues: dict[str, queue.Queue[str | None]] = {}
        self._writing = {name: threading.Lock() for name in indexes.by_name}
        self._threads = []
        for index in indexes.by_name.values():
            self._queues[index.name] = queue.Queue()
            shutil.rmtree(uploads_folder(index.path) / ".incoming", ignore_errors=True)
            for record in read_records(index.path):
                self._put(Job(record["job_id"], index.name, record["doc_id"]))
                self._queues[index.name].put(record["job_id"])
            thread = threading.Thread(target=self._work, args=(index,), name=f"lmkrag-add-{index.name}")
            thread.start()
            self._threads.append(thread)

    # Accepting

    async def receive(self, index: ServedIndex, doc_id: str, body: AsyncIterator[bytes]) -> Job:
        """Accept a file, which is written to disk as it comes; the end of ``doc_id`` tells its format.

        Raises:
            UsageError: its id can't be used. StorageError: it can't be stored. Problem: too much is waiting.
        """
        check_doc_id(doc_id)
        self._check_room()
        received = uploads_folder(index.path) / ".incoming" / uuid.uuid4().hex
        size = 0
        try:
            with _storing():
                received.parent.mkdir(parents=True, exist_ok=True)
                with received.open("wb") as file:
                    async for piece in body:
                        file.write(piece)
                        size += len(piece)
                        with self._guard:
                            self._receiving += len(piece)
                        self._check_room()
                await asyncio.to_thread(sync, received)
            return await asyncio.to_thread(self._accept, index, doc_id, size, received=received)
        finally:
            received.unlink(missing_ok=True)
            with self._guard:
                self._receiving -= size

    def add_document(self, index: ServedIndex, document: Document) -> Job:
        """Accept a document that is in no file.

        Raises:
            UsageError: its id can't be used. StorageError: it can't be stored. Problem: too much is waiting.
        """
        check_doc_id(document.doc_id)
        self._check_room()
        return self._accept(index, document.doc_id, len(document.text), document=document)

    def _accept(
        self,
        index: ServedIndex,
        doc_id: str,
        size: int,
        *,
        received: Path | None = None,
        document: Document | None = None,
    ) -> Job:
        """Record an upload, put its file in place, and have it indexed."""
        job = Job(uuid.uuid4().hex, index.name, doc_id, total=size)
        record: dict[str, Any] = {"job_id": job.job_id, "doc_id": doc_id}
        if document is not None:
            record["document"] = asdict(document)
        with self._disk, _storing():
            target = uploaded_file(index.path, doc_id)
            if received is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
            write_record(index.path, record)
            if received is not None:
                received.replace(target)
                sync(target.parent)
            else:
                target.unlink(missing_ok=True)  # else an earlier file of this name would be indexed again
        self._put(job)
        self._queues[index.name].put(job.job_id)
        return job

    def _check_room(self) -> None:
        with self._guard:
            waiting = [job for job in self._jobs.values() if not job.ended]
            pending = self._receiving + sum(job.total for job in waiting)
            full = len(waiting) >= self._limits.waiting_uploads or pending > self._limits.pending
        if full:
            raise busy("too many uploads are waiting to be indexed; try again in a few seconds")

    # Jobs

    def find(self, job_id: str) -> Job:
        """Return a job.

        Raises:
            Problem: there is none.
        """
        with self._guard:
            job = self._jobs.get(job_id)
        if job is None:
            raise Problem(404, "unknown-job", "No such job", f"no job {job_id!r}")
        return job

    def all(self, index: str) -> list[Job]:
        """Return the jobs of an index, the newest first."""
        with self._guard:
            return [job for job in reversed(self._jobs.values()) if job.index == index]

    def _put(self, job: Job) -> None:
        with self._guard:
            self._jobs[job.job_id] = job
            ended = [known.job_id for known in self._jobs.values() if known.ended]
            for job_id in ended[:-_REMEMBERED]:
                del self._jobs[job_id]

    # Removing

    def remove(self, index: ServedIndex, doc_id: str) -> int:
        """Remove a document from the index, with its upload if it has one; return how many there were: 1.

        An upload that waits is given up, one that is being indexed is interrupted.

        Raises:
            DocumentNotFound: there is neither. Problem: what is being indexed does not end. StorageError: somebody
                else writes.
        """
        key = (index.name, doc_id)
        self._removed.add(key)
        try:
            if not self._writing[index.name].acquire(timeout=_PATIENCE):
                raise busy("documents are being indexed; try again in a few seconds")
            try:
                waiting = self._withdraw(index, doc_id)
                try:
                    index.engine.documents(doc_ids=[doc_id])
                except DocumentNotFound:
                    if not waiting:
                        raise
                    return 1
                return index.engine.remove(doc_id)
            finally:
                self._writing[index.name].release()
        finally:
            self._removed.discard(key)

    def _withdraw(self, index: ServedIndex, doc_id: str) -> bool:
        """Take back the uploads of a document; return whether one was waiting."""
        with contextlib.suppress(UsageError), _storing(), self._disk:  # what was not uploaded may have any id
            target = uploaded_file(index.path, doc_id)
            target.unlink(missing_ok=True)
            record_file(index.path, doc_id).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # until a folder is not empty
                for folder in target.relative_to(uploads_folder(index.path)).parents[:-1]:
                    (uploads_folder(index.path) / folder).rmdir()
        waiting = [job for job in self.all(index.name) if job.doc_id == doc_id and not job.ended]
        for job in waiting:
            self._put(replace(job, state="failed", error="removed before it was indexed"))
        return bool(waiting)

    # Indexing, on the index's thread

    def _work(self, index: ServedIndex) -> None:
        waiting = self._queues[index.name]
        while not self._stopping.is_set():
            batch = [waiting.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    batch.append(waiting.get_nowait())
            try:
                self._index(index, [job_id for job_id in batch if job_id is not None])
            except Exception as error:  # the thread must not end: later uploads would never be indexed
                _logger.error("%s: uploads could not be indexed", index.name, exc_info=error)

    def _index(self, index: ServedIndex, job_ids: list[str]) -> None:
        """Index some uploads; wait while another process writes."""
        while not self._stopping.is_set():
            jobs = [job for job_id in job_ids if (job := self._jobs.get(job_id)) is not None and not job.ended]
            if not jobs:
                return
            try:
                with self._writing[index.name]:
                    self._add(index, {job.doc_id: job for job in jobs})  # of two of one document the later
                for job in jobs:
                    if not self.find(job.job_id).ended:  # a later upload took its place
                        self._put(replace(job, state="done", report=IndexReport()))
                return
            except _Interrupted:  # the removal gets the lock first
                while self._is_removing(index) and not self._stopping.is_set():
                    self._stopping.wait(_PAUSE)
            except IndexLocked:
                for job in jobs:
                    self._change(job, state="waiting")
                self._stopping.wait(_LOCKED)
            except Exception as error:
                if not isinstance(error, LmkragError):
                    _logger.error("%s: uploads could not be indexed", index.name, exc_info=error)
                for job in jobs:
                    self._end(index, job, error=_describe(error, index))
                return

    def _is_removing(self, index: ServedIndex) -> bool:
        return any(name == index.name for name, _ in self._removed.copy())

    def _add(self, index: ServedIndex, jobs: dict[str, Job]) -> None:
        """Add a batch; each job ends with what became of its document."""
        files: dict[str, Path] = {}
        documents: list[Document] = []
        for doc_id, job in jobs.items():
            self._change(job, state="running")
            try:
                record = json.loads(record_file(index.path, doc_id).read_bytes())
                if "document" in record:
                    documents.append(Document(**record["document"]))
                else:
                    files[doc_id] = uploaded_file(index.path, doc_id)
            except (LmkragError, OSError, ValueError, TypeError) as error:
                self._end(index, job, error=_describe(error, index))
        started: dict[str, int] = {}

        def progress(name: str, done: int, _: int) -> None:
            if self._stopping.is_set() or self._is_removing(index):
                raise _Interrupted
            job = jobs.get(name)
            if job is not None:
                done -= started.setdefault(name, done)
                self._change(job, done=min(done, job.total))

        for source in (files, documents):
            if source:
                report = index.engine.add(source, progress=progress)
                reasons = {one.path: one.reason for one in report.skipped}
                for doc_id in files if source is files else [document.doc_id for document in documents]:
                    self._end(index, jobs[doc_id], error=reasons.get(doc_id), report=report)

    def _change(self, job: Job, **values: Any) -> None:
        known = self.find(job.job_id)
        if not known.ended:
            self._put(replace(known, **values))

    def _end(self, index: ServedIndex, job: Job, *, error: str | None, report: IndexReport | None = None) -> None:
        """Note how a job ended, and forget its record unless a later upload of the document has written another."""
        self._change(job, state="failed" if error else "done", done=job.total, error=error, report=report)
        path = record_file(index.path, job.doc_id)
        with self._disk, contextlib.suppress(OSError, ValueError):
            if json.loads(path.read_bytes())["job_id"] == job.job_id:
                path.unlink()

    def close(self) -> None:
        """Stop after the document that is being encoded; the next server goes on with what is not whole."""
        self._stopping.set()
        for waiting in self._queues.values():
            waiting.put(None)
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"the upload can't be stored ({error.strerror or error})") from error


def _describe(error: Exception, index: ServedIndex) -> str:
    """An error as clients may see it."""
    return (
        str(index.to_problem(error)) if isinstance(error, LmkragError) else "this is a bug; the server's log says more"
    )
