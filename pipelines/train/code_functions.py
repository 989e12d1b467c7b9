"""Make a training set of source code: functions, asked for by what they do and by their names.

    python -m pipelines.train.code_functions build/stdlib-functions
    python -m pipelines.train.code_functions build/package-functions wheels/*

Without archives the functions are those of Python's standard library (PSF-2.0). Archives are wheels
and source archives of packages, as `pip download --no-deps` saves them. Left out are packages that
are installed here, since `benchmarks/code_search.py` measures on them, and packages whose metadata
names no MIT, BSD, Apache, ISC or PSF licence. The documents of the set are files without their
docstrings; its questions are first lines of docstrings, and names of three words and more.
"""

import argparse
import importlib.metadata
import random
import re
import sysconfig
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name

from benchmarks.code_search import Question, read_functions
from lmkrag.evaluation.dataset import write_records

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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("archives", type=Path, nargs="*")
    options = parser.parse_args()
    rng = random.Random(0)
    documents, questions = [], list[Question]()
    for name, root in packages(options.archives):
        paths = [
            path
            for path in sorted(root.rglob("*.py"))
            if not SKIPPED.search(path.relative_to(root).as_posix())
        ]
        rng.shuffle(paths)
        characters = 0
        for path in paths:
            if options.archives and characters > PACKAGE_CHARACTERS:
                break
            doc_id = f"{name}/{path.relative_to(root).as_posix()}"
            if not LEAST_BYTES <= path.stat().st_size <= MOST_BYTES:
                continue
            if file := read_functions(path, doc_id, FUNCTIONS, rng):
                documents.append(
                    {"doc_id": doc_id, "title": path.stem, "text": file[0], "kind": "code"}
                )
                questions += file[1]
                characters += len(file[0])
    texts = Counter(question.text for question in questions)
    questions = [question for question in questions if texts[question.text] == 1]
    options.out.mkdir(parents=True, exist_ok=True)
    write_records(options.out / "docs.jsonl.gz", documents)
    write_records(
        options.out / "queries.jsonl.gz",
        (
            {"query_id": str(number), "query": text, "doc_id": doc_id, "spans": [span]}
            for number, (text, _, (doc_id, *span)) in enumerate(questions)
        ),
    )
    print(f"{len(documents)} files, {len(questions)} questions")


def packages(archives: list[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the name and folder of each package, or of the standard library without archives."""
    if not archives:
        yield "python", Path(sysconfig.get_path("stdlib"))
    installed = {
        canonicalize_name(package.metadata["Name"])
        for package in importlib.metadata.distributions()
    }
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
    """Return whether a package's metadata names a permissive licence and no other."""
    files = [*folder.rglob("METADATA"), *folder.rglob("PKG-INFO")]
    head = files[0].read_text("utf-8", errors="replace").split("\n\n")[0] if files else ""
    licences = " ".join(
        line for line in head.splitlines() if line.startswith(("License", "Classifier: License"))
    )
    return bool(LICENCE.search(licences)) and not OTHER_LICENCE.search(licences)


if __name__ == "__main__":
    main()
