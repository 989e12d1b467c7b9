"""The messages of conversations and mails: who speaks, and when."""

import re
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parseaddr, parsedate_to_datetime
from itertools import chain
from typing import NamedTuple

from lmkrag.index.view import DocumentView
from lmkrag.language.messages import QUOTE_MARKS, count_marks, read_author, read_opener
from lmkrag.specs import CHAT

MAIL, CALENDAR = "mail", "calendar"
KINDS = frozenset({CHAT, MAIL})
"""Kinds of documents that have messages."""

_HEADER = re.compile(  # of a mail, or of one that it quotes
    r"(?:[-_*=]{2}[^\n]*\n+)?(?=\*?[A-Z][a-z]+ ?:)"
    r"(?:\*?(?:From|Von|De|Da|Van|Från|Fra|Od) ?:\*? ?([^\n]*)(?:\n|\Z))?"
    r"(?:\*?(?:To|Cc|An|À|Para|A|Aan|Till|Til|Do) ?:[^\n]*(?:\n|\Z))*"
    r"(?:\*?(?:Date|Sent|Gesendet|Datum|Envoyé|Enviado(?: el)?|Fecha|Inviato|Data|Verzonden"
    r"|Skickat|Sendt|Wysłano) ?:\*? ?([^\n]*)|(?(1)\*?\w+ ?:|Subject: )|\Z)"
)
_PARAGRAPH = re.compile(  # lines with the same marks
    r"^((?:[ \t]?>)*+)[ \t]*[^\s>][^\n]*(?:\n\1[ \t]*[^\s>][^\n]*)*", re.MULTILINE
)
_LONGEST_HEADER = 8_000  # characters; it may name many recipients


class Message(NamedTuple):
    """A message of a document.

    Attributes:
        first: the ordinal of its first sentence.
        speaker: who speaks; empty if unknown.
        time: when, as far as it is known: ISO 8601, or as the text has it.
        is_quoted: whether it is a part of a mail of somebody else, who quotes it.
    """

    first: int
    speaker: str
    time: str
    is_quoted: bool = False


def find_message(view: DocumentView, ordinal: int) -> Message | None:
    """Return the message that a sentence is of; None if it is of none."""
    return next(_messages_before(view, ordinal), None)


def find_passage_message(view: DocumentView, ordinal: int, last: int) -> Message | None:
    """Return the message that a passage is of, by its best sentence and its last one; None if it is
    of none. What is quoted with the reply to it is of who replies.
    """
    message = find_message(view, ordinal)
    if message is None or not message.is_quoted:
        return message
    reply = find_message(view, last)
    return message if reply is None or reply.is_quoted else reply


def count_line_marks(view: DocumentView, ordinal: int) -> int:
    """Return the number of marks before the line that a sentence ends in, of what a mail quotes."""
    text = view.sentence(ordinal).rstrip()
    while view.row.kind == MAIL and "\n" not in text and ordinal > 0:
        ordinal -= 1
        text = view.sentence(ordinal) + text
    return count_marks(text.rpartition("\n")[2])


def list_messages(view: DocumentView) -> list[Message]:
    """Return the messages of a document, in order."""
    return [*_messages_before(view, view.row.sentences - 1)][::-1]


def _messages_before(view: DocumentView, ordinal: int) -> Iterator[Message]:
    """Yield the messages that begin up to a sentence, the nearest first."""
    if view.row.kind == CHAT:
        for above in view.headings_before(ordinal):
            if opener := read_opener(view.sentence(above)):
                yield Message(above, opener.speaker, opener.time)
    elif view.row.kind == MAIL:
        stop = ordinal + 1
        starts = ((above, view.bounds(above)[1]) for above in view.headings_before(ordinal))
        for first, start in chain(starts, [(0, 0)]):
            if header := _HEADER.match(view.text(start, start + _LONGEST_HEADER)):
                yield from _divide(view, _read_header(first, header), start + header.end(), stop)
                stop = first


def _divide(view: DocumentView, mail: Message, start: int, stop: int) -> list[Message]:
    """Return the messages that a mail is divided into by what it quotes, the last one first.

    Args:
        view: its document.
        mail: all of it.
        start: where its header ends, in characters.
        stop: the sentence up to which it is divided.
    """
    authors, messages = {0: mail}, [mail]
    for paragraph in _PARAGRAPH.finditer(view.text(start, view.bounds(stop - 1)[1])):
        depth, lines = count_marks(paragraph[0]), QUOTE_MARKS.sub("", paragraph[0])
        header, author = _HEADER.match(lines), read_author(lines)
        if header is not None and header[1]:
            authors = {depth: _read_header(0, header)._replace(is_quoted=True)}
        elif author is not None:
            authors[depth + 1] = Message(0, author, "", True)
        part = authors.get(depth, Message(0, "", "", True))
        if part._replace(first=messages[-1].first) != messages[-1]:  # somebody else's
            messages.append(part._replace(first=view.ordinal_at(start + paragraph.start())))
    return messages[::-1]


def _read_header(first: int, header: re.Match[str]) -> Message:
    """Return a mail by its header."""
    name, address = parseaddr(header[1] or "")
    time = header[2] or ""
    with suppress(ValueError):  # of what is no date of a mail
        time = parsedate_to_datetime(time).strftime("%Y-%m-%d %H:%M")
    return Message(first, name or address, time)
