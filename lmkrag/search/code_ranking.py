"""Source code: definitions before uses, tests and generated or foreign files after the rest."""

import re
from typing import TYPE_CHECKING

import numpy as np

from lmkrag.search.candidates import Candidates
from lmkrag.sentences.code_lines import DEFINITION

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


def asks_about_tests(question: str) -> bool:
    """Return whether a question is about tests, or files that were generated or copied from elsewhere."""
    return _ABOUT_SECONDARY.search(question) is not None


def is_secondary(doc_id: str) -> bool:
    """Return whether a file of source code is a test, was generated, or was copied from elsewhere.

    >>> is_secondary("src/app_test.go"), is_secondary("tests/data.py"), is_secondary("src/testament.py")
    (True, True, False)
    """
    return _SECONDARY.search(doc_id) is not None


def rank_code(candidates: Candidates, views: "Views", identifiers: tuple[str, ...], *, about_tests: bool) -> Candidates:
    """Return candidates with definitions of a question's names raised, and secondary files of source code lowered.

    Args:
        candidates: of a search.
        views: their documents.
        identifiers: of the question.
        about_tests: the question is about secondary files, which then keep their scores.
    """
    weights = candidates.weights
    secondary, defined = (np.ones(len(candidates.sentences), np.float32) for _ in range(2))
    for position in range(len(candidates.sentences)):
        row = views.view(position).row
        if row.kind != "code":
            continue
        if not about_tests and is_secondary(row.doc_id):
            secondary[position] = weights.secondary
        if identifiers:
            found = DEFINITION.finditer(views.sentence(position))
            if any(definition["name"] in identifiers for definition in found):
                defined[position] = weights.definition
    for name, factor in (("tests and generated code", secondary), ("definition", defined)):
        if (factor != 1).any():
            candidates = candidates.times(name, factor)
    return candidates
