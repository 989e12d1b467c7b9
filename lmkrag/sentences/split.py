"""Split text into sentences that tile it: joined in order, they are the text, to the last
character.

The steps are: blocks (headings, list items, table rows, code, speaker turns, paragraphs), which no
sentence splitter knows; sentences of prose, by Punkt (Kiss and Strunk, 2006), the full stops of
other scripts, and the spaces of Thai and Lao, which have no full stop; headings without markup; and
the contexts that rows of tables and lines of code are read with.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice, pairwise

from lmkrag.formats.markup import CODE_DIRECTIVES, RULE, UnseenLines, is_admonition, measure_matter
from lmkrag.language.messages import count_marks, read_opener
from lmkrag.sentences.code_lines import add_definitions, measure_indentation
from lmkrag.sentences.headings import mark_headings
from lmkrag.sentences.languages import RECORDS, document_language, is_prose
from lmkrag.sentences.prose import find_starts
from lmkrag.sentences.structure import OWN_LINE, is_navigation
from lmkrag.sentences.table_rows import LATEX_RULE, add_contexts, name_pieces
from lmkrag.specs import BLOCK_KINDS, BYTE_ORDER_MARK, CHAT, Sentence, SentenceKind, Text

MAX_CHARS = (
    1_000  # a longer sentence is cut at the best white space: no encoder window would hold it
)
_SECTION = 1 << 20  # characters read at a time
_LONGEST_LINE = _PROSE_BLOCK = 50_000  # characters that are split at a time
_LONGEST_BLOCK = 200_000  # a log of a gigabyte has no blank line
_SETTINGS = re.compile(r"\[{1,2}[\w.\"' -]+\]{1,2}\s*$")  # [server.tls], of TOML and INI files
# characters that share a landmark, of source code and of code in a text
_CODE_GROUP, _SAMPLE_GROUP = (700, 400)
_HARD_WRAP = 120  # a longer line is a whole paragraph, unless most lines around it are as long
_FULL, _WRAPPED_SHARE = 0.8, 0.6  # of the longest line; of the lines that are as full as that
_SHORT = 0.6  # of the width of a paragraph: its author ended such a line
_WRAPPED = frozenset({"markdown", "rst", CHAT})  # kinds whose markup says where a line ends

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_HEADING = re.compile(  # of Markdown, of AsciiDoc and wikis, of LaTeX, of Perl, of GNU's news
    r"\s{0,3}(?:#{1,6}\s+\S|={1,6}\s+[^\W\d_]{2})|\s*\\(?:part|chapter|(?:sub){0,2}section|paragraph)\*?\{[^{}]"
    r"|=head[1-6]\s+\S|(?:\* )?(?:[A-Z][\w-]+ )?[Cc]hanges in (?:\w+ )?\d\S*(?: [(\[].*)?\s*$"
    r"|\*\* (?:Bug fixes|New features|Changes in \w+|Improvements|Build-related)\s*$"
)
_COMMENT = re.compile(r"\s*#\s+[^\W\dA-Z]")  # no heading below other lines
# of AsciiDoc, whose blocks lie between two rules: titles, targets, attributes, macros
_ADOC_SIGN = re.compile(
    r"={1,6} +\S.*[^=\s]\s*$|\[\[[a-z][\w-]*\]\]\s*|\[(?:verse|synopsis|glossary|source|quote)\b"
    r"|include::\S+\[|.{0,200}\blink(?:git)?:\S{1,200}\["
)
_ADOC_OWN_LINE = re.compile(r"\S.*::\s*$|\[\[[^\[\]]+\]\]\s*$")  # a term, a target
_ADOC_RULE = re.compile(r"([-.=*_+/])\1{3,}\s*$")
_UNDERLINE = re.compile(r"\s{0,3}(={3,}|-{3,}|~{4,}|`{4,}|\^{3,}|\*{3,}|\"{3,}|\+{3,})\s*$")
# of reStructuredText, the first line of a listing, and lines after which one is indented deeper
_RST_DIRECTIVE = re.compile(rf"\s*\.\. (?:{'|'.join(CODE_DIRECTIVES)})::")
_RST_LISTING = re.compile(rf"{_RST_DIRECTIVE.pattern}|(?!\s*\.\. ).*::\s*$")
_NO_MARGIN = 1 << 30  # columns
_LONG_RULE = 2  # times as long as the line above: a rule between two texts
_RST_UNDERLINE = re.compile(r"\s{0,3}(([=\-~`^*\"'#+:.])\2{2,})\s*$")  # which has no fences
_ITEM = re.compile(
    r"\s*([-*+•‣◦▪–·]|\(?\d{1,3}(\.\d{1,3})*[.)]|\d{1,3}(\.\d{1,3})+|\([a-z]{1,4}\)|[a-z]\))\s+\S",
    re.IGNORECASE,
)
# Tar - - - - - 4 barrels
_LEADER = re.compile(r"\s*\w.*?\s?(?:(?:\s[-–.·]){5,}|[.·_]{5,}|…{2,})\s*\S")
_ROW = re.compile(
    r"\s*\|.*\||[^\t\n]+\t[^\t\n]*\t|\t[^\t\n]+\t[^\t\n]|\s*\+[-=+]{3,}\+\s*$"
    r"|[^&\n]+&[^\n]*\\\\[^&\n]{0,60}$"  # of LaTeX, whose rules may stand beside it
    rf"|{LATEX_RULE}"
)
_SIMPLE_RULE = re.compile(r"\s*={2,}(?: +={2,})+\s*$")  # of a simple table of reStructuredText
_MAIL_HEADER = re.compile(r"(?:From|To|Cc|Bcc|Date|Sent|Subject|Reply-To|Attachments): \S")
_LOGGED = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"  # 2024-05-01 12:00:03
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d\s"  # May  1 12:00:03, of syslog
    r"|\d{1,3}(?:\.\d{1,3}){3} \S+ \S+ \["  # an address, of web servers
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?\s"
)
_TURN = re.compile(r"\s*[A-Z][\w.'’ -]{0,40}:\s+\S")
_ENDS_SENTENCE = re.compile(r"[.!?…:;。！？｡؟۔।॥։።៕။][\"'”’)\]]*\s*$")
_OPENING = " \t\"'“‘„«»¿¡(["
_LINE_BREAKS = ("  ", "\\", " +")  # ends of a line, of Markdown, of LaTeX, of AsciiDoc
_FRONT_MATTER_END, _PREAMBLE_END = (
    re.compile(r"\s?---\s*$|\.\.\.\s*$"),
    re.compile(r"[ \t]{0,40}\\begin\{document\}"),
)
_TOML_RULE = re.compile(r"\+\+\+\s*$")
_PROPERTY = re.compile(r"[\"']?(\w[\w .-]{0,60}?)[\"']?(?::(?=\s|$)| *= )")
_FOR_PROGRAMS = frozenset(  # keys of front matter that say nothing about what the text is about
    """title layout permalink slug id uid uuid cssclass cssclasses css class weight template theme
    type toc draft publish published sidebar sidebar_position sidebar_label nav_order order
    hide_title jupyter kernelspec output format editor parent has_children position linter-yaml
    pandoc bibliography csl lang math mermaid comments image cover banner icon""".split()  # noqa: SIM905
)
_PROPERTY_LINE = re.compile(r"[A-Z]\w[\w ()/-]{0,40}: +\S.{0,200}\s*$")
_FIELD = re.compile(r"\s*(?:[-*+] )?\w[\w -]{0,40}:: *\S")  # of Obsidian: due:: 1 June
_FRONT_MATTER_LINES = 500
# lines that may show what it is; characters by which a rule below a title may differ
_ADOC_HEAD, _ADOC_SLACK = (60, 2)
_NO_SENTENCE = re.compile(
    r"\W{0,200}((\d{1,3}(?:\.\d{1,3}){0,4}|[A-Za-z]|[ivxlcIVXLC]{1,4})\W{0,200})?$"
)
# Not ends of sentences: dots of a leader, the mark of a quotation inside a sentence, "![" of an
# image, a mark inside bold text.
_NOT_ENDS = re.compile(
    r"(?:\.[ \t]+)(?=\.)|(?<=\. )\.[ \t]+|[.!?][\"'”’]+\s+(?=[a-z])|!(?=\[)|[.!?](?=\*\*)"
)
_BOLD_END = re.compile(r"[.!?]\*\*\s++(?![a-z])")  # the end of a sentence
_BREAKS = tuple(
    re.compile(pattern)
    for pattern in (r"\n+", r" \| ", r"[.;!?؟؛۔।]\s+|[。！？]", r"[,:)\]}|،、，]\s+|[、，]", r"\s+")
)

# The characters of Unicode's Sentence_Terminal property that are in wide use, beside those of Latin
# script: Chinese and Japanese, Arabic and Urdu, the languages of India, Armenian, Ethiopic, Khmer,
# Burmese.
_FULL_STOPS = "。！？｡؟۔।॥։።៕។။"
_FULL_STOP = re.compile(rf"[{_FULL_STOPS}]+[」』”’»）】)\]\"']*\s*")
_THAI_LAO = "\u0e01-\u0e4e\u0e81-\u0ece"
_THAI_LAO_SPACE = re.compile(rf"(?<=[{_THAI_LAO}])[ \xa0]+(?=[\"“(]?[{_THAI_LAO}])")
_THAI_LAO_SENTENCE = (
    80  # characters: a space ends a clause or a sentence, and shorter pieces say little
)

Part = tuple[int, str, SentenceKind]  # where a piece of the text starts, and the piece


def split_sentences(text: str, *, kind: str = "text") -> list[Sentence]:
    r"""Split a text into sentences that tile it; white space belongs to the sentence before it.

    Args:
        text: the text.
        kind: the kind of the document. ``"code"`` groups lines instead of looking for sentences; of
            the kinds in ``RECORDS`` each line is one.

    Returns:
        The sentences, in order; an empty list for an empty text.

    >>> text = "# Leave\nDr. Hale approves it. Ask early!"
    >>> [text[s.start : s.end] for s in split_sentences(text)]
    ['# Leave\n', 'Dr. Hale approves it. ', 'Ask early!']
    """
    return list(iter_sentences(text, kind=kind))


def iter_sentences(text: Text, *, kind: str = "text") -> Iterator[Sentence]:
    """Yield what :func:`split_sentences` returns, in memory that does not grow with the text.

    Args:
        text: the text, in memory or on disk.
        kind: the kind of the document.
    """
    if kind == "code":
        blocks = _code_blocks(0, _lines(text), _CODE_GROUP, is_file=True)
    else:
        blocks = _record_blocks(_lines(text)) if kind in RECORDS else _blocks(_lines(text), kind)
    # Cut blocks into sentences, and long sentences into pieces: (start, text, kind) of each.
    cut = (
        (start + first, part[first:end], part_kind)
        for start, part, part_kind in _split_blocks(blocks, document_language(text, kind))
        for first, end in _pieces(part, 0, len(part), MAX_CHARS)
    )
    # Give white space to the sentence before it, mark headings, and add contexts.
    sentences = _join_blanks(cut)
    lined = kind == "code" or kind in RECORDS
    marked = (sentence for sentence, _ in sentences) if lined else mark_headings(sentences, kind)
    return with_contexts(text, marked, kind)


def with_contexts(text: Text, sentences: Iterable[Sentence], kind: str) -> Iterator[Sentence]:
    """Yield sentences of a text with their contexts: the columns of a table's row, the definitions
    around code.

    Args:
        text: the text, in memory or on disk.
        sentences: its sentences, in order.
        kind: the kind of the document.
    """
    if kind == "code":
        return add_definitions(text, sentences)
    return name_pieces(text, sentences) if kind in RECORDS else add_contexts(text, sentences)


def _join_blanks(parts: Iterable[Part]) -> Iterator[tuple[Sentence, str]]:
    """Yield sentences and their texts.

    A blank part belongs to the sentence before it, or at the start of the text to the first one.
    """
    pending: tuple[Sentence, str] | None = None
    for start, part, kind in parts:
        sentence, text = Sentence(start, start + len(part), kind), part
        if pending is not None:
            before, held = pending
            if text.isspace():
                sentence = Sentence(before.start, sentence.end, before.kind)
                # a gigabyte of blanks is cut short
                text = held + text if len(held) <= 2 * MAX_CHARS else held
            elif held.isspace():
                sentence = Sentence(before.start, sentence.end, kind)
            else:
                yield pending
        pending = sentence, text
    if pending is not None:
        yield pending


def _lines(text: Text) -> Iterator[str]:
    """Yield the lines of a text with their ends, read in sections.

    A very long line is cut; a byte order mark is read as a space.
    """
    held = ""
    for start in range(0, len(text), _SECTION):
        held += text[start : start + _SECTION]
        if start == 0 and held.startswith(BYTE_ORDER_MARK):
            held = " " + held[1:]
        last = start + _SECTION >= len(text)
        stop = 0
        for match in _LINE.finditer(held):
            for first, end in _pieces(held, *match.span(), _LONGEST_LINE):
                if end == len(held) and not last:
                    break  # it may go on in the next section
                yield held[first:end]
                stop = end
        held = held[stop:]


def _split_blocks(blocks: Iterable[Part], language: str) -> Iterator[Part]:
    """Yield the sentences of blocks of prose; a block of another kind stays whole."""
    for start, block, kind in blocks:
        if kind in BLOCK_KINDS or (kind == "item" and is_navigation(block)):
            yield start, block, kind
            continue
        for first, end in _pieces(block, 0, len(block), _PROSE_BLOCK):
            previous = first
            for stop in (*_find_ends(block[first:end], language), end - first):
                stop += first
                # "1." or "—" alone stays with the text after it
                if stop <= previous or (stop < end and _NO_SENTENCE.match(block, previous, stop)):
                    continue
                yield start + previous, block[previous:stop], kind
                previous = stop


def _pieces(text: str, start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut ``text[start:end]`` at white space into pieces of at most ``most`` characters."""
    while end - start > most:
        cut = _best_break(text, start, start + most)
        yield start, cut
        start = cut
    yield start, end


def _best_break(text: str, start: int, limit: int) -> int:
    """Return the end of the last good break in the second half of ``text[start:limit]``, else
    ``limit``.
    """
    middle = start + (limit - start) // 2
    for pattern, first in (*((each, middle) for each in _BREAKS), (_BREAKS[-1], start + 1)):
        if breaks := [match.end() for match in pattern.finditer(text, first, limit)]:
            return breaks[-1]
    return limit


def _blocks(lines: Iterable[str], document_kind: str = "text") -> Iterator[Part]:
    """Group lines into blocks of one kind; a blank line ends a block and belongs to it."""
    front_matter, lines = split_front_matter(iter(lines))
    head = list(islice(lines, _ADOC_HEAD))
    is_asciidoc = document_kind == "text" and any(map(_ADOC_SIGN.match, head))
    is_latex = "".join([*front_matter, *head])[:1] in ("%", "\\")
    if front_matter:
        yield from split_properties(front_matter)
    is_marked = document_kind in _WRAPPED or is_asciidoc or is_latex
    start = sum(map(len, front_matter))
    grouping = _Grouping(start, document_kind, is_asciidoc=is_asciidoc, is_marked=is_marked)
    for line in chain(head, lines):
        yield from grouping.add(line)
    yield from grouping.end()


class _Grouping:
    """Groups lines into blocks.

    State: the open block, where it and the next line start, and what the next line may belong to.
    """

    def __init__(
        self, start: int, document_kind: str, *, is_asciidoc: bool, is_marked: bool
    ) -> None:
        self._document_kind, self._is_asciidoc = document_kind, is_asciidoc
        self._is_marked, self._unseen = is_marked, UnseenLines() if is_marked else None
        self._start = self._position = start
        self._kind: SentenceKind | None = None
        self._block: list[str] = []
        self._blank = True  # whether a block may begin here, as after a blank line
        self._fence = ""
        self._margin = _NO_MARGIN  # of the text above a listing of reStructuredText
        self._rules = 0  # of a simple table, so far
        self._is_top = document_kind == "markdown"  # whether only a heading is above
        self._form = ""  # of the lines that begin the messages of a conversation

    def add(self, line: str) -> Iterator[Part]:
        """Add a line, and yield the blocks that it closes."""
        if self._position - self._start > _LONGEST_BLOCK:
            yield from self.end(self._kind)
        opener = read_opener(line) if self._document_kind == CHAT else None
        if opener is not None and self._form in ("", opener.form):
            yield from self.end()
            yield self._start, line[: opener.end], "heading"
            self._form, self._fence, self._blank = opener.form, "", True
            self._position += opener.end
            self._start, line = self._position, line[opener.end :]
            if not line:
                return
        if self._fence:
            yield from self._add_fenced(line)
        elif not line.isspace() and self._is_listed(line):
            if self._kind != "code":
                yield from self.end("code")
            self._block.append(line)
            self._blank = True
        elif self._is_asciidoc and _is_asciidoc_rule(line, self._blank, self._block):
            yield from self._open_asciidoc(line)
        elif ruled := self._find_ruled(line):
            yield from self._add_rule(line, *ruled)
        elif opening := None if self._document_kind == "rst" else _FENCE.match(line):
            yield from self.end("code")
            self._block, self._fence = [line], opening.group(1)[:3]
        elif line.isspace():
            self._block.append(line)
            self._blank = True
        else:
            yield from self._add_text(line)
            if self._document_kind == "rst" and _RST_LISTING.match(line):
                item = _ITEM.match(line)
                self._margin = item.end() - 1 if item else measure_indentation(line)
        self._position += len(line)

    def end(self, kind: SentenceKind | None = None) -> Iterator[Part]:
        """Yield the open block; the next one begins with the next line.

        Args:
            kind: the kind of the next block.
        """
        if self._is_top and _are_properties(self._block):  # as Notion exports them
            yield from _record_blocks(self._block, self._start)
        else:
            yield from _close(self._start, self._block, self._kind, is_marked=self._is_marked)
        is_text = self._kind != "heading" and any(map(str.strip, self._block))
        self._is_top = self._is_top and not is_text
        self._start, self._kind, self._block = self._position, kind, []

    def _add_fenced(self, line: str) -> Iterator[Part]:
        self._block.append(line)
        if line.lstrip().startswith(self._fence):
            yield from self.end()
            self._start += len(line)
            self._fence, self._blank = "", True

    def _is_listed(self, line: str) -> bool:
        """Whether a line with text is of a listing, which ends with its indentation."""
        is_deeper = measure_indentation(line) > self._margin
        if not is_deeper:
            self._margin = _NO_MARGIN
        return is_deeper

    def _open_asciidoc(self, line: str) -> Iterator[Part]:
        """Begin a block of AsciiDoc with its rule, and with the plus sign that joins it to the text
        above.
        """
        joint = self._block.pop() if self._block[-1:] == ["+\n"] else ""
        yield from self.end("text")
        self._start -= len(joint)
        self._block, self._blank = [joint, line], True
        if line[0] in "-./":
            self._kind = "metadata" if line[0] == "/" else "code"
            self._fence = line.strip()

    def _find_ruled(self, line: str) -> tuple[int, SentenceKind] | None:
        """The first line of the block that a rule below it closes, and what the rule makes of them:
        a heading, or a slide's front matter.
        """
        block = [] if self._blank else self._block
        if self._is_marked and block and measure_matter([*block, line]):
            return 0, "metadata"
        is_rule = len(block) > 1 and len(line.strip()) > _LONG_RULE * len(block[-1].strip())
        if block and not is_rule and _underlines(line, block[-1], self._document_kind):
            return len(block) - 1, "heading"
        return None

    def _add_rule(self, line: str, first: int, kind: SentenceKind) -> Iterator[Part]:
        """Add a rule that makes the lines of the block from ``first`` on a part of their own."""
        above = "".join([*self._block[first:], line])
        self._block = self._block[:first]
        yield from self.end()
        self._start = self._position + len(line)
        yield self._start - len(above), above, kind
        self._blank = True

    def _add_text(self, line: str) -> Iterator[Part]:
        kind = self._find_kind(line)
        if _SIMPLE_RULE.match(line):
            self._rules = (self._rules + 1) % 3
        goes_on = self._kind == "record" and line[0].isspace()
        begins = kind != "text" or is_admonition(line) or (self._blank and not goes_on)
        if begins or self._quotes_otherwise(line):
            yield from self.end(kind)
        self._block.append(line)
        # one line is the whole block
        self._blank = kind in ("heading", "row", "metadata") or is_admonition(line)

    def _quotes_otherwise(self, line: str) -> bool:
        """Whether a line of a mail is quoted, and the one before it is not, or the reverse."""
        above = self._block[-1] if self._block and self._document_kind == "mail" else line
        return count_marks(line) != count_marks(above)

    def _find_kind(self, line: str) -> SentenceKind:
        """The kind of a line by its beginning and by the block that it may belong to."""
        begins = self._blank or not self._block
        if self._unseen is not None and self._unseen.has(line):
            return "metadata"
        if self._document_kind == "rst" and _RST_DIRECTIVE.match(line):
            return "code"
        if self._rules or _SIMPLE_RULE.match(line):
            return "row"
        if _is_record(line, has_fields=self._document_kind == "markdown"):
            return "record"
        if _HEADING.match(line) and (begins or not _COMMENT.match(line)):
            return "heading"
        if _ROW.match(line):
            return "row"
        if _ITEM.match(line) or _LEADER.match(line) or is_navigation(line):
            return "item"
        if _TURN.match(line) and (begins or _ENDS_SENTENCE.search(self._block[-1])):
            return "turn"
        return "text"


def split_front_matter(lines: Iterator[str]) -> tuple[list[str], Iterator[str]]:
    """Return the lines of front matter (YAML or TOML) or of LaTeX's preamble, and the others."""
    head = list(islice(lines, 1))
    if not head or not (ends := _find_end_of_matter(head[0])):
        return [], chain(head, lines)
    for line in islice(lines, _FRONT_MATTER_LINES):
        if len(head) == 1 and ends is not _PREAMBLE_END and not _PROPERTY.match(line):
            return [], chain([*head, line], lines)
        head.append(line)
        if ends.match(line):
            return head, lines
    return [], chain(head, lines)


def _find_end_of_matter(first: str) -> re.Pattern[str] | None:
    """Return what ends the front matter that a line begins; None if it begins none."""
    if first.startswith(("%", "\\")):
        return _PREAMBLE_END
    if RULE.match(first):
        return _FRONT_MATTER_END
    return _TOML_RULE if _TOML_RULE.match(first) else None


def split_properties(lines: Sequence[str]) -> Iterator[Part]:
    """Yield the properties of front matter, each with its value as a record; what is for programs
    is metadata.
    """
    if lines[0].startswith(("%", "\\")):
        yield 0, "".join(lines), "metadata"
        return
    parts = [lines[0]]
    for line in lines[1:]:
        if _PROPERTY.match(line) or line is lines[-1]:
            parts.append("")
        parts[-1] += line
    start = 0
    for kind, group in groupby(parts, key=_find_property_kind):
        for part in group if kind == "record" else ["".join(group)]:
            yield start, part, kind
            start += len(part)


def _are_properties(lines: Sequence[str]) -> bool:
    """Return whether lines are a list of properties: names of their own, with values that are no
    sentences.
    """
    filled = [line for line in lines if not line.isspace()]
    names = {line.partition(":")[0] for line in filled if _PROPERTY_LINE.match(line)}
    return 1 < len(filled) == len(names) and not any(map(_ENDS_SENTENCE.search, filled))


def _find_property_kind(part: str) -> SentenceKind:
    """Return ``record`` for a property of front matter with a value for readers."""
    key = _PROPERTY.match(part)
    is_read = (
        key and key[1].lower() not in _FOR_PROGRAMS and any(map(str.isalnum, part[key.end() :]))
    )
    return "record" if is_read else "metadata"


def _underlines(line: str, title: str, document_kind: str) -> bool:
    """Return whether a line makes a heading of the one before it."""
    is_rst = document_kind == "rst"
    rule = _RST_UNDERLINE.match(line) if is_rst else _UNDERLINE.match(line)
    # "~~~~" may open code: under a title it is as long, as reStructuredText has it
    is_long = rule is not None and (rule[1][0] in '=-^*"+' or len(rule[1]) >= len(title.strip()))
    return is_long and any(map(str.isalnum, title)) and "|" not in title  # else a row of a table


def _is_asciidoc_rule(line: str, blank: bool, block: list[str]) -> bool:
    """Return whether a line begins a block of AsciiDoc; a rule about as long as the title above it
    does not.
    """
    if not _ADOC_RULE.match(line):
        return False
    # of an attribute, or of the title of a block
    is_below = block and not blank and block[-1][0] not in "[."
    return not is_below or abs(len(line.strip()) - len(block[-1].strip())) > _ADOC_SLACK


def _is_record(line: str, *, has_fields: bool) -> bool:
    """Return whether a line belongs to no other: of a log, of the header of a mail, of a note."""
    is_field = has_fields and _FIELD.match(line) is not None
    return is_field or any(pattern.match(line) for pattern in (_LOGGED, _MAIL_HEADER))


def _close(
    start: int, block: list[str], kind: SentenceKind | None, *, is_marked: bool
) -> Iterator[Part]:
    """Yield the open block: code in groups, text cut after a short line that ends a paragraph
    without a blank line.
    """
    if kind == "code":
        yield from _code_blocks(start, block)
    if kind == "code" or not block:
        return
    kind = kind or "text"
    group: list[str] = []
    if kind not in BLOCK_KINDS:
        lengths = sorted(len(line.rstrip()) for line in block)
        width = lengths[-1 - len(lengths) // 4]  # a few lines may be longer: those with an address
        full = sum(_FULL * lengths[-1] <= length for length in lengths)
        most = lengths[-1] if full >= _WRAPPED_SHARE * (len(lengths) - 1) else _HARD_WRAP
        for line, following in pairwise(block):
            group.append(line)
            if _ends_by_itself(line, following, width, most, is_marked=is_marked):
                joined = "".join(group)
                yield start, joined, kind
                start, group = start + len(joined), []
        block = block[-1:]
    yield start, "".join([*group, *block]), kind


def _ends_by_itself(line: str, following: str, width: int, most: int, *, is_marked: bool) -> bool:
    """Return whether a line ends its paragraph although the next one is not blank.

    In marked text only lines of their own do, and line breaks that are marked; in plain text short
    lines, and those longer than ``most``, before a capital letter or a digit.
    """
    if is_marked and not line.rstrip("\r\n").endswith(_LINE_BREAKS):
        if _ADOC_OWN_LINE.match(line):
            return True
        return OWN_LINE.match(line) is not None and OWN_LINE.match(following) is not None
    length = len(line.rstrip())
    first = following.lstrip(_OPENING)[:1]
    is_short = length < _SHORT * min(width, _HARD_WRAP)
    return (is_short or length > most) and (first.isupper() or first.isdigit())


def _record_blocks(lines: Iterable[str], start: int = 0) -> Iterator[Part]:
    """Yield each line as a record; a heading (the name of a sheet) and prose, which is split later,
    are other kinds.
    """
    for line in lines:
        yield (
            start,
            line,
            "heading" if _HEADING.match(line) else "text" if is_prose(line) else "record",
        )
        start += len(line)


def _code_blocks(
    start: int, lines: Iterable[str], most: int = _SAMPLE_GROUP, *, is_file: bool = False
) -> Iterator[Part]:
    """Group lines of code: up to ``most`` characters, closed early by a blank line, and in a file
    by the name of a section of settings.
    """
    group, is_closed = "", False
    for line in lines:
        is_closed = is_closed or (is_file and _SETTINGS.match(line) is not None)
        if group and (is_closed or len(group) + len(line) > most):
            yield start, group, "code"
            start, group = start + len(group), ""
        group += line
        is_closed = line.isspace() and len(group) > most // 4 and not group.isspace()
    if group:
        yield start, group, "code"


def _find_ends(text: str, language: str) -> list[int]:
    """Return the offsets at which sentences of prose end, in order; the end of the text is left
    out.
    """
    starts = set(find_starts(text, language))
    starts -= {match.end() for match in _NOT_ENDS.finditer(text)}
    starts |= {match.end() for match in _BOLD_END.finditer(text)}
    if not text.isascii():
        starts.update(match.end() for match in _FULL_STOP.finditer(text))
        start = 0
        for match in _THAI_LAO_SPACE.finditer(text):
            if match.start() - start >= _THAI_LAO_SENTENCE:
                starts.add(start := match.end())
    return sorted(starts - {0})
