"""``lmkrag grep``: search a folder by meaning, without indexing it first."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
from pathspec import GitIgnoreSpec

from lmkrag.cli.index import glob_options
from lmkrag.cli.output import json_option, one_line, print_json
from lmkrag.errors import UsageError
from lmkrag.results import Span
from lmkrag.system import printable

_LONGEST_LINE = 500  # characters that are printed
_DEFINES = re.compile(
    r"\s*(?:(?:export|pub|public|static|async|abstract) )*(?:def|class|fn|func|function|struct|interface)\b"
)
_MOST_LINES = 3  # of a result
_CANDIDATES = 200  # passages that a pattern is looked for in


class Match(NamedTuple):
    """Lines of a file: its path as printed, all of its lines, and the numbers, from 1, of those that match."""

    path: str
    lines: list[str]
    first: int
    last: int
    span: Span


@click.command(epilog="Example: lmkrag grep 'where is the session token checked' src/")
@click.argument("meaning")
@click.argument("path", default=".", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-k", "--top", type=click.IntRange(1, 1_000), default=10, show_default=True, help="Maximum number of results."
)
@click.option(
    "-n", "--line-number", is_flag=True, help="Accepted for compatibility with grep: lines are always numbered."
)
@click.option("-l", "--files-with-matches", "only_files", is_flag=True, help="Print only the names of files.")
@click.option("-c", "--count", "only_counts", is_flag=True, help="Print the number of results per file.")
@click.option("-A", "after", type=click.IntRange(0), metavar="N", help="Print N lines after each result.")
@click.option("-B", "before", type=click.IntRange(0), metavar="N", help="Print N lines before each result.")
@click.option("-C", "around", type=click.IntRange(0), default=0, metavar="N", help="Print N lines around each result.")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore letter case in --regex.")
@click.option("--regex", metavar="PATTERN", help="Only lines of the passages found that match.")
@glob_options
@json_option
def grep(
    meaning: str,
    path: Path,
    top: int,
    line_number: bool,
    only_files: bool,
    only_counts: bool,
    after: int | None,
    before: int | None,
    around: int,
    ignore_case: bool,
    regex: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    as_json: bool,
) -> None:
    """Search a folder by meaning, as grep does by pattern.

    Nothing has to be indexed first: the most promising files are encoded at once, the rest in the background, into an
    index in the user's cache directory. Prints FILE:LINE:TEXT; exits with 1 where
    nothing or only weak results were found.
    """
    umask = os.umask(0o077)  # only the user may read the cache
    click.get_current_context().call_on_close(lambda: os.umask(umask))
    pattern = _compile(regex, ignore_case=ignore_case)
    folder = path if path.is_dir() else path.parent
    spans = _search(meaning, path, folder, _CANDIDATES if pattern else top, include, exclude)
    matches = list(_find_lines(spans, meaning, pattern))[:top]
    if as_json:
        print_json({"query": meaning, "matches": [_to_json(match) for match in matches]})
    elif only_files:
        for name in dict.fromkeys(match.path for match in matches):
            click.echo(one_line(name))
    elif only_counts:
        names = [match.path for match in matches]
        for name in dict.fromkeys(names):
            click.echo(f"{one_line(name)}:{names.count(name)}")
    else:
        separated = pattern is None or bool(before or after or around)
        _print(matches, around if before is None else before, around if after is None else after, separated=separated)
    if all(match.span.weak for match in matches):
        sys.exit(1)


def _compile(regex: str | None, *, ignore_case: bool) -> re.Pattern[str] | None:
    try:
        return None if regex is None else re.compile(regex, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise UsageError(f"--regex {regex!r}: {error}") from None


def _search(
    meaning: str, path: Path, folder: Path, top: int, include: tuple[str, ...], exclude: tuple[str, ...]
) -> list[Span]:
    """Search the folder's index in the cache."""
    from lmkrag.ingest.folder_cache import cached_index, use_cached

    index = cached_index([folder])
    return use_cached(index, lambda: _search_index(index, meaning, path, folder, top, include, exclude))


def _search_index(
    index: Path, meaning: str, path: Path, folder: Path, top: int, include: tuple[str, ...], exclude: tuple[str, ...]
) -> list[Span]:
    """Bring an index up to date as far as that is quick, and search it."""
    from lmkrag.engine import Engine
    from lmkrag.index.store import IndexStore
    from lmkrag.ingest.folder_cache import adopt_worktree, catch_up, index_in_background
    from lmkrag.ingest.ingest import encode_files
    from lmkrag.ingest.opening import open_index
    from lmkrag.search.filters import PredicateFilter

    if not IndexStore.exists(index):
        adopt_worktree(folder, index)
    taken, left_out = GitIgnoreSpec.from_lines(include or ["*"]), GitIgnoreSpec.from_lines(exclude)
    only_file = printable(str(path.resolve())) if path.is_file() else None

    def matches(fields: Mapping[str, Any]) -> bool:
        inside = taken.match_file(fields["doc_id"]) and not left_out.match_file(fields["doc_id"])
        return inside and (only_file is None or only_file in fields["path"])

    store, loaded = open_index(index, create=True)
    with Engine(store, loaded) as engine:
        remaining, unindexed = catch_up(
            store, lambda: engine.encoders.encoder_of(store.encoder), folder, meaning, include=include, exclude=exclude
        )
        options: dict[str, Any] = {"top_k": top}
        if only_file or include or exclude:
            options["filter"] = PredicateFilter(f"{only_file} {include} {exclude}", matches)
        spans = engine.search(meaning, **options)
        if unindexed:
            with tempfile.TemporaryDirectory() as scratch:
                temporary, _ = open_index(f"{scratch}/index", create=True, encoder=engine.encoders.encoder)
                with Engine(temporary, engine.encoders.encoder) as scratch_engine:
                    encode_files(temporary, lambda: engine.encoders.encoder_of(store.encoder), unindexed)
                    spans += scratch_engine.search(meaning, **options)
            spans = sorted(spans, key=lambda span: -span.score)[:top]
    if remaining:
        if not unindexed:  # else another process indexes them
            index_in_background(folder, index, include, exclude)
        message = (
            "these results are from a part of the folder: the other files are being indexed; run it again for more"
        )
        click.echo(f"lmkrag: {message}", err=True)
    return spans


def _find_lines(spans: list[Span], meaning: str, pattern: re.Pattern[str] | None) -> Iterator[Match]:
    """The lines of what was found: the best ones of each passage's best sentence, or those that match a pattern."""
    from lmkrag.ingest.folder_cache import find_stems

    words = find_stems(meaning)
    texts: dict[str, list[str]] = {}
    for span in spans:
        if span.line is None:
            continue
        path = min(span.path, os.path.relpath(span.path), key=len)
        if span.path not in texts:
            try:
                texts[span.path] = Path(span.path).read_text("utf-8", "replace").splitlines()
            except OSError:
                continue  # it was removed meanwhile
        lines = texts[span.path]
        if pattern is None:
            best = span.hits[0] if span.hits else span
            first = span.line + span.text.count("\n", 0, max(0, best.start - span.start))
            inside = span.text[max(0, best.start - span.start) : best.end - span.start].rstrip()
            last = min(len(lines), first + inside.count("\n"))
            first = max(range(first, last + 1), key=lambda number: _weigh(lines[number - 1], words), default=first)
            yield Match(path, lines, first, min(last, first + _MOST_LINES - 1), span)
            continue
        for number in range(span.line, min(len(lines), span.last_line or span.line) + 1):
            if pattern.search(lines[number - 1]):
                yield Match(path, lines, number, number, span)


def _weigh(line: str, words: list[str]) -> float:
    """How many words of the question a line has; what is defined there counts, too, and a blank line says nothing."""
    lowered = line.lower()
    defines = 0.5 * bool(_DEFINES.match(line))
    return sum(word in lowered for word in words) + defines if line.strip() else -1


def _find_definition(match: Match) -> list[int]:
    """The number of the line that names the function or class around a match, if it is not in the match itself."""
    indent = _indent(match.lines[match.first - 1])
    if indent and not _DEFINES.match(match.lines[match.first - 1]):
        for number in range(match.first - 1, 0, -1):
            line = match.lines[number - 1]
            if _DEFINES.match(line) and _indent(line) < indent:
                return [number]
    return []


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _print(matches: list[Match], before: int, after: int, *, separated: bool) -> None:
    """Print lines as grep does; on a terminal below the names of their files, and coloured."""
    shown = ""
    for position, match in enumerate(matches):
        if position and separated:
            click.echo("--")
        if sys.stdout.isatty() and match.path != shown:
            click.echo(("\n" if shown else "") + click.style(one_line(match.path), fg="magenta", bold=True))
            shown = match.path
        around = range(max(1, match.first - before), min(len(match.lines), match.last + after) + 1)
        definition = _find_definition(match) if separated else []
        for number in [*(line for line in definition if line not in around), *around]:
            text = one_line(match.lines[number - 1].expandtabs())[:_LONGEST_LINE]
            inside = match.first <= number <= match.last or number in definition
            if sys.stdout.isatty():
                click.echo(f"{click.style(str(number), fg='green')}{':' if inside else '-'} {text}")
            else:
                mark = ":" if inside else "-"
                click.echo(f"{one_line(match.path)}{mark}{number}{mark}{text}")


def _to_json(match: Match) -> dict[str, object]:
    span = match.span
    return {
        "path": match.path,
        "line": match.first,
        "last_line": match.last,
        "lines": match.lines[match.first - 1 : match.last],
        "passage": {"text": span.text, "line": span.line, "last_line": span.last_line, "section": span.section},
        "score": span.score,
    }
