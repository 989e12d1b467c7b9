"""Rich text in JSON: the pieces into which editors and chats divide a text, as one text.

Known are the forms of Telegram, Slack, Notion, ProseMirror and Tiptap, Atlassian's documents,
Lexical, Slate, Quill, Contentful and Portable Text.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

_MOST_DEPTH = 40  # of lists and objects in each other
_WORDS, _CHILDREN = ("plain_text", "text", "insert", "value"), ("content", "children", "elements")
# what a piece or a block may have beside its words: anything else is a value of a record
_STYLES = frozenset(
    """type _type nodeType _key data uri object marks markDefs attributes attrs annotations
    style styles href url link format mode detail version bold italic underline code strike
    strikethrough color highlight language user_id channel_id document_id collapsed name alt
    level depth tag tagName properties direction indent textFormat textStyle block_id border
    offset listType listItem ordered spread checked start position mention equation unicode
    unsafe""".split()  # noqa: SIM905
).union(_WORDS, _CHILDREN, ["ops"])
_PLAIN = frozenset(("text", "plain", "span"))
_INLINE = _PLAIN.union(
    """bold italic underline strike strikethrough code pre link text_link mention mention_name
    text_mention hashtag cashtag email phone bot_command bank_card spoiler blockquote custom_emoji
    equation""".split()  # noqa: SIM905
)
# pieces and blocks that may have no words of their own, and where they may have a name
_WORDLESS = frozenset(
    """emoji user channel usergroup broadcast mention date status inlineCard blockCard image media
    mediaSingle mediaGroup rule divider horizontalRule horizontal_rule hardBreak hard_break
    linebreak break paragraph heading""".split()  # noqa: SIM905
)
_BREAKS = frozenset(("hardBreak", "hard_break", "linebreak", "break"))
_KINDS = ("type", "_type", "nodeType")
_NAMES = ("text", "label", "shortName", "alt", "url", "name", "user_id", "channel_id")
_LETTERS, _LINE_ENDS = re.compile(r"\w+"), re.compile(r"(?<!\s)\s*\n\s*")

_Object = Mapping[str, Any]


def join_pieces(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with a string in place of each text that is given in pieces.

    A text that the same object also has under another name is left out.

    Args:
        value: the value.
        depth: number of lists and objects around it.

    >>> join_pieces({"text": ["The code is ", {"type": "code", "text": "8832"}]})
    {'text': 'The code is 8832'}
    """
    if not isinstance(value, dict | list) or depth >= _MOST_DEPTH:
        return value
    text = _read_text(value, depth)
    if text is not None:
        return _LINE_ENDS.sub("\n", text).strip()
    if isinstance(value, list):
        return [join_pieces(item, depth + 1) for item in value]
    joined = {key: join_pieces(part, depth + 1) for key, part in value.items()}
    texts = [part for key, part in joined.items() if isinstance(part, str) and part is value[key]]
    for key in [key for key, part in joined.items() if part is not value[key]]:
        if isinstance(text := joined[key], str):
            if _is_repeated(text, texts):
                del joined[key]
            texts.append(text)
    return joined


def _is_repeated(text: str, others: list[str]) -> bool:
    """Return whether one of some texts has all words of another."""
    words = set(_LETTERS.findall(text))
    return any(words <= set(_LETTERS.findall(other)) for other in others)


def _read_text(value: Any, depth: int) -> str | None:
    """Return the text of a list of pieces or blocks, or of a block; None for other values."""
    if isinstance(value, dict):
        return _join(_find_children(value), depth) if _is_block(value) else None
    objects = [item for item in value if isinstance(item, dict)]
    if not objects:
        return None
    kinds = [_find_kind(item) for item in objects]
    is_divided = len(objects) < len(value) or len(value) == 1 or not _PLAIN.isdisjoint(kinds)
    is_text = is_divided and all(map(_is_piece, objects)) and _INLINE.issuperset(kinds)
    return _join(value, depth) if is_text or any(map(_is_block, objects)) else None


def _join(items: list[Any], depth: int) -> str | None:
    """Return the words of pieces and blocks, each block on a line; None if one is neither."""
    if depth >= _MOST_DEPTH or any(_are_alike(*pair) for pair in pairwise(items)):
        return None
    text = ""
    for item in items:
        part = item if isinstance(item, str) else _read_item(item, depth + 1)
        if part is None:
            return None
        is_block = isinstance(item, dict) and _is_block(item) and _find_kind(item) not in _INLINE
        text += f"\n{part}\n" if is_block else part
    return text


def _are_alike(piece: Any, following: Any) -> bool:
    """Return whether two neighbours differ in their words only, as records do: an editor would make
    them one piece.
    """
    if not isinstance(piece, dict) or not isinstance(following, dict) or "plain_text" in piece:
        return False
    return _is_piece(piece) and {**piece, **_words_of(following)} == following


def _words_of(piece: _Object) -> dict[str, Any]:
    return {name: piece[name] for name in _WORDS if isinstance(piece.get(name), str)}


def _read_item(item: Any, depth: int) -> str | None:
    if not isinstance(item, dict) or not _STYLES.issuperset(item):
        return None
    if _is_block(item):
        shown = _join(_find_children(item), depth)
    elif words := _words_of(item):
        shown = next(iter(words.values()))
    elif _find_kind(item) in _WORDLESS or isinstance(item.get("insert"), dict):
        attributes = {**item, **_as_object(item.get("attrs"))}
        names = (attributes[name] for name in _NAMES if isinstance(attributes.get(name), str))
        shown = "\n" if _find_kind(item) in _BREAKS else next(names, "")
    else:
        return None
    address = _find_address(item)
    return shown if shown is None or not address or address in shown else f"{shown} ({address})"


def _find_address(piece: _Object) -> str:
    """Return the address that a piece links to; an empty string if it has none."""
    marks = piece.get("marks")
    own = (_as_object(piece.get(name)) for name in ("attributes", "data"))
    places = [piece, *own, *map(_as_object, marks if isinstance(marks, list) else ())]
    places += [_as_object(place.get("attrs")) for place in places[3:]]
    found = (place.get(name) for place in places for name in ("href", "url", "link", "uri"))
    return next((address for address in found if isinstance(address, str)), "")


def _as_object(value: Any) -> _Object:
    return value if isinstance(value, dict) else {}


def _find_kind(item: _Object) -> str:
    kind = next(filter(None, map(item.get, _KINDS)), "")
    return kind if isinstance(kind, str) else ""


def _is_piece(item: _Object) -> bool:
    return bool(_words_of(item)) and _STYLES.issuperset(item)


def _find_children(item: _Object) -> list[Any]:
    names = _CHILDREN if _find_kind(item) else ("ops",)
    return next((item[name] for name in names if isinstance(item.get(name), list)), [])


def _is_block(item: _Object) -> bool:
    """Return whether an object has pieces or blocks in it, and no values of its own."""
    has_objects = any(isinstance(child, dict) for child in _find_children(item))
    return has_objects and _STYLES.issuperset(item)
