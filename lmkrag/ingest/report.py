"""The counts and the progress of an ingestion run, and the documents that it encodes."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lmkrag.formats.scans import SCANNED
from lmkrag.index.catalog import DocumentRow, SkippedFile
from lmkrag.index.staged import SentenceTable, Staged, WindowTable
from lmkrag.sentences.languages import document_language
from lmkrag.sentences.structure import ParagraphTracker
from lmkrag.specs import CODE, ENGLISH, Text
from lmkrag.system.files import FileStamp
from lmkrag.types import Document, IndexReport, Skipped

Progress = Callable[[str, int, int], None]
"""Gets the document being encoded, bytes done, and total bytes or 0."""

_QUIET = 1.0  # seconds before a notebook shows the progress of a run

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SourceDocument:
    """A document on its way through the encoder.

    Attributes:
        document: the document, whose own text may be empty if ``text`` is on disk.
        text: the text, in memory or on disk.
        root: the directory that was indexed; empty for a document that was given by itself.
        stamp: size and time of its file.
        sentences: the sentences that were encoded so far.
        windows: the windows that they were read in.
        paragraphs: counts the positions of sentences in paragraphs.
        replaces: attachments of its earlier version that it no longer has.
        is_attachment: whether its file's document follows, with which it is committed.
        language: its language (ISO 639-1), or ``code``.
    """

    document: Document
    text: Text  # its own, or on disk
    root: str
    stamp: FileStamp
    sentences: SentenceTable = field(default_factory=SentenceTable)
    windows: WindowTable = field(default_factory=WindowTable)
    paragraphs: ParagraphTracker = field(init=False)
    replaces: tuple[str, ...] = ()  # attachments of its earlier version that it no longer has
    # the document with it comes after it, and both are committed together
    is_attachment: bool = False
    language: str = field(init=False)

    def __post_init__(self) -> None:
        self.language = document_language(self.text, self.document.kind)
        self.paragraphs = ParagraphTracker(self.document.kind)

    @property
    def share(self) -> float:
        """The encoded share of the text, from 0 to 1."""
        return self.sentences.length / max(1, len(self.text))


@contextmanager
def show_progress() -> Iterator[Progress | None]:
    """Yield a function that shows progress: a bar on a terminal, a line in a notebook.

    Yields:
        A function of (document, bytes done, bytes in all or 0); None if there is no terminal and no
            notebook.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):
        yield _show_line()
    elif sys.stderr.isatty():
        from rich import progress as rich
        from rich.console import Console

        with rich.Progress(
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(),
            rich.DownloadColumn(),
            rich.TransferSpeedColumn(),
            rich.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as bar:
            task = bar.add_task("looking for changes", total=None)

            def update(name: str, done: int, total: int) -> None:
                shown = "".join(filter(str.isprintable, name))[-30:]
                bar.update(task, description=shown, completed=done, total=total or None)

            yield update
    else:
        yield None


def _show_line() -> Progress:
    """Return a function that shows a line in a notebook once a run takes a while."""
    from IPython import display as ipython  # it has no types

    show: Any = ipython.display
    handle: Any = None
    due = time.monotonic() + _QUIET

    def update(name: str, done: int, total: int) -> None:
        nonlocal handle, due
        is_last = done == total
        if time.monotonic() < due and not (handle and is_last):
            return
        due = time.monotonic() + _QUIET / 5
        share = f"{done / total:.0%}" if total else f"{done / 1e6:,.1f} MB"
        line = {"text/plain": f"indexed {share}" + ("" if is_last else f", now {name}")}
        if handle is None:
            handle = show(line, raw=True, display_id=True)
        else:
            handle.update(line, raw=True)

    return update


class Run:
    """The counts of one run, and its progress in bytes of its sources.

    Attributes:
        known: the documents of the index before the run, by ``doc_id``.
        added: number of new documents, committed so far; ``updated``, ``unchanged``, ``sentences``
            and ``characters`` alike.
        removed: names of documents to remove at the end.
        skipped: sources that can't be indexed, with reasons.
        touched: row ids of unchanged documents, and the stamps that their files have.
        unreadable: files to remember, so that they are not read again.
        warnings: sentences for the user.
        total: bytes of all sources; 0 while they are unknown.
        foreign: number of documents in languages other than English.
    """

    def __init__(self, known: dict[str, DocumentRow], progress: Progress | None = None) -> None:
        """Begin to count.

        Args:
            known: the documents of the index, by ``doc_id``.
            progress: called with (document, bytes done, bytes in all or 0); None for no reports.
        """
        self.known = known
        self.added = self.updated = self.unchanged = self.sentences = self.characters = 0
        self.removed: list[str] = []
        self.removed_already = 0  # attachments that their files no longer have
        # pages that only OCR can read, and documents with some
        self.unread_pages = self.unread_documents = 0
        self.skipped: list[Skipped] = []
        self.touched: list[tuple[int, FileStamp]] = []
        self.unreadable: list[SkippedFile] = []
        self.warnings: list[str] = []
        self.total = self.foreign = 0  # bytes of sources, documents in languages other than English
        self._progress = progress
        # bytes of finished sources, and of the document being encoded
        self._done = self._inside = 0
        self._began = time.monotonic()

    def skip(self, doc_id: str, reason: str, *, size: int = 0) -> None:
        """Count a source that can't be indexed.

        Args:
            doc_id: name of the document.
            reason: why, in one line.
            size: bytes of the source, which count as done.
        """
        _logger.info("%s: skipped: %s", doc_id, reason)
        self.skipped.append(Skipped(doc_id, reason))
        self.advance(doc_id, size)

    def advance(self, doc_id: str, size: int) -> None:
        """Count ``size`` bytes of a finished source."""
        self._done += size
        self._report(doc_id)

    def track(self, item: SourceDocument) -> None:
        """Report the encoded share of a document."""
        self._inside = int(item.share * item.stamp.size)
        self._report(item.document.doc_id)

    def finish(self, item: SourceDocument) -> None:
        """Count a document that is encoded to its end."""
        self._inside = 0
        if item.language not in (ENGLISH, CODE):
            self.foreign += 1
        self.advance(item.document.doc_id, item.stamp.size)

    def count_commit(self, staged: list[Staged]) -> None:
        """Count the documents of a commit."""
        for item in staged:
            if item.document.doc_id in self.known:
                self.updated += 1
            else:
                self.added += 1
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
            documents = self.unread_documents
            warnings.append(
                f"{pages} page{'' if pages == 1 else 's'} of {documents} "
                f"document{'' if documents == 1 else 's'} without readable text: "
                "pip install 'lmkrag[ocr]' reads them"
            )
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
