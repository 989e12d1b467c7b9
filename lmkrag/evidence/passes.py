"""What a pass over results gets: it returns them in another order, or marked, with its notes."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lmkrag.formats.pages import Pages
from lmkrag.index.snapshot import Snapshot
from lmkrag.language.question import Question
from lmkrag.results import SpanList
from lmkrag.search.request import SearchRequest


class SearchContext(NamedTuple):
    """The search that results are of.

    Attributes:
        snapshot: the state of the index in which they were found.
        question: what they answer.
        request: the options of the search.
        pages: finds text on the pages of files.
        index_path: the index as a command names it; None where clients learn of no folder.
    """

    snapshot: Snapshot
    question: Question
    request: SearchRequest
    pages: Pages
    index_path: Path | str | None


Pass = Callable[[SpanList, SearchContext], SpanList]
"""Takes the results of a search, best first, and returns them in another order, or marked."""
