"""``lmkrag grep``: search a folder by meaning, without indexing it first."""

import gc
import os
import re
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmkrag.cli.index import glob_options
from lmkrag.cli.output import json_option, one_line, print_json
from lmkrag.errors import UsageError
from lmkrag.results import Span
from lmkrag.system.files import printable

if TYPE_CHECKING:
    from lmkrag.search.line_matches import LineMatch

_LONGEST_LINE = 500  # characters printed of a line
_CANDIDATES = 200  # passages that are searched for a pattern


@click.command(epilog="Example: lmkrag grep 'where is the session token checked' src/")
@click.argument("meaning")
@click.argument("path", default=".", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-k",
    "--top",
    type=click.IntRange(1, 1_000),
    default=10,
    show_default=True,
    help="Maximum number of results.",
)
@click.option(
    "-n",
    "--line-number",
    is_flag=True,
    help="Accepted for compatibility with grep: lines are always numbered.",
)
@click.option(
    "-l", "--files-with-matches", "only_files", is_flag=True, help="Print only the names of files."
)
@click.option(
    "-c", "--count", "only_counts", is_flag=True, help="Print the number of results per file."
)
@click.option(
    "-A", "after", type=click.IntRange(0), metavar="N", help="Print N lines after each result."
)
@click.option(
    "-B", "before", type=click.IntRange(0), metavar="N", help="Print N lines before each result."
)
@click.option(
    "-C",
    "around",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Print N lines around each result.",
)
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore letter case in --regex.")
@click.option("--regex", metavar="PATTERN", help="Only print lines of the results that match.")
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

    Nothing has to be indexed first: the most promising files are encoded at once, the rest in the
    background, into an index in the user's cache directory. Prints FILE:LINE:TEXT, with the page,
    row or paragraph where a file has no lines; exits with 1 where nothing or only weak results were
    found.
    """
    from lmkrag.search.line_matches import find_lines

    umask = os.umask(0o077)  # only the user may read the cache
    click.get_current_context().call_on_close(lambda: os.umask(umask))
    gc.disable()  # during imports it takes 50 ms and frees nothing
    click.get_current_context().call_on_close(gc.enable)
    pattern = _compile(regex, ignore_case=ignore_case)
    spans, notes = _search(
        meaning,
        path,
        _CANDIDATES if pattern else top,
        include,
        exclude,
        everything=pattern is not None,
    )
    matches = list(islice(find_lines(spans, meaning, pattern), top))
    counts: Counter[str] = Counter()
    for match in matches:
        counts[match.path] += 1 + len(match.span.more)
    if as_json:
        records = [_to_json(match) for match in matches]
        print_json({"query": meaning, "matches": records, "notes": notes})
    elif only_files or only_counts:
        for name, count in counts.items():
            click.echo(one_line(name if only_files else f"{name}:{count}"))
    else:
        separated = pattern is None or bool(before or after or around)
        _print(
            matches,
            around if before is None else before,
            around if after is None else after,
            separated=separated,
        )
    if all(match.span.weak for match in matches):
        sys.exit(1)


def _compile(regex: str | None, *, ignore_case: bool) -> re.Pattern[str] | None:
    try:
        return None if regex is None else re.compile(regex, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise UsageError(f"--regex {regex!r}: {error}") from None


def _search(
    meaning: str,
    path: Path,
    top: int,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    *,
    everything: bool,
) -> tuple[list[Span], list[str]]:
    """Search the folder's index in the cache, and say what part of the folder that is.

    ``everything``: all results of a file, not its best one alone.
    """
    from lmkrag.engine import Engine
    from lmkrag.ingest.folder_cache import OpenFolder, cached_index, use_cached
    from lmkrag.search.filters import filter_files
    from lmkrag.search.request import SearchOptions

    folder = path if path.is_dir() else path.parent
    only_file = printable(str(path.resolve())) if path.is_file() else ""
    chosen = filter_files(include=include, exclude=exclude, path=only_file)
    index = cached_index([folder])

    def search(opened: OpenFolder) -> tuple[list[Span], list[str]]:
        with opened:
            engines = [Engine(store, encoder) for store, encoder in opened.indexes]
            for engine in engines:
                engine.encoders.asks_once = True
            options: SearchOptions = {
                "top_k": top,
                "filter": chosen,
                "per_document": top if everything else None,
            }
            spans = [span for engine in engines for span in engine.search(meaning, **options)]
        notes = [opened.note] if opened.note else []
        return sorted(spans, key=lambda span: -span.score)[:top], notes

    def tell(note: str) -> None:
        click.echo(f"lmkrag: {note}", err=True)

    return use_cached(
        index, lambda: OpenFolder(index, path, meaning, include, exclude, tell), search
    )


def _print(matches: "list[LineMatch]", before: int, after: int, *, separated: bool) -> None:
    """Print lines as grep does; on a terminal in colour, grouped under the names of their files."""
    from lmkrag.cli.printing import print_hanging, print_path

    shown = ""
    for match in matches:
        if sys.stdout.isatty() and match.path != shown:
            click.echo("\n" if shown else "", nl=False)
            print_path(match.path)
        elif shown and separated:
            click.echo("--")
        shown = match.path
        around = range(max(1, match.first - before), min(len(match.lines), match.last + after) + 1)
        above = [match.definition] if separated and match.definition not in (None, *around) else []
        for number in [*above, *around]:
            text = one_line(match.lines[number - 1].expandtabs())[:_LONGEST_LINE]
            inside = match.first <= number <= match.last or number == match.definition
            mark = ":" if inside else "-"
            if sys.stdout.isatty():
                place = f"{match.locate(number)}{mark} "
                print_hanging(text, len(place), place)
            else:
                click.echo(f"{one_line(match.path)}{mark}{match.locate(number)}{mark}{text}")
        if separated and match.span.more:
            print_hanging(one_line(match.span.more_places), 2)


def _to_json(match: "LineMatch") -> dict[str, object]:
    span = match.span
    return {
        "path": match.path,
        "line": match.first if match.is_numbered else None,
        "last_line": match.last if match.is_numbered else None,
        "place": match.locate(match.first),
        "lines": match.lines[match.first - 1 : match.last],
        "more": match.span.more,
        "passage": {
            "text": span.text,
            "line": span.line,
            "last_line": span.last_line,
            "section": span.section,
        },
        "score": span.score,
    }
