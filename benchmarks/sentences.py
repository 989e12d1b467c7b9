"""Which sentence splitter finds known boundaries? Punkt (ours) against sentencex, behind the same block structure.

    pip install sentencex
    python benchmarks/sentences.py ../shared/data/train fairytaleqa_sent selqa qed clapnq

The evidence spans of these sets are whole sentences: the share of them whose start and end are sentence borders.
"""

import argparse
import time
from pathlib import Path

from lmkrag.evaluation.dataset import Dataset, load_dataset
from lmkrag.sentences import split as splitting


def sentencex_ends(text: str) -> list[int]:
    """Return sentence ends as sentencex finds them."""
    from sentencex import segment

    ends, position = [], 0
    for sentence in segment("en", text):
        position += len(sentence)
        ends.append(position)
    return ends


def borders(text: str) -> set[int]:
    """Return the offsets at which a sentence starts or ends, white space aside."""
    offsets = set()
    for sentence in splitting.split_sentences(text):
        body = text[sentence.start : sentence.end]
        offsets |= {sentence.end - len(body.lstrip()), sentence.start + len(body.rstrip())}
    return offsets


def measure(dataset: Dataset) -> str:
    """Return the table's cells for one splitter on one set."""
    began = time.perf_counter()
    offsets = {document.doc_id: borders(document.text) for document in dataset.documents}
    rate = (
        sum(len(document.text) for document in dataset.documents)
        / (time.perf_counter() - began)
        / 1e6
    )
    spans = [(query.doc_id, start, end) for query in dataset.queries for start, end in query.spans]
    starts = sum(start in offsets[doc_id] for doc_id, start, _ in spans) / len(spans)
    ends = sum(end in offsets[doc_id] for doc_id, _, end in spans) / len(spans)
    return f"{starts:.3f} | {ends:.3f} | {rate:.1f}"


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("sets", nargs="+")
    options = parser.parse_args()
    ours = splitting._find_ends
    print("| set | splitter | starts found | ends found | MB/s |\n|---|---|---|---|---|")
    for name in options.sets:
        dataset = load_dataset(options.data / name)
        print(f"| {name} | punkt | {measure(dataset)} |")
        splitting._find_ends = sentencex_ends
        print(f"| {name} | sentencex | {measure(dataset)} |", flush=True)
        splitting._find_ends = ours


if __name__ == "__main__":
    main()
