"""HTML, EPUB (a zip of HTML chapters) and SVG, by lxml."""

import posixpath
import re
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import unquote

from lxml import etree

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded, Parts, describe_properties, fold, open_archive, parse_xml
from lmkrag.formats.html_render import LINE_BOX, Element, render
from lmkrag.formats.text import decode_labelled

_BULLETS = frozenset("·•o§–")  # of Word, in the fonts of symbols
_LABEL = re.compile(
    rb"(?:charset|<\?xml[^<>]*\bencoding)\s*=\s*+[\"']?\s*+([\w.:-]+)", re.IGNORECASE
)
_ENDS = re.compile(rb"</(?:html|body)\s*>", re.IGNORECASE)  # after which browsers read on
_NESTED = re.compile(
    rb"</?(?:a|b|big|center|div|em|font|i|small|span|strong|sup|u)\b[^>]*(?:>|\Z)", re.IGNORECASE
)
_RAISED_STYLE = re.compile(r"\bvertical-align:\s*super")
_BOX_STYLE = re.compile(r"\bdisplay:\s*(?:block|flex|grid|list-item|table)\b")
_SIDE_BY_SIDE = re.compile(r"\bdisplay:\s*(?:inline-)?(?:flex|grid)\b")
_LAST_CLASS = re.compile(r"\.([\w-]+)\s*(?:,|$)")  # of each of several selectors
# Classes of Bootstrap and Tailwind that do so.
_OF_LIBRARIES = ("d-flex", "d-grid", "flex", "inline-flex", "grid")
_INLINE = ("span", "b", "strong", "i", "em", "small", "label", "font", "time")
_ROLES = {  # of ARIA, and the elements that have them
    "table": "table",
    "grid": "table",
    "row": "tr",
    "cell": "td",
    "gridcell": "td",
    "columnheader": "th",
    "rowheader": "th",
    "list": "ul",
    "listitem": "li",
}
_TEXT = ".//text()[not(parent::script or parent::style)]"
_STYLE = "contains(translate(@style, 'DISPLAYNOEVBTH ', 'displaynoevbth'), '%s')"
_HIDDEN = (
    f"//*[(@hidden and @hidden!='until-found') or {_STYLE % 'display:none'} or "
    f"{_STYLE % 'visibility:hidden'}]"
    "[not(self::html or self::body or self::main or self::article)]"
)
_DOUBLED = (
    "//*[self::span or self::i][@aria-hidden='true']"  # signs, and words that are there once more
)
_CONTROLS = "//@aria-controls | //@data-target | //@data-bs-target | //a/@href[starts-with(., '#')]"
_REVEALED = re.compile(
    r"accordion|answer|collapse|collapsible|expand|faq|panel|spoiler|\btab|toggle", re.IGNORECASE
)
_DATES = (
    "article:published_time",
    "date",
    "dc.date",
    "dcterms.date",
    "dc.date.issued",
    "dcterms.issued",
)
_CONTAINER, _ENCRYPTION = "meta-inf/container.xml", "meta-inf/encryption.xml"
_VALUE = re.compile(  # an element that is closed, perhaps below a comment, as WordPress has it
    r"(?:<!--[^<>]{0,200}-->\s*+)?+"
    r"<(p|div|h[1-6]|ul|ol|table|html|body|section|article|blockquote|figure)\b[^<>]*>.*</\1>",
    re.DOTALL | re.IGNORECASE,
)
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)


def read(data: bytes, name: str) -> Loaded:
    """Read an HTML page: headings as ``#``, items as ``-`` or numbered, cells between ``|``.

    Args:
        data: the bytes of the file.
        name: its name.

    Returns:
        The text with its title. ``meta`` has the address (canonical, RFC 6596, else https://ogp.me)
            as ``url``, the author and the date.

    Raises:
        DocumentError: it is nested too deeply.
    """
    root = _parse(data)
    title = fold(root.xpath("string(//head/title/text())"))
    values = {
        (meta.get("property") or meta.get("name") or "").lower(): meta.get("content", "").strip()
        for meta in root.iterfind("head/meta")
    }
    date = next(filter(None, map(values.get, _DATES)), "")
    properties = describe_properties(values.get("author"), date)
    links = [
        link.get("href", "").strip()
        for link in root.iterfind("head/link")
        if "canonical" in link.get("rel", "").lower().split()
    ]
    for url in (*links, values.get("og:url", "")):
        if url.startswith(("http://", "https://")):
            properties = {"url": url, **properties}
            break
    return Loaded(render(root), "html", title, meta=properties)


def extract(data: bytes) -> str:
    """Return the text of an HTML page."""
    return render(_parse(data))


def read_value(text: str) -> str:
    """Return the words of a value that is HTML, as databases of websites have it; any other text as
    it is.
    """
    if text.startswith("<") and _VALUE.match(text):
        with suppress(DocumentError):  # of a page that is nested too deeply
            return extract(text.encode("utf-8", "replace"))
    return text


def _parse(data: bytes) -> Element:
    data = _ENDS.sub(b"</p>", decode_labelled(data, find_label(data)).encode("utf-8", "replace"))
    parser = etree.HTMLParser(
        encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True
    )
    root = etree.fromstring(data, parser) if data.strip() else None
    if _is_cut(parser):
        root = etree.fromstring(_NESTED.sub(b" ", data), parser)
    if _is_cut(parser):
        raise DocumentError("HTML that is nested too deeply")
    root = etree.Element("html") if root is None else root
    _drop_hidden(root)
    _read_styles(root)
    _read_roles(root)
    return root


def _is_cut(parser: etree.HTMLParser) -> bool:
    """Return whether a page is nested deeper than libxml2 follows, which leaves out what comes
    after.
    """
    return any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log)


def find_label(data: bytes) -> str | None:
    """Return the encoding that a page declares in its first 4,096 bytes; None if it declares
    none.
    """
    label = _LABEL.search(data[:4096])
    return label[1].decode("ascii") if label else None


def _drop_hidden(root: Element) -> None:
    """Empty hidden elements, except those that a click reveals, such as panels, and those with most
    of the text.
    """
    hidden = root.xpath(_HIDDEN)
    total = len("".join(root.xpath(_TEXT))) if hidden else 0
    controlled = {name.lstrip("#") for name in root.xpath(_CONTROLS)} if hidden else set()
    doubled = root.xpath(_DOUBLED)
    for element in hidden:
        names = [
            node.get(key, "")
            for node in (element, element.getparent())
            for key in ("class", "id", "role")
        ]
        is_revealed = element.get("id") in controlled or any(map(_REVEALED.search, names))
        if not is_revealed and 2 * len("".join(element.xpath(_TEXT))) < total:
            doubled.append(element)
    for element in doubled:
        element.clear(keep_tail=True)
        element.tag = "template"


def _read_styles(root: Element) -> None:
    """Make headings, list items, boxes and superscripts of what has their styles, as Word and
    Google Docs save it.
    """
    styles = "".join(style.text or "" for style in root.iter("style"))
    raised, boxes = _find_classes(styles, _RAISED_STYLE), _find_classes(styles, _BOX_STYLE)
    side_by_side = _find_classes(styles, _SIDE_BY_SIDE).union(_OF_LIBRARIES)
    for part in root.xpath("//*[@class or @style][*[2]]"):
        names = part.get("class", "").split()
        if side_by_side.intersection(names) or _SIDE_BY_SIDE.search(part.get("style", "")):
            for child in part:
                child.tail = f" {child.tail or ''}"
    for part in root.iter(*_INLINE):
        classes = part.get("class", "").split()
        if raised.intersection(classes):
            part.tag = "sup"
        elif boxes.intersection(classes) or _BOX_STYLE.search(part.get("style", "")):
            _make_box(part)
    of_google = bool(root.xpath("//body[contains(@class, 'doc-content')]"))
    for paragraph in root.iter("p"):
        names = paragraph.get("class", "").split()
        if "MsoTitle" in names or (of_google and "title" in names):
            paragraph.tag = "h1"
        elif any(name.startswith("MsoListParagraph") for name in names):
            _mark_bullet(paragraph)


def _find_classes(styles: str, pattern: re.Pattern[str]) -> set[str]:
    """Return the classes that a style sheet gives styles of a pattern."""
    rules = (rule.rpartition("{") for rule in styles.split("}"))
    found = (selectors for selectors, _, body in rules if pattern.search(body))
    return {name for selectors in found for name in _LAST_CLASS.findall(selectors.strip())}


def _make_box(part: Element) -> None:
    """Put an inline element on a line of its own; a line break after it adds no other."""
    part.tag = LINE_BOX
    following = part.getnext()
    if following is not None and following.tag == "br" and not (part.tail or "").strip():
        following.tag = "template"


def _mark_bullet(paragraph: Element) -> None:
    first = next((part for part in paragraph.iter("*") if (part.text or "").strip()), None)
    if first is not None and first.text.strip() in _BULLETS:
        first.text = "- "


def _read_roles(root: Element) -> None:
    """Make tables, lists and headings of what has their roles."""
    for part in root.xpath("//*[self::div or self::span or contains(name(), '-')][@role]"):
        level = part.get("aria-level", "2")
        if part.get("role") != "heading":
            part.tag = _ROLES.get(part.get("role"), part.tag)
        elif level in tuple("123456"):
            part.tag = f"h{level}"


def read_svg(data: bytes, name: str) -> Loaded:
    """Read the texts of a drawing, one line each."""
    root = parse_xml(data)
    for span in root.iterfind(".//{*}tspan"):
        if {"x", "y", "dy"} & {*span.keys()}:  # it stands apart
            span.text = f" {span.text or ''}"
    elements = root.xpath("//*[local-name()='title' or local-name()='desc' or local-name()='text']")
    lines = [fold("".join(element.itertext())) for element in elements]
    title = fold(root.xpath("string(//*[local-name()='title'])"))
    return Loaded("\n".join(dict.fromkeys(filter(None, lines))), "svg", title)


def read_epub(data: bytes, name: str) -> Loaded:
    """Read an EPUB: its chapters joined in reading order.

    If the spine is missing, the order is that of the manifest. A chapter that can't be read is left
    out.

    Raises:
        DocumentError: it is encrypted.
    """
    with open_archive(data, "EPUB") as archive:
        names = {name.lower(): name for name in archive.namelist()}
        package = next((name for name in names if name.endswith(".opf")), "")
        if _CONTAINER in names:
            container = etree.fromstring(archive.read(names[_CONTAINER]), _PARSER)
            named = container.xpath("string(//*[local-name()='rootfile']/@full-path)")
            package = str(named) or package
        opf = etree.fromstring(archive.read(names[package.lower()]), _PARSER)
        base = posixpath.dirname(package)
        items = {item.get("id"): item for item in opf.xpath("//*[local-name()='item']")}
        pages = [key for key, item in items.items() if "html" in item.get("media-type", "")]
        spine = [key for key in opf.xpath("//*[local-name()='itemref']/@idref") if key in items]
        parts = Parts()
        chapters = []
        for key in spine or pages:
            href = unquote(items[key].get("href", "").partition("#")[0]).replace("\\", "/")
            path = posixpath.normpath(posixpath.join(base, href))
            chapters.append(
                parts.read(f"chapter {path}", _read_chapter, archive, names, path) or ""
            )
        title = str(opf.xpath("string(//*[local-name()='title'])")).strip()
        author = str(opf.xpath("string(//*[local-name()='creator'])")).strip()
    text = "\n\n".join(chapter for chapter in chapters if chapter)
    if not text and _ENCRYPTION in names:
        raise DocumentError("encrypted EPUB file: its publisher protects it")
    meta = describe_properties(author, "")
    return Loaded(text, "epub", title, meta=meta, left_out=parts.left_out)


def _read_chapter(archive: zipfile.ZipFile, names: Mapping[str, str], path: str) -> str:
    """Return the text of a chapter of an EPUB.

    Args:
        archive: the zip archive.
        names: the names in the archive, by their lower-case forms.
        path: the chapter.

    Raises:
        DocumentError: it is not in the archive.
    """
    if path.lower() not in names:
        raise DocumentError("not in the file")
    return extract(archive.read(names[path.lower()]))
