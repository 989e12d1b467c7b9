"""What does `lmkrag check` say of quotations that were edited?

    python benchmarks/edits.py DATA/SET... [--edits 200] [--seed 0]

Makes one edit of a kind to real sentences of the documents of some sets, and checks each against its document and
another. Prints, for each kind of edit, how many quotations got which verdict.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from lmkrag import Document
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.evidence.checking import check_quotation
from lmkrag.evidence.quotations import Quotation
from lmkrag.sentences.split import split_sentences

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "June",
    "July",
    "September",
    "October",
    "November",
    "December",
)
UNITS = (
    "minutes",
    "hours",
    "days",
    "weeks",
    "months",
    "years",
    "kilometres",
    "miles",
    "kilograms",
    "dollars",
    "percent",
)
NAMES = ("Okafor", "Lindqvist", "Tamaru", "Brennan")
WORDS = ("gradually", "entirely", "walnut", "borrowed")
MOST_SENTENCES = 20_000
VERBS = re.compile(r"\b(is|are|was|were|has|have|can|may|must|should|will|does|did)\b(?! not)")
STATES = ("same", "moved", "elsewhere", "changed", "stitched", "reworded", "gone")


def exchange(
    pattern: str, choose: Callable[[random.Random, str], str]
) -> Callable[[random.Random, str], str | None]:
    """Return an edit that exchanges one of the matches of a pattern."""

    def edit(rng: random.Random, text: str) -> str | None:
        matches = list(re.finditer(pattern, text))
        if not matches:
            return None
        match = rng.choice(matches)
        new = choose(rng, match[0])
        return None if new == match[0] else text[: match.start()] + new + text[match.end() :]

    return edit


def change_number(rng: random.Random, old: str) -> str:
    """Return a number of as many digits, or another numeral."""
    if not any(map(str.isdigit, old)):
        return rng.choice(["three", "seven", "eleven", "forty"])
    position = rng.choice([place for place, character in enumerate(old) if character.isdigit()])
    return (
        old[:position]
        + str((int(old[position]) + rng.randrange(1, 9)) % 10 or 1)
        + old[position + 1 :]
    )


def negate(rng: random.Random, text: str) -> str | None:
    """Put a "not" behind a verb."""
    verbs = list(VERBS.finditer(text))
    if not verbs:
        return None
    end = rng.choice(verbs).end()
    return f"{text[:end]} not{text[end:]}"


def respell(rng: random.Random, text: str) -> str:
    """Change white space, letter case and quotation marks."""
    return text.replace(" ", "\n", 2).replace('"', "“").replace(text[0], text[0].swapcase(), 1)


EDITS: dict[str, Callable[[random.Random, str], str | None]] = {
    "none but white space, case, marks": respell,
    "another number": exchange(
        r"(?<![\w.,])\d[\d.,]*(?<=\d)(?!\w)|\b(?:two|four|five|six|ten)\b", change_number
    ),
    "another date": exchange("|".join(MONTHS), lambda rng, _: rng.choice(MONTHS)),
    "another unit": exchange(rf"\b(?:{'|'.join(UNITS)})\b", lambda rng, _: rng.choice(UNITS)),
    "another name": exchange(r"(?<=[a-z,] )[A-Z][a-z]{3,}\b", lambda rng, _: rng.choice(NAMES)),
    "a negation": negate,
    "another word": exchange(r"\b[a-z]{5,}\b(?<!s)", lambda rng, _: rng.choice(WORDS)),
}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--edits", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    documents = [document for folder in options.data for document in load_dataset(folder).documents]
    rng.shuffle(documents)
    sentences = []
    for document in documents:
        if len(sentences) > MOST_SENTENCES:
            break
        texts = [
            " ".join(document.text[s.start : s.end].split()) for s in split_sentences(document.text)
        ]
        whole = [text for text in texts if 8 <= len(text.split()) <= 40]
        sentences += [(document, text) for text in whole]
    print("| edit | " + " | ".join(STATES) + " |\n|" + " --- |" * (len(STATES) + 1))
    for name in (*EDITS, "two halves of sentences", "cited from another document"):
        counts: Counter[str] = Counter()
        rng.shuffle(sentences)
        for document, text in sentences:
            other, second = rng.choice(sentences)
            source = document
            if name in EDITS:
                quote = EDITS[name](rng, text)
            elif name.startswith("two"):
                words, more = text.split(), second.split()
                quote = " ".join(words[: len(words) // 2] + more[len(more) // 2 :])
            else:
                quote, source = text, other
            if quote and document is not other:
                counts[check(quote, source, [document, other])] += 1
            if counts.total() == options.edits:
                break
        print(
            f"| {name} | " + " | ".join(str(counts[state] or "") for state in STATES) + " |",
            flush=True,
        )


def check(quote: str, source: Document, documents: list[Document]) -> str:
    """Return the verdict on a quotation that is cited from the start of a document."""
    known = {document.doc_id: document for document in documents}
    return check_quotation(
        Quotation(quote, source.doc_id, 0, 0), known.get, lambda _: list(known)
    ).state


if __name__ == "__main__":
    main()
