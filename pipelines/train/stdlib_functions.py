"""Make a training set of source code: the functions of Python's standard library, asked for by what they do.

    python pipelines/train/stdlib_functions.py OUT

OUT gets a set in the data format. Its documents are files without their docstrings, its questions first lines of
docstrings, and names of three words and more, written as words, as in ``benchmarks/code_search.py``, whose packages
are others. The library is of the Python that runs this (PSF-2.0).
"""

import argparse
import random
import sys
import sysconfig
from collections import Counter
from pathlib import Path

from lmkrag.evaluation.dataset import write_records

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from code_search import Asked, read_functions

MOST_BYTES = 120_000  # of a file
FUNCTIONS = 40  # of a file
SKIPPED = {"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo"}


def main() -> None:
    """Write the set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    root = Path(sysconfig.get_path("stdlib"))
    rng = random.Random(0)
    documents, asked = [], list[Asked]()
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if SKIPPED.intersection(inside.parts) or path.stat().st_size > MOST_BYTES:
            continue
        made = read_functions(path, inside.as_posix(), FUNCTIONS, rng)
        if made is not None:
            documents.append({"doc_id": inside.as_posix(), "title": path.stem, "text": made[0], "kind": "code"})
            asked += made[1]
    texts = Counter(one.text for one in asked)
    questions = [one for one in asked if texts[one.text] == 1]
    out.mkdir(parents=True, exist_ok=True)
    write_records(out / "docs.jsonl.gz", documents)
    write_records(
        out / "queries.jsonl.gz",
        (
            {"query_id": str(number), "query": one.text, "doc_id": one.answer[0], "spans": [one.answer[1:]]}
            for number, one in enumerate(questions)
        ),
    )
    print(f"{len(documents)} files, {len(questions)} questions")


if __name__ == "__main__":
    main()
