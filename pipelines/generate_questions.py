"""Write labelled questions about documents with a language model, for ``lmkrag eval`` and ``lmkrag train``.

    pip install 'lmkrag[openai]'
    python pipelines/generate_questions.py docs/ --out data/mine --reader openai --base-url http://localhost:8000/v1

The set in data/mine has the documents, and for each of 200 passages a question that it answers. A run that was
interrupted goes on where it stopped.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lmkrag import Document
from lmkrag.errors import DocumentError, LmkragError, UsageError
from lmkrag.formats.isolated import IsolatedLoader
from lmkrag.ingest.walk import Found, walk
from lmkrag.readers.base import LanguageModelReader
from lmkrag.readers.choose import load_reader
from lmkrag.training.synthetic import synthesise


def main() -> None:
    """Read the documents, then ask the model about their passages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="directory of the set to write")
    parser.add_argument("--questions", type=int, default=200, help="number of passages to ask about")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice of passages")
    parser.add_argument("--reader", choices=("openai", "vllm", "transformers"), default="openai")
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    parser.add_argument("--max-tokens", type=int)
    options = parser.parse_args()
    settings = {"model": options.model, "base_url": options.base_url, "max_tokens": options.max_tokens}
    try:
        reader = load_reader(options.reader, **{name: value for name, value in settings.items() if value is not None})
        assert isinstance(reader, LanguageModelReader)
        documents = load_documents(options.paths)
        written = synthesise(documents, reader, options.out, count=options.questions, seed=options.seed)
    except LmkragError as error:
        sys.exit(f"{Path(__file__).name}: {error}")
    print(f"{options.out}: {written} questions about {len(documents)} documents")


def load_documents(paths: Sequence[Path]) -> list[Document]:
    """Return the documents of files and folders; files that can't be read are skipped with a message."""
    documents = []
    with IsolatedLoader() as loader:
        for item in (item for path in paths for item in walk(path)):
            try:
                if not isinstance(item, Found):
                    raise DocumentError(item.reason)
                documents.append(loader.load(item.path, item.doc_id))
            except DocumentError as error:
                name = item.doc_id if isinstance(item, Found) else item.path
                print(f"skipped {name!r}: {error}", file=sys.stderr)
    if not documents:
        raise UsageError("no documents to ask about")
    return documents


if __name__ == "__main__":
    main()
