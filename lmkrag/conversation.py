"""A conversation about documents: follow-up questions are understood from what was asked before."""

import re
from collections.abc import Sequence
from typing import Any, Unpack

from lmkrag.engine import Engine
from lmkrag.index.words.exact import find_keys
from lmkrag.readers.base import AnswerStream, Exchange, LanguageModelReader, Reader
from lmkrag.readers.extractive import ExtractiveReader, is_greeting
from lmkrag.remote import RemoteEngine
from lmkrag.results import Answer, weigh_evidence
from lmkrag.search.request import DEFAULT_CONTEXT, AskOptions, SearchRequest, show_options

_REMEMBERED = 6  # exchanges a follow-up is rewritten from

_FOLLOWS = re.compile(r"(?:and|or|but|what about|how about)\b", re.IGNORECASE)
"""What a follow-up begins with in English."""

_ABOUT = re.compile(rf"(?:{_FOLLOWS.pattern}\s+)+(?:(?:in|at|on|for|of|to|from|by|with)\s+)?", re.IGNORECASE)


def carry_over(before: str, question: str) -> str:
    """Return a follow-up with what it leaves out, taken from the question before it.

    A name, number or code replaces the last one of its kind. Otherwise the question before is added in brackets.

    >>> carry_over("What is the fare to Bergen?", "And to Oslo?")
    'What is the fare to Oslo?'
    >>> carry_over("How do I request leave?", "And who signs it off?")
    'And who signs it off? (How do I request leave?)'
    """
    subject = _ABOUT.sub("", question).strip(" ?.!")
    keys = find_keys(f"what {subject}")
    if keys == (subject,):
        kind = subject[0].isdigit()
        replaced = [key for key in find_keys(before) if key[0].isdigit() == kind]
        if replaced:
            head, _, tail = before.rpartition(replaced[-1])
            return head + subject + tail
    return f"{question} ({before})"


def list_readings(before: str, title: str, question: str) -> list[str]:
    """Return what a follow-up may ask: with the title of the document quoted before, and alone or with what it omits.

    >>> list_readings("How do I request leave?", "Handbook", "Who signs it off?")
    ['Who signs it off?', 'Who signs it off? (Handbook)']
    """
    titled = f"{question} ({title})"
    return [titled, carry_over(before, question)] if _FOLLOWS.match(question) else [question, titled]


class Conversation:
    """Asks an engine question after question.

    A language model rewrites a follow-up into a question that stands alone before anything is searched. Without one, or
    with a small one, a follow-up is searched as it is, with the title of the document that was quoted last, and, where
    it begins like one ("And in Oslo?"), with the question before it; the best supported of them is asked. Sentences
    that were just quoted are not quoted again.

    >>> conversation = Conversation(engine, reader=reader)  # doctest: +SKIP
    >>> conversation.ask("Who approves leave?").text  # doctest: +SKIP
    >>> conversation.ask("And for how long?").text  # doctest: +SKIP
    """

    @show_options(AskOptions)
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
        self._topic = ""  # the last question that leaves nothing out

    @property
    def history(self) -> Sequence[Exchange]:
        """Questions as asked and their answers, oldest first."""
        return tuple(self._history)

    def standalone(self, question: str) -> str:
        """Return ``question`` as it is searched for."""
        if not self._history or is_greeting(question):
            return question
        if isinstance(self._reader, LanguageModelReader) and self._reader.prompts.layout == "fenced":
            return self._reader.rewrite(self._history[-_REMEMBERED:], question)
        if self._last is None:
            return question
        quoted = self._last.citations[0].span if self._last.citations else self._last.spans[0]
        return max(list_readings(self._topic or question, quoted.title, question), key=self._weigh)

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
        standalone = self.standalone(question)
        # Where the question only had its topic added, the topic stays the earlier one.
        is_whole = standalone == question or not standalone.startswith(question)
        if is_whole and not is_greeting(question):
            self._topic = standalone
        return self._engine.ask_stream(standalone, reader=reader, **self._options)

    def remember(self, question: str, answer: Answer) -> Answer:
        """Keep an exchange for the questions that follow, and return the answer."""
        quotes = answer.citations or (answer.found and answer.spans)
        if quotes:  # else the conversation is still about what was quoted last
            self._last = answer
        if not is_greeting(question):
            self._history.append((question, answer.text))
        return answer

    def forget(self) -> None:
        """Begin anew."""
        self._history.clear()
        self._last = None
        self._topic = ""
