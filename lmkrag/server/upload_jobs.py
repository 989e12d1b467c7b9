"""The jobs of uploads, and how a batch of them is indexed."""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lmkrag.engine import Engine
from lmkrag.server.upload_folder import UploadFolder, read_document
from lmkrag.types import Document, IndexReport


class Interrupted(Exception):
    """A batch has made way before all of its jobs have ended."""


@dataclass(slots=True)
class UploadJob:
    """An upload on its way into an index; of ``total`` bytes ``done`` are encoded."""

    doc_id: str
    job_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: Literal["waiting", "running", "done", "failed"] = "waiting"
    done: int = 0
    total: int = 0
    error: str | None = None
    report: IndexReport | None = None

    @property
    def ended(self) -> bool:
        """Whether there is an ``error`` or a ``report``."""
        return self.state in ("done", "failed")

    def end(self, *, error: str | None = None, report: IndexReport | None = None) -> None:
        """Record the outcome, the state last: other threads read the rest once it has changed."""
        self.done, self.error, self.report = self.total, error, report
        self.state = "failed" if error else "done"


def index_jobs(
    engine: Engine, folder: UploadFolder, jobs: Sequence[UploadJob], urgent: Collection[object]
) -> None:
    """Index the files that a folder has now; each job ends with the outcome of its document.

    Args:
        engine: the index.
        folder: its uploads.
        jobs: uploads of this index; several may be of one document.
        urgent: other work, for which the batch makes way while documents are encoded.

    Raises:
        Interrupted: the batch has made way.
        LmkragError: as :meth:`lmkrag.Engine.add` does.
    """
    files: dict[str, Path] = {}
    documents: dict[str, Document] = {}
    for job in jobs:
        job.state = "running"
        path = folder.find(job.doc_id)
        if path is None:
            job.end(error="removed before it was indexed")
            continue
        try:
            document = read_document(path)
        except ValueError:  # somebody has put it there
            job.end(error=f"its file {path.name} is damaged")
            continue
        if document is None:
            files[job.doc_id] = path
        else:
            documents[job.doc_id] = document
    latest = {job.doc_id: job for job in jobs}
    offsets: dict[str, int] = {}

    def progress(doc_id: str, done: int, _: int) -> None:
        if urgent:
            raise Interrupted
        if doc_id in latest:
            job = latest[doc_id]
            job.done = min(done - offsets.setdefault(doc_id, done), job.total)

    for doc_ids, source in ((files, files), (documents, documents.values())):
        if doc_ids:
            report = engine.add(source, progress=progress)
            reasons = {skipped.path: skipped.reason for skipped in report.skipped}
            for job in jobs:
                if job.doc_id in doc_ids:
                    job.end(error=reasons.get(job.doc_id), report=report)
