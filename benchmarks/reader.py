"""Does a language model answer better from landmark passages than from chunks? The claim of the paper, measured.

    python benchmarks/reader.py DATA --model FILE.gguf [--queries 20] [--tokens 300,600,1200] [--sets NAMES]
        [--against recursive:100,recursive:200] [--base-url URL]
    python benchmarks/reader.py --corpora CORPUS... --model FILE.gguf [--queries 20] [--characters 1500] [--work DIR]

Asks a causal model (a folder, a GGUF file, or with `--base-url` the name of one behind an OpenAI-compatible server)
questions of the sets below DATA from passages that take the same number of tokens: those of `lmkrag`, the best chunks
of the baselines, and the beginning of the document. Every question is asked of its own document, and the prompt is the
same. Prints exact match and F1 against the evidence, as SQuAD's own script counts them, and the paired bootstrap of the
difference in F1 from lmkrag.

Of corpora (see `real.py`) it prints how many questions the model answers right, by the pattern of short answers or else
that of passages, from as many characters of passages or of chunks of the whole corpus. Indexes are kept in DIR.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from answers import exact, f1
from real import Question, read_questions

from lmkrag import Document, Engine, Span
from lmkrag.evaluation.baselines import Baseline
from lmkrag.evaluation.dataset import choose_queries, draw_sample, load_dataset
from lmkrag.evaluation.metrics import macro_interval, paired_interval
from lmkrag.readers.base import LanguageModelReader
from lmkrag.readers.choose import load_reader
from lmkrag.search.filters import quote

SETS = ("squad", "covidqa", "fairytaleqa_sent", "policyqa", "clapnq", "medquad")
OURS, BEGINNING = "lmkrag", "beginning of the document"


class Sample(NamedTuple):
    """A question, what answers it, and the passages of a system within a number of tokens."""

    question: str
    gold: list[str]
    system: str
    tokens: int
    passages: list[Span]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--corpora", type=Path, nargs="*", default=[])
    parser.add_argument(
        "--characters", type=int, default=1_500, help="of the passages about a corpus"
    )
    parser.add_argument("--work", type=Path, help="indexes of corpora")
    parser.add_argument("--model", required=True)
    parser.add_argument("--base-url", help="of an OpenAI-compatible server")
    parser.add_argument("--queries", type=int, default=20, help="of each set")
    parser.add_argument("--tokens", default="300,600,1200")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--against", default="recursive:100,recursive:200")
    parser.add_argument(
        "--out", type=Path, help="keep the answers here; sets that are there are not asked again"
    )
    options = parser.parse_args()
    if not options.data and not options.corpora:
        parser.error("DATA or --corpora is required")
    kind = "openai" if options.base_url else "transformers"
    reader = load_reader(
        kind, model=options.model, base_url=options.base_url, prompts=Path("small"), max_tokens=40
    )
    assert isinstance(reader, LanguageModelReader)
    baselines = [Baseline(name) for name in filter(None, options.against.split(","))]
    if options.corpora:
        with tempfile.TemporaryDirectory() as temporary:
            work = options.work or Path(temporary)
            replies = [
                (
                    question,
                    system,
                    "".join(
                        reader.generate(reader.prompts.answer(question.text, passages))
                    ).strip(),
                )
                for corpus in options.corpora
                for question, system, passages in search_corpus(corpus, work, baselines, options)
            ]
        print_right(replies)
        return
    budgets = [int(tokens) for tokens in options.tokens.split(",")]
    records = (
        json.loads(options.out.read_text("utf-8")) if options.out and options.out.exists() else []
    )
    for name in options.sets.split(","):
        if any(record["set"] == name for record in records):
            continue
        for sample in find_passages(options.data / name, options.queries, baselines, budgets):
            text = "".join(
                reader.generate(reader.prompts.answer(sample.question, sample.passages))
            ).strip()
            best = (
                max(exact(text, gold) for gold in sample.gold),
                max(f1(text, gold) for gold in sample.gold),
            )
            records.append(
                {
                    "set": name,
                    **sample._replace(passages=[])._asdict(),
                    "said": text,
                    "scores": best,
                }
            )
        print(f"{name} done", flush=True)
        if options.out:
            options.out.write_text(json.dumps(records, indent=1, ensure_ascii=False), "utf-8")
    scores: dict[tuple[str, int], dict[str, list[tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for record in records:
        scores[record["system"], record["tokens"]][record["set"]].append(record["scores"])
    print_scores(scores)


def search_corpus(
    folder: Path, work: Path, baselines: Sequence[Baseline], options: argparse.Namespace
) -> Iterator[tuple[Question, str, list[Span]]]:
    """Yield questions of a corpus that have an answer, with the passages that each system finds."""
    questions = [
        question for question in read_questions(folder / "questions.jsonl") if question.pattern
    ]
    with Engine.open(work / folder.name, create=True) as engine:
        engine.add(folder / "files")
        names = [document.doc_id for document in engine.documents()]
        documents = [Document(name, name, engine.read(name)) for name in names]
        chunks = {
            baseline.name: [
                (number, bounds, vector)
                for number, units in enumerate(baseline.encode_documents(documents))
                for bounds, vector in zip(units.bounds, units.vectors, strict=True)
            ]
            for baseline in baselines
        }
        for question in draw_sample(questions, options.queries):
            yield question, OURS, limit(engine.search(question.text), options.characters)
            for baseline in baselines:
                units = chunks[baseline.name]
                vectors = np.stack([vector for _, _, vector in units])
                order = np.argsort(-(vectors @ baseline.encode_queries([question.text])[0]))[
                    :20
                ].tolist()
                passages = [
                    make_span(documents[units[place][0]], *units[place][1]) for place in order
                ]
                yield question, baseline.name, limit(passages, options.characters)


def limit(spans: Sequence[Span], characters: int) -> list[Span]:
    """Return the first passages with a number of characters in all; the last is cut."""
    taken: list[Span] = []
    for span in spans:
        text = span.text[:characters]
        characters -= len(text)
        taken += [replace(span, text=text, end=span.start + len(text), hits=())] if text else []
    return taken


def print_right(replies: Sequence[tuple[Question, str, str]]) -> None:
    """Print how many questions are answered right from each system's passages, and the differences from lmkrag."""
    right: dict[str, list[bool]] = defaultdict(list)
    for question, system, text in replies:
        pattern = question.short or question.pattern
        assert pattern
        right[system].append(bool(pattern.search(text)))
        print(f"{system} {'right' if right[system][-1] else 'wrong'} {question.id}: {text!r}")
    for system, values in right.items():
        mean, low, high = paired_interval(
            100.0 * (np.array(right[OURS], float) - np.array(values, float))
        )
        print(
            f"{system}: {sum(values)} of {len(values)} right; {OURS} {mean:+.1f} [{low:+.1f}, {high:+.1f}] points more"
        )


def find_passages(
    folder: Path, count: int, baselines: Sequence[Baseline], budgets: Sequence[int]
) -> Iterator[Sample]:
    """Yield questions of a set with the passages that each system finds in the question's own document."""
    dataset = load_dataset(folder)
    queries = choose_queries(dataset, count)
    documents = {
        d.doc_id: d for d in dataset.documents if d.doc_id in {query.doc_id for query in queries}
    }
    with tempfile.TemporaryDirectory() as work, Engine.open(work, create=True) as engine:
        for document in documents.values():
            engine.add(document)
        chunks = {
            baseline.name: dict(
                zip(documents, baseline.encode_documents(list(documents.values())), strict=True)
            )
            for baseline in baselines
        }
        for query in queries:
            document = documents[query.doc_id]
            gold = [document.text[start:end] for start, end in query.spans]
            for tokens in budgets:
                scope = f"doc_id={quote(query.doc_id)}"
                results = {OURS: engine.search(query.query, filter=scope, max_tokens=tokens)}
                for baseline in baselines:
                    units = chunks[baseline.name][query.doc_id]
                    order = np.argsort(
                        -(units.vectors @ baseline.encode_queries([query.query])[0])
                    ).tolist()
                    results[baseline.name] = fill(
                        [units.bounds[i] for i in order], document, tokens, engine
                    )
                beginning = cut(document.text, tokens, engine)
                results[BEGINNING] = [make_span(document, 0, beginning)]
                for system, passages in results.items():
                    yield Sample(query.query, gold, system, tokens, list(passages))


def fill(
    bounds: Sequence[tuple[int, int]], document: Document, tokens: int, engine: Engine
) -> list[Span]:
    """Return the first chunks that fit the tokens, at least one."""
    taken: list[Span] = []
    for start, end in bounds:
        tokens -= engine.encoders.encoder.count_tokens(document.text[start:end])
        if tokens < 0 and taken:
            break
        taken.append(make_span(document, start, end))
    return taken


def cut(text: str, tokens: int, engine: Engine) -> int:
    """Return how many characters from the beginning of a text fit the tokens."""
    end = min(len(text), 5 * tokens)
    while end and engine.encoders.encoder.count_tokens(text[:end]) > tokens:
        end -= max(1, end // 20)
    return end


def make_span(document: Document, start: int, end: int) -> Span:
    """Return characters of a document as a passage."""
    return Span(document.doc_id, "", start, end, document.text[start:end], 1.0)


def print_scores(scores: dict[tuple[str, int], dict[str, list[tuple[float, float]]]]) -> None:
    """Print the mean of the sets' means, and the differences from lmkrag."""
    systems = list(dict.fromkeys(system for system, _ in scores))
    budgets = sorted({tokens for _, tokens in scores})
    print(
        "\n| exact match / F1 within | "
        + " | ".join(f"{tokens:,} tokens" for tokens in budgets)
        + " |"
    )
    print("|---|" + "---|" * len(budgets))
    for system in systems:
        means = [
            np.mean([np.mean(rows, 0) for rows in scores[system, tokens].values()], 0)
            for tokens in budgets
        ]
        print(
            f"| {system} | "
            + " | ".join(f"{100 * em:.1f} / {100 * words:.1f}" for em, words in means)
            + " |"
        )
    for system in systems[1:]:
        for tokens in budgets:
            ours, theirs = scores[OURS, tokens], scores[system, tokens]
            differences = [
                100 * (np.array(ours[name])[:, 1] - np.array(theirs[name])[:, 1]) for name in ours
            ]
            mean, low, high = macro_interval(differences)
            print(f"{OURS} - {system}, {tokens:,} tokens: {mean:+.1f} [{low:+.1f}, {high:+.1f}] F1")


if __name__ == "__main__":
    main()
