"""What a passage is kept to: sections, entries with their terms, questions with their answers,
records.
"""

import re

from lmkrag.index.view import DocumentView
from lmkrag.language.messages import count_marks, read_author
from lmkrag.search.messages import count_line_marks
from lmkrag.sentences.code_lines import measure_indentation
from lmkrag.sentences.structure import count_line_ends
from lmkrag.specs import CODE

ASKS = re.compile(r"[?？][\"'”’»)\]*_]*\s*$")
"""A sentence that asks, at its end."""

_LONGEST_KEY = 100  # characters of a term or of another line above a text
_MOST_KEYS = 4  # such lines above one text; more are a list or a poem
_DEEPER = 2  # columns, at least, by which a definition is indented

_LONGEST_UNIT = 100  # sentences to each side of one
_MARKED_TERM = re.compile(r"\S[^\n]*::\s*$")  # of AsciiDoc

# ".. option:: retries", ":aliases: tries", "Default: 5", of reStructuredText and of many manuals
_FIELD = re.compile(r"\.\. [\w:-]+::|:[\w -]{1,30}:(?:\s|$)|[A-Z][\w -]{0,30}:\s+\S[^.]{0,30}$")
_LINK = re.compile(r": \S+://\S+\s*$")  # the address of a link in the text above
# the first line of an entry of a reference; a note in an entry names nothing
_ENTRY = re.compile(
    r"\s*\.\. (?!(?:attention|caution|danger|error|hint|important|note|tip|warning|seealso|todo"
    r"|version\w+|deprecated|figure|image|only)::)[\w:-]+::[ \t]+(\S[^\n]*)"
)
_ENDS = re.compile(r"[.!?…:;,。！？：][\"'”’»)\]*_]*$")
_MAIL = "mail"  # the kind of messages, whose headers belong to their text
_SLIDES = ("pptx", "odp")  # kinds whose frames are set apart by blank lines


def find_bounds(view: DocumentView, first: int, stop: int) -> tuple[int, int]:
    """Return the characters ``[start, end)`` of sentences ``[first, stop)``."""
    return view.bounds(first)[0], view.bounds(stop - 1)[1]


def measure(view: DocumentView, first: int, stop: int) -> int:
    """Return the number of characters of sentences ``[first, stop)``."""
    start, end = find_bounds(view, first, stop)
    return end - start


def begins_unit(view: DocumentView, ordinal: int) -> bool:
    """Return whether a sentence belongs to another unit than the one before it.

    Units are sections, entries of lists of definitions or options, questions with their answers,
    functions, records, what a mail quotes, and the columns of a slide.
    """
    if ordinal == 0:
        return True
    before, kind = view.kind(ordinal - 1), view.kind(ordinal)
    if before == "heading":
        return False
    if kind == "heading" or _is_apart(view, ordinal) or view.row.kind == CODE:
        return True
    if kind == "item":
        return _item_begins_unit(view, ordinal)
    line_ends = count_line_ends(view.sentence(ordinal - 1))
    if kind not in ("text", "turn") or line_ends == 0:
        return False
    if _opens_entry(view, ordinal):
        return True
    if line_ends < 2:
        return False
    if ASKS.search(view.sentence(ordinal)) or _LINK.search(view.sentence(ordinal)):
        return True
    return before in ("text", "item") and _closes_entry(view, ordinal)


def _is_apart(view: DocumentView, ordinal: int) -> bool:
    """Whether a sentence is a record, or follows one; in a mail, whether it begins a header, what
    is quoted, or the line that says whose words follow.
    """
    before, kind = view.kind(ordinal - 1), view.kind(ordinal)
    if view.row.kind != _MAIL:
        return not {"record", "metadata"}.isdisjoint((before, kind))
    last = min(ordinal + 1, view.row.sentences - 1)
    above, own, below = map(view.sentence, (ordinal - 1, ordinal, last))
    if read_author(own) is not None:
        return count_marks(own) < count_marks(below)
    is_deeper = count_line_marks(view, ordinal - 1) < count_marks(own)
    begins_quote = is_deeper and read_author(above) is None
    begins_header = before != "record" and kind == "record"
    return begins_quote or begins_header


def _item_begins_unit(view: DocumentView, ordinal: int) -> bool:
    """Whether an item, which follows no heading, is a unit: in another column of a slide, below an
    entry, a question, or one of several paragraphs.
    """
    before = view.kind(ordinal - 1)
    if before in ("text", "code") and _closes_entry(view, ordinal):
        return True
    if count_line_ends(view.sentence(ordinal - 1)) > 1:
        is_column = before == "item" and view.row.kind in _SLIDES
        if is_column or ASKS.search(view.sentence(ordinal)):
            return True
    return begins_entry(view, ordinal)


def find_unit_start(view: DocumentView, first: int, most: int) -> int:
    """Return the sentence from which on a passage that begins with sentence ``first`` is
    understood: the term of its entry, or the lines between a heading or a term and its text.

    These are at most ``most`` characters; what is farther above is left out.
    """
    top, _ = find_unit(view, first)
    if top < first and view.bounds(first)[0] - view.bounds(top)[0] <= most:
        return top
    is_within = view.kind(first) in ("text", "turn") and not begins_unit(view, first)
    return _first_key(view, first) if is_within else first


def find_unit(view: DocumentView, ordinal: int) -> tuple[int, int]:
    """Return the sentences ``[top, stop)`` of the listing or the entry with a term that a sentence
    belongs to, else of the sentence alone.
    """
    is_code = view.kind(ordinal) == "code"

    def goes_on(other: int) -> bool:
        if is_code:
            return view.kind(other) == view.kind(other - 1) == "code"
        return not begins_unit(view, other) and _continues(view, other)

    top, stop = ordinal, ordinal + 1
    while top > max(0, ordinal - _LONGEST_UNIT) and goes_on(top):
        top -= 1
    if not is_code and not begins_entry(view, top):
        return ordinal, ordinal + 1
    while stop < min(view.row.sentences, ordinal + _LONGEST_UNIT) and goes_on(stop):
        stop += 1
    return top, stop


def find_entries(view: DocumentView, ordinal: int, start: int) -> tuple[str, ...]:
    """Return the signatures of the entries of reStructuredText that a sentence stands in, which
    begin before the character ``start``; the outermost first.
    """
    signatures: list[str] = []
    least = _indentation(view, ordinal) if view.row.kind == "rst" else 0
    for above in range(ordinal - 1, max(-1, ordinal - _LONGEST_UNIT), -1):
        if least == 0 or view.kind(above) == "heading":
            break
        if _indentation(view, above) < least:
            least = _indentation(view, above)
            entry = _ENTRY.match(view.sentence(above))
            if entry and view.kind(above) != "code" and view.bounds(above)[0] < start:
                signatures.append(entry[1].rstrip())
    return tuple(reversed(signatures))


def _continues(view: DocumentView, ordinal: int) -> bool:
    """Whether a sentence, which begins no unit, goes on with the entry of the one before it: in its
    paragraph, indented, or as code.
    """
    above = view.sentence(ordinal - 1)
    if view.kind(ordinal - 1) == "heading":
        return False
    is_near = count_line_ends(above) < 2 or _is_marked_term(view, above)
    return is_near or view.kind(ordinal) == "code" or _indentation(view, ordinal) > 0


def _first_key(view: DocumentView, first: int) -> int:
    """The first of the lines right above a text that belong to it: those below a heading, or ones
    with the name of a field.
    """
    top = first
    while _is_above_text(view, top - 1) and first - top <= _MOST_KEYS:
        top -= 1
        if begins_unit(view, top):
            break
    above = view.text(view.bounds(top)[0], view.bounds(first)[0]).split("\n")
    is_headed = top > 0 and view.kind(top - 1) == "heading"
    has_field = any(_FIELD.match(line.lstrip()) for line in above)
    is_short = sum(1 for line in above if line.strip()) <= _MOST_KEYS
    return top if is_short and (is_headed or has_field) else first


def begins_entry(view: DocumentView, ordinal: int) -> bool:
    """Return whether a sentence begins with the term of a definition, or an item of several
    paragraphs.
    """
    if ordinal > 0 and count_line_ends(view.sentence(ordinal - 1)) == 0:
        return False  # within a line
    if view.kind(ordinal) == "item":
        return _opens_long_item(view, ordinal)
    return view.kind(ordinal) in ("text", "turn") and _opens_entry(view, ordinal)


def _opens_long_item(view: DocumentView, ordinal: int) -> bool:
    """Whether a sentence begins an item of a list to which a paragraph or a listing below belongs,
    which is indented deeper.
    """
    below = ordinal + 1
    while below < view.row.sentences and count_line_ends(view.sentence(below - 1)) == 0:
        below += 1
    is_other = below < view.row.sentences and view.kind(below) in ("text", "code")
    return is_other and _indentation(view, below) > _indentation(view, ordinal)


def _opens_entry(view: DocumentView, ordinal: int) -> bool:
    """Whether a sentence begins with the term of a definition, which is indented deeper or has a
    colon before it.
    """
    term, *others = view.sentence(ordinal).split("\n")
    if _is_marked_term(view, term):
        return True
    if not _is_key(term):
        return False
    if not any(map(str.strip, others)) and ordinal + 1 < view.row.sentences:
        others = view.sentence(ordinal + 1).split("\n")
    below = next(filter(str.strip, others), "")
    is_deeper = measure_indentation(below) >= measure_indentation(term) + _DEEPER
    return is_deeper or below.lstrip().startswith(": ")


def _is_marked_term(view: DocumentView, line: str) -> bool:
    """Whether a line is a term in the markup of AsciiDoc; in others the colons announce code."""
    return view.row.kind == "text" and _MARKED_TERM.match(line) is not None


def _closes_entry(view: DocumentView, ordinal: int) -> bool:
    """Whether a paragraph is indented less than the last line before it."""
    before = view.sentence(ordinal - 1).rstrip()
    if "\n" in before:
        deepest = measure_indentation(before.rpartition("\n")[2]) // _DEEPER
    else:
        deepest = _indentation(view, ordinal - 1)
    return _indentation(view, ordinal) < deepest


def _indentation(view: DocumentView, ordinal: int) -> int:
    """The columns by which the line is indented that a sentence begins in, in steps of a
    definition.
    """
    start, _ = view.bounds(ordinal)
    before = view.sentence(ordinal - 1) if ordinal else "\n"
    if "\n" not in before:
        before = view.text(max(0, start - _LONGEST_KEY), start)
    line = before.rpartition("\n")[2] + view.sentence(ordinal)
    return measure_indentation(line) // _DEEPER


def _is_above_text(view: DocumentView, ordinal: int) -> bool:
    """Whether a sentence has nothing but terms and fields, and is no heading."""
    lines = view.sentence(ordinal).strip().split("\n")
    return view.kind(ordinal) != "heading" and all(map(_is_key, lines))


def _is_key(line: str) -> bool:
    """Whether a line is a term or a field, and no sentence."""
    line = line.strip()
    is_short = 0 < len(line) <= _LONGEST_KEY
    is_named = is_short and bool(_FIELD.match(line) or not _ENDS.search(line))
    return is_named or _ENTRY.match(line) is not None
