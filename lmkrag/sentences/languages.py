"""The language of a document, by a sample of its prose."""

import re

from lmkrag.language.languages import detect_language
from lmkrag.specs import CODE, ENGLISH, Text

# kinds of documents whose lines are records
RECORDS = frozenset({"contacts", "csv", "json", "ods", "xlsx", "sql", "subtitles"})
_CHARACTERS = 2_000  # of words
_REACH = 20_000  # characters in the middle of a document that they are taken from
_LETTERS = 100  # of a sample, at least, for its language to be detected
_FEW_LETTERS = 40  # the same of one with letters that English lacks
_CODE = re.compile(
    r"```.*?```|`[^`\n]*`|https?://\S+|<[^<>\n]*>|[\w+/]{60,}=*", re.DOTALL | re.ASCII
)
# Words in a row: not those in cells of a table, nor numbers, source code and pictures as base64.
_WORDS = re.compile(r"(?:(?![ \u00a0]{2})[^\d_|<>{}=+*/\\#@$%^~\t]){25,}")
_ENGLISH_WORDS = re.compile(r"\b(?:the|and|that|with|this|are)\b", re.IGNORECASE)
_CHARACTERS_PER_WORD = 200  # of English text for each of these words, at most
_PROSE_CHARS, _PROSE_SENTENCES = 300, 3  # of the line of a record, at least
_PROSE_END = re.compile(r"\w[.!?؟।][\"'”’)]*(?:\s|$)|[。！？]")


def document_language(text: Text, kind: str = "text") -> str:
    """Return the language of a document, by a sample from its middle.

    Args:
        text: the text, in memory or on disk.
        kind: the kind of the document.

    Returns:
        ISO 639-1, or ``code`` for source code. English is the default for a document without prose.
    """
    if kind == "code":
        return CODE
    sample = sample_prose(text, kind)
    # Most texts are English, and py3langid's model takes longer to load than a small folder to
    # index.
    if len(sample) <= _CHARACTERS_PER_WORD * len(_ENGLISH_WORDS.findall(sample)):
        return ENGLISH
    letters = "".join(filter(str.isalpha, sample))
    fewest = _LETTERS if letters.isascii() else _FEW_LETTERS
    return detect_language(sample) if len(letters) >= fewest else ENGLISH


def sample_prose(text: Text, kind: str = "text") -> str:
    """Return words from the middle of a document, at most 2,000 characters; an empty string for a
    document without prose, such as source code, or a table of values with a long cell somewhere.
    """
    middle = max(0, len(text) // 2 - _REACH // 2)
    around = _CODE.sub(" ", text[middle : middle + _REACH])
    is_record = kind in RECORDS and kind != "subtitles"
    are_prose = [is_prose(line) for line in around.splitlines() if line.strip()]
    is_of_values = is_record and sum(are_prose) < len(are_prose) / 2
    if kind == "code" or is_of_values:
        return ""
    words = " ".join(_WORDS.findall(around))
    first = max(0, len(words) // 2 - _CHARACTERS // 2)
    return words[first : first + _CHARACTERS]


def is_prose(line: str) -> bool:
    """Return whether the line of a record holds prose, such as a review or an article, and not
    values.
    """
    return len(line) >= _PROSE_CHARS and len(_PROSE_END.findall(line)) >= _PROSE_SENTENCES
