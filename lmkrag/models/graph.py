"""BERT as an ONNX graph, for ONNX Runtime: the architecture of Devlin et al., "BERT" (2019), with
the exact GELU.

A graph reads texts of one length: without padding there is no mask, and ONNX Runtime's attention
works in blocks that stay in the cache (Dao et al., "FlashAttention", arXiv 2205.14135). The graph
has no weights: the session gets them separately. Nodes are written in ONNX's own syntax.

Our models are shipped with their graphs. Only training, and models without a graph, need this
module and the package ``onnx``.
"""

from collections.abc import Mapping, Sequence

from onnx import ModelProto, TensorProto, helper, parser

from lmkrag.models.packing import ROW_SCALES, ROWS, WORDS
from lmkrag.models.quantization import SMOOTHED, has_outliers
from lmkrag.models.session import AFTER, BEFORE, Config
from lmkrag.types.arrays import Vectors, Weights

# The format is one that the oldest ONNX Runtime reads which lmkrag allows; the second domain is
# ONNX Runtime's own.
_HEADER = '<ir_version: 9, opset_import: ["": 18, "com.microsoft": 1]>'

_GATHER_WORDS = f"""stored = Gather("{WORDS}", ids)
        words = Cast <to = {TensorProto.FLOAT}> (stored)"""
_GATHER_ROWS = f"""stored = Gather("{ROWS}", ids)
        numbers = Cast <to = {TensorProto.FLOAT}> (stored)
        scales = Gather("{ROW_SCALES}", ids)
        words = Mul(numbers, scales)"""

BERT_INPUTS = (
    "int64[texts, length] ids, int64[texts, length] types"  # types: which half of a pair, 0 or 1
)


def build_bert(config: Config, weights: Weights, *, int8: bool) -> bytes:
    """Return the graph of a BERT, which computes :data:`AFTER` from tokens.

    Args:
        config: the model's ``config.json``.
        weights: fused weights, or quantized ones for int8.
        int8: whether matrices are multiplied in int8.

    Returns:
        A serialized ONNX model without weights.
    """
    return build_model(bert_nodes(config, weights, int8=int8), BERT_INPUTS, [AFTER], weights)


def build_model(nodes: str, inputs: str, outputs: Sequence[str], weights: Weights) -> bytes:
    """Return a model in ONNX's format. Its weights are named but left out; a session gets them
    separately.

    Args:
        nodes: the nodes in order, in ONNX's syntax.
        inputs: the inputs, in ONNX's syntax.
        outputs: names of the outputs.
        weights: the weights by their names, for their dtypes and shapes.
    """
    model = parse_nodes(nodes, inputs, outputs)
    for name, values in weights.items():
        kind = helper.np_dtype_to_tensor_dtype(values.dtype)
        tensor = TensorProto(
            name=name, dims=values.shape, data_type=kind, data_location=TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value="beside")
        model.graph.initializer.append(tensor)
    serialized: bytes = model.SerializeToString()
    return serialized


def parse_nodes(nodes: str, inputs: str, outputs: Sequence[str]) -> ModelProto:
    """Return a model without weights.

    Args:
        nodes: the nodes in order, in ONNX's syntax.
        inputs: the inputs, in ONNX's syntax.
        outputs: names of the outputs.
    """
    results = ", ".join(f'float[] "{name}"' for name in outputs)
    return parser.parse_model(f"{_HEADER} model ({inputs}) => ({results}) {{{nodes}}}")


def bert_nodes(config: Config, weights: Mapping[str, Vectors], *, int8: bool = False) -> str:
    """Return the nodes of a BERT, from :data:`BERT_INPUTS` to :data:`BEFORE` and :data:`AFTER`.

    Args:
        config: the model's ``config.json``.
        weights: the weights, whose names say how the embeddings of words are stored.
        int8: whether matrices are multiplied in int8.
    """
    name = "embeddings."
    return f"""{shape_nodes(config, "ids")}
        {_GATHER_ROWS if ROWS in weights else _GATHER_WORDS}
        beginning = Constant <value_ints = [0]> ()
        length = Shape <start = 1> (ids)
        places = Slice("{name}position_embeddings.weight", beginning, length)
        halves = Gather("{name}token_type_embeddings.weight", types)
        placed = Add(words, places)
        added = Add(placed, halves)
        embedded = Reshape(added, flat)
        {normalize(config, "embedded", f"{name}LayerNorm.", BEFORE)}
        {layer_nodes(config, int8=int8)}"""


def shape_nodes(config: Config, sized: str) -> str:
    """Return the nodes with shapes for :func:`layer_nodes`.

    Args:
        config: the model's ``config.json``.
        sized: name of an input ``[texts, length, ...]``.
    """
    size = config["hidden_size"]
    return f"""
        flat = Constant <value_ints = [-1, {size}]> ()
        parts = Constant <value_ints = [3, {size}]> ()
        texts = Shape <end = 2> ({sized})
        apart = Concat <axis = 0> (texts, parts)
        query = Constant <value_int = 0> ()
        key = Constant <value_int = 1> ()
        value = Constant <value_int = 2> ()"""


def layer_nodes(config: Config, *, int8: bool = False) -> str:
    """Return the nodes of BERT's layers, from :data:`BEFORE` to :data:`AFTER`: see
    :func:`bert_nodes`.
    """
    last = config["num_hidden_layers"]
    names = [BEFORE, *(f"{layer}.states" for layer in range(last - 1)), AFTER]
    return "".join(
        _layer(config, f"encoder.layer.{layer}.", names[layer], names[layer + 1], int8)
        for layer in range(last)
    )


def normalize(config: Config, states: str, name: str, out: str) -> str:
    """Return the node of a layer norm.

    Args:
        config: the model's ``config.json``, which has the epsilon.
        states: name of the input.
        name: the beginning of the names of its weights.
        out: name of the output.
    """
    options = f"axis = -1, epsilon = {config['layer_norm_eps']}"
    return f'"{out}" = LayerNormalization <{options}> ("{states}", "{name}weight", "{name}bias")'


def _layer(config: Config, name: str, states: str, out: str, int8: bool) -> str:
    """Return the nodes of one layer, from ``states`` to ``out``."""
    multiply = _multiply_int8 if int8 else _multiply
    attention, wide = f"{name}attention.self.", f"{name}intermediate.dense."

    def project(hidden: str, module: str, before: str, out: str) -> str:
        """Multiply, add to what was before, and normalise, in two operators: the fused one takes
        six times as long.
        """
        return f"""{multiply(hidden, f"{module}dense.", f"{module}projected", bias=True)}
        "{module}added" = Add("{module}projected", "{before}")
        {normalize(config, f"{module}added", f"{module}LayerNorm.", out)}"""

    # Three times Gather is faster than one Split.
    return f"""
        {multiply(states, attention, f"{attention}projected", bias=False)}
        "{attention}apart" = Reshape("{attention}projected", apart)
        "{attention}query" = Gather <axis = 2> ("{attention}apart", query)
        "{attention}key" = Gather <axis = 2> ("{attention}apart", key)
        "{attention}value" = Gather <axis = 2> ("{attention}apart", value)
        "{attention}read" = com.microsoft.MultiHeadAttention <num_heads = {config["num_attention_heads"]}> (
            "{attention}query", "{attention}key", "{attention}value", "{attention}bias")
        "{attention}out" = Reshape("{attention}read", flat)
        {project(f"{attention}out", f"{name}attention.output.", states, f"{name}attended")}
        {multiply(f"{name}attended", wide, f"{wide}projected", bias=False)}
        "{name}wide" = com.microsoft.BiasGelu("{wide}projected", "{wide}bias")
        {project(f"{name}wide", f"{name}output.", f"{name}attended", out)}"""  # noqa: E501


def _multiply(states: str, name: str, out: str, *, bias: bool) -> str:
    """Return the node of the product ``out`` of an input and the weights whose names begin with
    ``name``.
    """
    if bias:
        return f'"{out}" = Gemm("{states}", "{name}weight", "{name}bias")'
    return f'"{out}" = MatMul("{states}", "{name}weight")'


def _multiply_int8(states: str, name: str, out: str, *, bias: bool) -> str:
    """Return the nodes of the same product in int8: see
    :func:`lmkrag.models.quantization.quantize`.
    """
    smoothed, outliers = name.endswith(SMOOTHED), has_outliers(name)
    source, product = f"{name}given" if smoothed else states, f"{name}product" if outliers else out
    smooth = f'"{source}" = Mul("{states}", "{name}smooth")' if smoothed else ""
    exact = f"""
        "{name}outliers.given" = Gather <axis = 1> ("{source}", "{name}outliers")
        "{name}outliers.product" = MatMul("{name}outliers.given", "{name}outliers.weight")
        "{out}" = Add("{product}", "{name}outliers.product")"""
    return f"""{smooth}
        "{name}quantized" = QuantizeLinear("{source}", "{name}scale", "{name}zero_point")
        "{product}" = com.microsoft.MatMulIntegerToFloat("{name}quantized", "{name}int8", "{name}scale",
            "{name}scales", "{name}zero_point", "", "{f"{name}bias" if bias else ""}"){exact if outliers else ""}"""  # noqa: E501
