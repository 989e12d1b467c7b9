"""Prompts: templates in files, and layouts of spans whose borders no document can forge."""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import Literal, Self

from lmkrag.errors import UsageError
from lmkrag.rendering.quoting import quote_lines
from lmkrag.results import Context, Span

# a conversation as chat models take it: ``{"role": ..., "content": ...}``
Messages = list[dict[str, str]]
NOT_IN_DOCUMENTS = (
    "NOT IN THESE DOCUMENTS"  # the reply that prompts ask for when the spans do not answer
)
Layout = Literal["fenced", "plain"]
"""The layout of passages in a prompt, whose borders no document can forge.

``fenced``: between lines with a key. ``plain``: under a number and the source, with ``>`` before
each line of the text, for small models, which repeat keys instead of answering.
"""

MAX_SMALL_MODEL = (
    1.5e9  # parameters of a small model, at most: it gets the plain layout and a few passages
)
_SMALL_PASSAGES = 3
_SIZE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)([mb])(?![a-z])", re.IGNORECASE)
_BORDER = re.compile(r"(?:<<<)?\bSPAN \d+ [0-9a-f]{12}\b")
_BORDER_BEGUN = re.compile(
    r"(?:<{1,3}|(?:<<<)?\bS(?:P(?:A(?:N(?: (?:\d+(?: [0-9a-f]{0,12})?)?)?)?)?)?)\Z"
)
_PLACEHOLDERS = {
    "system": frozenset[str](),
    "answer": frozenset({"key", "spans", "question"}),
    "rewrite": frozenset({"conversation", "question"}),
    "synthesise": frozenset({"key", "background", "sentences"}),
}


def is_small_model(name: str) -> bool:
    """Return whether a model's name says that it is small.

    >>> is_small_model("smollm2:135m"), is_small_model("Qwen/Qwen3-4B"), is_small_model("gpt-5")
    (True, False, False)
    """
    sizes = [
        float(number) * (1e6 if unit in "mM" else 1e9)
        for number, unit in _SIZE.findall(name.rpartition("/")[2])
    ]
    return bool(sizes) and max(sizes) <= MAX_SMALL_MODEL


class EchoGuard:
    """Ends a reply that repeats a border of the prompt. State: ``echoed``, ``has_text``, and text
    that is held back.
    """

    def __init__(self) -> None:
        self.echoed = self.has_text = False
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take the next piece, and return the text to show, without what may be the beginning of a
        border.
        """
        text = self._held + piece
        border = _BORDER.search(text)
        self.echoed = border is not None
        start = border or _BORDER_BEGUN.search(text)
        end = start.start() if start else len(text)
        self._held = "" if self.echoed else text[end:]
        self.has_text = self.has_text or bool(text[:end].strip())
        return text[:end]

    def rest(self) -> str:
        """Return the text that was held back, at the end of the reply."""
        self.has_text = self.has_text or bool(self._held.strip())
        return self._held


@dataclass(frozen=True, slots=True)
class Prompts:
    """The templates ``system``, ``answer``, ``rewrite`` and ``synthesise`` and the layout of
    passages.
    """

    system: Template
    templates: dict[str, Template]
    layout: Layout

    @classmethod
    def load(cls, folder: Path | None = None, *, layout: Layout = "fenced") -> Self:
        """Read the packaged templates of a layout, those of ``folder`` in their place, or raise
        UsageError.
        """
        if folder is not None and not folder.is_dir():
            raise UsageError(
                f"{folder}: no such folder of prompts; 'small' names the prompts for small models"
            )
        packaged = Path(__file__).with_name("prompts")
        folders = [
            *filter(None, [folder]),
            *([packaged / "plain"] if layout == "plain" else []),
            packaged,
        ]
        templates = {}
        for name, placeholders in _PLACEHOLDERS.items():
            if layout == "plain" and name == "answer":
                placeholders = placeholders - {"key"}
            path = next(path for each in folders if (path := each / f"{name}.txt").is_file())
            try:
                template = Template(path.read_text("utf-8-sig"))
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"{path}: can't be read as UTF-8 ({error})") from error
            if not template.is_valid() or set(template.get_identifiers()) != placeholders:
                names = ", ".join(f"${word}" for word in sorted(placeholders)) or "none"
                raise UsageError(
                    f"{path}: its placeholders must be {names} (a dollar sign itself is $$)"
                )
            templates[name] = template
        return cls(templates.pop("system"), templates, layout)

    def choose(self, spans: Sequence[Span]) -> Sequence[Span]:
        """Return the spans that a model is shown: all of them, or the best few for a small
        model.
        """
        return spans[:_SMALL_PASSAGES] if self.layout == "plain" else spans

    def answer(self, question: str, spans: Sequence[Span]) -> Messages:
        """Ask ``question`` about ``spans``, numbered from 1."""
        key = _key(question, spans)
        shown = lay_out_plainly(spans) if self.layout == "plain" else lay_out(spans, key)
        content = self._fill("answer", key=key, spans=shown, question=question)
        return [
            {"role": "system", "content": self.system.substitute().strip()},
            {"role": "user", "content": content},
        ]

    def rewrite(self, history: Sequence[tuple[str, str]], question: str) -> Messages:
        """Ask for a follow-up as one that stands alone; ``history`` is (question, answer), oldest
        first.
        """
        turns = [
            line
            for earlier, answer in history
            for line in (f"User: {' '.join(earlier.split())}", "Assistant:", *quote_lines(answer))
        ]
        conversation = "\n".join(turns)
        return [
            {
                "role": "user",
                "content": self._fill("rewrite", conversation=conversation, question=question),
            }
        ]

    def synthesise(self, background: str, sentences: str) -> Messages:
        """Ask for a question about ``background`` that ``sentences`` of it answer."""
        key = border_key([background, sentences])
        content = self._fill("synthesise", key=key, background=background, sentences=sentences)
        return [{"role": "user", "content": content}]

    def _fill(self, name: str, **values: str) -> str:
        return self.templates[name].substitute(values).strip()


def build_context(
    question: str,
    spans: Sequence[Span],
    *,
    budget: int,
    count_tokens: Callable[[str], int],
    layout: Layout = "fenced",
) -> Context:
    """Return spans as a model sees them, the last left out while above the budget. Raises
    UsageError: none fits.
    """
    shown = list(spans)
    while True:
        text = (
            lay_out_plainly(shown) if layout == "plain" else lay_out(shown, _key(question, shown))
        )
        tokens = count_tokens(text)
        if tokens <= budget:
            return Context(text, tuple(shown), tokens)
        shown.pop()
        if not shown:
            raise UsageError(
                f"{budget} tokens hold no span with its source: the best one takes {tokens}"
            )


def framed_cost(count_tokens: Callable[[str], int], layout: Layout) -> Callable[[int, Span], int]:
    """Return a function that counts the tokens of a span with its frame in a prompt, by its
    number.
    """
    key = border_key([])  # as long as any other

    def cost(number: int, span: Span) -> int:
        framed = (
            lay_out_plainly([span], number) if layout == "plain" else frame_span(number, span, key)
        )
        return count_tokens(framed + "\n\n") if span.text else count_tokens(span.text)

    return cost


def _key(question: str, spans: Sequence[Span]) -> str:
    sources = (span.doc_id + span.section + span.header for span in spans)
    return border_key([question, *(span.text for span in spans), *sources])


def lay_out(spans: Sequence[Span], key: str) -> str:
    """Return spans between borders, in order inside each document, and documents by their best
    span.
    """
    rank: dict[str, int] = {}
    for span in spans:
        rank.setdefault(span.doc_id, len(rank))
    order = sorted(range(len(spans)), key=lambda i: (rank[spans[i].doc_id], spans[i].start))
    return "\n\n".join(frame_span(index + 1, spans[index], key) for index in order)


def lay_out_plainly(spans: Sequence[Span], first: int = 1) -> str:
    """Return spans best first, each under its number and source, its lines quoted."""
    return "\n\n".join(
        "\n".join(
            [
                f"[{number}] {describe_source(span)}",
                *quote_lines(span.header),
                *quote_lines(span.text),
            ]
        )
        for number, span in enumerate(spans, first)
    )


def describe_source(span: Span) -> str:
    """Return a span's document, section and page in one line."""
    parts = [
        " ".join(span.doc_id.split()),
        " ".join(span.section.split()),
        f"page {span.page}" if span.page else "",
    ]
    return ", ".join(filter(None, parts))


def frame_span(number: int, span: Span, key: str) -> str:
    """Return a span between its borders, with its number, source, section and page."""
    source = (
        f"source={json.dumps(span.doc_id, ensure_ascii=False)} characters={span.start}-{span.end}"
    )
    if span.headings:
        source += f" section={json.dumps(span.section, ensure_ascii=False)}"
    page = f" page={span.page}" if span.page is not None else ""
    header = f"{span.header}\n[…]\n" if span.header else ""
    return f"<<<SPAN {number} {key} {source}{page}\n{header}{span.text}\nSPAN {number} {key}>>>"


@cache
def _draw_secret() -> bytes:
    return secrets.token_bytes(32)


def border_key(texts: Sequence[str]) -> str:
    """Return a key that is in none of the texts and that no document can guess: a hash of all of
    them with a secret.

    The secret is drawn once in a process, so that a process gives the same prompt for the same
    texts.
    """
    together = "\0".join(texts)
    key = hashlib.blake2b(
        together.encode("utf-8", "surrogatepass"), key=_draw_secret()
    ).hexdigest()[:12]
    while key in together:
        key = hashlib.sha256(key.encode()).hexdigest()[:12]
    return key
