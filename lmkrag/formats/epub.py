"""EPUB: a zip of HTML chapters, in the order of its spine."""

import posixpath
import zipfile
from urllib.parse import unquote

from lxml import etree

from lmkrag.errors import DocumentError
from lmkrag.formats import html
from lmkrag.formats.base import Loaded, open_archive

_CONTAINER = "META-INF/container.xml"
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)


def read(data: bytes, name: str) -> Loaded:
    """Read an EPUB: chapters joined in reading order."""
    with open_archive(data, "EPUB") as archive:
        try:
            package = _xml(archive, _CONTAINER).xpath("string(//*[local-name()='rootfile']/@full-path)")
            opf = _xml(archive, str(package))
        except (KeyError, zipfile.BadZipFile, etree.XMLSyntaxError, NotImplementedError, RuntimeError) as error:
            raise DocumentError(f"broken EPUB file ({error})") from error
        base = posixpath.dirname(str(package))
        hrefs = {item.get("id"): item.get("href", "") for item in opf.xpath("//*[local-name()='item']")}
        chapters = []
        for reference in opf.xpath("//*[local-name()='itemref']/@idref"):
            path = posixpath.normpath(posixpath.join(base, unquote(hrefs.get(reference, ""))))
            try:
                text = html.extract(archive.read(path))
            except (KeyError, zipfile.BadZipFile, RuntimeError, DocumentError):
                continue  # a spine that names what is not in the archive: the other chapters are still good
            chapters.append(text)
        title = str(opf.xpath("string(//*[local-name()='title'])")).strip()
        author = str(opf.xpath("string(//*[local-name()='creator'])")).strip()
    text = "\n\n".join(chapter for chapter in chapters if chapter)
    if not text:
        raise DocumentError("EPUB file without text")
    return Loaded(text, "epub", title, meta={"author": author} if author else {})


def _xml(archive: zipfile.ZipFile, path: str) -> etree._Element:
    root = etree.fromstring(archive.read(path), _PARSER)
    if root is None:
        raise DocumentError(f"broken EPUB file ({path} is not XML)")
    return root
