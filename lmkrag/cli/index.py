"""``lmkrag index``."""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmkrag.cli import output
from lmkrag.errors import FilesGone, LmkragError, UsageError, needs
from lmkrag.index.location import is_address, locate_index
from lmkrag.types import IndexReport

if TYPE_CHECKING:
    from lmkrag.engine import Engine
    from lmkrag.ingest.report import Progress
    from lmkrag.ingest.sources import Prune

_PRUNE_ALL = "--prune-all"  # what --prune=all is parsed as
_PAUSE = 1_000  # milliseconds after which a failed run is retried without a change
_LISTED = 20  # skipped files shown one by one; more are counted by reason
_INTERVAL = 60.0  # seconds between two lines of progress where there is no terminal


glob_options = output.add_options(
    click.option(
        "--include", multiple=True, metavar="GLOB", help="Only index files that match; repeatable."
    ),
    click.option(
        "--exclude", multiple=True, metavar="GLOB", help="Skip files that match; repeatable."
    ),
)


def model_options(command: output.Command, *, existing: bool) -> output.Command:
    """Add ``--recipe`` and ``--encoder``, which an ``existing`` index has recorded."""
    note = "; new indexes only" if existing else ""
    return output.add_options(
        click.option(
            "--recipe",
            type=click.Path(),
            metavar="NAME|FILE",
            help=f"How vectors are stored{note}.",
        ),
        click.option(
            "--encoder",
            type=click.Path(),
            metavar="NAME|DIR",
            envvar="LMKRAG_ENCODER",
            help=f"The model{note}.",
        ),
    )(command)


class _IndexCommand(click.Command):
    """Takes ``--prune=all``, although ``--prune`` takes no value: what follows it is a path."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(
            ctx, [_PRUNE_ALL if argument == "--prune=all" else argument for argument in args]
        )


@click.command(
    cls=_IndexCommand,
    epilog="Example: lmkrag index docs/ notes.pdf --exclude 'drafts/' --index indexes/handbook",
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="PATH...")
@partial(output.index_option, existing=False)
@partial(model_options, existing=True)
@glob_options
@click.option(
    "--ray",
    metavar="ADDRESS|local",
    help="Encode on the machines of a Ray cluster, which all see the same paths.",
)
@click.option(
    "--follow-links", is_flag=True, help="Also follow links to files outside the directories."
)
@click.option(
    "--generated",
    is_flag=True,
    help="Also index files that programs wrote, such as lock files, minified code and builds.",
)
@click.option(
    "--prune",
    flag_value="yes",
    help="Remove documents whose files are gone from the directories given; --prune=all also where "
    "all files of a "
    "directory are gone.",
)
@click.option(_PRUNE_ALL, "prune", flag_value="all", hidden=True)
@click.option(
    "--watch",
    is_flag=True,
    help=(
        "Keep following changes until Ctrl-C; implies --prune. With --json, each batch and "
        "each run prints a line."
    ),
)
@click.option("--strict", is_flag=True, help="Exit with 1 when a file was skipped.")
@output.json_option
def index(
    paths: tuple[str, ...],
    index_path: str,
    recipe: str | None,
    encoder: str | None,
    prune: str | None,
    watch: bool,
    strict: bool,
    as_json: bool,
    **adding: Any,
) -> None:
    """Add files and directories to an index.

    Unchanged files are skipped.
    """
    from lmkrag.engine import Engine
    from lmkrag.ingest.walk import check_source

    sources = [check_source(path) for path in paths]  # raises before anything is loaded
    for path in sources:
        if watch and not path.is_dir():
            raise UsageError(f"{path}: not a directory; --watch follows directories")
    is_new = not (is_address(index_path) or Path(index_path).exists())
    output.tell_leftovers(index_path, writes=True)
    with Engine.open(index_path, create=True, recipe=recipe, encoder=encoder) as engine:
        if watch:
            # An unmounted disk must not empty the index while nobody looks.
            _follow(
                engine,
                sources,
                {**adding, "prune": prune if prune == "all" else "some"},
                as_json=as_json,
            )
            return
        try:
            report = _add(engine, sources, "all" if prune == "all" else prune is not None, adding)
        except FilesGone as error:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise
            output.print_error(error)
            click.confirm("Remove them?", abort=True, err=True)
            report = _add(engine, sources, "all", adding)
        is_empty = is_new and not (engine.status().documents or report.skipped)
    if is_empty:
        shutil.rmtree(index_path)
    finish(report, index_path, strict=strict, as_json=as_json)


def _add(
    engine: "Engine", sources: Sequence[Path], prune: "Prune", options: dict[str, Any]
) -> IndexReport:
    # Ray prints which of its processes died.
    with following_progress() as progress, redirect_stdout(sys.stderr):
        return engine.add(sources, progress=progress, prune=prune, **options)


def _follow(
    engine: "Engine", folders: Sequence[Path], options: dict[str, Any], *, as_json: bool
) -> None:
    """Index directories, again whenever something in them changes."""
    with needs("watch", "watchfiles"):
        import watchfiles
    index = locate_index(engine.status().path)
    # What indexing writes, with uploads and jobs, may lie in such a directory.
    written = (f"{index}/", f"{index}.uploads/", str(index.with_name(f".{index.name}.")))
    is_followed = watchfiles.DefaultFilter()

    def is_outside(change: watchfiles.Change, path: str) -> bool:
        return is_followed(change, path) and not f"{Path(path).resolve()}/".startswith(written)

    turns = watchfiles.watch(
        *folders,
        watch_filter=is_outside,
        yield_on_timeout=True,
        rust_timeout=_PAUSE,
        ignore_permission_denied=True,
    )
    try:
        due, failure = True, ""  # the first turn comes once changes are watched for
        for changes in turns:
            if changes or due:
                try:
                    with following_progress(as_json=as_json) as progress:
                        report = engine.add(folders, progress=progress, **options)
                    finish(report, str(index), strict=False, as_json=as_json)
                    if due:
                        click.echo(f"following changes in {', '.join(map(str, folders))}", err=True)
                    due, failure = False, ""
                except LmkragError as error:  # such as another writer: retried in the next turn
                    due = True
                    if str(error) == failure:
                        continue
                    failure = str(error)
                    output.print_error(error)
                    if as_json:
                        output.print_json({"error": str(error)})
    except KeyboardInterrupt:
        sys.exit(130)


def finish(report: IndexReport, index_path: str, *, strict: bool, as_json: bool) -> None:
    """Print a run's counts, skipped files and warnings; if ``strict``, exit with 1 when a file was
    skipped.
    """
    if as_json:
        output.print_json(asdict(report))
    for warning in report.warnings:
        click.echo(f"lmkrag: warning: {output.one_line(warning)}", err=True)
    if len(report.skipped) <= _LISTED:
        for skipped in report.skipped:
            click.echo(output.one_line(f"skipped {skipped.path}: {skipped.reason}"), err=True)
    else:
        reasons = Counter(skipped.reason.split(": ")[0] for skipped in report.skipped)
        counted = "; ".join(
            f"{number} {output.one_line(reason)}" for reason, number in reasons.most_common()
        )
        click.echo(
            f"skipped {len(report.skipped)} files: {counted} (-v or --json lists them)", err=True
        )
    counts = {name: getattr(report, name) for name in ("added", "updated", "unchanged", "removed")}
    counts["skipped"] = len(report.skipped)
    found = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    encoded = f"{report.sentences:,} sentences in {report.seconds:.1f} s"
    if report.characters:
        rate = report.characters / max(report.seconds, 1e-9)
        encoded += f", {rate:,.0f} characters a second"
    click.echo(f"{index_path}: {found or 'nothing to index'}; {encoded}", err=True)
    if strict and report.skipped:
        sys.exit(1)


@contextmanager
def following_progress(*, as_json: bool = False) -> "Iterator[Progress]":
    """Show progress on a terminal, or also as JSON; on Ctrl-C, say how to resume and exit."""
    from lmkrag.ingest.report import show_progress

    reported = time.monotonic()
    try:
        with show_progress() as show:

            def progress(name: str, done: int, total: int) -> None:
                nonlocal reported
                if show is not None:
                    show(name, done, total)
                elif time.monotonic() - reported >= _INTERVAL:
                    reported = time.monotonic()
                    share = f"{done / total:.0%}" if total else f"{done / 1e6:,.1f} MB"
                    click.echo(f"{share} indexed, now {output.one_line(name)}", err=True)
                if as_json:
                    output.print_json({"file": output.one_line(name), "done": done, "total": total})

            yield progress
    except KeyboardInterrupt:
        click.echo(
            "lmkrag: interrupted; complete documents are indexed, run the same command to continue",
            err=True,
        )
        sys.exit(130)
