"""Passages to train a re-ranker with: those that a search would let it read, and their sentences that answer."""

import gzip
import json
import logging
from collections.abc import Iterator, Sequence

import numpy as np
from mined_passages import ANSWERS, NO_ANSWER, UNKNOWN, MinedPassage, MinedQuestion, read_mined
from reranker_settings import MiningSettings, RerankerSet

from lmkrag.arrays import Ids, Mask, Scores
from lmkrag.encoder.index_encoder import IndexEncoders
from lmkrag.encoder.landmark import LandmarkEncoder
from lmkrag.engine import Engine
from lmkrag.evaluation.dataset import Query, load_dataset
from lmkrag.index.live import Selection
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.store import IndexStore
from lmkrag.index.view import DocumentView
from lmkrag.language.terms import query_words
from lmkrag.search.candidates import Candidates, SearchQuery, gather_matches, prefer_named_document, score_matches
from lmkrag.search.rerank import find_passage, find_positions
from lmkrag.search.results import Views
from lmkrag.search.weights import WEIGHTS

log = logging.getLogger(__name__)

_AT_A_TIME = 32  # questions encoded together
_RESULTS = 40
_HALF = 0.5  # a sentence answers if so much of it is evidence, or if it has so much of the evidence
_BESIDE = 2  # sentences before and after that of a short answer which are not used as negatives


def mine_passages(settings: MiningSettings, chosen: RerankerSet) -> list[MinedQuestion]:
    """Return the mined questions of a set, which are kept in the run's folder."""
    folder = settings.resolve(settings.out) / "mined"
    path = folder / f"{chosen.path.replace('/', '_')}.jsonl.gz"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        with gzip.open(partial, "wt", encoding="utf-8") as file:
            for question in _mine(settings, chosen):
                file.write(json.dumps(question) + "\n")
        partial.rename(path)
    return read_mined(path)


def _mine(settings: MiningSettings, chosen: RerankerSet) -> Iterator[MinedQuestion]:
    dataset = load_dataset(settings.resolve(settings.data) / chosen.path)
    rng = np.random.default_rng(settings.seed)
    labelled = {query.doc_id for query in dataset.queries if query.spans}
    documents, characters, skipped = [], 0, 0
    for number in rng.permutation(len(dataset.documents)):
        document = dataset.documents[number]
        if document.doc_id not in labelled:
            continue
        if chosen.skip and skipped <= chosen.skip:
            skipped += len(document.text)
        elif characters <= chosen.characters:
            documents.append(document)
            characters += len(document.text)
    index = settings.resolve(settings.out) / "indexes" / chosen.path
    log.info("set %s: indexing %d documents of %d characters", chosen.path, len(documents), characters)
    with Engine.open(index, create=True, encoder=LandmarkEncoder.load(settings.base, overlap=0.0)) as engine:
        engine.add(documents, progress=False)
    known = {document.doc_id for document in documents}
    queries = [query for query in dataset.queries if query.spans and query.doc_id in known]
    queries = [queries[number] for number in rng.permutation(len(queries))[: chosen.questions]]
    store = IndexStore.open(index)
    encoders = IndexEncoders(index, store.encoder)
    try:
        with store.reader.snapshot() as snapshot:
            for start in range(0, len(queries), _AT_A_TIME):
                part = queries[start : start + _AT_A_TIME]
                vectors = encoders.encode_questions([query.query for query in part])
                for query, vector in zip(part, vectors, strict=True):
                    mined = _mine_question(snapshot, query, vector, chosen)
                    if mined is not None:
                        yield mined
    finally:
        store.close()


def _mine_question(snapshot: Snapshot, query: Query, vector: np.ndarray, chosen: RerankerSet) -> MinedQuestion | None:
    row = snapshot.find_document(query.doc_id)
    assert row is not None
    allowed = Selection(snapshot.documents, snapshot.documents.find(np.array([row.id]))) if chosen.within else None
    words = query_words(query.query, snapshot.totals.languages)
    search_query = SearchQuery(vector, words, top_k=_RESULTS, allowed=allowed)
    matches = gather_matches(snapshot, search_query)
    if not len(matches.sentences):
        return None
    candidates = score_matches(snapshot, search_query, prefer_named_document(snapshot, search_query, matches))
    views = Views(snapshot, candidates)
    labels = _label(candidates, snapshot.view_document(row.id), query.spans, chosen.strings)
    good = np.flatnonzero(labels == ANSWERS)
    if not len(good):
        return None
    read, spans = np.zeros(len(labels), bool), query.spans if chosen.strings else ()
    passages: list[MinedPassage] = []
    for first, stop, hit in candidates.grow():
        if len(passages) == WEIGHTS.reranked:
            break
        if not read[hit]:
            passages.append(_passage(candidates, views.view(hit), (first, stop, hit), labels, read, spans))
    if not any(ANSWERS in passage.labels for passage in passages):
        hit = int(good[np.argmax(candidates.score[good])])
        passages.append(_passage(candidates, views.view(hit), (hit, hit + 1, hit), labels, read, spans))
    return MinedQuestion(query.query, tuple(passages))


def _label(candidates: Candidates, view: DocumentView, spans: Sequence[tuple[int, int]], strings: bool) -> np.ndarray:
    """What is known of each candidate ``[n]``, from the spans of the evidence in its document."""
    labels = np.full(len(candidates.sentences), NO_ANSWER, np.int8)
    inside = np.flatnonzero(candidates.documents == view.row.id)
    for position in inside:
        low, high = view.bounds(int(candidates.sentences[position]) - view.row.first_sentence)
        shared = [(min(high, end) - max(low, start), end - start) for start, end in spans]
        if any(part > 0 and part >= _HALF * min(high - low, length) for part, length in shared):
            labels[position] = ANSWERS
        elif any(part > 0 for part, _ in shared):
            labels[position] = UNKNOWN
    if strings:  # a reader needs some of the paragraph
        for position in np.flatnonzero(labels == ANSWERS):
            near = inside[np.abs(candidates.sentences[inside] - candidates.sentences[position]) <= _BESIDE]
            labels[near[labels[near] == NO_ANSWER]] = UNKNOWN
    return labels


def _passage(
    candidates: Candidates,
    view: DocumentView,
    span: tuple[int, int, int],
    labels: np.ndarray,
    read: np.ndarray,
    answer_spans: Sequence[tuple[int, int]],
) -> MinedPassage:
    """The passage around a span (first, stop, hit); sentences that an earlier one holds too are unknown in it."""
    base = view.row.first_sentence
    low, high, hit = (int(candidates.sentences[position]) - base for position in (span[0], span[1] - 1, span[2]))
    first, stop = find_passage(view, low, high + 1, hit)
    positions = find_positions(candidates, view, first, stop)
    scored = positions >= 0
    fresh = scored & ~read[positions]
    read[positions[fresh]] = True
    known = np.where(fresh, labels[positions], UNKNOWN)
    answers = []
    for number, ordinal in enumerate(range(first, stop)):
        low, high = view.bounds(ordinal)
        if known[number] == ANSWERS:
            answers += [(number, start - low, end - low) for start, end in answer_spans if low <= start and end <= high]
    return MinedPassage(
        view.row.title,
        tuple(view.sentence(ordinal) for ordinal in range(first, stop)),
        _values(candidates.score, positions, scored),
        _values(candidates.dense, positions, scored),
        tuple(known.tolist()),
        tuple(scored.tolist()),
        tuple(answers),
        view.row.id,
        base + first,
    )


def _values(values: Scores, positions: Ids, scored: Mask) -> tuple[float, ...]:
    """The values of some candidates; sentences that are no candidates get the lowest of them."""
    filled = np.where(scored, values[positions], values[positions[scored]].min())
    return tuple(np.round(filled.astype(float), 5).tolist())
