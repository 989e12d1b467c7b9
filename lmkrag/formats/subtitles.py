"""Subtitles (SubRip and WebVTT): a line for each cue, or for those that a sentence runs over, with
the time at which it begins.
"""

import re
from html import unescape

from lmkrag.formats.base import Loaded, fold
from lmkrag.formats.text import decode
from lmkrag.language.messages import is_conversation
from lmkrag.specs import CHAT

# The times of a cue, and the line before them: its number or its identifier.
_TIMES = re.compile(
    (
        r"^(?:\d{1,9}[ \t]*\n|(?<=\n\n)[^\n]*\n)?[ "
        r"\t]*(?:(\d{1,4}):)?(\d\d?):(\d\d?)[.,]\d{1,3}[ \t]*-->[^\n]*$"
    ),
    re.MULTILINE,
)
_BLANK_LINE = re.compile(r"^[ \t]+\n", re.MULTILINE)
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s++([^<>\n]+)>")
_TAG = re.compile(r"<[^<>\n]*>|\{\\[^{}\n]*\}")
# The time of a word: each cue repeats the line before it, as if they rolled.
_STAMP = re.compile(r"<[\d:]+\.\d+>")
_SPEAKER = re.compile(r"[^\W\d_][\w.'’ -]{0,40}: ")
_ENDED = re.compile(r"[.!?…:;。！？؟।♪)\]][\"'”’»]*$")
_FEWEST_ENDED = 0.1  # of the cues of captions with punctuation
_FEWEST_WORDS, _LONGEST = 3, 300  # of a line that is joined: a title goes on nowhere; characters


def read(data: bytes, name: str) -> Loaded:
    """Read an .srt or .vtt file; the speaker's name, if there is one, stands before the words.

    With the names of several people it is a conversation.
    """
    text = decode(data).replace("\r\n", "\n").replace("\r", "\n")
    is_vtt, rolls = name.lower().endswith("vtt"), _STAMP.search(text) is not None
    text = _BLANK_LINE.sub("", text) if is_vtt else text
    _, *parts = _TIMES.split(text)
    cues, above = [], [""]
    for hours, minutes, seconds, body in zip(*(parts[first::4] for first in range(4)), strict=True):
        if is_vtt:  # below the words are notes and styles
            body = body.lstrip("\n").partition("\n\n")[0]
        named = (_VOICE.sub(r"\1: ", line) for line in body.split("\n"))
        lines = [fold(unescape(_TAG.sub("", line))) for line in named]
        speech = " ".join(line for line in lines if line and not (rolls and line in above))
        above = lines
        if speech:
            cues.append((f"[{int(hours or 0):02}:{int(minutes):02}:{int(seconds):02}]", speech))
    shown = "\n".join(_join_sentences(cues))
    return Loaded(shown, CHAT if is_conversation(shown) else "subtitles")


def _join_sentences(cues: list[tuple[str, str]]) -> list[str]:
    """Return a line a cue; one that ends no sentence is joined by the next of its speaker.

    Captions without punctuation keep their cues: nothing tells where their sentences end.
    """
    ended = sum(_ENDED.search(speech) is not None for _, speech in cues)
    is_punctuated = ended >= _FEWEST_ENDED * len(cues)
    lines: list[str] = []
    last_name = ""
    for time, speech in cues:
        named = _SPEAKER.match(speech)
        name = named[0] if named else ""
        is_other = name not in ("", last_name) or speech.startswith(("-", "–", ">>"))
        if is_punctuated and lines and not is_other and _is_open(lines[-1]):
            lines[-1] += f" {speech.removeprefix(name)}"
        else:
            lines.append(f"{time} {speech}")
            last_name = name
    return lines


def _is_open(line: str) -> bool:
    """Return whether a line, which begins with a time, has part of a sentence."""
    has_words = len(line.split()) > _FEWEST_WORDS
    return has_words and len(line) <= _LONGEST and not _ENDED.search(line)
