"""Guess the encoding of a text that is not UTF-8: by chardet's models of languages, corrected by
what they do not see.

Lists of names are too short for such models, which then take a code page of DOS for Windows-1252:
"Stra▀e" is as likely to them as "Straße". A word with a symbol in it tells that it is not.
"""

import codecs
import re
import unicodedata
from collections.abc import Iterable

import chardet

# the codec that browsers read a label's bytes with (https://encoding.spec.whatwg.org), by Python's
# name
BY_LABEL = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
_COMMON = "cp1252"
_COMMON_BONUS = 0.004  # by which another encoding must be likelier than the one of most files
_ERAS = chardet.EncodingEra.ALL & ~chardet.EncodingEra.MAINFRAME
# They win by accents that Italian and French have in Windows-1252, and hardly any file has them.
_RARE = ("iso8859-4", "mac-latin2")
_MOST_TELLING = 8_192  # bytes whose words are looked at
_FEW = 4  # bytes beyond ASCII, in which no language shows
_WESTERN = frozenset(
    "àáâäåæçèéêëìíîïñòóôöøùúûüßÄÉÖÜ€‚…‘’“”•–—™¡¢£§©«®°±²³´µ·»¼½¾¿×÷".encode("cp1252")
)
_HIGH = re.compile(rb"[A-Za-z]?[\x80-\xff]+")
# A symbol within a word, a capital after a small letter, a control character.
_ODD = re.compile(
    r"(?<=[^\W\d_])[^\w\0-\x7f’·\xad–—…](?=[^\W\d_])"
    r"|(?<=[a-zß-öø-ÿ])[À-ÖØ-ÞĀŒŠŸŽА-ЯΑ-Ω]|[\x80-\x9f]"
)
_WORD = re.compile(r"[^\W\d_]+")
_ALPHABETS = {"LATIN", "GREEK", "CYRILLIC", "HEBREW", "ARABIC"}


def guess_encoding(sample: bytes, decoded: Iterable[str]) -> str:
    """Return the likely encoding of a file that is not UTF-8.

    Args:
        sample: the first bytes of the file.
        decoded: the pieces of its text, decoded as UTF-8 with replacements.
    """
    damaged = wide = 0
    for piece in decoded:
        damaged += piece.count("\ufffd")
        wide += len(piece) - len(piece.encode("ascii", "ignore"))
    if wide >= 2 * damaged:
        return "utf-8"  # with some bytes damaged
    telling = b"\n".join(line for line in sample.split(b"\n") if not line.isascii())
    if _is_western(telling):
        return _COMMON
    guesses = chardet.detect_all(
        telling, ignore_threshold=True, encoding_era=_ERAS, exclude_encodings=_RARE
    )
    scores = {_COMMON: 0.0}
    for guess in guesses:
        name = codecs.lookup(guess["encoding"] or _COMMON).name
        codec = BY_LABEL.get(name, name)
        score = guess["confidence"] * _share_of_words(telling[:_MOST_TELLING], codec)
        bonus = _COMMON_BONUS if codec == _COMMON else 0.0
        scores[codec] = max(score + bonus, scores.get(codec, 0.0))
    return max(scores, key=lambda codec: scores[codec])


def _is_western(telling: bytes) -> bool:
    """Return whether few bytes beyond ASCII are signs and accents of Western Europe, each alone."""
    runs = _HIGH.findall(telling)
    high = b"".join(runs).translate(None, bytes(range(128)))
    are_alone = all(len(run) < (4 if run[:1].isalpha() else 2) for run in runs)
    return len(high) < _FEW and _WESTERN.issuperset(high) and are_alone


def _share_of_words(data: bytes, codec: str) -> float:
    """Return the share of characters beyond ASCII that stand where writers put them."""
    text = data.decode(codec, "replace")
    high = len(text) - len(text.encode("ascii", "ignore"))
    mixed = sum(map(_is_mixed, _WORD.findall(text)))
    return max(0.0, 1 - (len(_ODD.findall(text)) + mixed) / max(1, high))


def _is_mixed(word: str) -> bool:
    """Return whether a word has letters of two alphabets."""
    if word.isascii():
        return False
    names = {unicodedata.name(letter, "").partition(" ")[0] for letter in word}
    return len(names & _ALPHABETS) > 1
