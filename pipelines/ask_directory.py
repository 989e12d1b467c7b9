"""Index a directory and ask it questions.

    python pipelines/ask_directory.py tests/data/corpus "When are bonfires allowed?"

prints

    on the first Sunday of November, December and January

    > Rules on bonfires
    >
    > After a long discussion it was decided that bonfires are allowed on the first Sunday of November, December and January only, and never when the wind is from the west, because the school lies to the east. Painted wood and plastic may not be burned at all. [1]
    [1] reports/allotment-minutes.docx 824-1027

With ``--index DIR`` a second run reads only files that changed.
"""  # noqa: E501

import argparse
import tempfile
from pathlib import Path

from lmkrag import Engine


def main() -> None:
    """Index, ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("questions", nargs="+")
    parser.add_argument(
        "--index", type=Path, help="where to keep the index; a temporary one without"
    )
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        Engine.open(options.index or scratch, create=True) as engine,
    ):
        engine.add(options.directory, prune=True)
        for question in options.questions:
            answer = engine.ask(question)
            print(answer.text)
            for citation in answer.citations:
                print(f"[{citation.number}] {citation.span.doc_id} {citation.start}-{citation.end}")


if __name__ == "__main__":
    main()
