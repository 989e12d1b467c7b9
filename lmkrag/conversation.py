"""A conversation about documents: follow-up questions are understood from what was asked before."""

from collections.abc import Sequence
from typing import Unpack

from lmkrag.engine import Engine
from lmkrag.readers.base import AnswerStream, Exchange, LanguageModelReader, Reader
from lmkrag.retrieval.request import AskOptions, SearchRequest
from lmkrag.types import Answer

_REMEMBERED = 6  # exchanges a follow-up is rewritten from


class Conversation:
    """Asks an engine question after question.

    A language model rewrites a follow-up into a question that stands alone before anything is searched; without one,
    the last question and the new one are searched together.

    >>> conversation = Conversation(engine, reader=reader)  # doctest: +SKIP
    >>> conversation.ask("Who approves leave?").text  # doctest: +SKIP
    >>> conversation.ask("And for how long?").text  # doctest: +SKIP
    """

    def __init__(self, engine: Engine, *, reader: Reader | None = None, **options: Unpack[AskOptions]) -> None:
        """Take an open engine, what answers, and how to search (see :meth:`lmkrag.Engine.ask`)."""
        SearchRequest(**options)  # wrong options are refused now, not at the first question
        self._engine = engine
        self._reader = reader
        self._options = options
        self._history: list[Exchange] = []

    @property
    def history(self) -> Sequence[Exchange]:
        """Questions as asked and their answers, oldest first."""
        return tuple(self._history)

    def standalone(self, question: str) -> str:
        """Return ``question`` as it is searched for."""
        if not self._history:
            return question
        if isinstance(self._reader, LanguageModelReader):
            return self._reader.rewrite(self._history[-_REMEMBERED:], question)
        return f"{self._history[-1][0]} {question}"

    def ask(self, question: str) -> Answer:
        """Answer the next question, and remember it."""
        return self.remember(question, self.stream(question).answer())

    def stream(self, question: str) -> AnswerStream:
        """Answer piece by piece; call :meth:`remember` with the whole."""
        return self._engine.ask_stream(self.standalone(question), reader=self._reader, **self._options)

    def remember(self, question: str, answer: Answer) -> Answer:
        """Keep an exchange for the questions that follow, and return the answer."""
        self._history.append((question, answer.text))
        return answer

    def forget(self) -> None:
        """Begin anew."""
        self._history.clear()
