"""Turn a file into a ``Document``: one reader for each format, chosen by the file's name."""

import codecs
import hashlib
import logging
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path
from posixpath import splitext
from typing import NamedTuple

from lmkrag.errors import DocumentError, EmptyDocument, UsageError
from lmkrag.formats.base import OLD_OFFICE, Loaded, is_of_parser
from lmkrag.formats.chats import name_users
from lmkrag.formats.encoded import drop_encoded
from lmkrag.formats.marked_tables import show_tables
from lmkrag.formats.memory import find_limit
from lmkrag.formats.ocr import is_installed
from lmkrag.formats.scans import SCANNED
from lmkrag.formats.text import CODE, SAMPLE, read_mark, unpack_gzip
from lmkrag.plugins import FORMATS, list_plugins, load_plugin
from lmkrag.specs import ATTACHED_TO, BYTE_ORDER_MARK, CHAT
from lmkrag.system.files import printable
from lmkrag.types import Document, Skipped

Reader = Callable[[bytes, str], Loaded]  # reads the bytes of a file, by its name

_READERS = {  # by module and function: what messages call a file, and its suffixes
    "html.read": ("HTML page", ".html .htm .xhtml"),
    "html.read_svg": ("SVG", ".svg"),
    "html.read_epub": ("EPUB file", ".epub"),
    "pdf.read": ("PDF", ".pdf"),
    "docx.read": ("Word file", ".docx .docm .dotx .dotm"),
    "notebook.read": ("notebook", ".ipynb"),
    "spreadsheet.read": ("Excel file", ".xlsx .xlsm .xltx .xltm"),
    "spreadsheet.read_old": ("Excel file", ".xls .xlsb"),
    "slides.read": ("PowerPoint file", ".pptx .pptm .ppsx .ppsm .potx .potm"),
    "opendocument.read": ("OpenDocument file", ".odt .ods .odp .odg .ott .ots .otp .otg"),
    "opendocument.read_flat": ("OpenDocument file", ".fodt .fods .fodp .fodg"),
    "rtf.read": ("RTF", ".rtf"),
    "mail.read": ("mail", ".eml .emlx"),
    "mail.read_mailbox": ("mailbox", ".mbox .mbx .mbs"),
    "mail.read_page": ("HTML page", ".mht .mhtml"),
    "calendars.read_calendar": ("calendar", ".ics .ifb .vcs"),
    "calendars.read_contacts": ("contacts", ".vcf .vcard"),
    "subtitles.read": ("subtitles", ".srt .vtt"),
    "manual.read": ("manual page", ".man"),
    "load.read_gzip": ("gzip file", ".gz"),
    "ocr.read_picture": ("picture", ".png .jpg .jpeg .webp .tif .tiff"),
    "delimited.read_csv": ("table", ".csv .tsv"),
    "sql_dumps.read": ("SQL file", ".sql"),
    "json_records.read": ("JSON", ".json .jsonl .ndjson .geojson .jsonld"),
}
_BY_SUFFIX = {
    suffix: reader for reader, (_, suffixes) in _READERS.items() for suffix in suffixes.split()
}
_ARCHIVES = ("docx.read", "html.read_epub", "opendocument.read", "slides.read", "spreadsheet.read")
_MAGIC = {suffix: b"PK" for suffix, reader in _BY_SUFFIX.items() if reader in _ARCHIVES}
_MAGIC |= {".pdf": b"%PDF-", ".gz": b"\x1f\x8b"}
"""What a file of a format has near its beginning."""

_MAX_CHARACTERS = 64 << 20  # of a file that is parsed, and so held in memory
_MAX_EXPANSION = 100  # characters per byte; compressed text has 3 to 20
_SMALL = 1 << 20  # characters that a file may have whatever its size
_MOST_ATTACHMENTS = 10_000  # of a file
_MOST_NAMED = 20  # parts of a file that are left out
_DEEPEST = 3  # of attachments to attachments
_OLD = (".doc", ".ppt")
_EXTRAS = {  # a reader, the module it needs, and the message without it
    "ocr.read_picture": ("rapidocr", "picture: pip install 'lmkrag[ocr]' reads its text"),
    "spreadsheet.read_old": (
        "python_calamine",
        "old Excel file: pip install 'lmkrag[xls]' reads it",
    ),
}
_HEAD = 8_192  # bytes by which a mail or a manual page is recognized
_MANUAL = re.compile(rb"^[.'][ \t]*(?:TH|Dd)[ \t]", re.MULTILINE)  # after comments
_MAY_BE_MAIL = re.compile(rb"From |[A-Za-z-]+:[ \t]")
_LONG = 4 << 20  # bytes
_logger = logging.getLogger(__name__)
_LONGEST_TITLE = 200  # characters of a title that are compared
_NO_TITLE = re.compile(  # what programs write into PDFs and slides where nobody gave a title
    r"\W*+(?:untitled|anonymous|unspecified|(?:powerpoint "
    r")?presentation|document|slides?)?\W*+\d*+\W*+"
    r"|microsoft \w+ - .*|.*\.(?:docx?|pptx?|xlsx?|indd|tex)",
    re.IGNORECASE,
)
_NOT_TEXT = frozenset(
    """.gif .bmp .ico .heic .psd .mp3 .wav .flac .ogg .m4a .mp4 .mov .avi .mkv .webm .zip .bz2
    .xz .zst .7z .rar .tar .tgz .whl .jar .exe .dll .so .dylib .a .o .obj .class .pyc .pyo .bin
    .dat .iso .img .dmg .deb .rpm .msi .apk .ttf .otf .woff .woff2 .eot .sqlite .sqlite3 .db
    .parquet .arrow .feather .npy .npz .pt .pth .onnx .safetensors .pkl .faiss .doc .ppt .msg
    .pst .mobi""".split()
)


def load_document(path: Path, doc_id: str) -> Document:
    """Read one regular file, without its attachments.

    Args:
        path: the file.
        doc_id: name of its document.

    Raises:
        DocumentError: it can't be read.
    """
    return load_bytes(_read(path), path.name, doc_id=doc_id, path=printable(str(path)))


def _read(path: Path) -> bytes:
    try:
        check_file(path)
        return path.read_bytes()
    except OSError as error:
        raise DocumentError(f"can't be read ({error.strerror or error})", lasting=False) from error
    except MemoryError as error:
        raise DocumentError("needs more memory than it may use: skipped", lasting=False) from error


def check_file(path: Path) -> None:
    """Check a file's name and first bytes, without reading it.

    Raises:
        EmptyDocument: the file is empty.
        DocumentError: its format is not supported, or its content is of another format.
    """
    if path.stat().st_size == 0:
        raise EmptyDocument("empty file")
    with path.open("rb") as file:
        sample = file.read(SAMPLE)
    suffix = _find_suffix(path.name, sample)
    _check_suffix(suffix)
    if _is_plain(suffix):
        read_mark(sample)
    # An old file of Office is left to its reader, which says more.
    elif _MAGIC.get(suffix, b"") not in sample[:1024] and not sample.startswith(OLD_OFFICE):
        raise DocumentError(f"content is not {suffix[1:].upper()}")


def _check_suffix(suffix: str) -> None:
    if suffix[1:] in list_plugins(FORMATS):
        return
    if suffix in _NOT_TEXT:
        hint = f": save it as {suffix}x" if suffix in _OLD else ""
        raise DocumentError(f"unsupported format ({suffix}){hint}")
    module, advice = _EXTRAS.get(_BY_SUFFIX.get(suffix, ""), ("", ""))
    if module and find_spec(module) is None:
        raise DocumentError(advice, lasting=False)


def load_bytes(data: bytes, name: str, *, doc_id: str, path: str) -> Document:
    """Read a file's bytes, without its attachments.

    Args:
        data: the bytes.
        name: a file name, whose suffix selects the reader.
        doc_id: name of the document.
        path: the path of the document, as shown to users.

    Raises:
        DocumentError: they can't be read.
    """
    return _document(_parse(data, name, path), data, name, doc_id, path)


class LoadedFile(NamedTuple):
    """The documents of a file.

    Attributes:
        document: its own document.
        attached: the documents of its attachments.
        skipped: attachments and parts that can't be read, with reasons.
        scans: the bytes of attachments with scanned pages, which OCR is to read, by ``doc_id``.
    """

    document: Document
    attached: list[Document]
    skipped: list[Skipped]
    scans: dict[str, bytes]


def load_with_attachments(path: Path, doc_id: str) -> LoadedFile:
    """Read one file and the files attached to it, whose documents are called ``doc_id/name``.

    Args:
        path: the file.
        doc_id: name of its document.

    Raises:
        DocumentError: the file itself can't be read.
    """
    data, file_path = _read(path), printable(str(path))
    loaded = _parse(data, path.name, file_path)
    if loaded.kind == CHAT and not is_plain(path):
        loaded = name_users(loaded, path)
    attached: dict[str, Document] = {}
    skipped = name_parts(doc_id, loaded.left_out)
    scans: dict[str, bytes] = {}
    document = _document(loaded, data, path.name, doc_id, file_path)
    waiting = [(doc_id, 1, loaded.attachments)]
    while waiting:
        owner, depth, attachments = waiting.pop()
        for attachment in attachments:
            name = _free_name(f"{owner}/{printable(attachment.name)}", attached)
            if len(attached) + len(skipped) == _MOST_ATTACHMENTS:
                why = f"more than {_MOST_ATTACHMENTS:,} attachments: the rest is left out"
                skipped.append(Skipped(name, why))
                return LoadedFile(document, list(attached.values()), skipped, scans)
            try:
                inner = _parse(attachment.data, attachment.name, name)
                embedded = _document(inner, attachment.data, attachment.name, name, file_path)
            except DocumentError as error:
                skipped.append(Skipped(name, str(error)))
                continue
            attached[name] = replace(embedded, meta={**embedded.meta, ATTACHED_TO: doc_id})
            skipped += name_parts(name, inner.left_out)
            if inner.scanned and is_installed():
                scans[name] = attachment.data
            if inner.attachments and depth < _DEEPEST:
                waiting.append((name, depth + 1, inner.attachments))
    return LoadedFile(document, list(attached.values()), skipped, scans)


def name_parts(doc_id: str, left_out: Mapping[str, str]) -> list[Skipped]:
    """Return why parts of a file are left out: the first 20 by their names, then the number of the
    others.
    """
    parts = [
        Skipped(f"{doc_id}/{printable(part)}", f"left out: {why}") for part, why in left_out.items()
    ]
    if (more := len(parts) - _MOST_NAMED) > 0:
        parts[_MOST_NAMED:] = [Skipped(f"{doc_id}/...", f"left out: {more:,} parts more")]
    return parts


def _free_name(name: str, taken: Container[str]) -> str:
    stem, suffix = splitext(name)
    names = (f"{stem} ({number}){suffix}" for number in count(2))
    return next(free for free in chain([name], names) if free not in taken)


def _parse(data: bytes, name: str, path: str) -> Loaded:
    if not data.strip():
        raise EmptyDocument("empty file")
    suffix = _find_suffix(name, data)
    _check_suffix(suffix)
    if not _is_plain(suffix):  # the text of other files is the file, its byte order mark included
        data = data.removeprefix(codecs.BOM_UTF8)
    what = name_format(suffix)
    try:
        loaded = _reader(suffix)(data, name)
    except DocumentError:
        raise
    except UsageError as error:  # of a plug-in that can't be imported
        raise DocumentError(str(error), lasting=False) from error
    except BaseException as error:  # of lxml, zipfile and the other libraries
        if not is_of_parser(error):
            raise
        _logger.debug("%s: can't be parsed", path, exc_info=True)
        raise to_document_error(error, suffix) from error
    if not loaded.page_starts:  # the characters of pages have places
        shown = show_tables(loaded.text, loaded.kind)
        loaded = replace(loaded, text=drop_encoded(shown))
    if not loaded.text.removeprefix(BYTE_ORDER_MARK).strip() and not loaded.scanned:
        if loaded.left_out:
            part, why = next(iter(loaded.left_out.items()))
            raise DocumentError(f"broken {what} ({part}: {why})")
        raise DocumentError(f"{what} without text") if what else EmptyDocument("no text in it")
    allowed = min(_MAX_CHARACTERS, max(_SMALL, _MAX_EXPANSION * len(data)))
    if not _is_plain(suffix) and len(loaded.text) > allowed:
        excess = f"holds more than {allowed:,} characters, out of {len(data):,} bytes: refused"
        raise DocumentError(excess)
    return loaded


def to_document_error(error: BaseException, suffix: str) -> DocumentError:
    """Return the error of a file, by its suffix, from the error of a parser."""
    what = name_format(suffix)
    broken = f"broken {what}" if what else "can't be parsed"
    if not isinstance(error, MemoryError):
        return DocumentError(f"{broken} ({type(error).__name__})")
    limit = find_limit()
    most = f"{limit >> 20} MiB of memory" if limit else "the memory that there is"
    return DocumentError(f"{broken} (it takes more than {most})", lasting=limit > 0)


def read_gzip(data: bytes, name: str) -> Loaded:
    """Read the content of a .gz file. Plain text gets the kind ``gz``: its lines are not those of
    the file.
    """
    inner = name[: -len(".gz")]
    unpacked = unpack_gzip(data, inner)
    loaded = _parse(unpacked, inner, name)
    return replace(loaded, kind="gz") if _is_plain(_find_suffix(inner, unpacked)) else loaded


def _document(loaded: Loaded, data: bytes, name: str, doc_id: str, path: str) -> Document:
    is_made_up = loaded.page_starts and _NO_TITLE.fullmatch(loaded.title[:_LONGEST_TITLE])
    title = "" if is_made_up else loaded.title
    try:
        return Document(
            doc_id=doc_id,
            path=path,
            text=loaded.text,
            title=title or printable(Path(name).stem),
            kind=loaded.kind,
            page_starts=loaded.page_starts,
            meta={**loaded.meta, SCANNED: list(loaded.scanned)} if loaded.scanned else loaded.meta,
            fingerprint=fingerprint(data),
        )
    except UsageError as error:
        raise DocumentError(str(error)) from error


def fingerprint(data: bytes) -> str:
    """Return the hash that differs between a changed file and one that was only touched."""
    return hashlib.sha256(data).hexdigest()


def is_plain(path: Path) -> bool:
    """Return whether a file is plain text, which needs no parser."""
    try:
        with path.open("rb") as file:
            return _is_plain(_find_suffix(path.name, file.read(_HEAD)))
    except OSError:  # its reader reports it
        return _is_plain(path.suffix.lower())


def may_hold_prose(path: Path) -> bool:
    """Return whether a file may hold prose, by its suffix.

    Source code, pictures, which take seconds to read, and formats that can't be read are left out.
    """
    suffix = path.suffix.lower()
    is_text = suffix not in _NOT_TEXT and suffix not in CODE
    return is_text and _BY_SUFFIX.get(suffix) != "ocr.read_picture"


def _find_suffix(name: str, data: bytes) -> str:
    """Return the suffix that a file is read by: that of its name, or of manual pages, mails and
    mailboxes, whose names do not show what they are.
    """
    suffix = Path(name).suffix.lower()
    if suffix[1:2].isdigit() and _MANUAL.search(data[:_HEAD]):
        return ".man"
    if suffix in _BY_SUFFIX or suffix[1:].isalpha() or not _MAY_BE_MAIL.match(data):
        return suffix
    from lmkrag.formats.mail import is_mailbox, is_message

    if is_mailbox(data[:_HEAD]):
        return ".mbox"
    return ".eml" if is_message(data[:_HEAD]) else suffix


def name_format(suffix: str) -> str:
    """Return what messages call a file with a suffix, such as ``Excel file``; an empty string for
    plain text.
    """
    what, _ = _READERS.get(_BY_SUFFIX.get(suffix, ""), ("", ""))
    return what


def _is_plain(suffix: str) -> bool:
    return suffix not in _BY_SUFFIX and suffix[1:] not in list_plugins(FORMATS)


def is_long(path: Path, size: int) -> bool:
    """Return whether a file of ``size`` bytes is plain text too long for memory."""
    return size > _LONG and is_plain(path) and path.suffix.lower() not in _NOT_TEXT


def _reader(suffix: str) -> Reader:
    if suffix[1:] in list_plugins(FORMATS):
        plugin: Reader = load_plugin(FORMATS, suffix[1:])
        return plugin
    name, _, function = _BY_SUFFIX.get(suffix, "text.read").partition(".")
    module = import_module(f"lmkrag.formats.{name}")
    reader: Reader = getattr(module, function)
    return reader
