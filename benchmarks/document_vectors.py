"""One vector a document: how do CLS, mean and landmark pooling hold up as documents grow from 128 to 4,096 tokens?

    python benchmarks/document_vectors.py ../shared/data --work DIR [--steps 80]

With each pooling, trains all-MiniLM-L6-v2, its 512 positions stretched to 4,096 by interpolation, for a few steps on
questions and passages of at most 510 tokens. Then searches excerpts of growing length, one per document, in which the
evidence stands at a random place. Prints nDCG@10 by length and the paired bootstrap of landmark pooling minus each
other pooling at the greatest length, and draws DIR/document_vectors.png.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from positions import stretch_positions

from lmkrag import LandmarkEncoder
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.evaluation.metrics import macro_interval, rank_queries
from lmkrag.sentences.split import split_sentences
from lmkrag.specs import Sentence
from lmkrag.training.settings import ModelSettings, SetSettings, StageSettings, TrainSettings
from lmkrag.training.trainer import train
from lmkrag.types.arrays import Ids, Scores

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SETS = ("medquad", "peps", "rfcs", "eips", "obliqa", "cuad")
DOCUMENTS = 14  # of each set
LENGTHS = (128, 512, 2_048, 4_096)
POSITIONS = 4_100
TRAINING = ("medquad", "fairytaleqa", "peps", "rfcs", "aws_headings", "eips")
# (pooling of a unit, task, tokens between landmarks in training)
MODELS = {
    "mean": ("mean", "pairs", []),
    "lmk, one a sentence": ("lmk", "passages", []),
    "lmk, one every 32 tokens": ("lmk", "passages", [32]),
    "lmk, random interval": ("lmk", "passages", [32, 64, 128, 256]),
}
INTERVALS = {"lmk, one every 32 tokens": 32, "lmk, random interval": 32}
SOFTMAX = "lmk, one a sentence: softmax by question"
BEST = "lmk, one a sentence: best landmark"
REFERENCE = "lmk, one a sentence"
TEMPERATURE = 0.05

Excerpts = list[tuple[str, str, int]]
"""Each question, with the text of its document and the character at which its evidence begins."""


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=80)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    stretch_positions(options.work / "base", POSITIONS)
    questions, set_of = _questions(options.data / "dev")
    table: dict[str, list[np.ndarray]] = {}
    for name in MODELS:
        encoder = LandmarkEncoder.load(
            str(_train(name, options)), window=POSITIONS - 2 - 4, overlap=0.0
        )
        for length in LENGTHS:
            for system, scores in _score(encoder, name, questions, length).items():
                table.setdefault(system, []).append(_ndcg(scores))
    sets = [set_of == number for number in range(len(SETS))]
    print(
        f"| document vector | {' | '.join(map(str, LENGTHS))} tokens | {REFERENCE} minus it, at {LENGTHS[-1]} |"
    )
    print(f"|{'---|' * (len(LENGTHS) + 2)}")
    for system, rows in table.items():
        cells = [f"{100 * np.mean([row[mask].mean() for mask in sets]):.1f}" for row in rows]
        difference = table[REFERENCE][-1] - rows[-1]
        mean, low, high = (100 * x for x in macro_interval([difference[mask] for mask in sets]))
        interval = "" if system == REFERENCE else f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
        print(f"| {system} | {' | '.join(cells)} | {interval} |")
    _draw(table, sets, options.work / "document_vectors.png")


def _questions(data: Path) -> tuple[Excerpts, np.ndarray]:
    """One question of each of some documents."""
    rng = np.random.default_rng(0)
    chosen: Excerpts = []
    set_of = []
    for number, name in enumerate(SETS):
        dataset = load_dataset(data / name)
        texts = {document.doc_id: document.text for document in dataset.documents}
        seen: set[str] = set()
        for index in rng.permutation(len(dataset.queries)):
            query = dataset.queries[index]
            if query.spans and query.doc_id not in seen and len(seen) < DOCUMENTS:
                seen.add(query.doc_id)
                chosen.append((query.query, texts[query.doc_id], query.spans[0][0]))
                set_of.append(number)
    return chosen, np.array(set_of)


def _train(name: str, options: argparse.Namespace) -> Path:
    pooling, task, intervals = MODELS[name]
    sets = [SetSettings(path, task, intervals=intervals) for path in TRAINING]
    stage = StageSettings("passages", sets, options.steps, 5e-5, windows=[254, 510], duplicate=1.0)
    folder = "".join(letter if letter.isalnum() else "-" for letter in name)
    return train(
        TrainSettings(
            out=str(options.work.resolve() / folder),
            data=str((options.data / "train").resolve()),
            model=ModelSettings(
                str(options.work.resolve() / "base"), pooling=pooling, window=POSITIONS - 2 - 4
            ),
            stages=[stage],
        )
    )


def _score(
    encoder: LandmarkEncoder, name: str, questions: Excerpts, length: int
) -> dict[str, np.ndarray]:
    """``[questions, documents]`` of each way to score a document."""
    rng = np.random.default_rng(length)
    queries = encoder.encode_queries([question for question, _, _ in questions])
    vectors, owner = [], []
    for number, (_, text, evidence) in enumerate(questions):
        excerpt = _cut(encoder, text, evidence, length, rng)
        vectors.append(_encode(encoder, excerpt, name))
        owner += [number] * len(vectors[-1])
    means = np.array(
        [landmarks.mean(0) / np.linalg.norm(landmarks.mean(0)) for landmarks in vectors]
    )
    scores = {name: queries @ means.T}
    if name == REFERENCE:
        cosines, owners = queries @ np.concatenate(vectors).T, np.array(owner)
        for system, temperature in ((SOFTMAX, TEMPERATURE), (BEST, 1e-4)):
            scores[system] = np.array(
                [list(pool_scores(row, owners, temperature).values()) for row in cosines]
            )
    return scores


def _cut(
    encoder: LandmarkEncoder, text: str, evidence: int, length: int, rng: np.random.Generator
) -> str:
    """About ``length`` tokens of a text, its evidence anywhere in them."""
    size = length * len(text) // max(1, encoder.count_tokens(text))
    first = max(0, min(evidence - int(rng.integers(max(1, int(0.8 * size)))), len(text) - size))
    return text[first : first + size]


def _encode(encoder: LandmarkEncoder, text: str, name: str) -> np.ndarray:
    """Return the vectors whose mean is the document's vector: those of its landmarks, or that of the whole text."""
    if "lmk" not in name:
        return encoder.encode(text, [Sentence(0, len(text))])[1][:1]
    if name in INTERVALS:
        return encoder.encode(text, list(_every(encoder, text, INTERVALS[name])))[1]
    return encoder.encode(text, split_sentences(text))[1]


def _every(encoder: LandmarkEncoder, text: str, interval: int):
    """Cut a text into pieces of about ``interval`` tokens."""
    size = max(1, interval * len(text) // max(1, encoder.count_tokens(text)))
    for first in range(0, len(text), size):
        yield Sentence(first, min(first + size, len(text)))


def _ndcg(scores: np.ndarray) -> np.ndarray:
    rankings = [[(str(i), 0, 1) for i in np.argsort(-row, kind="stable")] for row in scores]
    gold = [[(str(i), 0, 1)] for i in range(len(scores))]
    return np.array([ranks.ndcg for ranks in rank_queries(rankings, gold, gold)])


def _draw(table: dict, sets: list[np.ndarray], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for system, rows in table.items():
        means = [100 * np.mean([row[mask].mean() for mask in sets]) for row in rows]
        axes.plot(LENGTHS, means, marker="o", label=system)
    axes.set_xscale("log", base=2)
    axes.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
    axes.set_xlabel("tokens of a document")
    axes.set_ylabel("nDCG@10 (%)")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def pool_scores(scores: Scores, documents: Ids, temperature: float) -> dict[int, float]:
    """Return each document's score: its landmarks' scores, averaged by their own softmax.

    Unlike in one mean vector, sentences that do not answer the question hardly dilute the score.

    Args:
        scores: ``[n]`` of a question and the landmarks.
        documents: ``[n]`` the document each landmark is of.
        temperature: of the softmax, above 0; a low one comes near the best landmark alone, a high one near the mean.

    >>> pool_scores(np.float32([0.9, 0.1, 0.5]), np.array([1, 1, 2]), temperature=0.01)
    {1: 0.9, 2: 0.5}
    """
    pool = {}
    for document in np.unique(documents).tolist():
        values = scores[documents == document].astype(np.float64)
        weights = np.exp((values - values.max()) / temperature)
        pool[document] = round(float(weights @ values / weights.sum()), 7)
    return pool


if __name__ == "__main__":
    main()
