"""What a passage is kept to: sections, entries with their terms, questions with their answers,
records.
"""

import re

from lmkrag.index.view import DocumentView
from lmkrag.sentences.code_lines import measure_indentation
from lmkrag.sentences.structure import count_line_ends
from lmkrag.specs import CODE

_LONGEST_KEY = 100  # characters of a term or of another line above a text
_MOST_KEYS = 4  # such lines above one text; more are a list or a poem
_DEEPER = 2  # columns, at least, by which a definition is indented
_READ = 500  # characters of a term, and of its definition's beginning

# ".. option:: retries", ":aliases: tries", "Default: 5", of reStructuredText and of many manuals
_FIELD = re.compile(r"\.\. [\w:-]+::|:[\w -]{1,30}:(?:\s|$)|[A-Z][\w -]{0,30}:\s+\S[^.]{0,30}$")
_ENDS = re.compile(r"[.!?…;,。！？][\"'”’»)\]*_]*$")
_ASKS = re.compile(r"[?？][\"'”’»)\]*_]*\s*$")
_SLIDES = ("pptx", "odp")  # kinds whose frames are set apart by blank lines


def begins_unit(view: DocumentView, ordinal: int) -> bool:
    """Return whether a sentence belongs to another unit than the one before it.

    Units are sections, entries of lists of definitions or options, questions with their answers,
    functions, records, and the columns of a slide.
    """
    if ordinal == 0:
        return True
    before, kind = view.kind(ordinal - 1), view.kind(ordinal)
    if before == "heading":
        return False
    is_apart = not {"record", "metadata"}.isdisjoint((before, kind))
    if kind == "heading" or is_apart or view.row.kind == CODE:
        return True
    line_ends = count_line_ends(view.sentence(ordinal - 1))
    if kind == before == "item":
        return view.row.kind in _SLIDES and line_ends > 1
    if kind not in ("text", "turn") or line_ends == 0:
        return False
    asks = line_ends > 1 and _ASKS.search(view.sentence(ordinal)) is not None
    return asks or _opens_entry(view, ordinal) or _closes_entry(view, ordinal)


def find_unit_start(view: DocumentView, first: int, most: int) -> int:
    """Return the sentence from which on a passage that begins with sentence ``first`` is
    understood: the term of its entry, or the lines between a heading or a term and its text.

    These are at most ``most`` characters; what is farther above is left out.
    """
    if begins_unit(view, first) or view.kind(first) not in ("text", "turn"):
        return first
    top = first
    while top > 0 and not begins_unit(view, top) and view.kind(top - 1) != "heading":
        top -= 1
        if view.bounds(first)[0] - view.bounds(top)[0] > most:
            return _first_key(view, first, top + 1)
    return top if _opens_entry(view, top) else _first_key(view, first, top)


def _first_key(view: DocumentView, first: int, least: int) -> int:
    """The first of the lines right above a text that belong to it: those below a heading, or ones
    with the name of a field.
    """
    top = first
    while top > least and _are_keys(view.sentence(top - 1)):
        top -= 1
    is_headed = top > 0 and view.kind(top - 1) == "heading"
    has_field = any(_FIELD.match(view.sentence(above).lstrip()) for above in range(top, first))
    lines = view.text(view.bounds(top)[0], view.bounds(first)[0]).split("\n")
    is_short = sum(map(bool, map(str.strip, lines))) <= _MOST_KEYS
    return top if is_short and (is_headed or has_field) else first


def _opens_entry(view: DocumentView, ordinal: int) -> bool:
    """Whether a sentence begins with the term of a definition, which is indented deeper or has a
    colon before it.
    """
    start, _ = view.bounds(ordinal)
    term, *others = view.text(start, start + _READ).split("\n")
    below = next(filter(str.strip, others), "")
    is_deeper = measure_indentation(below) >= measure_indentation(term) + _DEEPER
    return _is_key(term) and (is_deeper or below.lstrip().startswith(": "))


def _closes_entry(view: DocumentView, ordinal: int) -> bool:
    """Whether a paragraph is indented less than the text before it."""
    before = view.sentence(ordinal - 1)
    if count_line_ends(before) < 2 or view.kind(ordinal - 1) != "text":
        return False
    start, _ = view.bounds(ordinal - 1)
    line = view.text(max(0, start - _READ), start).rpartition("\n")[2] + before.rstrip()
    last, here = line.rpartition("\n")[2], view.sentence(ordinal)
    return measure_indentation(here) + _DEEPER <= measure_indentation(last)


def _are_keys(sentence: str) -> bool:
    return all(map(_is_key, sentence.strip().split("\n")))


def _is_key(line: str) -> bool:
    """Whether a line is a term or a field, and no sentence."""
    line = line.strip()
    is_short = 0 < len(line) <= _LONGEST_KEY
    return is_short and bool(_FIELD.match(line) or not _ENDS.search(line))
