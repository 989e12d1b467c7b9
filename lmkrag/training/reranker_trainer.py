"""Train a re-ranker: mine passages, then one stage, resumed where it was interrupted."""

import logging
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from lmkrag.encoder.spec import find_model
from lmkrag.errors import TrainingError
from lmkrag.reranker.inputs import PairTokenizer
from lmkrag.training.calibration import calibrate_reranker
from lmkrag.training.mining import mine_passages
from lmkrag.training.passage_reader import RerankerModel, save_reranker
from lmkrag.training.reranker_settings import RerankerSettings
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
    if not all(mined):
        raise TrainingError("a set has no question whose evidence is found")
    torch.manual_seed(settings.seed)
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
