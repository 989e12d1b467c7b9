"""Where do sentences end? Known borders, known evidence, and sentences without an end mark.

    pip install sentencex
    python benchmarks/sentences.py borders
    python benchmarks/sentences.py evidence ../shared/data/train fairytaleqa_sent selqa qed clapnq
    python benchmarks/sentences.py unended FOLDER...

``borders`` compares splitters on `benchmarks/borders`: paragraphs of 14 languages with prose, law,
medicine and technology, a bar at each border. Rules were chosen by every other paragraph
(``--half chosen``); ``proven`` are the others. ``evidence`` counts how many evidence spans, which
are whole sentences, begin and end at borders. ``unended`` counts the sentences that have a
follower in their paragraph and no end mark, in the files of folders.
"""

import argparse
import re
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from lmkrag.errors import LmkragError
from lmkrag.evaluation.dataset import Dataset, load_dataset
from lmkrag.formats.load import load_document
from lmkrag.sentences import prose, split
from lmkrag.sentences.split import split_sentences
from lmkrag.sentences.structure import count_line_ends
from lmkrag.specs import ENGLISH

_BORDERS = Path(__file__).parent / "borders"
_END = re.compile(r"[.!?…:;|。！？؟।][\"'”“’»«)\]*_`]*\s*(?:\[\^?\w+\]|</?\w+>)*$")
_PROSE = ("text", "item", "turn")
Splitter = Callable[[str, str], list[int]]


def find_by_sentencex(text: str, language: str) -> list[int]:
    """Return where sentences begin by sentencex."""
    from sentencex import segment

    starts, position = [], 0
    for sentence in segment(language, text):
        starts.append(position)
        position += len(sentence)
    return starts


def find_untrained(text: str, language: str) -> list[int]:
    """Return where sentences begin by Punkt that knows forty English abbreviations and no more."""
    learned, prose._learn = prose._learn, lambda _: {name: [] for name in learned(ENGLISH)}
    try:
        return [start for start, _ in prose._load_punkt("none").span_tokenize(text)]
    finally:
        prose._learn = learned


def find_trained(text: str, language: str) -> list[int]:
    """Return where sentences begin by trained Punkt without a rule of our own."""
    return [start for start, _ in prose._load_punkt(language).span_tokenize(text)]


def find_agreed(text: str, language: str) -> list[int]:
    """Return where sentences begin both by ours and by sentencex."""
    return sorted(
        {*prose.find_starts(text, language)}.intersection(find_by_sentencex(text, language))
    )


SPLITTERS: dict[str, Splitter] = {
    "Punkt, untrained": find_untrained,
    "Punkt, trained": find_trained,
    "Punkt, trained, short words (ours)": prose.find_starts,
    "sentencex": find_by_sentencex,
    "ours and sentencex agree": find_agreed,
}


def read_borders(language: str, half: str) -> Iterator[tuple[str, set[int]]]:
    """Yield paragraphs, and the positions at which sentences begin but for the first."""
    lines = (_BORDERS / f"{language}.txt").read_text("utf-8").splitlines()
    first, step = {"chosen": (0, 2), "proven": (1, 2), "all": (0, 1)}[half]
    for line in lines[first::step]:
        sentences = line.split(" | ")
        starts, position = set(), 0
        for sentence in sentences[:-1]:
            position += len(sentence) + 1
            starts.add(position)
        yield " ".join(sentences), starts


def compare_borders(half: str) -> None:
    """Print F1 of each splitter on each language."""
    languages = sorted(path.stem for path in _BORDERS.glob("*.txt"))
    print("| splitter |", " | ".join(languages), "| mean | precision | recall |")
    print("|---" * (len(languages) + 4) + "|")
    ours = split.find_starts, split.document_language
    for name, splitter in SPLITTERS.items():
        scores, right, wrong, missed = [], 0, 0, 0
        split.find_starts = splitter
        for language in languages:
            split.document_language = lambda *_, known=language: known
            pairs = [
                ({sentence.start for sentence in split_sentences(text)} - {0}, known)
                for text, known in read_borders(language, half)
            ]
            hits = sum(len(found & known) for found, known in pairs)
            false = sum(len(found - known) for found, known in pairs)
            lost = sum(len(known - found) for found, known in pairs)
            scores.append(2 * hits / (2 * hits + false + lost))
            right, wrong, missed = right + hits, wrong + false, missed + lost
        split.find_starts, split.document_language = ours
        cells = [f"{score:.2f}" for score in (*scores, sum(scores) / len(scores))]
        cells += [f"{right / (right + wrong):.3f}", f"{right / (right + missed):.3f}"]
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


def find_edges(text: str) -> set[int]:
    """Return the offsets at which a sentence starts or ends, white space aside."""
    offsets = set()
    for sentence in split_sentences(text):
        body = text[sentence.start : sentence.end]
        offsets |= {sentence.end - len(body.lstrip()), sentence.start + len(body.rstrip())}
    return offsets


def measure_evidence(dataset: Dataset) -> str:
    """Return the table's cells for one splitter on one set."""
    began = time.process_time()
    offsets = {document.doc_id: find_edges(document.text) for document in dataset.documents}
    seconds = time.process_time() - began
    rate = sum(len(document.text) for document in dataset.documents) / seconds / 1e6
    spans = [piece for query in dataset.queries for piece in query.evidence]
    starts = sum(start in offsets[doc_id] for doc_id, start, _ in spans) / len(spans)
    ends = sum(end in offsets[doc_id] for doc_id, _, end in spans) / len(spans)
    return f"{starts:.3f} | {ends:.3f} | {rate:.1f}"


def compare_evidence(data: Path, names: list[str]) -> None:
    """Print the share of evidence at borders, and the speed of each splitter."""
    print("| set | splitter | starts found | ends found | MB/s of CPU |\n|---|---|---|---|---|")
    ours = split.find_starts
    for name in names:
        dataset = load_dataset(data / name)
        for title, splitter in SPLITTERS.items():
            split.find_starts = splitter
            print(f"| {name} | {title} | {measure_evidence(dataset)} |", flush=True)
    split.find_starts = ours


def count_unended(folder: Path, *, shown: int) -> None:
    """Print how many sentences of a folder's files have no end mark and a follower."""
    followed = unended = 0
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        try:
            document = load_document(path, path.name)
        except (LmkragError, UnicodeError):
            continue
        sentences = split_sentences(document.text, kind=document.kind)
        for sentence, following in pairwise(sentences):
            body = document.text[sentence.start : sentence.end]
            is_last = count_line_ends(body) > 1
            if sentence.kind not in _PROSE or following.kind != "text" or is_last:
                continue
            followed += 1
            if _END.search(body.rstrip()) is None:
                unended += 1
                if unended <= shown:
                    after = document.text[following.start : following.start + 30]
                    print(f"  {path.name}: {body[-60:]!r} | {after!r}")
    share = unended / max(1, followed)
    print(f"| {folder} | {followed} | {unended} | {share:.2%} |", flush=True)


def main() -> None:
    """Print the comparison or the count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    borders = commands.add_parser("borders")
    borders.add_argument("--half", choices=("chosen", "proven", "all"), default="all")
    evidence = commands.add_parser("evidence")
    evidence.add_argument("data", type=Path)
    evidence.add_argument("sets", nargs="+")
    unended = commands.add_parser("unended")
    unended.add_argument("folders", type=Path, nargs="+")
    unended.add_argument("--show", type=int, default=0, help="how many of each folder to show")
    options = parser.parse_args()
    if options.command == "borders":
        compare_borders(options.half)
    elif options.command == "evidence":
        compare_evidence(options.data, options.sets)
    else:
        print("| folder | sentences with a follower | without an end mark | share |")
        print("|---|---|---|---|")
        for folder in options.folders:
            count_unended(folder, shown=options.show)


if __name__ == "__main__":
    main()
