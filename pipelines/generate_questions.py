"""Write labelled questions about documents with a language model, for ``lmkrag eval`` and ``lmkrag train``.

    pip install 'lmkrag[openai]'
    python pipelines/generate_questions.py docs/ --out data/mine --reader openai --base-url http://localhost:8000/v1

The set in data/mine has all documents, and for each of 200 passages a question that it answers. A run that was
interrupted goes on where it stopped.

Luo et al., "Landmark Embedding" (arXiv 2402.11573), section 3.2: a background of about 200 words, some consecutive
sentences of it as the answer, and a question about the background that only they answer.
"""  # noqa: E501

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lmkrag import Document
from lmkrag.errors import LmkragError, ReaderError, UsageError
from lmkrag.evaluation.dataset import Query, load_documents, write_dataset
from lmkrag.readers.base import LanguageModelReader, remove_thoughts
from lmkrag.readers.choose import load_reader
from lmkrag.sentences.split import split_sentences
from lmkrag.specs import Sentence

_BACKGROUND_WORDS = 200
_ANSWER_SENTENCES = 5
_LONGEST = 400  # characters of a question; a model that writes more did not understand the task
_FEWEST_WORDS = 3
_MARKS = ' *"“”'  # around a question
_TRIES = 20  # passages drawn before a document set counts as too short


def main() -> None:
    """Read the documents, then ask the model about their passages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="directory of the set to write")
    parser.add_argument(
        "--questions", type=int, default=200, help="number of passages to ask about"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice of passages")
    parser.add_argument("--reader", choices=("openai", "vllm", "transformers"), default="openai")
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    parser.add_argument("--max-tokens", type=int)
    options = parser.parse_args()
    try:
        reader = load_reader(
            options.reader,
            model=options.model,
            base_url=options.base_url,
            max_tokens=options.max_tokens,
        )
        assert isinstance(reader, LanguageModelReader)
        documents, skipped = load_documents(options.paths)
        for each in skipped:
            print(f"skipped {each.path!r}: {each.reason}", file=sys.stderr)
        if not documents:
            raise UsageError("no documents to ask about")
        written = synthesise(
            documents, reader, options.out, count=options.questions, seed=options.seed
        )
    except LmkragError as error:
        sys.exit(f"{Path(__file__).name}: {error}")
    print(f"{options.out}: {written} questions about {len(documents)} documents")


class Passage(NamedTuple):
    """A piece of a document to ask about: characters of the background, and of the answer inside it."""  # noqa: E501

    document: int
    background: tuple[int, int]
    answer: tuple[int, int]


def synthesise(
    documents: Sequence[Document],
    reader: LanguageModelReader,
    out: Path,
    *,
    count: int,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write a folder in the data format, with questions that a model wrote about ``documents``.

    An interrupted run goes on where it stopped: ``out/questions.jsonl`` keeps the model's questions, one per line.

    Args:
        documents: what to ask about; longer documents get more questions.
        reader: the model.
        out: the folder to write.
        count: how many passages to ask the model about; there may be fewer questions, as some replies hold none.
        seed: of the choice of passages.
        progress: called with the number of passages done.

    Returns:
        How many questions there are.

    Raises:
        UsageError: no document has enough text, or ``out`` is of another run.
        ReaderError: the model failed: run again to go on; or it wrote no question.
    """  # noqa: E501
    out.mkdir(parents=True, exist_ok=True)
    journal = out / "questions.jsonl"
    questions = _read_journal(journal)
    cache: dict[int, list[Sentence]] = {}
    with journal.open("a", encoding="utf-8") as file:
        for number in range(count):
            passage = _draw(documents, cache, np.random.default_rng((seed, number)))
            record = {"doc_id": documents[passage.document].doc_id, "spans": [list(passage.answer)]}
            if number not in questions:
                text = documents[passage.document].text
                messages = reader.prompts.synthesise(
                    text[slice(*passage.background)], text[slice(*passage.answer)]
                )
                question = _clean("".join(reader.generate(messages)))
                questions[number] = {"number": number, "query": question, **record}
                file.write(json.dumps(questions[number], ensure_ascii=False) + "\n")
                file.flush()
            elif any(questions[number][name] != value for name, value in record.items()):
                raise UsageError(
                    f"{journal}: of other documents or another seed: choose another --out"
                )
            progress(number + 1)
    return _write_set(documents, [questions[number] for number in range(count)], out)


def _read_journal(path: Path) -> dict[int, dict[str, Any]]:
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.is_file() else []
    # a killed run may leave half a line
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    if records and not lines[-1].endswith("\n"):
        path.write_text("".join(lines[:-1]), "utf-8")
    return {record["number"]: record for record in records}


def _draw(
    documents: Sequence[Document], cache: dict[int, list[Sentence]], rng: np.random.Generator
) -> Passage:
    lengths = np.array([len(document.text) for document in documents], float)
    for _ in range(_TRIES if lengths.sum() else 0):
        number = int(rng.choice(len(documents), p=lengths / lengths.sum()))
        text = documents[number].text
        if number not in cache:
            cache[number] = [s for s in split_sentences(text) if text[s.start : s.end].strip()]
        sentences = cache[number]
        first = int(rng.integers(len(sentences)))
        stop, words = first, 0
        while stop < len(sentences) and words < _BACKGROUND_WORDS:
            words += len(text[sentences[stop].start : sentences[stop].end].split())
            stop += 1
        prose = [i for i in range(first, stop) if sentences[i].kind in ("text", "turn", "item")]
        if len(prose) < 2:
            continue
        begin = int(rng.choice(prose))
        end = min(begin + int(rng.integers(1, _ANSWER_SENTENCES + 1)), stop)
        answer = text[sentences[begin].start : sentences[end - 1].end]
        start = sentences[begin].start + len(answer) - len(answer.lstrip())
        background = sentences[first].start, sentences[stop - 1].end
        return Passage(number, background, (start, start + len(answer.strip())))
    raise UsageError("these documents have no passage long enough to ask about")


def _clean(reply: str) -> str:
    """Return the question in a model's reply, empty if there is none."""
    lines = [line.strip(_MARKS) for line in remove_thoughts(reply).splitlines()]
    question = next(filter(None, lines), "").removeprefix("Question:").strip(_MARKS)
    return question if len(question) <= _LONGEST and len(question.split()) >= _FEWEST_WORDS else ""


def _write_set(documents: Sequence[Document], records: list[dict[str, Any]], out: Path) -> int:
    queries: dict[tuple[str, str], Query] = {}
    for record in records:
        text, doc_id = record["query"], record["doc_id"]
        if text:
            query = Query(str(record["number"]), text, doc_id, record["spans"])
            queries.setdefault((doc_id, text.casefold()), query)
    if not queries:
        raise ReaderError(f"{out}: the model wrote no question: choose another, and another --out")
    write_dataset(out, documents, queries.values())
    return len(queries)


if __name__ == "__main__":
    main()
