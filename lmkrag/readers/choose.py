"""Load a reader by its name."""

from pathlib import Path
from typing import Any

from lmkrag import plugins
from lmkrag.errors import LmkragError, ReaderError, UsageError
from lmkrag.readers import READERS
from lmkrag.readers.base import Reader


def load_reader(
    name: str = "extractive",
    *,
    model: str | None = None,
    base_url: str | None = None,
    found: bool = False,
    timeout: float | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    prompts: Path | None = None,
) -> Reader:
    """Return a reader by its name, one of :data:`lmkrag.readers.READERS` or of a plug-in, with its
    options.

    ``model`` is what the server calls it, or a folder or hub name, ``base_url`` an
    OpenAI-compatible server, ``found`` whether that was found on this machine and not named by the
    user: it gets no key then, ``timeout`` seconds, ``prompts`` a folder of templates in place of
    the packaged ones, or ``small``. Raises UsageError: no such reader, or options that do not fit
    it. MissingExtra: its package is not installed. ReaderError: its model can't be loaded.
    """
    options: dict[str, Any] = {
        "model": model,
        "base_url": base_url,
        "timeout": timeout,
        "max_tokens": max_tokens,
    }
    options |= {"temperature": temperature, "prompts": prompts}
    settings = {key: value for key, value in options.items() if value is not None}
    if name in plugins.list_plugins(plugins.READERS):
        return _load_plugin(name, settings)
    if name not in READERS:
        raise UsageError(
            f"reader {name!r}: use one of "
            f"{', '.join([*READERS, *plugins.list_plugins(plugins.READERS)])}"
        )
    if base_url and name != "openai":
        raise UsageError(f"--base-url is for the reader 'openai', not {name!r}")
    if name == "extractive":
        from lmkrag.readers.extractive import ExtractiveReader

        if model:
            raise UsageError(
                "the extractive reader has no model: choose --reader openai, vllm or transformers"
            )
        return ExtractiveReader()

    if prompts is not None:
        from lmkrag.readers.prompt import Prompts

        settings["prompts"] = (
            Prompts.load(layout="plain") if str(prompts) == "small" else Prompts.load(prompts)
        )
    if name == "openai":
        from lmkrag.readers.openai import OpenAIReader

        return OpenAIReader(**settings, found=found)
    if not model:
        raise UsageError(f"reader {name!r}: choose a model with --model")
    settings.pop("base_url", None)
    if name == "vllm":
        from lmkrag.readers.vllm import VllmReader

        settings.pop("timeout", None)
        return VllmReader(**settings)
    from lmkrag.readers.transformers import TransformersReader

    return TransformersReader(**settings)


def _load_plugin(name: str, options: dict[str, Any]) -> Reader:
    try:
        reader: Reader = plugins.load_plugin(plugins.READERS, name)(**options)
    except LmkragError:
        raise
    except Exception as error:  # the code of another package
        raise ReaderError(
            f"reader {name!r}: can't be loaded ({type(error).__name__}: {error})"
        ) from error
    return reader
