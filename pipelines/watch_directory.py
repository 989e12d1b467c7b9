"""Keep an index up to date with a directory: every change of a file is indexed within seconds.

    pip install "lmkrag[watch]"
    python pipelines/watch_directory.py docs/ --index indexes/docs

prints a line for each change, such as

    1 added, 0 updated, 0 removed

until it is interrupted. Readers may search the index all the time: each sees a whole snapshot.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from watchfiles import watch

from lmkrag import Engine


def main() -> None:
    """Index, then index again at each change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--changes", type=int, default=0, help="stop after so many; 0 for never")
    options = parser.parse_args()
    with Engine.open(options.index, create=True) as engine:
        changes = watch(options.directory, yield_on_timeout=True, rust_timeout=1_000)
        for seen, _ in enumerate(_once_and(changes)):
            report = engine.add(options.directory, prune=True)
            print(f"{report.added} added, {report.updated} updated, {report.removed} removed", flush=True)
            if options.changes and seen >= options.changes:
                break


def _once_and(changes: Iterable[set]) -> Iterator[set]:
    """One turn at the start, once changes are watched for, then one for each batch of them."""
    for number, change in enumerate(changes):
        if change or number == 0:
            yield change


if __name__ == "__main__":
    main()
