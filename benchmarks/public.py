"""Public benchmarks, each by its own rule.

    python benchmarks/public.py PUBLIC --work DIR [--parts limit beam evidencebench officeqa]

PUBLIC has them as their authors publish them. Indexes are kept in DIR.

limit (Weller et al., 2025, the small set): how many of the two documents that answer are among the first 2, 10 and 20.
beam (Tavakoli et al., 2025): of the questions of each ability, how many have a message with the evidence in the first
passage and in one of the first five; each of chats 6 to 10 is a Markdown file in an index of its own, as ``beam.py``
writes it. Questions that nothing answers are put to ``ask``, which should call them weak.
evidencebench (the development set): the share of a hypothesis's aspects that the first ten sentences of its paper are a
source of, and as many sentences as its authors' best choice has, on average over the hypotheses.
officeqa (poma-officeqa): tokens of OpenAI's cl100k_base that an agent reads until it has found all evidence, identical
pieces counted once. ``evidence_cost.py`` says in which order it reads, and what counts as found.
"""

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import beam
import numpy as np
from evidence_cost import SYSTEMS, find_blank, read_evidencebench, read_officeqa, read_until
from rivals import search_fts5

from lmkrag import Document, Engine

WAYS: dict[str, dict[str, Any]] = {
    "lexical": {"mode": "lexical"},
    "dense": {"mode": "dense", "rerank": False},
    "hybrid": {"rerank": False},
    "hybrid, re-ranked": {},
}
DEPTHS = (2, 10, 20)
EACH = 5  # every fifth question of LIMIT is asked with re-ranking, which takes a third of a second
FOUND = 100  # passages of LIMIT, which more than 20 documents have
CHATS = range(6, 11)  # no weight was chosen on them
FIRST = 10  # sentences of EvidenceBench


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("public", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    for name in options.parts:
        head, measure = PARTS[name]
        print(f"\n| {name} | {head} |\n|{'---|' * (head.count('|') + 2)}")
        for row in measure(options.public, options.work / name):
            print(f"| {' | '.join(row)} |", flush=True)


def read_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file."""
    return map(json.loads, file.read_text("utf-8").splitlines())


def measure_limit(public: Path, work: Path) -> Iterator[list[str]]:
    """Yield recall by mode."""
    data = public / "limit-small"
    relevant = defaultdict(set)
    for row in read_rows(data / "qrels.jsonl"):
        relevant[row["query-id"]].add(row["corpus-id"])
    with Engine.open(work, create=True) as engine:
        engine.add(
            Document(row["_id"], row["title"], row["text"])
            for row in read_rows(data / "corpus.jsonl")
        )
        questions = list(read_rows(data / "queries.jsonl"))
        for name, way in WAYS.items():
            shares = []
            for row in questions if way else questions[::EACH]:
                spans = engine.search(row["text"], top_k=FOUND, **way)
                ranked = list(dict.fromkeys(span.doc_id for span in spans))
                wanted = relevant[row["_id"]]
                shares.append(
                    [len(wanted.intersection(ranked[:most])) / len(wanted) for most in DEPTHS]
                )
            means = np.mean(shares, axis=0)
            yield [name, str(len(shares)), *(f"{100 * share:.1f}" for share in means)]


def measure_beam(public: Path, work: Path) -> Iterator[list[str]]:
    """Yield for each ability how often the evidence is first and in the first five."""
    data = public / "beam"
    groups = [[number] for number in CHATS]
    questions, ranks = beam.rank_groups(data, groups, beam.read_questions(data), "markdown", work)
    kinds = np.array([question["kind"] for question in questions])
    for kind in [*sorted(set(kinds)), "all"]:
        chosen = (kinds == kind) | (kind == "all")
        of_kind = [np.array(found)[chosen] for found in ranks.values()]
        counts = [f"{(found == 1).sum()} / {(found <= beam.FIRST).sum()}" for found in of_kind]
        yield [kind, str(chosen.sum()), *counts]
    weak = []
    for row in read_rows(data / "questions.jsonl"):
        number = int(row["chat"][:2])
        if number in CHATS and row["kind"] == "abstention":
            with Engine.open(work / f"markdown-{number}/index") as engine:
                weak.append(engine.ask(row["question"]).label == "weak")
    yield ["abstention: called weak", str(len(weak)), "", str(sum(weak)), "", ""]


def measure_evidencebench(public: Path, work: Path) -> Iterator[list[str]]:
    """Yield the recall of aspects, by how the sentences of a paper are ranked."""
    papers = list(json.loads((public / "evidencebench/dev.json").read_text()).values())
    (corpus,) = read_evidencebench(public, work / "files")
    with Engine.open(work / "index", create=True) as engine:
        engine.add(corpus.documents)
        rankings = {name: rank_by_engine(engine, way) for name, way in WAYS.items()}
        for name, rank in {"FTS5": rank_by_fts5, **rankings}.items():
            recalls = []
            for paper, document in zip(papers, corpus.documents, strict=True):
                ranked = rank(document, paper["hypothesis"])
                best = paper["evidence_retrieval_at_optimal_evaluation"]["optimal"]
                sources = paper["aspect2sentence_indices"].values()
                recalls.append(
                    [
                        np.mean([not set(ranked[:most]).isdisjoint(each) for each in sources])
                        for most in (FIRST, best)
                    ]
                )
            yield [name, *(f"{100 * recall:.1f}" for recall in np.mean(recalls, axis=0))]


def rank_by_engine(engine: Engine, way: dict[str, Any]) -> Callable[[Document, str], list[int]]:
    """Return how lmkrag ranks the lines of a document for a question."""

    def rank(document: Document, question: str) -> list[int]:
        spans = engine.search(
            question, level="sentence", top_k=FOUND, filter={"doc_id": document.doc_id}, **way
        )
        lines = (document.text.count("\n", 0, span.start) for span in spans)
        return list(dict.fromkeys(lines))

    return rank


def rank_by_fts5(document: Document, question: str) -> list[int]:
    """Return how FTS5 ranks the lines of a document for a question."""
    lines = document.text.splitlines()
    texts = [Document(str(number), text=line) for number, line in enumerate(lines)]
    pieces = search_fts5(texts, len(document.text))(question)
    return [int(number) for number, _, _ in pieces]


def measure_officeqa(public: Path, work: Path) -> Iterator[list[str]]:
    """Yield tokens by system."""
    from llama_index.core.utils import get_tokenizer  # it brings the vocabulary

    tokenize = get_tokenizer()
    (corpus,) = read_officeqa(public, work / "files")
    texts = {document.doc_id: document.text for document in corpus.documents}
    blank = find_blank(corpus.documents)
    for name, make in SYSTEMS.items():
        find = make(corpus, work)
        tokens, characters, missed = [], 0, 0
        for question in corpus.questions:
            pieces, complete = read_until(find(question.text), question, blank, 1.0)
            different = {texts[doc_id][start:end] for doc_id, start, end in pieces}
            tokens.append(sum(len(tokenize(text)) for text in different))
            characters += sum(end - start for _, start, end in pieces)
            missed += not complete
        figures = (sum(tokens), max(tokens), statistics.median(tokens), characters, missed)
        yield [name, *(f"{figure:,.0f}" for figure in figures)]


PARTS: dict[str, tuple[str, Callable[[Path, Path], Iterator[list[str]]]]] = {
    "limit": ("questions | recall@2 | recall@10 | recall@20", measure_limit),
    "beam": (
        f"questions | {' | '.join([beam.FTS5, *beam.WAYS])}",
        measure_beam,
    ),
    "evidencebench": ("aspect recall at 10 | at the optimum", measure_evidencebench),
    "officeqa": (
        "tokens in all | worst question | median | characters in all | missed",
        measure_officeqa,
    ),
}

if __name__ == "__main__":
    main()
