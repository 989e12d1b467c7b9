"""HTML, by lxml."""

import re

from lxml import etree

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded
from lmkrag.formats.html_render import render
from lmkrag.formats.text import decode_labelled

_BULLETS = frozenset("·•o§–")  # of Word, in the fonts of symbols
_LABEL = re.compile(rb"(?:charset|<\?xml[^>]*\bencoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")


def read(data: bytes, name: str) -> Loaded:
    """Read an HTML page: its text with headings as ``#``, list items as ``-`` or numbered, cells between ``|``.

    The address that a page saved from the web gives as its own becomes ``url`` in the metadata.
    """
    root = _parse(data)
    if root is None:
        raise DocumentError("HTML page without text")
    title = _SPACE.sub(" ", str(next(iter(root.xpath("//head/title/text()")), ""))).strip()
    url = _find_url(root)
    text = render(root)
    if not text:
        raise DocumentError("HTML page without text")
    return Loaded(text, "html", title, meta={"url": url} if url else {})


def extract(data: bytes) -> str:
    """Return the text of an HTML page."""
    root = _parse(data)
    return "" if root is None else render(root)


def _parse(data: bytes) -> etree._Element | None:
    data = decode_labelled(data, find_label(data)).encode("utf-8", "replace")
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(data, parser) if data.strip() else None
    except (etree.XMLSyntaxError, LookupError, ValueError) as error:
        raise DocumentError(f"broken HTML ({error})") from error
    if root is not None:
        _read_styles(root)
    return root


def find_label(data: bytes) -> str | None:
    """Return the encoding that a page says it has."""
    label = _LABEL.search(data[:4096])
    return label[1].decode("ascii") if label else None


def _find_url(root: etree._Element) -> str:
    """The address in a page's canonical link (RFC 6596), else in its ``og:url`` (https://ogp.me); empty without one."""
    links = (link for link in root.iterfind("head/link") if "canonical" in link.get("rel", "").lower().split())
    pages = (meta for meta in root.iterfind("head/meta") if meta.get("property", "").lower() == "og:url")
    urls = [link.get("href", "").strip() for link in links] + [meta.get("content", "").strip() for meta in pages]
    return next((url for url in urls if url.startswith(("http://", "https://"))), "")


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


def read_svg(data: bytes, name: str) -> Loaded:
    """Read what a drawing says, a line for each text of it."""
    try:
        root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False))
    except etree.XMLSyntaxError as error:
        raise DocumentError(f"broken SVG ({error})") from error
    elements = root.xpath("//*[local-name()='title' or local-name()='desc' or local-name()='text']")
    lines = {element: " ".join("".join(element.itertext()).split()) for element in elements}
    if not any(lines.values()):
        raise DocumentError("SVG without text")
    title = next((text for element, text in lines.items() if etree.QName(element).localname == "title"), "")
    return Loaded("\n".join(dict.fromkeys(filter(None, lines.values()))), "svg", title)
