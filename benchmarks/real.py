"""Are questions in a colleague's words answered from files as people have them?

    python benchmarks/real.py CORPORA [VARIANT...] [--work DIR] [--corpora NAMES] [--ask] [--misses]
        [--rivals] [--encoder FOLDER] [--reranker FOLDER] [--typos SEED] [--half HALF]

CORPORA has a folder for each corpus: `files`, and `questions.jsonl` with a regular expression for the passage that
answers each question. A variant is a comma-separated list of options of a search, weights and a re-ranker, or
`default`: `level=span`, `rerank=no,mode=dense`, `keep=0.95,lexical=0.08`, `reranker=DIR`.

Counts the questions whose answer is in the first passage, the first three and ten, and in the first 500, 1,000 and
2,000 characters of all passages, and whose file is first and among the first three. The mean length of a passage and
the processor's time for a search stand beside them.
Compares each variant with the first (paired bootstrap), over all questions and by corpus. `--ask` prints what `ask`
says without a language model, `--misses` the questions whose answer is not in the first passage of the last variant.
`--rivals` adds what others find in the same texts: SQLite's FTS5 over pieces of 200 and 500 characters, and chunks of
200 tokens by vectors and BM25, of which a cross-encoder reads the best 30. FOLDER are models of sentence-transformers;
without them, chunks are embedded by all-MiniLM-L6-v2 and not re-ranked. Indexes are kept in the folder `--work`.
`--typos` puts one wrong letter, drawn with a seed, into the longest content word of each question: one letter is left
out, added or replaced, or two are exchanged.
"""

import argparse
import json
import random
import re
import string
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rivals import Find, search_chunks, search_fts5

from lmkrag import Document, Engine, Span
from lmkrag.encoder.spec import BASE_ENCODER
from lmkrag.evaluation.metrics import paired_interval
from lmkrag.index.store import IndexStore
from lmkrag.language.terms import drop_stop_words, fold
from lmkrag.search.weights import WEIGHTS, Weights

RANKS = (1, 3, 10)
BUDGETS = (500, 1_000, 2_000)
RESULTS = 10
MEASURES = ("first", "three", "ten", "500", "1,000", "2,000", "file first", "in three")
_SWITCHES = {"yes": True, "no": False}


class Passage(NamedTuple):
    """A piece of a document that others find."""

    doc_id: str
    text: str


@dataclass(frozen=True)
class Question:
    """A question of a corpus; ``pattern`` matches the passages that answer it, None where nothing does."""

    id: str
    corpus: str
    kind: str
    text: str
    pattern: re.Pattern[str] | None
    short: re.Pattern[str] | None
    files: tuple[str, ...]
    half: str = ""


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("variants", nargs="*", default=["default"])
    parser.add_argument("--work", type=Path)
    parser.add_argument("--corpora", default="", help="names, all without")
    parser.add_argument("--ask", action="store_true")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--encoder", default=BASE_ENCODER)
    parser.add_argument("--reranker", default="")
    parser.add_argument("--typos", type=int, metavar="SEED")
    parser.add_argument("--half", choices=("choose", "prove"))
    options = parser.parse_intermixed_args()
    questions = [
        question
        for question in read_corpora(options.data, options.corpora)
        if options.half in (None, question.half)
    ]
    if options.typos is not None:
        questions = [
            replace(question, text=mistype(question.text, options.typos)) for question in questions
        ]
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        build_indexes(options.data, work, sorted({question.corpus for question in questions}))
        answered = [question for question in questions if question.pattern]
        corpora = np.array([question.corpus for question in answered])
        rows, costs = {}, {}
        searches = {
            variant: partial(search, work, answered, variant) for variant in options.variants
        }
        if options.rivals:
            searches |= rival_searches(work, answered, options.encoder, options.reranker)
        for variant, find in searches.items():
            began = time.process_time()
            found = find()
            milliseconds = 1_000 * (time.process_time() - began) / len(answered)
            rows[variant] = np.array(
                [measure(*pair) for pair in zip(answered, found, strict=True)], float
            )
            length = np.mean([len(span.text) for spans in found for span in spans])
            costs[variant] = f"{length:.0f} | {milliseconds:.0f}"
        print_counts(rows, costs, corpora)
        print_differences(rows, corpora)
        if options.misses:
            print_misses(answered, found)
        if options.ask:
            for variant in options.variants:
                print_answers(work, questions, variant)


def read_corpora(data: Path, names: str) -> list[Question]:
    """Return the questions of the corpora named, divided by commas; of all without names."""
    files = sorted(data.glob("*/questions.jsonl"))
    chosen = [file for file in files if not names or file.parent.name in names.split(",")]
    return [question for file in chosen for question in read_questions(file)]


def read_questions(file: Path) -> list[Question]:
    """Return the questions of a corpus."""
    questions = []
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        pattern, short = (
            row[name] and re.compile(row[name], re.DOTALL) for name in ("pattern", "short")
        )
        files = tuple(row["file"])
        questions.append(
            Question(
                row["id"],
                row["corpus"],
                row["kind"],
                row["question"],
                pattern,
                short,
                files,
                row.get("half", ""),
            )
        )
    return questions


def mistype(question: str, seed: int) -> str:
    """Return a question with a wrong letter in its longest content word of at least five letters."""
    words = [
        word
        for word in re.findall(r"(?<![\w-])[^\W\d_]{5,}(?![\w-])", question)
        if drop_stop_words([fold(word)])
    ]
    if not words:
        return question
    word, draw = max(words, key=len), random.Random(f"{seed} {question}")
    wrong = word
    while wrong == word:
        place, letter = draw.randrange(len(word)), draw.choice(string.ascii_lowercase)
        before, own, after = word[:place], word[place], word[place + 1 :]
        wrong = draw.choice(
            [
                before + after,
                before + after[:1] + own + after[1:],
                before + letter + after,
                before + letter + own + after,
            ]
        )
    return question.replace(word, wrong)


def build_indexes(data: Path, work: Path, corpora: list[str]) -> None:
    """Index the files of each corpus, unless they are already."""
    for corpus in corpora:
        with Engine.open(work / corpus, create=True) as engine:
            engine.add(data / corpus / "files")


def parse_variant(variant: str) -> tuple[Weights, str | None, dict[str, Any]]:
    """Return the weights, the re-ranker and the options of a search that a variant names."""
    weights: dict[str, Any] = {}
    search: dict[str, Any] = {}
    reranker = None
    numbers = {each.name: type(getattr(WEIGHTS, each.name)) for each in fields(Weights)}
    for setting in [] if variant == "default" else variant.split(","):
        name, value = setting.split("=")
        if name in numbers:
            weights[name] = numbers[name](value)
        elif name == "reranker":
            reranker = value
        else:
            search[name] = _SWITCHES.get(value, value)
    return replace(WEIGHTS, **weights), reranker, search


def open_engine(path: Path, variant: str) -> Engine:
    """Open an index with the weights and the re-ranker of a variant."""
    weights, reranker, _ = parse_variant(variant)
    return Engine(IndexStore.open(path), reranker=reranker, weights=weights)


def search(work: Path, questions: list[Question], variant: str) -> list[list[Span]]:
    """Return what is found for each question in its corpus."""
    found: dict[Question, list[Span]] = {}
    for corpus in sorted({question.corpus for question in questions}):
        asked = [question for question in questions if question.corpus == corpus]
        with open_engine(work / corpus, variant) as engine:
            results = engine.search_many(
                [question.text for question in asked], top_k=RESULTS, **parse_variant(variant)[2]
            )
        found |= dict(zip(asked, results, strict=True))
    return [found[question] for question in questions]


def rival_searches(
    work: Path, questions: list[Question], encoder: str, reranker: str
) -> dict[str, Callable[[], list[list[Passage]]]]:
    """Return how others find passages in the texts of the indexes, by name; each reads the texts anew."""
    finders: dict[str, Callable[[list[Document]], Find]] = {
        f"FTS5, {size} characters": partial(search_fts5, size=size) for size in (200, 500)
    }
    finders["chunks of 200 tokens"] = partial(
        search_chunks, name="recursive:200", model=encoder, words=True, reranker=reranker
    )

    def run(make: Callable[[list[Document]], Find]) -> list[list[Passage]]:
        passages: dict[Question, list[Passage]] = {}
        for corpus in sorted({question.corpus for question in questions}):
            with Engine.open(work / corpus) as engine:
                documents = [
                    Document(info.doc_id, info.title, engine.read(info.doc_id))
                    for info in engine.documents()
                ]
            texts = {document.doc_id: document.text for document in documents}
            find = make(documents)
            for question in (question for question in questions if question.corpus == corpus):
                pieces = find(question.text)[:RESULTS]
                passages[question] = [
                    Passage(name, texts[name][start:end]) for name, start, end in pieces
                ]
        return [passages[question] for question in questions]

    return {name: partial(run, make) for name, make in finders.items()}


def measure(question: Question, spans: Sequence[Span | Passage]) -> list[bool]:
    """Return whether the spans answer a question, by each of the measures."""
    assert question.pattern
    matches = [bool(question.pattern.search(span.text)) for span in spans]
    within = []
    for budget in BUDGETS:
        left, answers = budget, False
        for span in spans:
            answers = answers or bool(question.pattern.search(span.text[: max(0, left)]))
            left -= len(span.text)
        within.append(answers)
    files = [doc_id in question.files for doc_id in dict.fromkeys(span.doc_id for span in spans)]
    return [*(any(matches[:rank]) for rank in RANKS), *within, any(files[:1]), any(files[:3])]


def print_counts(rows: dict[str, np.ndarray], costs: dict[str, str], corpora: np.ndarray) -> None:
    """Print how many questions each variant answers, in all and by corpus, and its ``costs``, ready for two cells."""
    print("| variant | questions | " + " | ".join(MEASURES) + " | characters | CPU ms |")
    print("|---" * (len(MEASURES) + 4) + "|")
    for corpus in (None, *np.unique(corpora)):
        chosen = np.ones(len(corpora), bool) if corpus is None else corpora == corpus
        for variant, values in rows.items():
            cells = " | ".join(f"{count:.0f}" for count in values[chosen].sum(0))
            cost = " | " if corpus else costs[variant]
            print(
                f"| {variant}{f' ({corpus})' if corpus else ''} | {chosen.sum()} | {cells} | {cost} |"
            )


def print_differences(rows: dict[str, np.ndarray], corpora: np.ndarray) -> None:
    """Print what each variant has more than the first, in points, with 95 % intervals; by corpus without."""
    first, *others = rows
    if others:
        print(f"\nminus {first}, in points; significant in bold\n")
        print("| variant | " + " | ".join(MEASURES[:6]) + " |\n" + "|---" * 7 + "|")
    for variant in others:
        differences = 100 * (rows[variant] - rows[first])[:, :6]
        print(f"| {variant} | {' | '.join(_interval(column) for column in differences.T)} |")
        for corpus in np.unique(corpora):
            cells = " | ".join(_interval(column) for column in differences[corpora == corpus].T)
            print(f"| {variant} ({corpus}) | {cells} |")


def _interval(differences: np.ndarray) -> str:
    mean, low, high = paired_interval(differences)
    mark = "**" if low > 0 or high < 0 else ""
    return f"{mark}{mean:+.1f} [{low:+.1f}, {high:+.1f}]{mark}"


def print_misses(questions: list[Question], found: list[list[Span]]) -> None:
    """Print the questions whose answer is not in the first passage, and that passage."""
    for question, spans in zip(questions, found, strict=True):
        assert question.pattern
        ranks = [rank for rank, span in enumerate(spans, 1) if question.pattern.search(span.text)]
        if ranks[:1] != [1]:
            print(
                f"\n## {question.id}: {question.text}\nin {', '.join(question.files)}; rank {ranks[:1] or 'none'}"
            )
            print(
                "\n".join(
                    f"{number}. {span.doc_id}: {span.text[:600]}"
                    for number, span in enumerate(spans[:1], 1)
                )
            )


def print_answers(work: Path, questions: list[Question], variant: str) -> None:
    """Print what `ask` says without a language model: `found` says right or not, else it is a doubtful answer."""
    told: dict[str, int] = dict.fromkeys(("right", "wrong", "right but doubtful", "refused"), 0)
    refused: dict[str, list[bool]] = {"absent": [], "off-topic": []}
    short = [0, 0]
    for corpus in sorted({question.corpus for question in questions}):
        with open_engine(work / corpus, variant) as engine:
            for question in (question for question in questions if question.corpus == corpus):
                answer = engine.ask(question.text)
                if not question.pattern:
                    refused[question.kind].append(not answer.found)
                    continue
                shown = [answer.text, *(citation.quote for citation in answer.citations)]
                right = any(question.pattern.search(text) for text in shown)
                if answer.short and question.short:
                    short[0] += bool(question.short.search(answer.short[0].text))
                    short[1] += 1
                if answer.found:
                    told["right" if right else "wrong"] += 1
                else:
                    told["right but doubtful" if right else "refused"] += 1
    print(
        f"\nask, {variant}: " + ", ".join(f"{count} {what}" for what, count in told.items()),
        end="; ",
    )
    print(
        "refused "
        + ", ".join(f"{sum(values)} of {len(values)} {kind}" for kind, values in refused.items()),
        end="",
    )
    print(f"; short answers right {short[0]} of {short[1]}")


if __name__ == "__main__":
    main()
