"""The result of every format's reader, and helpers for zip archives, Office files and tables."""

import io
import logging
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import IO, Any, TypeVar
from urllib.parse import unquote

from lmkrag.errors import DocumentError
from lmkrag.formats.memory import allow_unpacked

Part = TypeVar("Part")
_logger = logging.getLogger(__name__)

INDENT = "  "  # of a definition under its term
MAX_UNPACKED = 1 << 30  # bytes an archive may unpack to, by its own directory
_OF_TEMPLATES = ("2013-12-23", "2013-01-27")  # the dates of python-docx and python-pptx
_LIBRARIES = ("python-docx", "openpyxl")
_CORE = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file inside a file.

    Attributes:
        name: its name, whose suffix selects the reader.
        data: its bytes.
    """

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a reader has read from a file; plug-ins return it, too.

    Attributes:
        text: the text.
        kind: the format, as ``kind`` of documents names it.
        title: the title; empty if the file has none.
        page_starts: the offset of the first character of each page; empty for a text without pages.
        meta: metadata by name.
        attachments: the files in the file.
        scanned: numbers, from 1, of pages that are pictures, which OCR reads.
        left_out: why parts of the file can't be read, by the names of the parts: see
            :class:`Parts`.
    """

    text: str
    kind: str
    title: str = ""
    page_starts: tuple[int, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    scanned: tuple[int, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


class Parts:
    """Reads the parts of a file, such as sheets, pages or messages, so that one that fails leaves
    the others.

    Attributes:
        left_out: why parts are left out, by their names.

    >>> parts = Parts()
    >>> [parts.read(f"sheet {name}", int, name) for name in ("1", "x", "3")], parts.left_out
    ([1, None, 3], {'sheet x': 'broken (ValueError)'})
    """

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}

    def read(self, name: str, read: Callable[..., Part], *arguments: Any) -> Part | None:
        """Return what a call returns, None if it fails; then the part is left out.

        Args:
            name: name of the part, for users.
            read: reads the part.
            arguments: what it is called with.

        Raises:
            MemoryError: the file takes too much memory, whatever the part.
        """
        try:
            return read(*arguments)
        except MemoryError:
            raise
        except BaseException as error:
            if not is_of_parser(error):
                raise
            _logger.debug("%s is left out", name, exc_info=True)
            broken = f"broken ({type(error).__name__})"
            self.left_out[name] = str(error) if isinstance(error, DocumentError) else broken
            return None


def is_of_parser(error: BaseException) -> bool:
    """Return whether an error says that a file can't be parsed, as opposed to the end of the
    program.
    """
    is_panic = type(error).__name__ == "PanicException"  # of libraries in Rust
    return is_panic or isinstance(error, Exception)


# how a compound file begins: Office before 2007, or an encrypted one of today
OLD_OFFICE = b"\xd0\xcf\x11\xe0"
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_MANIFEST = "META-INF/manifest.xml"  # of OpenDocument
# The content types of documents with macros and of templates; below, those of plain documents.
_WORD_VARIANT = re.compile(
    rb"(?<=application/vnd\.)(?:ms-word\.\w+\.macroEnabled\w*"
    rb"|openxmlformats-officedocument\.wordprocessingml\.template)(?=\.main\+xml)"
)
_SLIDES_VARIANT = re.compile(
    rb"(?<=application/vnd\.)(?:ms-powerpoint\.\w+\.macroEnabled\w*"
    rb"|openxmlformats-officedocument\.presentationml\.(?:template|slideshow))(?=\.main\+xml)"
)
_WORD = b"openxmlformats-officedocument.wordprocessingml.document"
_SLIDES = b"openxmlformats-officedocument.presentationml.presentation"
_RELATION, _TARGET = re.compile(rb"<Relationship\b[^<>]*/>"), re.compile(rb"\bTarget=\"([^\"]*)\"")
_TYPES, _RELATIONS = "[Content_Types].xml", "_rels/.rels"
_PART_NAME = re.compile(rb'\bPartName="/?([^"]*)"')
_RELATIONS_SUFFIX = ".rels"
_XML = (".xml", ".rels")
_STRICT = b"http://purl.oclc.org/ooxml/"
_STRICT_NAMES = re.compile(re.escape(_STRICT) + rb"(\w+)/")
_TRANSITIONAL = rb"http://schemas.openxmlformats.org/\1/2006/"

SOFT_HYPHEN = "\u00ad"  # where a word may be divided: not shown but at the end of a line
_GAP = "\n\n"
_PAGE_COUNT = re.compile(  # Page 1 of 9
    r"(?:(?:page|seite|pagina|página|sida|side|strona|str|стр|p"
    r"|s)\b\.?)?+\s*+[–—-]?+\s*+\d{0,4}+\s*+[–—-]?+\s*+"
    r"(?:(?:of|von|sur|de|di|van|av|af|z|из|/)\s*+\d{0,4}+)?+\s*+",
    re.IGNORECASE,
)
_BAR, _ESCAPED_BAR = re.compile(r"(?<!\\)\|"), r"\\|"
# Letters and signs of the fonts Symbol and Wingdings, which Office has as private characters.
_CODES = (
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    b"\xa3\xa5\xa8\xb0\xb1\xb3\xb4\xb7\xb8\xb9\xbb\xfb\xfc\xfd\xfe"
)
_SIGNS = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖαβχδεφγηιϕκλμνοπθρστυϖωξψζ≤∞☐°±≥×•÷≠≈✗✓☒☑"
_SYMBOLS = {0xF000 + code: sign for code, sign in zip(_CODES, _SIGNS, strict=True)}
_EXPONENT = re.compile(r"[−–+-]?\d")
# of a link out of a document; longer ones are made to follow their readers
_OUTSIDE = re.compile(r"(?:(?:https?|ftp)://|[\w.+-]+@[\w-]+\.|\+?[\d()-]{5})\S{0,300}$")
_SENTENCE_START = re.compile(r"(?<=[.!?])\s+(?=\W{0,9}[^\W\d_a-z])")
_MOST_BEFORE_LINK = 1_000  # characters in which its sentence is looked for
_LONGEST_LINK = 100  # characters of the words before an address
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
MATH_TEXT = f"{_MATH}t"  # the element of Office that has the text of an equation
_MATH_SIGNS = {f"{_MATH}sup": "^", f"{_MATH}sub": "_", f"{_MATH}den": "/"}


def open_office_file(data: bytes, what: str, suffix: str) -> IO[bytes]:
    """Open a file of Office (2007 and later) as a plain document.

    Macros and templates are opened like documents, and Strict XML is rewritten as the usual kind.

    Args:
        data: the bytes of the file.
        what: what messages call the program, such as ``Word``.
        suffix: the suffix to save the file as, for messages.

    Raises:
        DocumentError: it is encrypted, of a version before 2007, or too large.
    """
    if data.startswith(OLD_OFFICE):
        if ENCRYPTED in data:
            raise DocumentError(f"encrypted {what} file: save it without a password")
        raise DocumentError(f"{what} file of a version before 2007: save it as {suffix}")
    with open_archive(data, what) as archive:
        file = _pack(_respell(archive)) if _has_odd_names(archive) else io.BytesIO(data)
    with zipfile.ZipFile(file) as archive:
        types, relations = archive.read(_TYPES), archive.read(_RELATIONS)
        plain = _SLIDES_VARIANT.sub(_SLIDES, _WORD_VARIANT.sub(_WORD, types))
        parts = {_TYPES: plain, **_drop_dangling(archive, archive.namelist())}
        if plain == types and len(parts) == 1 and _STRICT not in relations:
            return file
        for name in archive.namelist() if _STRICT in relations else ():
            if name.endswith(_XML):
                xml = parts.get(name) or archive.read(name)
                parts[name] = _STRICT_NAMES.sub(_TRANSITIONAL, xml)
        return rewrite_archive(archive, parts)


def open_package(
    data: bytes, what: str, suffix: str, open_file: Callable[[IO[bytes]], Part], parts: Parts
) -> Part:
    """Open a file of Office by a library that reads all of its XML at once.

    If that fails, the parts that can't be unpacked, or whose XML is broken, are left out.

    Args:
        data: the bytes of the file.
        what: what messages call the program, such as ``Word``.
        suffix: the suffix to save the file as, for messages.
        open_file: opens the file by the library.
        parts: notes which parts are left out.

    Returns:
        The result of ``open_file``.

    Raises:
        DocumentError: it is encrypted, of a version before 2007, or too large.
    """
    from lxml import etree

    file = open_office_file(data, what, suffix)
    try:
        return open_file(file)
    except (etree.XMLSyntaxError, zipfile.BadZipFile, zlib.error):
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            whole = [name for name in names if parts.read(name, _is_whole, archive, name)]
            return open_file(rewrite_archive(archive, _drop_dangling(archive, whole), whole))


def _is_whole(archive: zipfile.ZipFile, name: str) -> bool:
    """Return whether a part of a file of Office can be unpacked, and has a root if it is one of
    XML; parsers raise their errors.
    """
    content = archive.read(name)
    return not name.endswith(_XML) or parse_xml(content) is not None


def parse_xml(data: bytes) -> Any:
    """Return the root of an XML file, without comments; nothing outside the file is read."""
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
    )
    return etree.fromstring(data, parser)


def rewrite_archive(
    archive: zipfile.ZipFile, parts: Mapping[str, bytes], names: Iterable[str] | None = None
) -> IO[bytes]:
    """Return a zip archive with some parts replaced.

    Args:
        archive: the archive.
        parts: the new parts, by name.
        names: names of the parts to keep; None for all.
    """
    kept = archive.namelist() if names is None else names
    return _pack((name, parts.get(name) or archive.read(name)) for name in kept)


def _pack(parts: Iterable[tuple[str, bytes]]) -> IO[bytes]:
    """Return a zip archive of parts and their names."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in parts:
            archive.writestr(name, content)
    packed.seek(0)
    return packed


def _has_odd_names(archive: zipfile.ZipFile) -> bool:
    """Return whether parts of a file of Office are called otherwise than its relations call them.

    Some programs write backslashes, or a name in another case; Office takes them for the same.
    """
    names = {*archive.namelist()}
    has_fixed = {_TYPES, _RELATIONS} <= names
    if not has_fixed or any(_spell(name).lower() != name.lower() for name in names):
        return True
    known = {*map(_spell, names)}
    return any(
        path not in names and _spell(path) in known
        for name in names
        if name.endswith(_RELATIONS_SUFFIX)
        for _, path in _find_targets(name, archive.read(name))
    )


def _respell(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    """Yield the parts of a file of Office with their names in small letters, also in its relations
    and in its list of types.
    """
    for name in archive.namelist():
        spelled, content = _spell(name), archive.read(name)
        if spelled.endswith(_RELATIONS_SUFFIX):
            content = _RELATION.sub(_respell_target, content)
        elif spelled == _TYPES.lower():
            spelled, content = _TYPES, _PART_NAME.sub(_respell_value, content)
        yield spelled, content


def _respell_target(relation: re.Match[bytes]) -> bytes:
    if b'"External"' in relation[0]:
        return relation[0]
    return _TARGET.sub(_respell_value, relation[0])


def _respell_value(attribute: re.Match[bytes]) -> bytes:
    name, _, path = attribute[0].decode("utf-8", "replace").partition("=")
    return f"{name}={_spell(path)}".encode()


def _spell(name: str) -> str:
    """Return the name of a part in the spelling in which names are compared."""
    path = posixpath.normpath(unquote(name).replace("\\", "/")).lstrip("/").lower()
    return path.replace("docprops/", "docProps/")  # which openpyxl looks for by name


def _find_targets(name: str, relations: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield the relations of a file of relations, each with the name of its part; those that lead
    outside are left out.
    """
    folder = "/" + posixpath.dirname(posixpath.dirname(name))
    for relation in set(_RELATION.findall(relations)):
        target = _TARGET.search(relation)
        if target is not None and b'"External"' not in relation:
            path = posixpath.join(folder, target[1].decode("utf-8", "replace"))
            yield relation, posixpath.normpath(path).partition("#")[0].lstrip("/")


def _drop_dangling(archive: zipfile.ZipFile, kept: Sequence[str]) -> dict[str, bytes]:
    """Return the files of relations that name missing parts, such as ``NULL``, without those
    relations.
    """
    names = {name.lower() for name in kept}
    changed = {}
    for name in kept:
        if not name.endswith(_RELATIONS_SUFFIX):
            continue
        complete = relations = archive.read(name)
        for relation, part in _find_targets(name, relations):
            if part.lower() not in names:
                complete = complete.replace(relation, b"")
        if complete != relations:
            changed[name] = complete
    return changed


def mark_raised(before: str, text: str) -> str:
    """Return a superscript, with ``^`` if it is an exponent or a note number: 10 with 6 must not
    become 106.

    >>> [mark_raised("10", "6"), mark_raised("10", "-4"), mark_raised("the 4", "th"), mark_raised("see ", "3")]
    ['^6', '^-4', 'th', '3']
    """  # noqa: E501
    return f"^{text}" if _EXPONENT.match(text) and before and not before[-1].isspace() else text


def read_run(run: Any) -> str:
    """Return the text of a run of Office (``w:r``, ``a:t``); an equation gets signs of powers and
    fractions.
    """
    if run.tag != MATH_TEXT:
        return show_symbols(str(run.text or "").replace(SOFT_HYPHEN, ""))
    part = next(run.iterancestors(*_MATH_SIGNS), None)
    sign = _MATH_SIGNS[part.tag] if part is not None and next(part.iter(MATH_TEXT)) is run else ""
    return sign + (run.text or "")


def show_symbols(text: str) -> str:
    """Return a text whose private characters, of Office's fonts of symbols, are replaced by letters
    and signs.
    """
    return text.translate(_SYMBOLS)


def fold(text: str) -> str:
    r"""Return a text on one line, with single spaces for its white space.

    >>> fold("  Tide\n tables ")
    'Tide tables'
    """
    return " ".join(text.split())


def is_inside(element: Any, *tags: str) -> bool:
    """Return whether an element of lxml stands inside one of some kinds."""
    return next(element.iterancestors(*tags), None) is not None


def read_whole(text: str | None, default: int) -> int:
    """Return the whole number that an attribute begins with, as browsers read it, too, or
    ``default`` if it has none.
    """
    match = re.match(r"\s*(-?\d{1,9})(?!\d)", text or "")
    return int(match[1]) if match else default


class Links:
    """The addresses of a document's links: a line for each at the end of its section.

    The words of a text stay as they are, and a line can be found and quoted alone: it begins with
    the sentence up to the link, or what stands between the link before and this one. A link that is
    all of its paragraph or cell has its address beside its words instead.

    >>> links = Links()
    >>> links.add("It is new. Pay the dues at this page", "https://pay.example.org", "this page")
    ''
    >>> links.take()
    ['Pay the dues at this page: https://pay.example.org']
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._known: set[str] = set()
        self._last_words = ""

    def add(self, text: str, address: str, words: str, *, is_alone: bool = False) -> str:
        """Note a link, and return what follows its words.

        Args:
            text: the text of its paragraph up to the end of the link.
            address: its address; those inside a document, and of scripts, are left out.
            words: the words of the link.
            is_alone: whether it is all of its paragraph or cell.
        """
        address = address.strip().removeprefix("mailto:").removeprefix("tel:")
        shown = re.sub(r"^https?://(?:www\.)?|[/?].*", "", address)
        if not _OUTSIDE.match(address) or not words.strip() or address in self._known:
            return ""
        self._known.add(address)
        if shown.casefold() in words.casefold() or words.startswith(("http", "www.")):
            return ""
        if is_alone:
            return f" ({address})"
        sentence = _SENTENCE_START.split(fold(text[-_MOST_BEFORE_LINK:]))[-1]
        own, last = fold(words), self._last_words
        if last and sentence.endswith(own):  # the words before that link are on its line
            sentence = sentence.removesuffix(own).rpartition(last)[2] + own
        self._last_words = own
        if len(sentence) > _LONGEST_LINK:
            sentence = sentence[-_LONGEST_LINK:].partition(" ")[2] or sentence[-_LONGEST_LINK:]
        self._lines.append(f"{sentence.strip(' -#:,;/')}: {address}")
        return ""

    def take(self) -> list[str]:
        """Return the lines of the links since the last call."""
        lines, self._lines = self._lines, []
        return lines


def join_pages(pages: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Join the texts of pages.

    Returns:
        The text, with a blank line between pages, and the offset of the first character of each
            page.
    """
    starts = accumulate((len(page) + len(_GAP) for page in pages[:-1]), initial=0)
    return _GAP.join(pages), tuple(starts) if pages else ()


def split_pages(text: str, starts: Sequence[int]) -> list[str]:
    """Return the pages that :func:`join_pages` joined."""
    borders = [*starts, len(text) + len(_GAP)]
    return [text[start : stop - len(_GAP)] for start, stop in pairwise(borders)]


def read_margins(lines: Iterable[str]) -> list[str]:
    """Return the lines of headers and footers, each once, without those that only count pages.

    >>> read_margins(["Contract HX-4471", "Page 1 of 9", "Contract HX-4471", "- 2 -", ""])
    ['Contract HX-4471']
    """
    return [line for line in dict.fromkeys(lines) if not _PAGE_COUNT.fullmatch(line)]


def table_row(cells: Iterable[str]) -> str:
    """Return the cells of a row between bars, as Markdown writes them."""
    return f"| {' | '.join(_BAR.sub(_ESCAPED_BAR, cell) for cell in cells)} |"


def open_archive(data: bytes, what: str) -> zipfile.ZipFile:
    """Open a zip archive in memory, and allow the memory that unpacking it takes.

    Raises:
        DocumentError: it is encrypted, or would unpack to more than :data:`MAX_UNPACKED`.
    """
    archive = zipfile.ZipFile(io.BytesIO(data))
    unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > MAX_UNPACKED:
        raise DocumentError(f"{what} file would unpack to {unpacked >> 20} MiB: refused")
    allow_unpacked(unpacked)
    if _MANIFEST in archive.namelist() and b"encryption-data" in archive.read(_MANIFEST):
        raise DocumentError(f"encrypted {what} file: save it without a password")
    return archive


def read_core_properties(package: Any) -> tuple[str, dict[str, str]]:
    """Return the title and the metadata of a package of python-docx or python-pptx.

    Both are empty if it has no properties: the libraries would fill in properties of their own,
    dated today.
    """
    try:
        package.part_related_by(_CORE)
    except KeyError:
        return "", {}
    properties = package.core_properties
    changed = str(properties.modified or properties.created)
    date = "" if changed.startswith(_OF_TEMPLATES) else changed
    return properties.title or "", describe_properties(properties.author, date)


def describe_properties(author: str | None, changed: object) -> dict[str, str]:
    """Return the metadata of a document from its properties.

    Names that libraries fill in are left out.

    Args:
        author: the author, if it has one.
        changed: the time of its last change, in any form that begins with year, month and day.

    Returns:
        ``author`` and ``date`` (ISO 8601), as far as they are known.
    """
    match = re.search(r"(\d{4})-?(\d\d)-?(\d\d)", str(changed))
    date = "-".join(match.groups()) if match else ""
    meta = {}
    if author and author not in _LIBRARIES:
        meta["author"] = author
    if date:
        meta["date"] = date
    return meta
