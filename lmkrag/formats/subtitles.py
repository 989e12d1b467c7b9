"""Subtitles, by pysubs2: a line a cue, with the time at which it begins."""

import re

import pysubs2

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded
from lmkrag.formats.text import decode

_IDENTIFIER = re.compile(r"^(?!.*-->)[^\r\n]+\r?\n(?=[^\r\n]*-->)", re.MULTILINE)  # the line before a cue's times
_MAX_CUE = 5_000
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?\s+([^>]+)>")


def read(data: bytes, name: str) -> Loaded:
    """Read an .srt or .vtt file; who speaks stands before what is said."""
    text, suffix = decode(data), name.rpartition(".")[2].lower()
    if max(map(len, text.split("-->"))) > _MAX_CUE:  # pysubs2's patterns take time by the square of a cue's length
        raise DocumentError(f"broken subtitles (a cue of more than {_MAX_CUE:,} characters)")
    if suffix == "vtt":  # pysubs2 takes identifiers for text, and drops voices
        text = _VOICE.sub(r"\1: ", _IDENTIFIER.sub("", text))
    cues = pysubs2.SSAFile.from_string(text, format_=suffix)
    lines = [f"[{_clock(cue.start)}] {' '.join(cue.plaintext.split())}" for cue in cues if cue.plaintext.strip()]
    return Loaded("\n".join(lines), "subtitles")


def _clock(milliseconds: int) -> str:
    seconds = milliseconds // 1_000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
