"""As many results as a search may have."""

from lmkrag import Document, Engine
from lmkrag.search.request import MOST_RESULTS


def test_the_most_results_are_found(tmp_path, encoder):
    lines = "\n\n".join(f"The ferry {number} is green." for number in range(7_000))
    with Engine.open(tmp_path, encoder=encoder, create=True) as engine:
        engine.add(Document("ferries", text=lines))
        spans = engine.search("ferry", level="sentence", top_k=MOST_RESULTS, rerank=False)
    assert len({span.start for span in spans}) == len(spans) > 6_144
