"""BERT without a head (Devlin et al., 2019): in ONNX Runtime, and in NumPy for a process that asks
one question.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from safetensors import safe_open

from lmkrag.models.packing import CODES, ROW_SCALES, ROWS, WORDS, select_words, unpack_weights
from lmkrag.models.quantization import Ranges, check_ranges, quantize
from lmkrag.models.session import AFTER, Config, Session
from lmkrag.system.processes import computed_once
from lmkrag.types.arrays import Ids, Vectors, Weights

PROJECTIONS = ("query", "key", "value")
_RUN_TOKENS = 256  # of short texts that are read in one run, whose states then fit the cache
# tokens of a text that NumPy reads; longer ones are faster in ONNX Runtime, its start included
_LONGEST = 64
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_EMBEDDINGS = (
    *(f"embeddings.{part}_embeddings.weight" for part in ("word", "position", "token_type")),
    "embeddings.LayerNorm.weight",
    "embeddings.LayerNorm.bias",
)


class Bert:
    """A BERT that reads texts in ONNX Runtime.

    State: its sessions, one for each precision, made when they are needed. May be shared by
    threads.
    """

    def __init__(
        self,
        weights: Weights,
        config: Config,
        ranges: Ranges | None = None,
        folder: Path | None = None,
    ) -> None:
        """Take the parts of a model.

        Args:
            weights: tensors float32 by transformers' names, from :func:`read_weights`.
            config: the model's ``config.json``.
            ranges: the ranges of what is multiplied, with which inexact reads use int8; None for
                float32.
            folder: the model folder, which may have graphs. A graph that is not there is built,
                which takes the package ``onnx``.

        Raises:
            EncoderError: the ranges are not those of this model.
        """
        self._config, self._folder = config, folder
        self._fused = fuse_weights(weights, config["num_hidden_layers"])
        self._ranges = ranges
        if ranges is not None:
            check_ranges(ranges, self._fused, config["num_hidden_layers"])

    @property
    def precision(self) -> str:
        """The precision of inexact reads: ``int8`` or ``float32``."""
        return "float32" if self._ranges is None else "int8"

    def read(
        self, ids: Sequence[int] | Ids, lengths: Sequence[int], *, exact: bool = True
    ) -> Vectors:
        """Return the last states of texts, each read alone.

        Args:
            ids: ``[tokens]``, the token ids of all texts, end to end.
            lengths: the number of tokens of each text.
            exact: whether to compute in float32 even if the model has ranges for int8.

        Returns:
            ``[tokens, dimensions]`` float32.
        """
        tokens = np.asarray(ids, np.int64)
        groups = group_texts(lengths)
        states = np.empty((len(tokens), self._config["hidden_size"]), np.float32)
        for places, read in zip(
            groups, self._run([tokens[places] for places in groups], exact), strict=True
        ):
            states[places.ravel()] = read
        return states

    def _run(self, groups: Sequence[Ids], exact: bool) -> list[Vectors]:
        """Return the states ``[texts * length, dimensions]`` of each group of texts ``[texts,
        length]``.
        """
        session = self._exact if exact or self._ranges is None else self._fast
        return [
            states for (states,) in session.run_each([AFTER], [bert_inputs(ids) for ids in groups])
        ]

    @computed_once
    def _exact(self) -> Session:
        """The session in float32."""
        return self._start("float32", self._fused)

    @computed_once
    def _fast(self) -> Session:
        """The session in int8."""
        assert self._ranges is not None
        weights = quantize(self._fused, self._ranges, self._config["num_hidden_layers"])
        return self._start("int8", weights)

    def _start(self, precision: str, weights: Weights) -> Session:
        """Start a session of a precision, with the graph of the folder or one that is built."""
        if self._folder is not None and (graph := self._folder / f"{precision}.onnx").is_file():
            return Session(graph, weights)
        from lmkrag.models.graph import build_bert

        return Session(build_bert(self._config, weights, int8=precision == "int8"), weights)


def bert_inputs(ids: Ids, types: Ids | None = None) -> dict[str, Ids]:
    """Return the inputs of BERT's graph.

    Args:
        ids: ``[texts, length]`` int64, token ids.
        types: ``[texts, length]`` int64, which half of a pair each token is of, 0 or 1; all 0 by
            default.
    """
    return {"ids": ids, "types": np.zeros_like(ids) if types is None else types}


def group_texts(lengths: Sequence[int]) -> list[Ids]:
    """Divide texts into groups of one length that fit the cache, so that none is padded.

    Args:
        lengths: the number of tokens of each text, which lie end to end.

    Returns:
        For each group the positions of its tokens, ``[texts, length]`` int64.
    """
    sizes = np.asarray(lengths, np.int64)
    starts = np.cumsum(sizes) - sizes
    groups = []
    for length in np.unique(sizes[sizes > 0]):
        alike = starts[sizes == length]
        count = max(1, _RUN_TOKENS // length)
        groups += [
            alike[first : first + count, None] + np.arange(length)
            for first in range(0, len(alike), count)
        ]
    return groups


def is_plain_bert(config: Config) -> bool:
    """Return whether :class:`Bert` runs a model, by its ``config.json``: an encoder with exact GELU
    and absolute positions.
    """
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder")
    )


def read_weights(
    path: Path, *, only: str = "", rows: bool = False, words: Ids | None = None
) -> Weights:
    """Return the tensors of a model by transformers' names, unpacked.

    Args:
        path: a safetensors file. The names of a BERT with a head begin with ``bert.``, which is
            removed.
        only: the beginning of the names to read; empty for embeddings and all layers.
        rows: whether embeddings of words in 8 bits stay in 8 bits, for a graph.
        words: ``[n]`` int64, the words whose embeddings are read, in this order; None for all.

    Returns:
        Tensors float32; embeddings of words have the dtype that they are stored in.
    """
    with safe_open(path, "np") as file:
        names = file.keys()
        prefix = "bert." if f"bert.{WORDS}" in names else ""
        starts = tuple(prefix + part for part in ([only] if only else ["embeddings.", "encoder."]))
        read = file.get_tensor if words is None else file.get_slice
        tensors = {
            name.removeprefix(prefix): read(name) for name in names if name.startswith(starts)
        }
        if words is not None:
            tensors = select_words(tensors, words)
    packed = {name: tensors.pop(name) for name in (ROWS, ROW_SCALES) if rows and name in tensors}
    weights = unpack_weights(tensors)
    return packed | {
        name: value if name == WORDS else value.astype(np.float32, copy=False)
        for name, value in weights.items()
    }


def is_packed(folder: Path) -> bool:
    """Return whether the embeddings of words of a model folder are packed."""
    return not {CODES, ROWS}.isdisjoint(_tensor_names(folder))


def has_codewords(folder: Path) -> bool:
    """Return whether the embeddings of words of a model folder are packed as codewords."""
    return CODES in _tensor_names(folder)


def _tensor_names(folder: Path) -> set[str]:
    """Return the names of the tensors in a model folder; an empty set if it has no weights."""
    path = folder / "model.safetensors"
    if not path.is_file():
        return set()
    with safe_open(path, "np") as file:
        return set(file.keys())


def expected_names(config: Config) -> set[str]:
    """Return the names of the tensors that a model must have, by its ``config.json``."""
    parts = [
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
    ]
    parts += [
        "attention.output.LayerNorm",
        "intermediate.dense",
        "output.dense",
        "output.LayerNorm",
    ]
    modules = [
        f"encoder.layer.{layer}.{part}"
        for layer in range(config["num_hidden_layers"])
        for part in parts
    ]
    return {
        *_EMBEDDINGS,
        *(f"{module}.{kind}" for module in modules for kind in ("weight", "bias")),
    }


def fuse_weights(weights: Weights, layers: int) -> Weights:
    """Return the weights as the graph needs them: matrices transposed, the projections of attention
    in one.

    Args:
        weights: tensors by transformers' names.
        layers: number of layers.
    """
    embeddings = {
        name: weights[name] for name in (*_EMBEDDINGS, ROWS, ROW_SCALES) if name in weights
    }
    return embeddings | fuse_layers(weights, layers)


def fuse_layers(weights: Weights, layers: int) -> Weights:
    """Return the weights of the layers as :func:`fuse_weights` does, without embeddings."""
    fused = {}
    for layer in range(layers):
        module = f"encoder.layer.{layer}.attention.self."
        for kind in ("weight", "bias"):
            parts = [weights[f"{module}{part}.{kind}"] for part in PROJECTIONS]
            fused[module + kind] = np.ascontiguousarray(np.concatenate(parts).T)
        for part in ("attention.output", "intermediate", "output"):
            name = f"encoder.layer.{layer}.{part}.dense."
            fused[f"{name}weight"] = np.ascontiguousarray(weights[f"{name}weight"].T)
            fused[f"{name}bias"] = weights[f"{name}bias"]
        for part in ("attention.output", "output"):
            name = f"encoder.layer.{layer}.{part}.LayerNorm."
            fused |= {name + kind: weights[name + kind] for kind in ("weight", "bias")}
    return fused


class LateBert:
    """A :class:`Bert` that is made when it is needed.

    NumPy reads the first text if it is short and must be exact, which takes less time than starting
    ONNX Runtime. State: whether a text was read, and the model.
    """

    def __init__(self, weights: Path, config: Config, make: Callable[[], Bert]) -> None:
        """Take what is needed to read a text in NumPy, and to make the model.

        Args:
            weights: the safetensors file.
            config: the model's ``config.json``.
            make: makes the model.
        """
        self._weights, self._config, self._make, self._is_first = weights, config, make, True

    @computed_once
    def _bert(self) -> Bert:
        """The model, made on first use."""
        return self._make()

    @property
    def precision(self) -> str:
        """The precision of inexact reads: ``int8`` or ``float32``."""
        return self._bert.precision

    def read(
        self, ids: Sequence[int] | Ids, lengths: Sequence[int], *, exact: bool = True
    ) -> Vectors:
        """Return the last states of texts, each read alone: see :meth:`Bert.read`."""
        if self._is_first and exact and len(lengths) == 1 and len(ids) <= _LONGEST:
            self._is_first = False
            return read_text(self._weights, self._config, np.asarray(ids, np.int64))
        return self._bert.read(ids, lengths, exact=exact)


def read_text(path: Path, config: Config, ids: Ids) -> Vectors:
    """Return the last states of one text, computed in NumPy.

    Weights are read layer by layer, and embeddings only of the words of the text.

    Args:
        path: the safetensors file.
        config: the model's ``config.json``.
        ids: ``[tokens]`` int64.

    Returns:
        ``[tokens, dimensions]`` float32.
    """
    weights = read_weights(path, only="embeddings.", words=ids)

    def normalize(states: Vectors, name: str) -> Vectors:
        centred = states - states.mean(1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(1, keepdims=True) + config["layer_norm_eps"])
        normal: Vectors = (
            centred / deviation * weights[f"{name}.LayerNorm.weight"]
            + weights[f"{name}.LayerNorm.bias"]
        )
        return normal

    words = weights[WORDS].astype(np.float32)
    places, halves = (
        weights[f"embeddings.{part}_embeddings.weight"] for part in ("position", "token_type")
    )
    states = normalize(words + places[: len(ids)] + halves[0], "embeddings")
    for layer in range(config["num_hidden_layers"]):
        module = f"encoder.layer.{layer}."
        weights = read_weights(path, only=module)

        def project(states: Vectors, name: str, weights: Weights = weights) -> Vectors:
            return states @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

        # Attention: queries, keys and values of each head, ``[heads, tokens, size]``.
        parts = [project(states, f"{module}attention.self.{part}") for part in PROJECTIONS]
        heads = [
            part.reshape(len(ids), config["num_attention_heads"], -1).swapaxes(0, 1)
            for part in parts
        ]
        scores = heads[0] @ heads[1].swapaxes(1, 2) / np.float32(heads[0].shape[2] ** 0.5)
        shares = np.exp(scores - scores.max(2, keepdims=True))
        read = (
            (shares / shares.sum(2, keepdims=True) @ heads[2]).swapaxes(0, 1).reshape(states.shape)
        )
        states = normalize(
            states + project(read, f"{module}attention.output.dense"), f"{module}attention.output"
        )
        # The feed-forward layer.
        wide = _gelu(project(states, f"{module}intermediate.dense"))
        states = normalize(states + project(wide, f"{module}output.dense"), f"{module}output")
    return states


def _gelu(values: Vectors) -> Vectors:
    """Return the exact GELU, its error function within 2e-7 (Abramowitz and Stegun, 7.1.26)."""
    size = np.abs(values) * np.float32(0.5**0.5)
    part = 1 / (1 + np.float32(0.3275911) * size)
    erf = 1 - np.polyval([*_ERF, 0], part) * np.exp(-(size**2))
    result: Vectors = (0.5 * values * (1 + np.copysign(erf, values))).astype(np.float32)
    return result
