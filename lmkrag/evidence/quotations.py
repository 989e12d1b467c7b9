"""Read the quotations of an answer, of results, of their JSON, or of a text that names its
sources.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lmkrag.errors import UsageError
from lmkrag.language.terms import split_words
from lmkrag.readers.citations import place_quotations
from lmkrag.results import Answer, Span

Source = Answer | Span | Iterable[Span] | Mapping[str, Any] | str
"""An answer, spans, the JSON of ``search`` or ``ask``, or a text with quotations."""

_FEWEST_WORDS = 3  # of a quotation in a text
_NEAR = 60  # characters between a quotation and what names its source
_DEFINITION = re.compile(r"^ {0,3}\[(\^?[\w-]+)\]:?[ \t]+(.+)$", re.MULTILINE)
_REFERENCE = re.compile(
    r"\[(\^?[\w-]{1,20})\](?![(:])|\(([^()\n]+)\)|(?<=[\s>])(?:[—–]|--)[ \t]*([^\n]+)"
)
_FOOTNOTE = re.compile(r"\[\^?[\w-]{1,20}\]")
_LINK = re.compile(r"\[[^\[\]\n]*\]\(<?([^()\n>]+)>?\)|<([^<>\n]+)>|`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Quotation:
    """Quoted words: characters ``[start, end)`` of a document, which is empty where only the words
    are known.

    ``reference`` is what a text names as their source.
    """

    text: str
    doc_id: str = ""
    start: int = -1
    end: int = -1
    reference: str = ""


def read_quotations(source: Source) -> list[Quotation]:
    """Return the quotations of an answer, of spans, of the JSON of ``search`` or ``ask``, or of any
    text.

    Raises:
        UsageError: it is none of these.
    """
    if isinstance(source, Answer):
        return [
            Quotation(item.quote, item.span.doc_id, item.start, item.end)
            for item in source.citations
        ]
    if isinstance(source, Span):
        source = [source]
    if isinstance(source, Mapping):
        return _read_record(source)
    if isinstance(source, str):
        return _read_string(source)
    if isinstance(source, Iterable):
        return [Quotation(span.text, span.doc_id, span.start, span.end) for span in source]
    raise UsageError(
        "nothing is cited there: give an answer, spans, their JSON, or a text with quotations"
    )


def _read_record(record: Mapping[str, Any]) -> list[Quotation]:
    """The quotations of the JSON of ``search`` or ``ask``."""
    lists = [record[name] for name in ("citations", "spans", "passages") if name in record]
    if not lists:
        raise UsageError(
            "nothing is cited there: give the JSON of search or ask, or a text with quotations"
        )
    try:
        return [
            Quotation(item.get("quote") or item["text"], item["doc_id"], item["start"], item["end"])
            for item in next(filter(None, lists), ())
        ]
    except (KeyError, TypeError, AttributeError):
        raise UsageError("a citation has doc_id, start, end, and quote or text") from None


def _read_string(text: str) -> list[Quotation]:
    """The quotations of JSON as it is printed, or of any text: there those of some words."""
    records = _read_json(text)
    if records and all(isinstance(record, dict) for record in records):
        return [cited for record in records for cited in _read_record(record)]
    return [cited for cited in _read_text(text) if len(split_words(cited.text)) >= _FEWEST_WORDS]


def _read_json(text: str) -> list[Any]:
    """The values of JSON, or of JSON lines as ``--batch`` and ``--queries`` print them; none of
    another text.
    """
    for parts in ([text], text.splitlines()):
        try:
            values = [json.loads(part) for part in parts if part.strip()]
        except (ValueError, RecursionError):
            continue
        return (
            [{"spans": values[0]}] if len(values) == 1 and isinstance(values[0], list) else values
        )
    return []


def _read_text(text: str) -> Iterator[Quotation]:
    """The quotations of a text, each with the source named behind it: a footnote, ``[1]``,
    ``(notes.md)`` or a link.
    """
    definitions = [*_DEFINITION.finditer(text)]
    starts = [match.start() for match in definitions]
    defined = {match[1]: match for match in definitions}
    quotations = list(place_quotations(text))
    for number, (words, start, end) in enumerate(quotations, 1):
        stop = quotations[number][1] if number < len(quotations) else len(text)
        above = bisect_right(starts, start) - 1
        around = definitions[above] if above >= 0 and start < definitions[above].end() else None
        mark = _find_footnotes(words)
        words = words.removesuffix(mark)
        named = _REFERENCE.search(text, max(start, end - 1 - len(mark)), min(stop, end + _NEAR))
        reference = around[2] if around is not None else ""
        if around is None and named is not None:
            label = defined.get(named[1] or "")
            reference = label[2] if label is not None else named[2] or named[3] or ""
        link = _LINK.search(reference)
        yield Quotation(words, reference=next(filter(None, link.groups())) if link else reference)


def _find_footnotes(words: str) -> str:
    """The marks of footnotes at the end of a block quotation."""
    start = len(words)
    while (opening := words.rfind("[", 0, start)) >= 0 and _FOOTNOTE.fullmatch(
        words, opening, start
    ):
        start = opening
    return words[start:]
