"""Train a landmark encoder in miniature: the three stages of ``train/landmark-mini.toml`` in two minutes.

    pip install 'lmkrag[train]'
    python pipelines/train_encoder.py SET --out build/tiny --steps 20

SET is a folder in the data format (``generate_questions.py`` makes one of your documents). Prints the folder of the
encoder, which ``lmkrag index --encoder build/tiny/encoder`` takes. The full recipe is ``train/landmark-mini.toml``.
"""  # noqa: E501

import argparse
import json
import subprocess
import sys
from pathlib import Path

CONFIGURATION = """
out = {out}
data = {data}
keep_base = 0.2

[model]
window = 126

[[stages]]
name = "distant"
steps = {steps}
tokens = 1024
windows = [126]
sets = [{{ path = {set}, task = "pairs" }}]

[[stages]]
name = "weak"
steps = {steps}
tokens = 1024
windows = [126]
sets = [{{ path = {set}, task = "shuffled" }}]

[[stages]]
name = "documents"
steps = {steps}
tokens = 1024
windows = [126]
sets = [{{ path = {set}, task = "documents", documents = 2 }}]
"""


def main() -> None:
    """Write the configuration and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    folder = options.set.resolve()
    values = {"out": str(options.out.resolve()), "data": str(folder.parent), "set": folder.name}
    quoted = {name: json.dumps(value) for name, value in values.items()}
    configuration = options.out.resolve().with_suffix(".toml")
    configuration.parent.mkdir(parents=True, exist_ok=True)
    configuration.write_text(CONFIGURATION.format(steps=options.steps, **quoted), "utf-8")
    command = [sys.executable, "-P", "-m", "lmkrag", "train", str(configuration)]
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
