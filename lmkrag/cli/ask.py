"""``lmkrag ask`` and ``lmkrag chat``."""

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from lmkrag.cli import output
from lmkrag.errors import LmkragError, UsageError
from lmkrag.readers import READERS
from lmkrag.results import ABSTAINED, Answer
from lmkrag.serialization import answer_to_json

if TYPE_CHECKING:
    from lmkrag.conversation import Conversation
    from lmkrag.readers.base import AnswerStream, Reader

_BATCH = 64  # questions answered together

reader_options = output.add_options(
    click.option(
        "--reader",
        metavar=f"[{'|'.join(READERS)}]",
        default="extractive",
        show_default=True,
        envvar="LMKRAG_READER",
        help="What answers; plug-ins add more.",
    ),
    click.option(
        "--llm",
        type=click.Choice(["auto", "always"]),
        metavar="[always]",
        help=(
            "Let a language model answer: of --base-url, or of Ollama, LM Studio, llama.cpp "
            "or vLLM on this machine; always also where the passages probably do not answer."
        ),
    ),
    click.option(
        "--model",
        envvar="LMKRAG_MODEL",
        metavar="NAME",
        help="The reader's model: a name or folder.",
    ),
    click.option(
        "--base-url", envvar="LMKRAG_BASE_URL", metavar="URL", help="OpenAI-compatible server."
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Maximum time for the reader's answer; in process, for its next piece.",
    ),
    click.option(
        "--max-tokens",
        type=click.IntRange(min=1),
        metavar="N",
        help="Maximum number of tokens to generate.",
    ),
    click.option(
        "--temperature",
        type=click.FloatRange(min=0),
        metavar="T",
        help="Sampling temperature; 0 always takes the most likely token.",
    ),
    click.option(
        "--prompts",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Your own prompt templates, or 'small' for the prompts for small models.",
    ),
)
"""Add the options that choose the reader and set it up."""


class ReaderCommand(click.Command):
    """A command with the options of a reader, whose ``--llm`` may stand alone."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give ``--llm`` its value, so that it does not take the word behind it."""
        parsed: list[str] = []
        for argument in args:
            if argument == "always" and parsed[-1:] == ["--llm=auto"]:
                parsed[-1] = "--llm=always"
            else:
                parsed.append("--llm=auto" if argument == "--llm" else argument)
        return super().parse_args(ctx, parsed)


def take_reader(options: dict[str, Any]) -> "Reader":
    """Make the reader that the options of :func:`reader_options` name, and take them out of
    ``options``.
    """
    from lmkrag.readers.choose import load_reader

    return load_reader(**take_reader_settings(options))


def take_reader_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``load_reader`` that the options name, and take these out of
    ``options``.
    """
    names = ("model", "base_url", "timeout", "max_tokens", "temperature", "prompts")
    settings = {name: options.pop(name) for name in names}
    reader = options.pop("reader")
    found = False
    llm = options.pop("llm")
    if llm:
        reader, found = "openai", settings["base_url"] is None
        if found:
            from lmkrag.readers.local_servers import find_local_server

            settings["base_url"], model = find_local_server()
            settings["model"] = settings["model"] or model
    return {"name": reader, "found": found, "always": llm != "auto", **settings}


def _take_reader_if_chosen(options: dict[str, Any], server: str | None) -> "Reader | None":
    """The reader to answer with; None for that of the server, unless one was chosen here."""
    source = click.get_current_context().get_parameter_source("reader")
    unchosen = source is ParameterSource.DEFAULT and not options["llm"]
    reader = take_reader(options)
    return None if server is not None and unchosen else reader


@click.command(
    cls=ReaderCommand, epilog="Example: lmkrag ask 'who approves leave?' --filter 'path=handbook/*'"
)
@click.argument("words", nargs=-1, metavar="[QUESTION]")
@output.index_option
@output.server_option
@output.search_options("context_tokens", "explain")
@reader_options
@click.option(
    "--batch",
    "batch",
    type=click.File("rb"),
    metavar="FILE.jsonl",
    help='Many questions, one {"query_id", "query"} a line; JSON lines out.',
)
@click.option("--no-stream", is_flag=True, help="Print the answer only when it is complete.")
@output.json_option
def ask(
    words: tuple[str, ...],
    index_path: str,
    server: str | None,
    batch: Any,
    no_stream: bool,
    as_json: bool,
    rerank_model: str | None,
    **options: Any,
) -> None:
    """Answer a question from the documents, with citations.

    QUESTION needs no quotes; - reads it from standard input.
    """
    question = output.join_words(words)
    if bool(words) == (batch is not None):
        raise UsageError("give a question, or --batch FILE.jsonl")
    reader = _take_reader_if_chosen(options, server)
    with output.open_engine(index_path, server, rerank_model=rerank_model) as engine:
        if batch is not None:
            answer_all = partial(engine.ask_many, reader=reader, **options)
            output.answer_each(batch, _BATCH, answer_all, _to_record)
        elif as_json:
            answer = engine.ask(question, reader=reader, **options)
            output.print_json(_to_record(question, answer))
        else:
            stream = engine.ask_stream(question, reader=reader, **options)
            _print_answer(stream, live=not no_stream and _is_live(reader))
            answer = stream.answer()
    if batch is None and ABSTAINED in (answer.text, *answer.warnings):
        sys.exit(1)


def _to_record(question: str, answer: Answer) -> dict[str, Any]:
    """An answer as JSON; explanations of passages only if they were asked for."""
    record = answer_to_json(question, answer)
    for span in record["spans"]:
        if span["explanation"] is None:
            del span["explanation"], span["hits"]
    return record


@click.command(
    cls=ReaderCommand,
    epilog="Example: lmkrag chat --reader openai --base-url http://localhost:8000/v1",
)
@output.index_option
@output.server_option
@output.search_options("context_tokens")
@reader_options
def chat(index_path: str, server: str | None, rerank_model: str | None, **options: Any) -> None:
    """Ask questions in a conversation.

    Follow-up questions are understood from those before. /help lists the commands, /quit ends the
    conversation.
    """
    from lmkrag.conversation import Conversation

    reader = _take_reader_if_chosen(options, server)
    with output.open_engine(index_path, server, rerank_model=rerank_model) as engine:
        conversation = Conversation(engine, reader=reader, **options)
        failed = False
        last: Answer | None = None
        for question in _read_questions():
            if question.startswith("/"):
                if question == "/quit":
                    break
                last = _run_command(question, conversation, last)
                continue
            try:
                stream = conversation.stream(question)
                _print_answer(stream, live=_is_live(reader))
                last = conversation.remember(question, stream.answer())
            except LmkragError as error:  # one failed request does not end the conversation
                output.print_error(error)
                failed = True
            click.echo()
    if failed and not sys.stdin.isatty():
        sys.exit(1)


_COMMANDS = {
    "/sources": "print the passages that the last answer was read from",
    "/clear": "forget the questions so far",
    "/help": "print this",
    "/quit": "end; so does the end of input",
}


def _run_command(command: str, conversation: "Conversation", last: Answer | None) -> Answer | None:
    """Run a command of a conversation; return what the last answer is afterwards."""
    if command == "/clear":
        conversation.forget()
        click.echo("forgotten", err=True)
        return None
    if command == "/sources":
        from lmkrag.cli.printing import print_span

        for number, span in enumerate(last.spans if last else (), 1):
            print_span(number, span, "", level="passage")
        if last is None:
            click.echo("nothing was answered yet", err=True)
        return last
    if command != "/help":
        click.echo(f"no command {output.one_line(command)}", err=True)
    for name, what in _COMMANDS.items():
        click.echo(f"{name:9} {what}", err=True)
    return last


def _read_questions() -> Iterator[str]:
    """Yield the lines of standard input; on a terminal they can be edited, and arrow keys recall
    earlier ones.
    """
    if not sys.stdin.isatty():
        yield from filter(None, (output.decode(line).strip() for line in sys.stdin.buffer))
        return
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # input() uses it
    while True:
        try:
            line = input("? ").strip()
        except EOFError:
            click.echo()
            return
        if line:
            yield line


def _is_live(reader: "Reader | None") -> bool:
    """Whether an answer is printed as it is written: on a terminal, by a language model."""
    return sys.stdout.isatty() and (reader is None or reader.name != "extractive")


def _print_answer(stream: "AnswerStream", *, live: bool) -> None:
    from lmkrag.cli.printing import print_citations, print_note, print_stream, print_text
    from lmkrag.readers.citations import PASSAGES

    if live:
        print_stream(stream)
    answer = stream.answer()
    _, introduction, passages = answer.text.partition(PASSAGES)
    if not live:
        print_text(answer)
    elif introduction:  # they came after what the model said
        print_text(replace(answer, text=introduction + passages))
    if answer.citations:
        click.echo()
    print_citations(answer)
    if answer.answered_by:
        click.echo(f"\nanswered by {output.one_line(answer.answered_by)}")
    for warning in answer.warnings:
        print_note(f"warning: {warning}")
    is_quoted = answer.reader == "extractive"
    if is_quoted and answer.label in ("likely", "unsure") and sys.stderr.isatty():
        print_note("--llm lets a language model on this machine answer from these passages")
