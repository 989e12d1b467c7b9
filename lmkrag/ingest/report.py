"""What a run of ingestion has done so far, and how far it has come."""

import logging
import time
from collections.abc import Callable

from lmkrag.formats.scans import SCANNED
from lmkrag.index.catalog import DocumentRow, SkippedFile
from lmkrag.index.staged import Staged
from lmkrag.ingest.pipeline import SourceDocument
from lmkrag.specs import CODE, ENGLISH
from lmkrag.system import FileStamp
from lmkrag.types import IndexReport, Skipped

Progress = Callable[[str, int, int], None]
"""Called with the name of the document that is being encoded, bytes done, and bytes in all, 0 if that is unknown."""

_logger = logging.getLogger(__name__)


class Run:
    """The counts of one run, and its progress in bytes of its sources."""

    def __init__(self, known: dict[str, DocumentRow], progress: Progress | None = None) -> None:
        self.known = known
        self.added = self.updated = self.unchanged = self.sentences = self.characters = 0
        self.removed: list[str] = []
        self.removed_already = 0  # attachments that their files no longer have
        self.unread_pages = self.unread_documents = 0  # pages that only OCR can read, and documents with some
        self.skipped: list[Skipped] = []
        self.touched: list[tuple[int, FileStamp]] = []  # document rows and the stamps that their files have now
        self.unreadable: list[SkippedFile] = []
        self.warnings: list[str] = []
        self.total = self.foreign = 0  # bytes of sources, documents in other languages than English
        self._progress = progress
        self._done = self._inside = 0  # of sources that are done with, of the document that is being encoded
        self._began = time.monotonic()

    def skip(self, doc_id: str, reason: str, *, size: int = 0) -> None:
        """A document can't be indexed."""
        _logger.info("%s: skipped: %s", doc_id, reason)
        self.skipped.append(Skipped(doc_id, reason))
        self.advance(doc_id, size)

    def advance(self, doc_id: str, size: int) -> None:
        """A source of ``size`` bytes is done."""
        self._done += size
        self._report(doc_id)

    def encoded(self, item: SourceDocument) -> None:
        """A part of a document is encoded."""
        self._inside = int(item.share * item.stamp.size)
        self._report(item.document.doc_id)

    def finished(self, item: SourceDocument) -> None:
        """A document is whole."""
        self._inside = 0
        self.foreign += item.language not in (ENGLISH, CODE)
        self.advance(item.document.doc_id, item.stamp.size)

    def committed(self, staged: list[Staged]) -> None:
        """Documents are durable."""
        for item in staged:
            new = item.document.doc_id not in self.known
            self.added += new
            self.updated += not new
            self.sentences += len(item.sentences)
            self.characters += len(item.text)
            self.removed_already += len(item.replaces)
            if item.document.meta.get(SCANNED) and "ocr_confidence" not in item.document.meta:
                self.unread_pages += len(item.document.meta[SCANNED])
                self.unread_documents += 1

    def _report(self, doc_id: str) -> None:
        if self._progress is not None:
            self._progress(doc_id, self._done + self._inside, self.total)

    def report(self) -> IndexReport:
        """Return the counts."""
        warnings = list(self.warnings)
        if pages := self.unread_pages:
            counted = f"{pages} page{'s' * (pages > 1)} of {self.unread_documents} document"
            counted += "s" * (self.unread_documents > 1)
            warnings.append(f"{counted} without readable text: pip install 'lmkrag[ocr]' reads them")
        return IndexReport(
            added=self.added,
            updated=self.updated,
            unchanged=self.unchanged,
            removed=len(self.removed) + self.removed_already,
            skipped=tuple(self.skipped),
            sentences=self.sentences,
            characters=self.characters,
            seconds=time.monotonic() - self._began,
            warnings=tuple(warnings),
        )
