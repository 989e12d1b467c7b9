"""How long does `lmkrag grep` take in a folder that it has never seen, while it is being indexed, and afterwards?

    python benchmarks/grep.py FOLDER [--question "where are connections closed"] [--runs 5]

Every figure is the time of a whole process, of which the first prints before anything of the folder is indexed.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--question", default="where are connections closed")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    files = [path for path in options.folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files):,} files, {size / 1e6:.1f} MB")
    first, second = [], []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
            first.append(run(options.folder, options.question, cache))
            second.append(run(options.folder, options.question, cache))
            subprocess.run(["pkill", "-f", "--", f"--index {cache}"], check=False)
    print(f"never seen      {statistics.median(first):6.2f} s")
    print(f"being indexed   {statistics.median(second):6.2f} s")
    cache = tempfile.mkdtemp()
    run(options.folder, options.question, cache)
    started = time.monotonic()
    (index,) = (Path(cache) / "lmkrag" / "folders").iterdir()
    command = [
        sys.executable,
        "-m",
        "lmkrag",
        "index",
        str(options.folder),
        "--index",
        str(index),
        "--prune",
    ]
    while subprocess.run(
        command, capture_output=True, check=False
    ).returncode:  # the process in the background writes
        time.sleep(1)
    print(f"indexed after   {time.monotonic() - started:6.1f} s")
    print(
        f"in step         {statistics.median(run(options.folder, options.question, cache) for _ in range(5)):6.2f} s"
    )
    shutil.rmtree(cache)


def run(folder: Path, question: str, cache: str) -> float:
    """The seconds that a question takes."""
    started = time.monotonic()
    command = [sys.executable, "-m", "lmkrag", "grep", question, str(folder), "-k", "5"]
    subprocess.run(
        command, capture_output=True, check=True, env={**os.environ, "XDG_CACHE_HOME": cache}
    )
    return time.monotonic() - started


if __name__ == "__main__":
    main()
