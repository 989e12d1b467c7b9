"""What the commands share: options, JSON, places, logging, errors as one line and an exit code."""

import contextlib
import functools
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast
from unicodedata import category

import click
from click.core import ParameterSource

from lmkrag.errors import DocumentError, LmkragError, UsageError
from lmkrag.index.location import is_address
from lmkrag.search.request import CommonOptions, find_options, option_of
from lmkrag.types.json_values import replace_surrogates

if TYPE_CHECKING:
    from lmkrag.engine import Engine
    from lmkrag.remote import RemoteEngine

DEFAULT_INDEX = "indexes/default"

_logger = logging.getLogger("lmkrag")

Command = TypeVar("Command", bound=Callable[..., Any])


def add_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds several options, in their order."""
    return lambda command: functools.reduce(
        lambda wrapped, option: option(wrapped), reversed(options), command
    )


def index_option(command: Command, *, existing: bool = True) -> Command:
    """Add ``--index``; an ``existing`` one is also looked for in parent folders, as git looks for
    its repository.
    """
    return click.option(
        "--index",
        "index_path",
        envvar="LMKRAG_INDEX",
        default=find_default_index if existing else DEFAULT_INDEX,
        show_default=f"{DEFAULT_INDEX}, here or in a folder above" if existing else DEFAULT_INDEX,
        type=click.Path(),
        metavar="DIR|ADDRESS",
        help="The index directory, or qdrant://HOST:6333/NAME.",
    )(command)


def find_default_index() -> str:
    """Return the default index of the working directory, else of the nearest folder above it that
    has one.
    """
    here = Path().resolve()
    for folder in (here, *here.parents):
        if os.path.isfile(folder / DEFAULT_INDEX / "catalog.sqlite"):  # noqa: PTH113  # Path's raises
            return DEFAULT_INDEX if folder == here else str(folder / DEFAULT_INDEX)
    return DEFAULT_INDEX


def server_option(command: Command) -> Command:
    """Add ``--server``; ``--index`` takes precedence over LMKRAG_SERVER."""

    @functools.wraps(command)
    def with_server(*args: Any, server: str | None, **options: Any) -> Any:
        source = click.get_current_context().get_parameter_source
        if server is not None and source("index_path") is ParameterSource.COMMANDLINE:
            if source("server") is ParameterSource.COMMANDLINE:
                raise UsageError("give --index or --server, not both")
            server = None
        return command(*args, server=server, **options)

    return click.option(
        "--server",
        envvar="LMKRAG_SERVER",
        metavar="URL",
        help="Use the index of a server instead, such as http://localhost:8700/handbook.",
    )(cast(Command, with_server))


@contextlib.contextmanager
def open_engine(
    path: str, server: str | None, *, rerank_model: str | None = None
) -> "Iterator[Engine | RemoteEngine]":
    """Open the index of a command: a directory, or that of a server."""
    from lmkrag.engine import Engine

    if server is None:
        with Engine.open(path, reranker=rerank_model) as engine:
            tell_leftovers(path)
            engine.encoders.asks_once = True
            yield engine
        return
    if rerank_model is not None:
        raise UsageError("--rerank-model is for an index on this machine")
    from lmkrag.remote import RemoteEngine

    with RemoteEngine(server, token=os.environ.get("LMKRAG_TOKEN") or "") as remote:
        yield remote


def tell_leftovers(path: str | Path, *, job: str = "", writes: bool = False) -> None:
    """Name the working folders that interrupted jobs left beside an index, and say what becomes of
    them.
    """
    from lmkrag.index.working import JOBS, WorkingFolder

    if is_address(path):
        return
    for folder in (WorkingFolder(Path(path), each) for each in JOBS):
        if not folder.is_left_over():
            continue
        fate = "it is removed" if writes else "the next command that writes to the index removes it"
        if folder.job == job:
            fate = "it is continued or removed"
        click.echo(
            f"lmkrag: {one_line(str(folder.path))}: left by an interrupted {folder.job}; {fate}",
            err=True,
        )


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON only.")


def to_click(*names: str) -> Callable[[Command], Command]:
    """Add options of a search: see :class:`lmkrag.search.request.SearchRequest`."""
    types: dict[str, Any] = {
        "count": click.IntRange(min=1),
        "number": click.FloatRange(min=0, min_open=True),
        "share": click.FloatRange(min=0, max=1, min_open=True),
    }

    def add(command: Command) -> Command:
        for name, declared in reversed(find_options(names).items()):
            option = option_of(declared)
            kind: dict[str, Any] = {"type": types.get(option.kind), "metavar": option.metavar}
            if option.kind == "choice":
                kind = {
                    "type": click.Choice(option.choices),
                    "default": declared.default,
                    "show_default": True,
                }
            elif option.kind == "switch":
                kind = {"type": click.BOOL, "metavar": "on|off"}
            elif option.kind == "flag":
                kind = {"is_flag": True}
            flags = option.flags or (f"--{name.replace('_', '-')}",)
            command = click.option(*flags, name, envvar=option.variable, help=option.help, **kind)(
                command
            )
        return command

    return add


rerank_model_option = click.option(
    "--rerank-model",
    metavar="NAME",
    help="The re-ranker: a folder, a cross-encoder of the hub, or the URL of a server, such as "
    "http://HOST/v1/rerank; defaults to the built-in one.",
)


def search_options(*names: str) -> Callable[[Command], Command]:
    """Add the options that every search has, and some that only some have."""
    add = to_click(*CommonOptions.__annotations__, *names)
    return lambda command: add(rerank_model_option(command))


def join_words(words: tuple[str, ...]) -> str:
    """Return a question given as words of the command line, or read from standard input where it is
    ``-``.
    """
    if words == ("-",):
        words = (decode(sys.stdin.buffer.read()).strip(),)
    return replace_surrogates(" ".join(words))


def decode(data: bytes, name: str = "standard input") -> str:
    """Return the text of a file; its encoding is guessed as a document's is. Raises UsageError: it
    is no text.
    """
    from lmkrag.formats.text import decode_labelled

    try:
        return StringIO(decode_labelled(data, None), None).read()  # with "\n" at the ends of lines
    except DocumentError as error:
        raise UsageError(f"{name}: {error}") from None


def answer_each(
    file: IO[bytes],
    size: int,
    answer: Callable[[list[str]], Iterable[Any]],
    to_record: Callable[[str, Any], dict[str, Any]],
) -> None:
    """Print what each question of a file gets as a line of JSON, as it comes; exit with 1 if one
    failed.

    Args:
        file: JSON lines with a ``query_id`` and a ``query``.
        size: number of questions that are asked together.
        answer: takes questions, and returns for each a result, or the error in its place.
        to_record: takes a question and its result, and returns what is printed.

    Raises:
        UsageError: a line is something else; nothing was asked.
    """
    lines = StringIO(decode(file.read(), getattr(file, "name", "-")))
    questions = [_question(number, line) for number, line in enumerate(lines, 1)]
    failed = 0
    for start in range(0, len(questions), size):
        part = questions[start : start + size]
        for (query_id, text), result in zip(part, answer([text for _, text in part]), strict=True):
            if isinstance(result, Exception):
                failed += 1
                print_json({"query_id": query_id, "question": text, "error": str(result)})
            else:
                print_json({"query_id": query_id, **to_record(text, result)})
    if failed:
        what = "1 question was" if failed == 1 else f"{failed} questions were"
        click.echo(f'lmkrag: {what} not answered; look for "error" in the lines above', err=True)
        sys.exit(1)


def _question(number: int, line: str) -> tuple[Any, str]:
    try:
        record = json.loads(line)
        return record["query_id"], str(record["query"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(
            f'questions, line {number}: not {{"query_id": ..., "query": ...}}'
        ) from None


def logging_options(command: click.Command) -> None:
    """Add ``--verbose`` and ``--debug``."""

    def set_level(
        level: int, context: click.Context, parameter: click.Parameter, enabled: bool
    ) -> None:
        if enabled and _logger.getEffectiveLevel() > level:
            logging.basicConfig(format="%(name)s: %(message)s", stream=sys.stderr)
            _logger.setLevel(level)

    for level, names, text in (
        (logging.INFO, ["-v", "--verbose"], "Log what is done to standard error."),
        (logging.DEBUG, ["--debug"], "Log more, with tracebacks and the output of parsers."),
    ):
        callback = functools.partial(set_level, level)
        command.params.append(
            click.Option(names, is_flag=True, expose_value=False, callback=callback, help=text)
        )


class ErrorHandlingGroup(click.Group):
    """Prints our errors as one line and exits with 2 for wrong usage, 1 for failures. Its commands
    have ``--debug``.
    """

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        logging_options(cmd)
        super().add_command(cmd, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. The error for a subcommand called without its group names both."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            for name, group in self.commands.items():
                if isinstance(group, click.Group) and args[0] in group.commands:
                    ctx.fail(
                        f"No such command '{args[0]}'. Did you mean 'lmkrag {name} {args[0]}'?"
                    )
        return super().resolve_command(ctx, args)

    def main(self, *arguments: Any, **settings: Any) -> Any:
        """Run a command, also where the shell closed a stream: then there is nothing to read, and
        writing fails.
        """
        sys.stdin, sys.stdout = (
            stream or Path(os.devnull).open()  # noqa: SIM115
            for stream in (sys.stdin, sys.stdout)
        )
        sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
        try:
            return super().main(*arguments, **settings)
        except LmkragError as error:
            print_error(error)
            sys.exit(2 if isinstance(error, UsageError) else 1)
        except OSError as error:
            why = str(error).split("] ", 1)[-1] if error.errno else "standard output is closed"
            print_error(error, f"reading or writing failed ({why})")
            sys.stdout = sys.stderr  # Python would write the rest at exit
            sys.exit(1)


def print_error(error: Exception, message: str = "") -> None:
    """Print an error as one line, with ``--debug`` after its traceback."""
    _logger.debug("failed", exc_info=error)
    click.echo(f"lmkrag: {one_line(message or str(error))}", err=True)


def print_json(value: Any) -> None:
    """Print one line of JSON; bytes of file names and questions that are not UTF-8 are replaced."""

    def to_plain(value: Any) -> Any:
        return dict(value) if hasattr(value, "keys") else str(value)

    click.echo(replace_surrogates(json.dumps(value, ensure_ascii=False, default=to_plain)))


def find_lines_around(text: str, start: int, end: int, count: int) -> tuple[int, int]:
    """Return where ``count`` lines of context around the lines of characters ``[start, end)`` begin
    and end.
    """
    before, after = text[:start].splitlines(keepends=True), text[end:].splitlines(keepends=True)
    return start - sum(map(len, before[-count - 1 :])), end + sum(map(len, after[: count + 1]))


def count_noun(count: int, noun: str) -> str:
    """Return a count in words: ``no problems``, ``1 problem``, ``2 problems``.

    Args:
        count: at least 0.
        noun: in the singular, whose plural ends in ``s``.
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count or 'no'} {noun}s"


def one_line(text: str) -> str:
    """Return text with line breaks and control codes escaped."""
    return "".join(
        sign if sign.isprintable() or category(sign) == "Zs" else repr(sign)[1:-1] for sign in text
    )


def readable(text: str) -> str:
    """Return text with control codes escaped, line by line."""
    return "\n".join(one_line(line.expandtabs()) for line in text.splitlines())
