"""Write an encoder's embeddings of words in 8 bits, one scale for each: 11.7 MB less, and vectors hardly change.

python pipelines/train/pack_words.py lmkrag/encoder/weights/landmark-mini
"""

import sys
from pathlib import Path

from safetensors.numpy import load_file, save_file

from lmkrag.encoder.spec import read_settings
from lmkrag.models.files import hash_weights, make_readable, write_json
from lmkrag.models.packing import WORDS, pack_rows
from lmkrag.models.quantization import read_ranges, write_ranges
from lmkrag.training.calibration import write_encoder_graphs


def main(folder: Path) -> None:
    """Run."""
    ranges, weights = read_ranges(folder), load_file(folder / "model.safetensors")
    packed = pack_rows(WORDS, weights.pop(WORDS))
    save_file(weights | packed, folder / "model.safetensors", {"format": "pt"})
    write_json(folder / "landmark.json", {**read_settings(folder), "weights": hash_weights(folder)})
    if ranges is not None:
        write_ranges(folder, ranges)
    write_encoder_graphs(folder)
    make_readable(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
