"""Source code in groups of lines, each read with the functions and classes around it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import StringIO
from itertools import pairwise

from lmkrag.specs import Sentence, Text

STATEMENTS = (
    "if|for|foreach|while|switch|match|catch|return|else|do|new|throw|case|await|yield|typeof"
    "|delete|in|of|and|or|not|elif"
    "|with|assert|sizeof|using|synchronized|try|lock|go|defer|select|until|unless|when|goto|raise"
    "|super|function|func|fn"
)
DEFINITION = re.compile(
    rf"""^(?P<indent>[ \t]*+)(?!\*)
    (?:(?:export|default|public|private|protected|internal|static|abstract|final|async|unsafe|extern|const|inline|virtual
        |override|native|synchronized|get|set|pub(?:\(\w+\))?)[ \t]++){{0,8}}
    (?:
        # a keyword, in Go with a receiver, in Ruby of a class itself
        (?:def|class|func|fun|function\*?|fn|interface|struct|enum|trait|impl|mod|module|namespace|record
            |type(?=\s+\w+\s+(?:struct|interface)\b))[ \t]++(?:self\.|\([^()\n]*\)[ \t]*)?
        # a variable whose value is a function
        | (?:const|let|var)[ \t]++(?=[\w$]+[ \t]*=[ \t]*(?:async[ \t]++)?(?:function\b|\([^()\n]*\)[ \t]*=>|\w+[ \t]*=>))
        # a type or none, then a name, parameters and a brace
        | (?!(?:{STATEMENTS})\b)(?:[\w$<>\[\],.?*&:@]+[ \t]++){{0,12}}[*&]*
          (?=~?[\w$]+[ \t]*\((?:[^;{{}}()]|\([^;{{}}()]*\)){{0,600}}\)[ \t]*
             (?:(?:const|noexcept|override|final|throws|:|->)[^;{{}}()=\n]*)?\s*\{{)
    )
    (?P<name>~?(?!(?:if|while|for|switch)\b)[\w$]+)[^\n{{;]*""",  # noqa: E501
    re.MULTILINE | re.VERBOSE,
)
"""The first line of a function or a class: ``def f(``, ``func (t *T) f(``, ``const f = (x) =>``,
``int f(int x) {``.
"""

_LONGEST = 100  # characters of a definition
_DEEPEST = 3  # definitions in the context of a group, at most

CLOSES = re.compile(
    r"[)\]{}]|where\b|end\b|else\b|elif\b|except\b|finally\b|catch\b|fi\b|done\b|esac\b"
)
"""The beginning of lines that belong to the block before them, although they are not indented."""

ABOVE = re.compile(r"\*|//|/\*|#|--|@")
"""The beginning of comments and decorators, which belong to the line below."""
# the beginning of lines that end no function although they are not indented: braces, labels, "#if"
_CONTINUES = re.compile(rf"{CLOSES.pattern}|\{{|\w+:\s*$|#\w|\*")


def measure_indentation(line: str) -> int:
    """Return the number of columns that a line is indented by; tabs count up to the next multiple
    of eight.
    """
    indent = len(line) - len(line.lstrip())
    return len(line[:indent].expandtabs()) if "\t" in line else indent


def split_functions(text: str) -> list[tuple[int, int]]:
    """Return the pieces ``[start, end)`` of lines of source code that are of different functions or
    classes.

    A piece begins with the comments and decorators above a definition. It ends where another
    definition begins, or a line that is indented no deeper than its own.
    """
    starts, above, position = {0}, 0, 0
    limit = -1 if text[:1].strip() else 0  # the indentation of what ends the open piece
    is_above = False
    for line in StringIO(text):  # a form feed ends no line
        shown, indent = line.lstrip(), measure_indentation(line)
        if not is_above:
            above = position
        is_above = ABOVE.match(shown) is not None
        is_definition = DEFINITION.match(text, position) is not None
        is_end = bool(shown) and indent <= limit and not _CONTINUES.match(shown)
        if is_definition or is_end:
            starts.add(above)
            limit = indent if is_definition else -1
        position += len(line)
    return list(pairwise([*sorted(starts), len(text)]))


def add_definitions(text: Text, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yield groups of whole lines of code, with the definitions around each as its context.

    The context has the first lines of the functions and classes, at most the innermost three.

    Args:
        text: the source code.
        sentences: groups of its lines, in order.
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
            open_definitions = [
                definition for definition in open_definitions if definition[0] < limit
            ]
            if context is None:
                context = " ".join(shown for _, shown in open_definitions[-_DEEPEST:])
            if DEFINITION.match(line):
                open_definitions.append((indent, stripped.rstrip(":{ ")[:_LONGEST]))
        yield replace(sentence, context=context) if context else sentence
