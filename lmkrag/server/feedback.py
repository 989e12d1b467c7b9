"""Verdicts on results: kept beside the index, one JSON line each, the last one on a place counts."""

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from lmkrag.errors import StorageError, UsageError

MAX_BYTES = 16 << 20
"""Size of a file of verdicts to which nothing is added."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a place answers a question: ``up``, ``down``, or ``none`` where an earlier verdict was taken back.

    ``quote`` is the text of the place when it was judged.
    """

    question: str
    doc_id: str
    start: int
    end: int
    quote: str
    verdict: str
    time: str = ""

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What is judged."""
        return self.question, self.doc_id, self.start, self.end


def feedback_file(index: Path) -> Path:
    """Return where the verdicts on an index's results are: beside it, so that they outlive it."""
    index = index.resolve()  # "." has no name
    return index.with_name(index.name + ".feedback.jsonl")


def read_verdicts(index: Path) -> list[Verdict]:
    """Return the verdicts on an index's results that count.

    Raises:
        UsageError: there are none. StorageError: the file is damaged.
    """
    path = feedback_file(index)
    if not path.is_file():
        raise UsageError(f"{path}: no feedback yet; it is given on the page of lmkrag serve")
    return list(_last_verdicts(path))


def _last_verdicts(path: Path) -> Iterator[Verdict]:
    last: dict[tuple[str, str, int, int], Verdict] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            verdict = Verdict(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise StorageError(f"{path}, line {number}: not a verdict ({error})") from error
        last.pop(verdict.key, None)
        last[verdict.key] = verdict
    return (verdict for verdict in last.values() if verdict.verdict != "none")


class FeedbackFiles:
    """Writes verdicts and reads those on one question. May be shared by threads."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._guard = threading.Lock()

    def add(self, index: Path, verdict: Verdict) -> None:
        """Store a verdict.

        Raises:
            StorageError: the file can't be written.
        """
        record = asdict(verdict) | {"time": datetime.now(UTC).isoformat(timespec="seconds")}
        line = json.dumps(record, ensure_ascii=False) + "\n"
        path = feedback_file(index)
        try:
            with self._guard, path.open("ab") as file:
                if file.tell() > MAX_BYTES:
                    raise StorageError(
                        f"{path.name} holds {MAX_BYTES >> 20} MiB of feedback: export it, and move it away"
                    )
                file.write(line.encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise StorageError(f"feedback can't be stored ({error.strerror or error})") from error

    def find(self, index: Path, question: str) -> list[Verdict]:
        """Return the verdicts on what was found for a question."""
        path = feedback_file(index)
        if not path.is_file():
            return []
        with self._guard:
            return [verdict for verdict in _last_verdicts(path) if verdict.question == question]
