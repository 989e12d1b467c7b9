"""The text of a PDF's page as it is indexed, and where each of its characters stands on the page.

PDFium gives characters in the order in which the page draws them. Here lines that it breaks for no
reason are joined, words divided at a line's end are whole again, exponents get a sign, and what is
filled in or noted on the page is read.
"""

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, groupby
from statistics import median
from typing import Any

import pypdfium2.raw as raw

from lmkrag.formats.base import SOFT_HYPHEN, Links, fold
from lmkrag.formats.columns import Edit, Rectangle, Source, apply_edits, mark_columns
from lmkrag.formats.legible import find_words, is_legible, is_spoken
from lmkrag.formats.titles import mark_titles

_DIVISION = re.compile("(?:[-\u00ad\u2010]\r\n|[\ufffe\x02])")
_LONGEST_WORD = 40
_BEFORE = re.compile(rf"[^\W\d_]{{0,{_LONGEST_WORD}}}$")
_AFTER = re.compile(r"([^\W\d_]*)([^\s\ufffe\x02]*)( ?)")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_COMPOUNDS = frozenset("all cross full half high long low non part self short so well".split())  # noqa: SIM905
_LINE_END = re.compile(r"(?:(?<![ \t])[ \t]+)?\r\n[ \t]*")
# Ligatures and quotes of TeX's fonts of bitmaps, by its first encoding and by that of Cork.
_LIGATURES = {"\r": "fl", "\x10": "“", "\x11": "”"}
_LIGATURES |= dict(zip("\v\f\x0e\x0f", ("ff", "fi", "ffi", "ffl"), strict=True))
_LIGATURES |= dict(zip("\x1b\x1c\x1d\x1e\x1f", ("ff", "fi", "fl", "ffi", "ffl"), strict=True))
_LIGATURE = re.compile(
    r"(?<=[^\W\d_])[\v\f\x0e\x0f\x1b-\x1f]|[\v\f\x0e\x0f\x1b-\x1f](?=[^\W\d_])"
    r"|\r(?!\n)(?=[^\W\d_])|\x10(?=[\w\x1b-\x1f])|(?<=[\w.,!?])\x11"
)
# A soft hyphen in a line is shown: fonts take it for "-".
_UNSEEN = re.compile("[\0\u200b\ufeff]|\u00ad(?!\r)")
_DIGITS = re.compile(r"(?:^|(?<=[\w\n)\]}%.,;:!?\"'”’»°]))[−–-]?\d+")
_ARABIC = re.compile("[\u0621-\u06ff]{2,}")
_RAISED = 0.15  # of the size of the text: where an exponent begins
_SMALLER = 0.85  # of the size of the text: the size of an exponent, at most
_CLOSE = 0.12  # of the height of a line: no space between two characters
# The same, more than between most letters of a word: a space, which tight lines make too small for
# PDFium; looked for in words as long as two.
_NARROW, _LONG_WORD = 0.05, re.compile(r"[^\W\d_]{12,}")
_BACK = 0.3  # of the height of a line: how far a character may reach back
_BESIDE = 1.5  # the same, between a box to tick and what it is for
_ODD = ("Cc", "Cn", "Co", "Cs")  # categories of characters that no text has
_MOST_ODD = 0.3  # of the characters of a page
_ENOUGH = 40  # words that say something
_SAMPLE = 200  # characters
_BEFORE_LINK = 300  # characters that may say what a link is about
_LARGE = 0.025  # of the height of a page: a line of a slide
_BOLD, _BOLD_WEIGHT = re.compile(rb"bold|black|heavy|demi|CMBX|CMSSBX|-?B$", re.IGNORECASE), 600
_NOTES = (
    "TEXT FREETEXT HIGHLIGHT UNDERLINE SQUIGGLY STRIKEOUT STAMP CARET SQUARE CIRCLE LINE "
    "POLYGON INK"
)
_NOTE_KINDS = frozenset(getattr(raw, f"FPDF_ANNOT_{name}") for name in _NOTES.split())
_HIDDEN = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW
_TICKS = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
_FIELDS = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
_PASSWORD = 1 << 13  # a flag of fields


class PageText:
    """The text of a page of PDFium, with the values of its forms, and where each character stands.

    Attributes:
        text: the text as it is indexed.
        body_end: where the addresses of links begin in it.
    """

    def __init__(self, page: Any) -> None:
        self._page, self._textpage = page, page.get_textpage()
        self._raw: str = self._textpage.get_text_range()
        self._rect, self._matrix = raw.FS_RECTF(), raw.FS_MATRIX()
        self._name = ctypes.create_string_buffer(256)
        self.text = self._raw
        self._sources: Sequence[Source] = range(len(self._raw))
        self._change(sorted(self._edits(), key=lambda edit: edit[:2]))
        first = len(self.text) - len(self.text.lstrip())
        self.text = self.text.strip()
        self._sources = self._sources[first : first + len(self.text)]
        self._change(mark_columns(self.text, self._measure))
        self._change(mark_titles(self.text, self._measure, self._look))
        self._append(self._notes)
        self.body_end = len(self.text)
        self._append(self._links())

    def _change(self, edits: Iterable[Edit]) -> None:
        self.text, self._sources = apply_edits(self.text, self._sources, edits)

    def _append(self, lines: Iterable[tuple[str, Rectangle]]) -> None:
        """Add lines that belong to places on the page."""
        for line, box in lines:
            gap = "\n\n" if self.text else ""
            self.text += gap + line
            self._sources = [*self._sources, *[box] * len(gap + line)]

    @property
    def is_garbage(self) -> bool:
        """Whether the fonts of the page do not say which characters their glyphs are, so that its
        text is unreadable.
        """
        characters = re.sub("[ \r\n]", "", self._raw)
        odd = sum(unicodedata.category(sign) in _ODD or sign == "\ufffd" for sign in characters)
        if not characters or odd > _MOST_ODD * len(characters):
            return bool(characters)
        words = find_words(self._raw)
        if len(words) >= _ENOUGH:
            return not is_spoken(words)
        places = range(0, len(self._raw), 1 + len(self._raw) // _SAMPLE)
        unmapped: list[bool] = [
            raw.FPDFText_HasUnicodeMapError(self._textpage, self._number(place)) == 1
            for place in places
        ]
        return 2 * sum(unmapped) > len(unmapped) and not is_legible(self._raw)

    def has_large_text(self) -> bool:
        """Return whether a line is higher, for the size of the page, than prose or a stamp on a
        scan.
        """
        height = _LARGE * self._page.get_height()
        boxes = map(self._measure, range(len(self.text)))
        return any(box is not None and box.height > height for box in boxes)

    def box(self, character: int) -> Rectangle | None:
        """Return where a character stands; None if it has no place."""
        if not 0 <= character < len(self._sources):
            return None
        source = self._sources[character]
        return self._box(source) if isinstance(source, int) else source

    def _measure(self, character: int) -> Rectangle | None:
        """Return the rectangle of a character as if its line ran from left to right."""
        source = self._sources[character]
        return self._upright(source) if isinstance(source, int) else None

    def _size(self, place: int) -> float:
        """Return the size of a character's font in points, as the page scales it."""
        number = self._number(place)
        raw.FPDFText_GetMatrix(self._textpage, number, self._matrix)
        size = float(raw.FPDFText_GetFontSize(self._textpage, number))
        return size * math.hypot(self._matrix.c, self._matrix.d)

    def _look(self, character: int) -> tuple[float, bool]:
        """Return the size of a character's font, and whether its name or its weight says that it is
        bold.
        """
        source = self._sources[character]
        if not isinstance(source, int):
            return 0.0, False
        number = self._number(source)
        flags = ctypes.c_int()
        size = raw.FPDFText_GetFontInfo(self._textpage, number, self._name, len(self._name), flags)
        name = self._name.raw[: max(0, min(size, len(self._name)) - 1)]
        weight = raw.FPDFText_GetFontWeight(self._textpage, number)
        return self._size(source), bool(_BOLD.search(name)) or weight >= _BOLD_WEIGHT

    def _links(self) -> Iterator[tuple[str, Rectangle]]:
        """Yield the addresses that the page links to, with the boxes of the linked words."""
        links, link, place = Links(), raw.FPDF_LINK(), ctypes.c_int()
        while raw.FPDFLink_Enumerate(self._page, place, link):
            address = _read_address(self._page.pdf, link)
            if not address or not raw.FPDFLink_GetAnnotRect(link, self._rect):
                continue
            box = Rectangle(self._rect.left, self._rect.bottom, self._rect.right, self._rect.top)
            words = fold(self._textpage.get_text_bounded(*box))
            end = self.text.find(words) + len(words)
            before = self.text[:end] if end >= len(words) else words
            links.add(before[-_BEFORE_LINK:].rpartition("\n\n")[2], address, words)
            yield from ((line, box) for line in links.take())

    @cached_property
    def _numbers(self) -> list[int]:
        """PDFium's number of each character in its text: beyond U+FFFF a character has two."""
        widths = (2 if character > "\uffff" else 1 for character in self._raw)
        return list(accumulate(widths, initial=0))

    def _number(self, place: int) -> int:
        number = place if self._raw.isascii() else self._numbers[place]
        if self._is_plain:
            return number
        return int(raw.FPDFText_GetCharIndexFromTextIndex(self._textpage, number))

    @cached_property
    def _is_plain(self) -> bool:
        """Whether PDFium's text has all of its characters and no others."""
        return self._numbers[-1] == int(self._textpage.count_chars())

    def _box(self, place: int) -> Rectangle | None:
        rect = self._rect
        if not raw.FPDFText_GetLooseCharBox(self._textpage, self._number(place), rect):
            return None
        return Rectangle(rect.left, rect.bottom, rect.right, rect.top)

    def _upright(self, place: int) -> Rectangle | None:
        box = self._box(place)
        if box is None or not self._has_turned_lines:
            return box
        angle = raw.FPDFText_GetCharAngle(self._textpage, self._number(place))
        for _ in range(round(angle / (math.pi / 2)) % 4):  # PDFium counts against the clock
            left, bottom, right, top = box
            box = Rectangle(bottom, -right, top, -left)
        return box

    @cached_property
    def _has_turned_lines(self) -> bool:
        ends = [0, *(match.end() for match in _LINE_END.finditer(self._raw)), len(self._raw) - 1]
        angles = (
            raw.FPDFText_GetCharAngle(self._textpage, self._number(place))
            for place in ends
            if 0 <= place < len(self._raw)
        )
        return any(abs(angle) > 0.5 for angle in angles)

    def _edits(self) -> Iterator[Edit]:
        """Yield all edits that turn PDFium's text into the text that is indexed."""
        yield from self._drop_outside()
        for unseen in _UNSEEN.finditer(self._raw):
            yield *unseen.span(), "-" if unseen[0] == SOFT_HYPHEN else "", None
        for ligature in _LIGATURE.finditer(self._raw):
            yield *ligature.span(), _LIGATURES[ligature[0]], None
        yield from self._join_words()
        lines = [*self._join_lines()]
        yield from lines
        yield from self._mark_exponents({stop: start for start, stop, end, _ in lines if not end})
        yield from self._order_ligatures()
        yield from self._divide_words()
        yield from self._fill_in()

    def _drop_outside(self) -> Iterator[Edit]:
        """Yield edits that remove characters outside of the page's box, which PDFium's bounded text
        lacks.
        """
        inside = "".join(self._textpage.get_text_bounded().split())
        if len(inside) >= len("".join(self._raw.split())):
            return
        left, bottom, right, top = self._page.get_bbox()
        for place, box in self._shown():
            x, y = (box.left + box.right) / 2, (box.bottom + box.top) / 2
            if not (left <= x <= right and bottom <= y <= top):
                yield place, place + 1, "", None

    def _shown(self) -> Iterator[tuple[int, Rectangle]]:
        """Yield the characters that are seen, with their boxes."""
        for place, character in enumerate(self._raw):
            if not character.isspace() and (box := self._box(place)) is not None:
                yield place, box

    def _join_words(self) -> Iterator[Edit]:
        """Yield edits that join words divided at a line's end, and put the line's end after them.

        PDFium marks such a hyphen with U+FFFE or U+0002, and drops the line's end. It stays in a
        compound.
        """
        if not (divisions := [match.span() for match in _DIVISION.finditer(self._raw)]):
            return
        whole = _DIVISION.sub("\n", self._raw).lower()
        parts = [self._parts(start, stop) for start, stop in divisions]
        words = Counter(_WORD.findall(whole))
        words.subtract(part.lower() for before, after, _, _ in parts for part in (before, after))
        for (start, stop), (before, after, rest, space) in zip(divisions, parts, strict=True):
            is_marked = stop - start == 1  # else the line's end is there
            is_word = before[-1:].islower() and after[:1].islower()
            is_number = self._raw[start - 1 : start].isdigit() and rest[:1].isdigit()
            goes_on = rest[:1] in ("-", "@", "/") or _is_compound(before, after, words)
            if is_word and not goes_on:
                yield start, stop, "", None
            elif is_marked or is_word or is_number:
                yield start, stop, "-", None
            else:
                continue  # a hyphen that may be a dash
            if space:
                end = stop + len(after + rest)
                yield end, end + 1, "\n", None

    def _parts(self, start: int, stop: int) -> tuple[str, ...]:
        """Return the letters before and after a division, what follows these, and the space after
        it.
        """
        before = _BEFORE.search(self._raw, max(0, start - _LONGEST_WORD), start)
        after = _AFTER.match(self._raw, stop)
        return (before[0] if before else "", *(after.groups() if after else ("", "", "")))

    def _join_lines(self) -> Iterator[Edit]:
        """Yield edits of line ends: some that PDFium has beside a single character or an exponent
        become a space or nothing.
        """
        for match in _LINE_END.finditer(self._raw):
            start, stop = match.span()
            gap = self._gap(start - 1, stop) if start > 0 and stop < len(self._raw) else None
            has_blank = stop - start > 2  # beside the line's end
            if gap is None:
                yield start, stop, "\n", None
            else:
                yield start, stop, " " if has_blank or gap > _CLOSE else "", None

    def _gap(self, before: int, after: int) -> float | None:
        """Return the space between two characters of one line, in heights of the line; None if they
        are on different lines.
        """
        first, second = self._upright(before), self._upright(after)
        if first is None or second is None:
            return None
        height = max(first.height, second.height)
        common = min(first.top, second.top) - max(first.bottom, second.bottom)
        if height <= 0 or common < 0.5 * min(first.height, second.height):
            return None
        gap = second.left - first.right
        if unicodedata.bidirectional(self._raw[after]) in ("R", "AL"):
            gap = max(gap, first.left - second.right)
        return gap / height if gap > -_BACK * height else None

    def _mark_exponents(self, joined: Mapping[int, int]) -> Iterator[Edit]:
        """``^`` before exponents and numbers of notes: smaller and higher; ``joined`` line ends are
        left out.
        """
        for match in _DIGITS.finditer(self._raw):
            start, stop = match.span()
            if start not in joined and (not start or self._raw[start - 1] == "\n"):
                start += 1  # a number that begins a line may end with an exponent
            if start == stop:
                continue
            before = joined.get(start, start) - 1
            most = _SMALLER * self._size(before)
            base = self._upright(before)
            if base is None or self._size(stop - 1) > most:
                continue
            places = range(start, stop) if self._raw[start].isdigit() else [start + 1]
            for place in places:
                box = self._upright(place)
                if box and self._size(place) <= most and box.bottom >= base.bottom + _RAISED * most:
                    if self._raw[stop : stop + 1] not in ("/", "⁄"):  # else a fraction
                        caret = place if self._raw[start].isdigit() else start
                        yield caret, caret, "^", None
                    break

    def _divide_words(self) -> Iterator[Edit]:
        """Yield a space between words that stand close, as in tight justified lines."""
        for word in _LONG_WORD.finditer(self._raw):
            places = range(word.start() + 1, word.end())
            gaps = [self._gap(place - 1, place) or 0.0 for place in places]
            usual = max(0.0, median(gaps))
            for place, gap in zip(places, gaps, strict=True):
                if gap > usual + _NARROW:
                    yield place, place, " ", None

    def _order_ligatures(self) -> Iterator[Edit]:
        """Characters of Arabic that share a glyph, such as lam-alef: PDFium turns them round as if
        each had its own.
        """
        for match in _ARABIC.finditer(self._raw):
            for box, group in groupby(range(*match.span()), key=self._box):
                start, *others = group
                if others and box is not None:
                    yield start, others[-1] + 1, self._raw[start : others[-1] + 1][::-1], box

    @cached_property
    def _annotations(self) -> list[tuple[Any, int, Rectangle]]:
        """The annotations of the page that are shown, with kind and box."""
        annotations = []
        for number in range(raw.FPDFPage_GetAnnotCount(self._page)):
            annotation = raw.FPDFPage_GetAnnot(self._page, number)
            rect = raw.FS_RECTF()
            is_shown = not raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN
            if is_shown and raw.FPDFAnnot_GetRect(annotation, rect):
                bottom, top = sorted((rect.bottom, rect.top))
                box = Rectangle(rect.left, bottom, rect.right, top)
                annotations.append((annotation, raw.FPDFAnnot_GetSubtype(annotation), box))
            else:
                raw.FPDFPage_CloseAnnot(annotation)
        return annotations

    @property
    def _notes(self) -> Iterator[tuple[str, Rectangle]]:
        for annotation, kind, box in self._annotations:
            if kind in _NOTE_KINDS and (
                note := _read_string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
            ):
                yield note, box
            raw.FPDFPage_CloseAnnot(annotation)

    def _fill_in(self) -> Iterator[Edit]:
        """Values of a form, each after the text on its left; ``[x]`` beside what is ticked."""
        form = self._page.formenv
        widgets = [
            (field, widget)
            for widget, kind, field in self._annotations
            if kind == raw.FPDF_ANNOT_WIDGET
        ]
        if form is None or not widgets:
            return
        shown = list(self._shown())
        for field, annotation in sorted(widgets, key=lambda widget: widget[0].left):
            kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
            value = _read_field(form, annotation, kind)
            if not value:
                continue
            row = [(box, place) for place, box in shown if _is_level(box, field)]
            before = [(box.right, place) for box, place in row if box.left < field.left]
            most = field.right + _BESIDE * field.height
            after = [
                (box.left, place)
                for box, place in row
                if field.right <= box.right and box.left <= most
            ]
            if kind in _TICKS and after:
                place, shown_value = min(after)[1], f"{value} "
            elif before:
                place, shown_value = max(before)[1] + 1, f" {value}"
            else:
                place = len(self._raw)
                shown_value = f"\n{_name_field(form, annotation)}: {value}"
            yield place, place, shown_value, field


def _is_compound(before: str, after: str, words: Counter[str]) -> bool:
    """Return whether the hyphen of a divided word stays, by the other words of its page.

    It stays if the page has the word with the hyphen, or has both parts but not the whole word.
    """
    before, after = before.lower(), after.lower()
    is_used = words[f"{before}-{after}"] > 0 or (words[before] > 0 and words[after] > 0)
    return words[before + after] <= 0 and (is_used or len(before) == 1 or before in _COMPOUNDS)


def _is_level(box: Rectangle, field: Rectangle) -> bool:
    """Return whether a character stands in one line with a field: beside its middle."""
    return box.bottom <= (field.bottom + field.top) / 2 <= box.top


def _name_field(form: Any, annotation: Any) -> str:
    name = _read_string(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    return name or _read_string(raw.FPDFAnnot_GetFormFieldName, form, annotation)


def _read_field(form: Any, annotation: Any, kind: int) -> str:
    """Return the value that a form field shows; an empty string if it is not filled in, or is a
    password.
    """
    if kind in _TICKS:
        return "[x]" if raw.FPDFAnnot_IsChecked(form, annotation) else ""
    if kind in _FIELDS and not raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return _read_string(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    return ""


def _read_address(pdf: Any, link: Any) -> str:
    """Return the address of a link; an empty string if it leads to a page of the document."""
    action = raw.FPDFLink_GetAction(link)
    if raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
        return ""
    size = raw.FPDFAction_GetURIPath(pdf, action, None, 0)
    buffer = ctypes.create_string_buffer(size)
    raw.FPDFAction_GetURIPath(pdf, action, buffer, size)
    return buffer.value.decode("utf-8", "replace")


def _read_string(function: Any, *arguments: Any) -> str:
    """A string of PDFium, on one line."""
    size = function(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(size)
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return fold(buffer.raw[: max(0, size - 2)].decode("utf-16-le", "replace"))
