"""Make the spans that a search returns, with their text, hits and headings."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from lmkrag.formats.markup import show_inline
from lmkrag.index.view import DocumentView
from lmkrag.language.messages import read_opener
from lmkrag.language.terms import hash_forms
from lmkrag.rendering.places import has_lines, line_at, number_paragraph
from lmkrag.results import Span
from lmkrag.search.candidates import Candidates
from lmkrag.search.code_blocks import find_definitions
from lmkrag.search.explaining import Growth, explain_span
from lmkrag.search.messages import find_passage_message
from lmkrag.search.units import find_entries
from lmkrag.sentences.code_lines import split_functions
from lmkrag.sentences.table_rows import is_header, is_rule, is_tabbed, split_row
from lmkrag.specs import BYTE_ORDER_MARK, CHAT, CODE
from lmkrag.types import Hit, ScoreFactor

# of AsciiDoc: what joins a paragraph to the one above, the name of a place
_UNSHOWN = re.compile(r"\A(?:\+|\[\[[\w-]+\]\])\n")
_LOOKED_AT = 200  # headings above a span
_READ = 20_000  # characters of a span in which the question's words count
_ROWS = 5_000  # of a table among which its header is looked for
_TABBED_ROWS = 100  # of one with tabs
_LONGEST_HEADER = 400
_LONGEST_DEFINITION = 100  # characters of its first line
_COUNTED = 4 << 20  # characters whose paragraphs are counted
_ROW = 4_000  # characters of a row that show whether its values have their columns' names
_DEEPEST = 7  # the level of a heading that does not show it

_HASHES = re.compile(r"\s{0,3}([#=*]{1,6})(?:head\d)?\s+(.*)", re.DOTALL)
_LATEX = re.compile(
    r"\s*\\(part|chapter|section|subsection|subsubsection|paragraph)\*?\{(.*?)\}", re.DOTALL
)
_LATEX_LEVELS = {
    "part": 1,
    "chapter": 1,
    "section": 2,
    "subsection": 3,
    "subsubsection": 4,
    "paragraph": 5,
}
_UNDERLINES = {"=": 1, "-": 2, "~": 3, "`": 3, "^": 4, "*": 4, **dict.fromkeys("\"+'#:.", 5)}
_NUMBER = re.compile(r"\(?(\d{1,3}(?:\.\d{1,3})*)[.)]?\s")


@dataclass(frozen=True, slots=True)
class SpanMaker:
    """Makes spans from the candidates of one search.

    Attributes:
        candidates: of the search.
        grown: for spans that get an explanation; None for no explanations.
    """

    candidates: Candidates
    grown: Growth | None

    def make_span(self, start: int, end: int, hits: Sequence[int]) -> Span:
        """Return characters of the document of ``hits`` (candidates, best first), without white
        space at the ends.
        """
        view, ordinal = self.candidates.view(hits[0]), self.candidates.ordinal(hits[0])
        row = view.row
        start, end = strip(view, start, end)
        line = view.count_lines(start) + 1 if has_lines(row.kind, row.doc_id) else None
        text, score = view.text(start, end), float(self.candidates.score[hits[0]])
        first = view.ordinal_at(start)
        # A message may follow the question that it replies to; a document begins at 0.
        context = first if row.kind == CHAT and start else ordinal
        headings = _find_context(view, context, max(start, self._find_function(hits[0])))
        header = find_header(view, first)
        message = find_passage_message(view, context, view.ordinal_at(end - 1))
        explanation = None
        if self.grown is not None:
            explanation = explain_span(self.candidates, hits, self.grown, start, end)
        return Span(
            doc_id=row.doc_id,
            path=row.path,
            start=start,
            end=end,
            text=text,
            score=score,
            page=bisect_right(row.page_starts, start) if row.page_starts else None,
            hits=tuple(map(self._hit, hits)),
            title=row.title,
            kind=row.kind,
            meta=row.meta,
            line=line,
            last_line=None if line is None else line + text.count("\n"),
            paragraph=None if line or row.page_starts else find_paragraph(view, context, start),
            headings=headings,
            speaker=message.speaker if message else "",
            time=message.time if message else "",
            header=header,
            coverage=self._cover(" ".join([text[:_READ], header, row.title, *headings])),
            explanation=explanation,
        )

    def _find_function(self, candidate: int) -> int:
        """The character at which the function or class begins, among those of a candidate in source
        code, whose lines and name have most of the question's words; 0 elsewhere.
        """
        view, ordinal = self.candidates.view(candidate), self.candidates.ordinal(candidate)
        if view.row.kind != CODE:
            return 0
        start, end = view.bounds(ordinal)
        text = view.text(start, end)

        def measure(piece: tuple[int, int]) -> tuple[float, int]:
            first, stop = piece
            *_, name = ["", *_find_context(view, ordinal, start + first)]
            return self._cover(name) + self._cover(f"{name} {text[first:stop]}"), stop - first

        first, _ = max(split_functions(text), key=measure)
        return start + first

    def _cover(self, text: str) -> float:
        """The share of the question's words, by weight, that a text has."""
        words = self.candidates.words
        total = sum(words.values())
        if not total:
            return 0.0
        held = hash_forms(text, self.candidates.languages)
        return sum(weight for forms, weight in words.items() if held.intersection(forms)) / total

    def _hit(self, candidate: int) -> Hit:
        candidates, view = self.candidates, self.candidates.view(candidate)
        ordinal = candidates.ordinal(candidate)
        start, end = view.bounds(ordinal)
        return Hit(
            sentence_id=int(candidates.sentences[candidate]),
            doc_id=view.row.doc_id,
            ordinal=ordinal,
            start=start,
            end=end,
            score=float(candidates.score[candidate]),
            dense=float(candidates.dense[candidate]),
            lexical=float(candidates.lexical[candidate]),
        )


def multiply_score(span: Span, factor: float, name: str) -> Span:
    """Return a span whose score, and its explanation, have one more factor; scores below 0 are
    divided by it.
    """
    factor = factor if span.score > 0 else 1 / factor
    score, explanation = span.score * factor, span.explanation
    if explanation is not None:
        factors = (*explanation.factors, ScoreFactor(name, factor))
        explanation = replace(explanation, score=score, factors=factors)
    return replace(span, score=score, explanation=explanation)


def strip(view: DocumentView, start: int, end: int) -> tuple[int, int]:
    """Return a range without white space or a byte order mark at its ends; the tab of an empty
    first column stays.
    """
    text = view.text(start, end)
    shown = _UNSHOWN.sub("", text.lstrip().removeprefix(BYTE_ORDER_MARK)).lstrip()
    first = len(text) - len(shown)
    if text[:first].endswith("\t") and is_tabbed(text[first - 1 :].partition("\n")[0]):
        first -= 1
    return start + first, start + len(text.rstrip())


def _find_context(view: DocumentView, ordinal: int, start: int) -> tuple[str, ...]:
    """The headings above a sentence and the entries around it, or the definitions around the source
    code at ``start``.
    """
    if view.row.kind != CODE:
        return *find_headings(view, ordinal), *find_entries(view, ordinal, start)
    before = view.text(max(0, start - _READ), start)
    text = before + view.text(start, start + _READ)
    lines, numbers = text.split("\n"), find_definitions(text, 1 + before.count("\n"))
    return tuple(
        lines[number - 1].strip().rstrip(":{ ")[:_LONGEST_DEFINITION] for number in numbers
    )[::-1]


def find_headings(view: DocumentView, ordinal: int) -> tuple[str, ...]:
    """Return the headings that a sentence stands under, the outermost first; itself, if it is one.

    Levels are those of Markdown, of underlines in their usual order, or of section numbers. Of
    headings without a level only the nearest counts. The outermost one in a conversation says who
    speaks in the message, and when.
    """
    headings: list[str] = []
    least = _DEEPEST + 1
    outermost = 0 if view.row.kind == CHAT else 1
    for above in islice(view.headings_before(ordinal), _LOOKED_AT):
        sentence = view.sentence(above)
        opener = read_opener(sentence) if view.row.kind == CHAT else None
        if opener is not None:
            level, text = 0, ", ".join(filter(None, (opener.speaker, opener.time)))
        else:
            level, text = read_heading(sentence)
        if text and level < least:
            headings.append(text)
            least = level
        if least <= outermost:
            break
    return tuple(reversed(headings))


def find_paragraph(view: DocumentView, ordinal: int, start: int) -> int | None:
    """Return the number of a paragraph under its heading, or of a row, from 1; None where too much
    is to be counted.
    """
    above = next(view.headings_before(ordinal), None)
    begin = 0 if above is None else view.bounds(above)[1]
    if start - begin > _COUNTED:
        return None
    before = view.text(begin, start) if begin < start else ""
    row = begin + before.rfind("\n") + 1  # of a table: it may have several sentences
    return number_paragraph(before, line_at(view.text(row, row + _ROW), 0), view.row.kind)


def find_header(view: DocumentView, ordinal: int) -> str:
    """Return the first row of a row's table, with tabs the nearest without numbers but years; else
    empty.
    """
    if view.kind(ordinal) != "row":
        return ""
    if is_tabbed(view.sentence(ordinal)):
        top = _find_tabbed_header(view, ordinal)
    else:
        top = ordinal
        while top > max(0, ordinal - _ROWS) and view.kind(top - 1) == "row":
            top -= 1
        if top > 0 and view.kind(top - 1) == "row":
            return ""  # too far
        while top < ordinal and is_rule(view.sentence(top)):
            top += 1
    if top is None or top == ordinal:
        return ""
    # A tab is an empty first column.
    header = view.sentence(top).removeprefix(BYTE_ORDER_MARK).strip(" \r\n")
    return header if len(header) <= _LONGEST_HEADER else ""


def _find_tabbed_header(view: DocumentView, ordinal: int) -> int | None:
    """The ordinal of the row that names the columns, which single lines that are no rows may divide
    from the others.
    """
    for above in range(ordinal, max(-1, ordinal - _TABBED_ROWS), -1):
        if view.kind(above) == "row":
            if is_header([value for value, _ in split_row(view.sentence(above), 0)]):
                return above
        elif above == 0 or view.kind(above - 1) != "row":
            return None
    return None


@lru_cache(1 << 12)
def read_heading(sentence: str) -> tuple[int, str]:
    """Return the level of a heading, from 1, and its text on one line."""
    sentence = show_inline(sentence).strip().removeprefix(BYTE_ORDER_MARK).strip()
    if marked := _HASHES.match(sentence):
        return len(marked[1]), " ".join(marked[2].rstrip().rstrip("#=").split())
    if command := _LATEX.match(sentence):
        return _LATEX_LEVELS[command[1]], " ".join(command[2].split())
    lines = sentence.splitlines()
    if (
        len(lines) > 1
        and (line := lines[-1].strip())
        and line == line[0] * len(line)
        and line[0] in _UNDERLINES
    ):
        return _UNDERLINES[line[0]], " ".join(lines[-2].split())
    numbered = _NUMBER.match(sentence)
    level = min(_DEEPEST, numbered[1].count(".") + 1) if numbered else _DEEPEST
    return level, " ".join(sentence.strip("*_").split())
