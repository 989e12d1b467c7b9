"""The protocol of readers, which answer questions, and the base class of those that prompt a
language model.
"""

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Sequence,
)
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol, Self

from lmkrag.errors import ReaderError
from lmkrag.readers.citations import check_answer
from lmkrag.readers.prompt import NOT_IN_DOCUMENTS, EchoGuard, Messages, Prompts
from lmkrag.results import Answer, Span

NOT_ASKED = (
    "no language model was asked, since the passages probably do not answer; --llm always asks it"
)
"""The warning of an answer that is only the nearest passage."""

Exchange = tuple[str, str]  # a question of a conversation and its answer
_CONVERSATION_TOKENS = (
    2_000  # of the exchanges that a follow-up question is rewritten from, at most
)
_TOKEN_BYTES = 3  # of UTF-8, where only a server knows its tokens: English has four, Chinese three


class _Stream:
    """Joins the pieces of a stream to its answer, with the notes of the search before its
    warnings.
    """

    def __init__(self, pieces: Any, finish: Callable[[str], Answer]) -> None:
        self._pieces, self._finish = pieces, finish
        self._parts: list[str] = []
        self._notes: Sequence[str] = ()

    def with_notes(self, notes: Sequence[str]) -> Self:
        """Put the notes of the search before the warnings of the answer."""
        self._notes = notes
        return self

    @cached_property
    def _answer(self) -> Answer:
        return self._finish("".join(self._parts)).with_notes(self._notes)


class AnswerStream(_Stream, Iterator[str]):
    """The pieces of an answer as they come; :meth:`answer` is the whole, checked.

    Leave the ``with`` block, or call :meth:`close`, to stop the reader before the end.
    """

    def __next__(self) -> str:
        self._parts.append(next(self._pieces))
        return self._parts[-1]

    def answer(self) -> Answer:
        """Wait for the rest and return the answer, its citations checked."""
        for _ in self:
            pass
        return self._answer

    def close(self) -> None:
        """Stop the reader; nothing more comes."""
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncAnswerStream(_Stream, AsyncIterator[str]):
    """:class:`AnswerStream` for ``async for``; ``await stream.answer()`` is the whole.

    Leave the ``async with`` block, or call :meth:`aclose`, to stop the reader before the end.
    """

    @classmethod
    def begin_with(cls, begin: "Callable[[], Awaitable[AsyncAnswerStream]]") -> "AsyncAnswerStream":
        """Return a stream whose reader begins when the first piece is asked for."""
        begun: list[AsyncAnswerStream] = []

        async def pieces() -> AsyncIterator[str]:
            begun.append(await begin())
            async with begun[0] as stream:
                async for piece in stream:
                    yield piece

        return cls(pieces(), lambda text: begun[0]._finish(text).with_notes(begun[0]._notes))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        self._parts.append(await anext(self._pieces))
        return self._parts[-1]

    async def answer(self) -> Answer:
        """Wait for the rest and return the answer, its citations checked."""
        async for _ in self:
            pass
        return self._answer

    async def aclose(self) -> None:
        """Stop the reader; nothing more comes."""
        close = getattr(self._pieces, "aclose", None)
        if close is not None:
            await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Reader(Protocol):
    """Answers a question from spans, and cites them; a subclass needs a ``name`` and
    :meth:`answer`.
    """

    @property
    def name(self) -> str:
        """The name of the reader in its answers."""

    @abstractmethod
    def answer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer ``question`` from ``spans``, best first."""

    def stream(self, question: str, spans: Sequence[Span]) -> AnswerStream:
        """Answer piece by piece."""
        answer = self.answer(question, spans)
        return AnswerStream(iter([answer.text]), lambda _: answer)

    async def aanswer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.answer, question, spans)

    def astream(self, question: str, spans: Sequence[Span]) -> AsyncAnswerStream:
        """Answer piece by piece without blocking the event loop."""

        async def begin() -> AsyncAnswerStream:
            answer = await self.aanswer(question, spans)
            return AsyncAnswerStream(_say_once(answer.text), lambda _: answer)

        return AsyncAnswerStream.begin_with(begin)


def remove_thoughts(reply: str) -> str:
    """Return a reply without what a model thinks before it answers.

    >>> remove_thoughts("<think>Lamps burn oil.</think>Oil.")
    'Oil.'
    """
    return reply.rpartition("</think>")[2]


async def _say_once(text: str) -> AsyncIterator[str]:
    yield text


def answer_or_error(answer: Callable[..., Answer], *question: Any) -> Answer | ReaderError:
    """Return an answer, or the error of a reader that fails, so that other questions are still
    answered.
    """
    try:
        return answer(*question)
    except ReaderError as error:
        return error


def name_model(model: str) -> str:
    """Return a model as answers name it: of a path only the last part, since clients learn no
    folder of this machine.

    >>> name_model("/srv/models/tiny-llama"), name_model("Qwen/Qwen3-4B")
    ('tiny-llama', 'Qwen/Qwen3-4B')
    """
    return Path(model).name if model.startswith(("/", "~", ".")) else model


class LanguageModelReader(ABC):
    """A reader that prompts a language model and checks what it cites.

    ``nearest`` answers in place of the model where it calls the passages weak, None to ask the
    model all the same: see :func:`lmkrag.readers.choose.load_reader`.
    """

    name: str
    nearest: Reader | None = None

    def __init__(self, prompts: Prompts | None = None) -> None:
        """Take the prompts; defaults to the packaged ones that fit the model's size."""
        self._prompts = prompts

    @property
    def is_small(self) -> bool:
        """Whether the model is too small for the fenced layout, so that prompts default to the
        plain one.
        """
        return False

    @property
    def answered_by(self) -> str:
        """The model, and the server that it is on, as answers name it; empty where that is
        unknown.
        """
        return ""

    @property
    def prompts(self) -> Prompts:
        """The prompts in use."""
        if self._prompts is None:
            self._prompts = Prompts.load(layout="plain" if self.is_small else "fenced")
        return self._prompts

    @abstractmethod
    def generate(self, messages: Messages) -> Iterator[str]:
        """Yield what the model says, and ``citations.CUT`` after a token limit. Raises ReaderError:
        it failed.
        """

    def _generate(self, messages: Messages) -> Generator[str, None, None]:
        """The same, closed as a generator whatever :meth:`generate` returns: that stops the
        model.
        """
        yield from self.generate(messages)

    async def agenerate(self, messages: Messages) -> AsyncGenerator[str, None]:
        """Yield the same without blocking the event loop; the model stops once the generator is
        closed.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        closed = threading.Event()

        def produce() -> None:
            try:
                with contextlib.closing(self._generate(messages)) as pieces:
                    for piece in pieces:
                        if closed.is_set():
                            return
                        loop.call_soon_threadsafe(queue.put_nowait, piece)
            finally:
                with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                    loop.call_soon_threadsafe(queue.put_nowait, None)

        worker = asyncio.create_task(asyncio.to_thread(produce))
        try:
            while (piece := await queue.get()) is not None:
                yield piece
            await worker
        finally:
            closed.set()
            # else asyncio logs it
            worker.add_done_callback(lambda task: task.cancelled() or task.exception())

    def count_tokens(self, text: str) -> int | None:
        """Return how many tokens the model reads ``text`` as; None when only a server knows."""
        return None

    def answer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer ``question`` from ``spans``, best first. Raises ReaderError: the model can't be
        reached, or failed.
        """
        return self.stream(question, spans).answer()

    def answer_each(
        self, questions: Sequence[str], spans: Sequence[Sequence[Span]]
    ) -> Iterator[Answer | ReaderError]:
        """Answer several questions, each from its own spans, in order; where the model fails, yield
        the error.
        """
        for question, its_spans in zip(questions, spans, strict=True):
            yield answer_or_error(self.answer, question, its_spans)

    def stream(self, question: str, spans: Sequence[Span]) -> AnswerStream:
        """Answer piece by piece. Without passages, or with weak ones, the model is not asked."""
        unasked = self.answer_without_model(question, spans)
        if unasked:
            return AnswerStream(iter([unasked.text]), lambda _: unasked)
        shown = self.prompts.choose(spans)
        return AnswerStream(self._say(question, shown), partial(self._check, spans=shown))

    def answer_without_model(self, question: str, spans: Sequence[Span]) -> Answer | None:
        """Return an answer without the model: that nothing was found, or the nearest passage if the
        passages probably do not answer; None if the model is to be asked.
        """
        if not spans:
            return check_answer(NOT_IN_DOCUMENTS, spans, self.name)
        if self.nearest is None:
            return None
        answer = self.nearest.answer(question, spans)
        warnings = (*answer.warnings, NOT_ASKED)
        return replace(answer, warnings=warnings) if answer.label == "weak" else None

    def _check(self, text: str, spans: Sequence[Span]) -> Answer:
        """What the model said as a checked answer."""
        answer = check_answer(text, spans, self.name)
        return replace(answer, answered_by=self.answered_by)

    def _say(self, question: str, spans: Sequence[Span]) -> Iterator[str]:
        """Yield the reply; one that repeats the prompt or says nothing is asked for again, in the
        plain layout.
        """
        for messages, guard in self._attempts(question, spans):
            with contextlib.closing(self._generate(messages)) as pieces:
                for piece in pieces:
                    yield guard.feed(piece)
                    if guard.echoed:
                        break
            yield guard.rest()

    def _attempts(
        self, question: str, spans: Sequence[Span]
    ) -> Iterator[tuple[Messages, EchoGuard]]:
        """Yield prompts about spans, each with what guards its reply, until a reply says
        something.
        """
        plain = [] if self.prompts.layout == "plain" else [Prompts.load(layout="plain")]
        for prompts in (self.prompts, *plain):
            guard = EchoGuard()
            yield prompts.answer(self.shorten(question), spans), guard
            if guard.has_text:
                return

    async def aanswer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer without blocking the event loop."""
        return await self.astream(question, spans).answer()

    def astream(self, question: str, spans: Sequence[Span]) -> AsyncAnswerStream:
        """Answer piece by piece without blocking the event loop."""
        import asyncio

        async def begin() -> AsyncAnswerStream:
            unasked = await asyncio.to_thread(self.answer_without_model, question, spans)
            if unasked:
                return AsyncAnswerStream(_say_once(unasked.text), lambda _: unasked)
            # The prompts depend on the model, for which its server may have to be asked.
            shown = await asyncio.to_thread(lambda: self.prompts.choose(spans))
            return AsyncAnswerStream(self._asay(question, shown), partial(self._check, spans=shown))

        return AsyncAnswerStream.begin_with(begin)

    async def _asay(self, question: str, spans: Sequence[Span]) -> AsyncIterator[str]:
        """The same as :meth:`_say`."""
        for messages, guard in self._attempts(question, spans):
            async with contextlib.aclosing(self.agenerate(messages)) as pieces:
                async for piece in pieces:
                    yield guard.feed(piece)
                    if guard.echoed:
                        break
            yield guard.rest()

    def shorten(self, question: str) -> str:
        """Return the beginning of a question that leaves room for an answer; all of it where only a
        server knows.
        """
        return question

    def _last_that_fit(self, history: Sequence[Exchange]) -> Sequence[Exchange]:
        """The last exchanges of a conversation, as many as a prompt has room for."""
        left = _CONVERSATION_TOKENS
        for number, exchange in enumerate(reversed(history)):
            text = "\n".join(exchange)
            tokens = self.count_tokens(text)
            left -= (
                len(text.encode("utf-8", "replace")) // _TOKEN_BYTES if tokens is None else tokens
            )
            if left < 0:
                return history[len(history) - number :]
        return history

    def rewrite(self, history: Sequence[Exchange], question: str) -> str:
        """Return a follow-up question as one that stands alone, or unchanged if the reply is empty
        or too long.
        """
        history = self._last_that_fit(history)
        reply = "".join(
            self.generate(self.prompts.rewrite(history, self.shorten(question)))
        ).strip()
        return reply.splitlines()[0].strip() if reply and len(reply) < 1_000 else question
