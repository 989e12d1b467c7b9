"""What do shards cost a search, and how long does it take to move documents between them?

    python benchmarks/search.py DATA --work DIR --sentences 200000      # makes an index in DIR
    python benchmarks/shards.py DIR/index DATA [--shards 1,2,4,8] [--questions 200] [--ray local]

Copies the index, divides it, and asks questions of DATA one at a time in one process, without re-ranking. Prints
milliseconds a search (median and 95th percentile, vectors of the questions worked out before), seconds and megabytes of
resharding, and whether the same spans were found as without shards. With --ray, each shard is also put into a process
of its own on a Ray cluster, and the same is asked of those; and how many bytes go back and forth for a search.
"""

import argparse
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lmkrag import Engine
from lmkrag.cluster.resharding import reshard_index
from lmkrag.evaluation.dataset import load_dataset


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--shards", default="1,2,4,8")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--ray", metavar="ADDRESS|local")
    options = parser.parse_args()
    questions = [query.query for query in load_dataset(options.data).queries][: options.questions]
    with Engine.open(options.index, rerank=False) as engine:
        status = engine.status()
        print(f"{status.documents:,} documents, {status.sentences:,} sentences, {status.bytes / 1e6:,.0f} MB\n")
        print("| shards | search, p50 ms | p95 ms | resharding, s | MB written | spans that differ |")
        print("|---|---|---|---|---|---|")
        expected, times = _search(engine, questions)
        _print("none", times, "", "", "")
    for count in options.shards.split(","):
        with tempfile.TemporaryDirectory() as work:
            shutil.copytree(options.index, Path(work) / "index")
            with Engine.open(Path(work) / "index", rerank=False) as engine:
                began = time.perf_counter()
                reshard_index(Path(engine.status().path), int(count))
                seconds = time.perf_counter() - began
                found, times = _search(engine, questions)
                differ = sum(one != other for one, other in zip(found, expected, strict=True))
                _print(count, times, f"{seconds:.1f}", f"{engine.status().bytes / 1e6:,.0f}", str(differ))
            if options.ray:
                found, times, sent = _search_on_ray(Path(work) / "index", questions, options.ray)
                differ = sum(one != other for one, other in zip(found, expected, strict=True))
                _print(f"{count} on Ray", times, "", f"{sent / 1e3:,.1f} kB a search", str(differ))


def _search_on_ray(
    index: Path, questions: list[str], address: str
) -> tuple[list[list[tuple[str, int, int]]], list[float], float]:
    """The same of shards in other processes; and the bytes that travelled for a search."""
    from lmkrag.cluster.ray_shards import RayShards
    from lmkrag.server.ray_serving import RaySettings, open_scattered, serving_on_ray
    from lmkrag.server.settings import ServerSettings

    sent = 0
    start = RayShards.start

    def counted(self: RayShards, shard: int, method: str, *arguments: object) -> Callable[[], object]:
        wait = start(self, shard, method, *arguments)

        def count() -> object:
            nonlocal sent
            answer = wait()
            sent += len(pickle.dumps(arguments)) + len(pickle.dumps(answer))
            return answer

        return count

    settings = ServerSettings({"index": index}, port=8799, rerank=False)
    with serving_on_ray(settings, RaySettings(address)):
        engine = open_scattered(settings, "index")
        found, times = _search(engine, questions)
        RayShards.start = counted  # type: ignore[method-assign]
        try:
            _search(open_scattered(settings, "index"), questions)
        finally:
            RayShards.start = start  # type: ignore[method-assign]
    return found, times, sent / len(questions)


def _search(engine: Engine, questions: list[str]) -> tuple[list[list[tuple[str, int, int]]], list[float]]:
    """The spans of each question, and the seconds that each search took."""
    vectors = engine._encoders.encode_questions(questions)
    known = dict(zip(questions, vectors, strict=True))
    encode = engine._encoders.encode_questions
    engine._encoders.encode_questions = lambda asked: [known[question] for question in asked]  # type: ignore[assignment,method-assign]
    try:
        engine.search(questions[0])
        found, times = [], []
        for question in questions:
            began = time.perf_counter()
            spans = engine.search(question)
            times.append(time.perf_counter() - began)
            found.append([(span.doc_id, span.start, span.end) for span in spans])
    finally:
        engine._encoders.encode_questions = encode  # type: ignore[method-assign]
    return found, times


def _print(name: str, times: list[float], *cells: str) -> None:
    middle, high = (1_000 * np.percentile(times, share) for share in (50, 95))
    print(f"| {name} | {middle:.1f} | {high:.1f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
