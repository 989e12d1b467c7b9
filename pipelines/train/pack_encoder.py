"""Write the folder of an encoder that `train_landmarks.py` trained from another, packed as that one is.

    cat runs/mini/part-* > runs/mini/model.safetensors
    python pipelines/train/pack_encoder.py START runs/mini/model.safetensors OUT SET...

The embeddings of words stay those of START. Each SET is a folder in the data format, on which the ranges for int8 are
measured. A decoder that was trained with `--rank` is written whole, in float16, and has no ranges: it takes no SET.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
from low_rank import LANDMARK, merge_adapter
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from lmkrag.encoder.spec import read_settings
from lmkrag.models.files import hash_weights, make_readable, write_json
from lmkrag.models.packing import pack_matrices, unpacked_names
from lmkrag.training.calibration import calibrate_encoder, sample_texts


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("sets", type=Path, nargs="*", metavar="SET")
    options = parser.parse_args()
    shutil.copytree(options.start, options.out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("base-*"))
    stored, trained = load_file(options.start / "model.safetensors"), load_file(options.weights)
    if LANDMARK in trained:
        tokenizer = Tokenizer.from_file(str(options.start / "tokenizer.json"))
        landmark = tokenizer.get_vocab()[read_settings(options.start)["landmark"]]
        stored, trained = merge_adapter(stored, trained, landmark), {}
        stored = {name: values.astype(np.float16) for name, values in stored.items()}
    for name, values in trained.items():
        if name in stored:
            stored[name] = values.astype(np.float16)
        elif name in unpacked_names(stored):
            stored |= pack_matrices({name: values.astype(np.float32)})
    save_file(stored, options.out / "model.safetensors", {"format": "pt"})
    write_json(options.out / "landmark.json", {**read_settings(options.out), "weights": hash_weights(options.out)})
    if options.sets:
        calibrate_encoder(options.out, sample_texts(options.sets))
    make_readable(options.out)


if __name__ == "__main__":
    main()
