"""What a language model is told: templates in files, and spans laid out so that none can speak for us."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Self

from lmkrag.errors import UsageError
from lmkrag.types import Context, Span

Messages = list[dict[str, str]]
"""A conversation as chat models take it: ``{"role": ..., "content": ...}``."""

NOT_IN_DOCUMENTS = "NOT IN THESE DOCUMENTS"
"""What the model is told to say when the spans do not answer."""

_PLACEHOLDERS = {
    "system": frozenset[str](),
    "answer": frozenset({"key", "spans", "question"}),
    "rewrite": frozenset({"conversation", "question"}),
    "synthesise": frozenset({"key", "background", "sentences"}),
}


@dataclass(frozen=True, slots=True)
class Prompts:
    """The templates: ``system.txt``, ``answer.txt``, ``rewrite.txt`` and ``synthesise.txt``."""

    system: Template
    templates: dict[str, Template]

    @classmethod
    def load(cls, folder: Path | None = None) -> Self:
        """Read the packaged templates, those of ``folder`` taking their place by name.

        Raises:
            UsageError: no such folder, or a template that lacks or misspells a placeholder.
        """
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{folder}: no such folder of prompts")
        found = {}
        for name, wanted in _PLACEHOLDERS.items():
            own = folder / f"{name}.txt" if folder is not None else None
            path = own if own is not None and own.is_file() else Path(__file__).with_name("prompts") / f"{name}.txt"
            template = Template(path.read_text("utf-8-sig"))
            if not template.is_valid() or set(template.get_identifiers()) != wanted:
                names = ", ".join(f"${word}" for word in sorted(wanted)) or "none"
                raise UsageError(f"{path}: its placeholders must be {names} (a dollar sign itself is $$)")
            found[name] = template
        return cls(found.pop("system"), found)

    def answer(self, question: str, spans: Sequence[Span]) -> Messages:
        """Ask ``question`` about ``spans``, numbered from 1."""
        key = _key(question, spans)
        return self._chat("answer", key=key, spans=lay_out(spans, key), question=question)

    def rewrite(self, history: Sequence[tuple[str, str]], question: str) -> Messages:
        """Ask for a follow-up as one that stands alone; ``history`` is (question, answer), oldest first."""
        conversation = "\n".join(f"User: {asked}\nAssistant: {answered}" for asked, answered in history)
        return [{"role": "user", "content": self._fill("rewrite", conversation=conversation, question=question)}]

    def synthesise(self, background: str, sentences: str) -> Messages:
        """Ask for a question about ``background`` that ``sentences`` of it answer."""
        key = border_key([background, sentences])
        content = self._fill("synthesise", key=key, background=background, sentences=sentences)
        return [{"role": "user", "content": content}]

    def _chat(self, name: str, **values: str) -> Messages:
        return [
            {"role": "system", "content": self.system.substitute().strip()},
            {"role": "user", "content": self._fill(name, **values)},
        ]

    def _fill(self, name: str, **values: str) -> str:
        return self.templates[name].substitute(values).strip()


def build_context(question: str, spans: Sequence[Span], *, budget: int, count_tokens: Callable[[str], int]) -> Context:
    """Return spans as :meth:`Prompts.answer` shows them to a model, the last left out while all are above the budget.

    Raises:
        UsageError: there are spans, and the budget holds none of them.
    """
    kept = list(spans)
    while True:
        text = lay_out(kept, _key(question, kept))
        tokens = count_tokens(text)
        if tokens <= budget:
            return Context(text, tuple(kept), tokens)
        kept.pop()
        if not kept:
            raise UsageError(f"{budget} tokens hold no span with its source: give at least {tokens}")


def framed_cost(count_tokens: Callable[[str], int]) -> Callable[[int, Span], int]:
    """Return a function of a span and its number that counts its tokens and those of its frame in a prompt."""
    key = border_key([])  # as long as any other

    def cost(number: int, span: Span) -> int:
        return count_tokens(frame_span(number, span, key) + "\n\n") if span.text else count_tokens(span.text)

    return cost


def _key(question: str, spans: Sequence[Span]) -> str:
    return border_key(
        [question, *(span.text for span in spans), *(span.doc_id + span.section + span.header for span in spans)]
    )


def lay_out(spans: Sequence[Span], key: str) -> str:
    """Return spans between their borders, numbered as given, documents by their best span, in document order inside."""
    rank: dict[str, int] = {}
    for span in spans:
        rank.setdefault(span.doc_id, len(rank))
    order = sorted(range(len(spans)), key=lambda i: (rank[spans[i].doc_id], spans[i].start))
    return "\n\n".join(frame_span(index + 1, spans[index], key) for index in order)


def frame_span(number: int, span: Span, key: str) -> str:
    """Return a span between its borders, with its number, source, section and page."""
    source = f"source={json.dumps(span.doc_id, ensure_ascii=False)} characters={span.start}-{span.end}"
    if span.headings:
        source += f" section={json.dumps(span.section, ensure_ascii=False)}"
    page = f" page={span.page}" if span.page is not None else ""
    header = f"{span.header}\n[…]\n" if span.header else ""
    return f"<<<SPAN {number} {key} {source}{page}\n{header}{span.text}\nSPAN {number} {key}>>>"


def border_key(texts: Sequence[str]) -> str:
    """Return a word that stands in none of the texts, the same for the same ones.

    A document that forges a border must know its key, which depends on the question and on every other span.
    """
    together = "\0".join(texts)
    key = hashlib.sha256(together.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    while key in together:
        key = hashlib.sha256(key.encode()).hexdigest()[:12]
    return key
