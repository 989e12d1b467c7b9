"""A conversation about documents: follow-up questions are completed from the questions before
them.
"""

import re
from collections.abc import Sequence
from typing import Unpack

from lmkrag.engine import Engine
from lmkrag.language.keys import find_keys
from lmkrag.readers.base import AnswerStream, Exchange, LanguageModelReader, Reader
from lmkrag.readers.extractive import is_greeting
from lmkrag.remote import RemoteEngine
from lmkrag.results import Answer
from lmkrag.search.request import AskOptions, SearchRequest, show_options

_REMEMBERED = 6  # exchanges a follow-up is rewritten from
_SHORT = 3  # words of an incomplete question, at most

# How a follow-up begins, in English, German, French, Spanish and Italian.
_FOLLOWS = re.compile(
    r"(?:and|or|but|so|what about|how about|und|oder|aber|et|ou|mais|y|pero|e|ma)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(r"(?:who|whom|whose|what|which|when|where|why|how|really)\b", re.IGNORECASE)
# A question without a verb: "How often, and in one go?"
_ELLIPTIC = re.compile(
    r"(?:(?:since|until|by|for) )?(?:who|what|which|when|where|why|how(?: \w+)?)\s*(?:[,;?!.]|\Z)",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    rf"(?:{_FOLLOWS.pattern}\s+)+(?:(?:in|at|on|for|of|to|from|by|with)\s+)?", re.IGNORECASE
)
_REFERS_BACK = re.compile(
    r"\b(?:its?|he|him|his|she|her|they|them|their|this|these|those)\b|\b(?:that|there)(?=\W*$)"
    r"|\b(?:is|was|does|did|can|will|for|of|about|like|with|than|after|before) that\b",
    re.IGNORECASE,
)
"""English words that refer to something named before; not "is there ..." and "the form that ...".
"""


def carry_over(before: str, question: str) -> str:
    """Return a follow-up completed from the question before it.

    A name, number or code replaces the last one of its kind in that question. Otherwise that
    question is added in brackets.

    Args:
        before: the question before, which is complete.
        question: the follow-up.
    """
    subject = _ABOUT.sub("", question).strip(" ?.!")
    alike = [key for key in find_keys(before) if key[0].isdigit() == subject[:1].isdigit()]
    is_key = find_keys(f"what {subject}") == (subject,) and not _ASKS.match(subject)
    if alike and is_key:
        head, _, tail = before.rpartition(alike[-1])
        return head + subject + tail
    return f"{question} ({before})"


def complete_question(history: Sequence[str], question: str) -> str:
    """Return a question completed from those before it.

    A question is incomplete if it begins like a follow-up, has a pronoun or no verb, or has at most
    three words.

    Args:
        history: the questions before it, oldest first.
        question: the question.
    """
    topic = ""  # the last complete question
    for text in [*history, question]:
        whole = text
        if is_greeting(text):
            continue
        is_incomplete = (
            _FOLLOWS.match(text)
            or _ELLIPTIC.match(text)
            or _REFERS_BACK.search(text)
            or len(text.split()) <= _SHORT
        )
        if topic and is_incomplete:
            whole = carry_over(topic, text)
        # Where the question only had its topic added, the topic stays the earlier one.
        if whole == text or not whole.startswith(text):
            topic = whole
    return whole


class Conversation:
    """Asks an engine question after question.

    A language model rewrites a follow-up into a question that stands alone before the search.
    Without one, or with a small one, an incomplete question is searched with the question before
    it.

    >>> conversation = Conversation(engine, reader=reader)  # doctest: +SKIP
    >>> conversation.ask("Who approves leave?").text  # doctest: +SKIP
    >>> conversation.ask("And for how long?").text  # doctest: +SKIP
    """

    @show_options(AskOptions)
    def __init__(
        self,
        engine: Engine | RemoteEngine,
        *,
        reader: Reader | None = None,
        **options: Unpack[AskOptions],
    ) -> None:
        """Begin a conversation.

        Args:
            engine: an open engine, on this machine or behind a server.
            reader: the reader that answers; None for the best passages themselves.
            options: the options of searches: see :meth:`lmkrag.Engine.ask`.

        Raises:
            UsageError: an option is unknown or out of range.
        """
        SearchRequest(**options)  # wrong options are refused now, not at the first question
        self._engine, self._reader, self._options = engine, reader, options
        self._history: list[Exchange] = []

    @property
    def history(self) -> Sequence[Exchange]:
        """The questions as asked, and the texts of their answers, oldest first."""
        return tuple(self._history)

    def standalone(self, question: str) -> str:
        """Return a question in the form in which it is searched."""
        return make_standalone(self._reader, self._history, question)

    def ask(self, question: str) -> Answer:
        """Answer the next question, and remember it.

        Raises:
            UsageError: the question is blank.
            ReaderError: the reader failed.
        """
        return self.remember(question, self.stream(question).answer())

    def stream(self, question: str) -> AnswerStream:
        """Answer the next question piece by piece; call :meth:`remember` with the whole answer."""
        return self._engine.ask_stream(
            self.standalone(question), reader=self._reader, **self._options
        )

    def remember(self, question: str, answer: Answer) -> Answer:
        """Keep an exchange for the questions that follow, and return the answer."""
        if not is_greeting(question):
            self._history.append((question, answer.text))
        return answer

    def forget(self) -> None:
        """Forget all questions and answers."""
        self._history.clear()


def make_standalone(reader: Reader | None, history: Sequence[Exchange], question: str) -> str:
    """Return a follow-up question as one that stands alone.

    A large language model rewrites it; without one it is completed by :func:`complete_question`.

    Args:
        reader: the reader that answers; None for none.
        history: questions and answers before it, oldest first.
        question: the question.
    """
    is_follow_up = history and not is_greeting(question)
    if (
        is_follow_up
        and isinstance(reader, LanguageModelReader)
        and reader.prompts.layout == "fenced"
    ):
        return reader.rewrite(history[-_REMEMBERED:], question)
    return complete_question([earlier for earlier, _ in history], question)
