"""HTML, by lxml."""

import re

from lxml import etree

from lmkrag.corpus.parsers.base import Loaded
from lmkrag.corpus.parsers.html_render import render
from lmkrag.corpus.parsers.text import decode
from lmkrag.errors import DocumentError

_BULLETS = frozenset("·•o§–")  # of Word, in the fonts of symbols
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")


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
    _read_styles(root)
    title = next(iter(root.xpath("//head/title/text()")), "")
    return render(root), _SPACE.sub(" ", str(title)).strip()


def _read_styles(root: etree._Element) -> None:
    """Make headings and list items of what Word and Google Docs save as paragraphs of a style."""
    of_google = bool(root.xpath("//body[contains(@class, 'doc-content')]"))
    for paragraph in root.iter("p"):
        styles = paragraph.get("class", "").split()
        if "MsoTitle" in styles or (of_google and "title" in styles):
            paragraph.tag = "h1"
        elif any(style.startswith("MsoListParagraph") for style in styles):
            first = next((part for part in paragraph.iter("*") if (part.text or "").strip()), None)
            if first is not None and first.text.strip() in _BULLETS:
                first.text = "- "
