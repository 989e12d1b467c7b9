"""What tests of formats do with files: save a document of a library, and read bytes as lmkrag does."""

import io

from lmkrag.formats.load import load_bytes


def read(data: bytes | str, name: str) -> str:
    """The text of a file of this name."""
    data = data if isinstance(data, bytes) else data.encode()
    return load_bytes(data, name, doc_id=name, path=name).text


def save(document) -> bytes:
    """The file of a document of openpyxl, python-docx, python-pptx or odfpy."""
    packed = io.BytesIO()
    document.save(packed) if hasattr(document, "save") else document.write(packed)
    return packed.getvalue()
