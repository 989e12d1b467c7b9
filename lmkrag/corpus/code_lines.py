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

CLOSES = re.compile(r"[)\]{}]|where\b|end\b|else\b|elif\b|except\b|finally\b|catch\b|fi\b|done\b|esac\b")
"""How a line begins that belongs to the block before it, although it is not indented."""


def measure_indentation(line: str) -> int:
    """Return how many columns a line is indented by."""
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())


def add_definitions(text: Text, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yield groups of lines, each with the first lines of the functions and classes around it as its context.

    Args:
        text: all of it.
        sentences: groups of whole lines, in order.
    """
    open_definitions: list[tuple[int, str]] = []  # their indentation, and their first lines
    for sentence in sentences:
        context: str | None = None
        for line in text[sentence.start : sentence.end].splitlines():
            stripped = line.strip()
            if not stripped:
                continue
            indent = measure_indentation(line)
            limit = indent + 1 if CLOSES.match(stripped) else indent
            open_definitions = [one for one in open_definitions if one[0] < limit]
            if context is None:
                context = " ".join(shown for _, shown in open_definitions[-_DEEPEST:])
            if DEFINITION.match(line):
                open_definitions.append((indent, stripped.rstrip(":{ ")[:_LONGEST]))
        yield replace(sentence, context=context) if context else sentence
