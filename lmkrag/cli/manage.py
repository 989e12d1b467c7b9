"""``lmkrag list``, ``show``, ``status``, ``remove``, ``verify``, ``check`` and ``backup``."""

import logging
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click

from lmkrag.cli import output
from lmkrag.engine import Engine
from lmkrag.errors import REPAIR, LmkragError, UsageError
from lmkrag.index.location import is_address
from lmkrag.search.filters import explain_filter
from lmkrag.serialization import to_json
from lmkrag.types import Document, DocumentInfo

_PAGE = 1_000  # documents in memory while all are listed
_LONGEST_QUOTE = 90  # characters shown of a quotation
_COLOURS = {"same": "green", "moved": "cyan", "elsewhere": "cyan", "reworded": "yellow"}
_LEAST_SPACE = 1 << 30  # bytes
_EXTRAS = {
    "torch": "torch",
    "mcp": "mcp",
    "serve": "fastapi",
    "openai": "openai",
    "langchain": "langchain_core",
    "llamaindex": "llama_index",
    "ocr": "rapidocr",
    "eval": "ir_measures",
    "train": "accelerate",
    "watch": "watchfiles",
    "qdrant": "qdrant_client",
}
"""A package of each extra, whose presence shows that the extra is installed."""


@click.command("list", epilog="Example: lmkrag list --filter 'kind=pdf'")
@output.index_option
@output.server_option
@click.option(
    "--filter",
    "filter_expression",
    metavar="EXPR",
    help="Only list matching documents, such as 'kind=pdf and path=docs/*'.",
)
@output.json_option
def list_command(
    index_path: str, server: str | None, filter_expression: str | None, as_json: bool
) -> None:
    """List the documents of an index."""
    with output.open_engine(index_path, server) as engine:
        page = None if filter_expression else _PAGE
        documents = engine.documents(filter=filter_expression, limit=page)
        if not documents:
            _explain_filter(engine, filter_expression)
        while documents:
            for document in documents:
                if as_json:
                    output.print_json(to_json(document))
                else:
                    click.echo(output.one_line(document.doc_id) + _describe_scans(document))
            documents = engine.documents(after=documents[-1].doc_id, limit=page) if page else []


def _explain_filter(engine: Any, expression: str | None) -> None:
    """Say why a filter matches no document."""
    if expression:
        click.echo(output.one_line(explain_filter(engine.documents, expression)), err=True)


def _describe_scans(document: DocumentInfo) -> str:
    """How many scanned pages of a document were read by OCR, with its confidence, or not read;
    empty if it has none.
    """
    pages = len(document.meta.get("scanned_pages", ()))
    if not pages:
        return ""
    counted = output.count_noun(pages, "page")
    if "ocr_confidence" not in document.meta:
        return f"  {counted} without readable text: pip install 'lmkrag[ocr]'"
    return f"  read by OCR on {counted}, {100 * document.meta['ocr_confidence']:.0f} % sure"


@click.command(epilog="Example: lmkrag show handbook.md --span 1219 1290")
@click.argument("doc_id")
@click.option(
    "--page", type=click.IntRange(min=1), metavar="N", help="Only print one page, counted from 1."
)
@click.option(
    "--span",
    type=(click.IntRange(0), click.IntRange(1)),
    metavar="START END",
    help="Only print or outline characters.",
)
@click.option(
    "--image",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw a page as .png, .jpg or .webp.",
)
@output.index_option
@output.server_option
@output.json_option
def show(
    doc_id: str, index_path: str, server: str | None, image: Path | None, as_json: bool, **part: Any
) -> None:
    """Print the text of a document, or draw a page of it."""
    page, span = part["page"], part["span"]
    if page is not None and span is not None and image is None:
        raise UsageError("give --page or --span; --image takes both")
    with output.open_engine(index_path, server) as engine:
        (doc_id,) = _find_ids(engine, [doc_id])
        if image is not None:
            _draw(engine, doc_id, page, span, image)
            return
        document = engine.document(doc_id)
    start, end = span or _bounds_of(document, page)
    if span and start >= min(end, len(document.text)):
        raise UsageError(
            f"--span {start} {end} holds none of the {len(document.text):,} characters of {doc_id}"
        )
    text = document.text[start:end]
    if as_json:
        output.print_json({"doc_id": doc_id, "start": start, "end": end, "text": text})
    elif sys.stdout.isatty():
        from lmkrag.cli.printing import print_quoted

        print_quoted(text)
    else:
        # As bytes: an encoding or line ends must not change the text
        sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))
        sys.stdout.flush()


def _find_ids(engine: Any, doc_ids: Sequence[str]) -> list[str]:
    """The ids of documents, which may be written as ``list`` escapes them."""
    known = [document.doc_id for document in engine.documents()] if "\\" in "".join(doc_ids) else []
    escaped = {output.one_line(doc_id): doc_id for doc_id in known}
    return [doc_id if doc_id in known else escaped.get(doc_id, doc_id) for doc_id in doc_ids]


def _draw(
    engine: Any, doc_id: str, page: int | None, span: tuple[int, int] | None, path: Path
) -> None:
    form = {".png": "PNG", ".jpg": "JPEG", ".webp": "WEBP"}.get(path.suffix.lower())
    if form is None or not isinstance(engine, Engine):
        raise UsageError(
            "--image needs an index on this machine, and a name that ends with .png, .jpg or .webp"
        )
    (info,) = engine.documents(doc_ids=[doc_id])
    try:
        path.write_bytes(engine.pages.draw(info, page, span, form=form))
    except OSError as error:
        raise UsageError(f"--image {path}: {error.strerror}") from error


def _bounds_of(document: Document, page: int | None) -> tuple[int, int]:
    """The characters of a page, or of the whole document."""
    if page is None:
        return 0, len(document.text)
    count, borders = len(document.page_starts), [*document.page_starts, len(document.text)]
    if page > count:
        raise UsageError(f"{document.doc_id} has {count or 'no'} pages")
    return borders[page - 1], borders[page]


@click.command(epilog="Example: lmkrag status --index indexes/handbook --json")
@output.index_option
@output.server_option
@click.option(
    "--check",
    is_flag=True,
    help="Also check the encoder, every file of the index, the disk and the extras.",
)
@output.json_option
def status(index_path: str, server: str | None, check: bool, as_json: bool) -> None:
    """Show the size and the settings of an index.

    -v also lists the files that were skipped. With --check, exits with 1 when something is wrong.
    """
    checks: list[_Check] = []
    with output.open_engine(index_path, server) as engine:
        record = asdict(engine.status())
        if check:
            if not isinstance(engine, Engine):
                raise UsageError("--check is for an index on this machine")
            checks = list(_check_installation(engine, index_path))
    if as_json:
        output.print_json(
            record | ({"checks": [item._asdict() for item in checks]} if check else {})
        )
    else:
        _print_status(record)
        for name, ok, detail in checks:
            click.echo(f"{name:12} {'ok' if ok else 'WRONG'}: {output.one_line(detail)}")
    if not all(item.ok for item in checks):
        sys.exit(1)


def _print_status(record: dict[str, Any]) -> None:
    kinds, roots, skipped = record.pop("kinds"), record.pop("roots"), record.pop("skipped_files")
    for name, value in record.items():
        click.echo(f"{name:12} {value:,}" if isinstance(value, int) else f"{name:12} {value}")
    click.echo(f"{'kinds':12} {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
    for root, count in roots.items():
        click.echo(f"{'root':12} {output.one_line(root)} ({count} documents)")
    if logging.getLogger("lmkrag").isEnabledFor(logging.INFO):
        for file in skipped:
            path, reason = output.one_line(file["path"]), output.one_line(file["reason"])
            click.echo(f"{'skipped':12} {path}: {reason}")


class _Check(NamedTuple):
    check: str
    ok: bool
    detail: str


def _check_installation(engine: Engine, index_path: str) -> Iterator[_Check]:
    """Check that the encoder of an index works, that the index is whole, that its disk has space,
    and what searches its vectors.
    """
    from lmkrag.index.vectors.vector_set import describe_search

    try:
        encoder = engine.encoders.encoder
        vector, model = encoder.encode_query("Is it well?"), encoder.model
        runtime = (
            f"{type(model).__name__.removesuffix('Model')} on {encoder.device} in {model.precision}"
        )
        yield _Check("encoder", abs(float((vector**2).sum()) - 1) < 0.01, runtime)
    except (LmkragError, OSError, ImportError) as error:
        yield _Check("encoder", False, str(error))
    problems = engine.verify()
    more = f"{len(problems)} problems: lmkrag verify lists them and says what to do"
    yield _Check("files", not problems, f"{problems[0]} ({more})" if problems else "whole")
    if not is_address(index_path):
        free = shutil.disk_usage(index_path).free
        yield _Check("disk", free >= _LEAST_SPACE, f"{free >> 20:,} MiB free")
        yield _Check("vectors", *describe_search())
    missing = [name for name, package in _EXTRAS.items() if not find_spec(package)]
    yield _Check(
        "extras", True, f"not installed: {', '.join(missing)}" if missing else "all installed"
    )


@click.command(epilog="Example: lmkrag remove docs/old.md docs/older.md")
@click.argument("doc_ids", nargs=-1, metavar="[DOC_ID]...")
@output.index_option
@click.option(
    "--filter",
    "filter_expression",
    metavar="EXPR",
    help="Remove all matching documents, such as 'path=drafts/*'.",
)
@output.json_option
def remove(
    doc_ids: tuple[str, ...], index_path: str, filter_expression: str | None, as_json: bool
) -> None:
    """Remove documents and their attachments.

    If one of them is not in the index, none is removed.
    """
    if bool(doc_ids) == (filter_expression is not None):
        raise UsageError("give either ids of documents or --filter EXPR")
    output.tell_leftovers(index_path, writes=True)
    with Engine.open(index_path) as engine:
        count = engine.remove(_find_ids(engine, doc_ids) or None, filter=filter_expression)
        if not count:
            _explain_filter(engine, filter_expression)
    if as_json:
        output.print_json({"removed": count})
    else:
        click.echo(f"{index_path}: {count} removed", err=True)


@click.command(epilog="Example: lmkrag verify && echo whole")
@output.index_option
@output.json_option
def verify(index_path: str, as_json: bool) -> None:
    """Check every file and row of an index.

    Exits with 1 when something is wrong.
    """
    output.tell_leftovers(index_path)
    with Engine.open(index_path) as engine:
        problems = engine.verify()
    if as_json:
        output.print_json({"problems": problems})
    else:
        for problem in problems:
            click.echo(output.one_line(problem))
        advice = f"; {REPAIR}" if problems else ""
        counted = output.count_noun(len(problems), "problem")
        click.echo(f"{index_path}: {counted}{advice}", err=True)
    if problems:
        sys.exit(1)


@click.command(epilog="Example: lmkrag check evidence.json --index indexes/handbook")
@click.argument("source", type=click.File("rb"), metavar="FILE")
@output.index_option
@output.server_option
@output.json_option
def check(source: Any, index_path: str, server: str | None, as_json: bool) -> None:
    """Check whether citations still stand.

    FILE is what search --json or ask --json printed, or any text, whose quotations are looked for,
    first in the sources that footnotes, [1] or (notes.md) name; - reads standard input. In the
    documents as they are indexed now, each citation is the same, moved, elsewhere, changed,
    stitched, reworded or gone. Exits with 1 where one is changed, stitched, reworded or gone.
    """
    from lmkrag.evidence.checking import FAILED

    with output.open_engine(index_path, server) as engine:
        checks = engine.check(output.decode(source.read(), getattr(source, "name", "-")))
    if as_json:
        output.print_json([asdict(item) for item in checks])
    else:
        for item in checks:
            quote = output.one_line(" ".join(item.quote.split()))
            quote = quote if len(quote) <= _LONGEST_QUOTE else f"{quote[: _LONGEST_QUOTE - 1]}…"
            words = (
                f" ({100 * item.similarity:.0f} % of the words)" if item.state == "reworded" else ""
            )
            where = f" in {output.one_line(item.place)}" if item.place else ""
            label = click.style(
                f"{output.one_line(item.label):9}", fg=_COLOURS.get(item.state, "red")
            )
            click.echo(f"{label} {quote}{where}{words}")
        if not checks:
            click.echo("no citation and no quotation found", err=True)
    if any(item.state in FAILED for item in checks):
        sys.exit(1)


@click.command(epilog="Example: lmkrag backup indexes/handbook /backups/handbook")
@click.argument("index", metavar="INDEX", type=click.Path(path_type=Path))
@click.argument("copy", metavar="DIR", type=click.Path(path_type=Path))
@output.json_option
def backup(index: Path, copy: Path, as_json: bool) -> None:
    """Copy an index that is in use.

    The copy is verified, then replaces the earlier copy in DIR in one step. It is an ordinary
    index: search it with --index DIR. Run the command again to update it; only new segments are
    copied.
    """
    from lmkrag.index.backup import back_up_index

    output.tell_leftovers(copy, job="backup", writes=True)
    report = back_up_index(index, copy)
    if as_json:
        output.print_json(asdict(report))
    else:
        counts = f"{report.documents:,} documents, {report.sentences:,} sentences"
        click.echo(
            f"{copy}: {counts}; {report.new_files} new files, {report.new_bytes:,} bytes", err=True
        )
