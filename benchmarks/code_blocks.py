"""How often are blocks of source code and definitions, as lmkrag finds them, those of a grammar?

    pip install tree-sitter tree-sitter-{python,javascript,go,rust,java,c}
    python benchmarks/code_blocks.py FOLDER... [--files 150]

Takes lines inside some functions of files of each language below the folders. lmkrag completes a line to the largest
block of at most 2,000 characters around it, by indentation; a grammar says where functions and classes, with the
comments and decorators above them, begin and end. Prints, by language, in %, how often both blocks are the same, how
often ours holds at least one whole function, and how often lmkrag takes the function's first line for a definition.
"""

import argparse
import importlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tree_sitter

from lmkrag.search.code_blocks import enclosing_block
from lmkrag.search.weights import WEIGHTS
from lmkrag.sentences.code_lines import DEFINITION

FUNCTIONS = 5  # of a file
LEAST_BYTES, MOST_BYTES = 2_000, 120_000  # of a file
ABOVE = ("comment", "attribute", "annotation")
WRAPPERS = ("decorated_definition", "export_statement")


class Grammar(NamedTuple):
    """A language: its package, the endings of its files, its nodes for functions and for what holds functions."""

    package: str
    ending: str
    functions: str
    holders: str = ""


GRAMMARS = (
    Grammar("tree_sitter_python", "py", "function_definition", "class_definition"),
    Grammar(
        "tree_sitter_javascript",
        "js",
        "function_declaration method_definition",
        "class_declaration",
    ),
    Grammar("tree_sitter_go", "go", "function_declaration method_declaration", "type_declaration"),
    Grammar(
        "tree_sitter_rust",
        "rs",
        "function_item",
        "impl_item trait_item mod_item struct_item enum_item",
    ),
    Grammar(
        "tree_sitter_java",
        "java",
        "method_declaration constructor_declaration",
        "class_declaration interface_declaration enum_declaration",
    ),
    Grammar("tree_sitter_c", "c", "function_definition", "struct_specifier"),
)


class WholeText:
    """A document as :func:`enclosing_block` reads it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def text(self, start: int, end: int) -> str:
        """Return characters of it."""
        return self._text[max(0, start) : end]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--files", type=int, default=150, help="of each language")
    options = parser.parse_args()
    print(
        "| language | functions | same block | holds a function | defined |\n|---|---|---|---|---|"
    )
    for grammar in GRAMMARS:
        rng = random.Random(0)
        paths = sorted(
            path for folder in options.folders for path in folder.rglob(f"*.{grammar.ending}")
        )
        paths = [
            p
            for p in paths
            if "test" not in str(p).lower() and LEAST_BYTES < p.stat().st_size < MOST_BYTES
        ]
        rng.shuffle(paths)
        results = [
            result for path in paths[: options.files] for result in compare(path, grammar, rng)
        ]
        if results:
            shares = " | ".join(
                f"{100 * sum(column) / len(results):.1f}" for column in zip(*results, strict=True)
            )
            print(f"| {grammar.ending} | {len(results)} | {shares} |")


def compare(path: Path, grammar: Grammar, rng: random.Random) -> Iterator[tuple[bool, bool, bool]]:
    """Yield, of some functions of a file, whether our block is the grammar's, holds a function, and is defined."""
    try:
        text = path.read_text("ascii")  # bytes are characters then
    except UnicodeDecodeError:
        return
    parser = tree_sitter.Parser(
        tree_sitter.Language(importlib.import_module(grammar.package).language())
    )
    names = {match.start("name") for match in DEFINITION.finditer(text)}
    functions = list(find_functions(parser.parse(text.encode()).root_node, text, grammar))
    rng.shuffle(functions)
    for (start, end), blocks, name in functions[:FUNCTIONS]:
        fitting = [block for block in blocks if block[1] - block[0] <= WEIGHTS.block_chars]
        lines = [
            line for line in split_lines(text, start, end) if text[slice(*line)].strip(" \t{}();,")
        ]
        if not fitting or not lines:
            continue
        ours = enclosing_block(WholeText(text), *rng.choice(lines), WEIGHTS.block_chars)  # type: ignore[arg-type]
        same = text[slice(*ours)].strip() == text[slice(*fitting[0])].strip()
        yield same, any(ours[0] <= low and high <= ours[1] for low, high in blocks), name in names


def find_functions(
    root: Any, text: str, grammar: Grammar
) -> Iterator[tuple[tuple[int, int], list[tuple[int, int]], int]]:
    """Yield the body of each function, the functions and classes around it, itself included, and where its name is."""
    waiting: list[tuple[Any, list[tuple[int, int]]]] = [(root, [])]
    while waiting:
        node, around = waiting.pop()
        if node.type in grammar.functions.split() + grammar.holders.split():
            around = [*around, (start_above(node, text), node.end_byte)]
            body = node.child_by_field_name("body")
            if body is not None and node.type in grammar.functions.split():
                named = node
                while (
                    inner := named.child_by_field_name("name")
                    or named.child_by_field_name("declarator")
                ) is not None:
                    named = inner
                yield (body.start_byte, body.end_byte), around, named.start_byte
        waiting += [(child, around) for child in node.children]


def start_above(node: Any, text: str) -> int:
    """Return where the comments and decorators right above a node begin."""
    while node.parent is not None and node.parent.type in WRAPPERS:
        node = node.parent
    start, before = node.start_byte, node.prev_sibling
    while before is not None and any(kind in before.type for kind in ABOVE):
        between = text[before.end_byte : start]
        if between.strip() or between.count("\n") > 1:
            break
        start, before = before.start_byte, before.prev_sibling
    return int(start)


def split_lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the whole lines that begin between two characters."""
    position = text.find("\n", start, end) + 1
    while 0 < position < end:
        stop = text.find("\n", position)
        yield position, stop if stop >= 0 else len(text)
        position = stop + 1


if __name__ == "__main__":
    main()
