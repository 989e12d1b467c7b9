"""Tell the language of a text, by py3langid (Lui and Baldwin, "langid.py", ACL 2012)."""

ENGLISH = "en"


def detect_language(text: str) -> str:
    """Return the language of a text, as ISO 639-1 names it.

    >>> detect_language("Das Boot ist rot und fährt nach Bergen."), detect_language("The boat is red.")
    ('de', 'en')
    """
    import py3langid  # its model takes half a second to load

    language, _ = py3langid.classify(text)
    return str(language)
