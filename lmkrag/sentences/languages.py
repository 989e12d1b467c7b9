"""The language of a document, by a sample of its prose."""

import re

from lmkrag.language.languages import detect_language
from lmkrag.sentences.split import RECORDS, is_prose
from lmkrag.specs import CODE, ENGLISH, Text

_CHARACTERS = 2_000  # from the middle of a document
_LETTERS = 100  # of a sample, at least, for its language to be detected
_CODE = re.compile(r"```.*?```|`[^`\n]*`|https?://\S+|<[^<>\n]*>", re.DOTALL)
_ENGLISH_WORDS = re.compile(r"\b(?:the|and|that|with|this|are)\b", re.IGNORECASE)
_CHARACTERS_PER_WORD = 200  # of English text for each of these words, at most


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
    middle = max(0, len(text) // 2 - _CHARACTERS // 2)
    sample = _CODE.sub(" ", text[middle : middle + _CHARACTERS])
    if kind in RECORDS and kind != "subtitles" and not any(map(is_prose, sample.splitlines())):
        return ENGLISH
    # Most texts are English, and py3langid's model takes longer to load than a small folder to
    # index.
    if len(sample) <= _CHARACTERS_PER_WORD * len(_ENGLISH_WORDS.findall(sample)):
        return ENGLISH
    return detect_language(sample) if sum(map(str.isalpha, sample)) >= _LETTERS else ENGLISH
