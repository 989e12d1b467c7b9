"""``lmkrag doctor``: is everything here that lmkrag needs?"""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from lmkrag.cli.output import index_option, json_option, one_line, print_json
from lmkrag.errors import LmkragError
from lmkrag.version import __version__

_PACKAGES = ("onnxruntime", "faiss-cpu", "numpy", "nltk")
_EXTRAS = {
    "torch": "torch",
    "serve": "fastapi",
    "openai": "openai",
    "langchain": "langchain-core",
    "llamaindex": "llama-index-core",
    "eval": "ir-measures",
    "train": "accelerate",
    "watch": "watchfiles",
}
_LEAST_SPACE = 1 << 30

Check = tuple[str, bool, str]
"""What was looked at, whether it is well, and what was found."""


@click.command(epilog="Example: lmkrag doctor --index indexes/handbook")
@index_option
@json_option
def doctor(index_path: str, as_json: bool) -> None:
    """Check the installation, the encoder and the index.

    Exits with 1 when something is wrong.
    """
    checks = list(_checks(Path(index_path)))
    if as_json:
        print_json([{"check": name, "ok": well, "found": found} for name, well, found in checks])
    else:
        for name, well, found in checks:
            click.echo(f"{'ok   ' if well else 'WRONG'}  {name:12}  {one_line(found)}")
    if not all(well for _, well, _ in checks):
        sys.exit(1)


def _checks(index: Path) -> Iterator[Check]:
    from lmkrag.index.store import IndexStore

    yield "lmkrag", True, f"{__version__}, Python {platform.python_version()} on {platform.system()}"
    for name in _PACKAGES:
        found = _version(name)
        yield name, found is not None, found or "is not installed"
    installed = [extra for extra, package in _EXTRAS.items() if _version(package)]
    yield "extras", True, ", ".join(installed) or "none"
    yield "processors", True, f"{os.cpu_count()}"
    yield _try("encoder", _check_encoder)
    if IndexStore.exists(index):
        yield _try("index", lambda: _check_index(index))
        free = shutil.disk_usage(index).free
        yield "disk", free >= _LEAST_SPACE, f"{free >> 20:,} MiB free beside the index"
    else:
        yield "index", True, f"there is none at {index}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _try(name: str, check: Callable[[], tuple[bool, str]]) -> Check:
    try:
        return name, *check()
    except (LmkragError, OSError, ImportError) as error:
        return name, False, str(error)


def _check_encoder() -> tuple[bool, str]:
    from lmkrag.encoder.landmark import LandmarkEncoder

    encoder = LandmarkEncoder.load()
    vector = encoder.encode_query("Is it well?")
    good = abs(float((vector**2).sum()) - 1) < 0.01
    runtime = type(encoder.model).__name__.removesuffix("Model")
    running = f"{runtime} on {encoder.device} in {encoder.model.precision}"
    return good, f"{encoder.spec.name}, {encoder.spec.dimensions} dimensions, {running}"


def _check_index(index: Path) -> tuple[bool, str]:
    from lmkrag.engine import Engine

    with Engine.open(index) as engine:
        problems = engine.verify()
        status = engine.status()
    if problems:
        return (
            False,
            f"{problems[0]} ({len(problems)} problems; lmkrag verify lists them, lmkrag index-tools repair fixes them)",
        )
    return True, f"{index}: {status.documents:,} documents, {status.sentences:,} sentences, whole"
