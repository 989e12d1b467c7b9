"""Look a value up in a table: the row by the exact words of the question, the column by its header.

A column is asked for by its name, by another word for it (``how heavy``: weight), or by its kind
(``when``: a date). In a table of properties and values the row names the value. The other words are
English.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from lmkrag.language.keys import find_exact_words, find_keys, holds
from lmkrag.language.languages import asks_in_english
from lmkrag.language.terms import drop_stop_words, split_words
from lmkrag.readers.short_answers import LIGHT, fit_type, has_short_answer, hash_singles
from lmkrag.readers.weights import ANSWERS
from lmkrag.rendering.places import is_record
from lmkrag.results import Citation, ShortAnswer, Span
from lmkrag.sentences.table_rows import (
    is_header,
    is_row,
    is_rule,
    is_tabbed,
    read_record,
    split_row,
)
from lmkrag.specs import NOT_COMPUTED

_LINE = re.compile(r"[^\n]+")
_ASKED = {
    "how many": (
        "number",
        "count",
        "quantity",
        "qty",
        "amount",
        "stock",
        "total",
        "units",
        "pieces",
    ),
    "how much": (
        "price",
        "cost",
        "fee",
        "fare",
        "amount",
        "rate",
        "rent",
        "total",
        "charge",
        "salary",
    ),
    "cost": ("price", "fee", "fare", "rate", "rent", "charge"),
    "when": (
        "date",
        "time",
        "day",
        "month",
        "year",
        "hours",
        "due",
        "departure",
        "opens",
        "since",
        "until",
    ),
    "how long": (
        "time",
        "duration",
        "minutes",
        "hours",
        "days",
        "weeks",
        "months",
        "years",
        "length",
        "term",
    ),
    "where": ("place", "location", "room", "shelf", "site", "address", "bay", "lane", "city"),
    "who": (
        "name",
        "person",
        "owner",
        "contact",
        "keeper",
        "manager",
        "responsible",
        "author",
        "by",
    ),
    "what time": ("time", "departure", "arrival", "opens", "closes"),
}
"""Headers of the kind that a question asks for."""
_NO_SUBJECT = f"{LIGHT} {' '.join(_ASKED)}"  # words of questions that name no row
_MEANINGS = """
heavy weight mass|weigh weight mass|long length duration|tall height|high height|wide width|deep depth draught
far distance|thick thickness|fast speed|hot temperature temp|old age|large size area|big size area|loud noise
own owner|born birth|colour color|color colour|telephone phone tel|phone telephone tel|mail email|maximum max
max maximum|minimum min|min minimum|average avg|avg average|temperature temp|temp temperature|inhabitants population
department dept|quantity qty|job role position|position role|died deaths fatalities|pay salary wage|earn salary wage
"""  # noqa: E501
"""Words of questions, and the synonyms of each in headers and names of properties."""
_VALUES = (
    "value values amount detail details description data setting default wert valeur valor "
    "valore waarde"
)
_PROPERTIES = (
    "property parameter feature characteristic specification spec attribute field key "
    "setting quantity"
)
_QUANTITY = re.compile(r"[-+]?[€$£]?\d[\d.,]*\s?[^\W\d_]{0,3}")
_REMARK = re.compile(r"(?<=\S)\s*\([^()]*\)\s*\Z")
_YEAR = re.compile(r"(_|\bFY ?|['’])(\d\d)(?!\d)")  # FY23, '23, deaths_99
_ABBREVIATION = re.compile(r"\b([^\W\d_]{2,})\.(?=\W|$)")


class Cell(NamedTuple):
    """A value of a table that answers a question, its row, and the header of the table as
    written.
    """

    short: ShortAnswer
    row: Citation
    header: str


class _Row(NamedTuple):
    """A row: its span's number from 1, where it is in the span, (column, value, its start) of its
    cells, its header.
    """

    number: int
    start: int
    end: int
    cells: list[tuple[str, str, int]]
    header: str = ""


def find_cell(question: str, spans: Sequence[Span]) -> Cell | None:
    """Return the cell that answers a question, if a single row has its exact words and a single
    column is asked for.
    """
    if not has_short_answer(question):
        return None
    terms = _read_question(question)
    question_words = set().union(*(words for _, words in terms))
    spelled = [word for word, _ in terms]
    codes, keys = find_exact_words(question), find_keys(question)
    demanded = [key for key in keys if key in codes or any(map(str.isdigit, key))]
    contexts = [" ".join([span.doc_id, span.title, *span.headings, span.header]) for span in spans]
    around = list(map(hash_singles, contexts))
    texts: dict[
        str, str
    ] = {}  # of documents, as far as they are shown: a report names its company once
    for span in spans:
        texts[span.doc_id] = f"{texts.get(span.doc_id, '')}\n{span.text}"
    best: list[tuple[tuple[int, int], _Row, int | None]] = []
    for row in (row for number, span in enumerate(spans, 1) for row in _read_rows(number, span)):
        cells = "\n".join(
            f"{column} {_name_column(column)}\n{value}" for column, value, _ in row.cells
        )
        if not all(holds(cells, key) for key in demanded):
            continue
        near = "\n".join([contexts[row.number - 1], texts[spans[row.number - 1].doc_id], cells])
        if not all(holds(near, key) for key in keys):
            continue
        values = [_spell_out(value, spelled) for _, value, _ in row.cells]
        named = {
            cell for cell, value in enumerate(values) if _is_named(question, value, question_words)
        }
        # A number names one cell: in "how many days to zone 2?", not that with 2 days.
        named -= {
            cell
            for cell in named
            if values[cell].isdigit() and len(named) > 1 and min(named) < cell
        }
        if not named:
            continue
        if all(
            _QUANTITY.fullmatch(values[cell]) for cell in named
        ):  # the row needs the words beside it: "5 kg of yeast"
            known = around[row.number - 1] | hash_singles(f"{cells} {_NO_SUBJECT}")
            if any(ids and not ids & known for _, ids in terms):
                continue
        words = set().union(*(hash_singles(values[cell]) for cell in named))
        weight = len(words & question_words), len(around[row.number - 1] & question_words)
        column = _find_column(question, terms, row, named, words, around[row.number - 1])
        best.append((weight, row, column))
    top = max((weight for weight, _, _ in best), default=None)
    rows = [(row, cell) for weight, row, cell in best if weight == top]
    if not rows or any(cell is None for _, cell in rows):
        return None
    if len({row.cells[cell or 0][1].casefold() for row, cell in rows}) != 1:
        return None
    row, cell = rows[0]
    return _to_cell(row, cell or 0, spans[row.number - 1])


def lacks_value(question: str, citation: Citation) -> bool:
    """Return whether a citation is a row of a table that a question names, without a value of the
    kind asked for.
    """
    words, start = (
        set().union(*(words for _, words in _read_question(question))),
        citation.start - citation.span.start,
    )
    for row in _read_rows(citation.number, citation.span):
        others = [value for _, value, _ in row.cells if not _is_named(question, value, words)]
        if row.start <= start < row.end and 0 < len(others) < len(row.cells):
            return all(
                fit_type(question, each) < 0 and len(each.split()) <= ANSWERS.max_name_words
                for each in others
            )
    return False


@cache
def _read_meanings() -> dict[int, set[int]]:
    rows = (row.split(" ", 1) for row in re.split(r"[|\n]", _MEANINGS.strip()))
    return {
        word: hash_singles(meanings) for plain, meanings in rows for word in hash_singles(plain)
    }


def _read_question(question: str) -> list[tuple[str, set[int]]]:
    """The words of a question in order, each with the hashes of itself and its synonyms; none for a
    stop word.
    """
    words = split_words(re.sub(r"\be-mail\b", "email", question, flags=re.IGNORECASE))
    content, meanings = set(drop_stop_words(words)), _read_meanings()
    hashed = [(word, hash_singles(word) if word in content else set()) for word in words]
    return [(word, ids.union(*(meanings.get(each, ()) for each in ids))) for word, ids in hashed]


def _spell_out(text: str, words: Sequence[str]) -> str:
    """A text with its abbreviations (``Max.``) replaced by the words that begin with them."""
    return _ABBREVIATION.sub(
        lambda match: next((word for word in words if word.startswith(match[1].lower())), match[0]),
        text,
    )


def _is_named(question: str, value: str, question_words: set[int]) -> bool:
    """Whether a question names a cell: all of its words, and codes as they are written."""
    value = _REMARK.sub("", value)  # zone 2 is "2 (county)"
    if not drop_stop_words(split_words(value)) or len(value) > 80:
        return False
    codes = find_exact_words(value)
    if codes or value.strip().isdigit():
        return holds(question, value.strip()) or any(holds(question, code) for code in codes)
    return hash_singles(value) <= question_words


def _find_column(
    question: str,
    terms: list[tuple[str, set[int]]],
    row: _Row,
    named: set[int],
    row_words: set[int],
    around: set[int],
) -> int | None:
    """The one column that a question asks for, beside those whose cells it names.

    A header that is a function word (``For`` and ``Against``) is asked for by this word where no
    other header is. ``row_words`` are those of the named cells, and ``around`` those of the row's
    document, headings and header.
    """
    columns = [
        _spell_out(_name_column(column), [word for word, _ in terms]) for column, _, _ in row.cells
    ]
    others = [cell for cell, (_, value, _) in enumerate(row.cells) if cell not in named and value]
    others = [cell for cell in others if fit_type(question, row.cells[cell][1]) >= 0]
    # 1. By name: with the most words of the question, then the fewest others.
    headers = {cell: words for cell in others if (words := hash_singles(columns[cell]))}
    free = set().union(*(words for _, words in terms if not words & row_words))
    scores = {
        cell: (len(words & free), len(words & free) / len(words)) for cell, words in headers.items()
    }
    top = max(scores.values(), default=(0, 0.0))
    if top[0]:
        meant = [cell for cell, score in scores.items() if score == top]
        words = headers[meant[0]]
        last = hash_singles(drop_stop_words(split_words(columns[meant[0]]))[-1])
        is_other = top[1] < 1 and not last & free and not _is_kind(question, columns[meant[0]])
        is_qualified = asks_in_english(question) and any(
            before
            and not before & (words | row_words | around | hash_singles(LIGHT))
            and word & words & free
            for (_, before), (_, word) in pairwise(terms)
        )
        return meant[0] if len(meant) == 1 and not is_other and not is_qualified else None
    # 2. By kind, of the header or of the only value of this type; in a table of two columns the
    # question must have no other words than the row and its kind.
    spelled = {word for word, _ in terms}
    plain = [cell for cell in others if cell not in headers and split_words(columns[cell])]
    meant = [cell for cell in plain if {*split_words(columns[cell])} <= spelled]
    meant = meant or [cell for cell in others if _is_kind(question, columns[cell])]
    if len(row.cells) > 2 and not meant:
        meant = [cell for cell in others if fit_type(question, row.cells[cell][1]) > 0]
    if len(row.cells) > 2 or (meant and meant[0] not in headers):
        return meant[0] if len(meant) == 1 else None
    known = row_words | around | hash_singles(_NO_SUBJECT)
    if not others or any(words and not words & known for _, words in terms):
        return None
    # 3. The value of a property.
    (other,) = others
    is_value = hash_singles(columns[other]) <= hash_singles(_VALUES) or not is_header(
        ["", columns[other]]
    )
    return (
        other
        if meant or is_value or hash_singles(columns[1 - other]) & hash_singles(_PROPERTIES)
        else None
    )


def _name_column(column: str) -> str:
    """The name of a column: ``fee`` for ``boats.k1.fee``, ``unit price`` for ``unitPrice [EUR]``,
    with whole years.
    """
    name = re.sub(r"\A\S+\.(?=\w)|(?:(?<!\s)\s+)?[(\[].*", "", column) or column
    name = _YEAR.sub(lambda match: f"{match[1]}{20 if match[2] < '50' else 19}{match[2]}", name)
    return re.sub(
        r"(?<=[a-z])(?=[A-Z])|[_/]", " ", re.sub(r"\be-mail\b", "email", name, flags=re.IGNORECASE)
    )


def _is_kind(question: str, column: str) -> bool:
    """Whether a question asks for the kind of a column's values without naming the column."""
    lowered, words = f" {' '.join(question.lower().split())} ", set(split_words(column))
    return any(
        f" {phrase} " in lowered.replace("?", " ") and words & set(names)
        for phrase, names in _ASKED.items()
    )


def _read_rows(number: int, span: Span) -> Iterator[_Row]:
    """The rows of the tables in a span.

    The first row of a table is its header, but for a number in its second of two columns; in one
    with tabs, any row without numbers but years, whose columns are those to the right.
    """
    header = [value for value, _ in split_row(span.header, 0)] if is_row(span.header) else []
    line_of_header = span.header
    for line in _LINE.finditer(span.text):
        text = line[0]
        if is_row(text):
            cells = split_row(text, line.start())
            values = [value for value, _ in cells]
            if is_rule(text):
                header, line_of_header = (
                    (header, line_of_header) if any(values) or header else (values, "")
                )
                continue
            if not header and len(values) == 2 and not is_header(values):
                header, line_of_header = ["", ""], ""
            if is_header(values) if is_tabbed(text) else not header:
                header, line_of_header = values, text
                continue
            names = ["", *header] if is_tabbed(text) and len(cells) == len(header) + 1 else header
            if len(cells) == len(names):
                named = [
                    (column, value, start)
                    for column, (value, start) in zip(names, cells, strict=True)
                ]
                yield _Row(number, *line.span(), named, line_of_header)
        elif is_record(text):
            yield _Row(number, *line.span(), list(read_record(text, line.start())))
            header = []
        elif not is_rule(text):
            header = []


def _to_cell(row: _Row, cell: int, span: Span) -> Cell | None:
    _, value, start = row.cells[cell]
    if not value or len(value) > ANSWERS.max_cell_chars or value.endswith(NOT_COMPUTED):
        return None
    text = span.text[row.start : row.end]
    begin = span.start + row.start + len(text) - len(text.lstrip())
    citation = Citation(row.number, span, text.strip(), begin, begin + len(text.strip()))
    short = ShortAnswer(row.number, value, span.start + start, span.start + start + len(value))
    return Cell(short, citation, row.header.strip(" \r\n"))
