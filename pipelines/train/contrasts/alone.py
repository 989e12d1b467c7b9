"""A question with what answers it, with the same about something else, and with what is beside."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipelines.train.contrasts.exchange import exchange, find_keys, join
from pipelines.train.contrasts.passages import (
    Contrast,
    cut_beside,
    cut_passage,
    leave_out,
    load_set,
)

SETS = {
    "squad": 3_000,
    "squadshifts_wiki": 3_000,
    "covidqa": 800,
    "nq_oracle": 1_500,
    "selqa": 1_500,
    "clapnq": 215,
    "qed": 800,
    "fairytaleqa_sent": 1_500,
    "lfrqa": 1_000,
    "tatqa_text": 700,
    "lihua_train": 209,
    "qamr": 1_500,
    "pubmedqa": 300,
}
"""Sets, and questions of each."""

# sets whose evidence is a short answer
SHORT = {"squad", "squadshifts_wiki", "covidqa", "policyqa"}
_JOINED = 0.6  # of the passages about something else also stand in one passage with the answer


def ask_alone(name: str, data: Path, count: int, rng: np.random.Generator) -> Iterator[Contrast]:
    """Yield questions of a set with what answers, and passages that differ from it."""
    documents, queries = load_set(data / name)
    keys = {key for query in queries for key in find_keys(query.query)}
    names = sorted(key for key in keys if key[0].isalpha() and len(key) > 2)
    chosen = [queries[number] for number in rng.permutation(len(queries))[:count]]
    for query in sorted(chosen, key=lambda query: query.doc_id):
        document = documents[query.doc_id]
        passage, inside = cut_passage(document, query.spans, rng, is_short=name in SHORT)
        if not passage.answers:
            continue
        beside = cut_beside(document, inside, rng)
        passages = [passage]
        other = exchange(query.query, passage, names, rng) if names else None
        if other and rng.random() < _JOINED:
            passages.append(join(passage, other, rng))
        passages += [other] if other else []
        passages += leave_out(passage) + beside
        yield Contrast(f"{name}/{query.query_id}", query.query, tuple(passages))
