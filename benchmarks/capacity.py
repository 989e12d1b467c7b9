"""What would 100 million and 10 billion sentences take? Arithmetic on what was measured, and nothing else.

    python benchmarks/capacity.py [--sentences 100e6 10e9] [--cores 64] [--memory 256] [--changed 0.01]

Every constant below names the table that it is from. Sizes grow with the sentences, the time of the words too; of
vectors in clusters a search visits the square root, since their number grows so. Encoding is taken to grow with cores,
which was not measured beyond two. A machine takes as many sentences as leave what each search reads in its memory.
"""

import argparse
import math

MILLION = 1e6
DAY = 86_400

TEXT_BYTES = 129  # docs/performance.md, Search: 546 bytes a sentence of which 417 are the vectors of ivf-sq8
VECTOR_BYTES = {"flat": 768, "ivf-sq8": 417, "ivf-rabitq": 468}  # indexes/README.md
SCANNED_BYTES = {
    "flat": 768,
    "ivf-sq8": 417,
    "ivf-rabitq": 84,
}  # the same; the 8-bit vectors behind 1-bit codes are not
WORD_BYTES = 91  # words and structure of a sentence: files of the indexes of 14 development sets, 117,695 sentences
ENCODE = 21_244 / 2  # characters a second and core: docs/performance.md, Indexing, overlap 0
CHARACTERS = 125  # of a sentence: 871,130 of them in 100 MB, docs/performance.md, Memory and scale
QUESTION = 0.0107  # seconds: docs/performance.md, Search, at a million sentences
VECTORS, WORDS, REST = 0.0029, 0.0019, 0.0033
SHARD = (22.6 - 15.6) / 8 / 1_000  # seconds that a shard adds to a search in one process: docs/scale.md
RESHARD = 2.4 / 100_000  # seconds that a sentence takes to be written to another shard, or adopted: docs/scale.md


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=float, nargs="+", default=[1e6, 100e6, 10e9])
    parser.add_argument("--cores", type=int, default=64, help="of a machine")
    parser.add_argument("--memory", type=float, default=256, help="gigabytes of a machine")
    parser.add_argument(
        "--changed", type=float, default=0.01, help="share of the sentences that is new or changed a day"
    )
    options = parser.parse_args()
    columns = [estimate(count, options.cores, options.memory * 1e9, options.changed) for count in options.sentences]
    print("| " + " | ".join(["sentences", *(f"{count / MILLION:,.0f} million" for count in options.sentences)]) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in columns[0]:
        print("| " + " | ".join([name, *(column[name] for column in columns)]) + " |")


def estimate(sentences: float, cores: int, memory: float, changed: float) -> dict[str, str]:
    """Return the rows of one column."""
    recipe = "flat" if sentences <= 200_000 else "ivf-sq8" if sentences <= 5e6 else "ivf-rabitq"
    stored = sentences * (TEXT_BYTES + VECTOR_BYTES[recipe])
    hot = sentences * (SCANNED_BYTES[recipe] + WORD_BYTES)
    machines = max(1, math.ceil(hot / (0.7 * memory)))
    own = sentences / machines
    words, vectors = WORDS * own / MILLION, VECTORS * math.sqrt(own / MILLION)
    encoding = sentences * CHARACTERS / ENCODE
    return {
        "recipe": recipe,
        "on disk": f"{stored / 1e9:,.1f} GB",
        "read by searches, better in memory": f"{hot / 1e9:,.1f} GB",
        "machines for that": f"{machines}",
        "encoding, one core": f"{encoding / DAY:,.1f} days",
        f"encoding, {cores} cores a machine": f"{encoding / cores / machines / 3_600:,.1f} hours",
        "a search: question": f"{1_000 * QUESTION:.0f} ms",
        "vectors": f"{1_000 * vectors:,.0f} ms",
        "words": f"{1_000 * words:,.0f} ms",
        f"words, by {cores} shards a machine at once": f"{1_000 * (words / cores + SHARD):,.1f} ms",
        "texts and spans": f"{1_000 * REST:.0f} ms",
        f"a day's changes ({100 * changed:g} %), encoding": f"{changed * encoding / cores / machines / 60:,.0f} min",
        "a day's changes, writing": f"{changed * sentences * RESHARD / machines / 60:,.1f} min",
    }


if __name__ == "__main__":
    main()
