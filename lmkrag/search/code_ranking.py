"""Source code: definitions before uses, tests and generated or foreign files after the rest."""

import re
from typing import TYPE_CHECKING

import numpy as np

from lmkrag.corpus.code_lines import DEFINITION
from lmkrag.search.candidates import Candidates

if TYPE_CHECKING:
    from lmkrag.search.results import Views

_IDENTIFIER = re.compile(r"(?<![\w.])[A-Za-z]\w*(?:_\w+|(?<=[a-z\d])[A-Z]\w*)+|\b[A-Za-z_]\w*(?=\(\))")
_ABOUT_SECONDARY = re.compile(r"\b(?:tests?|tested|testing|fixtures?|mock\w*|vendor\w*|generated)\b", re.IGNORECASE)
_SECONDARY = re.compile(
    r"(?:^|/)(?:tests?|testing|__tests__|spec|_?vendor(?:ed)?|third[_-]party|node_modules|dist|generated)/"
    r"|(?:^|/)(?:test_[^/]*|conftest|[^/]*(?:[._-](?:test|spec|min|generated|pb2?)))\.\w+$",
    re.IGNORECASE,
)


def find_identifiers(question: str) -> tuple[str, ...]:
    """Return the names of a question that are written as in source code; all of it if it is a single name.

    >>> find_identifiers("where is getUserById used, and close()?"), find_identifiers("retry")
    (('getUserById', 'close'), ('retry',))
    """
    alone = question.strip()
    if re.fullmatch(r"[A-Za-z_]\w*", alone):
        return (alone,)
    return tuple(dict.fromkeys(match[0] for match in _IDENTIFIER.finditer(question)))


def asks_of_tests(question: str) -> bool:
    """Return whether a question is about tests, or files that were generated or copied from elsewhere."""
    return _ABOUT_SECONDARY.search(question) is not None


def is_secondary(doc_id: str) -> bool:
    """Return whether a file of source code is a test, was generated, or was copied from elsewhere.

    >>> is_secondary("src/app_test.go"), is_secondary("tests/data.py"), is_secondary("src/testament.py")
    (True, True, False)
    """
    return _SECONDARY.search(doc_id) is not None


def rank_code(candidates: Candidates, views: "Views", identifiers: tuple[str, ...], *, of_tests: bool) -> Candidates:
    """Return candidates whose scores tell definitions of a question's names from uses, and secondary files.

    Args:
        candidates: of a search.
        views: their documents.
        identifiers: of the question.
        of_tests: it asks of secondary files themselves.
    """
    weights = candidates.weights
    positions = [place for place in range(len(candidates.sentences)) if views.view(place).row.kind == "code"]
    secondary, defined = (np.ones(len(candidates.sentences), np.float32) for _ in range(2))
    for place in positions:
        if not of_tests and is_secondary(views.view(place).row.doc_id):
            secondary[place] = weights.secondary
        if identifiers and any(match["name"] in identifiers for match in DEFINITION.finditer(views.sentence(place))):
            defined[place] = weights.definition
    for name, factor in (("tests and generated code", secondary), ("definition", defined)):
        if (factor != 1).any():
            candidates = candidates.times(name, factor)
    return candidates
