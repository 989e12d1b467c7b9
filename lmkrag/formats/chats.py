"""Exports of chats in JSON: who said what and when, each message under a heading of its own."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

from lmkrag.formats.base import Attachment, Loaded
from lmkrag.formats.html import extract
from lmkrag.formats.tabular import format_record
from lmkrag.language.messages import is_role, read_opener, write_opener
from lmkrag.specs import CHAT
from lmkrag.system.files import FileStamp


class _Form(NamedTuple):
    """Where a program's export has its messages: dotted names, of which ``|`` divides alternatives.

    Attributes:
        messages: in a conversation, its list or mapping of messages; empty if it is that list.
        title: in a conversation, what it is called.
        speaker: in a message, who speaks; names that end with ``role`` or ``sender`` have roles.
        time: in a message, when.
        text: in a message, what is said.
        markup: ``html`` or ``slack`` if the text has one; ``latin-1`` if all texts are UTF-8 that
            was read as that.
        pasted: in a message, the list of texts that were pasted into it.
    """

    messages: str
    title: str
    speaker: str
    time: str
    text: str
    markup: str = ""
    pasted: str = ""


class _Message(NamedTuple):
    """A message: who says it, when (ISO 8601, or empty), and what."""

    speaker: str
    time: str
    text: str


_TIMES = "time|timestamp|create_time|created_at|date"
_FORMS = (
    _Form(
        "mapping", "title", "message.author.role", "message.create_time", "message.content.parts"
    ),
    _Form("chat_messages", "name", "sender", "created_at", "text|content", pasted="attachments"),
    _Form("messages", "name", "from", "date", "text"),  # Telegram
    _Form("messages", "channel.name", "author.nickname|author.name", "timestamp", "content"),
    _Form("messages", "title", "sender_name", "timestamp_ms", "content", "latin-1"),  # of Meta
    _Form("value", "topic", "from.user.displayName", "createdDateTime", "body.content", "html"),
    _Form("", "", "from.user.displayName", "createdDateTime", "body.content", "html"),  # Teams
    _Form(
        "MessageList", "displayName", "displayName|from", "originalarrivaltime", "content", "html"
    ),
    _Form("", "", "user_profile.real_name|username|user", "ts", "text", "slack"),
    _Form("messages", "title", "speaker", "time", "text"),  # as conversations are attached here
    _Form("messages", "title", "role", _TIMES, "content"),  # of programs that call a model
    _Form("", "", "role", _TIMES, "content"),
    _Form("", "", "message.role", "timestamp", "message.content"),
)
_LISTS = ("conversations", "chats", "list")  # in which an export has its conversations
_SLACK_LINK = re.compile(r"<([@#!]?)([^<>|\n]+)(?:\|([^<>\n]*))?>")
_USER = re.compile(r"\b[UW][A-Z0-9]+\b")  # the id of one of Slack
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)")
_MILLISECONDS = 100_000_000_000  # a greater number of a time counts these and not seconds
_TITLE_LINE = re.compile(r"^(?=## )(.*)", re.MULTILINE)


def read_chats(value: Any) -> Loaded | None:
    """Return the conversation of an export; of several, their list, and each as an attachment.

    Args:
        value: the JSON of the file.

    Returns:
        The text; None if it is no export of chats.
    """
    chats = [(title, messages) for title, messages in _find_chats(value) if messages]
    if not chats:
        return None
    if len(chats) == 1:
        ((title, messages),) = chats
        return Loaded("\n\n".join(map(_write, messages)), CHAT, title)
    lines = [
        format_record(
            [("title", title), ("messages", str(len(messages))), ("begun", messages[0].time)]
        )
        for title, messages in chats
    ]
    attached = [
        Attachment(
            f"{title.replace('/', '_') or 'chat'}.json",
            json.dumps(
                {"title": title, "messages": [message._asdict() for message in messages]}
            ).encode(),
        )
        for title, messages in chats
    ]
    return Loaded("\n".join(lines), "json", attachments=tuple(attached))


def name_users(loaded: Loaded, path: Path) -> Loaded:
    """Return a conversation of Slack's export with names in place of the ids of users.

    Args:
        loaded: what was read of a file of JSON.
        path: the file, in the folder of a channel; the list of users stands beside that.
    """
    users = path.parent.parent / "users.json"
    try:
        named = _read_users(users, FileStamp.of(users.stat()))
    except OSError:
        return loaded
    return replace(loaded, text=_USER.sub(lambda user: named.get(user[0], user[0]), loaded.text))


@lru_cache(maxsize=4)  # an export has a file for each day of each channel
def _read_users(path: Path, _: FileStamp) -> dict[str, str]:
    """The names of users by their ids, as far as the list can be read; cached by its stamp."""
    full = "profile.real_name|real_name|profile.display_name|name"
    named: dict[str, str] = {}
    with suppress(OSError, ValueError, RecursionError, TypeError):
        for user in json.loads(path.read_bytes()):
            user_id = str(_find(user, "id"))
            name = str(_find(user, full) or user_id)
            named[user_id] = write_opener(name, "").removeprefix("## ")
    return named


def _find_chats(value: Any) -> Iterator[tuple[str, list[_Message]]]:
    """Yield the title and the messages of each conversation of an export."""
    form = next((form for form in _FORMS if _fits(value, form)), None)
    if form is not None:
        value = _redecode(value) if form.markup == "latin-1" else value
        yield str(_find(value, form.title) or ""), _read_messages(value, form)
    else:
        for part in _list_parts(value):
            yield from _find_chats(part)


def _list_parts(value: Any) -> Sequence[Any]:
    """Return the parts of an export, no conversation itself, that may be conversations."""
    if isinstance(value, dict):
        return [value[name] for name in _LISTS if name in value]
    return value if isinstance(value, list) and _are_chats(value) else []


def _are_chats(items: Sequence[Any]) -> bool:
    """Return whether a list has a conversation with a title, and most others have a list of that
    name, too: some have no title, and in some nobody has spoken.
    """
    fitting = ((item, form) for item in items for form in _FORMS if _fits(item, form))
    titled = (form for item, form in fitting if isinstance(_find(item, form.title), str))
    name = next((form.messages for form in titled), "")
    return 2 * sum(isinstance(_find(item, name), list | dict) for item in items) > len(items)


def _redecode(value: Any) -> Any:
    """Return a value whose texts are UTF-8 read as Latin-1, itself if one of them is not."""
    with suppress(UnicodeError):
        return json.loads(json.dumps(value, ensure_ascii=False).encode("latin-1").decode())
    return value


def _fits(value: Any, form: _Form) -> bool:
    """Return whether most items of a conversation have a speaker, a time and a text; a time may be
    unknown where the speakers have roles.
    """
    items = _list_items(value, form)
    has_roles = form.speaker.endswith(("role", "sender"))
    known = 0
    for item in items:
        speaker = _find(item, form.speaker)
        if isinstance(speaker, str) and _find(item, form.text) is not None:
            known += is_role(speaker) if has_roles else _find(item, form.time) is not None
    return known > 0 and len(items) <= 2 * known


def _list_items(value: Any, form: _Form) -> Sequence[Any]:
    """Return the messages of a conversation, in their order; of an answer that was asked for again,
    the last one.
    """
    if not form.messages:
        return value if isinstance(value, list) else []
    items = value.get(form.messages) if isinstance(value, dict) else None
    if isinstance(items, list):
        return items
    if not isinstance(items, dict):
        return []
    branch, key = dict[str, Any](), value.get("current_node")
    while isinstance(key, str) and key in items and key not in branch:
        branch[key] = items[key]
        key = _find(items[key], "parent")
    return [*branch.values()][::-1] or [*items.values()]


def _find(value: Any, path: str) -> Any:
    """Return what stands under the first of some dotted names that is not empty; None for none."""
    found = None
    for names in path.split("|"):
        part = value
        for name in names.split("."):
            part = part.get(name) if isinstance(part, dict) else None
        found = found or part
    return found


def _read_messages(value: Any, form: _Form) -> list[_Message]:
    items = _list_items(value, form)
    names = {_find(item, "user"): _find(item, form.speaker) for item in items}  # of Slack
    messages = []
    for item in items:
        speaker = str(_find(item, form.speaker) or "")
        said = [_find(item, form.text), _find(item, form.pasted)]
        text = _show(said, form.markup, names).strip()
        if text and speaker not in ("system", "tool"):
            name = speaker.title() if is_role(speaker) else speaker
            messages.append(_Message(name, _read_time(_find(item, form.time)), text))
    if all(message.time for message in messages):  # some exports have the newest first
        messages.sort(key=lambda message: message.time)
    return messages


def _show(value: Any, markup: str, names: Mapping[Any, Any]) -> str:
    """Return what a message says; of what is not text, such as a picture, nothing."""
    if isinstance(value, list):
        return "\n\n".join(filter(None, (_show(part, markup, names) for part in value)))
    if isinstance(value, dict):
        return _show(_find(value, "text|extracted_content"), markup, names)
    text = value if isinstance(value, str) else ""
    if markup == "html" and "<" in text:
        return extract(text.encode())
    if markup != "slack":
        return text

    def show_link(link: re.Match[str]) -> str:
        mark, target, label = link.groups()
        if mark == "!":  # "@here", a day
            return label or f"@{target}"
        if mark:
            return f"{mark}{label or names.get(target, target)}"
        return f"{label} ({target})" if label else target

    return unescape(_SLACK_LINK.sub(show_link, text))


def _read_time(value: Any) -> str:
    """Return a time in ISO 8601, to the minute; empty if it is unknown."""
    if stated := _ISO.match(str(value or "")):
        return f"{stated[1]} {stated[2]}"
    with suppress(TypeError, ValueError, OverflowError, OSError):
        seconds = float(value)
        if seconds > _MILLISECONDS:
            seconds /= 1_000
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    return ""


def _write(message: _Message) -> str:
    """Return a message under its heading; no line of its own looks like the heading of another."""
    text = _TITLE_LINE.sub(
        lambda line: f" {line[1]}" if read_opener(line[1]) else line[1], message.text
    )
    return f"{write_opener(message.speaker, message.time)}\n\n{text}"
