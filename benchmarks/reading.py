"""How should a document be read: window, overlap, and does the sentence read alone still help?

    python benchmarks/reading.py ../shared/data/dev [--encoder DIR]

Reads samples of the development sets with other windows and overlaps than the encoder was made for, ranks their
sentences by landmarks alone and prints recall (mean over 500, 1,000 and 2,000 characters), the difference to the
encoder's own way with a paired bootstrap interval, and the time it took against it. Then the same without titles before
the windows, for sums of what it says of a sentence in context and alone (SitEmb, arXiv 2508.01959), and for the mean of
the vectors of three windows.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from sets import WITHIN

from lmkrag import LandmarkEncoder
from lmkrag.evaluation.dataset import Dataset, load_dataset
from lmkrag.evaluation.significance import macro_interval
from lmkrag.training.watch import Landmarks, rank_sentences, read_landmarks, recall_rows, sample_dataset

SETS = ("qmsum", "covidqa", "cuad", "squad", "fairytaleqa_sent", "medquad", "peps", "obliqa", "evidence_inference")
OWN = (254, 0.5)
READINGS = [OWN, (254, 0.25), (254, 0.1), (254, 0.0), (126, 0.5), (510, 0.5), (510, 0.25)]
SUMS = {"in context + 0.25 alone": 0.25, "in context + 0.5 alone": 0.5, "in context + 1.0 alone": 1.0, "alone": None}
UNTITLED = "without titles"
TOGETHER = "mean of windows 126, 254 and 510"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder")
    options = parser.parse_args()
    rows: dict[str, list[np.ndarray]] = {}
    seconds: dict[str, float] = {}
    encoders = {
        reading: LandmarkEncoder.load(options.encoder, window=reading[0], overlap=reading[1]) for reading in READINGS
    }
    for name in SETS:
        dataset = sample_dataset(load_dataset(options.data / name), 60_000, 60)
        untitled = replace(dataset, documents=tuple(replace(document, title="") for document in dataset.documents))
        tasks = {_label(reading): (encoder, dataset) for reading, encoder in encoders.items()}
        tasks[UNTITLED] = (encoders[OWN], untitled)
        read: dict[str, Landmarks] = {}
        for label, (encoder, documents) in tasks.items():
            began = time.perf_counter()
            read[label] = read_landmarks(encoder, documents)
            seconds[label] = seconds.get(label, 0.0) + time.perf_counter() - began
            rows.setdefault(label, []).append(_recall(encoders[OWN], dataset, read[label]))
        own = read[_label(OWN)]
        alone = _read_alone(encoders[OWN], dataset, own)
        for label, share in SUMS.items():
            vectors = alone.vectors if share is None else own.vectors + share * alone.vectors
            rows.setdefault(label, []).append(_recall(encoders[OWN], dataset, own._replace(vectors=vectors)))
        together = _mean(own, [read[_label((126, 0.5))], read[_label((510, 0.5))]])
        rows.setdefault(TOGETHER, []).append(_recall(encoders[OWN], dataset, together))
    first = next(iter(rows))
    print("| reading | recall | minus the first | time |\n|---|---|---|---|")
    for label, values in rows.items():
        mean, low, high = (100 * x for x in macro_interval([a - b for a, b in zip(values, rows[first], strict=True)]))
        ratio = f"{seconds[label] / seconds[first]:.2f}" if label in seconds else ""
        recall = 100 * np.mean([one.mean() for one in values])
        print(f"| {label} | {recall:.1f} | {mean:+.1f} [{low:+.1f}, {high:+.1f}] | {ratio} |")


def _label(reading: tuple[int, float]) -> str:
    return f"window {reading[0]}, overlap {reading[1]:.0%}"


def _read_alone(encoder: LandmarkEncoder, dataset: Dataset, own: Landmarks) -> Landmarks:
    texts = [
        dataset.documents[key].text[start:end] for key, (start, end) in zip(own.documents, own.bounds, strict=True)
    ]
    return own._replace(vectors=encoder.encode_queries(texts))


def _mean(own: Landmarks, others: list[Landmarks]) -> Landmarks:
    """The mean of vectors of the same sentences; those that another window splits differently keep their own."""
    vectors = own.vectors.copy()
    for other in others:
        at = {place: row for row, place in enumerate(_starts(other))}
        places = [at.get(place, -1) for place in _starts(own)]
        vectors += np.where(np.array(places)[:, None] >= 0, other.vectors[places], own.vectors)
    return own._replace(vectors=vectors)


def _starts(landmarks: Landmarks) -> list[tuple[int, int]]:
    """Document and first character of each sentence."""
    return list(zip(landmarks.documents.tolist(), landmarks.bounds[:, 0].tolist(), strict=True))


def _recall(encoder: LandmarkEncoder, dataset: Dataset, landmarks: Landmarks) -> np.ndarray:
    """Of each question."""
    ranked = rank_sentences(encoder, dataset, within=dataset.name in WITHIN, landmarks=landmarks)
    return recall_rows(dataset, ranked).mean(1)


if __name__ == "__main__":
    main()
