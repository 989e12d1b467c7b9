"""The ``lmkrag`` command, and ``python -m lmkrag``."""

import atexit
import gc
import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command that the arguments of this process name."""
    from lmkrag.cli import main as run

    atexit.register(gc.freeze)  # else Python collects garbage once more, which takes 50 ms
    run(prog_name="lmkrag")


if __name__ == "__main__":
    # Python puts the working directory first: modules of a folder that is only to be indexed must
    # not be imported.
    here, package = os.path.realpath(os.curdir), str(Path(__file__).resolve().parents[1])
    if os.path.realpath(sys.path[0] or os.curdir) == here != package:
        del sys.path[0]
    main()
