"""The messages of conversations and mails: who speaks, and when."""

import re
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parseaddr, parsedate_to_datetime
from typing import NamedTuple

from lmkrag.index.view import DocumentView
from lmkrag.language.messages import read_opener
from lmkrag.specs import CHAT

MAIL = "mail"
KINDS = frozenset({CHAT, MAIL})
"""Kinds of documents that have messages."""

_HEADER = re.compile(
    r"(?=[A-Z][a-z]+: )(?:From: ([^\n]*)(?:\n|\Z))?(?:(?:To|Cc): [^\n]*(?:\n|\Z))*"
    r"(?:Date: ([^\n]*)|Subject: |\Z)"
)
_LONGEST_HEADER = 8_000  # characters; it may name many recipients


class Message(NamedTuple):
    """A message of a document.

    Attributes:
        first: the ordinal of its first sentence.
        speaker: who speaks; empty if unknown.
        time: when, as far as it is known: ISO 8601, or as the text has it.
    """

    first: int
    speaker: str
    time: str


def find_message(view: DocumentView, ordinal: int) -> Message | None:
    """Return the message that a sentence is of; None if it is of none."""
    return next(_messages_before(view, ordinal), None)


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
        for above in view.headings_before(ordinal):
            _, end = view.bounds(above)
            if header := _HEADER.match(view.text(end, end + _LONGEST_HEADER)):
                yield _read_header(above, header)
        if header := _HEADER.match(view.text(0, _LONGEST_HEADER)):
            yield _read_header(0, header)


def _read_header(first: int, header: re.Match[str]) -> Message:
    """Return a mail by its header."""
    name, address = parseaddr(header[1] or "")
    time = header[2] or ""
    with suppress(ValueError):  # of what is no date of a mail
        time = parsedate_to_datetime(time).strftime("%Y-%m-%d %H:%M")
    return Message(first, name or address, time)
