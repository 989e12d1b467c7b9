"""Detect the language of a text with py3langid (Lui and Baldwin, "langid.py", ACL 2012)."""

import re
from io import BytesIO
from types import SimpleNamespace

from lmkrag.specs import ENGLISH

_ENGLISH = re.compile(
    r"\s*(?:(who|whom|whose|what|when|where|which|why|how|are|were|does|did|can|could|may|must"
    r"|should|has|have|at|by|from|to"
    r"|according|give|list|tell|show)|(?:is|was|will|do|in|on|for|under|name)(\s+(?:the|an?|it|he"
    r"|she|they|we|you|i|this"
    r"|that|these|those|there|what|which|who|whom|whose|how|any|all|every|each|my|our|your|his|her"
    r"|its|their|one))?)\b",
    re.IGNORECASE,
)


def detect_language(text: str) -> str:
    """Return the language of a text (ISO 639-1). The first call loads a model, which takes half a
    second.
    """
    import py3langid  # its model takes half a second to load

    try:
        language, _ = py3langid.classify(text)
    except OSError:  # no room for the temporary file that the model is unpacked to
        from py3langid import modelio

        modelio.tempfile = SimpleNamespace(TemporaryFile=lambda **_: BytesIO())
        language, _ = py3langid.classify(text)
    return str(language)


def asks_in_english(question: str) -> bool:
    """Return whether a question begins as only English questions do, or is detected as English."""
    # Without a group, it begins with a word that other languages have, too.
    begin = _ENGLISH.match(question)
    return begin is not None and (
        begin.lastindex is not None or detect_language(question) == ENGLISH
    )
