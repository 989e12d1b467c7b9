"""SVG: the title, the description and the words of a drawing, by lxml."""

from lxml import etree

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded


def read(data: bytes, name: str) -> Loaded:
    """Read what a drawing says, a line for each text of it."""
    try:
        root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False))
    except etree.XMLSyntaxError as error:
        raise DocumentError(f"broken SVG ({error})") from error
    found = root.xpath("//*[local-name()='title' or local-name()='desc' or local-name()='text']")
    lines = {element: " ".join("".join(element.itertext()).split()) for element in found}
    if not any(lines.values()):
        raise DocumentError("SVG without text")
    title = next((text for element, text in lines.items() if etree.QName(element).localname == "title"), "")
    return Loaded("\n".join(dict.fromkeys(filter(None, lines.values()))), "svg", title)
