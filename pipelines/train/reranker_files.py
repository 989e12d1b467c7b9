"""Write the files of a re-ranker: its weights, and the graphs that run where ``onnx`` is not installed."""

import json
from collections.abc import Sequence
from pathlib import Path

from reranker_model import RerankerModel
from reranker_settings import RerankerSettings
from safetensors.numpy import load_file
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file
from torch import Tensor, isfinite

from lmkrag.arrays import Vectors
from lmkrag.encoder.spec import find_model
from lmkrag.errors import EncoderError
from lmkrag.models.bert import has_codewords
from lmkrag.models.files import make_readable, write_json
from lmkrag.models.graph import BERT_INPUTS, bert_nodes, build_model
from lmkrag.models.packing import pack_matrices
from lmkrag.models.quantization import RANGES, quantize, read_ranges
from lmkrag.models.session import AFTER, BEFORE
from lmkrag.reranker.landmark import ANSWER_BOUNDS, FORMAT, OUTPUTS, TOKEN_SIMILARITY, WEIGHTS, read_body, read_head
from lmkrag.reranker.listwise import LOGITS

# members: the share of each token in its sentence's mean. question: where it ends; it begins at 1.
_RERANKER_INPUTS = f"{BERT_INPUTS}, float[sentences, length] members, int64[one] question"
_CONTRAST = 4.0  # times the product of a sentence's mean and the question's


def save_half(
    weights: dict[str, Tensor], path: Path, *, exact: dict[str, Tensor] | None = None, config: str | None = None
) -> None:
    """Write weights in float16, ``exact`` ones as they are, with ``config``, or raise EncoderError: not finite."""
    if not all(bool(isfinite(value).all()) for value in weights.values()):
        raise EncoderError(f"{path.parent}: weights that are not finite are not saved")
    stored = {name: value.detach().cpu().half().contiguous() for name, value in weights.items()}
    save_file(stored | (exact or {}), path, metadata=None if config is None else {"config": config})


def pack_layers(path: Path) -> None:
    """Write a file of weights anew, the matrices of its layers in 8 bits (:mod:`lmkrag.models.packing`)."""
    save_arrays(pack_matrices(load_file(path)), path, {"format": "pt"})


def save_reranker(model: RerankerModel, settings: RerankerSettings, folder: Path, *, packed: bool = False) -> None:
    """Write the folder of a re-ranker, float16 without the words' embeddings, or raise EncoderError: not finite.

    The matrices of its layers are in 8 bits with ``packed``, and always if the words of its base are codewords.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save_half(model.trained_weights(), folder / "model.safetensors")
    if packed or has_codewords(find_model(settings.base)):
        pack_layers(folder / "model.safetensors")
    described = {
        "format": FORMAT,
        "base": settings.base,
        "layers": settings.layers,
        "landmark": model.landmark,
        "weight": settings.weight,
        "passage_tokens": settings.passage_tokens,
    }
    write_json(folder / "reranker.json", described)
    make_readable(folder)
    (folder / RANGES).unlink(missing_ok=True)  # of earlier weights
    write_reranker_graphs(folder)


def write_reranker_graphs(folder: Path) -> None:
    """Write the graph of a re-ranker folder, and where it has ranges that for int8."""
    write_graphs(folder, read_head(folder)[0], _head_nodes(), _RERANKER_INPUTS, OUTPUTS)


def write_graphs(folder: Path, head: dict[str, Vectors], nodes: str, inputs: str, outputs: Sequence[str]) -> None:
    """Write the graphs of a re-ranker, whose ``nodes`` with the weights of its ``head`` follow those of its BERT."""
    settings = json.loads((folder / "reranker.json").read_text("utf-8"))
    layers = int(settings["layers"])
    config, weights = read_body(folder, find_model(settings["base"]), layers)
    ranges = read_ranges(folder)
    bodies = {"float32": weights} if ranges is None else {"float32": weights, "int8": quantize(weights, ranges, layers)}
    for precision, body in bodies.items():
        body_nodes = bert_nodes(config, body, int8=precision == "int8")
        (folder / f"{precision}.onnx").write_bytes(build_model(body_nodes + nodes, inputs, outputs, body | head))


def _head_nodes() -> str:
    """What computes :data:`OUTPUTS` of one text. Linear layers are named ``head.*``, as ``[in, out]``."""
    return f"""
        zero = Constant <value_ints = [0]> ()
        one = Constant <value_ints = [1]> ()
        contrast = Constant <value_float = {_CONTRAST}> ()
        {_compare(AFTER)}
        {_compare(BEFORE)}
        asked = Slice({AFTER}, one, question)
        {_linear("weigh", "asked", "weighed")}
        weighed_flat = Squeeze(weighed, one)
        {WEIGHTS} = Softmax(weighed_flat)
        {_linear("ends", AFTER, ANSWER_BOUNDS)}
        means = MatMul(members, {AFTER})
        whole = ReduceMean <keepdims = 1> (asked, zero)
        scaled = Mul(whole, contrast)
        products = Mul(means, scaled)
        features = Concat <axis = -1> (means, products)
        {_linear("dense", "features", "dense")}
        hidden = com.microsoft.Gelu(dense)
        {_linear("out", "hidden", LOGITS)}"""


def _compare(states: str) -> str:
    """Cosines of the question's tokens and all tokens of the text."""
    return f"""
        "{states}.unit" = LpNormalization <axis = -1, p = 2> ({states})
        "{states}.asked" = Slice("{states}.unit", one, question)
        "{states}.turned" = Transpose <perm = [1, 0]> ("{states}.unit")
        "{TOKEN_SIMILARITY[states]}" = MatMul("{states}.asked", "{states}.turned")"""


def _linear(module: str, states: str, out: str) -> str:
    return f"""{out}_projected = MatMul({states}, "head.{module}.weight")
        {out} = Add({out}_projected, "head.{module}.bias")"""
