"""The steps of training an encoder, by number, of what `pack_documents.py` packs."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from lmkrag.training.settings import SetSettings, StageSettings
from lmkrag.training.steps import Question, Step, StepBuilder, TokenDocument
from pipelines.train.packs import Pack

OTHER_WORDS = 3  # sampling weight of a question in other words than its evidence; others have 1


class PackedSet:
    """A set of a packed file, as :class:`lmkrag.training.steps.StepBuilder` reads sets."""

    def __init__(self, pack: Pack, number: int) -> None:
        """Take a file and the set's number; a question's ``text`` is the number of its text."""
        self._pack = pack
        self._numbers = np.flatnonzero(pack.column("document.set") == number)
        self._first = pack.starts("document.sentences")
        self.titles = [pack.text(pack.column("document.title")[each]) for each in self._numbers]
        self.questions: list[Question] = []
        self.by_document: dict[int, list[int]] = defaultdict(list)
        self.documents_of: dict[Any, set[int]] = defaultdict(set)
        place = {int(document): index for index, document in enumerate(self._numbers)}
        owners, texts = pack.column("question.document"), pack.column("question.text")
        starts, little = pack.starts("question.runs"), pack.column("question.little")
        runs = np.stack([pack.column("run.first"), pack.column("run.stop")], 1).tolist()
        for row in np.flatnonzero(np.isin(owners, self._numbers)):
            text, document = int(texts[row]), place[int(owners[row])]
            spans = tuple(map(tuple, runs[starts[row] : starts[row + 1]]))
            question = Question(text, pack.text(text), document, spans)  # type: ignore[arg-type]
            self.documents_of[text].add(document)
            for _ in range(OTHER_WORDS if little[row] else 1):
                self.by_document[document].append(len(self.questions))
                self.questions.append(question)

    def __len__(self) -> int:
        return len(self._numbers)

    def document(self, number: int) -> TokenDocument:
        """Return a document's sentences, whose words are the numbers of their texts."""
        first, stop = self._first[self._numbers[number] : self._numbers[number] + 2]
        texts = self._pack.column("sentence.text")[first:stop].tolist()
        none = np.zeros(0, np.int64)
        return TokenDocument([self._pack.text(text) for text in texts], texts, none, none)

    def evidence(self, index: int) -> list[tuple[int, int]]:
        """Return the evidence of a question as (first, stop) sentences."""
        return list(self.questions[index].spans)


class Documents:
    """A packed file: its sets, its special tokens, and how to train on it."""

    def __init__(self, path: Path) -> None:
        """Read a file."""
        pack = Pack(path)
        self.described = pack.described["sets"]
        self.special: Any = SimpleNamespace(**pack.described["special"])
        self.stage = pack.described["stage"]
        self.sets = [PackedSet(pack, number) for number in range(len(self.described))]


class DocumentSteps:
    """The steps of a stage on a packed file."""

    def __init__(self, data: Documents, stage: StageSettings, seed: int) -> None:
        """Take a file, how it is trained on, and the seed."""
        self._data, self._stage, self._seed = data, stage, seed
        self._sets = [
            (number, SetSettings(entry["path"], task, within=entry["within"], **settings))
            for number, entry in enumerate(data.described)
            for task, settings in entry["tasks"].items()
        ]
        weights = np.array([chosen.weight for _, chosen in self._sets])
        self._shares = weights / weights.sum()

    def build(self, number: int) -> Step:
        """Return the step of a number."""
        rng = np.random.default_rng((self._seed, number))
        while True:
            place, chosen = self._sets[int(rng.choice(len(self._sets), p=self._shares))]
            data: Any = self._data.sets[place]
            builder = StepBuilder(self._stage, chosen, data, rng)
            if builder.build():
                return builder.step(self._data.special)
