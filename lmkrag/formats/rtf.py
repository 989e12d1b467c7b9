"""Rich Text Format, by striprtf: its text without formatting."""

import re

from striprtf.striprtf import rtf_to_text

from lmkrag.errors import DocumentError
from lmkrag.formats.base import SOFT_HYPHEN, Loaded, table_row

_FOOTNOTE = re.compile(rb"\{(?:\\\*)?\\footnote\b")  # striprtf leaves them out
_RAISED = re.compile(rb"\\super(?:\\[a-z]+-?\d*)* (?=-?\d)")
_TITLE = re.compile(rb"\{\\title ([^{}\\]+)\}")


def read(data: bytes, name: str) -> Loaded:
    """Read an .rtf file; cells of a table stand between ``|``."""
    if not data.lstrip().startswith(b"{\\rtf"):
        raise DocumentError("content is not RTF")
    try:
        marked = _RAISED.sub(rb"\g<0>^", _FOOTNOTE.sub(b"{ ", data))
        text = rtf_to_text(marked.decode("latin-1"), errors="replace").replace(SOFT_HYPHEN, "")
    except Exception as error:  # striprtf fails in many ways at what is broken
        raise DocumentError(f"broken RTF ({type(error).__name__})") from error
    rows: list[str] = []
    for line in text.splitlines():
        if line.startswith("|") and rows:
            rows[-1] += line  # a cell that ended its paragraph
        else:
            rows.append(line)
    lines = [table_row(row.rstrip("|").split("|")) if "|" in row else row for row in rows]
    title = _TITLE.search(data)
    return Loaded("\n".join(lines).strip(), "rtf", title[1].decode("latin-1").strip() if title else "")
