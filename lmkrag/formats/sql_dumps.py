"""Dumps of databases in SQL: each row of a table under the table's name, each value beside its
column's name.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest

from lmkrag.formats.base import Loaded, fold
from lmkrag.formats.html import read_value
from lmkrag.formats.tabular import format_record
from lmkrag.formats.text import decode

_NAME = r'(?:\w+|`[^`\n]+`|"[^"\n]+"|\[[^\]\n]+\])'
_TABLE = rf"(?:{_NAME}\s*\.\s*){{0,2}}(?P<%s>{_NAME})\s*"
_COLUMNS = r"(?:\((?P<%s>[^()]*)\)\s*)?"
_STATEMENT = re.compile(
    rf"^[ \t]*(?:(?:(?:INSERT|REPLACE)[\w \t]{{0,40}}?|INTO)\s{_TABLE % 'filled'}"
    rf"{_COLUMNS % 'columns'}"
    r"(?:OVERRIDING\s+\w+\s+VALUE\s+)?VALUES?\s*(?=\()"
    rf"|COPY\s+{_TABLE % 'copied'}{_COLUMNS % 'copied_columns'}FROM\s+stdin[^\n]*\n"
    rf"|CREATE\s+[\w \t]{{0,60}}?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_TABLE % 'created'}(?=\())",
    re.IGNORECASE | re.MULTILINE,
)
_STRING = r"(?P<prefix>[NEXB]?)'(?:[^'\\]|''|\\%s)*+'"
_OTHERS = (
    r'"(?:[^"]|"")*+"|`[^`]{0,128}`|\[[^\[\]\n]{0,128}\]|--[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/'
    r"|[(),;]|[^\s'\"`(),;\[]+"
)
_TOKEN = re.compile(rf"{_STRING % ''}|{_OTHERS}", re.IGNORECASE | re.DOTALL)
_TOKEN_OF_MYSQL = re.compile(rf"{_STRING % '.'}|{_OTHERS}", re.IGNORECASE | re.DOTALL)
# As MySQL writes names and apostrophes in strings.
_OF_MYSQL = re.compile(r"`|\\'\w")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": " ", "0": "", "N": ""}
_BETWEEN = re.compile(r"^[ \t]*(--.*)$|(?<=;)[ \t]*\n", re.MULTILINE)
_SAYS_NOTHING = re.compile(
    r"[\W_]*+(?:(?:go|(?:set|lock|unlock|rem inserting|on conflict|on duplicate)\b[^;]*+"
    r"|insert all|select\W[^;]*\bdual)[\W_]*+)?"
    r"|/\*!.*",
    re.IGNORECASE,
)
_NO_COLUMN = frozenset(
    "primary key unique constraint foreign index check fulltext spatial exclude like".split()  # noqa: SIM905
)
_LEAST = 0.25  # of the characters of a file that are rows: else it is source code

_Row = list[list[str]]  # the tokens of its values


def read(data: bytes, name: str) -> Loaded:
    """Read an .sql file: the rows of ``INSERT`` and ``COPY`` as records, beside other statements.

    A file that is mostly other statements is source code, and stays as it is.
    """
    text = decode(data)
    has_escapes = _OF_MYSQL.search(text) is not None
    token = _TOKEN_OF_MYSQL if has_escapes else _TOKEN
    columns: dict[str, list[str]] = {}
    lines: list[str] = []
    table, shown, in_rows, position = "", 0, 0, 0
    while statement := _STATEMENT.search(text, position):
        position = statement.end()
        if statement["created"]:
            parts = next(_read_rows(text, position, token), ([], 0))[0]
            named = [_unquote(part[0]) for part in parts if part]
            columns[_unquote(statement["created"])] = [
                column for column in named if column.lower() not in _NO_COLUMN
            ]
            continue
        own = _unquote(statement["filled"] or statement["copied"])
        listed = statement["columns"] or statement["copied_columns"]
        names = [*map(_unquote, listed.split(","))] if listed else columns.get(own, [])
        if statement["copied"]:
            rows, position = _read_copied(text, position)
        else:
            read_rows = [*_read_rows(text, position, token)]
            rows = [[_show(value, has_escapes) for value in row] for row, _ in read_rows]
            position = read_rows[-1][1] if read_rows else position
        if not re.search(r"['\d]", text[statement.end() : position]):  # VALUES (?, ?)
            continue
        lines += _show_statements(text[shown : statement.start()])
        if own != table:
            lines += ["", f"# {own}", ""]
        lines += [format_record(zip_longest(names, row, fillvalue="")) for row in rows]
        in_rows += position - statement.start()
        table, shown = own, position
    if in_rows < _LEAST * len(text):
        return Loaded(text, "code")
    lines += _show_statements(text[shown:])
    return Loaded("\n".join(lines).strip(), "sql")


def _read_rows(text: str, position: int, token: re.Pattern[str]) -> Iterator[tuple[_Row, int]]:
    """Yield the rows in parentheses that follow each other, and where each ends."""
    row: _Row = []
    depth = 0
    for match in token.finditer(text, position):
        sign = match[0]
        if sign.startswith(("--", "/*")):
            continue
        if sign == ";" or (not depth and sign not in ("(", ",")):
            return
        if sign == "(":
            depth += 1
            row = [[]] if depth == 1 else row
        elif sign == ")":
            depth -= 1
            if not depth:
                yield row, match.end()
        elif sign == "," and depth == 1:
            row.append([])
        elif depth:
            row[-1].append(sign)


def _read_copied(text: str, position: int) -> tuple[list[list[str]], int]:
    """Return the rows of PostgreSQL's ``COPY``, whose values stand between tabs, and where they
    end.
    """
    end = text.find("\n\\.", position - 1)
    end = len(text) if end < 0 else end
    lines = text[position:end].splitlines()
    rows = [[_unescape(value) for value in line.split("\t")] for line in lines]
    return rows, min(len(text), end + len("\n\\."))


def _show(tokens: list[str], has_escapes: bool) -> str:
    """Return a value: of a call its first string, of ``CAST(12.5 AS int)`` the number."""
    strings = [token for token in tokens if token.endswith(("'", '"'))]
    if not strings:
        is_cast = len(tokens) > 1 and tokens[0].upper() == "CAST"
        value = tokens[1] if is_cast else "".join(tokens)
        return "" if value.upper() in ("NULL", "DEFAULT") else value
    is_joined = "||" in tokens
    has_escapes |= tokens[0].lower() == "replace"  # of SQLite: replace('...', '\\n', char(10))
    shown = (_read_string(string, has_escapes) for string in strings)
    return read_value("".join(shown) if is_joined else next(shown))


def _read_string(string: str, has_escapes: bool) -> str:
    """Return what a string says; an empty text if it is bytes."""
    quote = string[-1]
    prefix = string[: string.index(quote)].upper()
    value = string[len(prefix) + 1 : -1].replace(2 * quote, quote)
    if prefix in ("X", "B"):
        return ""
    return _unescape(value) if has_escapes or prefix == "E" else value


def _unescape(value: str) -> str:
    return _ESCAPE.sub(lambda sign: _ESCAPED.get(sign[1], sign[1]), value)


def _unquote(name: str) -> str:
    return name.strip().strip('`"[]').strip()


def _show_statements(text: str) -> list[str]:
    """Return other statements and comments, each on one line, without those that only set
    something.
    """
    parts = (fold(part) for part in _BETWEEN.split(text) if part)
    return [part for part in parts if not _SAYS_NOTHING.fullmatch(part)]
