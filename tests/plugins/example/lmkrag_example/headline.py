"""A reader that answers with the first words of the best passage, in capitals."""

from collections.abc import Sequence

from lmkrag import Answer, Citation, Span
from lmkrag.readers.base import Reader


class HeadlineReader(Reader):
    """Answers in as many words as ``max_tokens`` says."""

    name = "headline"

    def __init__(self, max_tokens: int = 4) -> None:
        """Set the number of words."""
        self.words = max_tokens

    def answer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Return the first words of the best passage."""
        best = spans[0]
        quote = " ".join(best.text.split(" ")[: self.words])
        citation = Citation(1, best, quote, best.start, best.start + len(quote))
        return Answer(f"{quote.upper()} [1]", (citation,), tuple(spans), self.name, found=True)
