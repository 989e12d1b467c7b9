"""The reader behind any OpenAI-compatible server: vLLM, Ollama, llama.cpp, transformers, hosted
ones.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from lmkrag.errors import LmkragError, ReaderError, UsageError, needs
from lmkrag.readers.base import LanguageModelReader, answer_or_error, name_model
from lmkrag.readers.citations import CUT
from lmkrag.readers.local_servers import find_other_owner
from lmkrag.readers.prompt import Messages, Prompts, is_small_model
from lmkrag.results import Answer, Span
from lmkrag.system.clients import open_async_openai, open_openai

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"

_TOGETHER = 8  # questions of a batch that are asked at the same time


class OpenAIReader(LanguageModelReader):
    """Asks a chat model over HTTP; failed requests are retried ``retries`` times, with growing
    delays.
    """

    name = "openai"

    def __init__(
        self,
        *,
        model: str | None = None,
        base_url: str | None = None,
        found: bool = False,
        timeout: float = 60.0,
        retries: int = 3,
        max_tokens: int | None = None,
        temperature: float | None = None,
        prompts: Prompts | None = None,
    ) -> None:
        """Take the server and the model; the key comes from ``OPENAI_API_KEY`` only.

        Without a ``model``, the server must list only one; without ``base_url`` it is
        ``OPENAI_BASE_URL``, else the hosted service. A server that was ``found`` on this machine,
        not named by the user, gets no key, and nothing at all once another user listens there.
        ``timeout`` holds for an answer as a whole, ``retries`` of failed requests included. Raises
        UsageError: neither a server nor a key. MissingExtra: the ``openai`` extra is not installed.
        """
        with needs("openai", "openai"):
            import openai  # noqa: F401
        super().__init__(prompts)
        url = base_url or os.environ.get(URL_VARIABLE)
        key = os.environ.get(KEY_VARIABLE)
        if not url and not key:
            raise UsageError(
                f"reader 'openai': give --base-url of a server, or set {KEY_VARIABLE} "
                "for the hosted service"
            )
        self._url, self._found = url, found
        self._options: dict[str, Any] = {
            "anonymous": found,
            "api_key": "none"
            if found or not key
            else key,  # local servers ask for none, the client for some
            "timeout": timeout,
            "max_retries": retries,
        }
        self._client: Any = open_openai(url, **self._options)
        address = urlsplit(str(self._client.base_url))
        self._host = address.netloc.rpartition("@")[2]  # without a password
        self._where = (
            f"{address.scheme}://{self._host}{address.path.rstrip('/')}"
            if url
            else "the hosted service"
        )
        self._timeout = timeout
        self._model: str | None = model
        settings = {"max_tokens": max_tokens, "temperature": temperature}
        self._settings: dict[str, Any] = {
            name: value for name, value in settings.items() if value is not None
        }

    @property
    def is_small(self) -> bool:
        """Whether the model's name says that it is small."""
        with self._explained():
            return is_small_model(self._choose_model())

    @property
    def answered_by(self) -> str:
        """The model and the server that it is on: ``llama3 on 127.0.0.1:8080``."""
        return f"{name_model(self._model)} on {self._host}" if self._model else ""

    def generate(self, messages: Messages) -> Iterator[str]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="lmkrag-openai", daemon=True)
        thread.start()
        pieces = self.agenerate(messages)

        async def ask_next() -> str | None:
            return await anext(pieces, None)

        def run(call: Coroutine[Any, Any, Any]) -> Any:
            future = asyncio.run_coroutine_threadsafe(call, loop)
            try:
                return future.result()
            finally:
                future.cancel()  # an interruption

        try:
            while (piece := run(ask_next())) is not None:
                yield piece
        finally:
            # interrupted: the piece that was asked for is not cancelled yet
            with suppress(RuntimeError):
                run(pieces.aclose())
                run(loop.shutdown_asyncgens())  # the client leaves some behind
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    async def agenerate(self, messages: Messages) -> AsyncGenerator[str, None]:
        """Yield the same without blocking the event loop."""
        import openai

        deadline = time.monotonic() + self._timeout

        async def in_time(call: Awaitable[Any]) -> Any:
            return await asyncio.wait_for(call, deadline - time.monotonic())

        with self._explained():
            model = await in_time(asyncio.to_thread(self._choose_model))
            finished = None
            # A client for each answer: its connections belong to the event loop it was made in.
            async with open_async_openai(self._url, **self._options) as client:
                while True:
                    try:
                        request = {
                            "model": model,
                            "messages": messages,
                            "stream": True,
                            **self._settings,
                        }
                        stream: Any = await in_time(client.chat.completions.create(**request))
                        break
                    except openai.BadRequestError as error:
                        self._drop_refused(error)
                chunks = aiter(stream)
                while (chunk := await in_time(anext(chunks, None))) is not None:
                    # none with the usage, at the end
                    for choice in chunk.choices[:1] if chunk.choices else ():
                        finished = choice.finish_reason or finished
                        if choice.delta.content:
                            yield choice.delta.content
            if finished is None:
                raise ReaderError(f"{self._where}: broke off in the middle of an answer")
            if finished == "length":
                yield CUT

    def answer_each(
        self, questions: Sequence[str], spans: Sequence[Sequence[Span]]
    ) -> Iterator[Answer | ReaderError]:
        """Answer several questions, some of them at the same time."""
        with ThreadPoolExecutor(_TOGETHER) as pool:
            yield from pool.map(partial(answer_or_error, self.answer), questions, spans)

    def _drop_refused(self, error: Any) -> None:
        """Omit, from now on, a setting that the server refuses, as reasoning models do; else raise
        the error.
        """
        message = str(error)
        for name in sorted(self._settings):
            if name in message:
                settings = dict(self._settings)
                value = settings.pop(name)
                if name == "max_tokens" and "max_completion_tokens" in message:
                    settings["max_completion_tokens"] = value
                self._settings = settings
                return
        raise error

    def _choose_model(self) -> str:
        """The model to ask, before each answer. Raises ReaderError: the server that was found is
        another user's now.
        """
        if self._found and (owner := find_other_owner(urlsplit(self._url or "").port or 0)):
            raise ReaderError(
                f"{self._where}: another server is there now, of {owner}; run the command again"
            )
        if self._model:
            return self._model
        names: list[str] = [
            model.id for model in self._client.with_options(max_retries=0).models.list()
        ]
        if len(names) != 1:
            listed = ", ".join(names[:5]) or "none"
            raise UsageError(
                f"{self._where} has {len(names)} models ({listed}): choose one with --model"
            )
        self._model = names[0]
        return names[0]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise errors of the client and the connection as ReaderError, with one line."""
        try:
            yield
        except LmkragError:
            raise
        except Exception as error:
            raise ReaderError(f"{self._where}: {self._explain(error)}") from error

    def _explain(self, error: Exception) -> str:
        import openai

        message = " ".join(str(error).split())[:200] or type(error).__name__
        match error:
            case openai.APITimeoutError():
                return "nothing came in time; raise --timeout or look at the server"
            case TimeoutError():
                return (
                    f"took longer than {self._timeout:g} seconds; raise --timeout or look at "
                    "the server"
                )
            case openai.AuthenticationError():
                return f"refused the key; set {KEY_VARIABLE}"
            case openai.NotFoundError():
                return f"no such model or path ({message}); see --model and --base-url"
            case openai.RateLimitError():
                return f"too many requests, also after waiting ({message})"
            case openai.APIStatusError():
                return f"answered {error.status_code} ({message})"
            case openai.APIConnectionError():
                return "can't be reached; is the server running?"
            case openai.OpenAIError():
                return message
            case ValueError() | AttributeError() | TypeError() | LookupError():
                return f"sent what is no chat completion ({message})"
        # of httpx or httpx2
        event = "went silent" if "Timeout" in type(error).__name__ else "broke off"
        return f"{event} in the middle of an answer ({message})"
