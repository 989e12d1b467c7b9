"""Mine the passages that a search shows for questions in other words than those of the text.

    python pipelines/train/written_questions.py DATA OUT [--questions pipelines/train/questions.jsonl.gz]

DATA holds the training sets. Each question of the file has its set, its document, the characters of the sentences that
answer it and of a short answer, if it has one; tables that are no part of a set stand in the file as documents. Each
set is indexed with more of its documents as distractors, and every question is searched as a user's is, but not
re-ranked. OUT gets SET.jsonl.gz, which `pack_passages.py` packs. A fifth of the documents is held out: their questions
go to OUT/held. `--others` of the set's own questions about the same documents are mined too. Sets in other languages
than English go to OUT/multilingual, for a re-ranker with another tokenizer.
"""

import argparse
import gzip
import json
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mined_passages import ANSWERS, NO_ANSWER

from lmkrag import Document, Engine
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.sentences.split import split_sentences

RESULTS = 24
CHARACTERS, MOST = 600_000, 2_000_000  # of a set that are indexed, at least and at most
HALF = 0.5  # a sentence answers if so much of it is evidence, or if it has so much of the evidence
HELD = 5  # every fifth document, by its hash, is held out


class Question(NamedTuple):
    """A question, its document, and the characters there of the evidence and of a short answer.

    ``short`` is empty where there is no short answer, and None where it is not known.
    """

    text: str
    doc_id: str
    spans: tuple[tuple[int, int], ...]
    short: tuple[int, ...] | None


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--questions", type=Path, default=Path(__file__).with_name("questions.jsonl.gz"))
    parser.add_argument("--others", type=int, default=150)
    options = parser.parse_args()
    documents, questions = read_written(options.questions)
    for name, group in questions.items():
        is_english = not name.startswith("ml_")
        out = options.out if is_english else options.out / "multilingual"
        (out / "held").mkdir(parents=True, exist_ok=True)
        if (out / f"{name}.jsonl.gz").exists():
            continue
        others: list[Question] = []
        if not documents[name]:
            documents[name], group, others = choose_documents(options.data / name, group)
            others = [others[i] for i in np.random.default_rng(0).permutation(len(others))[: options.others]]
        encoder = "landmark-mini" if is_english else "landmark-multilingual"
        with tempfile.TemporaryDirectory() as folder, Engine.open(folder, create=True, encoder=encoder) as engine:
            engine.add(documents[name], progress=False)
            held = [question for question in group if is_held(question.doc_id)]
            write_mined(out / "held" / f"{name}.jsonl.gz", engine, held)
            learnt = [question for question in (*group, *others) if not is_held(question.doc_id)]
            write_mined(out / f"{name}.jsonl.gz", engine, learnt)


def read_written(path: Path) -> tuple[dict[str, list[Document]], dict[str, list[Question]]]:
    """Return the documents of a file of questions, which are no part of a set, and its questions, both by set."""
    documents: dict[str, list[Document]] = defaultdict(list)
    questions: dict[str, list[Question]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            if "text" in record:
                table = Document(record["doc_id"], record["doc_id"], record["text"], record["title"], record["kind"])
                documents[record["set"]].append(table)
            else:
                spans = tuple((start, end) for start, end in record["spans"])
                question = Question(record["question"], record["doc_id"], spans, record["short"] or ())
                questions[record["set"]].append(question)
    return documents, questions


def is_held(doc_id: str) -> bool:
    """Return whether a document is held out, with the questions about it."""
    return zlib.crc32(doc_id.encode()) % HELD == 0


def choose_documents(
    folder: Path, questions: Sequence[Question]
) -> tuple[list[Document], list[Question], list[Question]]:
    """Return documents of a set, those with the most questions for their length first, and the questions about them.

    The last are the set's own questions about the same documents.
    """
    dataset, asked = load_dataset(folder), Counter(question.doc_id for question in questions)
    documents, characters = [], 0
    for document in sorted(dataset.documents, key=lambda each: -asked[each.doc_id] / len(each.text)):
        room = (MOST if document.doc_id in asked else CHARACTERS) - characters
        if len(document.text) <= room:
            documents.append(document)
            characters += len(document.text)
    known = asked.keys() & {document.doc_id for document in documents}
    others = [
        Question(query.query, query.doc_id, query.spans, None)
        for query in dataset.queries
        if query.spans and query.doc_id in known
    ]
    return documents, [question for question in questions if question.doc_id in known], others


def write_mined(path: Path, engine: Engine, questions: Sequence[Question]) -> None:
    """Write each question with its passages: the first that a search shows, and one that answers."""
    count = answered = 0
    partial = path.with_suffix(".partial")
    with gzip.open(partial, "wt", encoding="utf-8") as file:
        for question in questions:
            spans = list(engine.search(question.text, top_k=RESULTS, rerank=False))
            passages = [
                label_passage(span.title, span.score, span.doc_id, span.text, span.start, question) for span in spans
            ]
            labelled = [any(passage[4]) for passage in passages]
            count += 1
            answered += any(labelled)
            if not any(labelled):
                start, end = question.spans[0][0], question.spans[-1][1]
                low = max(0, start - 200)
                text = engine.read(question.doc_id, low, end + 200)
                lowest = min((span.score for span in spans), default=0.0)
                passages.append(label_passage("", lowest, question.doc_id, text, low, question))
            file.write(json.dumps([question.text, passages]) + "\n")
    partial.rename(path)
    print(f"{path}: {count} questions, {answered} answered by one of the first {RESULTS} passages", flush=True)


def label_passage(title: str, score: float, doc_id: str, text: str, begin: int, question: Question) -> list[Any]:
    """Return a passage as `mining.py` writes it: its sentences, with the score of all, and which of them answer."""
    sentences = list(split_sentences(text)) or []
    labels = [NO_ANSWER] * len(sentences)
    answers = []
    for number, sentence in enumerate(sentences):
        low, high = begin + sentence.start, begin + sentence.end
        shared = [(min(high, end) - max(low, start), end - start) for start, end in question.spans]
        is_answer = doc_id == question.doc_id and any(
            part > 0 and part >= HALF * min(high - low, length) for part, length in shared
        )
        if is_answer:
            labels[number] = ANSWERS
            if question.short and low <= question.short[0] and question.short[1] <= high:
                answers.append([number, question.short[0] - low, question.short[1] - low])
    if question.short == () and any(labels):
        answers.append([-1, 0, 0])
    texts = [text[sentence.start : sentence.end] for sentence in sentences]
    scores = [score] * len(texts)
    return [title, texts, scores, scores, labels, [True] * len(texts), answers, 0, 0]


if __name__ == "__main__":
    main()
