"""``lmkrag questions``: labelled questions for ``lmkrag eval`` and ``lmkrag train``."""

from pathlib import Path
from typing import Any

import click

from lmkrag.cli.ask import reader_options, take_reader
from lmkrag.cli.output import ErrorHandlingGroup, one_line, progress_bar
from lmkrag.errors import DocumentError, UsageError
from lmkrag.types import Document


@click.group(cls=ErrorHandlingGroup, epilog="Example: lmkrag questions generate docs/ --out data/mine --reader openai")
def questions() -> None:
    """Make labelled questions for eval and train."""


@questions.command(
    epilog="Example: lmkrag questions generate docs/ --out data/mine --reader openai --base-url http://localhost:8000/v1"
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Directory of the set to write."
)
@click.option(
    "--questions",
    "count",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="N",
    help="Number of passages to ask about.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choice of passages.")
@reader_options
def generate(paths: tuple[str, ...], out: Path, count: int, seed: int, **options: Any) -> None:
    """Write questions about documents with a language model.

    lmkrag train and lmkrag eval read them.
    """
    from rich.progress import MofNCompleteColumn, TimeRemainingColumn

    from lmkrag.readers.base import LanguageModelReader
    from lmkrag.training.synthetic import synthesise

    reader = take_reader(options)
    if not isinstance(reader, LanguageModelReader):
        raise UsageError("questions are written by a language model: choose --reader openai, vllm or transformers")
    documents = _load(paths)
    with progress_bar(MofNCompleteColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("questions", total=count)

        def progress(done: int) -> None:
            bar.update(task, completed=done)

        written = synthesise(documents, reader, out, count=count, seed=seed, progress=progress)
    click.echo(f"{out}: {written} questions about {len(documents)} documents", err=True)


def _load(paths: tuple[str, ...]) -> list[Document]:
    from lmkrag.formats.isolated import IsolatedLoader
    from lmkrag.ingest.walk import Found, walk

    documents = []
    with IsolatedLoader() as loader:
        for item in (item for path in paths for item in walk(Path(path))):
            try:
                if not isinstance(item, Found):
                    raise DocumentError(item.reason)
                documents.append(loader.load(item.path, item.doc_id))
            except DocumentError as error:
                name = item.doc_id if isinstance(item, Found) else item.path
                click.echo(f"skipped {one_line(name)}: {one_line(str(error))}", err=True)
    return documents
