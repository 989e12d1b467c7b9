"""A conversation about documents: follow-up questions are understood from what was asked before."""

from collections.abc import Sequence
from typing import Any, Unpack

from lmkrag.engine import Engine
from lmkrag.readers.base import AnswerStream, Exchange, LanguageModelReader, Reader
from lmkrag.readers.extractive import ExtractiveReader, weigh_evidence
from lmkrag.remote import RemoteEngine
from lmkrag.search.request import DEFAULT_CONTEXT, AskOptions, SearchRequest
from lmkrag.types import Answer

_REMEMBERED = 6  # exchanges a follow-up is rewritten from


class Conversation:
    """Asks an engine question after question.

    A language model rewrites a follow-up into a question that stands alone before anything is searched. Without one, a
    follow-up is searched as it is and with the title of the document that was quoted last, and what more speaks for is
    taken; sentences that were just quoted are not quoted again.

    >>> conversation = Conversation(engine, reader=reader)  # doctest: +SKIP
    >>> conversation.ask("Who approves leave?").text  # doctest: +SKIP
    >>> conversation.ask("And for how long?").text  # doctest: +SKIP
    """

    def __init__(
        self, engine: Engine | RemoteEngine, *, reader: Reader | None = None, **options: Unpack[AskOptions]
    ) -> None:
        """Take an open engine, what answers, and how to search (see :meth:`lmkrag.Engine.ask`)."""
        SearchRequest(**options)  # wrong options are refused now, not at the first question
        self._engine = engine
        self._reader = reader
        self._options = options
        self._history: list[Exchange] = []
        self._last: Answer | None = None

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
        if self._last is None or not self._last.citations:
            return question
        about = f"{question} ({self._last.citations[0].span.title})"
        return max((about, question), key=self._weigh)

    def _weigh(self, question: str) -> float:
        options: dict[str, Any] = dict(self._options)
        most = options.pop("context_tokens", None) or DEFAULT_CONTEXT
        return weigh_evidence(self._engine.search(question, max_tokens=most, **options))

    def ask(self, question: str) -> Answer:
        """Answer the next question, and remember it."""
        return self.remember(question, self.stream(question).answer())

    def stream(self, question: str) -> AnswerStream:
        """Answer piece by piece; call :meth:`remember` with the whole."""
        reader = self._reader or ExtractiveReader(quoted=self._last.citations if self._last else ())
        return self._engine.ask_stream(self.standalone(question), reader=reader, **self._options)

    def remember(self, question: str, answer: Answer) -> Answer:
        """Keep an exchange for the questions that follow, and return the answer."""
        self._history.append((question, answer.text))
        self._last = answer
        return answer

    def forget(self) -> None:
        """Begin anew."""
        self._history.clear()
        self._last = None
