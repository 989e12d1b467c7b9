"""Does training for context cost anything on short passages read alone?

    python benchmarks/short_passages.py ../shared/data/dev [--encoder DIR]

Each question is asked of its own passage (the sentences around its evidence, about 500 characters) and of 99 passages
of other documents, each encoded alone. Prints nDCG@10 of the base model as sentence-transformers reads it, of the
encoder's document vector (the mean of its landmarks) and of its best landmark, and the differences to the base with a
paired bootstrap interval.
"""

import argparse
from pathlib import Path

import numpy as np

from lmkrag import LandmarkEncoder
from lmkrag.evaluation.baselines import Baseline
from lmkrag.evaluation.dataset import Dataset, load_dataset
from lmkrag.evaluation.metrics import macro_interval, rank_queries
from lmkrag.sentences.split import split_sentences
from lmkrag.types import Document

SETS = ("squad", "clapnq", "covidqa", "fairytaleqa_sent", "medquad", "hotpot_small", "rustbook")
SIZE = 500
OTHERS = 99
QUESTIONS = 80


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    questions, passages, owner, of_set = [], [], [], []
    for number, name in enumerate(SETS):
        dataset = load_dataset(options.data / name)
        for index in rng.permutation(len(dataset.queries))[:QUESTIONS]:
            query = dataset.queries[index]
            if query.spans:
                questions.append(query.query)
                passages.append(_passage(dataset, query.doc_id, query.spans[0][0]))
                owner.append(f"{name}/{query.doc_id}")
                of_set.append(number)
    owners = np.array(owner)
    candidates = []
    for index in range(len(questions)):
        others = np.flatnonzero(owners != owners[index])
        candidates.append([index, *rng.choice(others, OTHERS, replace=False)])
    systems = {
        "all-MiniLM-L6-v2": _base(questions, passages),
        **_ours(options.encoder, questions, passages),
    }
    ndcg = {name: _ndcg(scores, candidates) for name, scores in systems.items()}
    sets = [np.array(of_set) == number for number in range(len(SETS))]
    base = next(iter(ndcg.values()))
    print("| passages encoded alone | nDCG@10 | minus the base |\n|---|---|---|")
    for name, values in ndcg.items():
        mean, low, high = (
            100 * x for x in macro_interval([values[rows] - base[rows] for rows in sets])
        )
        macro = 100 * np.mean([values[rows].mean() for rows in sets])
        print(f"| {name} | {macro:.1f} | {mean:+.1f} [{low:+.1f}, {high:+.1f}] |")


def _passage(dataset: Dataset, doc_id: str, start: int) -> str:
    text = next(document.text for document in dataset.documents if document.doc_id == doc_id)
    sentences = split_sentences(text)
    first = next(i for i, sentence in enumerate(sentences) if sentence.end > start)
    stop = first + 1
    while sentences[stop - 1].end - sentences[first].start < SIZE and (
        first > 0 or stop < len(sentences)
    ):
        if stop < len(sentences):
            stop += 1
        if first > 0:
            first -= 1
    return text[sentences[first].start : sentences[stop - 1].end]


def _base(questions: list[str], passages: list[str]) -> np.ndarray:
    model = Baseline("recursive:500")  # longer than any passage
    documents = [Document(str(number), "", passage) for number, passage in enumerate(passages)]
    vectors = np.concatenate([units.vectors[:1] for units in model.encode_documents(documents)])
    return model.encode_queries(questions) @ vectors.T


def _ours(name: str | None, questions: list[str], passages: list[str]) -> dict[str, np.ndarray]:
    encoder = LandmarkEncoder.load(name)
    encoded = [encoder.encode(passage, split_sentences(passage))[1] for passage in passages]
    means = np.array([vectors.mean(0) / np.linalg.norm(vectors.mean(0)) for vectors in encoded])
    queries = encoder.encode_queries(questions)
    best = np.stack([(queries @ vectors.T).max(1) for vectors in encoded], axis=1)
    return {"mean of the landmarks": queries @ means.T, "best landmark": best}


def _ndcg(scores: np.ndarray, candidates: list[list[int]]) -> np.ndarray:
    rankings = []
    for index, numbers in enumerate(candidates):
        order = sorted(numbers, key=lambda number: -scores[index, number])
        rankings.append([(str(number), 0, 1) for number in order])
    gold = [[(str(index), 0, 1)] for index in range(len(candidates))]
    return np.array([ranks.ndcg for ranks in rank_queries(rankings, gold, gold)])


if __name__ == "__main__":
    main()
