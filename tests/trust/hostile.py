"""Split long hostile texts into sentences and words: every character kept, time and memory by size.

python tests/trust/hostile.py --megabytes 100
"""

import argparse
import multiprocessing
import resource
import time
from collections.abc import Iterable, Iterator

from lmkrag.language.terms import split_words
from lmkrag.sentences.split import iter_sentences

PLANES = "".join(chr(code) for code in range(0x20, 0x110000, 97))
TEXTS = {
    "one word": "x",
    "one digit": "7",
    "no spaces, CJK": "鳥が飛ぶ",
    "full stops": ".",
    "line ends": "\n",
    "carriage returns": "\r",
    "spaces": " ",
    "zero-width": "\u200b\u200d\ufeff",
    "right-to-left": "\u202e\u0634\u0627\u0631\u0639. ",
    "combining": "e\u0301\u0302\u0303",
    "lone surrogates": "\ud800\udfff ",
    "every plane": PLANES,
    "emoji sequences": "👩\u200d👩\u200d👧\u200d👦",
    "quotes": "> " * 50 + "x\n",
    "fences": "```\n",
    "table": "|a|b|\n|-|-|\n",
    "list": "- a\n  - b\n",
    "abbreviations": "Mr. Dr. e.g. i.e. U.S. ",
    "numbers": "1. 2. 3) (4) ",
    "brackets": "((((([[[[[",
    "NUL": "\0",
}


def read(name: str, size: int, kind: str) -> tuple[float, int, int]:
    """Return seconds, sentences and peak memory in MiB for ``size`` characters of a text."""
    text = (TEXTS[name] * (size // len(TEXTS[name]) + 1))[:size]
    began, end, count = time.monotonic(), 0, 0
    for sentence in iter_sentences(text, kind=kind):
        assert sentence.start == end < sentence.end, f"{name}: {sentence}"
        split_words(text[sentence.start : sentence.end])
        end, count = sentence.end, count + 1
    assert end == len(text), name
    return time.monotonic() - began, count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def run(names: Iterable[str], size: int, kind: str) -> Iterator[str]:
    """Yield a line a text, each read in a process of its own."""
    for name in names:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            seconds, count, peak = pool.apply(read, (name, size, kind))
        yield f"| {name} | {kind} | {size / 1e6 / seconds:.1f} | {count:,} | {peak} |"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=1)
    parser.add_argument("--kind", default="markdown")
    parser.add_argument("--only", choices=TEXTS, help="one of the texts")
    options = parser.parse_args()
    print(
        "| text | read as | million characters a second | sentences | peak MiB |\n|---|---|---|---|---|"
    )
    list(iter_sentences("Loads the model. Processes that are forked have it."))
    for line in run(
        [options.only] if options.only else TEXTS, int(options.megabytes * 1e6), options.kind
    ):
        print(line, flush=True)


if __name__ == "__main__":
    main()
