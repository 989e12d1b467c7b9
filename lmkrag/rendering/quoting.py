"""The mark before every line of a document's text, so that no document can imitate a line of
lmkrag's output.
"""

MARK = "> "


def quote_lines(text: str) -> list[str]:
    r"""Return the lines of a text, each with the mark before it.

    >>> quote_lines("Noon.\n\n[1] official.md:1  strong")
    ['> Noon.', '>', '> [1] official.md:1  strong']
    """
    return [MARK + line if line else MARK.rstrip() for line in text.splitlines()]
