"""Mail and mailboxes, by the standard library: who wrote to whom and when, the text, and the
attachments.
"""

import codecs
import email
import email.errors
import email.header
import email.policy
import re
from collections.abc import Iterator
from contextlib import suppress
from email.message import EmailMessage, Message
from functools import lru_cache
from mimetypes import MimeTypes
from typing import Any
from urllib.parse import unquote_to_bytes

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Attachment, Loaded, Parts, fold
from lmkrag.formats.calendars import read_events
from lmkrag.formats.html import extract, find_label
from lmkrag.formats.text import decode, decode_labelled

_PEOPLE = ("From", "To", "Cc")
_HEADERS = (*_PEOPLE, "Date", "Subject")
_PICTURES = ("image", "audio", "video")  # mostly of signatures
_MOST_MESSAGES = 20_000  # of a mailbox
_MAY_BE_POSTMARK = re.compile(rb"^From ([^\r\n]*)\r?\n(?=[!-9;-~]+:)", re.MULTILINE)
_WEEKDAY_AND_DAY = re.compile(
    rb"(?<![^ ])[A-Z][a-z][a-z],? +(?:[A-Z][a-z][a-z] +\d\d?|\d\d? +[A-Z][a-z][a-z])"
)
_HOUR = re.compile(rb" \d\d?:\d\d")
_QUOTED_FROM = re.compile(rb"^>(>*)From ", re.MULTILINE)
_HEADERS_ONLY = re.compile(rb"(?:[!-9;-~]+:.*(?:\n[ \t].*)*(?:\n|$))+$")
_TELLING = re.compile(
    rb"^(From|To|Subject|Date|Received|Return-Path|Message-ID|MIME-Version):", re.MULTILINE
)
# A name without quotation marks, encoded or not: those with blanks, brackets and the like are cut
# by the standard parser.
_NAME = re.compile(r'\b(?:file)?name(\*?)[ \t]*=[ \t]*(?!")([^;"]+)', re.IGNORECASE)
_TYPES = MimeTypes()  # without those of the machine
_OFFICE, _OPEN = (
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
)
_SUFFIXES = {
    "application/ics": ".ics",
    "application/rtf": ".rtf",
    "application/epub+zip": ".epub",
    "application/xml": ".xml",
    "application/gzip": ".gz",
    "text/vcard": ".vcf",
    f"{_OFFICE}wordprocessingml.document": ".docx",
    f"{_OFFICE}spreadsheetml.sheet": ".xlsx",
    f"{_OFFICE}presentationml.presentation": ".pptx",
    f"{_OPEN}text": ".odt",
    f"{_OPEN}spreadsheet": ".ods",
    f"{_OPEN}presentation": ".odp",
}
# Kinds of text that are files, also without a name.
_FILES = ("text/csv", "text/tab-separated-values", "text/vcard", "text/x-vcard")
_BODIES = ("text/plain", "text/html", "text/calendar", "text/enriched", "text/rfc822-headers")
# of what became of a message
_REPORTS = (
    "message/delivery-status",
    "message/disposition-notification",
    "message/feedback-report",
)
# "ada@example.org (Ada)"
_NAME_LAST = re.compile(r"\A([^\s<>\"(][^<>\"(]*?)[ \t]*\(([^()]+)\)\s*\Z")
_HEAD = 65_536  # bytes that have the headers of a mail
_BLANKS = re.compile(r"\n{3,}")
# characters, of which the standard parsers take time by their square
_LONG_HEADER, _MOST_ENCODED = (2_000, 20_000)


class _Policy(email.policy.EmailPolicy):
    """Reads long headers, such as a newsletter's recipients, and wrongly encoded ones as plain
    text.
    """

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return _read_header(name, value)


@lru_cache(maxsize=256)  # a mail is asked for the types of its parts again and again
def _read_header(name: str, value: str) -> Any:
    if name.title() in _PEOPLE and len(value) <= _LONG_HEADER:
        value = _NAME_LAST.sub(r"\2 <\1>", value)
    parsed = (
        email.policy.default.header_fetch_parse(name, value) if len(value) <= _LONG_HEADER else None
    )
    if parsed is not None and "=?" not in parsed and "\ufffd" not in parsed:
        return parsed
    value = "".join(value.splitlines())
    if name.title() not in _HEADERS:
        value = value[:_MOST_ENCODED]
    with suppress(DocumentError, ValueError, email.errors.MessageError):
        value = decode(value.encode("utf-8", "surrogateescape"))  # bytes as old programs write them
        words: list[tuple[Any, str | None]] = email.header.decode_header(value[:_MOST_ENCODED])
        value = "".join(
            word if isinstance(word, str) else decode_labelled(word, code or "raw-unicode-escape")
            for word, code in (words if "=?" in value else [(value, None)])
        )
    return value


def read(data: bytes, name: str) -> Loaded:
    """Read an .eml or .emlx file: its headers, one line each, and its texts.

    Args:
        data: the bytes of the file.
        name: its name.

    Returns:
        The text; attachments of the mail are attachments of the document.
    """
    if name.lower().endswith(".emlx") and (size := re.match(rb"\s*(\d+)\s*\n", data)):
        data = data[size.end() : size.end() + int(size[1])]
    message, inside = _parse(data), _Inside()
    date = getattr(message.get("Date"), "datetime", None)
    meta = {"author": _header(message, "From"), "date": date.date().isoformat() if date else ""}
    meta = {key: value for key, value in meta.items() if value}
    text = _show(message, inside)
    return Loaded(text, "mail", _header(message, "Subject"), meta=meta, **inside.found())


def read_mailbox(data: bytes, name: str) -> Loaded:
    """Read an .mbox file: its messages one after the other, each under its subject.

    Raises:
        DocumentError: it is no mailbox, or has more than 20,000 messages.
    """
    messages: list[str] = []
    inside = _Inside()
    postmarks = [*_find_postmarks(data)]
    borders = [*(start for start, _ in postmarks), len(data)]
    for (_, start), end in zip(postmarks, borders[1:], strict=True):
        if len(messages) == _MOST_MESSAGES:
            raise DocumentError(f"a mailbox of more than {_MOST_MESSAGES:,} messages: split it")
        what = f"message {len(messages) + 1}"
        messages.append(inside.parts.read(what, _show_titled, data[start:end], inside) or "")
    if not messages and is_message(data[:_HEAD]):
        return read(data, name)
    if not messages:
        raise DocumentError("not a mailbox, or without messages")
    return Loaded("\n\n".join(filter(None, messages)), "mail", **inside.found())


def _show_titled(source: bytes, inside: "_Inside") -> str:
    """A message of a mailbox under its subject."""
    message = _parse(_QUOTED_FROM.sub(rb"\1From ", source))
    return f"# {_header(message, 'Subject') or 'No subject'}\n\n{_show(message, inside)}"


def read_page(data: bytes, name: str) -> Loaded:
    """Read an .mht file, in which a browser saved a page with its pictures."""
    message = _parse(data)
    inside = [
        (part.get_content_subtype(), part) for part in message.walk() if not part.is_multipart()
    ]
    parts = Parts()
    pages = [
        parts.read(f"page {number}", _read_html, part) or ""
        for number, (kind, part) in enumerate(inside, 1)
        if "html" in kind
    ]
    pages = pages or [_decode(part) for kind, part in inside if kind == "plain"]
    if data.lstrip().startswith(b"<"):  # a page without the headers of a mail
        pages = [extract(data)]
    text = "\n\n".join(filter(None, pages))
    return Loaded(text, "html", _header(message, "Subject"), left_out=parts.left_out)


def _read_html(part: EmailMessage) -> str:
    return extract(_decode(part).encode())


def is_mailbox(head: bytes) -> bool:
    """Return whether the beginning of a file is that of a mailbox, as mail programs store it
    without a suffix.
    """
    return next(_find_postmarks(head), (-1, -1))[0] == 0


def is_message(head: bytes) -> bool:
    """Return whether the beginning of a file is that of a mail, as a Maildir has it."""
    headers = head.replace(b"\r", b"").partition(b"\n\n")[0]
    return _HEADERS_ONLY.match(headers) is not None and len(set(_TELLING.findall(headers))) > 2


def _find_postmarks(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the lines before each mail of a mailbox begin and end: ``From ada@example.org Mon
    Jan 1 12:00:00 2024``.
    """
    for line in _MAY_BE_POSTMARK.finditer(data):
        day = _WEEKDAY_AND_DAY.search(line[1])
        if day is not None and _HOUR.search(line[1], day.end()):
            yield line.span()


def _parse(data: bytes) -> EmailMessage:
    # with a blank line or a postmark there are no headers
    data = re.sub(rb"\A\s*(?:>?From [^\r\n]*\s)?\s*", b"", data)
    policy: Any = _Policy()
    return email.message_from_bytes(data, policy=policy)


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = str(message.get(name, ""))
    except Exception:  # a header that can't be parsed
        return ""
    return fold(value)


class _Inside:
    """The attachments of a file of mails, and the parts that can't be read, while it is read."""

    def __init__(self) -> None:
        self.attachments: list[Attachment] = []
        self.parts = Parts()

    def found(self) -> dict[str, Any]:
        """Return the fields of :class:`lmkrag.formats.base.Loaded`."""
        return {"attachments": tuple(self.attachments), "left_out": self.parts.left_out}


def _show(message: EmailMessage, inside: _Inside) -> str:
    """Return the text of a message, with the messages that it forwards.

    Args:
        message: the message.
        inside: gets its attachments, and the parts that can't be read.
    """
    headers = [f"{name}: {value}" for name in _HEADERS if (value := _header(message, name))]
    names: list[str] = []
    texts = _read_part(message, inside, names)
    if names:
        headers.append(f"Attachments: {', '.join(names)}")
    parts = ["\n".join(headers), *texts]
    return _BLANKS.sub("\n\n", "\n\n".join(part.strip() for part in parts if part.strip()))


def _read_part(part: EmailMessage, inside: _Inside, names: list[str]) -> list[str]:
    """Return the texts of a part of a message and of the parts in it, in order.

    Args:
        part: the part.
        inside: gets the attachments, and the parts that can't be read.
        names: gets the names of the attachments.
    """
    payload: Any = part.get_payload()
    name = _name_attachment(part)
    if part.get_content_type() == "message/rfc822":
        return [_read_forwarded(part, name, inside)]
    if isinstance(payload, list) and part.get_content_type() in _REPORTS:
        return [
            "\n".join(f"{name}: {fold(str(value))}" for name, value in block.items())
            for block in payload
        ]
    if isinstance(payload, list):
        return _read_parts(part, payload, inside, names)
    if name:
        _attach(part, name, inside, names)
        return []
    if part.get_content_maintype() == "multipart":  # without the borders that its header names
        return [str(payload)]
    return _read_body(part)


def _name_attachment(part: EmailMessage) -> str:
    """Return the name of an attachment, also one that is written against the standard, or one by
    its type; an empty string for a part that is none.
    """
    name = next(filter(None, map(_read_name, part.raw_items())), "") or part.get_filename() or ""
    kind, family = part.get_content_type(), part.get_content_maintype()
    is_body = kind in _BODIES or family in ("multipart", "message", *_PICTURES)
    is_file = part.get_content_disposition() == "attachment" and not is_body
    if not name and (family == "application" or kind in _FILES or is_file):
        name = f"attachment{_SUFFIXES.get(kind) or _TYPES.guess_extension(kind) or ''}"
    return fold(name).replace("/", "_")


def _read_name(header: tuple[str, Any]) -> str:
    """Return the name of a file that a header gives without quotation marks, whatever signs it
    has; an empty string if it gives none so.
    """
    field, value = header
    if field.lower() not in ("content-disposition", "content-type"):
        return ""
    names = {sign: name.strip() for sign, name in _NAME.findall(str(value))}
    if "*" in names:
        charset, _, encoded = names["*"].partition("'")  # then the language, as in UTF-8'en'Plan
        return decode_labelled(unquote_to_bytes(encoded.rpartition("'")[2]), charset)
    return fold(str(_read_header("Subject", names.get("", ""))))


def _read_forwarded(part: EmailMessage, name: str, inside: _Inside) -> str:
    """Return the text of a message in a message, under its subject."""
    payload: Any = part.get_payload()
    inner = payload[0] if isinstance(payload, list) else payload
    encoding = _header(part, "Content-Transfer-Encoding").lower()
    if encoding in ("base64", "quoted-printable"):
        with suppress(ValueError, TypeError):  # of what is not base64
            source = inner.as_bytes(policy=email.policy.compat32)
            decoded: Any = codecs.decode(source, encoding)
            inner = _parse(decoded)
    return f"# {_header(inner, 'Subject') or name or 'No subject'}\n\n{_show(inner, inside)}"


def _read_parts(
    part: EmailMessage, payload: list[Any], inside: _Inside, names: list[str]
) -> list[str]:
    """Return the texts of the parts of a part: of alternatives the best."""
    subject = _header(part, "Subject")
    of_message = f" of {subject}" if subject else ""
    texts = [
        inside.parts.read(f"part {number}{of_message}", _read_part, inner, inside, names) or []
        for number, inner in enumerate(payload, 1)
    ]
    if part.get_content_subtype() == "alternative":
        return _choose(texts, [inner.get_content_type() for inner in payload])
    return [text for inner in texts for text in inner]


def _attach(part: EmailMessage, name: str, inside: _Inside, names: list[str]) -> None:
    """Note an attachment; those of signatures are left out, and pictures are only named."""
    if part.get_content_subtype().endswith("-signature"):
        return
    names.append(name)
    data = part.get_payload(decode=True)
    if part.get_content_maintype() not in _PICTURES:
        inside.attachments.append(Attachment(name, data if isinstance(data, bytes) else b""))


def _read_body(part: EmailMessage) -> list[str]:
    """Return the text of a part that is text or a calendar."""
    kind = part.get_content_type()
    if not kind.startswith("text/"):
        return []
    if kind == "text/html":
        return [_read_html(part)]
    text = _decode(part)
    if kind == "text/calendar":
        return ["\n\n".join(read_events(text.encode()))]
    if part.get_param("format") == "flowed":
        return [_join_flowed(text, part.get_param("delsp") == "yes")]
    return [text]


def _choose(texts: list[list[str]], kinds: list[str]) -> list[str]:
    """Return the best of several alternatives of a text, and the text of calendars beside them.

    The best is the first that says what the others say, else the last, as its mail program meant
    (RFC 2046): a line that only tells why there is no text is no text, however long it is.
    """
    bodies = [text for text, kind in zip(texts, kinds, strict=True) if kind != "text/calendar"]
    words = [set(re.findall(r"\w+", " ".join(text).casefold())) for text in bodies]
    best = (
        text
        for text, own in zip(bodies, words, strict=True)
        if all(_covers(own, other) for other in words)
    )
    body = next(best, bodies[-1] if bodies else [])
    events = [text for text, kind in zip(texts, kinds, strict=True) if kind == "text/calendar"]
    return [text for part in (body, *events) for text in part]


def _covers(own: set[str], other: set[str]) -> bool:
    """Return whether a text has half of the words of another, or the other is less than half as
    long.
    """
    return 2 * len(other) < len(own) or 2 * len(own & other) >= len(other)


def _join_flowed(text: str, drop_space: bool) -> str:
    """Join the lines of paragraphs that a mail program has wrapped (RFC 3676)."""
    lines: list[str] = []
    depth = 0
    flows = False
    for line in text.split("\n"):
        content = line.lstrip(">")
        flows = flows and depth == len(line) - len(content)
        depth = len(line) - len(content)
        if not (flows and drop_space) or content.startswith("  "):
            content = content.removeprefix(" ")
        if flows:
            lines[-1] = (lines[-1].removesuffix(" ") if drop_space else lines[-1]) + content
        else:
            lines.append(f"{'>' * depth} {content}" if depth else content)
        flows = content.endswith(" ") and content != "-- "
    return "\n".join(lines)


def _decode(part: EmailMessage | Message) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    label = part.get_content_charset() or (
        find_label(data) if part.get_content_type() == "text/html" else None
    )
    try:
        text = decode_labelled(data, label)
    except DocumentError:  # control characters
        text = data.decode("cp1252", "replace")
    return text.replace("\r\n", "\n")
