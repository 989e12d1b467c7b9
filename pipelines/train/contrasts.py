"""Make contrasts: questions of the training sets with passages that differ from the answer in one thing.

    python pipelines/train/contrasts.py DATA OUT [--reworded FILE] [--notes FILE] [--ask 4000]

DATA holds the training sets. OUT gets `SET.jsonl.gz` for each, as `pack_passages.py` packs them. A question stands
beside the passage that answers it and others of these kinds:

- the same passage without the sentence that answers, and the passages before and after it;
- the same passage with another name, number, code or year in place of one that the question names, and with another
  value; alone, and in one passage with what answers;
- the passages of alike documents that answer the same question about something else, so that only the place, the
  document's title, tells which is meant;
- rows of a table: those of other names, and the same row without the column;
- the introduction of a list without the list, and with half of it: what it says is not complete.

A third of the questions are also asked as nothing answers them: about another name, number, year or opposite.
`--notes` adds short documents with questions of all these kinds. `--reworded` asks questions again in other words, in
OUT/reworded; `--ask N` writes N questions to OUT/asked.jsonl for those who reword them, without what answers.
"""

import argparse
import gzip
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mined_passages import ANSWERS, NO_ANSWER
from reranker_steps import make_unanswerable

from lmkrag.evaluation.dataset import load_dataset
from lmkrag.sentences.split import split_sentences
from lmkrag.types import Document

SHORT = {"squad", "squadshifts_wiki", "covidqa", "policyqa"}  # whose spans are short answers
ALONE = {"policyqa", "cuad", "qmsum", "tatqa_text", "qamr"}  # whose questions need their document beside them
QUESTIONS = {
    "squad": 3_000,
    "squadshifts_wiki": 3_000,
    "covidqa": 800,
    "nq_oracle": 1_500,
    "selqa": 1_500,
    "clapnq": 215,
    "qed": 800,
    "fairytaleqa_sent": 1_500,
    "lfrqa": 1_000,
    "tatqa_text": 700,
    "lihua_train": 209,
    "qamr": 1_500,
    "pubmedqa": 300,
}
"""Questions of each set that are asked alone."""

ALIKE = {"cuad": 2_000, "medquad": 2_000, "policyqa": 1_500, "eips": 700, "peps": 700, "rfcs": 700}
"""Questions of each set that are asked of several documents."""

LISTS = {"aws_headings": 800, "faq_headings": 400, "peps": 300, "rfcs": 300, "eips": 300}
ROWS = {"aws_headings": 700, "eips": 200, "tatqa_text": 500, "rfcs": 100}
LENGTHS = (160, 900)  # characters of a passage, drawn between these
MOST = 1_200  # characters of the evidence of a question that is used
PLACE = 90  # characters of a place
UNANSWERED = 0.35  # of the questions that are also asked as nothing answers them
_KEY = re.compile(r"\b(?:[A-Z][\w&'’-]*(?: (?:of |the |and )?[A-Z][\w&'’-]*)*|[A-Z]*\d[\w.,/-]*\d|\d+)\b")
_VALUE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.])")
_HEADING = re.compile(r"(?P<title>.+): (?P<heading>[^:]+)")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,2}[.)])\s+\S")
_CELLS = re.compile(r"(?m)^\|? ?[^|\n]+\|[^\n]+$")


class Passage(NamedTuple):
    """Sentences of a document with their labels.

    ``short`` is the sentence, start and end of a short answer, (-1, 0, 0) if there is none, and None if it is not
    known; ``complete`` is 1 if the passage has the whole answer, 0 if it has a part, and -1 if that is not known.
    """

    place: str
    sentences: tuple[str, ...]
    labels: tuple[int, ...]
    short: tuple[int, int, int] | None = (-1, 0, 0)
    complete: int = -1


class Contrast(NamedTuple):
    """A question and its passages. ``key`` names it for those who reword it; ``hint`` says what it is about."""

    key: str
    question: str
    passages: tuple[Passage, ...]
    hint: str = ""


@lru_cache(maxsize=None)
def list_sentences(text: str) -> tuple[tuple[int, int], ...]:
    """Return the sentences of a text, as characters ``(start, end)``."""
    return tuple((sentence.start, sentence.end) for sentence in split_sentences(text))


def name_document(document: Document) -> str:
    """Return the title of a document as people would write it, without the numbers of a filing."""
    title = document.title.split(";")[0]
    if re.search(r"EX-\d", title):
        company, kind = title.split()[0].split("_")[0], re.split(r"EX-[\d.]+[\s-]*\d*", title)[-1].strip(" -")
        company = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", company)
        year = re.search(r"\b(?:19|20)\d\d", title)
        title = f"{company} {year.group() if year else ''} {kind}".replace("  ", " ")
    return title[:PLACE].strip()


def cut_passage(
    document: Document, spans: Sequence[tuple[int, int]], rng: np.random.Generator, *, is_short: bool
) -> tuple[Passage, int, int]:
    """Return the sentences of spans and some around them, and the numbers of the first and the one after the last."""
    bounds = list_sentences(document.text)
    start, end = spans[0]
    inside = [number for number, (low, high) in enumerate(bounds) if low < end and high > start]
    first, stop = inside[0], inside[-1] + 1
    most = int(rng.integers(*LENGTHS))
    while True:
        grown = False
        for low, high in (
            ((first - 1, stop), (first, stop + 1)) if rng.random() < 0.5 else ((first, stop + 1), (first - 1, stop))
        ):
            if 0 <= low and high <= len(bounds) and bounds[high - 1][1] - bounds[low][0] <= most:
                first, stop, grown = min(first, low), max(stop, high), True
                break
        if not grown:
            break
    labels, short = [], None
    for low, high in bounds[first:stop]:
        answers = any(min(high, e) - max(low, s) > 0.5 * min(high - low, e - s) for s, e in spans)
        labels.append(ANSWERS if answers else NO_ANSWER)
        if is_short and answers and short is None and low <= start and end <= high:
            short = (len(labels) - 1, start - low, end - low)
    sentences = tuple(document.text[low:high] for low, high in bounds[first:stop])
    return Passage(name_document(document), sentences, tuple(labels), short), first, stop


def cut_beside(document: Document, first: int, stop: int, rng: np.random.Generator) -> list[Passage]:
    """Return the passages before and after the sentences ``[first, stop)``, which do not answer."""
    bounds, most = list_sentences(document.text), int(rng.integers(*LENGTHS))
    low, high = first, stop
    while low > 0 and bounds[first - 1][1] - bounds[low - 1][0] <= most:
        low -= 1
    while high < len(bounds) and bounds[high][1] - bounds[stop][0] <= most:
        high += 1
    passages = []
    for begin, end in ((low, first), (stop, high)):
        if end > begin:
            sentences = tuple(document.text[s:e] for s, e in bounds[begin:end])
            passages.append(Passage(name_document(document), sentences, (NO_ANSWER,) * len(sentences)))
    return passages


def leave_out(passage: Passage) -> Passage | None:
    """Return a passage without its sentences that answer, or None if too little is left."""
    rest = [text for text, label in zip(passage.sentences, passage.labels, strict=True) if label == NO_ANSWER]
    return Passage(passage.place, tuple(rest), (NO_ANSWER,) * len(rest)) if sum(map(len, rest)) > 60 else None


def change_value(text: str, rng: np.random.Generator) -> str:
    """Return another value of the same form: a number, a year, a code of letters and digits."""
    digits = list(text)
    places = [number for number, char in enumerate(digits) if char.isdigit()]
    if re.fullmatch(r"1[5-9]\d\d|20\d\d", text):
        return str(int(text) + int(rng.choice([-3, -2, -1, 1, 2, 3])))
    for _ in range(8):
        place = places[int(rng.integers(len(places)))]
        digits[place] = str(rng.integers(1, 10))
        kind = rng.random()
        changed = "".join(digits)
        if kind < 0.15 and len(places) < 6 and "." not in text and "," not in text:
            changed = changed + "0"
        if changed != text:
            return changed
    return text + "1"


def exchange(question: str, passage: Passage, names: Sequence[str], rng: np.random.Generator) -> Passage | None:
    """Return the passage about something else: another key in place of one of the question, and other values."""
    text = "".join(passage.sentences)
    keys = [
        m.group() for m in _KEY.finditer(question) if m.start() > 0 and re.search(rf"\b{re.escape(m.group())}\b", text)
    ]
    if not keys:
        return None
    key = keys[int(rng.integers(len(keys)))]
    other = change_value(key, rng) if any(map(str.isdigit, key)) else names[int(rng.integers(len(names)))]
    if other in text or other in question or key in other:
        return None
    pattern = re.compile(rf"\b{re.escape(key)}\b")
    place = pattern.sub(other, passage.place)
    sentences = []
    for sentence, label in zip(passage.sentences, passage.labels, strict=True):
        changed = pattern.sub(lambda _: other, sentence)
        if label == ANSWERS:
            changed = _VALUE.sub(lambda m: m.group() if m.group() in other else change_value(m.group(), rng), changed)
        sentences.append(changed)
    return Passage(place, tuple(sentences), (NO_ANSWER,) * len(sentences))


def join(passage: Passage, other: Passage, rng: np.random.Generator) -> Passage:
    """Return what answers with the alike sentence of another, one after the other, in one passage."""
    good = [i for i, label in enumerate(passage.labels) if label == ANSWERS]
    near = [i for i in range(len(passage.sentences)) if good[0] - 1 <= i <= good[-1] + 1]
    mine, theirs = [passage.sentences[i] for i in near], [other.sentences[i] for i in good]
    labels, short = [passage.labels[i] for i in near], passage.short
    moved = len(theirs) if rng.random() < 0.5 else 0
    if short and short[0] >= 0:
        short = (near.index(short[0]) + moved, short[1], short[2])
    theirs = [text if text[-1:].isspace() else text + " " for text in theirs]
    mine = [text if text[-1:].isspace() else text + " " for text in mine]
    sentences, none = (
        (theirs + mine, [NO_ANSWER] * len(theirs) + labels)
        if moved
        else (mine + theirs, labels + [NO_ANSWER] * len(theirs))
    )
    return Passage(passage.place, tuple(sentences), tuple(none), short)


def ask_alone(name: str, data: Path, count: int, rng: np.random.Generator) -> Iterator[Contrast]:
    """Yield questions of a set with what answers, and passages that differ from it."""
    dataset = load_dataset(data / name)
    documents = {document.doc_id: document for document in dataset.documents}
    queries = [q for q in dataset.queries if q.spans and q.spans[0][1] - q.spans[0][0] <= MOST]
    chosen = sorted((queries[i] for i in rng.permutation(len(queries))[:count]), key=lambda query: query.doc_id)
    names = sorted(
        {
            m.group()
            for q in queries
            for m in _KEY.finditer(q.query)
            if m.start() > 0 and m.group()[0].isalpha() and len(m.group()) > 2
        }
    )
    for query in chosen:
        document = documents[query.doc_id]
        passage, first, stop = cut_passage(document, query.spans, rng, is_short=name in SHORT)
        if ANSWERS not in passage.labels:
            continue
        rest = cut_beside(document, first, stop, rng)
        passages = [passage]
        other = exchange(query.query, passage, names, rng) if names else None
        if other:
            passages += [join(passage, other, rng), other] if rng.random() < 0.6 else [other]
        passages += filter(None, [leave_out(passage)])
        passages += rest
        yield Contrast(f"{name}/{query.query_id}", query.query, tuple(passages))


def ask_alike(name: str, data: Path, count: int, rng: np.random.Generator) -> Iterator[Contrast]:
    """Yield questions that several documents answer, each about itself: the place tells which one is meant."""
    dataset = load_dataset(data / name)
    documents = {document.doc_id: document for document in dataset.documents}
    groups: dict[str, dict[str, Any]] = defaultdict(dict)
    for query in dataset.queries:
        if not query.spans or query.spans[0][1] - query.spans[0][0] > MOST:
            continue
        subject, about = split_question(name, query.query, documents[query.doc_id])
        if subject and about:
            groups[subject].setdefault(about, query)
    usable = [(subject, about) for subject, group in groups.items() if len(group) >= 4 for about in group]
    for number in rng.permutation(len(usable))[:count]:
        subject, about = usable[number]
        group = groups[subject]
        others = [each for each in group if each != about]
        alike = sorted(others, key=lambda each: -shared_letters(each, about))[:2]
        picked = [*alike, *(others[i] for i in rng.permutation(len(others))[:2] if others[i] not in alike)]
        passages = []
        for each in [about, *picked]:
            query = group[each]
            passage, first, stop = cut_passage(documents[query.doc_id], query.spans, rng, is_short=name in SHORT)
            passage = passage._replace(place=each)
            if each == about:
                passages.append(passage)
                rest = [beside._replace(place=each) for beside in cut_beside(documents[query.doc_id], first, stop, rng)]
            else:
                passages.append(passage._replace(labels=(NO_ANSWER,) * len(passage.labels), short=(-1, 0, 0)))
        # Without its place nobody can tell whose the answer is: another document's name before it.
        wrong = passages[0]._replace(place=picked[0], labels=(NO_ANSWER,) * len(passages[0].labels), short=(-1, 0, 0))
        if not names_document("".join(wrong.sentences), about):
            passages.append(wrong)
        if ANSWERS in passages[0].labels:
            yield Contrast(
                f"{name}/alike/{group[about].query_id}", phrase(subject, about, rng), (*passages, *rest[:2]), about
            )


def split_question(name: str, question: str, document: Document) -> tuple[str, str]:
    """Return what a question asks for, and what it asks it about; empty if it can't be told."""
    if name == "medquad":
        match = re.fullmatch(r"(.*\b(?:of|for|to|by|with|is|are|get|have|causes)) (?:\(are\) )?(.+?) ?\?(.*)", question)
        return (match[1] + " ... ?", match[2]) if match else ("", "")
    if name in ("cuad", "policyqa"):
        subject = question.split(": ")[-1] if name == "cuad" and len(question) > 90 else question
        return subject, name_document(document)
    match = _HEADING.fullmatch(question)
    return (match["heading"], match["title"]) if match and len(match["title"]) > 8 else ("", "")


def phrase(subject: str, about: str, rng: np.random.Generator) -> str:
    """Return a question about something, one of several ways."""
    if " ... ?" in subject:
        return subject.replace("...", about).replace(" ?", "?")
    forms = ("{0} ({1})", "{1}: {0}", "In {1}: {0}", "{0} in {1}", "{0}, {1}?")
    return forms[int(rng.integers(len(forms)))].format(subject, about)


def names_document(text: str, about: str) -> bool:
    """Return whether a text has a longer word of a document's name, however it is joined or written."""
    letters = re.sub(r"[^a-z0-9]", "", text.lower())
    return any(word[:6] in letters for word in re.findall(r"[a-z0-9]{5,}", about.lower()))


def shared_letters(one: str, other: str) -> int:
    """Return how many words two names share."""
    return len({*one.lower().split()} & {*other.lower().split()})


def ask_lists(name: str, data: Path, count: int, rng: np.random.Generator) -> Iterator[Contrast]:
    """Yield the introductions of lists as questions, with the whole list, a half of it, and none of it."""
    made = 0
    for document in load_dataset(data / name).documents:
        bounds = list_sentences(document.text)
        texts = [document.text[low:high] for low, high in bounds]
        number = 0
        while number < len(texts) and made < count:
            intro, number = number, number + 1
            if not re.search(r"\w.*:\s*$", texts[intro], re.DOTALL) or not 25 < len(texts[intro].strip()) < 220:
                continue
            stop = number
            while stop < len(texts) and _ITEM.match(texts[stop]):
                stop += 1
            items = texts[number:stop]
            if not 3 <= len(items) <= 14 or sum(map(len, items)) > MOST or rng.random() < 0.5:
                continue
            place, keep = name_document(document), len(items) // 2
            whole = Passage(place, (texts[intro], *items), (ANSWERS,) * (1 + len(items)), complete=1)
            half = Passage(place, (texts[intro], *items[:keep]), (ANSWERS,) * (1 + keep), complete=0)
            none = Passage(place, (*texts[max(0, intro - 2) : intro], texts[intro]), (NO_ANSWER,) * (1 + min(2, intro)))
            after = tuple(texts[stop : stop + 3])
            rest = [Passage(place, after, (NO_ANSWER,) * len(after))] if after else []
            made += 1
            yield Contrast(
                f"{name}/list/{document.doc_id}/{intro}",
                texts[intro].strip().rstrip(":"),
                (whole, half, none, *rest),
                place,
            )
            number = stop


def ask_rows(name: str, data: Path, count: int, rng: np.random.Generator) -> Iterator[Contrast]:
    """Yield questions about cells of the tables of a set, with other rows and the row without the cell."""
    made = 0
    for document in load_dataset(data / name).documents:
        for block in re.finditer(r"(?:^[^\n|]*\|[^\n]*\n?){4,}", document.text, re.MULTILINE):
            rows = [
                [cell.strip(" `*") for cell in line.strip().strip("|").split("|")] for line in block[0].splitlines()
            ]
            rows = [row for row in rows if not all(re.fullmatch(r"[-: ]*", cell) for cell in row)]
            header, *body = rows
            body = [row for row in body if len(row) == len(header) and row[0]]
            if made >= count or len(header) < 2 or len(body) < 3 or not all(header[1:]) or max(map(len, header)) > 60:
                continue
            head = [header[0] or "Item", *header[1:]]
            for _ in range(min(3, len(body) // 2)):
                row = body[int(rng.integers(len(body)))]
                column = int(rng.integers(1, len(head)))
                if (
                    not row[column]
                    or len(row[column]) > 80
                    or len(row[0]) > 80
                    or [r[0] for r in body].count(row[0]) > 1
                ):
                    continue
                made += 1
                yield from ask_row(
                    f"{name}/row/{document.doc_id}/{block.start()}/{made}",
                    name_document(document),
                    head,
                    body,
                    row,
                    column,
                    rng,
                )


def ask_row(
    key: str,
    place: str,
    head: Sequence[str],
    body: Sequence[Sequence[str]],
    row: Sequence[str],
    column: int,
    rng: np.random.Generator,
) -> Iterator[Contrast]:
    """Yield the question for a cell by the row's name, and for the row's name by the cell where only one has it."""

    def write(cells: Sequence[str], skip: int = -1) -> str:
        return (
            " | ".join(
                f"{name}: {cell}" for number, (name, cell) in enumerate(zip(head, cells, strict=True)) if number != skip
            )
            + "\n"
        )

    others = [each for each in body if each[0] != row[0]]
    near = sorted(others, key=lambda each: -shared_letters(each[0], row[0]) - (each[0][:2] == row[0][:2]))[:3]
    at = int(rng.integers(0, len(near) + 1))
    lines = [write(each) for each in near]
    lines.insert(at, write(row))
    begin = lines[at].index(f"{head[column]}: {row[column]}", 0) + len(head[column]) + 2
    labels = [NO_ANSWER] * len(lines)
    labels[at] = ANSWERS
    by_name = f"{head[column]} of {row[0]}"
    with_row = Passage(place, tuple(lines), tuple(labels), (at, begin, begin + len(row[column])))
    alone = Passage(place, (write(row),), (ANSWERS,), (0, begin, begin + len(row[column])))
    without = [Passage(place, (write(row, column),), (NO_ANSWER,))] if len(head) > 2 else []
    wrong = Passage(place, tuple(map(write, near)), (NO_ANSWER,) * len(near))
    one = [Passage(place, (write(each),), (NO_ANSWER,)) for each in near[:2]]
    passages = (with_row if rng.random() < 0.5 else alone, wrong, *without, *one)
    yield Contrast(key, by_name, passages, f"{place} | columns: {', '.join(head)}")
    if [each[column] for each in body].count(row[column]) == 1 and len(row[column]) < 40 and rng.random() < 0.5:
        start = len(head[0]) + 2
        with_row = with_row._replace(short=(at, start, start + len(row[0])))
        alone = alone._replace(short=(0, start, start + len(row[0])))
        passages = (with_row if rng.random() < 0.5 else alone, wrong, *one)
        yield Contrast(
            f"{key}/value",
            f"which {head[0]} has {head[column]} {row[column]}?",
            passages,
            f"{place} | columns: {', '.join(head)}",
        )


def read_notes(path: Path) -> Iterator[Contrast]:
    """Yield the questions of short documents, written for this: those of a group are alike, and each may answer for another."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            groups[record["group"]].append(record)
    for name, records in groups.items():
        for number, record in enumerate(records):
            for at, asked in enumerate(record["questions"]):
                passages = [label_note(each, asked if each is record else None) for each in records]
                if asked["sentence"] and ANSWERS not in passages[number].labels:
                    continue
                own = passages.pop(number)
                rest = filter(None, [leave_out(own)] if asked["sentence"] else [])
                yield Contrast(f"notes/{name}/{number}/{at}", asked["question"], (own, *passages, *rest))


def label_note(record: dict[str, Any], asked: dict[str, Any] | None) -> Passage:
    """Return a written document as a passage, labelled for a question about it; None for one about another."""
    text = record["text"]
    bounds = list_sentences(text)
    sentences = tuple(text[low:high] for low, high in bounds)
    labels, short, complete = [NO_ANSWER] * len(sentences), (-1, 0, 0), -1
    if asked and asked["sentence"]:
        start = text.find(asked["sentence"])
        end = start + len(asked["sentence"])
        labels = [
            ANSWERS
            if start >= 0 and min(high, end) - max(low, start) > 0.5 * min(high - low, end - start)
            else NO_ANSWER
            for low, high in bounds
        ]
        value = text.find(asked["short"], start, end) if asked.get("short") else -1
        complete = int(asked.get("complete", -1))
        for number, (low, high) in enumerate(bounds):
            if low <= value and value + len(asked["short"]) <= high:
                short = (number, value - low, value + len(asked["short"]) - low)
    return Passage(record["place"][:PLACE], sentences, tuple(labels), short, complete)


def change_question(contrast: Contrast, rng: np.random.Generator) -> Contrast | None:
    """Return the question as none of its passages answers it, or None where nothing can be exchanged."""
    texts = [text for passage in contrast.passages for text in passage.sentences]
    question = make_unanswerable(contrast.question, texts, rng)
    if question is None:
        return None
    passages = tuple(
        each._replace(labels=(NO_ANSWER,) * len(each.labels), short=(-1, 0, 0), complete=-1)
        for each in contrast.passages[:3]
    )
    return Contrast(f"{contrast.key}/none", question, passages, contrast.hint)


def write(path: Path, contrasts: Iterable[Contrast]) -> tuple[int, int]:
    """Write contrasts as mined questions; return how many questions and passages there are."""
    questions = passages = 0
    partial = path.with_suffix(".partial")
    with gzip.open(partial, "wt", encoding="utf-8") as file:
        for contrast in contrasts:
            records = []
            for each in contrast.passages:
                zeros = [0.0] * len(each.sentences)
                answers = (
                    [] if each.short is None or (each.short[0] < 0 and ANSWERS not in each.labels) else [each.short]
                )
                records.append(
                    [
                        each.place,
                        each.sentences,
                        zeros,
                        zeros,
                        each.labels,
                        [True] * len(zeros),
                        answers,
                        0,
                        0,
                        each.complete,
                    ]
                )
            file.write(json.dumps([contrast.question, records], ensure_ascii=False) + "\n")
            questions, passages = questions + 1, passages + len(records)
    partial.rename(path)
    return questions, passages


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--reworded", type=Path)
    parser.add_argument("--notes", type=Path)
    parser.add_argument("--ask", type=int, default=0)
    options = parser.parse_args()
    for folder in ("reworded", "notes"):
        (options.out / folder).mkdir(parents=True, exist_ok=True)
    reworded: dict[str, list[str]] = defaultdict(list)
    if options.reworded:
        with gzip.open(options.reworded, "rt", encoding="utf-8") as lines:
            for record in map(json.loads, lines):
                reworded[record["id"]].append(record["question"])
    asked: list[dict[str, str]] = []
    makers = [
        (ask_alone, QUESTIONS, ""),
        (ask_alike, ALIKE, "-alike"),
        (ask_lists, LISTS, "-list"),
        (ask_rows, ROWS, "-rows"),
    ]
    total = [0, 0]
    jobs = [(make, name, count, suffix) for make, counts, suffix in makers for name, count in counts.items()]
    for make, name, count, suffix in jobs:
        rng = np.random.default_rng(zlib.crc32(f"{name}{suffix}".encode()))
        contrasts = list(make(name, options.data, count, rng))
        extra, again = [], []
        for contrast in contrasts:
            again += [contrast._replace(question=text) for text in reworded[contrast.key]]
            changed = change_question(contrast, rng) if rng.random() < UNANSWERED else None
            extra += [changed] if changed else []
        if suffix:
            asked += [{"id": c.key, "question": c.question, "about": c.hint} for c in contrasts]
        counts = write(options.out / f"{name}{suffix}.jsonl.gz", [*contrasts, *extra])
        total = [total[0] + counts[0], total[1] + counts[1]]
        print(f"{name}{suffix}: {counts[0]} questions, {counts[1]} passages", flush=True)
        if again:
            counts = write(options.out / "reworded" / f"{name}{suffix}.jsonl.gz", again)
            total = [total[0] + counts[0], total[1] + counts[1]]
    if options.notes:
        counts = write(options.out / "notes" / "notes.jsonl.gz", read_notes(options.notes))
        total = [total[0] + counts[0], total[1] + counts[1]]
        print(f"notes: {counts[0]} questions, {counts[1]} passages")
    print(f"in all: {total[0]} questions, {total[1]} passages")
    if options.ask:
        rng = np.random.default_rng(0)
        chosen = [asked[i] for i in rng.permutation(len(asked))[: options.ask]]
        (options.out / "asked.jsonl").write_text(
            "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in chosen), "utf-8"
        )


if __name__ == "__main__":
    main()
