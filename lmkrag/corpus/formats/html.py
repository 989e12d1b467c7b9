"""HTML, by lxml: block structure becomes lines that the sentence splitter understands."""

import re

from lxml import etree

from lmkrag.corpus.formats.base import Loaded
from lmkrag.corpus.formats.ordinals import format_ordinal
from lmkrag.corpus.formats.text import decode
from lmkrag.errors import DocumentError

_SKIPPED = frozenset({"script", "style", "noscript", "template", "head", "svg", "nav", "iframe", "object"})
_PARAGRAPHS = frozenset(
    [
        "p",
        "div",
        "section",
        "article",
        "main",
        "aside",
        "header",
        "footer",
        "blockquote",
        "figure",
        "figcaption",
        "table",
        "ul",
        "ol",
        "dl",
        "pre",
        "form",
        "fieldset",
        "address",
        "details",
        "summary",
        "hr",
        "body",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
    ]
)
_LINES = frozenset({"li", "tr", "dt", "dd", "br", "caption", "option"})
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_ITEMS = frozenset({"ol", "ul", "li"})
_FORMATS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")
_GAPS = re.compile(r"\n\s*\n")
_PRE = "\x01"  # marks a preformatted line until white space is folded


def read(data: bytes, name: str) -> Loaded:
    """Read an HTML page: its text with headings as ``#``, list items as ``-`` or numbered, cells between ``|``."""
    text, title = extract(data)
    if not text:
        raise DocumentError("HTML page without text")
    return Loaded(text, "html", title)


def extract(data: bytes) -> tuple[str, str]:
    """Return the text and the title of an HTML page."""
    encoding = None
    try:
        data.decode("utf-8")
        encoding = "utf-8"
    except UnicodeDecodeError:
        if b"charset" not in data[:4096].lower():
            data, encoding = decode(data).encode("utf-8", "replace"), "utf-8"
    parser = etree.HTMLParser(encoding=encoding, huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(data, parser) if data.strip() else None
    except (etree.XMLSyntaxError, LookupError, ValueError) as error:
        raise DocumentError(f"broken HTML ({error})") from error
    if root is None:
        return "", ""
    title = next(iter(root.xpath("//head/title/text()")), "")
    return _render(root), _SPACE.sub(" ", str(title)).strip()


def _render(root: etree._Element) -> str:
    parts: list[str] = []
    preformatted = 0
    items = _Items()
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "start":
            if tag in _SKIPPED:
                walker.skip_subtree()
                continue
            parts.append(items.open(element) if tag in _ITEMS else _opening(tag))
            preformatted += tag == "pre"
            parts.append(_inline(element.text, preformatted))
            continue
        if tag not in _SKIPPED:
            preformatted -= tag == "pre"
            items.close(tag)
            parts.append(_closing(tag))
        parts.append(_inline(element.tail, preformatted))
    lines = "".join(parts).split("\n")
    text = "\n".join(line[1:] if line.startswith(_PRE) else line.strip(" ") for line in lines)
    return _GAPS.sub("\n\n", text).strip()


class _Items:
    """Marks list items, those of ordered lists by their numbers. State: the lists that are open."""

    def __init__(self) -> None:
        self._open: list[tuple[str, int]] = []  # the format of each, and the number of its last item

    def open(self, element: etree._Element) -> str:
        """Return what stands before a list or an item."""
        if element.tag != "li":
            kind = _FORMATS.get(element.get("type", ""), "decimal") if element.tag == "ol" else ""
            self._open.append((kind, _whole(element.get("start"), 1) - 1))
            return "\n\n"
        kind, last = self._open.pop() if self._open else ("", 0)
        number = _whole(element.get("value"), last + 1)
        self._open.append((kind, number))
        if not kind:
            return "\n- "
        shown = format_ordinal(number, kind)
        return f"\n{shown}. " if kind == "decimal" else f"\n({shown}) "  # "a. " might be somebody's initial

    def close(self, tag: str) -> None:
        """A list ends."""
        if tag in ("ol", "ul") and self._open:
            self._open.pop()


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and re.fullmatch(r"-?\d{1,9}", text) else default


def _opening(tag: str) -> str:
    if tag in _HEADINGS:
        return "\n\n" + _HEADINGS[tag]
    if tag == "pre":
        return "\n\n```\n"
    if tag in ("td", "th"):
        return "| "
    return "\n\n" if tag in _PARAGRAPHS else "\n" if tag in _LINES else ""


def _closing(tag: str) -> str:
    if tag == "pre":
        return "\n```\n\n"
    if tag in ("td", "th"):
        return " "
    if tag == "tr":
        return "|\n"
    return "\n\n" if tag in _PARAGRAPHS else "\n" if tag in _LINES and tag != "br" else ""


def _inline(text: str | None, preformatted: int) -> str:
    if not text:
        return ""
    text = text.replace(_PRE, "")
    return text.replace("\n", "\n" + _PRE) if preformatted else _SPACE.sub(" ", text)
