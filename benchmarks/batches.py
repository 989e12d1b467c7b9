"""How large should a batch be? Time to encode files into batches and to adopt them, by size.

    python benchmarks/batches.py ../shared/data/dev/squad [--characters 400000] [--kilobytes 10,50,200,1000]

Writes documents of DATA as files of 10,000 characters. For each size, in kilobytes of files per batch, one process
encodes the files into batches and adopts these into a new index. Prints the number of batches, the seconds of both
steps, the milliseconds of adopting one batch, and the bytes of the batches.
"""

import argparse
import tempfile
import time
from pathlib import Path

from lmkrag import Engine, LandmarkEncoder
from lmkrag.cluster.batches import encode_batch, find_batches, plan_batches
from lmkrag.cluster.parallel import adopt_batches
from lmkrag.corpus.walk import Found, walk
from lmkrag.evaluation.dataset import iter_documents

PER_FILE = 10_000  # characters


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--characters", type=int, default=400_000)
    parser.add_argument("--kilobytes", default="10,50,200,1000")
    options = parser.parse_args()
    encoder = LandmarkEncoder.load(overlap=0.0)
    encoder.encode_query("warm up")
    print(
        "| kB of files per batch | batches | encoding, s | adopting, s | ms per batch | MB |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as work:
        files = write_files(options.data, Path(work) / "docs", options.characters)
        for size in map(int, options.kilobytes.split(",")):
            out = Path(work) / f"batches-{size}"
            out.mkdir()
            batches = plan_batches(files, encoder.spec, None, size=1_000 * size)
            began = time.perf_counter()
            for batch in batches:
                encode_batch(batch, out, lambda: encoder, encoder.spec)
            encoded = time.perf_counter() - began
            stored = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
            with Engine.open(Path(work) / f"index-{size}", create=True, encoder=encoder) as engine:
                began = time.perf_counter()
                adopt_batches(engine._store, find_batches(out))
                adopted = time.perf_counter() - began
            cells = (len(batches), encoded, adopted, 1_000 * adopted / len(batches), stored / 1e6)
            print("| {} | {} | {:.1f} | {:.2f} | {:.0f} | {:.1f} |".format(size, *cells), flush=True)


def write_files(data: Path, folder: Path, characters: int) -> list[Found]:
    """Beginnings of documents, as files, in the form that batches are planned of."""
    folder.mkdir()
    number = 0
    for document in iter_documents(data):
        for start in range(0, len(document.text), PER_FILE):
            if number * PER_FILE >= characters:
                break
            (folder / f"{number:05}.txt").write_text(document.text[start : start + PER_FILE], "utf-8")
            number += 1
    return [file for file in walk(folder) if isinstance(file, Found)]


if __name__ == "__main__":
    main()
