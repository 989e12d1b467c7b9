"""How many characters does an agent read until the evidence is in?

    python benchmarks/evidence_cost.py PUBLIC --work DIR [--sets officeqa ...] [--systems lmkrag ...] [--share S]

PUBLIC has the public sets as their authors publish them: `officeqa` (poma-ai/poma-officeqa: 14 Treasury bulletins, 20
questions, the values that answer), `evidencebench` (its dev set: 37 papers, a hypothesis each, the sentences that bear
on each aspect of it) and `beam` (chats of 100,000 tokens, the messages that answer). Indexes are kept in DIR.

The rule. A question is put to each system as it is published, and the agent reads the units of the answer in the order
in which the system lists them, each whole: every character counts, whether it was read before or not. An item of
evidence is in once all characters of one of its places have been read, white space aside, and the question is done once
all its items are in. Places are: each occurrence of a value in the bulletin that is named for it (those in a published
chunk of evidence, if there is one that stands in the bulletin word for word); each published sentence of an aspect; the
message, of which half is enough, since the set does not say where in it the evidence stands (`--share` sets another
share). Where a list ends before the evidence is in, the agent reads all documents whole, and the question is counted as
missed. A question of BEAM is asked within its chat (of the first three), the others over all documents; those without evidence are left out.

Units. grep: the lines that contain most of the question's words, stop words aside, as `grep -i` finds them, first
those of the first file, each with ten lines around it that were not read before. FTS5: pieces of 800 characters, by
BM25 with Porter's stems. Chunks: LangChain's of 200 tokens, by all-MiniLM-L6-v2. lmkrag: the passages of `search`.
"""

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rivals import search_chunks, search_fts5
from stop_words import get_stop_words

from lmkrag import Document, Engine
from lmkrag.evaluation.metrics import Piece
from lmkrag.formats.load import load_document

Search = Callable[[str], Iterable[Piece]]  # what an agent reads for a question, in order

ALL = 1_000_000  # units: more than there are

DEPTHS = (100, 1_000, 10_000)  # passages that lmkrag is asked for, more where they are not enough
CHATS = 3  # of BEAM's ten, the first: all of them take an hour
AROUND = 10  # lines read on each side of one that grep finds
SIZE = 800  # characters of FTS5's pieces, about the 200 tokens of the chunks
STOP_WORDS = frozenset(get_stop_words("en"))


class Question(NamedTuple):
    """A question with its evidence: for each item the places, one of which must be read."""

    text: str
    evidence: list[list[Piece]]


class Corpus(NamedTuple):
    """Documents that an agent has at once, and the questions about them."""

    name: str
    documents: list[Document]
    questions: list[Question]


def write_documents(folder: Path, texts: dict[str, str]) -> list[Document]:
    """Write texts by file name, and read them as lmkrag reads files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    documents = [load_document(folder / name, name) for name in texts]
    assert {document.doc_id: document.text for document in documents} == texts
    return documents


def read_officeqa(public: Path, files: Path) -> Iterator[Corpus]:
    """Yield the corpus of bulletins."""
    paths = sorted((public / "officeqa/bulletins").glob("*.txt"))
    documents = write_documents(files / "officeqa", {path.name: path.read_text() for path in paths})
    texts = {document.doc_id: document.text for document in documents}
    record = json.loads((public / "officeqa/evidence_requirements.json").read_text())
    questions = []
    for entry in record["UIDs"].values():
        (source,) = entry["documents"]
        name = f"{source['doc']}.txt"
        chunks = [
            chunk.get("full_content", "")
            for chunks in source["evidence_content"].values()
            for chunk in chunks
        ]
        found = [(texts[name].find(chunk), len(chunk)) for chunk in chunks if chunk]
        published = [(start, start + size) for start, size in found if start >= 0]
        values = dict.fromkeys(value.replace(",", "") for value in entry["ground_truth"]["values"])
        evidence = [find_value(name, texts[name], value, published) for value in values]
        questions.append(Question(entry["question"], evidence))
    yield Corpus("officeqa", documents, questions)


def find_value(
    name: str, text: str, value: str, published: Sequence[tuple[int, int]]
) -> list[Piece]:
    """Return where a number stands, with or without commas between its digits, inside the published chunks if it does."""
    digits = ",?".join(map(re.escape, value))
    places = [
        match.span() for match in re.finditer(rf"(?<![\d.,]){digits}(?!\d|,\d|\.(?!0\b)\d)", text)
    ]
    inside = [
        (start, end)
        for start, end in places
        if any(first <= start and end <= last for first, last in published)
    ]
    return [(name, start, end) for start, end in inside or places]


def read_evidencebench(public: Path, files: Path) -> Iterator[Corpus]:
    """Yield the corpus of papers, a sentence in a line."""
    papers = json.loads((public / "evidencebench/dev.json").read_text())
    texts, questions = {}, []
    for paper in papers.values():
        name, bounds, lines = f"{paper['paper_id']}.txt", [], []
        at = 0
        for sentence in paper["paper_as_candidate_pool"]:
            line = " ".join(sentence.split())
            bounds.append((name, at, at + len(line)))
            lines.append(line)
            at += len(line) + 1
        texts[name] = "".join(f"{line}\n" for line in lines)
        evidence = [
            [bounds[number] for number in numbers]
            for numbers in paper["aspect2sentence_indices"].values()
            if numbers
        ]
        questions.append(Question(paper["hypothesis"], evidence))
    yield Corpus("evidencebench", write_documents(files / "evidencebench", texts), questions)


def read_beam(public: Path, files: Path) -> Iterator[Corpus]:
    """Yield a corpus for each chat: one file of Markdown, a heading for each message."""
    asked = [json.loads(line) for line in (public / "beam/questions.jsonl").open()]
    for path in sorted((public / "beam/chats").glob("*.json"))[:CHATS]:
        name, text, bounds = f"{path.stem}.md", "", {}
        for message in json.loads(path.read_text()):
            heading = filter(None, (message["role"], message.get("time_anchor")))
            text += f"## {', '.join(heading)}\n\n"
            content = message["content"].replace("\r", "").strip()
            bounds[message["id"]] = (name, len(text), len(text) + len(content))
            text += f"{content}\n\n"
        questions = [
            Question(entry["question"], [[bounds[number]] for number in entry["messages"]])
            for entry in asked
            if entry["chat"] == path.name and entry["messages"]
        ]
        yield Corpus(f"beam-{path.stem}", write_documents(files / "beam", {name: text}), questions)


def search_grep(documents: Sequence[Document]) -> Search:
    """Return how an agent greps: see the rule above."""
    lines = [
        (document.doc_id, match.start(), match.end())
        for document in documents
        for match in re.finditer(r"[^\n]*\n|[^\n]+", document.text)
    ]
    texts = {document.doc_id: document.text.lower() for document in documents}
    lowered = [texts[name][start:end] for name, start, end in lines]

    def find(question: str) -> list[Piece]:
        words = set(re.findall(r"\w+", question.lower())) - STOP_WORDS
        counts = np.array([sum(word in line for word in words) for line in lowered])
        read = np.zeros(len(lines), dtype=bool)
        pieces: list[Piece] = []
        for number in np.argsort(-counts, kind="stable").tolist():
            if counts[number] == 0:
                break
            around = range(max(0, number - AROUND), min(len(lines), number + AROUND + 1))
            for other in around:
                if not read[other] and lines[other][0] == lines[number][0]:
                    read[other] = True
                    pieces.append(lines[other])
        return pieces

    return find


def search_lmkrag(documents: Sequence[Document], path: Path) -> Search:
    """Return how lmkrag finds passages, with an index at a path, as it does by default."""
    engine = Engine.open(path, create=True)
    engine.add(documents)

    def find(question: str) -> Iterator[Piece]:
        listed: set[Piece] = set()
        for top_k in DEPTHS:
            for span in engine.search(question, top_k=top_k):
                piece = span.doc_id, span.start, span.end
                if piece not in listed:
                    listed.add(piece)
                    yield piece

    return find


def find_blank(documents: Sequence[Document]) -> dict[str, NDArray[np.bool_]]:
    """Return which characters of each document are white space."""
    return {
        document.doc_id: np.array([letter.isspace() for letter in document.text])
        for document in documents
    }


def read_until(
    units: Iterable[Piece], question: Question, blank: dict[str, NDArray[np.bool_]], share: float
) -> tuple[list[Piece], bool]:
    """Return the pieces that an agent reads until it has found all evidence, and whether it finds it.

    Where it does not, it reads all documents at the end.

    Args:
        units: what the agent reads, in order.
        question: the question with its evidence.
        blank: which characters of each document are white space.
        share: the share of a place that must be read.
    """
    known = {name: spaces.copy() for name, spaces in blank.items()}
    left, read = list(question.evidence), list[Piece]()
    for name, start, end in units:
        read.append((name, start, end))
        known[name][start:end] = True
        left = [
            places
            for places in left
            if not any(
                place[0] == name
                and place[1] < end
                and start < place[2]
                and known[name][place[1] : place[2]].mean() >= share
                for place in places
            )
        ]
        if not left:
            return read, True
    return read + [(name, 0, len(spaces)) for name, spaces in blank.items()], False


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("public", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--share", type=float, help="of a place that must be read")
    options = parser.parse_args()
    print(
        "| set | system | questions | characters | median | missed | seconds |\n|---"
        + "|---" * 6
        + "|"
    )
    for name in options.sets:
        read, usual_share = SETS[name]
        corpora = list(read(options.public, options.work / "files"))
        for system in options.systems:
            began, counts = time.monotonic(), []
            for corpus in corpora:
                find = SYSTEMS[system](corpus, options.work)
                blank = find_blank(corpus.documents)
                counts += [
                    read_until(find(question.text), question, blank, options.share or usual_share)
                    for question in corpus.questions
                ]
            lengths = [sum(end - start for _, start, end in pieces) for pieces, _ in counts]
            missed = sum(not complete for _, complete in counts)
            print(
                f"| {name} | {system} | {len(counts)} | {sum(lengths):,} | {statistics.median(lengths):,.0f} "
                f"| {missed} | {time.monotonic() - began:.0f} |",
                flush=True,
            )


SETS: dict[str, tuple[Callable[[Path, Path], Iterator[Corpus]], float]] = {
    "officeqa": (read_officeqa, 1.0),
    "evidencebench": (read_evidencebench, 1.0),
    "beam": (read_beam, 0.5),
}
SYSTEMS: dict[str, Callable[[Corpus, Path], Search]] = {
    "grep": lambda corpus, _: search_grep(corpus.documents),
    "FTS5": lambda corpus, _: search_fts5(corpus.documents, SIZE, ALL),
    "chunks": lambda corpus, _: search_chunks(corpus.documents, "recursive:200", limit=ALL),
    "lmkrag": lambda corpus, work: search_lmkrag(corpus.documents, work / corpus.name),
}

if __name__ == "__main__":
    main()
