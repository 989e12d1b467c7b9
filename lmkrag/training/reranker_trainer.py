"""Train a re-ranker, or its listwise model: mine passages, then one stage, resumed where it was interrupted."""

import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from lmkrag.encoder.spec import find_model
from lmkrag.errors import TrainingError
from lmkrag.reranker.base import RerankPassage, ScoredSentences
from lmkrag.reranker.inputs import PairTokenizer
from lmkrag.reranker.landmark import LandmarkReranker, find_reranker
from lmkrag.reranker.listwise import WEIGHTS
from lmkrag.search.weights import WEIGHTS as SEARCH_WEIGHTS
from lmkrag.training.calibration import calibrate_reranker
from lmkrag.training.listwise_model import LabelledList, ListwiseData, measure_features
from lmkrag.training.mining import ANSWERS, MinedQuestion, mine_passages
from lmkrag.training.passage_reader import RerankerModel, save_reranker
from lmkrag.training.reranker_settings import ListwiseSettings, RerankerSettings
from lmkrag.training.reranker_steps import RerankerData
from lmkrag.training.settings import prepare_training, use_bfloat16

log = logging.getLogger(__name__)

_HEAD_RATE, _SCALE_RATE = 8, 60  # times the learning rate: the head is new, and its scales are single numbers


def train_reranker(settings: RerankerSettings, *, report_to: str = "none") -> Path:
    """Train a re-ranker, resumed where it was interrupted; return its folder: see :mod:`lmkrag.training.trainer`."""
    prepare_training(settings.threads)
    from lmkrag.training.step_trainer import mining_arguments, train_steps

    out = settings.resolve(settings.out)
    mined = [mine_passages(settings, chosen) for chosen in settings.sets]
    for chosen, questions in zip(settings.sets, mined, strict=True):
        log.info("set %s: %d questions", chosen.path, len(questions))
    _begin(settings, mined)
    model = RerankerModel(settings)
    tokenizer = Tokenizer.from_file(str(find_model(settings.base) / "tokenizer.json"))
    arguments = mining_arguments(settings, report_to, bf16=use_bfloat16(settings.precision))
    tokens = PairTokenizer(tokenizer, model.landmark, settings.passage_tokens)
    data = RerankerData(settings, mined, tokens, arguments.world_size)
    if train_steps("re-ranker", model, data, _groups(model, settings.learning_rate), arguments):
        save_reranker(model, settings, out / "reranker")
        log.info("measuring the ranges for int8")
        calibrate_reranker(out / "reranker", settings.base, settings.layers, tokens, mined)
    return out / "reranker"


def _begin(settings: RerankerSettings | ListwiseSettings, sets: list[list[Any]]) -> None:
    if not all(sets):
        raise TrainingError("a set has no question whose evidence is found")
    torch.manual_seed(settings.seed)


def _groups(model: RerankerModel, rate: float) -> list[dict[str, Any]]:
    """The parameters, each with its learning rate."""
    scales = [model.head.scale, model.head.match.weight]
    single = {id(parameter) for parameter in scales}
    head = [parameter for parameter in model.head.parameters() if id(parameter) not in single]
    body = [parameter for parameter in model.bert.parameters() if parameter.requires_grad]
    return [
        {"params": body, "lr": rate},
        {"params": head, "lr": rate * _HEAD_RATE},
        {"params": scales, "lr": rate * _SCALE_RATE},
    ]


def train_listwise(settings: ListwiseSettings, *, report_to: str = "none") -> Path:
    """Train what compares all that a re-ranker read, as :func:`train_reranker`; return the folder with both.

    The re-ranker's readings of questions that it was trained on are better than those of others, so the sets should
    hold documents that it was not trained on (``skip``).
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
        sets.append([labelled for labelled in lists if ANSWERS in labelled.labels])
    _begin(settings, sets)
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
    """Let a re-ranker read a question's passages as a search does; a sentence of two is taken from the first."""
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
