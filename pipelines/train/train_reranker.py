"""Train a re-ranker, such as the one that lmkrag ships, on passages that its own search returns.

    pip install 'lmkrag[train]'
    python pipelines/train/train_reranker.py pipelines/train/landmark-reranker.toml

Mines questions into the folder `mined` of the run, trains, and prints the folder of the re-ranker, which
`lmkrag search --rerank-model` takes. Run it again to go on after an interruption.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from mined_passages import MinedQuestion
from mined_training import mining_arguments, run_command, train_steps
from mining import mine_passages
from reranker_files import save_reranker, write_reranker_graphs
from reranker_model import RerankerModel, group_parameters
from reranker_settings import RerankerSettings, load_reranker_settings
from reranker_steps import RerankerData
from tokenizers import Tokenizer

from lmkrag.encoder.spec import find_model
from lmkrag.errors import TrainingError
from lmkrag.models.bert import bert_inputs
from lmkrag.models.quantization import write_ranges
from lmkrag.reranker.base import RerankPassage
from lmkrag.reranker.landmark import PairTokenizer, read_body
from lmkrag.training.calibration import RangeMeter
from lmkrag.training.settings import prepare_training, use_bfloat16

log = logging.getLogger(__name__)

_QUESTIONS = 8  # of each set, that ranges are measured on


def train_reranker(settings: RerankerSettings, *, report_to: str = "none") -> Path:
    """Train a re-ranker, resumed where it was interrupted; return its folder."""
    prepare_training(settings.threads)
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
    if train_steps("re-ranker", model, data, group_parameters(model, settings.learning_rate), arguments):
        save_reranker(model, settings, out / "reranker")
        log.info("measuring the ranges for int8")
        calibrate_reranker(out / "reranker", settings.base, settings.layers, tokens, mined)
    return out / "reranker"


def calibrate_reranker(
    folder: Path, base: str, layers: int, tokens: PairTokenizer, mined: Iterable[Sequence[MinedQuestion]]
) -> None:
    """Measure the ranges of a re-ranker, trained from ``base``, on ``mined`` questions; write them and its graphs."""
    config, fused = read_body(folder, find_model(base), layers)
    meter = RangeMeter(fused, config)
    for questions in mined:
        for question, passages in questions[:_QUESTIONS]:
            for passage in passages:
                pair = tokens.pair(question, RerankPassage(passage.title, passage.sentences))
                meter.read(bert_inputs(pair.ids[None], pair.types[None]))
    write_ranges(folder, meter.ranges)
    write_reranker_graphs(folder)


if __name__ == "__main__":
    run_command(__doc__, load_reranker_settings, train_reranker)
