"""``lmkrag index``."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmkrag.cli.output import (
    Command,
    add_options,
    index_option,
    json_option,
    one_line,
    print_error,
    print_json,
    progress_bar,
)
from lmkrag.errors import LmkragError, MissingExtra, UsageError
from lmkrag.types import IndexReport

if TYPE_CHECKING:
    from lmkrag.engine import Engine
    from lmkrag.ingest.report import Progress

_PAUSE = 1_000  # milliseconds in which changes are gathered
_LISTED = 20  # skipped files shown one by one; more are counted by reason
_TOLD = 60.0  # seconds between two lines of progress where there is no terminal


glob_options = add_options(
    click.option("--include", multiple=True, metavar="GLOB", help="Only index files that match; repeatable."),
    click.option("--exclude", multiple=True, metavar="GLOB", help="Skip files that match; repeatable."),
)


def model_options(command: Command, *, existing: bool) -> Command:
    """Add ``--recipe`` and ``--encoder``, which an ``existing`` index has recorded."""
    note = "; new indexes only" if existing else ""
    return add_options(
        click.option("--recipe", metavar="NAME|FILE", help=f"How vectors are stored{note}."),
        click.option("--encoder", metavar="NAME|DIR", envvar="LMKRAG_ENCODER", help=f"The model{note}."),
    )(command)


worker_options = add_options(
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        envvar="LMKRAG_WORKERS",
        help="Number of processes that parse and encode; they share the cores.",
    ),
    click.option(
        "--ray", metavar="ADDRESS|local", help="A Ray cluster for the workers; all machines must see the same paths."
    ),
    click.option(
        "--gpus", type=click.FloatRange(0), default=0.0, metavar="SHARE", help="Share of a GPU per worker on Ray."
    ),
)


@click.command(epilog="Example: lmkrag index docs/ notes.pdf --exclude 'drafts/' --index indexes/handbook")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@partial(index_option, existing=False)
@partial(model_options, existing=True)
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    metavar="N",
    help="Divide the documents among N indexes that are searched as one; new indexes only.",
)
@glob_options
@worker_options
@click.option("--follow-links", is_flag=True, help="Also follow links to files outside the directories.")
@click.option("--prune", is_flag=True, help="Remove documents whose files are gone from the directories given.")
@click.option(
    "--watch",
    is_flag=True,
    help="Keep following changes until Ctrl-C; implies --prune. With --json, each batch and each run prints a line.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 when a file was skipped.")
@json_option
def index(
    paths: tuple[str, ...],
    index_path: str,
    recipe: str | None,
    encoder: str | None,
    shards: int | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    workers: int,
    ray: str | None,
    gpus: float,
    follow_links: bool,
    prune: bool,
    watch: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Add files and directories to an index.

    Unchanged files are skipped. A PATH may also be a website (https://host/docs/), a git repository
    (git+https://host/project@v2), a zip or tar archive, or object storage (s3://bucket/docs).
    """
    from lmkrag.corpus.remote_files import localize
    from lmkrag.engine import Engine

    check_paths(paths)
    for path in paths if watch else ():
        if not Path(path).is_dir():
            raise UsageError(f"{path}: not a directory; --watch follows directories")
    opening: dict[str, Any] = {"recipe": recipe, "encoder": encoder, "shards": shards}
    local, left_out = localize(paths, include=include, exclude=exclude)
    if encoder is None:
        opening["encoder"] = choose_encoder(local, Path(index_path), include=include, exclude=exclude)
    adding: dict[str, Any] = {"include": include, "exclude": exclude, "workers": workers, "ray": ray, "gpus": gpus}
    adding["follow_links"] = follow_links
    if watch:
        with Engine.open(index_path, create=True, **opening) as engine:
            _follow(engine, paths, {**adding, "prune": True}, as_json=as_json)
        return
    with Engine.open(index_path, create=True, **opening) as engine, following_progress() as progress, keeping_output():
        report = engine.add(local, progress=progress, prune=prune, **adding)
    report = replace(report, skipped=(*left_out, *report.skipped))
    finish(report, index_path, strict=strict, as_json=as_json)


def choose_encoder(
    paths: Sequence[Path], index: Path, *, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> str | None:
    """Return the encoder of a new index, by the languages of its files, and say so; None for the default one."""
    from lmkrag.index.opening import index_exists
    from lmkrag.ingest.languages import choose_encoder as choose

    chosen = None if index_exists(index) else choose(paths, include=include, exclude=exclude)
    if chosen is not None:
        click.echo(f"not all in English: encoder {chosen}", err=True)
    return chosen


def _follow(engine: "Engine", paths: tuple[str, ...], options: dict[str, Any], *, as_json: bool) -> None:
    """Index directories, and again whenever something in them changes."""
    try:
        import watchfiles
    except ImportError:
        raise MissingExtra("watch", "watchfiles") from None
    index = Path(engine.status().path).resolve()
    own = (str(index), str(index.with_name(f".{index.name}.")))  # and what jobs and uploads put beside it

    class Source(watchfiles.DefaultFilter):
        """Leaves out what indexing itself writes, where the index lies in a directory that is followed."""

        def __call__(self, change: watchfiles.Change, path: str) -> bool:
            return super().__call__(change, path) and not str(Path(path).resolve()).startswith(own)

    seen = watchfiles.watch(*paths, watch_filter=Source(), yield_on_timeout=True, rust_timeout=_PAUSE)
    try:
        for number, changes in enumerate(seen):
            if changes or number == 0:  # the first turn comes once changes are watched for
                try:
                    report = engine.add(list(paths), progress=_print_progress if as_json else None, **options)
                    finish(report, str(index), strict=False, as_json=as_json)
                except LmkragError as error:  # such as another writer: the next change tries again
                    print_error(error)
                    if as_json:
                        print_json({"error": str(error)})
    except KeyboardInterrupt:
        sys.exit(130)


def _print_progress(name: str, done: int, total: int) -> None:
    print_json({"file": one_line(name), "done": done, "total": total})


@contextmanager
def keeping_output() -> Iterator[None]:
    """Send what libraries print to standard error: Ray says there which of its processes died."""
    with redirect_stdout(sys.stderr):
        yield


def check_paths(paths: tuple[str, ...]) -> None:
    """Refuse local paths that do not exist, before anything is loaded."""
    from lmkrag.corpus.remote_files import is_url

    for path in paths:
        if not is_url(path) and not Path(path).exists():
            raise UsageError(f"{path}: no such file or directory")


def finish(report: IndexReport, index_path: str, *, strict: bool, as_json: bool) -> None:
    """Print what a run did; exit with 1 if a file was skipped that must not be."""
    if as_json:
        print_json(asdict(report))
    explain_report(report, index_path)
    if strict and report.skipped:
        sys.exit(1)


@contextmanager
def following_progress() -> "Iterator[Progress]":
    """Show on a terminal how far encoding is; an interruption says how to go on, and exits."""
    from rich.progress import DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

    with progress_bar(DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("looking for changes", total=None)
        reported = time.monotonic()

        def progress(name: str, done: int, total: int) -> None:
            nonlocal reported
            if bar.disable and time.monotonic() - reported >= _TOLD:
                reported = time.monotonic()
                share = f"{done / total:.0%}" if total else f"{done / 1e6:,.1f} MB"
                click.echo(f"{share} indexed, now {one_line(name)}", err=True)
            bar.update(task, description=one_line(name)[-30:], completed=done, total=total or None)

        try:
            yield progress
        except KeyboardInterrupt:
            bar.stop()
            click.echo(
                "lmkrag: interrupted; documents that were whole are indexed, run the same again to go on", err=True
            )
            sys.exit(130)


def explain_report(report: IndexReport, index_path: str) -> None:
    """Say what a run did, and what it left out."""
    if len(report.skipped) <= _LISTED:
        for skipped in report.skipped:
            click.echo(f"skipped {one_line(skipped.path)}: {one_line(skipped.reason)}", err=True)
    else:
        reasons = Counter(skipped.reason.split(": ")[0] for skipped in report.skipped)
        counted = "; ".join(f"{number} {one_line(reason)}" for reason, number in reasons.most_common())
        click.echo(f"skipped {len(report.skipped)} files: {counted} (-v or --json lists them)", err=True)
    counts = [
        f"{number} {name}"
        for number, name in (
            (report.added, "added"),
            (report.updated, "updated"),
            (report.unchanged, "unchanged"),
            (report.removed, "removed"),
            (len(report.skipped), "skipped"),
        )
        if number
    ]
    rate = f", {report.characters / max(report.seconds, 1e-9):,.0f} characters a second" if report.characters else ""
    found = ", ".join(counts) or "nothing to index"
    click.echo(f"{index_path}: {found}; {report.sentences:,} sentences in {report.seconds:.1f} s{rate}", err=True)
