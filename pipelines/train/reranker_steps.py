"""The steps of a re-ranker's training, by number: questions, and some passages of each, one of which answers."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from mined_passages import ANSWERS, MinedPassage, MinedQuestion
from place_steps import PlaceRow, PlaceStep, collate_places, group_by_length
from reranker_settings import RerankerSettings, share_sets
from torch.utils.data import Dataset

from lmkrag.reranker.base import RerankPassage
from lmkrag.reranker.landmark import PairTokenizer, PairTokens

_POWER = 0.6  # a set's share of the questions grows with its size to this power
_GOOD_PASSAGES = 2  # that answer, of one question, at most


class RerankerData(Dataset[PlaceStep]):
    """The steps of a run. Step ``i`` is a function of the seed and ``i``, so a resumed run sees the same ones."""

    def __init__(
        self,
        settings: RerankerSettings,
        mined: Sequence[Sequence[MinedQuestion]],
        tokens: PairTokenizer,
        processes: int,
    ) -> None:
        """Take the mined questions of each set in the order of the settings; ``processes`` share the steps."""
        self._settings, self._mined, self._tokens, self._processes = settings, mined, tokens, processes
        self._shares = share_sets(settings.sets, mined, _POWER)

    def __len__(self) -> int:
        return self._settings.steps * self._processes

    def __getitem__(self, index: int) -> PlaceStep:
        rng = np.random.default_rng((self._settings.seed, index))
        rows: list[PlaceRow] = []
        answerable = []
        for number in range(self._settings.questions):
            chosen = int(rng.choice(len(self._mined), p=self._shares))
            mined = self._mined[chosen][int(rng.integers(len(self._mined[chosen])))]
            picked = self._pick(mined, rng)
            text = mined.question
            changed = None
            if self._settings.sets[chosen].strings and rng.random() < self._settings.unanswerable:
                changed = make_unanswerable(text, picked[0].sentences, rng)
            answerable.append(changed is None)
            for passage in picked:
                title = passage.title if rng.random() < self._settings.titles else ""
                pair = self._tokens.pair(changed or text, RerankPassage(title, passage.sentences))
                rows.append(lay_out(pair, passage, number))
        batches = (collate_places([rows[row] for row in group]) for group in group_by_length(rows))
        return PlaceStep(tuple(batches), torch.tensor(answerable))

    def _pick(self, mined: MinedQuestion, rng: np.random.Generator) -> list[MinedPassage]:
        """Passages that answer first, then others of the question, as many as a step reads."""
        good = [passage for passage in mined.passages if ANSWERS in passage.labels][:_GOOD_PASSAGES]
        others = [passage for passage in mined.passages if ANSWERS not in passage.labels]
        room = max(0, self._settings.passages - len(good))
        return good + [others[number] for number in rng.permutation(len(others))[:room]]


def lay_out(pair: PairTokens, passage: MinedPassage, question: int) -> PlaceRow:
    """Return a mined passage as it is read with the question of a number."""
    read = int(pair.owners.max(initial=-1)) + 1  # what did not fit is not known
    answers = []
    for number, start, end in passage.answers:
        inside = np.flatnonzero((pair.owners == number) & (pair.offsets[:, 1] > start) & (pair.offsets[:, 0] < end))
        if len(inside):
            answers.append((int(inside[0]), int(inside[-1])))
    return PlaceRow(
        pair.ids, pair.question, pair.owners, passage.scores[:read], passage.labels[:read], answers, question
    )


_NAMES = re.compile(r"(?<!^)\b[A-Z][\w'-]+(?: (?:of |the )?[A-Z][\w'-]+)*|\b\d[\d,.]*\d\b|\b\d\b")
_PAIRS = (
    "first last|largest smallest|most least|highest lowest|before after|more fewer|north south|east west|early late"
    "|increase decrease|increased decreased|began ended|start end|won lost|older younger|major minor|high low"
    "|long short|male female|win lose|best worst|top bottom|positive negative|can cannot|is isn't|was wasn't"
    "|did didn't|does doesn't|were weren't|are aren't|new old|public private|rich poor|upper lower|same different"
    "|larger smaller|maximum minimum|add remove|allowed forbidden|always never|oldest newest|earliest latest"
    "|longest shortest|strong weak"
)
_OPPOSITES = {word: other for pair in _PAIRS.split("|") for word, other in (pair.split(), pair.split()[::-1])}
_OPPOSITE_SHARE = 0.4  # of the questions that could be changed in both ways


def make_unanswerable(question: str, texts: Iterable[str], rng: np.random.Generator) -> str | None:
    """Return a question that the texts, which answer it, no longer answer; None where nothing can be exchanged."""
    here = list(_NAMES.finditer(question))
    known = {match.group(0) for match in here}
    others = sorted({match.group(0) for text in texts for match in re.finditer(_NAMES, f" {text}")} - known)
    names = []
    for match in here:
        alike = [
            other
            for other in others
            if other[0].isdigit() == match.group(0)[0].isdigit()
            and other not in question
            and match.group(0) not in other
        ]
        if alike:
            names.append((match, alike))
    words = [match for match in re.finditer(r"\w+", question) if match.group(0) in _OPPOSITES]
    if words and (not names or rng.random() < _OPPOSITE_SHARE):
        word = words[int(rng.integers(len(words)))]
        return question[: word.start()] + _OPPOSITES[word.group(0)] + question[word.end() :]
    if not names:
        return None
    name, alike = names[int(rng.integers(len(names)))]
    return question[: name.start()] + alike[int(rng.integers(len(alike)))] + question[name.end() :]
