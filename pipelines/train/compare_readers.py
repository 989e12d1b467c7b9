"""Compare re-rankers of passages on questions that nothing has learnt from.

    python pipelines/train/compare_readers.py runs/written/held landmark-reranker-l12 OUT [--questions 12]

The folder is the one that `written_questions.py` leaves. Of each set some questions are drawn whose answer is among the
first passages of their search. Prints how often the first and one of three passages answers in the order of each model
alone, how many short answers are right in a passage that answers, how often one is given where there is none, and the
area under the curve of single passages; then the differences to the first model, with 95 % intervals.
"""

import argparse
import gzip
import json
from pathlib import Path

import numpy as np
from mined_passages import ANSWERS
from sklearn.metrics import roc_auc_score

from lmkrag.evaluation.metrics import paired_interval
from lmkrag.reranker.passages import PassageReranker

PASSAGES = 16


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("held", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--questions", type=int, default=12)
    options = parser.parse_args()
    questions = []
    for file in sorted(options.held.glob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            mined = [(question, passages[:PASSAGES]) for question, passages in map(json.loads, lines)]
        mined = [pair for pair in mined if any(ANSWERS in labels for _, _, _, _, labels, *_ in pair[1])]
        chosen = np.random.default_rng(0).permutation(len(mined))[: options.questions]
        questions += [mined[number] for number in chosen]
    print(f"{len(questions)} questions")
    base = None
    for name in options.models:
        model = PassageReranker.load(name)
        rows, short, none, scores, answers = [], [], [], [], []
        for question, passages in questions:
            texts = ["".join(texts) for _, texts, *_ in passages]
            good = np.array([ANSWERS in labels for _, _, _, _, labels, *_ in passages])
            readings = model.read_texts(question, texts)
            score = np.array([reading.score for reading in readings])
            order = np.argsort(-score)
            rows.append([good[order[0]], good[order[:3]].any()])
            scores += score.tolist()
            answers += good.tolist()
            for reading, (_, sentences, _, _, _, _, known, *_) in zip(readings, passages, strict=True):
                if known and known[0][0] < 0:
                    none.append(reading.strength > 0)
                elif known:
                    place, first, last = known[0]
                    begin = sum(map(len, sentences[:place]))
                    start, end = begin + first, begin + last
                    short.append(reading.start < end and start < reading.end and reading.strength > 0)
        values = 100 * np.array(rows, float)
        first, three = values.mean(0)
        shared, given = 100 * np.mean(short), 100 * np.mean(none)
        print(
            f"{name}: first {first:.1f}, three {three:.1f}; of {len(short)} short answers {shared:.1f} % share a ",
            end="",
        )
        print(f"word, of {len(none)} without one {given:.1f} % get one; ", end="")
        print(f"AUROC {roc_auc_score(answers, scores):.3f}")
        base = values if base is None else base
        if base is not values:
            print(" ", *("{:+.1f} [{:.1f}, {:.1f}]".format(*paired_interval(column)) for column in (values - base).T))


if __name__ == "__main__":
    main()
