"""Learn what a full stop is from texts of a language, by NLTK's trainer of Punkt (Kiss and Strunk,
Computational Linguistics 32(4), 2006), which needs no labels.

    python pipelines/train/borders.py ../shared/data/train --out lmkrag/sentences/punkt

A file a language: its abbreviations, the words that begin sentences, those that follow the number
of a date, and frequent words that are capitalised nowhere else than there. Languages are told by
the names of sets (``ml_de_help``); the others are English.
"""

import argparse
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from nltk.tokenize import punkt

_CHARACTERS = 3_000_000  # of a language; more of the same pages teach little
_ABBREVIATION = re.compile(r"(?:[^\W\d_]{1,6}|[^\W\d_]{1,3}(?:[.-][^\W\d_]{1,3})+)")
_WORDS = 500  # that are written small, the most frequent ones
_LANGUAGE = re.compile(r"ml_([a-z]{2})_")
# Their letters have one size or their sentences end otherwise: what Punkt takes for abbreviations
# there are words.
_NOT_LEARNED = {"am", "ar", "fa", "he", "ja", "kk", "ko", "th", "zh"}


def find_sets(data: Path) -> dict[str, list[Path]]:
    """Return the folders of each language."""
    sets: dict[str, list[Path]] = defaultdict(list)
    for folder in sorted(data.iterdir()):
        named = _LANGUAGE.match(folder.name)
        if not folder.name.startswith("ml_x_"):  # of several languages
            sets[named[1] if named else "en"].append(folder)
    return sets


def read_texts(folder: Path, most: int) -> Iterator[str]:
    """Yield the texts of a set, up to about so many characters."""
    with gzip.open(folder / "docs.jsonl.gz", "rt") as lines:
        for line in lines:
            text = json.loads(line)["text"]
            yield text
            most -= len(text)
            if most < 0:
                return


def learn(folders: list[Path]) -> dict[str, list[str]]:
    """Return what Punkt learns from the texts of a language, each list sorted."""
    trainer = punkt.PunktTrainer()
    for folder in folders:
        for text in read_texts(folder, _CHARACTERS // len(folders)):
            trainer.train(text, finalize=False)
    trainer.finalize_training()
    learned = trainer.get_params()
    number = "##number##"
    small = [
        word
        for word, uses in learned.ortho_context.items()
        if len(word) > 1
        and word.isalpha()
        and uses & punkt._ORTHO_LC
        and not uses & punkt._ORTHO_MID_UC
    ]
    small.sort(key=lambda word: -trainer._type_fdist[word])
    return {
        "abbreviations": sorted(filter(_ABBREVIATION.fullmatch, learned.abbrev_types)),
        "starters": sorted(filter(str.isalpha, learned.sent_starters)),
        "after_numbers": sorted(b for a, b in learned.collocations if a == number and b.isalpha()),
        "small": sorted(small[:_WORDS]),
    }


def main() -> None:
    """Write a file a language."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    for language, folders in sorted(find_sets(options.data).items()):
        if language in _NOT_LEARNED:
            continue
        learned = learn(folders)
        lines = json.dumps(learned, ensure_ascii=False, separators=(",", ":"))
        (options.out / f"{language}.json").write_text(lines.replace('],"', '],\n"') + "\n", "utf-8")
        print(language, {name: len(words) for name, words in learned.items()}, flush=True)


if __name__ == "__main__":
    main()
