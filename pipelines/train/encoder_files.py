"""Write the folder of an encoder that `train_landmarks.py` trained, packed as its start is.

    cat runs/mini/part-* > runs/mini.safetensors
    python -m pipelines.train.encoder_files START runs/mini.safetensors OUT SET...
    python -m pipelines.train.encoder_files FOLDER --words

The embeddings of words stay those of START. Each SET is a folder in the data format, on which the
ranges for int8 are measured. A decoder that was trained with `--rank` is written whole, in float16,
and has no ranges: it takes no SET. `--words` writes the embeddings of words of a folder in 8 bits,
one scale for each: 11.7 MB less, and vectors hardly change.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from lmkrag.encoder.spec import read_settings
from lmkrag.models.packing import WORDS, pack_matrices, pack_rows, unpacked_names
from lmkrag.models.quantization import read_ranges, write_ranges
from lmkrag.training.calibration import calibrate_encoder, sample_texts, write_encoder_graphs
from lmkrag.training.student import record_weights
from pipelines.train.low_rank import LANDMARK, merge_adapter


def write_encoder(start: Path, weights: Path, out: Path, sets: list[Path]) -> None:
    """Write the folder of an encoder."""
    shutil.copytree(start, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("base-*"))
    stored, trained = load_file(start / "model.safetensors"), load_file(weights)
    if LANDMARK in trained:
        tokenizer = Tokenizer.from_file(str(start / "tokenizer.json"))
        landmark = tokenizer.get_vocab()[read_settings(start)["landmark"]]
        merged = merge_adapter(stored, trained, landmark)
        stored, trained = {name: each.astype(np.float16) for name, each in merged.items()}, {}
    for name, values in trained.items():
        if name in stored:
            stored[name] = values.astype(np.float16)
        elif name in unpacked_names(stored):
            stored |= pack_matrices({name: values.astype(np.float32)})
    save_file(stored, out / "model.safetensors", {"format": "pt"})
    record_weights(out)
    if sets:
        calibrate_encoder(out, sample_texts(sets))


def pack_words(folder: Path) -> None:
    """Write the embeddings of words of a folder in 8 bits."""
    ranges, weights = read_ranges(folder), load_file(folder / "model.safetensors")
    packed = pack_rows(WORDS, weights.pop(WORDS))
    save_file(weights | packed, folder / "model.safetensors", {"format": "pt"})
    record_weights(folder)
    if ranges is not None:
        write_ranges(folder, ranges)
    write_encoder_graphs(folder)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("start", type=Path)
    parser.add_argument("weights", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("sets", type=Path, nargs="*", metavar="SET")
    parser.add_argument("--words", action="store_true")
    options = parser.parse_args()
    if options.words:
        pack_words(options.start)
    else:
        write_encoder(options.start, options.weights, options.out, options.sets)


if __name__ == "__main__":
    main()
