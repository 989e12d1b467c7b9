"""Uploads: files that clients send are stored beside the index, and indexed by one worker.

An upload is accepted once its file is in the folder (:mod:`lmkrag.server.upload_folder`). Files
there that are not indexed, after a crash or because somebody put them there, are indexed when the
server starts. The worker alone writes to the indexes.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import asdict

from lmkrag.errors import DocumentNotFound, IndexLocked, LmkragError, UsageError
from lmkrag.index.location import is_address
from lmkrag.server.indexes import ServedIndex, ServedIndexes
from lmkrag.server.problems import Problem, busy
from lmkrag.server.settings import ServerLimits
from lmkrag.server.upload_folder import UploadFolder
from lmkrag.server.upload_jobs import Interrupted, UploadJob, index_jobs
from lmkrag.types import Document

_KEPT_JOBS = 200  # jobs that have ended
_PAUSE = 0.5  # seconds before uploads are indexed that another writer kept waiting
_PATIENCE = 20.0  # seconds that a removal waits for the worker
_logger = logging.getLogger(__name__)


class Uploads:
    """Accepts uploads. State: the recent jobs, those that wait, and the worker with its queue."""

    def __init__(self, indexes: ServedIndexes, limits: ServerLimits) -> None:
        """Index what lies in the folders. Raises UsageError: an index is on Qdrant."""
        self._limits = limits
        self._jobs: dict[str, UploadJob] = {}
        self._folders: dict[ServedIndex, UploadFolder] = {}
        self._waiting: defaultdict[ServedIndex, deque[UploadJob]] = defaultdict(deque)
        for index in indexes.by_name.values():
            if is_address(index.path):
                raise UsageError(
                    f"{index.name}: uploads are for directories; lmkrag index PATH adds "
                    "to one on Qdrant"
                )
            self._folders[index] = UploadFolder(index.path)
        self._urgent: list[object] = []  # what a batch makes way for: removals, and the end
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="lmkrag-add")
        for index in self._folders:
            self._worker.submit(self._index_folder, index)

    async def add_document(self, index: ServedIndex, document: Document) -> UploadJob:
        """Accept a document that is in no file; returns and raises what :meth:`receive` does."""

        async def body() -> AsyncIterator[bytes]:
            yield json.dumps(asdict(document)).encode()

        return await self.receive(index, document.doc_id, body(), is_json=True)

    async def receive(
        self, index: ServedIndex, doc_id: str, body: AsyncIterator[bytes], *, is_json: bool = False
    ) -> UploadJob:
        """Accept an upload, of which ``body`` has the bytes; return the job that indexes it.

        Args:
            index: the index to add it to.
            doc_id: a relative path, whose suffix tells the format of the file.
            body: the bytes, piece by piece.
            is_json: whether they are a document as JSON.

        Raises:
            UsageError: no upload can have this id.
            StorageError: the upload can't be stored.
            Problem: too many uploads wait.
        """
        folder, job = self._folders[index], UploadJob(doc_id)
        folder.find_places(doc_id)  # refuses an id before anything is received
        self._jobs[job.job_id] = job
        try:
            self._check_room()
            with folder.receiving(job.job_id) as received:
                with received.open("wb") as file:
                    async for piece in body:
                        file.write(piece)
                        job.total += len(piece)
                        self._check_room()
                await asyncio.to_thread(folder.accept, received, doc_id, is_json=is_json)
        except BaseException:
            del self._jobs[job.job_id]
            raise
        self._waiting[index].append(job)
        self._index_later(index)
        return job

    def _check_room(self) -> None:
        """Refuse uploads beyond the limits, and forget old jobs."""
        for job_id in [job.job_id for job in self._jobs.values() if job.ended][:-_KEPT_JOBS]:
            del self._jobs[job_id]
        waiting = [job.total for job in self._jobs.values() if not job.ended]
        if len(waiting) > self._limits.waiting_uploads or sum(waiting) > self._limits.pending:
            raise busy("too many uploads are waiting to be indexed; try again in a few seconds")

    def find(self, job_id: str) -> UploadJob:
        """Return a job. Raises Problem: there is none."""
        if job_id in self._jobs:
            return self._jobs[job_id]
        raise Problem(404, "unknown-job", f"no job {job_id!r}")

    def remove(self, index: ServedIndex, doc_id: str) -> int:
        """Remove a document, with its upload and waiting jobs; return how many there were: 1.

        Raises:
            DocumentNotFound: there is neither a document nor an upload.
            Problem: the running batch does not make way in time.
            StorageError: another process writes, or the file can't be removed.
        """
        removal = self._worker.submit(self._remove, index, doc_id)
        self._urgent.append(removal)
        try:
            return removal.result(_PATIENCE)
        except (TimeoutError, CancelledError):  # the latter as the server stops
            if removal.cancel():
                raise busy("documents are being indexed; try again in a few seconds") from None
            return removal.result()  # it has begun
        finally:
            self._urgent.remove(removal)

    def close(self) -> None:
        """Stop after the current document; the next server continues with the rest."""
        self._urgent.append("the end")
        self._worker.shutdown(cancel_futures=True)

    def _remove(self, index: ServedIndex, doc_id: str) -> int:
        folder = self._folders[index]
        try:
            index.engine.documents(doc_ids=[doc_id])  # no lock is needed to see that it is absent
        except DocumentNotFound:
            if folder.remove(doc_id):
                return 1
            raise
        count = index.engine.remove(doc_id)
        folder.remove(doc_id)
        return count

    def _index_later(self, index: ServedIndex) -> None:
        with contextlib.suppress(RuntimeError):  # closed: the next server does it
            self._worker.submit(self._index, index)

    def _index_folder(self, index: ServedIndex) -> None:
        """Index all uploads of an index; those that are indexed already cost little."""
        self._waiting[index].extend(map(UploadJob, self._folders[index].list_ids()))
        self._index(index)

    def _index(self, index: ServedIndex) -> None:
        """Index all uploads that wait, together; those that can't be indexed yet wait again."""
        waiting, error = self._waiting[index], None
        jobs = [waiting.popleft() for _ in range(len(waiting))]
        try:
            index_jobs(index.engine, self._folders[index], jobs, self._urgent)
        except Interrupted:
            pass
        except IndexLocked:
            time.sleep(_PAUSE)
        except LmkragError as failure:
            error = str(index.to_problem(failure))
        except Exception:  # or nobody would learn of it
            error = "this is a bug; the server's log says more"
            _logger.exception("%s: uploads could not be indexed", index.name)
        for job in jobs:
            if job.ended:
                continue
            if error is None:
                job.state = "waiting"
                waiting.append(job)
            else:
                job.end(error=error)
        if waiting:
            self._index_later(index)
