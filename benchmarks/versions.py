"""Does this version give the results and the speed of another?

    git worktree add ../before COMMIT
    python benchmarks/versions.py ../before [--data ../shared/data/dev] [--sets clapnq,cuad,squad] [--rounds 3]

Indexes `benchmarks/folder/corpus` and some development sets with both checkouts, in turn, each in a process of its own,
and asks the same questions. Compares the JSON of spans (hybrid, dense and words, passages and the spans of the
benchmarks), of answers and of documents, and prints the first differences; fields that only one version has are named
once. Prints the medians of indexing (characters per second) and of a search (milliseconds), re-ranked and not.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SEARCHES = (
    {},
    {"rerank": False, "level": "span"},
    {"rerank": False, "mode": "dense"},
    {"rerank": False, "mode": "lexical"},
)


def main() -> None:
    """Run both versions and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, help="the checkout of another version")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data/dev")
    parser.add_argument("--sets", default="clapnq,cuad,squad")
    parser.add_argument("--questions", type=int, default=40, help="of each set")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        _write_results(options)
        return
    versions = {"before": options.other.resolve(), "after": ROOT}
    outputs: dict[str, list[dict[str, Any]]] = {name: [] for name in versions}
    with tempfile.TemporaryDirectory() as work:
        for number in range(options.rounds):
            for name, checkout in versions.items():
                file = Path(work) / f"{name}-{number}.json"
                flags = [
                    str(options.other),
                    "--data",
                    str(options.data.resolve()),
                    "--sets",
                    options.sets,
                ]
                command = [
                    sys.executable,
                    __file__,
                    *flags,
                    "--questions",
                    str(options.questions),
                    "--run",
                    str(file),
                ]
                subprocess.run(
                    command, check=True, env={**os.environ, "PYTHONPATH": str(checkout)}, cwd=work
                )
                outputs[name].append(json.loads(file.read_text()))
    _compare(outputs["before"][0]["results"], outputs["after"][0]["results"])
    print(f"\n{'medians':<28}{'before':>10}{'after':>10}")
    for measure in outputs["after"][0]["times"]:
        medians = [
            statistics.median(output["times"][measure] for output in outputs[name])
            for name in versions
        ]
        print(f"{measure:<28}{medians[0]:>10,.1f}{medians[1]:>10,.1f}")


def _write_results(options: argparse.Namespace) -> None:
    """Index and ask with the version that Python imports, and write what it returns and how long it took."""
    from lmkrag import Document, Engine
    from lmkrag.serialization import answer_to_json, to_json

    folder = ROOT / "benchmarks/folder"
    lines = (folder / "questions.jsonl").read_text("utf-8").splitlines()
    sources: dict[str, tuple[Any, list[str]]] = {
        "folder": (
            folder / "corpus",
            [json.loads(line)["question"] for line in lines][:: len(lines) // options.questions],
        )
    }
    for name in filter(None, options.sets.split(",")):
        records = {
            part: [
                json.loads(line)
                for line in gzip.decompress(
                    (options.data / name / f"{part}.jsonl.gz").read_bytes()
                ).splitlines()
            ]
            for part in ("docs", "queries")
        }
        documents = [
            Document(doc_id=record["doc_id"], text=record["text"], title=record["title"])
            for record in records["docs"]
        ]
        questions = [record["query"] for record in records["queries"][: options.questions]]
        sources[name] = (documents[:12], questions)

    results: dict[str, Any] = {}
    indexed, characters, latencies = (
        0.0,
        0,
        {"search, re-ranked": [], "search, not re-ranked": [], "ask": []},
    )
    for name, (source, questions) in sources.items():
        with tempfile.TemporaryDirectory() as index, Engine.open(index, create=True) as engine:
            engine.search("warm up")
            begun = time.perf_counter()
            characters += engine.add(source).characters
            indexed += time.perf_counter() - begun
            for document in engine.documents():
                results[f"{name} {document.doc_id}"] = [
                    to_json(document),
                    engine.read(document.doc_id),
                ]
            engine.search("warm up", rerank=True)
            for question in questions:
                for search in SEARCHES:
                    begun = time.perf_counter()
                    spans = engine.search(question, **search)
                    took = 1_000 * (time.perf_counter() - begun)
                    if len(search) != 2 or "level" in search:
                        latencies[
                            "search, not re-ranked" if search else "search, re-ranked"
                        ].append(took)
                    results[f"{name} {question} {search}"] = to_json(spans)
                begun = time.perf_counter()
                answer = engine.ask(question)
                latencies["ask"].append(1_000 * (time.perf_counter() - begun))
                results[f"{name} {question} ask"] = answer_to_json(question, answer)
    times = {"characters per second": characters / indexed}
    times |= {f"{measure}, ms": statistics.median(values) for measure, values in latencies.items()}
    options.run.write_text(json.dumps({"results": results, "times": times}))


def _compare(before: dict[str, Any], after: dict[str, Any]) -> None:
    dropped: set[str] = set()
    added: set[str] = set()
    differences = []
    for key in sorted(before.keys() | after.keys()):
        if key not in before or key not in after:
            differences.append(f"{key}: only {'before' if key in before else 'after'}")
        else:
            differences += [
                f"{key}: {difference}"
                for difference in _differ(before[key], after[key], dropped, added)
            ]
    print(f"{len(after):,} results compared, {len(differences):,} differences")
    print(f"fields that left: {sorted(dropped)}; fields that are new: {sorted(added)}")
    for difference in differences[:20]:
        print(f"  {difference}")


def _differ(old: Any, new: Any, dropped: set[str], added: set[str]) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        dropped |= old.keys() - new.keys()
        added |= new.keys() - old.keys()
        return [
            f"{name}: {difference}"
            for name in old.keys() & new.keys()
            for difference in _differ(old[name], new[name], dropped, added)
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            difference
            for pair in zip(old, new, strict=True)
            for difference in _differ(*pair, dropped, added)
        ]
    return [] if old == new else [f"{str(old)[:100]!r} is {str(new)[:100]!r}"]


if __name__ == "__main__":
    main()
