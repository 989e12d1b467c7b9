"""Declarations of names in source code: functions, classes, constants, variables, types, macros,
fields and keys.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from lmkrag.sentences.code_lines import DEFINITION, STATEMENTS

_MODIFIERS = (
    r"export|default|declare|public|private|protected|internal|static|abstract|final|readonly"
    r"|override|lateinit|inline"
    r"|unsafe|extern|open|pub(?:\([^)\n]*\))?"
)
_KEYWORDS = (
    r"const|let|var|val|fun|def|static|type|typealias|using|newtype|object|protocol|extension"
    r"|union|delegate|event"
    r"|message|service|rpc|macro_rules!|define|attr_\w+|alias_method|define_method|readonly|local"
    r"|declare(?:[ \t]+-\w+)?|case(?=[ \t]+\w+[ \t]*(?:=|;|,|$))|(?i:create(?:[ \t]+\w+)+)"
)
_COLUMNS = r"int\w*|bigint|smallint|serial|text|varchar|char|bool\w*|date\w*|time\w*|numeric|decimal|real|blob|json\w*|uuid"  # noqa: E501


def declares(text: str, names: Sequence[str]) -> bool:
    """Return whether lines of source code declare one of some names.

    Args:
        text: the lines, of any language.
        names: the names; letter case counts.
    """
    definitions = DEFINITION.finditer(text)  # Rust's "impl Trait for Type" defines neither
    defines = any(match["name"] in names and " for " not in match[0] for match in definitions)
    return defines or _declaration(tuple(names)).search(text) is not None


@lru_cache(64)
def _declaration(names: tuple[str, ...]) -> re.Pattern[str]:
    name = rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?![\w$])"
    constants = "|".join(re.escape(word) for word in names if word[0].isupper()) or r"(?!)"
    return re.compile(
        rf"""^[ \t]*(?:
        (?:(?:{_MODIFIERS})[ \t]+)*(?:{_KEYWORDS})[ \t(]+(?:mut[ \t]+|self\.|<[^<>\n]*>[ \t]*|[\w<>?]+\.)?[:'"$`]?{name}
        | \#[ \t]*define[ \t]+{name}
        # a type and the name: ``int name = 3;``, ``String name;``, ``int name(int x);``
        | (?!(?:{STATEMENTS}|var|let)\b)(?:[\w$<>\[\],.?*&:]+(?<!:)[ \t]+)+[*&$]*{name}[ \t]*
          (?:\[[^\[\]\n]*\][ \t]*)?(?:=(?![=>])|;|\{{[ \t]*(?:get|set|init)\b
            |\((?:[^;{{}}()]|\([^;{{}}()]*\))*+\)[^;{{}}=\n]*;)
        | \}}[ \t]*\*?{name}[ \t]*;
        | typedef\b[^;\n]*\(\*{name}\)
        # a field with its type, or a key
        | (?:(?:{_MODIFIERS})[ \t]+)*["']?{name}["']?\??[ \t]*:(?![:=])
        | ["`]?{name}["`]?[ \t]+(?i:{_COLUMNS})\b
        # a constant of a class, or a field of Go
        | (?:{constants})(?:(?:[ \t]+[\w.\[\]*]+)?[ \t]*=(?![=>])|[ \t]+[\w.\[\]*]+[ \t]*(?:`[^`\n]*`)?[ \t]*(?:$|//))
        )
        | ^{name}[ \t]*(?::[^=\n]+)?=(?![=>~])
        | \benum\b[^;}}]{{0,1000}}?{name}[ \t]*(?:[,=(;}}\n]|//|$)""",  # noqa: E501
        re.MULTILINE | re.VERBOSE,
    )
