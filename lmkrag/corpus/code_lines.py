"""Source code in groups of lines, each read with the functions and classes that it stands in."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lmkrag.specs import Sentence, Text

DEFINITION = re.compile(
    r"^(?P<indent>[ \t]*)"
    r"(?:(?:export|default|public|private|protected|static|abstract|final|async|pub(?:\(\w+\))?)\s+)*"
    r"(?:def|class|func|function|fn|interface|struct|enum|trait|impl|module|namespace)\s+(?P<name>\w+)[^\n{;]*",
    re.MULTILINE,
)
"""The first line of a function or a class, in the languages in which a keyword begins it."""

_LONGEST = 100  # characters of a definition
_DEEPEST = 3  # definitions that a group is read with
_CLOSES = (")", "]", "}", "end")


def add_definitions(text: Text, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yield groups of lines, each with the first lines of the functions and classes around it as its context.

    Args:
        text: all of it.
        sentences: groups of whole lines, in order.
    """
    open_definitions: list[tuple[int, str]] = []  # their indentation, and their first lines
    for sentence in sentences:
        first = True
        for line in text[sentence.start : sentence.end].splitlines():
            stripped = line.strip()
            if not stripped:
                continue
            indent = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
            if not stripped.startswith(_CLOSES):
                open_definitions = [one for one in open_definitions if one[0] < indent]
            if first:
                context = " ".join(shown for _, shown in open_definitions[-_DEEPEST:])
                first = False
            if DEFINITION.match(line):
                open_definitions.append((indent, stripped.rstrip(":{ ")[:_LONGEST]))
        yield sentence if first or not context else replace(sentence, context=context)
