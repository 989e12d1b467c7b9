"""Subtitles, by pysubs2: a line a cue, with the time at which it begins."""

import pysubs2

from lmkrag.corpus.formats.base import Loaded
from lmkrag.corpus.formats.text import decode
from lmkrag.errors import DocumentError


def read(data: bytes, name: str) -> Loaded:
    """Read an .srt or .vtt file."""
    try:
        cues = pysubs2.SSAFile.from_string(decode(data), format_=name.rpartition(".")[2].lower())
    except pysubs2.exceptions.Pysubs2Error as error:
        raise DocumentError(f"broken subtitles ({error})") from error
    lines = [f"[{_clock(cue.start)}] {' '.join(cue.plaintext.split())}" for cue in cues if cue.plaintext.strip()]
    if not lines:
        raise DocumentError("subtitles without words")
    return Loaded("\n".join(lines), "subtitles")


def _clock(milliseconds: int) -> str:
    seconds = milliseconds // 1_000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
