"""EPUB: a zip of HTML chapters, in the order of its spine."""

import posixpath
import zipfile
from urllib.parse import unquote

from lxml import etree

from lmkrag.errors import DocumentError
from lmkrag.formats import html
from lmkrag.formats.base import Loaded, open_archive

_CONTAINER = "meta-inf/container.xml"
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)


def read(data: bytes, name: str) -> Loaded:
    """Read an EPUB: chapters joined in reading order, that of the manifest where the spine is missing."""
    with open_archive(data, "EPUB") as archive:
        names = {name.lower(): name for name in archive.namelist()}
        try:
            container = _xml(archive, names[_CONTAINER]) if _CONTAINER in names else None
            package = (
                "" if container is None else str(container.xpath("string(//*[local-name()='rootfile']/@full-path)"))
            )
            package = package or next((name for name in names if name.endswith(".opf")), _CONTAINER)
            opf = _xml(archive, names[package.lower()])
        except (KeyError, zipfile.BadZipFile, etree.XMLSyntaxError, NotImplementedError, RuntimeError) as error:
            raise DocumentError(f"broken EPUB file ({error})") from error
        base = posixpath.dirname(package)
        items = {item.get("id"): item for item in opf.xpath("//*[local-name()='item']")}
        pages = [key for key, item in items.items() if "html" in item.get("media-type", "")]
        spine = [key for key in opf.xpath("//*[local-name()='itemref']/@idref") if key in items]
        chapters = []
        for key in spine or pages:
            path = posixpath.normpath(posixpath.join(base, unquote(items[key].get("href", ""))))
            try:
                text = html.extract(archive.read(names[path.lower()]))
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
