"""Fit how sure `ask` is of its answers and of their values.

    python benchmarks/confidence.py CORPUS... --work DIR [--notes pipelines/train/notes.jsonl.gz]
        [--languages en,de]

Asks the questions of corpora (see `asking.py`), which are of the group `fit` in
`asking/corpora.toml`, and with `--notes` those of the groups of short documents that no reader
learns from, those of a language in one index. Each corpus is also asked some questions of the one
before it, which it does not answer, and counts the same. Prints the constants of `AnswerWeights`
that logistic regressions give: of the confidence, on whether one of the first three passages
answers, and of values, on whether the value of the first marked sentence is right; and how well
both separate (AUROC) and are calibrated, with the constants in use and fitted with each corpus left
out. Indexes are kept in DIR.
"""

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from real import Question, read_questions
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from trust import print_reliability

from lmkrag import Document, Engine
from lmkrag.encoder.spec import MULTILINGUAL_ENCODER
from lmkrag.readers.confidence import ANSWERS, confidence_features, value_features
from lmkrag.readers.extractive import ExtractiveReader, cite_read, find_origin, find_words
from lmkrag.readers.values import complete_value
from lmkrag.reranker.landmark import SentenceReading
from pipelines.train.contrasts.notes import is_held_out

STRANGE = 10  # questions of a corpus that the next one is asked, too
LANGUAGES = "en,de,fr,es,it,pl,pt,ru,zh"


class Case(NamedTuple):
    """A question: whether the first passages answer it, and whether the value found is right.

    ``value`` has the features of the value, None without one.
    """

    corpus: str
    is_foreign: bool
    answered: bool
    features: tuple[float, ...]
    value: tuple[float, ...] | None
    right: bool


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path, nargs="*")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--notes", type=Path)
    parser.add_argument("--languages", default=LANGUAGES, help="of the notes")
    options = parser.parse_args()
    cases: list[Case] = []
    elsewhere: list[Question] = []
    for folder in options.corpora:
        with Engine.open(options.work / folder.name, create=True) as engine:
            engine.add(folder / "files")
            questions = read_questions(folder / "questions.jsonl")
            strange = [replace(question, pattern=None, short=None) for question in elsewhere]
            cases += ask(engine, folder.name, [*questions, *strange])
            elsewhere = questions[:STRANGE]
    for language in options.languages.split(",") if options.notes else ():
        encoder = None if language == "en" else MULTILINGUAL_ENCODER
        documents, questions = read_notes(options.notes, language)
        name = f"notes-{language}"
        with Engine.open(options.work / name, create=True, encoder=encoder) as engine:
            engine.add(documents)
            cases += ask(engine, name, questions)
    for is_foreign, kind in enumerate(("confidence", "foreign")):
        chosen = [case for case in cases if case.is_foreign == bool(is_foreign)]
        if chosen:
            report(kind, [(case.corpus, case.answered, case.features) for case in chosen])
    report("value", [(case.corpus, case.right, case.value) for case in cases if case.value])


def read_notes(path: Path, language: str) -> tuple[list[Document], list[Question]]:
    """Return documents of groups that are held out, all in other languages, and their questions."""
    documents: list[Document] = []
    questions: dict[tuple[str, str], Question] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, record in enumerate(map(json.loads, lines)):
            is_learnt = language == "en" and not is_held_out(record["group"])
            if record["lang"] != language or is_learnt:
                continue
            title, _, heading = record["place"].rpartition(" > ")
            text = f"# {heading}\n\n{record['text']}"
            name = f"{number}.md"
            documents.append(Document(name, name, text, kind="markdown", title=title or heading))
            for asked in record["questions"]:
                key = record["group"], asked["question"]
                if asked["sentence"] or key not in questions:
                    questions[key] = _read_question(record["group"], asked)
    return documents, list(questions.values())


def _read_question(group: str, asked: dict[str, str]) -> Question:
    """A question of a note; other documents of its group may answer it, too."""
    sentence, short = asked["sentence"], asked.get("short")
    pattern = re.compile(re.escape(sentence)) if sentence else None
    value = re.compile(match_value(short), re.IGNORECASE) if short else None
    return Question(group, "", "", asked["question"], pattern, value, files=())


def match_value(value: str) -> str:
    """Return what matches a value, its words in another text, or half of its words alone."""
    words = value.split()
    parts = (
        " ".join(words[first:stop])
        for first in range(len(words))
        for stop in range(first + 1, len(words) + 1)
    )
    halves = "|".join(re.escape(part) for part in parts if 2 * len(part) >= len(value))
    return rf"{re.escape(value)}|\A(?:{halves})\W*\Z"


def ask(engine: Engine, corpus: str, questions: Sequence[Question]) -> Iterator[Case]:
    """Ask questions."""
    reader = ExtractiveReader()
    for question in questions:
        spans = engine.search(question.text)
        read = reader.read(question.text, spans)
        if not read:
            continue
        is_foreign = isinstance(read[0].reading, SentenceReading)
        pattern, short = question.pattern, question.short
        answered = pattern is not None and any(pattern.search(span.text) for span in spans[:3])
        features = confidence_features(spans, [each.reading for each in read])
        citation = next(cite_read(read), None)
        found = citation and find_words(read[citation.number - 1], citation)
        value, right = None, False
        if citation and found:
            first = read[citation.number - 1]
            value = value_features(first.reading, found)
            start, end = complete_value(first.span.text, *find_origin(first.input, found))
            text = first.span.text[start:end]
            right = short is not None and short.search(text) is not None
        yield Case(corpus, is_foreign, answered, features, value, right)


def report(name: str, cases: Sequence[tuple[str, bool, tuple[float, ...]]]) -> None:
    """Fit a regression on corpora, truths and features, and print its constants and how it does."""
    corpora, truth, features = (np.array(column) for column in zip(*cases, strict=True))
    bias, weights = {
        "confidence": (ANSWERS.bias, ANSWERS.features),
        "foreign": (ANSWERS.foreign_bias, ANSWERS.foreign_features),
        "value": (ANSWERS.value_bias, ANSWERS.value_features),
    }[name]
    counts = Counter(corpora.tolist())
    sample_weights = np.array([len(cases) / len(counts) / counts[corpus] for corpus in corpora])
    model = LogisticRegression(C=10).fit(features, truth, sample_weights)
    constants = f"bias {model.intercept_[0]:.2f}, features {np.round(model.coef_[0], 3)}"
    print(f"\n{name}: {len(cases)} questions, {truth.sum()} right; fitted: {constants}")
    in_use = expit(bias + features @ np.array(weights))
    print_reliability(corpora, truth, features, {"constants in use": in_use}, sample_weights)


if __name__ == "__main__":
    main()
