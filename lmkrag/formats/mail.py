"""Mail and mailboxes, by the standard library: who wrote to whom and when, the text, and the attachments."""

import email
import email.policy
import mailbox
import re
import tempfile
from email.message import EmailMessage, MIMEPart

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Attachment, Loaded
from lmkrag.formats.html import extract

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_PICTURES = ("image", "audio", "video")  # signatures hold them; nobody expects their words
_MOST_MESSAGES = 20_000  # of a mailbox
_BLANKS = re.compile(r"\n{3,}")


def read(data: bytes, name: str) -> Loaded:
    """Read an .eml file: its headers, a line each, and its text; its attachments are files in it."""
    message = _parse(data)
    attachments: list[Attachment] = []
    subject = _header(message, "Subject")
    known = {key: value for key, value in (("author", _header(message, "From")), ("date", _date(message))) if value}
    text = _show(message, attachments)
    if not text.strip():
        raise DocumentError("mail without text")
    return Loaded(text, "mail", subject, meta=known, attachments=tuple(attachments))


def read_mailbox(data: bytes, name: str) -> Loaded:
    """Read an .mbox file: its messages one after the other, each under its subject."""
    messages: list[str] = []
    attachments: list[Attachment] = []
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        box = mailbox.mbox(file.name, create=False)
        for number, key in enumerate(box.iterkeys()):
            if number == _MOST_MESSAGES:
                raise DocumentError(f"a mailbox of more than {_MOST_MESSAGES:,} messages: split it")
            message = _parse(box.get_bytes(key))
            messages.append(f"# {_header(message, 'Subject') or 'No subject'}\n\n{_show(message, attachments)}")
        box.close()
    if not messages:
        raise DocumentError("not a mailbox, or without messages")
    return Loaded("\n\n".join(messages), "mail", attachments=tuple(attachments))


def _parse(data: bytes) -> EmailMessage:
    try:
        return email.message_from_bytes(data, policy=email.policy.default)
    except Exception as error:  # the parser of headers fails in many ways at what is broken
        raise DocumentError(f"broken mail ({type(error).__name__})") from error


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except Exception:  # a header that can't be parsed
        return ""


def _date(message: EmailMessage) -> str:
    date = getattr(message.get("Date"), "datetime", None)
    return date.date().isoformat() if date is not None else ""


def _show(message: EmailMessage, attachments: list[Attachment]) -> str:
    """The text of a message, those of messages that it forwards included; its other attachments join the list."""
    headers = [f"{name}: {value}" for name in _HEADERS if (value := _header(message, name))]
    forwarded = []
    names = []
    for part in message.iter_attachments():
        name = " ".join((part.get_filename() or "").split()).replace("/", "_")
        if part.get_content_type() == "message/rfc822":
            inner = part.get_content()
            forwarded.append(f"# {_header(inner, 'Subject') or name or 'No subject'}\n\n{_show(inner, attachments)}")
        elif name:  # without one its format is unknown
            names.append(name)
            data = part.get_payload(decode=True)
            if part.get_content_maintype() not in _PICTURES:
                attachments.append(Attachment(name, data if isinstance(data, bytes) else b""))
    if names:
        headers.append(f"Attachments: {', '.join(names)}")
    parts = ["\n".join(headers), _body(message), *forwarded]
    return _BLANKS.sub("\n\n", "\n\n".join(part.strip() for part in parts if part.strip()))


def _body(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    text = _content(part)
    return extract(text.encode()) if part.get_content_subtype() == "html" else text


def _content(part: MIMEPart) -> str:
    try:
        content = part.get_content()
    except (LookupError, ValueError, KeyError):  # an unknown encoding
        content = part.get_payload(decode=True) or b""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else str(content)
    return text.replace("\r\n", "\n")
