"""Find nothing where the best passages probably do not answer."""

from lmkrag.evidence.passes import SearchContext
from lmkrag.readers.extractive import ExtractiveReader
from lmkrag.results import ABSTAINED, SpanList


def abstain(spans: SpanList, context: SearchContext) -> SpanList:
    """Return no results if it is less probable that they answer than the request wants."""
    least = context.request.abstain_below
    if least is None or not spans:
        return spans
    confidence = ExtractiveReader().estimate(context.question.text, spans)
    if confidence >= least:
        return spans
    return SpanList(notes=[*spans.notes, ABSTAINED], confidence=confidence)
