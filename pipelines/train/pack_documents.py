"""Pack the documents and questions of a recipe, tokenized, into one file that travels to a GPU.

    python -m pipelines.train.pack_documents RECIPE.toml OUT.npz [--tokens 1500000] [--written FILE]
    python -m pipelines.train.pack_documents DATA OUT.npz --watch

The first takes the sets of the recipe's last stage, of each `--tokens` at most, and writes down
that stage. With `--written`, the questions of FILE (`mine.py`) about sets of the recipe are sets of
their own with half of all steps. The second takes questions that watch a run, samples of the
development sets below DATA.

The table `document` says its set, its title, and how many sentences it has; `sentence` its text;
`question` its document, its text, whether it shares few words with its evidence, and how many runs
of sentences its evidence is; `run` the first of them and the one after the last.
"""

import argparse
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from lmkrag.encoder.spec import DEFAULT_ENCODER, find_model, read_settings
from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.evaluation.dataset import iter_documents
from lmkrag.training.settings import StageSettings, TrainSettings, load_settings
from lmkrag.training.steps import Question, TrainingSet
from pipelines.train.mine import is_held, read_written
from pipelines.train.pack_passages import LITTLE, shared_words
from pipelines.train.packs import PackWriter

WRITTEN = 700_000  # tokens of a set with written questions, at most
WATCHED_TOKENS, WATCHED_QUESTIONS = 60_000, 100  # of a set that watches
WINDOW = 510  # tokens, for which sentences are cut, at least
WATCHED = {
    "qmsum": True,
    "covidqa": False,
    "cuad": True,
    "squad": False,
    "fairytaleqa_sent": False,
    "medquad": False,
    "peps": False,
    "policyqa": True,
    "obliqa": False,
    "evidence_inference": True,
    "hotpot_small": True,
    "clapnq": False,
}
"""Development sets that watch, and whether their questions make sense only in their documents."""

Runs = list[tuple[int, int]]


class DocumentWriter:
    """Collects sets of documents and questions. ``sets`` says what each is."""

    def __init__(self, encoder: Path) -> None:
        """Take the folder of the encoder whose tokens they are."""
        settings = read_settings(encoder)
        self.tokens = SentenceTokenizer(
            Tokenizer.from_file(str(encoder / "tokenizer.json")),
            window=max(WINDOW, settings["window"]),
            landmark=settings["landmark"],
            query_prefix=settings["query_prefix"],
            title_tokens=settings["title_tokens"],
        )
        self.sets: list[dict[str, Any]] = []
        self._pack = PackWriter()

    def add_document(self, title: list[int], sentences: list[list[int]]) -> int:
        """Take a document of the set that was added last, and return its number."""
        for ids in sentences:
            self._pack.add_row("sentence", text=self._pack.add_text(ids))
        number, text = len(self.sets) - 1, self._pack.add_text(title)
        return self._pack.add_row("document", set=number, title=text, sentences=len(sentences))

    def add_question(self, ids: list[int], document: int, runs: Runs, *, little: bool) -> None:
        """Take a question and its evidence, ranges of the document's sentences."""
        text = self._pack.add_text(ids)
        self._pack.add_row("question", document=document, text=text, little=little, runs=len(runs))
        for first, stop in runs:
            self._pack.add_row("run", first=first, stop=stop)

    def add_set(self, data: TrainingSet, *, most: int, questions: int = 0) -> None:
        """Take documents until they have ``most`` tokens, and some questions or, with 0, all."""
        order = list(data.by_document)
        random.Random(0).shuffle(order)
        pairs, taken = [], 0
        for number in order:
            document = data.document(number)
            packed = self.add_document(data.titles[number], document.ids)
            pairs += [(packed, index) for index in data.by_document[number] if data.evidence(index)]
            taken += sum(map(len, document.ids))
            if taken > most:
                break
        if 0 < questions < len(pairs):
            pairs = random.Random(0).sample(pairs, questions)
        for packed, index in pairs:
            question, runs = data.questions[index], data.evidence(index)
            little = shared_words(question.text, read_evidence(data, index)) < LITTLE
            self.add_question(question.ids, packed, runs, little=little)

    def save(self, out: Path, stage: StageSettings | None) -> None:
        """Write the file with what it says of its sets, and of how to train."""
        names = ("prefix", "suffix", "landmark", "pad")
        special = {name: getattr(self.tokens, name) for name in names}
        described = {} if stage is None else asdict(stage) | {"sets": []}
        self._pack.save(out, sets=self.sets, special=special, stage=described)


def read_evidence(data: TrainingSet, index: int) -> str:
    """Return the sentences that answer a question."""
    question = data.questions[index]
    document, text = data.document(question.document), data.texts[question.document]
    parts = [
        text[document.starts[first] : document.ends[stop - 1]]
        for first, stop in data.evidence(index)
    ]
    return " ".join(parts)


def add_recipe(writer: DocumentWriter, recipe: TrainSettings, most: int) -> None:
    """Add the sets of the last stage."""
    entries: dict[str, dict[str, Any]] = {}
    for chosen in recipe.stages[-1].sets:
        empty = {"path": Path(chosen.path).name, "within": chosen.within, "tasks": {}}
        entry = entries.setdefault(chosen.path, empty)
        entry["tasks"][chosen.task] = {"weight": chosen.weight, "documents": chosen.documents}
    for path, entry in entries.items():
        writer.sets.append(entry)
        writer.add_set(TrainingSet(recipe.find_set(path), writer.tokens), most=most)


def add_written(writer: DocumentWriter, recipe: TrainSettings, path: Path) -> None:
    """Add written questions by set, but for those about documents that are held out."""
    folders = {Path(each.path).name: recipe.find_set(each.path) for each in recipe.stages[-1].sets}
    _, questions = read_written(path)
    learnt = {
        name: [question for question in group if not is_held(question.doc_id)]
        for name, group in questions.items()
        if name in folders
    }
    total = sum(task["weight"] for entry in writer.sets for task in entry["tasks"].values())
    roots = sum(len(group) ** 0.5 for group in learnt.values())
    for name, group in learnt.items():
        task = {"weight": total * len(group) ** 0.5 / roots, "documents": 4}
        entry = {"path": f"{name} in other words", "within": False, "tasks": {"documents": task}}
        writer.sets.append(entry)
        data = TrainingSet(folders[name], writer.tokens)
        numbers = {each.doc_id: number for number, each in enumerate(iter_documents(folders[name]))}
        data.questions.clear()
        data.by_document.clear()
        for question in group:
            ids, number = writer.tokens.query(question.text).ids, numbers[question.doc_id]
            data.by_document[number].append(len(data.questions))
            data.questions.append(Question(question.text, ids, number, tuple(question.spans)))
        writer.add_set(data, most=WRITTEN)


def add_watched(writer: DocumentWriter, data: Path) -> None:
    """Add samples of development sets."""
    for name, within in WATCHED.items():
        writer.sets.append({"path": name, "within": within})
        sample = TrainingSet(data / name, writer.tokens)
        writer.add_set(sample, most=WATCHED_TOKENS, questions=WATCHED_QUESTIONS)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--tokens", type=int, default=1_500_000)
    parser.add_argument("--encoder", default=DEFAULT_ENCODER)
    parser.add_argument("--written", type=Path)
    options = parser.parse_args()
    writer = DocumentWriter(find_model(options.encoder))
    if options.watch:
        add_watched(writer, options.recipe)
        writer.save(options.out, None)
        return
    recipe = load_settings(options.recipe)
    add_recipe(writer, recipe, options.tokens)
    if options.written:
        add_written(writer, recipe, options.written)
    writer.save(options.out, recipe.stages[-1])


if __name__ == "__main__":
    main()
