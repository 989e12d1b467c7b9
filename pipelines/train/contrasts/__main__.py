"""Make contrasts: questions with passages that differ from the answer in one thing.

    python -m pipelines.train.contrasts DATA OUT [--reworded FILE] [--notes FILE] [--language en]
        [--ask 4000]

DATA holds the training sets. OUT gets `SET.jsonl.gz` for each, as `pack_passages.py` packs them. A
question stands beside the passage that answers it and others of these kinds:

- the same passage without the sentence that answers, and the passages before and after it;
- the same passage with another name, number, code or year in place of one that the question names,
  and with another value; alone, and in one passage with what answers;
- the passages of alike documents that answer the same question about something else, so that only
  the place, the document's title, tells which is meant;
- rows of a table: those of other names, and the same row without the column;
- the introduction of a list without the list, and with half of it: what it says is not complete.

A third of the questions are also asked as nothing answers them: about another name, number, year or
opposite. `--notes` adds short documents with questions of all these kinds. `--reworded` asks
questions again in other words, in OUT/reworded; `--ask N` writes N questions to OUT/asked.jsonl for
those who reword them, without what answers. `--only` takes sets by their names.
"""

import argparse
import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from pipelines.train.contrasts import alike, alone, lists, rows
from pipelines.train.contrasts.exchange import make_unanswerable
from pipelines.train.contrasts.notes import read_notes
from pipelines.train.contrasts.passages import Contrast, Family
from pipelines.train.mined import Mined, make_negative, read_lines, write_mined

FAMILIES: list[tuple[Family, dict[str, int], str]] = [
    (alone.ask_alone, alone.SETS, ""),
    (alike.ask_alike, alike.SETS, "-alike"),
    (lists.ask_lists, lists.SETS, "-list"),
    (rows.ask_rows, rows.SETS, "-rows"),
]
UNANSWERED = 0.35  # of the questions that are also asked as nothing answers them


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--reworded", type=Path)
    parser.add_argument("--notes", type=Path)
    parser.add_argument("--language", help="of the notes; all without")
    parser.add_argument("--ask", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="SET")
    options = parser.parse_args()
    for folder in ("reworded", "notes"):
        (options.out / folder).mkdir(parents=True, exist_ok=True)
    reworded = read_reworded(options.reworded) if options.reworded else {}
    asked: list[Contrast] = []
    for ask, sets, suffix in FAMILIES:
        for name in sets:
            if options.only and name not in options.only:
                continue
            rng = np.random.default_rng(zlib.crc32(f"{name}{suffix}".encode()))
            contrasts = list(ask(name, options.data, sets[name], rng))
            asked += contrasts if suffix else []
            file = f"{name}{suffix}.jsonl.gz"
            write(options.out / file, [*contrasts, *make_unanswered(contrasts, rng)])
            again = [
                Contrast(each.key, question, each.passages)
                for each in contrasts
                for question in reworded.get(each.key, [])
            ]
            if again:
                write(options.out / "reworded" / file, again)
    if options.notes:
        notes = read_notes(options.notes, options.language)
        write(options.out / "notes" / "notes.jsonl.gz", notes)
    if options.ask:
        write_asked(options.out / "asked.jsonl", asked, options.ask)


def make_unanswered(contrasts: Sequence[Contrast], rng: np.random.Generator) -> list[Contrast]:
    """Return some of the questions as none of their passages answers them."""
    changed = []
    for contrast in contrasts:
        if rng.random() >= UNANSWERED:
            continue
        texts = [text for passage in contrast.passages for text in passage.sentences]
        question = make_unanswerable(contrast.question, texts, rng)
        if question is not None:
            passages = [make_negative(each.place, each.sentences) for each in contrast.passages[:3]]
            changed.append(Contrast(f"{contrast.key}/none", question, tuple(passages)))
    return changed


def read_reworded(path: Path) -> dict[str, list[str]]:
    """Return questions in other words, by the keys of those that they stand for."""
    reworded: dict[str, list[str]] = defaultdict(list)
    for record in read_lines(path):
        reworded[record["id"]].append(record["question"])
    return reworded


def write(path: Path, contrasts: Iterable[Contrast]) -> None:
    """Write contrasts as mined questions."""
    write_mined(path, (Mined(each.question, each.passages) for each in contrasts))


def write_asked(path: Path, contrasts: Sequence[Contrast], count: int) -> None:
    """Write some questions with what they are about."""
    order = np.random.default_rng(0).permutation(len(contrasts))[:count]
    with path.open("w", encoding="utf-8") as file:
        for contrast in (contrasts[number] for number in order):
            record = {"id": contrast.key, "question": contrast.question, "about": contrast.hint}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
