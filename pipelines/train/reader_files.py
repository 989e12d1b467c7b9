"""Write the folder of a reader that was trained, ready to run in int8.

    cat runs/written/part-* > WEIGHTS
    python -m pipelines.train.reader_files RECIPE.toml WEIGHTS OUT PACK.npz [--share 0.5]

What the training began with, the recipe's start if no option names another, gives the embeddings
and all weights that did not change, as they are stored there. Layers are written in 4 bits, the
last four in 8 (:mod:`lmkrag.models.packing`). With `--share S` each weight is S of the one after
training and the rest of the one before, which keeps more of what was known (Wortsman et al.,
"Robust fine-tuning of zero-shot models", arXiv 2109.01903). The ranges for int8 are measured on
passages of PACK. With `--answers` OUT is a reader whose lower layers are those that the training
began with. Only the last layers of what was trained are written, into OUT/answers: they judge then,
and OUT goes on to order.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from lmkrag.encoder.spec import find_model
from lmkrag.models.bert import bert_inputs, fuse_layers, read_weights
from lmkrag.models.files import make_readable, write_json
from lmkrag.models.graph import (
    BERT_INPUTS,
    bert_nodes,
    build_model,
    layer_nodes,
    shape_nodes,
)
from lmkrag.models.packing import SCALES, WORDS, pack_matrices, unpacked_names
from lmkrag.models.quantization import quantize, read_ranges, write_ranges
from lmkrag.models.session import AFTER, BEFORE
from lmkrag.reranker import passages
from lmkrag.reranker.folders import ANSWERS, FORMAT, read_body, read_settings
from lmkrag.training.calibration import RangeMeter
from lmkrag.types.arrays import Vectors, Weights
from pipelines.train.four_bits import pack_blocks
from pipelines.train.passages import Passages
from pipelines.train.reader import find_layer, keep_layers, read_start
from pipelines.train.settings import Training, find_start, load_settings

EXACT_LAYERS = 4  # the last, in 8 bits: in 4 the ends of answers are lost
STEPS = 20  # that ranges are measured on
HEAD_NODES = f"""
    first = Constant <value_ints = [0]> ()
    second = Constant <value_ints = [1]> ()
    state = Slice({AFTER}, first, second)
    pooled = Gemm <transB = 1> (state, "pooler.dense.weight", "pooler.dense.bias")
    bent = Tanh(pooled)
    {passages.PASSAGE_LOGITS} = Gemm <transB = 1> (bent, "passage.weight", "passage.bias")
    {passages.TOKEN_LOGITS} = Gemm <transB = 1> ({AFTER}, "token.weight", "token.bias")"""
"""The nodes that compute :data:`lmkrag.reranker.passages.OUTPUTS`."""


def write_reader(
    trained: Mapping[str, Vectors], start: Path, base: str, out: Path, pack: Path, *, share: float
) -> None:
    """Write the folder of a reader; ``share`` of each weight is the trained one, the rest what the
    training began with.
    """
    weights = {name: values.astype(np.float32) for name, values in trained.items()}
    if share < 1:
        known = read_start(str(start))
        means = {
            name: share * values + (1 - share) * known[name].numpy()
            for name, values in weights.items()
        }
        weights = {name: each.astype(np.float16).astype(np.float32) for name, each in means.items()}
    weights = {name.removeprefix("bert."): values for name, values in weights.items()}
    layers = 1 + max(map(find_layer, weights))
    stored, weights = keep_unchanged(start / "model.safetensors", weights)
    if start == find_model(base):  # the words are there
        stored = {name: values for name, values in stored.items() if not name.startswith(WORDS)}
    upper = {name for name in weights if find_layer(name) >= layers - EXACT_LAYERS}
    stored |= pack_matrices({name: weights[name] for name in upper})
    stored |= pack_blocks({name: weights[name] for name in weights.keys() - upper})
    out.mkdir(parents=True, exist_ok=True)
    save_file(stored, out / "model.safetensors", {"format": "pt"})
    write_json(out / "reranker.json", {"format": FORMAT, "base": base, "layers": layers})
    config, fused = read_body(out, find_model(base), layers)
    write_ranges(out, measure_ranges(RangeMeter(fused, config), pack))
    write_graphs(out)
    make_readable(out)


def write_answers(whole: Path, out: Path) -> None:
    """Write the last layers of a reader's folder as those of another reader that judge."""
    settings, folder = read_settings(out), out / ANSWERS
    last = range(settings["layers"])[-EXACT_LAYERS:]
    stored = keep_layers(load_file(whole / "model.safetensors"), last)
    above = {name: stored[name] for name in stored if not name.startswith("embeddings.")}
    folder.mkdir(exist_ok=True)
    save_file(above, folder / "model.safetensors")
    write_ranges(folder, keep_layers(read_ranges(whole) or {}, last))
    write_json(out / "reranker.json", settings | {"answer_layers": EXACT_LAYERS})
    write_graphs(out)
    shutil.copymode(out / "model.safetensors", folder / "model.safetensors")


def keep_unchanged(
    path: Path, weights: dict[str, Vectors]
) -> tuple[dict[str, Any], dict[str, Vectors]]:
    """Return the tensors of a file that stay as they are stored, and the weights that changed."""
    known = read_weights(path)
    same = {
        name
        for name, values in weights.items()
        if np.array_equal(values, known.get(name, np.zeros(0)).astype(np.float16))
    }
    stored = {
        name: tensor
        for name, tensor in load_file(path).items()
        if name.startswith("embeddings.") or unpacked_names([name.removesuffix(SCALES)]) & same
    }
    return stored, {name: values for name, values in weights.items() if name not in same}


def measure_ranges(meter: RangeMeter, pack: Path) -> dict[str, Vectors]:
    """Return the ranges of what a reader multiplies, on some packed passages."""
    data = Passages(pack, Training(questions=4, passages=4))
    for number in range(STEPS):
        step = data.step(number)
        for ids, types, mask in zip(step.ids, step.types, step.mask, strict=True):
            meter.read(bert_inputs(ids[mask][None].numpy(), types[mask][None].numpy()))
    return meter.ranges


def write_graphs(folder: Path) -> None:
    """Write the graphs of a reader's folder: in float32, and where it has ranges in int8."""
    settings = read_settings(folder)
    layers, count = int(settings["layers"]), int(settings.get("answer_layers", 0))
    config, body = read_body(folder, find_model(settings["base"]), layers)
    states = passages.STATES
    kept = f'{states} = Identity("{layers - count - 1}.states")' if count else ""

    def read(weights: Weights, *, int8: bool) -> str:
        return bert_nodes(config, weights, int8=int8) + kept

    def judge(_: Weights, *, int8: bool) -> str:
        upper = {**config, "num_hidden_layers": count}
        before = f"{BEFORE} = Reshape({states}, flat)"
        return shape_nodes(upper, states) + before + layer_nodes(upper, int8=int8)

    outputs = [*passages.OUTPUTS, *([states] if count else [])]
    write_precisions(folder, body, layers, read, BERT_INPUTS, outputs)
    if count:
        judging, inputs = folder / ANSWERS, f"float[texts, length, dimensions] {states}"
        body = fuse_layers(read_weights(judging / "model.safetensors", only="encoder."), count)
        write_precisions(judging, body, count, judge, inputs, passages.OUTPUTS)


def write_precisions(
    folder: Path,
    body: Weights,
    layers: int,
    write_nodes: Callable[..., str],
    inputs: str,
    outputs: Sequence[str],
) -> None:
    """Write a graph of some layers and the heads above them for each precision."""
    heads, ranges = passages.read_heads(folder), read_ranges(folder)
    bodies = {"float32": body}
    if ranges is not None:
        bodies["int8"] = quantize(body, ranges, layers)
    for precision, weights in bodies.items():
        nodes = write_nodes(weights, int8=precision == "int8") + HEAD_NODES
        graph = build_model(nodes, inputs, outputs, weights | heads)
        (folder / f"{precision}.onnx").write_bytes(graph)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("trained", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--start", help="instead of the recipe's")
    parser.add_argument("--answers", action="store_true", help="only the last layers, into OUT")
    parser.add_argument("--share", type=float, default=1.0, help="of what was trained, to 1")
    options = parser.parse_args()
    settings = load_settings(options.recipe)
    start = find_start(options.start or settings.start)
    trained = load_file(options.trained)
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) if options.answers else options.out
        write_reader(trained, start, settings.base, whole, options.pack, share=options.share)
        if options.answers:
            write_answers(whole, options.out)


if __name__ == "__main__":
    main()
