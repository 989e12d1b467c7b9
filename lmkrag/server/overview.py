"""The first screen of an index: questions that it answers, its latest documents and its folders."""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lmkrag.engine import Engine
from lmkrag.evidence.suggestions import NOT_PROSE, Suggestion, suggest
from lmkrag.search.outline import Heading
from lmkrag.server.indexes import ServedIndex
from lmkrag.server.problems import Problem
from lmkrag.types import DocumentInfo

_QUESTIONS = 3
_PAUSE = 0.5  # seconds before each is tried, in which people ask
_RECENT = 6  # documents
_HEADED = 12  # documents whose headings are made questions
_FOLDERS = 12
_LEGAL = re.compile(r"licen[cs]e|copying|notice|changelog|authors|makefile", re.IGNORECASE)


@dataclass(slots=True)
class Overview:
    """What the first screen shows; ``preparing`` while questions are tried.

    ``questions`` are made of headings, each with a strong or likely answer from under its heading.
    ``recent`` has the documents that were changed last, ``folders`` how many documents lie in each
    of the largest folders.
    """

    recent: list[DocumentInfo]
    folders: dict[str, int]
    questions: list[str] = field(default_factory=list)
    preparing: bool = False


class Overviews:
    """The overviews of indexes. State: each with its index's generation, and the running task."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Overview, asyncio.Task[None]]] = {}
        self._turn = asyncio.Lock()  # one question is tried at a time

    async def read(self, index: ServedIndex, *, indexing: bool) -> Overview:
        """Return the overview of an index; questions are tried in the background, unless the index
        is growing. Raises Problem: it can't be read.
        """
        generation = await index.run(lambda engine: engine.status().generation)
        known = self._known.get(index.name)
        if known and known[0] == generation:
            return known[1]
        recent, folders, suggestions = await index.run(_describe)
        overview = Overview(recent, folders)
        if not indexing:
            overview.preparing = bool(suggestions)
            if index.name in self._known:
                self._known[index.name][2].cancel()
            trying = asyncio.create_task(self._try(index, overview, suggestions))
            self._known[index.name] = generation, overview, trying
        return overview

    async def _try(
        self, index: ServedIndex, overview: Overview, suggestions: Sequence[Suggestion]
    ) -> None:
        """Ask questions one after the other, and keep the first that are answered well."""
        # where the index is busy or gone, fewer questions are shown
        with contextlib.suppress(Problem):
            answered: set[Heading] = set()
            for suggestion in suggestions:
                if len(answered) == _QUESTIONS:
                    break
                if suggestion.heading in answered:
                    continue
                async with self._turn:
                    await asyncio.sleep(_PAUSE)
                    if await index.run(suggestion.is_answered):
                        answered.add(suggestion.heading)
                        overview.questions.append(suggestion.question)
        overview.preparing = False


def _describe(engine: Engine) -> tuple[list[DocumentInfo], dict[str, int], list[Suggestion]]:
    """Return the latest documents, the largest folders with their numbers of documents, and
    questions that are still to be tried.
    """
    infos = engine.documents()
    own = list(filter(_is_own, infos)) or infos
    latest = sorted(own, key=_rank, reverse=True)
    tops = Counter(info.doc_id.partition("/")[0] for info in infos if "/" in info.doc_id)
    folders = dict(tops.most_common(_FOLDERS))
    return latest[:_RECENT], folders, suggest(engine, latest[:_HEADED])


def _is_own(info: DocumentInfo) -> bool:
    """Whether a document is no legal text and no build file, which every project has."""
    name = info.doc_id.rpartition("/")[2]
    return "." in name and not _LEGAL.match(name)


def _rank(info: DocumentInfo) -> tuple[str, bool, int]:
    """What is shown first: the latest day, then prose, then long texts."""
    return info.modified[:10], info.kind not in NOT_PROSE, info.sentences
