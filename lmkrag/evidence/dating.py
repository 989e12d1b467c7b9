"""Say from when results are."""

from dataclasses import replace

from lmkrag.evidence.passes import SearchContext
from lmkrag.results import SpanList
from lmkrag.search.dating import date_passage


def date_spans(spans: SpanList, context: SearchContext) -> SpanList:
    """Give each result the date of its best sentence, and say where it was found."""
    rows = context.snapshot.find_documents({span.doc_id for span in spans})
    views = {doc_id: context.snapshot.view_document(row.id) for doc_id, row in rows.items()}
    dated = []
    for span in spans:
        found = date_passage(views[span.doc_id], span.hits[0].ordinal, span.headings)
        dated.append(replace(span, date=found.date, date_source=found.source))
    return SpanList(dated, spans.notes)
