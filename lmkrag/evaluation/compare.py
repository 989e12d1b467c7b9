"""Run lmkrag, from end to end, and chunk-based retrievers on the same questions."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lmkrag.encoder.spec import find_model, fingerprint_model
from lmkrag.engine import Engine
from lmkrag.errors import UsageError
from lmkrag.evaluation.baselines import Baseline, parse_name
from lmkrag.evaluation.dataset import Dataset, Query, choose_queries, load_dataset
from lmkrag.evaluation.metrics import Piece, is_relevant, overlap_at, rank_queries
from lmkrag.ingest.opening import open_index
from lmkrag.search.filters import quote
from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.sentences.split import split_sentences
from lmkrag.types import Level, Mode
from lmkrag.types.arrays import Floats

OURS = "lmkrag"
# in ``against``, ``rerank:NAME`` is lmkrag with another re-ranker, ``rerank:off`` without any
RERANKED = "rerank"
_TOP = 60


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one system on one set.

    Attributes:
        overlaps: ``[queries, budgets, measures]`` float64, 0 to 1: see
            :class:`lmkrag.evaluation.metrics.Overlap`.
        ranks: ``[queries, measures]`` float64, 0 to 1: see
            :class:`lmkrag.evaluation.metrics.Ranks`.
    """

    overlaps: Floats
    ranks: Floats


_Pieces = list[list[Piece]]  # of each query


@dataclass(frozen=True, slots=True)
class Comparison:
    """The scores of all systems on all sets.

    Attributes:
        scores: ``scores[system][set]``, lmkrag first.
        queries: ``queries[set]``, the ids of the queries that are the rows of scores.
    """

    scores: dict[str, dict[str, Scores]] = field(default_factory=dict)
    queries: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """What to compare, and how lmkrag searches.

    Attributes:
        against: other systems: names of baselines, ``rerank:NAME`` for lmkrag with another
            re-ranker, ``rerank:off`` for none.
        within: names of sets whose questions are asked of their own document only.
        queries: maximum number of questions of each set; 0 for all.
        encoder: the encoder of the index: see :meth:`lmkrag.Engine.open`.
        mode: the mode of searches.
        level: what a reader gets of lmkrag.
        weights: the weights of searches.
    """

    against: Sequence[str] = ()
    within: Collection[str] = ()  # sets whose questions are asked of their own document only
    queries: int = 0  # of each set at most, 0 for all
    encoder: str | None = None  # of the index, see :meth:`lmkrag.Engine.open`
    mode: Mode = "hybrid"
    level: Level = "span"  # what a reader gets from us
    weights: Weights = WEIGHTS  # of the search


class _Ranking(NamedTuple):
    """The results of one system.

    Attributes:
        pieces: the pieces that a reader gets, of each query, best first.
        units: the ranked units, of each query, best first.
        relevant: the units that are relevant, of each query.
    """

    pieces: _Pieces
    units: _Pieces
    relevant: _Pieces


def compare(
    folders: Sequence[Path],
    out: Path,
    options: Options,
    progress: Callable[[str, str], None] = lambda *_: None,
) -> Comparison:
    """Measure lmkrag and other systems on sets of questions.

    Args:
        folders: the sets, in the data format: see :func:`lmkrag.evaluation.dataset.load_dataset`.
        out: a directory for indexes and vectors, which a second run uses.
        options: which systems, and how lmkrag searches.
        progress: called with the set and the system that is about to run.

    Raises:
        UsageError: a system is unknown, a set can't be read, or no question of any set has
            evidence.
        MissingExtra: the ``eval`` extra is not installed.
    """
    comparison = Comparison()
    for system in options.against:
        if not _is_ours(system):
            parse_name(system)
    for folder in folders:
        dataset = load_dataset(folder)
        queries = choose_queries(dataset, options.queries)
        if not queries:
            continue  # questions without answers have no evidence to find
        if dataset.name in comparison.queries:
            raise UsageError(f"two sets are named {dataset.name!r}")
        comparison.queries[dataset.name] = [query.query_id for query in queries]
        for system in (OURS, *options.against):
            progress(dataset.name, system)
            if _is_ours(system):
                encoder = find_model(options.encoder)
                # that another encoder does not have
                key = f"{encoder.name}-{fingerprint_model(encoder, '')[:8]}"
                ranking = _ours(
                    system, dataset, queries, out / "index" / key / _key(dataset), options
                )
            else:
                ranking = _baseline(system, dataset, queries, out / "baselines", options)
            comparison.scores.setdefault(system, {})[dataset.name] = _score(ranking, queries)
    if not comparison.queries:
        raise UsageError("no question of these sets has evidence")
    return comparison


def _is_ours(system: str) -> bool:
    """Return whether a system is lmkrag, with whatever re-ranker."""
    return system == OURS or system.partition(":")[0] == RERANKED


def _ours(
    system: str, dataset: Dataset, queries: list[Query], path: Path, options: Options
) -> _Ranking:
    """Index a set with lmkrag, and search for each of its questions."""
    name = system.partition(":")[2]
    reranking: Any = {"rerank": False} if name == "off" else {"reranker": name or None}
    store, encoder = open_index(path, create=True, encoder=options.encoder)
    with Engine(store, encoder, weights=options.weights, **reranking) as engine:
        engine.add(dataset.documents, progress=False)
        pieces = _search(engine, dataset, queries, options.level, options)
        units = _search(engine, dataset, queries, "sentence", options)
    sentences: dict[str, list[Piece]] = {}
    for document in dataset.documents:
        for sentence in split_sentences(document.text):
            text = document.text[sentence.start : sentence.end]
            # The engine returns no white space at the ends of a sentence.
            start = sentence.start + len(text) - len(text.lstrip())
            piece = document.doc_id, start, start + len(text.strip())
            sentences.setdefault(document.doc_id, []).append(piece)
    relevant = [
        [unit for unit in sentences[q.doc_id] if is_relevant(unit, q.evidence)] for q in queries
    ]
    return _Ranking(pieces, units, relevant)


def _search(
    engine: Engine, dataset: Dataset, queries: list[Query], level: Level, options: Options
) -> _Pieces:
    """Return the pieces that lmkrag finds for each question, best first."""
    search_options: Any = {"mode": options.mode, "level": level, "top_k": _TOP}
    if dataset.name in options.within:
        results = [
            engine.search(query.query, filter=f"doc_id={quote(query.doc_id)}", **search_options)
            for query in queries
        ]
    else:
        results = []
        for spans in engine.search_many([query.query for query in queries], **search_options):
            if isinstance(spans, UsageError):
                raise spans
            results.append(spans)
    return [[(span.doc_id, span.start, span.end) for span in spans] for spans in results]


def _baseline(
    name: str, dataset: Dataset, queries: list[Query], work: Path, options: Options
) -> _Ranking:
    """Rank the units of a baseline for each question, by exact search over stored vectors."""
    path = work / name.replace(":", "-") / f"{_key(dataset)}.npz"
    if not path.is_file():
        _encode(name, dataset, path)
    stored = np.load(path)
    owner, bounds, vectors = stored["owner"], stored["bounds"], stored["vectors"].astype(np.float32)
    encoded = dict(
        zip((query.query_id for query in dataset.queries), stored["queries"], strict=True)
    )
    numbers = {document.doc_id: number for number, document in enumerate(dataset.documents)}
    ids = list(numbers)
    units, relevant = [], []
    for query in queries:
        in_document = np.flatnonzero(owner == numbers[query.doc_id])
        scope = in_document if dataset.name in options.within else np.arange(len(owner))
        best = scope[np.argsort(-(vectors[scope] @ encoded[query.query_id]), kind="stable")[:_TOP]]
        units.append([(ids[owner[i]], int(bounds[i, 0]), int(bounds[i, 1])) for i in best])
        candidates = [(query.doc_id, int(start), int(end)) for start, end in bounds[in_document]]
        relevant.append([unit for unit in candidates if is_relevant(unit, query.evidence)])
    return _Ranking(units, units, relevant)


def _encode(name: str, dataset: Dataset, path: Path) -> None:
    """Encode a set with a baseline, and store units, vectors and questions in a file."""
    baseline = Baseline(name)
    units = list(baseline.encode_documents(dataset.documents))
    path.parent.mkdir(parents=True, exist_ok=True)
    # A killed run leaves no half of a file under its name.
    partial = path.with_suffix(".partial.npz")
    np.savez(
        partial,
        owner=np.repeat(np.arange(len(units)), [len(unit.bounds) for unit in units]),
        bounds=np.array([bounds for unit in units for bounds in unit.bounds]),
        vectors=np.concatenate([unit.vectors for unit in units]).astype(np.float16),
        queries=baseline.encode_queries([query.query for query in dataset.queries]),
    )
    partial.replace(path)


def _score(ranking: _Ranking, queries: list[Query]) -> Scores:
    """Return the scores of each query."""
    gold = [query.evidence for query in queries]
    overlaps = [
        overlap_at(pieces, evidence) for pieces, evidence in zip(ranking.pieces, gold, strict=True)
    ]
    return Scores(np.array(overlaps), np.array(rank_queries(ranking.units, ranking.relevant, gold)))


def _key(dataset: Dataset) -> str:
    """Return a folder name that changes with the content of a set."""
    return f"{dataset.name}-{dataset.fingerprint[:8]}"
