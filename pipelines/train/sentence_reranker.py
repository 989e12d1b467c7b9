"""Make a re-ranker of what `train_sentences.py` trained, with the ranges for int8 and its graphs.

    cat parts/part-* > trained/model.safetensors
    python pipelines/train/sentence_reranker.py trained OUT --start landmark-reranker --mined MINED

START is the re-ranker from which the training began, MINED the folder that `train_reranker.py` leaves, on which ranges
are measured. OUT is a folder that `lmkrag search --rerank-model` takes; it has no listwise model, which
`train_listwise.py` trains for it.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from mined_passages import read_mined
from reranker_files import save_reranker
from reranker_model import RerankerModel
from reranker_settings import describe_settings
from tokenizers import Tokenizer
from train_reranker import calibrate_reranker

from lmkrag.encoder.spec import find_model
from lmkrag.reranker.landmark import PairTokenizer, find_reranker


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", required=True)
    parser.add_argument("--mined", type=Path, required=True)
    options = parser.parse_args()
    settings = replace(describe_settings(find_reranker(options.start)), start=str(options.trained))
    model = RerankerModel(settings)
    save_reranker(model, settings, options.out, packed=True)
    tokenizer = Tokenizer.from_file(str(find_model(settings.base) / "tokenizer.json"))
    tokens = PairTokenizer(tokenizer, model.landmark, settings.passage_tokens)
    mined = map(read_mined, sorted(options.mined.glob("*.jsonl.gz")))
    calibrate_reranker(options.out, settings.base, settings.layers, tokens, mined)


if __name__ == "__main__":
    main()
