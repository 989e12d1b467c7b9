"""``lmkrag serve`` and ``lmkrag mcp``."""

import contextlib
import logging
import os
import re
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from lmkrag.cli.ask import ReaderCommand, reader_options, take_reader, take_reader_settings
from lmkrag.cli.output import DEFAULT_INDEX, find_default_index, rerank_model_option
from lmkrag.errors import UsageError, needs
from lmkrag.index.location import absolute_index, locate_index

_logger = logging.getLogger(__name__)


_indexes_option = click.option(
    "--index",
    "indexes",
    multiple=True,
    type=click.Path(),
    envvar="LMKRAG_INDEX",
    default=lambda: (find_default_index(),),
    show_default=f"{DEFAULT_INDEX}, here or in a folder above",
    metavar="[NAME=]DIR|ADDRESS",
    help="An index to serve; repeatable.",
)


@click.command(cls=ReaderCommand, epilog="Example: lmkrag serve docs/")
@click.argument(
    "folders",
    nargs=-1,
    metavar="[FOLDER...]",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@_indexes_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8700,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option("--writable", is_flag=True, help="Allow adding and removing documents.")
@click.option("--no-open", is_flag=True, help="Do not open a browser for FOLDER.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Holds the token that requests must carry; else LMKRAG_TOKEN.",
)
@click.option(
    "--feedback",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Let the page say which answers did not help; FILE gets a line of JSON for each.",
)
@click.option("--no-auth", is_flag=True, help="Serve anybody who reaches the address.")
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A host name that clients use for this server.",
)
@click.option(
    "--show-paths",
    is_flag=True,
    help="Tell clients where files lie on this machine, and only from it.",
)
@click.option(
    "--rerank",
    type=click.BOOL,
    metavar="on|off",
    default="on",
    show_default=True,
    help="Default of searches: re-rank the best passages.",
)
@click.option(
    "--rerank-timeout-ms",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MS",
    default=1_000,
    show_default=True,
    help="Default of searches: maximum time for re-ranking, in milliseconds.",
)
@rerank_model_option
@reader_options
def serve(
    folders: tuple[Path, ...],
    indexes: tuple[str, ...],
    no_open: bool,
    token_file: Path | None,
    no_auth: bool,
    allowed_hosts: tuple[str, ...],
    **options: Any,
) -> None:
    """Serve a web page, an HTTP API and MCP.

    FOLDER is indexed while the server runs, and kept up to date; its index is in the user's cache
    directory. The API has REST routes and those of OpenAI and Dify.
    """
    if (
        folders
        and click.get_current_context().get_parameter_source("indexes")
        is ParameterSource.COMMANDLINE
    ):
        raise UsageError(
            "give folders or --index, not both: lmkrag index FOLDER --index DIR makes an "
            "index of your own"
        )
    environment = dict(os.environ)
    _use_one_thread_each()
    with needs("serve"):
        import watchfiles  # noqa: F401  # following the folders needs it

        from lmkrag.server.app import serve as run
        from lmkrag.server.following import FolderFollower
        from lmkrag.server.settings import ServerSettings, name_indexes
    served = _open_cached_index(folders) if folders else name_indexes(indexes)
    options["reader"] = take_reader(options)  # the remaining options are the server's
    hosts, token = frozenset(allowed_hosts), _read_token(token_file)
    settings = ServerSettings(
        served, token=token, authenticated=not no_auth, allowed_hosts=hosts, **options
    )

    def announce(url: str) -> None:
        click.echo(f"lmkrag: serving {', '.join(settings.indexes)} on {url}", err=True)
        if folders:
            click.echo(f"lmkrag: MCP clients connect to {url}/mcp", err=True)
            click.echo(f"lmkrag: indexing {', '.join(map(str, folders))}", err=True)
            if not no_open and sys.stderr.isatty():
                webbrowser.open(url)

    with contextlib.ExitStack() as stack:
        if folders:
            (index,) = served.values()
            follower = stack.enter_context(FolderFollower(folders, index, environment))
            settings = replace(settings, follower_state=follower.state)
        try:
            run(settings, announce=announce)
        except KeyboardInterrupt:  # uvicorn raises it once the server has stopped
            sys.exit(130)


def _open_cached_index(folders: tuple[Path, ...]) -> dict[str, Path]:
    """Create or check the index of folders in the user's cache directory; return it by the first
    folder's name.
    """
    from lmkrag.engine import Engine
    from lmkrag.ingest.folder_cache import cached_index, use_cached

    index = cached_index(folders)

    def check() -> None:
        with Engine.open(index, create=True) as engine:
            _ = engine.encoders.encoder  # loads the encoder and compares it with the index's

    use_cached(index, check, lambda _: None)
    return {re.sub(r"[^\w.-]+", "-", folders[0].resolve().name) or "folder": index}


@click.command(cls=ReaderCommand, epilog="Example: lmkrag mcp --index indexes/handbook")
@_indexes_option
@click.option("--writable", is_flag=True, help="Allow the assistant to add and remove documents.")
@click.option(
    "--in-process",
    is_flag=True,
    help="Do not share a process with other assistants on this machine.",
)
@reader_options
def mcp(indexes: tuple[str, ...], writable: bool, in_process: bool, **options: Any) -> None:
    """Serve indexes to an assistant over MCP.

    It speaks the Model Context Protocol (MCP) on standard input and output. All assistants of a
    user share one process for the same indexes and options; it ends after 15 minutes without a
    message.
    """
    from lmkrag.server.mcp_proxy import IDLE, Proxy, SharedServer
    from lmkrag.server.settings import name_indexes

    _use_one_thread_each()
    named = name_indexes(indexes)
    reader = take_reader_settings(options)
    is_extractive = reader["name"] == "extractive"
    settings = {
        "indexes": {name: str(absolute_index(path)) for name, path in named.items()},
        # where a link leads: sessions of two indexes do not share a process
        "resolved": {name: str(locate_index(path)) for name, path in named.items()},
        "writable": writable,
        "reader": reader,
        "folder": os.sep if is_extractive else str(Path.cwd()),  # models may be relative paths
        "idle": IDLE,
    }
    if not in_process:
        try:
            Proxy(SharedServer(settings)).run()
            return
        except OSError as error:  # no sockets here, or a failure that serving below reports
            _logger.info("not shared with other assistants: %s", error)
    with needs("mcp"):
        from lmkrag.server.mcp_process import serve as serve_assistant
    serve_assistant(settings)


def _use_one_thread_each() -> None:
    """Limit models, NumPy and FAISS to one thread, before they are imported: concurrent searches
    are far faster.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def _read_token(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get("LMKRAG_TOKEN") or None
    try:
        token = path.read_text("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: can't be read as a token ({error})") from error
    if not token:
        raise UsageError(f"{path}: holds no token")
    return token
