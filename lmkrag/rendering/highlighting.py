"""Source code as elements that say what each piece is: a keyword, a string, a comment."""

from functools import cache
from itertools import groupby
from typing import Any

from lmkrag.rendering.tree import Node, element, text_node

_LONGEST_LINE = 5_000  # characters; code with longer lines is no code that people read


def highlight(text: str, name: str, start: int) -> list[Node]:
    """Return source code as texts and ``span`` elements, whose ``token`` is ``keyword``, ``name``,
    ``string``, ``number`` or ``comment``.

    Args:
        text: a piece of a file.
        name: the name of the file, which tells the language.
        start: offset of the piece in the document.
    """
    lexer = _find_lexer(name.rpartition("/")[2])
    if lexer is None or max(map(len, text.split("\n"))) > _LONGEST_LINE:
        return [text_node(text, start)]
    nodes = []
    tokens = lexer.get_tokens_unprocessed(text)
    for kind, group in groupby(tokens, key=lambda token: _name_token(token[1])):
        pieces = list(group)
        piece = text_node("".join(text for _, _, text in pieces), start + pieces[0][0])
        nodes.append(element("span", piece, token=kind) if kind else piece)
    return nodes


@cache
def _find_lexer(name: str) -> Any:
    """The lexer of a file's language; None where that is unknown."""
    from pygments.lexers import find_lexer_class_for_filename

    lexer = find_lexer_class_for_filename(name)
    return lexer and lexer()


@cache
def _name_token(kind: Any) -> str:
    """What a kind of Pygments' tokens is called here; empty for what is shown as it is."""
    from pygments.token import Comment, Keyword, Name, Number, String

    names = {
        Keyword: "keyword",
        Name.Function: "name",
        Name.Class: "name",
        String: "string",
        Number: "number",
        Comment: "comment",
    }
    return next((name for above, name in names.items() if kind in above), "")
