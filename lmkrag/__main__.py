"""``python -m lmkrag``."""

import os
import sys
from pathlib import Path

# Python puts the working directory first: modules of a folder that is only to be indexed must not be imported.
if (
    os.path.realpath(sys.path[0] or os.curdir)
    == os.path.realpath(os.curdir)
    != str(Path(__file__).resolve().parents[1])
):
    del sys.path[0]

from lmkrag.cli import main

main(prog_name="lmkrag")
