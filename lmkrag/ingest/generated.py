"""Tell files that programs wrote from those of people: lock files, vocabularies, builds, dumps."""

import re
from pathlib import Path, PurePath

from lmkrag.formats.load import is_plain
from lmkrag.formats.text import CODE

_LOCK_FILE = re.compile(
    r"[^/]{1,255}\.(?:lock|lockb|lockfile)|package-lock\.json|npm-shrinkwrap\.json|packages\.lock\.json"
    r"|pnpm-lock\.yaml|conda-lock\.ya?ml|go\.sum",
    re.IGNORECASE,
)
_MINIFIED = re.compile(r"[^/]{1,255}[.-]min\.(?:js|mjs|cjs|css)", re.IGNORECASE)
_SOURCE_MAP = re.compile(r"[^/]{1,255}\.(?:js|mjs|cjs|css|ts)\.map", re.IGNORECASE)
_GENERATED = re.compile(
    r"[^/]{1,255}(?:_pb2(?:_grpc)?\.pyi?|\.pb(?:\.gw)?\.(?:go|cc|h)|_generated\.\w+|\.generated\.\w+"
    r"|\.designer\.cs|\.g\.(?:cs|dart)|\.freezed\.dart)",
    re.IGNORECASE,
)
_VOCABULARY = re.compile(r"(?:[^/]{1,255}[._-])?(?:vocab(?:ulary)?|merges|tokenizer)\.(?:json|txt)")
_BY_NAME = {
    "lock file": _LOCK_FILE,
    "minified code": _MINIFIED,
    "source map": _SOURCE_MAP,
    "generated code": _GENERATED,
}
_MIN_VOCABULARY = 1 << 16  # bytes; people keep lists of words in files of the same names

_BUILD = re.compile(r"(?:^|/)(?:node_modules|bower_components|[^/]+\.egg-info)/")
# folders that people write in, too, but for code that was compiled from other code
_COMPILED = re.compile(r"(?:^|/)(?:dist|build|out)/")
_SCRIPTS = (".js", ".mjs", ".cjs", ".css")

_HEAD = 1 << 14  # bytes of source code that are looked at
_COMMENT = re.compile(r"^[ \t]*(?:#|//|/\*|\*|--|;|<!--|%|\"\"\"|').*", re.MULTILINE)
_FIRST_LINES = 1_000  # characters that say how a file was made
_MARK = re.compile(
    r"@generated\b|<auto-?generated|do not (?:edit|modify)\b(?! unless)"
    r"|(?:code|file|module) (?:(?:is|was|has been) )?(?:auto[- ]?|automatically )?generated\b",
    re.IGNORECASE,
)
_LONG_LINE = 400  # characters of a line of code on average, from which on nobody wrote it
_MIN_MINIFIED = 4_000  # characters

_LARGE = 1 << 20  # bytes of data that is looked at
_SAMPLES, _SAMPLE = 5, 1 << 16  # places of it, and bytes at each
_WORD = re.compile(r"[^\W\d_]{3,}")
_UNSPACED = re.compile(r"[^\W\d_\x00-\u024f]{6,}")  # words of scripts without spaces
_MIN_WORDS = 3  # of a line that says something
_MIN_READABLE = 0.2  # share of lines, or strings
_KEY = re.compile(r'"((?:[^"\\]|\\.){1,200})"\s*:')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_MIN_REPEATS = 2  # times that records have each of their names on average


def describe_generated(path: Path, name: str, size: int) -> str:
    """Return what a file is if a program wrote it, such as ``lock file``; an empty string for a
    file of people.

    Args:
        path: the file, of which at most the beginning or a few samples are read.
        name: its path below the folder that is indexed.
        size: its bytes.
    """
    file_name = PurePath(name).name
    for what, pattern in _BY_NAME.items():
        if pattern.fullmatch(file_name):
            return what
    if _VOCABULARY.fullmatch(file_name) and size >= _MIN_VOCABULARY:
        return "vocabulary"
    if _BUILD.search(name) or (_COMPILED.search(name) and name.endswith(_SCRIPTS)):
        return "build"
    try:
        return _describe_content(path, size)
    except OSError:  # its reader reports it
        return ""


def _describe_content(path: Path, size: int) -> str:
    suffix = path.suffix.lower()
    if suffix in CODE:
        head = _read(path, 0, _HEAD)
        if any(_MARK.search(line) for line in _COMMENT.findall(head[:_FIRST_LINES])):
            return "generated code"
        if len(head) >= _MIN_MINIFIED and len(head) > _LONG_LINE * (head.count("\n") + 1):
            return "minified code"
    is_json = suffix == ".json"
    if size < _LARGE or not (is_json or is_plain(path)):
        return ""
    says_something = _has_records if is_json else _has_sentences
    step = (size - _SAMPLE) // (_SAMPLES - 1)
    samples = [_read(path, number * step, _SAMPLE) for number in range(_SAMPLES)]
    if any("\0" in sample for sample in samples):
        return ""  # no text: its reader says so
    is_data = 2 * sum(map(says_something, samples)) < len(samples)
    return "data without sentences or records" if is_data else ""


def _read(path: Path, start: int, length: int) -> str:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(length).decode("utf-8", "replace")


def _has_sentences(sample: str) -> bool:
    """Return whether enough of the lines have some words."""
    lines = [line for line in sample.splitlines() if not line.isspace()]
    readable = sum(_is_readable(line) for line in lines)
    return readable >= _MIN_READABLE * len(lines)


def _has_records(sample: str) -> bool:
    """Return whether a part of a JSON file has objects of the same names, or strings with words."""
    keys = _KEY.findall(sample)
    if len(keys) >= _MIN_REPEATS * len(set(keys)) > 0:
        return True
    strings = _STRING.findall(sample)
    readable = sum(map(_is_readable, strings))
    return readable > _MIN_READABLE * len(strings)


def _is_readable(text: str) -> bool:
    return len(_WORD.findall(text)) >= _MIN_WORDS or _UNSPACED.search(text) is not None
