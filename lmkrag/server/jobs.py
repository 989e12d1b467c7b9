"""Documents that are being added: stored before the request ends, indexed one after the other, resumed after a crash.

What is uploaded lies beside the index, in ``INDEX.uploads``: files under the names of their documents, and for every
job that is not done a record of it. So a job is never lost once it was accepted.
"""

import contextlib
import json
import logging
import os
import queue
import shutil
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from lmkrag.corpus.isolated import IsolatedLoader
from lmkrag.engine import Engine
from lmkrag.errors import DocumentError, IndexLocked, LmkragError, StorageError, UsageError
from lmkrag.retrieval.filters import quote
from lmkrag.server.indexes import ServedIndex, ServedIndexes
from lmkrag.server.problems import Problem
from lmkrag.types import ATTACHED_TO, Document, IndexReport, Skipped

_REMEMBERED = 200  # jobs that are done
_LOCKED = 2.0  # seconds until somebody else who writes is asked again
_LONGEST_NAME = 200  # bytes of a file's or folder's name
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """A document on its way into an index. ``done`` and ``total`` are bytes; ``total`` is 0 until it is known."""

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


class _Stopped(Exception):
    """The server stops; what is not whole is encoded again next time."""


def uploads_folder(index: Path) -> Path:
    """Return where what is uploaded into an index is kept: beside it."""
    return index.with_name(index.name + ".uploads")


def check_doc_id(doc_id: str) -> PurePosixPath:
    """Return the path below the uploads that a document's file gets.

    Raises:
        UsageError: the id can't be a path that stays there.
    """
    path = PurePosixPath(doc_id)
    bad = (
        not doc_id.strip()
        or path.is_absolute()
        or str(path) != doc_id
        or any(part in ("..", ".") or part.startswith(".") for part in path.parts)
        or any(len(part.encode("utf-8", "surrogatepass")) > _LONGEST_NAME for part in path.parts)
        or len(path.parts) > 32
        or not doc_id.isprintable()
        or "\\" in doc_id
    )
    if bad:
        raise UsageError(f"{doc_id[:100]!r} can't be the id of an upload: use a relative path such as notes/today.md")
    return path


class Jobs:
    """Adds documents to indexes, one at a time for each. State: a thread for each index, and what is known of jobs."""

    def __init__(self, indexes: ServedIndexes) -> None:
        """Take up the jobs that an earlier server left."""
        self._guard = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._stopping = threading.Event()
        self._queues: dict[str, queue.Queue[str | None]] = {}
        self._threads = []
        for index in indexes.by_name.values():
            waiting: queue.Queue[str | None] = queue.Queue()
            self._queues[index.name] = waiting
            for record in _read_records(index.path):
                self._put(Job(record["job_id"], index.name, record["doc_id"]))
                waiting.put(record["job_id"])
            thread = threading.Thread(target=self._work, args=(index, waiting), name=f"lmkrag-add-{index.name}")
            thread.start()
            self._threads.append(thread)

    def add_document(self, index: ServedIndex, document: Document) -> Job:
        """Accept a document that is in no file.

        Raises:
            UsageError: its id can't be used. StorageError: it can't be stored.
        """
        check_doc_id(document.doc_id)
        record = {"document": asdict(document) | {"meta": dict(document.meta)}}
        return self._accept(index, document.doc_id, record)

    def add_file(self, index: ServedIndex, doc_id: str, data: bytes) -> Job:
        """Accept a file, whose name is the end of ``doc_id``.

        Raises:
            UsageError: its id can't be used. StorageError: it can't be stored.
        """
        check_doc_id(doc_id)
        job_id = uuid.uuid4().hex
        with _storing():
            _write(_staged_file(index.path, job_id, doc_id), data)
        return self._accept(index, doc_id, {"size": len(data)}, job_id)

    def _accept(self, index: ServedIndex, doc_id: str, record: dict[str, Any], job_id: str | None = None) -> Job:
        job = Job(job_id or uuid.uuid4().hex, index.name, doc_id, total=record.get("size", 0))
        record |= {"job_id": job.job_id, "doc_id": doc_id, "time": time.time()}
        with _storing():
            _write(_record_file(index.path, job.job_id), json.dumps(record).encode())
        self._put(job)
        self._queues[index.name].put(job.job_id)
        return job

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

    def close(self) -> None:
        """Stop after what is being encoded; what is not whole is taken up by the next server."""
        self._stopping.set()
        for waiting in self._queues.values():
            waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _put(self, job: Job) -> None:
        with self._guard:
            self._jobs[job.job_id] = job
            ended = [known.job_id for known in self._jobs.values() if known.ended]
            for job_id in ended[:-_REMEMBERED]:
                del self._jobs[job_id]

    # On the index's thread

    def _work(self, index: ServedIndex, waiting: "queue.Queue[str | None]") -> None:
        with IsolatedLoader() as loader:
            while (job_id := waiting.get()) is not None and not self._stopping.is_set():
                try:
                    self._run(index, self.find(job_id), loader)
                except _Stopped:
                    return

    def _run(self, index: ServedIndex, job: Job, loader: IsolatedLoader) -> None:
        """Do a job, note how it ended, and forget its record unless the next server should try again."""
        try:
            report = self._add(index, job, loader)
        except _Stopped:
            raise
        except Exception as error:
            if not isinstance(error, LmkragError):
                _logger.error("%s: job %s failed", index.name, job.job_id, exc_info=error)
            self._change(job, state="failed", error=str(error).replace(str(index.path), index.name))
            if isinstance(error, StorageError | OSError):
                return  # such as a full disk
        else:
            reason = next((one.reason for one in report.skipped if one.path == job.doc_id), None)
            self._change(job, state="failed" if reason else "done", error=reason, report=report)
        _record_file(index.path, job.job_id).unlink(missing_ok=True)
        shutil.rmtree(_staged_file(index.path, job.job_id, job.doc_id).parent, ignore_errors=True)

    def _add(self, index: ServedIndex, job: Job, loader: IsolatedLoader) -> IndexReport:
        """Add one document and its attachments; wait while somebody else writes."""
        document, attached, unread = _load(index.path, job, loader)

        def progress(_: str, done: int, total: int) -> None:
            if self._stopping.is_set():
                raise _Stopped
            self._change(job, done=done, total=max(total, self.find(job.job_id).total))

        while not self._stopping.is_set():
            self._change(job, state="running", total=len(document.text))
            try:
                _remove_old_attachments(index.engine, document, attached)
                report = index.engine.add([*attached, document], progress=progress)
                return replace(report, skipped=(*report.skipped, *unread))
            except IndexLocked:
                self._change(job, state="waiting")
                self._stopping.wait(_LOCKED)
        raise _Stopped

    def _change(self, job: Job, **values: Any) -> None:
        self._put(replace(self.find(job.job_id), **values))


@contextlib.contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"the upload can't be stored ({error.strerror or error})") from error


def _remove_old_attachments(engine: Engine, document: Document, attached: Sequence[Document]) -> None:
    if document.kind != "mail":
        return
    new = {one.doc_id for one in attached}
    old = [one.doc_id for one in engine.documents(filter=f"{ATTACHED_TO}={quote(document.doc_id)}")]
    if gone := [doc_id for doc_id in old if doc_id not in new]:
        engine.remove(gone)


def _load(index: Path, job: Job, loader: IsolatedLoader) -> tuple[Document, list[Document], list[Skipped]]:
    """A job's document, what is attached to it, and which of that can't be read."""
    record = json.loads(_record_file(index, job.job_id).read_bytes())
    if "document" in record:
        return Document(**{**record["document"], "page_starts": tuple(record["document"]["page_starts"])}), [], []
    target = uploads_folder(index) / check_doc_id(job.doc_id)
    staged = _staged_file(index, job.job_id, job.doc_id)
    if staged.exists():  # else an earlier server got further
        loaded = loader.load_with_attachments(staged, job.doc_id)  # before it takes the place of an older file
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.parent.resolve().is_relative_to(uploads_folder(index).resolve()):
            raise UsageError(f"{job.doc_id!r} leads out of the uploads")
        if target.is_dir():
            raise DocumentError(f"{job.doc_id!r} is a folder of uploads")
        staged.replace(target)
    else:
        loaded = loader.load_with_attachments(target, job.doc_id)
    document, attached, unread = loaded
    path = str(target.resolve())
    return replace(document, path=path), [replace(one, path=path) for one in attached], unread


def _record_file(index: Path, job_id: str) -> Path:
    return uploads_folder(index) / ".jobs" / f"{job_id}.json"


def _staged_file(index: Path, job_id: str, doc_id: str) -> Path:
    return uploads_folder(index) / ".jobs" / job_id / PurePosixPath(doc_id).name


def _read_records(index: Path) -> list[dict[str, Any]]:
    """The jobs that were accepted and are not done, the oldest first."""
    records = []
    for path in (uploads_folder(index) / ".jobs").glob("*.json"):
        try:
            record = json.loads(path.read_bytes())
            records.append({"job_id": record["job_id"], "doc_id": record["doc_id"], "time": record["time"]})
        except (ValueError, KeyError):
            _logger.warning("%s: not the record of a job; left alone", path)
    return sorted(records, key=lambda record: record["time"])


def _write(path: Path, data: bytes) -> None:
    """Write a file that is whole or not there, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
