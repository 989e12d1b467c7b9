"""Are facts found in long chats with an assistant, by lmkrag and by SQLite's FTS5?

    python benchmarks/beam.py DATA [--chats 1-5] [--together] [--forms export,markdown] [--work DIR] [--list]

DATA has ten chats of BEAM (Tavakoli et al., "Beyond a Million Tokens", 2025): ``chats/NN.json`` and
``questions.jsonl``. Each chat is an index of its own, or all are one
(`--together`): exports of ChatGPT, or Markdown. Prints of how many fact
questions (five of the ten kinds) the first passage, and one of the first five, is of a message with the evidence, and
the paired bootstrap of each way minus FTS5 over pieces of 200 characters that are cut at messages. `--list` names the
questions whose first passage was right for one of the first two ways and not for FTS5, or the other way round.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rivals import search_fts5

from lmkrag import Document, Engine

FACTS = frozenset(
    [
        "information_extraction",
        "knowledge_update",
        "contradiction_resolution",
        "multi_session_reasoning",
        "temporal_reasoning",
    ]
)
WAYS: dict[str, dict[str, Any]] = {
    "hybrid": {},
    "lexical": {"mode": "lexical"},
    "hybrid, re-ranked": {"rerank": True},
}
FTS5 = "FTS5"
FIRST = 5
DRAWS = 10_000

Message = Mapping[str, Any]
Question = Mapping[str, Any]
Place = tuple[str, int]  # a chat's file and the id of a message
Find = Callable[[str], list[set[Place]]]  # the messages of the first passages


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--chats", default="1-10")
    parser.add_argument("--together", action="store_true", help="all chats in one index")
    parser.add_argument("--forms", default="export,markdown")
    parser.add_argument("--work", type=Path, help="where the indexes are kept")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    first, _, last = options.chats.partition("-")
    numbers = range(int(first), int(last or first) + 1)
    questions = [row for row in read_questions(options.data) if row["kind"] in FACTS]
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        for form in options.forms.split(","):
            groups = [numbers] if options.together else [[number] for number in numbers]
            asked, ranks = rank_groups(options.data, groups, questions, form, work)
            print_table(form, asked, ranks, list_each=options.list)


def read_questions(data: Path) -> list[Question]:
    """Return the questions of all chats that have evidence."""
    rows = map(json.loads, (data / "questions.jsonl").read_text("utf-8").splitlines())
    return [row for row in rows if row["messages"]]


def rank_groups(
    data: Path,
    groups: Sequence[Sequence[int]],
    questions: Sequence[Question],
    form: str,
    work: Path,
) -> tuple[list[Question], dict[str, list[int]]]:
    """Return the questions about some chats, each group an index, and their ranks by way: see :func:`rank_evidence`."""
    asked: list[Question] = []
    ranks: dict[str, list[int]] = {}
    for group in groups:
        chats = {
            number: json.loads((data / f"chats/{number:02}.json").read_text("utf-8"))
            for number in group
        }
        of_group = [row for row in questions if int(row["chat"][:2]) in chats]
        folder = work / f"{form}-{'-'.join(map(str, group))}"
        for way, found in rank_evidence(chats, of_group, form, folder).items():
            ranks.setdefault(way, []).extend(found)
        asked += of_group
    return asked, ranks


def rank_evidence(
    chats: Mapping[int, Sequence[Message]], questions: Sequence[Question], form: str, work: Path
) -> dict[str, list[int]]:
    """Return for each way and question the rank, from 1, of the first passage with evidence, ``FIRST + 1`` if none of
    the first has any.
    """
    name, write = FORMS[form]
    for number, messages in chats.items():
        file = work / "chats" / f"{number:02}" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(write(messages), "utf-8")
    finds: dict[str, Find] = {FTS5: find_by_fts5(chats)}
    with Engine.open(work / "index", create=True) as engine:
        if not engine.documents(limit=1):
            engine.add(work / "chats", progress=False)
        places: dict[tuple[str, int, int], Place] = {}
        for document in engine.documents():
            number = int(Path(document.path).parent.name)
            text = engine.read(document.doc_id)
            for message, bounds in place_messages(text, chats[number]).items():
                places[document.doc_id, *bounds] = f"{number:02}.json", message
        for way, arguments in WAYS.items():
            finds[way] = find_by_engine(engine, places, arguments)
        return {
            way: [find_rank(find, question) for question in questions]
            for way, find in finds.items()
        }


def find_by_engine(
    engine: Engine, places: Mapping[tuple[str, int, int], Place], arguments: Mapping[str, Any]
) -> Find:
    """Return how lmkrag finds messages: those that its passages have characters of."""

    def find(question: str) -> list[set[Place]]:
        return [
            {
                place
                for (doc_id, start, end), place in places.items()
                if doc_id == span.doc_id and start < span.end and span.start < end
            }
            for span in engine.search(question, top_k=FIRST, **arguments)
        ]

    return find


def find_by_fts5(chats: Mapping[int, Sequence[Message]]) -> Find:
    """Return how FTS5 finds messages, by pieces that are cut at them."""
    places = {
        f"{number} {message['id']}": (f"{number:02}.json", message["id"])
        for number, messages in chats.items()
        for message in messages
    }
    documents = [
        Document(f"{number} {message['id']}", text=message["content"])
        for number, messages in chats.items()
        for message in messages
    ]
    search = search_fts5(documents, 200)
    return lambda question: [{places[piece[0]]} for piece in search(question)[:FIRST]]


def find_rank(find: Find, question: Question) -> int:
    """Return the rank of the first passage of a message with the evidence of a question."""
    evidence = {(question["chat"], message) for message in question["messages"]}
    found = [not evidence.isdisjoint(places) for places in find(question["question"])]
    return found.index(True) + 1 if True in found else FIRST + 1


def place_messages(text: str, messages: Sequence[Message]) -> dict[int, tuple[int, int]]:
    """Return where each message stands in the text of a chat."""
    places, position = {}, 0
    for message in messages:
        words = message["content"].strip()
        start = text.index(words, position)
        position = start + len(words)
        places[message["id"]] = (start, position)
    return places


def write_export(messages: Sequence[Message]) -> str:
    """Return a chat as ChatGPT exports it."""
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None}}
    parent = "root"
    for message in messages:
        key = f"m{message['id']}"
        content = {"content_type": "text", "parts": [message["content"]]}
        author = {"role": message["role"]}
        inner = {"id": key, "author": author, "create_time": None, "content": content}
        mapping[key] = {"id": key, "message": inner, "parent": parent, "children": []}
        mapping[parent]["children"] = [key]
        parent = key
    chat = {"title": "Chat", "create_time": None, "mapping": mapping, "current_node": parent}
    return json.dumps([chat])


def write_list(messages: Sequence[Message]) -> str:
    """Return a chat as programs keep it, as a list of roles and contents."""
    return json.dumps([{"role": m["role"], "content": m["content"]} for m in messages])


def write_markdown(messages: Sequence[Message]) -> str:
    """Return a chat as Markdown with a bold name before each message."""
    return "\n\n".join(f"**{m['role'].title()}:** {m['content'].strip()}" for m in messages)


def write_headed(messages: Sequence[Message]) -> str:
    """Return a chat as Markdown with a heading above each message."""
    return "\n\n".join(f"## {m['role'].title()}\n\n{m['content'].strip()}" for m in messages)


FORMS: dict[str, tuple[str, Callable[[Sequence[Message]], str]]] = {
    "export": ("conversations.json", write_export),
    "list": ("chat.json", write_list),
    "markdown": ("chat.md", write_markdown),
    "headed": ("chat.md", write_headed),
}


def print_table(
    form: str, questions: Sequence[Question], ranks: Mapping[str, Sequence[int]], *, list_each: bool
) -> None:
    """Print how often each way has the evidence first and in the first five, beside FTS5."""
    draws = np.random.default_rng(0).integers(0, len(questions), (DRAWS, len(questions)))
    rival = np.array(ranks[FTS5])
    print(
        f"\n{form}, {len(questions)} questions\n\n| | first | in five | minus FTS5: first | in five |"
    )
    print("|---|---|---|---|---|")
    for way, found in ranks.items():
        cells = []
        for most in (1, FIRST):
            gain = (np.array(found) <= most).astype(int) - (rival <= most)
            low, high = np.percentile(gain[draws].sum(axis=1), (2.5, 97.5))
            cells.append(f"{gain.sum():+} [{low:+.0f}, {high:+.0f}]")
        counts = [sum(rank <= most for rank in found) for most in (1, FIRST)]
        print(f"| {way} | {counts[0]} | {counts[1]} | {' | '.join(cells)} |", flush=True)
    for way in list(WAYS)[:2] if list_each else ():
        for question, rank, other in zip(questions, ranks[way], rival, strict=True):
            if (rank == 1) != (other == 1):
                print(f"{way}: {rank} FTS5: {other} {question['id']} {question['question']}")


if __name__ == "__main__":
    main()
