"""Train the listwise model of a re-ranker: mine, let the re-ranker read, then one stage, resumed where it stopped."""

import logging
import shutil
from pathlib import Path

import numpy as np
import torch

from lmkrag.errors import TrainingError
from lmkrag.reranker.base import RerankPassage, ScoredSentences
from lmkrag.reranker.landmark import LandmarkReranker, find_reranker
from lmkrag.reranker.listwise import WEIGHTS
from lmkrag.search.weights import WEIGHTS as SEARCH_WEIGHTS
from lmkrag.training.listwise_steps import LabelledList, ListwiseData, measure_features
from lmkrag.training.mining import ANSWERS, MinedQuestion, mine_passages
from lmkrag.training.reranker_settings import ListwiseSettings
from lmkrag.training.settings import prepare_training

log = logging.getLogger(__name__)


def train_listwise(settings: ListwiseSettings, *, report_to: str = "none") -> Path:
    """Train what compares all that a re-ranker read; return the folder of the re-ranker with it.

    The re-ranker's readings of questions that it was trained on are better than those of others, so the sets should
    hold documents that it was not trained on (``skip``).

    Args:
        settings: the run.
        report_to: ``none``, ``tensorboard`` or ``wandb``.

    Raises:
        UsageError: the settings make no sense. TrainingError: the loss is not finite any more.
        MissingExtra: the ``train`` extra is not installed.
    """
    prepare_training(settings.threads)
    from lmkrag.training.listwise_model import ListwiseTrainee
    from lmkrag.training.step_trainer import mining_arguments, train_steps

    out = settings.resolve(settings.out)
    named = settings.reranker
    source = find_reranker(str(settings.resolve(named)) if (settings.folder / named).is_dir() else named)
    reranker = LandmarkReranker.load(str(source))
    sets = []
    for chosen in settings.sets:
        mined = mine_passages(settings, chosen)
        log.info("set %s: reading the passages of %d questions", chosen.path, len(mined))
        lists = (read_list(question, reranker) for question in mined)
        sets.append([one for one in lists if ANSWERS in one.labels])
    if not all(sets):
        raise TrainingError("a set has no question whose evidence is found")
    torch.manual_seed(settings.seed)
    mean, deviation = measure_features(sets)
    model = ListwiseTrainee(
        mean,
        deviation,
        size=settings.size,
        layers=settings.layers,
        members=settings.members,
        dropout=settings.dropout,
    )
    arguments = mining_arguments(settings, report_to)
    data = ListwiseData(settings, sets, mean, deviation, arguments.world_size)
    if train_steps("listwise model", model, data, model.parameters(), arguments):
        shutil.copytree(source, out / "reranker", dirs_exist_ok=True, ignore=shutil.ignore_patterns(WEIGHTS))
        model.save(out / "reranker")
    return out / "reranker"


def read_list(question: MinedQuestion, reranker: LandmarkReranker) -> LabelledList:
    """Let a re-ranker read the passages of a question that a search reads, in its order.

    A sentence of two passages is taken from the first; what the search did not score is left out, as in a search.
    """
    passages = question.passages[: SEARCH_WEIGHTS.reranked]
    readings = reranker.read(question.question, [RerankPassage(one.title, one.sentences) for one in passages])
    found: dict[int, tuple[int, int]] = {}  # a sentence's id: its passage, and which sentence of the passage it is
    for number, passage in enumerate(passages):
        for row in np.flatnonzero(passage.scored).tolist():
            found.setdefault(passage.first + row, (number, row))
    rows = [(passages[number], readings[number], number, row) for _, (number, row) in sorted(found.items())]
    read = ScoredSentences(
        sentences=np.array(sorted(found)),
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
