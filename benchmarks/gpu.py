"""Do a graphics card and the CPU find the same vectors, in which times, and does vLLM answer?

    python benchmarks/gpu.py --model DIR                # four minutes on a card: 1 and 10 million vectors, then vLLM
    python benchmarks/gpu.py --base-url http://localhost:8000/v1     # a running `vllm serve` in place of vLLM
    python benchmarks/gpu.py --vectors 30000            # without a card: the CPU against itself, only to run the script

One file of random vectors in clusters for each size and recipe. 200 questions are asked one at a time for 128 rows, of
the CPU on one thread and then of the card. "equal" counts the questions with the same rows in the same order. The 10
million vectors take 4 GB on the disk (`--folder`) and most of the time, to be written.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from lmkrag.index.files import MappedFile
from lmkrag.index.vectors.card import open_card
from lmkrag.index.vectors.recipes import load_recipe
from lmkrag.index.vectors.vector_set import VectorFile, describe_search, write_vectors
from lmkrag.readers.choose import load_reader
from lmkrag.results import Span
from lmkrag.specs import Recipe

SIZES = (1_000_000, 10_000_000)
LARGEST_EXACT = 2_000_000  # vectors
BLOCK, DIMENSIONS, QUESTIONS, ROWS = 100_000, 384, 200, 128
TEXT = (
    "The inn has nine rooms. Bonfires are allowed only in the iron basket. The gate opens at six."
)
ASKED = ("How many rooms has the inn?", "Where are bonfires allowed?", "When does the gate open?")

Rows = NDArray[np.int64]


def main() -> None:
    """Compare a card with the CPU, and print the table and what vLLM answers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=int, nargs="+")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    options = parser.parse_args()
    is_well, where = describe_search()
    if not is_well or (open_card(faiss) is None and not options.vectors):
        sys.exit(f"no card here: {where}")
    print(f"FAISS {faiss.__version__}, {where}\n")
    print("| vectors | recipe | CPU ms | card ms | ratio | second search s | equal |")
    print("|---|---|---|---|---|---|---|")
    for size in options.vectors or SIZES:
        for name in ("flat", "ivf-sq8"):
            if name != "flat" or size <= LARGEST_EXACT:
                compare(size, load_recipe(name), options.folder)
    if options.model or options.base_url:
        ask(options.model, options.base_url)


def compare(size: int, recipe: Recipe, folder: Path | None) -> None:
    """Print the row of a file of vectors."""
    base = make_vectors()
    near = next(permute(base, BLOCK))[:: BLOCK // QUESTIONS]
    near += 0.02 * np.random.default_rng(1).standard_normal(near.shape, np.float32)
    questions = np.split(near / np.linalg.norm(near, axis=1, keepdims=True), QUESTIONS)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        path = Path(work) / "s.faiss"
        faiss.omp_set_num_threads(os.cpu_count())
        file = write_vectors(path, lambda: permute(base, size), size, DIMENSIONS, recipe)
        faiss.omp_set_num_threads(1)
        times, found = [], []
        for device in ("cpu", "auto"):
            os.environ["LMKRAG_DEVICE"] = device
            open_card.cache_clear()
            segment = VectorFile(MappedFile(path, file), size, recipe)
            segment.search(questions[0], ROWS)
            began = time.perf_counter()
            segment.search(questions[0], ROWS)  # copies the vectors to the card
            second = time.perf_counter() - began
            began = time.perf_counter()
            found.append([order(*segment.search(question, ROWS)) for question in questions])
            times.append((time.perf_counter() - began) / len(questions) * 1_000)
    equal = sum(map(np.array_equal, *found))
    print(
        f"| {size:,} | {recipe.name} | {times[0]:.2f} | {times[1]:.2f} | {times[1] / times[0]:.3f} "
        f"| {second:.2f} | {equal} of {len(questions)} |",
        flush=True,
    )


def make_vectors() -> NDArray[np.float32]:
    """Return ``[BLOCK, DIMENSIONS]`` vectors of length one in clusters, as sentences have them."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((BLOCK // 50, DIMENSIONS), np.float32)
    vectors = centres[random.integers(len(centres), size=BLOCK)]
    vectors += random.standard_normal((BLOCK, DIMENSIONS), np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def permute(base: NDArray[np.float32], size: int) -> Iterator[NDArray[np.float32]]:
    """Yield ``size`` vectors, a block at a time, each with the dimensions in an order of its own."""
    for first in range(0, size, BLOCK):
        columns = np.random.default_rng(first).permutation(DIMENSIONS)
        yield base[: size - first, columns]


def order(scores: NDArray[np.float32], rows: Rows) -> Rows:
    """Return the rows of a question by score, those of equal score by number."""
    return rows[0][np.lexsort((rows[0], -scores[0]))]


def ask(model: str | None, base_url: str | None) -> None:
    """Ask a model in this process, or the one of a server, and print what it says."""
    if not base_url and not find_spec("vllm"):
        print("\nvLLM is not installed: pip install 'lmkrag[vllm]'")
        return
    settings = {"base_url": base_url} if base_url else {"max_tokens": 100}
    name = "openai" if base_url else "vllm"
    reader = load_reader(name, model=model, always=True, **settings)
    spans: Sequence[Sequence[Span]] = [[Span("a.md", "/a.md", 0, len(TEXT), TEXT, 1.0)]] * len(
        ASKED
    )
    began = time.perf_counter()
    answers = list(reader.answer_each(ASKED, spans))
    print(f"\n{len(answers)} answers by {name} in {time.perf_counter() - began:.1f} s:")
    for question, answer in zip(ASKED, answers, strict=True):
        print(f"- {question} {answer}")
    with reader.stream(ASKED[0], spans[0]) as stream:
        print(f"streamed in {sum(1 for _ in stream)} pieces")


if __name__ == "__main__":
    main()
