"""Pack the documents and questions of a recipe, tokenized, into one file that travels to a GPU.

    python pipelines/train/pack_documents.py pipelines/train/landmark-mini.toml OUT.npz [--tokens 1500000]
    python pipelines/train/pack_documents.py pipelines/train/landmark-multilingual.toml OUT.npz \
        --encoder landmark-multilingual --written pipelines/train/questions.jsonl.gz
    python pipelines/train/pack_documents.py --watch DATA OUT.npz [--real CORPORA]

The first takes the sets of the recipe's last stage, of each `--tokens` at most. The second takes the questions that
watch a run: samples of the development sets below DATA and, with `--real`, the corpora of `benchmarks/real.py`, where a
sentence is evidence if the question's expression matches it with 120 characters on each side. With `--written`, the
questions of `written_questions.py` about sets of the recipe are sets of their own with half of all steps.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from pack_passages import LITTLE, shared_words
from tokenizers import Tokenizer
from written_questions import is_held, read_written

from lmkrag import Engine
from lmkrag.encoder.spec import find_model, read_settings
from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.evaluation.dataset import iter_documents
from lmkrag.sentences.split import split_sentences
from lmkrag.training.settings import load_settings
from lmkrag.training.steps import Question, TrainingSet

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from real import read_questions

AROUND = 120  # characters
WRITTEN = 700_000  # tokens of a set with written questions, at most
WATCHED = {  # sets of data/dev, and whether their questions make sense only inside their documents
    "qmsum": True, "covidqa": False, "cuad": True, "squad": False, "fairytaleqa_sent": False, "medquad": False,
    "peps": False, "policyqa": True, "obliqa": False, "evidence_inference": True, "hotpot_small": True, "clapnq": False,
}  # fmt: skip


class Pack:
    """Documents and questions, to be written as one file."""

    def __init__(self, tokens: SentenceTokenizer) -> None:
        self.tokens = tokens
        self.ids: list[np.ndarray] = []
        documents = "document_set title sentences words"
        questions = "question_document asked text little runs first stop"
        self.columns: dict[str, list[int]] = {name: [] for name in f"{documents} {questions}".split()}
        self.sets: list[dict[str, Any]] = []
        self._words: dict[Any, int] = {}
        self._texts: dict[str, int] = {}

    def add_document(self, title: list[int], sentences: list[list[int]], words: list[Any]) -> int:
        """Take a document of the set that was added last, and return its number."""
        self.columns["document_set"].append(len(self.sets) - 1)
        self.columns["title"].append(self._add(title))
        self.columns["sentences"].append(len(sentences))
        for ids, word in zip(sentences, words, strict=True):
            self._add(ids)
            self.columns["words"].append(self._words.setdefault(word, len(self._words)))
        return len(self.columns["title"]) - 1

    def add_question(self, text: str, ids: list[int], document: int, runs: list[tuple[int, int]], little: bool) -> None:
        """Take a question and its evidence, ranges of the document's sentences."""
        self.columns["question_document"].append(document)
        self.columns["asked"].append(self._add(ids))
        self.columns["text"].append(self._texts.setdefault(text, len(self._texts)))
        self.columns["little"].append(little)
        self.columns["runs"].append(len(runs))
        self.columns["first"] += [first for first, _ in runs]
        self.columns["stop"] += [stop for _, stop in runs]

    def save(self, out: Path) -> None:
        """Write the file, and print its contents."""
        arrays: dict[str, Any] = {name: np.array(values, np.int32) for name, values in self.columns.items()}
        lengths = np.array([len(ids) for ids in self.ids], np.uint16)
        tokens = np.concatenate(self.ids)
        special = {name: getattr(self.tokens, name) for name in ("prefix", "suffix", "landmark", "pad")}
        np.savez_compressed(
            out, sets=json.dumps(self.sets), special=json.dumps(special), lengths=lengths,
            tokens=tokens.astype(np.min_scalar_type(tokens.max())), **arrays,
        )  # fmt: skip
        for number, chosen in enumerate(self.sets):
            documents = np.flatnonzero(arrays["document_set"] == number)
            mask = np.isin(arrays["question_document"], documents)
            print(chosen["path"], len(documents), "documents,", mask.sum(), "questions,", end=" ")
            print(f"{arrays['little'][mask].mean():.0%} of them in other words" if mask.any() else "")
        print(f"{int(lengths.sum()):,} tokens, {out.stat().st_size:,} bytes")

    def _add(self, ids: list[int]) -> int:
        self.ids.append(np.array(ids, np.uint32))
        return len(self.ids) - 1


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--real", type=Path)
    parser.add_argument("--tokens", type=int, default=1_500_000)
    parser.add_argument("--encoder", default="landmark-mini")
    parser.add_argument("--written", type=Path)
    options = parser.parse_args()
    encoder = find_model(options.encoder)
    settings = read_settings(encoder)
    tokens = SentenceTokenizer(
        Tokenizer.from_file(str(encoder / "tokenizer.json")),
        window=max(510, settings["window"]),
        landmark=settings["landmark"],
        query_prefix=settings["query_prefix"],
        title_tokens=settings["title_tokens"],
    )
    pack = Pack(tokens)
    if options.watch:
        for name, within in WATCHED.items():
            pack.sets.append({"path": name, "within": within})
            add_set(pack, TrainingSet(options.recipe / name, tokens), most=60_000, questions=100)
        if options.real:
            add_real(pack, options.real)
    else:
        recipe = load_settings(options.recipe)
        paths: dict[str, dict[str, Any]] = {}
        for chosen in recipe.stages[-1].sets:
            entry = paths.setdefault(
                chosen.path, {"path": Path(chosen.path).name, "within": chosen.within, "tasks": {}}
            )
            entry["tasks"][chosen.task] = {"weight": chosen.weight, "documents": chosen.documents}
        for path, entry in paths.items():
            pack.sets.append(entry)
            add_set(pack, TrainingSet(recipe.find_set(path), tokens), most=options.tokens)
        if options.written:
            add_written(pack, {Path(path).name: recipe.find_set(path) for path in paths}, options.written)
    pack.save(options.out)


def add_set(pack: Pack, data: TrainingSet, *, most: int, questions: int = 0) -> None:
    """Add documents of a set in a random order until they have ``most`` tokens, and ``questions`` on them, or all."""
    order = list(data.by_document)
    random.Random(0).shuffle(order)
    pairs, taken = [], 0
    for number in order:
        document = data.document(number)
        packed = pack.add_document(data.titles[number], document.ids, document.words)
        pairs += [(packed, index) for index in data.by_document[number] if data.evidence(index)]
        taken += sum(map(len, document.ids))
        if taken > most:
            break
    if questions and len(pairs) > questions:
        pairs = random.Random(0).sample(pairs, questions)
    for packed, index in pairs:
        question, runs = data.questions[index], data.evidence(index)
        document, text = data.document(question.document), data.texts[question.document]
        answer = " ".join(text[document.starts[first] : document.ends[stop - 1]] for first, stop in runs)
        little = shared_words(question.text, answer) < LITTLE
        pack.add_question(question.text, question.ids, packed, runs, little)


def add_written(pack: Pack, folders: dict[str, Path], written: Path) -> None:
    """Add the questions of a file, by set, but for those about documents that are held out."""
    _, questions = read_written(written)
    learnt = {
        name: [question for question in group if not is_held(question.doc_id)]
        for name, group in questions.items()
        if name in folders
    }
    total = sum(task["weight"] for entry in pack.sets for task in entry["tasks"].values())
    roots = sum(len(group) ** 0.5 for group in learnt.values())
    for name, group in learnt.items():
        weight = total * len(group) ** 0.5 / roots
        pack.sets.append({"path": f"{name} in other words", "within": False})
        pack.sets[-1]["tasks"] = {"documents": {"weight": weight, "documents": 4}}
        data = TrainingSet(folders[name], pack.tokens)
        numbers = {document.doc_id: number for number, document in enumerate(iter_documents(folders[name]))}
        data.questions.clear()
        data.by_document.clear()
        for question in group:
            ids, number = pack.tokens.query(question.text).ids, numbers[question.doc_id]
            data.by_document[number].append(len(data.questions))
            data.questions.append(Question(question.text, ids, number, question.spans))
        add_set(pack, data, most=WRITTEN)


def add_real(pack: Pack, corpora: Path) -> None:
    """Add corpora as `benchmarks/real.py` indexes them."""
    for folder in sorted(corpora.iterdir()):
        if not (folder / "questions.jsonl").is_file():
            continue
        pack.sets.append({"path": folder.name, "within": False})
        documents = []
        with tempfile.TemporaryDirectory() as work, Engine.open(work, create=True) as engine:
            engine.add(folder / "files")
            for info in engine.documents():
                documents.append((info.title, engine.read(info.doc_id), info.kind))
        texts = []
        for title, text, kind in documents:
            pieces = list(pack.tokens.pieces(text, split_sentences(text, kind=kind)))
            words = [text[sentence.start : sentence.end] for sentence, _ in pieces]
            packed = pack.add_document(pack.tokens.title(title), [ids for _, ids in pieces], words)
            texts.append((packed, text, [sentence for sentence, _ in pieces]))
        for question in read_questions(folder / "questions.jsonl"):
            if not question.pattern:
                continue
            ids = pack.tokens.query(question.text).ids
            for packed, text, sentences in texts:
                runs = [
                    (i, i + 1)
                    for i, sentence in enumerate(sentences)
                    if question.pattern.search(text[max(0, sentence.start - AROUND) : sentence.end + AROUND])
                ]
                if runs:
                    pack.add_question(question.text, ids, packed, runs, True)


if __name__ == "__main__":
    main()
