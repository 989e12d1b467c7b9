"""Load a reader by its name."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmkrag import plugins
from lmkrag.errors import LmkragError, ReaderError, UsageError
from lmkrag.readers import READERS
from lmkrag.readers.base import Reader

if TYPE_CHECKING:
    from lmkrag.readers.base import LanguageModelReader
    from lmkrag.readers.prompt import Prompts


def load_reader(
    name: str = "extractive",
    *,
    model: str | None = None,
    base_url: str | None = None,
    found: bool = False,
    always: bool = False,
    timeout: float | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    prompts: Path | None = None,
) -> Reader:
    """Return a reader by its name, one of :data:`lmkrag.readers.READERS` or of a plug-in, with its
    options.

    Args:
        name: of a reader.
        model: what the server calls it, or a folder or hub name.
        base_url: an OpenAI-compatible server.
        found: whether the user did not name it: it was found on this machine, and gets no key.
        always: whether a language model is asked even where the passages probably do not answer;
            by default the nearest passage is the answer there.
        timeout: of an answer, in seconds.
        max_tokens: that the model generates.
        temperature: of its sampling.
        prompts: a folder of templates in place of the packaged ones, or ``small``.

    Raises:
        UsageError: there is no such reader, or options do not fit it.
        MissingExtra: its package is not installed.
        ReaderError: its model can't be loaded.
    """
    options: dict[str, Any] = {
        "model": model,
        "base_url": base_url,
        "timeout": timeout,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "prompts": prompts,
    }
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
    from lmkrag.readers.extractive import ExtractiveReader

    if name == "extractive":
        if model:
            raise UsageError(
                "the extractive reader has no model: choose --reader openai, vllm or transformers"
            )
        return ExtractiveReader()

    if name != "openai":
        settings.pop("base_url", None)
        if not model:
            raise UsageError(f"reader {name!r}: choose a model with --model")
    if prompts is not None:
        settings["prompts"] = _load_prompts(prompts)
    reader = _load_language_model(name, settings, found=found)
    reader.nearest = None if always else ExtractiveReader()
    return reader


def _load_prompts(prompts: Path) -> "Prompts":
    from lmkrag.readers.prompt import Prompts

    return Prompts.load(layout="plain") if str(prompts) == "small" else Prompts.load(prompts)


def _load_language_model(
    name: str, settings: dict[str, Any], *, found: bool
) -> "LanguageModelReader":
    """The reader of a name, whose package is imported only now."""
    if name == "openai":
        from lmkrag.readers.openai import OpenAIReader

        return OpenAIReader(**settings, found=found)
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
