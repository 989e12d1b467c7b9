"""Plain text, Markdown, reStructuredText and source code: the document's text is the decoded file
itself.
"""

import codecs
import gzip
import io
import logging
import re
import tomllib
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded, fold
from lmkrag.formats.code_pages import BY_LABEL, guess_encoding
from lmkrag.formats.markup import show_inline, without_comments
from lmkrag.formats.memory import allow_unpacked
from lmkrag.formats.running_lines import blank_printed_lines
from lmkrag.language.messages import is_conversation
from lmkrag.specs import BYTE_ORDER_MARK, CHAT
from lmkrag.types.json_values import to_json_value

_logger = logging.getLogger(__name__)

MARKDOWN = frozenset({".md", ".markdown", ".mdx", ".qmd", ".rmd"})
RST = frozenset({".rst", ".rest"})
CODE = frozenset(
    """.py .pyi .pyx .js .mjs .cjs .jsx .ts .tsx .java .kt .kts .scala .groovy .c .h .cc .cpp
    .cxx .hpp .hh .cs .fs .go .rs .rb .php .pl .pm .lua .r .jl .swift .m .mm .sh .bash .zsh
    .fish .ps1 .bat .hs .ml .mli .ex .exs .erl .clj .cljs .lisp .el .scm .vim .css .scss
    .less .vue .svelte .proto .thrift .graphql .tf .nix .cmake .mk .asm .s .zig .nim .d .dart .v
    .sv .vhd .sol .toml .yaml .yml .ini .cfg .conf .properties .env .dockerfile .po .pot""".split()
)

SAMPLE = 1 << 18  # bytes that are looked at to tell text from other files, and to guess an encoding
_MOST_WIDE, _FEWEST_WIDE = 4_096, 12  # bytes that tell UTF-16, and characters
_MOST_FRONT_MATTER = 65_536
_MOST_NESTED = (
    1_000  # lists, mappings and keys in each other: each more costs the parser all those around it
)
_MOST_BEFORE_TITLE = 20_000
_BOMS = {  # the mark of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_ESCAPE = re.compile(rb"\x1b\$(?:B|\)C)")
_CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 11, 12, 13, 27})
_FEW_CONTROLS = 4  # in a small text: separators of records, the end of a file of DOS
_FRONT_MATTER = re.compile(  # of YAML, which may end with dots, or of TOML
    rf"{BYTE_ORDER_MARK}?(?:(---)|\+\+\+)[ \t]*\r?\n(.*?)\r?\n"
    r"(?(1)(?:---|\.\.\.)|\+\+\+)[ \t]*(?:\r?\n|$)",
    re.DOTALL,
)
_MD_TITLE = re.compile(r"^\s{0,3}#\s+(\S(?:.*[^\s#])?)|^(\S.*)\n=+[ \t]*\r?$", re.MULTILINE)
_FENCED = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_ADOC_TITLE = re.compile(r"^= +(\S.*)", re.MULTILINE)
_LATEX_TITLE = re.compile(r"\\title\{([^{}]+)\}")
_TITLES = {
    ".adoc": _ADOC_TITLE,
    ".asciidoc": _ADOC_TITLE,
    ".tex": _LATEX_TITLE,
    ".latex": _LATEX_TITLE,
}
_RST_HEADING = re.compile(
    r"^(?:(?P<over>([=\-~^\"'#*+:.])\2{2,})[ \t]*\r?\n[ \t]*)?(?P<title>\S.*)\n"
    r"(?P<under>([=\-~^\"'#*+:.])\5{2,})[ \t]*\r?$",
    re.MULTILINE,
)
_RST_FIELDS = re.compile(r"(?::?[A-Za-z][\w -]{0,30}:[ \t].*(?:\r?\n[ \t]+\S.*)*(?:\r?\n|$))+")
_RST_FIELD = re.compile(r"^:?([A-Za-z][\w -]{0,30}):[ \t]+(.*(?:\r?\n[ \t]+\S.*)*)", re.MULTILINE)


def read(data: bytes, name: str) -> Loaded:
    """Read a plain text file; the suffix of its name decides its kind.

    Raises:
        DocumentError: it is binary, not text.
    """
    loaded = describe(decode(data), name)
    return (
        replace(loaded, text=blank_printed_lines(loaded.text)) if loaded.kind == "text" else loaded
    )


def describe(text: str, name: str) -> Loaded:
    """Return a text with its kind, title and metadata.

    Args:
        text: the text, or its beginning.
        name: the file's name, whose suffix decides the kind.
    """
    suffix = "." + name.rpartition(".")[2].lower() if "." in name else ""
    if suffix in MARKDOWN:
        meta = read_front_matter(text)
        title = str(meta.get("title") or find_markdown_title(text))
        return Loaded(text, CHAT if is_conversation(text) else "markdown", title, meta=meta)
    if suffix in RST:
        meta = read_rst_fields(text)
        return Loaded(text, "rst", meta.get("title") or find_rst_title(text), meta=meta)
    if suffix in CODE or name in ("Makefile", "Dockerfile"):
        return Loaded(text, "code")
    if suffix in _TITLES:
        return Loaded(text, "text", fold(_find_title(_TITLES[suffix], text)))
    is_chat = suffix in ("", ".txt", ".log", ".weechatlog") and is_conversation(text)
    return Loaded(text, CHAT if is_chat else "text")


def decode(data: bytes) -> str:
    """Decode bytes by their mark, as UTF-8, or by a guess; no byte is dropped.

    Raises:
        DocumentError: they are binary, not text.
    """
    sample = data[:SAMPLE]
    encoding = read_mark(sample)
    if encoding is None:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            encoding = guess_encoding(sample, [data.decode("utf-8", "replace")])
    return data.decode(encoding, "replace")


def decode_labelled(data: bytes, label: str | None) -> str:
    """Decode bytes as browsers do (https://encoding.spec.whatwg.org): as UTF-8 if they are, else by
    their label.

    Args:
        data: the bytes.
        label: the declared encoding; None for none, then it is guessed.

    Raises:
        DocumentError: they are binary, not text.
    """
    label = re.sub(r"^x-|-i$", "", (label or "utf-8").strip().lower())
    for name in (label, label.replace("windows-", "cp")):
        try:
            codec = codecs.lookup(name).name
            break
        except LookupError:
            codec = "utf-8"
    codec = BY_LABEL.get(codec, codec)
    is_wide = codec.startswith(("utf-16", "utf-32"))  # no page that is read up to its label is
    if codec == "utf-8" or is_wide or data.startswith(codecs.BOM_UTF8):
        return decode(data).removeprefix(BYTE_ORDER_MARK)
    try:
        return data.decode(codec if data.isascii() else "utf-8")
    except UnicodeDecodeError:
        return data.decode(codec, "replace")


def read_mark(sample: bytes) -> str | None:
    """Return the encoding that a byte order mark, UTF-16's zeros or escapes show; None for ASCII
    and the like.

    Args:
        sample: the first bytes of a file.

    Raises:
        DocumentError: the file is binary, not text.
    """
    for bom, encoding in _BOMS.items():
        if sample.startswith(bom):
            return encoding
    zeros = [sample[first::2].count(0) for first in (0, 1)]
    if len(sample) > 3 and 4 * min(zeros) < max(zeros) > 0.15 * len(sample):
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    if escape := _ESCAPE.search(sample):
        return "iso2022_jp" if escape[0].endswith(b"B") else "iso2022_kr"
    controls = len(sample) - len(sample.translate(None, _CONTROL))
    return _find_wide(sample[:_MOST_WIDE], controls) if controls > 0.02 * len(sample) else None


def _find_wide(sample: bytes, controls: int) -> str | None:
    """Return the byte order of UTF-16 in which all characters can be shown; None for ASCII with few
    control characters.

    Raises:
        DocumentError: it is neither, so it is not text.
    """
    if sample.isascii() and controls <= _FEW_CONTROLS:
        return None
    for encoding in ("utf-16-le", "utf-16-be"):
        with suppress(UnicodeDecodeError):
            text = sample[: len(sample) // 2 * 2].decode(encoding)
            if len(text) > _FEWEST_WIDE and re.sub(r"[ \t\r\n\xa0\u3000]", "", text).isprintable():
                return encoding
    raise DocumentError("binary file, not text")


def read_front_matter(text: str) -> dict[str, Any]:
    """Return the front matter (YAML or TOML) of a Markdown text, as JSON values; an empty
    dictionary if it has none.
    """
    match = _FRONT_MATTER.match(text, 0, _MOST_FRONT_MATTER)
    if match is None:
        return {}
    source = match[2]
    if match[1] is None:
        with suppress(tomllib.TOMLDecodeError, RecursionError):
            return dict(to_json_value(tomllib.loads(source)))
        return {}
    if sum(map(source.count, ("[", "{", "? ", "?\n"))) > _MOST_NESTED:
        return {}
    import yaml

    try:
        if any(isinstance(each, yaml.AliasEvent) for each in yaml.parse(source, yaml.SafeLoader)):
            return {}  # nested aliases could expand to gigabytes
        loaded = yaml.safe_load(source)
        meta = to_json_value(loaded) if isinstance(loaded, dict) else {}
    except Exception:  # PyYAML's constructors raise many types for invalid values
        _logger.debug("front matter is not YAML", exc_info=True)
        return {}
    return dict(meta)


def read_rst_fields(text: str) -> dict[str, Any]:
    r"""Return the fields that a text begins with, in the form of reStructuredText or of mail (RFC
    822), as in PEPs.

    >>> read_rst_fields("PEP: 8\nTitle: Style Guide\n  for Code\n\nText.")
    {'pep': '8', 'title': 'Style Guide for Code'}
    """
    text = text.removeprefix(BYTE_ORDER_MARK)[:_MOST_FRONT_MATTER]
    fields = _RST_FIELDS.match(text)
    pairs = _RST_FIELD.findall(fields[0]) if fields else []
    if (
        not fields
        or text[fields.end() :].lstrip(" \t\r")[:1].strip()
        or (len(pairs) < 2 and text[0] != ":")
    ):
        return {}  # prose that begins with a word and a colon
    return {name.lower(): fold(value) for name, value in pairs}


def find_rst_title(text: str) -> str:
    """Return the first heading of a text; an empty string if other headings stand on its level."""
    text = without_comments(text.removeprefix(BYTE_ORDER_MARK)[:_MOST_BEFORE_TITLE])
    headings = list(_RST_HEADING.finditer(text))
    levels = [(bool(heading["over"]), heading["under"][0]) for heading in headings]
    is_only = bool(levels) and levels.count(levels[0]) == 1
    return show_inline(headings[0]["title"]).rstrip() if is_only else ""


def find_markdown_title(text: str) -> str:
    """Return the first heading of the first level; a comment in a block of code is no heading."""
    return _find_title(_MD_TITLE, _FENCED.sub("", text[:_MOST_BEFORE_TITLE]))


def _find_title(pattern: re.Pattern[str], text: str) -> str:
    text = without_comments(text[:_MOST_BEFORE_TITLE])
    match = pattern.search(text.removeprefix(BYTE_ORDER_MARK))
    title = next((group for group in match.groups() if group), "") if match else ""
    return show_inline(title).strip()


_MOST_UNPACKED = 256 << 20  # bytes that may come out
_PIECE = 1 << 20  # bytes that are unpacked at a time
_ARCHIVES = (".tar", ".tgz", ".zip", ".gz", ".bz2", ".xz", ".7z")


def unpack_gzip(data: bytes, name: str) -> bytes:
    """Return the content of a .gz file.

    Args:
        data: the bytes of the file.
        name: the name of the content.

    Raises:
        DocumentError: the content is an archive by its name, or too large.
    """
    if name.lower().endswith(_ARCHIVES):
        raise DocumentError("an archive inside an archive: unpack it first")
    # the size that the file itself names
    allow_unpacked(min(int.from_bytes(data[-4:], "little"), _MOST_UNPACKED))
    unpacked = bytearray()
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        # In pieces, since read(n) takes n bytes of memory even for a small file.
        while len(unpacked) <= _MOST_UNPACKED and (piece := file.read(_PIECE)):
            unpacked += piece
    if len(unpacked) > _MOST_UNPACKED:
        raise DocumentError(f"unpacks to more than {_MOST_UNPACKED >> 20} MiB: unpack it first")
    return bytes(unpacked)
