"""Make a training set of source code: functions, asked for by what they do and by their names in words.

    python pipelines/train/code_functions.py build/stdlib-functions
    python pipelines/train/code_functions.py build/package-functions wheels/*

Without archives the functions are those of Python's standard library (PSF-2.0). Archives are wheels and source
archives of packages, as `pip download --no-deps` saves them; those that are installed here are left out, since
`benchmarks/code_search.py` measures on them, and those whose metadata names no MIT, BSD, Apache, ISC or PSF licence.
The documents of the set are files without their docstrings, its questions first lines of docstrings, and names of three
words and more.
"""

import argparse
import importlib.metadata
import random
import re
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name

from lmkrag.evaluation.dataset import write_records

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from code_search import Asked, read_functions

LEAST_BYTES, MOST_BYTES = 1_500, 120_000  # of a file
FUNCTIONS = 40  # of a file
PACKAGE_CHARACTERS = 300_000
SKIPPED = re.compile(
    r"site-packages/|\b(tests?|testing|_?vendor|examples?|docs?|migrations|idlelib|lib2to3|turtledemo)/"
    r"|test_\w+\.py$|_test\.py$|conftest\.py$|_pb2\.py$"
)
LICENCE = re.compile(r"\b(MIT|BSD|Apache|ISC|PSF|Python Software)\b")
OTHER_LICENCE = re.compile(r"GPL|Mozilla|MPL|Proprietary")


def main() -> None:
    """Write the set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("archives", type=Path, nargs="*")
    options = parser.parse_args()
    rng = random.Random(0)
    documents, asked = [], list[Asked]()
    for name, root in packages(options.archives):
        paths = [path for path in sorted(root.rglob("*.py")) if not SKIPPED.search(path.relative_to(root).as_posix())]
        rng.shuffle(paths)
        characters = 0
        for path in paths:
            if options.archives and characters > PACKAGE_CHARACTERS:
                break
            doc_id = f"{name}/{path.relative_to(root).as_posix()}"
            if not LEAST_BYTES <= path.stat().st_size <= MOST_BYTES:
                continue
            if made := read_functions(path, doc_id, FUNCTIONS, rng):
                documents.append({"doc_id": doc_id, "title": path.stem, "text": made[0], "kind": "code"})
                asked += made[1]
                characters += len(made[0])
    texts = Counter(one.text for one in asked)
    questions = [one for one in asked if texts[one.text] == 1]
    options.out.mkdir(parents=True, exist_ok=True)
    write_records(options.out / "docs.jsonl.gz", documents)
    write_records(
        options.out / "queries.jsonl.gz",
        (
            {"query_id": str(number), "query": one.text, "doc_id": one.answer[0], "spans": [one.answer[1:]]}
            for number, one in enumerate(questions)
        ),
    )
    print(f"{len(documents)} files, {len(questions)} questions")


def packages(archives: list[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the name and the folder of each package: the standard library without archives."""
    if not archives:
        yield "python", Path(sysconfig.get_path("stdlib"))
    installed = {canonicalize_name(one.metadata["Name"]) for one in importlib.metadata.distributions()}
    for archive in sorted(archives):
        name = canonicalize_name(re.split(r"-\d", archive.name)[0])
        with tempfile.TemporaryDirectory() as folder:
            if name in installed:
                continue
            if archive.suffix == ".whl":
                with zipfile.ZipFile(archive) as wheel:
                    wheel.extractall(folder)
            else:
                with tarfile.open(archive) as source:
                    source.extractall(folder, filter="data")
            if allows_training(Path(folder)):
                yield name, Path(folder)


def allows_training(folder: Path) -> bool:
    """Return whether the metadata of an unpacked package names a permissive licence and no other."""
    found = [*folder.rglob("METADATA"), *folder.rglob("PKG-INFO")]
    head = found[0].read_text("utf-8", errors="replace").split("\n\n")[0] if found else ""
    said = " ".join(line for line in head.splitlines() if line.startswith(("License", "Classifier: License")))
    return bool(LICENCE.search(said)) and not OTHER_LICENCE.search(said)


if __name__ == "__main__":
    main()
