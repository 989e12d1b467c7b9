"""Add a member to an object of a JSON file with comments, or take it out, and leave every other character alone."""

import json
import re
from typing import Any, NamedTuple

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|[{}\[\],:]|[^\s{}\[\],:"/]+', re.DOTALL)


class _Member(NamedTuple):
    """A member: its key, where the key begins and the value begins and ends."""

    key: str
    start: int
    value: int
    end: int


def parse(text: str) -> Any:
    """Return the value of JSON with comments and trailing commas.

    Raises:
        ValueError: it is not that.
    """
    tokens = [token for token, _ in _tokens(text)]
    if not tokens:
        return {}
    following = [*tokens[1:], ""]
    kept = [one for one, after in zip(tokens, following, strict=True) if one != "," or after not in ("}", "]")]
    return json.loads(" ".join(kept))


def add_member(text: str, parent: str, key: str, value: Any) -> tuple[str, str]:
    """Return a text with ``key: value`` in the object ``parent`` of its top object, and what was added to it.

    Args:
        text: an object, with comments perhaps; empty for none.
        parent: of the new member; it is made if it is not there.
        key: of the new member, which is not there yet.
        value: what it is.
    """
    if not text.strip():
        made = json.dumps({parent: {key: value}}, indent=2) + "\n"
        return text + made, made
    top = text.index("{", _first(text))
    unit = _indent_of(text)
    member = next((one for one in _members(text, top) if one.key == parent), None)
    if member is None:
        inside = json.dumps({parent: {key: value}}, indent=unit)[1:-1].strip("\n")
        return _insert(text, top, inside, closing="")
    shifted = json.dumps({key: value}, indent=unit)[1:-1].strip("\n").replace("\n", "\n" + unit)
    return _insert(text, text.index("{", member.value), unit + shifted, closing=unit)


def remove_member(text: str, parent: str, key: str) -> str:
    """Return a text without a member of the object ``parent``; the same text if it has none."""
    top = text.index("{", _first(text))
    outer = next((one for one in _members(text, top) if one.key == parent), None)
    members = _members(text, text.index("{", outer.value)) if outer else []
    found = next((one for one in members if one.key == key), None)
    if found is None:
        return text
    start, end = found.start, found.end
    comma = re.compile(r"\s*,").match(text, end)
    if comma:
        end = comma.end()
    else:
        before = re.compile(r",\s*\Z").search(text[:start])
        start = before.start() if before else start
    line = text.rfind("\n", 0, start)
    if comma and not text[line + 1 : start].strip():
        start = max(line, 0)
    return text[:start] + text[end:]


def _insert(text: str, brace: int, member: str, *, closing: str) -> tuple[str, str]:
    """Put a member right behind an opening brace; return the text and what was added.

    ``closing`` is what the closing brace is indented by where it stood on the same line.
    """
    token, offset = _tokens(text[brace + 1 :])[0]
    if token != "}":
        added = f"\n{member},"
    else:
        added = f"\n{member}" if "\n" in text[brace + 1 : brace + 1 + offset] else f"\n{member}\n{closing}"
    return text[: brace + 1] + added + text[brace + 1 :], added


def _tokens(text: str) -> list[tuple[str, int]]:
    """The tokens of a text but for its comments, and where they begin."""
    found = ((match[0], match.start()) for match in _TOKEN.finditer(text))
    return [token for token in found if not token[0].startswith(("//", "/*"))]


def _first(text: str) -> int:
    tokens = _tokens(text)
    if not tokens or tokens[0][0] != "{":
        raise ValueError("it is not an object")
    return tokens[0][1]


def _members(text: str, brace: int) -> list[_Member]:
    """The members of the object that begins at a brace."""
    members: list[_Member] = []
    depth, key, value = 0, None, None
    for token, offset in _tokens(text):
        if offset < brace:
            continue
        if token in "{[":
            depth += 1
            if depth == 2 and key is not None and value is None:
                value = offset
        elif token in "}]":
            depth -= 1
            if depth == 1 and key is not None and value is not None:
                members.append(_Member(key[0], key[1], value, offset + 1))
                key = value = None
            if depth == 0:
                break
        elif depth == 1 and token not in ",:":
            if key is None:
                key = (json.loads(token), offset)
            else:
                members.append(_Member(key[0], key[1], offset, offset + len(token)))
                key = value = None
    return members


def _indent_of(text: str) -> str:
    """What the file indents its first member by."""
    match = re.search(r"\{[^\S\n]*(?://[^\n]*)?\n([ \t]+)\S", text)
    return match[1] if match else "  "
