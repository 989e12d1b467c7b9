"""``python -m lmkrag``."""

from lmkrag.cli import main

main(prog_name="lmkrag")
