"""Mine the passages that a search shows for questions, and label their sentences.

    python -m pipelines.train.mine RECIPE.toml OUT
    python -m pipelines.train.mine RECIPE.toml OUT --written pipelines/train/questions.jsonl.gz

The first takes the questions of the recipe's sets. The second takes questions that were written
about documents of sets, in other words than theirs, with the characters of the sentences that
answer and of a short answer, if there is one; tables that are no part of a set stand in the file as
documents. A recipe whose base reads other languages than English takes the sets of other languages.
A fifth of the documents is held out, and the questions about them: `--held` takes these alone. Each
set is indexed with more of its documents as distractors, and every question is searched as a user's
is, but not re-ranked. OUT gets `SET.jsonl.gz`, which `pack_passages.py` packs.
"""

import argparse
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lmkrag import Document, Engine
from lmkrag.encoder.spec import DEFAULT_ENCODER
from lmkrag.evaluation.dataset import Dataset, load_dataset
from lmkrag.sentences.split import split_sentences
from pipelines.train.mined import (
    ANSWERS,
    NO_ANSWER,
    NO_SHORT,
    UNKNOWN,
    Mined,
    Passage,
    Span,
    is_evidence,
    make_negative,
    read_lines,
    write_mined,
)
from pipelines.train.settings import MinedSet, ReaderSettings, load_settings

RESULTS = 24
CHARACTERS, MOST = 600_000, 2_000_000  # of a set with written questions, at least and at most
AROUND = 200  # characters around evidence that no passage has
BESIDE = 2  # sentences before and after that of a short answer, of which nothing is known
HELD = 5  # every fifth document, by its hash, is held out


class Question(NamedTuple):
    """A question, its document, and the characters there of the evidence and of a short answer.

    A question without ``spans`` is one that its document does not answer.
    ``short`` is empty where there is no short answer, and None where that is not known. ``beside``
    says that what is beside the evidence may answer, too.
    """

    text: str
    doc_id: str
    spans: Sequence[Span]
    short: Sequence[int] | None
    beside: bool = False


def mine_set(settings: ReaderSettings, chosen: MinedSet) -> Iterator[Mined]:
    """Yield some questions of a set, each with its passages."""
    dataset = load_dataset(settings.find_set(chosen))
    rng = np.random.default_rng(settings.training.seed)
    documents = draw_documents(dataset, chosen.characters, rng)
    known = {document.doc_id for document in documents}
    queries = [query for query in dataset.queries if query.doc_id in known]
    questions = []
    for number in rng.permutation(len(queries))[: chosen.questions]:
        text, doc_id, spans = queries[number].query, queries[number].doc_id, queries[number].spans
        short = spans[0] if chosen.strings and spans else None
        questions.append(Question(text, doc_id, spans, short, beside=chosen.strings))
    yield from mine_questions(documents, questions, settings.base)


def draw_documents(dataset: Dataset, characters: int, rng: np.random.Generator) -> list[Document]:
    """Return documents with questions, by chance, until they have so many characters."""
    asked = {query.doc_id for query in dataset.queries}
    documents, taken = [], 0
    for number in rng.permutation(len(dataset.documents)):
        document = dataset.documents[number]
        if document.doc_id in asked and taken <= characters:
            documents.append(document)
            taken += len(document.text)
    return documents


def mine_written(settings: ReaderSettings, path: Path, out: Path, *, held: bool) -> None:
    """Write the written questions of a file with their passages, by set."""
    tables, questions = read_written(path)
    for name, group in questions.items():
        is_english = not name.startswith("ml_")
        if is_english != (settings.base == DEFAULT_ENCODER):
            continue
        documents = tables[name]
        if not documents:
            documents = choose_documents(load_dataset(settings.find_set(MinedSet(name))), group)
        known = {document.doc_id for document in documents if is_held(document.doc_id) == held}
        chosen = [question for question in group if question.doc_id in known]
        write_set(out, name, mine_questions(documents, chosen, settings.base))


def read_written(path: Path) -> tuple[dict[str, list[Document]], dict[str, list[Question]]]:
    """Return the tables of a file of questions, and the questions, both by set."""
    documents: dict[str, list[Document]] = defaultdict(list)
    questions: dict[str, list[Question]] = defaultdict(list)
    for record in read_lines(path):
        doc_id, name = record["doc_id"], record["set"]
        if "text" in record:
            title, kind = record["title"], record["kind"]
            documents[name].append(Document(doc_id, doc_id, record["text"], title, kind))
        else:
            spans = [(start, end) for start, end in record["spans"]]
            question = Question(record["question"], doc_id, spans, record["short"] or ())
            questions[name].append(question)
    return documents, questions


def is_held(doc_id: str) -> bool:
    """Return whether a document is held out, with the questions about it."""
    return zlib.crc32(doc_id.encode()) % HELD == 0


def choose_documents(dataset: Dataset, questions: Sequence[Question]) -> list[Document]:
    """Return documents of a set, those with the most questions for their length first."""
    asked = Counter(question.doc_id for question in questions)
    documents, characters = [], 0
    for document in sorted(
        dataset.documents, key=lambda each: -asked[each.doc_id] / max(1, len(each.text))
    ):
        most = MOST if document.doc_id in asked else CHARACTERS
        if characters + len(document.text) <= most:
            documents.append(document)
            characters += len(document.text)
    return documents


def mine_questions(
    documents: Sequence[Document], questions: Sequence[Question], encoder: str
) -> Iterator[Mined]:
    """Yield each question with the first passages that a search shows, and one that answers."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine.open(folder, create=True, encoder=encoder) as engine,
    ):
        engine.add(documents, progress=False)
        titles = {document.doc_id: document.title for document in documents}
        for question in questions:
            passages = []
            for span in engine.search(question.text, top_k=RESULTS, rerank=False):
                own = question if span.doc_id == question.doc_id else None
                passages.append(label_passage(span.title, span.text, span.start, own))
            is_missed = not any(passage.answers for passage in passages)
            if is_missed and question.spans:
                low = max(0, question.spans[0][0] - AROUND)
                text = engine.read(question.doc_id, low, question.spans[-1][1] + AROUND)
                passages.append(label_passage(titles[question.doc_id], text, low, question))
            yield Mined(question.text, tuple(passages))


def label_passage(place: str, text: str, begin: int, question: Question | None) -> Passage:
    """Return a passage that begins at a character; ``question`` is about its document."""
    bounds = [(begin + each.start, begin + each.end) for each in split_sentences(text)]
    sentences = tuple(text[low - begin : high - begin] for low, high in bounds)
    if question is None:
        return make_negative(place, sentences)
    labels = [label_sentence(each, question.spans) for each in bounds]
    if question.beside:
        good = np.flatnonzero(np.array(labels) == ANSWERS)
        for number in range(len(labels)):
            is_near = bool((np.abs(good - number) <= BESIDE).any())
            if is_near and labels[number] == NO_ANSWER:
                labels[number] = UNKNOWN
    short = find_short(bounds, labels, question.short)
    return Passage(place, sentences, tuple(labels), short)


def label_sentence(sentence: Span, spans: Sequence[Span]) -> int:
    """Return whether a sentence answers; unknown if it has little of the evidence."""
    if is_evidence(sentence, spans):
        return ANSWERS
    low, high = sentence
    is_touched = any(low < end and start < high for start, end in spans)
    return UNKNOWN if is_touched else NO_ANSWER


def find_short(
    bounds: Sequence[Span], labels: Sequence[int], short: Sequence[int] | None
) -> tuple[int, int, int] | None:
    """Return the sentence of a short answer and its characters there, or None if not known."""
    if short == () and ANSWERS in labels:
        return NO_SHORT
    for number, (low, high) in enumerate(bounds):
        if short and labels[number] == ANSWERS and low <= short[0] and short[1] <= high:
            return number, short[0] - low, short[1] - low
    return None


def write_set(out: Path, name: str, questions: Iterator[Mined]) -> None:
    """Write a set's questions, unless they are there."""
    path = out / f"{name}.jsonl.gz"
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        write_mined(path, questions)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--written", type=Path)
    parser.add_argument("--held", action="store_true")
    options = parser.parse_args()
    settings = load_settings(options.recipe)
    if options.written:
        mine_written(settings, options.written, options.out, held=options.held)
        return
    for chosen in settings.sets:
        name = chosen.path.replace("/", "_")
        write_set(options.out, name, mine_set(settings, chosen))


if __name__ == "__main__":
    main()
