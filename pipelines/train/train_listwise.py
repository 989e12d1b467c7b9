"""Train the listwise model of a re-ranker, which compares the sentences of all passages that were read.

    pip install 'lmkrag[train]'
    python pipelines/train/train_listwise.py pipelines/train/landmark-listwise.toml

Mines questions, lets the re-ranker read their passages, trains, and prints the folder: a copy of the re-ranker with the
model, which `lmkrag search --rerank-model` takes. Run it again to go on after an interruption.
"""

import logging
import shutil
from pathlib import Path

import numpy as np
import torch
from listwise_model import LabelledList, ListwiseData, ListwiseSettings, ListwiseTrainee, measure_features
from mined_passages import ANSWERS, MinedQuestion
from mined_training import mining_arguments, run_command, train_steps
from mining import mine_passages
from reranker_settings import check_settings, load_table

from lmkrag.errors import TrainingError
from lmkrag.reranker.base import RerankPassage, ScoredSentences
from lmkrag.reranker.landmark import LandmarkReranker, find_reranker
from lmkrag.reranker.listwise import WEIGHTS
from lmkrag.search.weights import WEIGHTS as SEARCH_WEIGHTS
from lmkrag.training.settings import prepare_training

log = logging.getLogger(__name__)


def load_settings(path: Path) -> ListwiseSettings:
    """Read and check the table ``[listwise]``. Raises UsageError: a key, a type or a value that makes no sense."""
    settings: ListwiseSettings = load_table(path, "listwise", ListwiseSettings)
    checks = {
        "layers must be above 0": settings.layers > 0,
        "questions must be above 0": settings.questions > 0,
        "members must be above 0": settings.members > 0,
        "size must be a multiple of 4 above 0": settings.size > 0 and settings.size % 4 == 0,
        "dropout must be in [0, 1)": 0 <= settings.dropout < 1,
    }
    check_settings(path, settings, checks)
    return settings


def train_listwise(settings: ListwiseSettings, *, report_to: str = "none") -> Path:
    """Train the listwise model of a re-ranker, resumed where it was interrupted; return the folder with both.

    The re-ranker's readings of questions that it was trained on are better than those of others, so the sets should
    hold documents that it was not trained on (``skip``).
    """
    prepare_training(settings.threads)
    out = settings.resolve(settings.out)
    name = settings.reranker
    source = find_reranker(str(settings.resolve(name)) if (settings.folder / name).is_dir() else name)
    reranker = LandmarkReranker.load(str(source))
    sets = []
    for chosen in settings.sets:
        mined = mine_passages(settings, chosen)
        log.info("set %s: reading the passages of %d questions", chosen.path, len(mined))
        lists = (read_list(question, reranker) for question in mined)
        sets.append([labelled for labelled in lists if ANSWERS in labelled.labels])
    if not all(sets):
        raise TrainingError("a set has no question whose evidence is found")
    torch.manual_seed(settings.seed)
    mean, deviation = measure_features(sets)
    size, dropout = settings.size, settings.dropout
    model = ListwiseTrainee(
        mean, deviation, size=size, layers=settings.layers, members=settings.members, dropout=dropout
    )
    arguments = mining_arguments(settings, report_to)
    data = ListwiseData(settings, sets, mean, deviation, arguments.world_size)
    if train_steps("listwise model", model, data, model.parameters(), arguments):
        shutil.copytree(source, out / "reranker", dirs_exist_ok=True, ignore=shutil.ignore_patterns(WEIGHTS))
        model.save(out / "reranker")
    return out / "reranker"


def read_list(question: MinedQuestion, reranker: LandmarkReranker) -> LabelledList:
    """Let a re-ranker read a question's passages as a search does; a sentence of two passages counts in the first."""
    passages = question.passages[: SEARCH_WEIGHTS.reranked]
    readings = reranker.read(
        question.question, [RerankPassage(passage.title, passage.sentences) for passage in passages]
    )
    places: dict[int, tuple[int, int]] = {}  # a sentence's id: its passage, and which sentence of the passage it is
    for number, passage in enumerate(passages):
        for row in np.flatnonzero(passage.scored).tolist():
            places.setdefault(passage.first + row, (number, row))
    rows = [(passages[number], readings[number], number, row) for _, (number, row) in sorted(places.items())]
    read = ScoredSentences(
        sentences=np.array(sorted(places)),
        documents=np.array([passage.document for passage, _, _, _ in rows]),
        passages=np.array([number for _, _, number, _ in rows]),
        lengths=np.array([len(passage.sentences[row]) for passage, _, _, row in rows]),
        score=np.array([passage.scores[row] for passage, _, _, row in rows], np.float32),
        similarity=np.array([passage.similarities[row] for passage, _, _, row in rows], np.float32),
        rank=np.array([reading.rank[row] for _, reading, _, row in rows], np.float32),
        answers=np.array([reading.answers[row] for _, reading, _, row in rows], np.float32),
        strength=np.array([reading.strength[row] for _, reading, _, row in rows], np.float32),
    )
    return LabelledList(read, np.array([passage.labels[row] for passage, _, _, row in rows]))


if __name__ == "__main__":
    run_command(__doc__, load_settings, train_listwise)
