"""The function, class or section around some lines of source code, by indentation."""

import re
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import accumulate
from pathlib import PurePosixPath

import numpy as np

from lmkrag.index.view import DocumentView
from lmkrag.language.question import CodeQuestion, split_identifiers
from lmkrag.search.candidates import Candidates
from lmkrag.sentences.code_lines import ABOVE, CLOSES, DEFINITION, measure_indentation
from lmkrag.sentences.declarations import declares
from lmkrag.specs import CODE


def enclosing_block(view: DocumentView, start: int, end: int, most: int) -> tuple[int, int]:
    """Return the largest block of at most ``most`` characters around characters ``[start, end)``,
    else these.

    A block is a line with what is indented below it and the lines right above it (decorators,
    comments). Blocks of the outermost level come first; where one is too long, that of the next
    level inside it is tried.
    """
    low = max(0, start - most)
    text = view.text(low, end + most)
    lines = text.splitlines(keepends=True)
    starts = list(accumulate(map(len, lines), initial=0))
    complete = low == 0 or view.text(low - 1, low) == "\n"
    shown = [i for i, line in enumerate(lines) if not line.isspace()]
    covered = [i for i in shown if starts[i + 1] > start - low and starts[i] < end - low]
    if not covered:
        return start, end
    first, stop = covered[0], covered[-1] + 1
    indents = [measure_indentation(line) for line in lines]
    innermost = min(indents[i] for i in covered)
    for base in sorted({indents[i] for i in shown if i <= first and indents[i] <= innermost}):
        top, bottom = _block(lines, indents, first, stop, base)
        if starts[bottom] - starts[top] <= most and (top > 0 or complete):
            return low + min(starts[top], start - low), low + max(starts[bottom], end - low)
    return start, end


def _block(
    lines: list[str], indents: list[int], first: int, stop: int, base: int
) -> tuple[int, int]:
    """Lines ``[top, bottom)`` of the block that opens with indentation ``base``."""

    def closes(i: int) -> bool:
        return bool(CLOSES.match(lines[i].lstrip()))

    def is_inside(i: int) -> bool:
        return lines[i].isspace() or indents[i] > base or (indents[i] == base and closes(i))

    def continues(i: int) -> bool:
        return not lines[i].isspace() and indents[i] == base

    def leads(i: int) -> bool:  # a comment may have a star in each line
        return (continues(i) and not closes(i)) or lines[i].lstrip().startswith("*")

    top, bottom = first, stop
    while top > 0 and is_inside(top):
        top -= 1
    while top > 0 and leads(top - 1):
        top -= 1
    while bottom < len(lines) and is_inside(bottom):
        bottom += 1
    # Flat lines continue to a blank line or the end of a block, comments and decorators with the
    # lines below them.
    is_flat = bottom == stop
    while (
        bottom < len(lines)
        and continues(bottom)
        and (is_flat or ABOVE.match(lines[bottom - 1].lstrip()))
    ):
        bottom += 1
        while (
            bottom < len(lines) and is_inside(bottom) and not (is_flat and lines[bottom].isspace())
        ):
            bottom += 1
            is_flat = False
    while bottom > stop and lines[bottom - 1].isspace():
        bottom -= 1
    return top, bottom


def find_definitions(text: str, number: int) -> Iterator[int]:
    """Yield the lines, from 1, that name the functions and classes around line ``number``, the
    innermost first.

    A line that names one counts as its own; a comment or a decorator belongs to what it stands
    above.
    """
    lines = StringIO(text).readlines()  # a form feed ends no line
    while number < len(lines) and ABOVE.match(lines[number - 1].lstrip()):
        number += 1
    start, limit = sum(map(len, lines[:number])), len(text)
    for above, line in reversed(list(enumerate(lines[:number], 1))):
        start -= len(line)
        if line.isspace() or CLOSES.match(line.lstrip()):
            continue
        if measure_indentation(line) < limit:
            limit = measure_indentation(line)
            if DEFINITION.match(text, start):
                yield above


_SECONDARY = re.compile(
    r"(?:^|/)(?:tests?|testing|__tests__|spec|_?vendor(?:ed)?|third[_-]party|node_modules|dist"
    r"|generated)/"
    r"|(?:^|/)(?:test_[^/]*|conftest|[^/]*(?:[._-](?:test|spec|min|generated|pb2?)))\.\w+$|\.pot?$",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"(?:^|/)templates/", re.IGNORECASE)

_HEADER = 8  # groups of lines at the beginning of a file that may be about its licence
_LICENCE = re.compile(
    r"\bcopyright\b|\(c\) \d{4}|SPDX-License|\blicen[cs]ed? (?:under|is|agreement)|the licen[cs]e\b"
    r"|all rights reserved|without warrant|redistribution and use|permission is hereby granted",
    re.IGNORECASE,
)


def match_path(doc_id: str, stems: Sequence[str]) -> tuple[float, float]:
    """Return the share of the stems that a file's path has, and the share of its name's parts that
    have a stem.
    """
    path, parts = doc_id.lower(), split_identifiers(PurePosixPath(doc_id).stem).lower().split()
    named = [any(stem in part for stem in stems) for part in parts]
    return sum(stem in path for stem in stems) / max(1, len(stems)), sum(named) / max(1, len(named))


def is_secondary(doc_id: str) -> bool:
    """Return whether a file of source code is a test or a translation, was generated, or was
    copied from elsewhere.
    """
    return _SECONDARY.search(doc_id) is not None


def is_licence(lines: str) -> bool:
    """Return whether lines of source code are a comment on its copyright or licence."""
    is_comment = all(ABOVE.match(line.lstrip()) for line in lines.splitlines() if line.strip())
    return is_comment and _LICENCE.search(lines) is not None


def is_mostly_code(candidates: Candidates) -> bool:
    """Return whether candidates are of several documents, and at least half of these are source
    code.
    """
    if CODE not in candidates.languages:
        return False
    first = np.unique(candidates.documents, return_index=True)[1].tolist()
    code = sum(candidates.view(position).row.kind == CODE for position in first)
    return len(first) > 1 and 2 * code >= len(first)


def rank_code(candidates: Candidates, question: CodeQuestion, *, mostly_code: bool) -> Candidates:
    """Return candidates with the scores of source code weighted.

    Definitions of the question's names and files that it names gain. Notes on licences lose, and so
    do tests, translations and generated code, unless the question is about these. In a folder that
    is ``mostly_code``, code loses if pages answer the question, prose if code does, and templates
    of pages as tests do.
    """
    if CODE not in candidates.languages:
        return candidates
    weights = candidates.weights
    _, first, owners = np.unique(candidates.documents, return_index=True, return_inverse=True)
    rows = [candidates.view(position).row for position in first.tolist()]
    is_code = np.array([row.kind == CODE for row in rows])
    is_template = [mostly_code and _TEMPLATE.search(row.doc_id) is not None for row in rows]
    is_copy = is_code & [is_secondary(row.doc_id) for row in rows]
    secondary = (is_copy | (~is_code & is_template)) & (not question.about_secondary)
    is_other = (is_code & question.about_prose) | (~is_code & question.about_code)
    beside = is_other & mostly_code
    named = np.array([match_path(row.doc_id, question.stems) for row in rows]) @ (
        weights.path,
        weights.file_name,
    )
    defined, licence = np.zeros((2, len(owners)), bool)
    for position in np.flatnonzero(is_code[owners]).tolist():
        if question.identifiers:
            defined[position] = declares(candidates.sentence(position), question.identifiers)
        if candidates.ordinal(position) < _HEADER:
            licence[position] = is_licence(candidates.sentence(position))
    gain = weights.sought_definition if question.is_name else weights.definition
    for name, factor in (
        ("tests and generated code", np.where(secondary, weights.secondary, 1)[owners]),
        ("code or prose beside the other", np.where(beside, weights.beside, 1)[owners]),
        ("licence", np.where(licence, weights.licence, 1)),
        ("file", (1 + is_code * named)[owners]),
        ("definition", np.where(defined, gain, 1)),
    ):
        candidates = candidates.times(name, factor)
    return candidates
