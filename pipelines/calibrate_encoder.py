"""Measure what an encoder needs to be run in int8, on texts like yours.

    pip install 'lmkrag[train]'
    python pipelines/calibrate_encoder.py FOLDER SET...

FOLDER is an encoder whose model is a BERT; ``lmkrag train`` does this by itself at its end. Each SET is a folder in the
data format, of which the beginnings of some documents are read. Writes ``ranges.npz`` into FOLDER: processors that
multiply int8 (VNNI) then index with it up to twice as fast.
"""  # noqa: E501

import argparse
from pathlib import Path

from lmkrag.training.calibration import calibrate_encoder, sample_texts


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", type=Path, nargs="+", metavar="SET")
    options = parser.parse_args()
    calibrate_encoder(options.folder, sample_texts(options.sets))


if __name__ == "__main__":
    main()
