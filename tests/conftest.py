"""Real parts for every test: the shipped encoder, the sample corpus, an index of it made once."""

import contextlib
import functools
import gc
import gzip
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

settings.register_profile("lmkrag", deadline=None, max_examples=50)  # a busy machine is no fault
settings.load_profile("lmkrag")

signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # a background job ignores it, and so would its children

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.pop(
    "LMKRAG_PRECISION", None
)  # as users have it: int8 where the processor multiplies it exactly
os.environ.pop("LMKRAG_DEVICE", None)
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(
    prefix="lmkrag-tests-"
)  # no settings of whoever runs the tests

DATA = Path(__file__).parent / "data"

LONGEST = [
    "test_ray_encoding.py",
    "test_stranger.py",
    "test_page.py",
    "test_trainer.py",
    "test_small_model.py",
]
LONGEST += ["test_notebooks.py", "test_trust.py", "test_other_systems.py", "test_privacy.py"]


def pytest_collection_modifyitems(items):
    """The files that take longest come first: begun last, one would keep one process busy while the others idle."""
    items.sort(
        key=lambda item: (
            LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST)
        )
    )


gc.disable()


def pytest_collection_finish():
    """Exclude the tests and the imported modules, which live for the whole run, from garbage collection."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def shipped_models():
    """Load a shipped encoder, as it is, once in a process: it takes longer than most tests."""
    from lmkrag.encoder.loading import load_parts as load
    from lmkrag.encoder.spec import SHIPPED

    load_once = functools.lru_cache(maxsize=6)(lambda environment, *arguments: load(*arguments))

    def load_parts(name, device, dtype, window, overlap, runtime, precision):
        arguments = name, device, dtype, window, overlap, runtime, precision
        as_is = device is dtype is precision is None and runtime in (None, "onnx")
        if as_is and name in (None, *SHIPPED):
            return load_once(os.environ.get("LMKRAG_PRECISION"), *arguments)
        return load(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmkrag.encoder.landmark.load_parts", load_parts)
        # Where there is AMX, bfloat16 would be the default, whose scores are close but not equal.
        patch.setattr("lmkrag.models.device.has_amx", lambda: False)
        yield


@pytest.fixture(scope="session")
def encoder():
    from lmkrag import LandmarkEncoder

    return LandmarkEncoder.load()


@pytest.fixture(scope="session")
def make_once(tmp_path_factory):
    """Make a folder once for all processes of a run: the first calls ``make(folder)``, the others wait for it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def once(name: str, make) -> Path:
        folder = shared / f"once-{name}"
        with FileLock(f"{folder}.lock"):
            if not folder.exists():
                partial = shared / f"partial-{name}"
                partial.mkdir()
                make(partial)
                partial.rename(folder)
        return folder

    return once


@pytest.fixture(scope="session")
def corpus() -> Path:
    return DATA / "corpus"


@pytest.fixture(scope="session")
def built_index(encoder, corpus, tmp_path_factory) -> Path:
    from lmkrag import Engine

    path = tmp_path_factory.mktemp("built") / "index"
    with Engine.open(path, create=True, encoder=encoder) as engine:
        engine.add(corpus)
    return path


COMMAND_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "LMKRAG_RERANK": "off"}


@pytest.fixture(scope="session")
def lmkrag():
    """Run the command line in this process, which is many times faster; ``env`` may turn re-ranking on."""
    from click.testing import CliRunner

    from lmkrag.cli import main

    def run(*arguments, cwd=None, stdin=None, env=None):
        environment, handlers = os.environ.copy(), logging.root.handlers[:]
        levels = [(logger, logger.level) for logger in (logging.root, logging.getLogger("lmkrag"))]
        logging.root.handlers.clear()
        logging.root.setLevel(logging.WARNING)  # another test may have set it
        with contextlib.chdir(cwd or "."):
            result = CliRunner().invoke(
                main,
                [*map(str, arguments)],
                stdin,
                COMMAND_ENVIRONMENT | (env or {}),
                prog_name="lmkrag",
            )
        os.environ.clear()  # a command may set variables for what it loads
        os.environ.update(environment)
        logging.root.handlers[:] = handlers
        for logger, level in levels:
            logger.setLevel(level)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        output = result.stdout_bytes.decode("utf-8", "surrogateescape")
        return subprocess.CompletedProcess(arguments, result.exit_code, output, result.stderr)

    return run


@pytest.fixture(scope="session")
def lmkrag_process():
    """Run the command line in a process of its own."""

    def run(*arguments, cwd=None, stdin=None, env=None):
        return subprocess.run(
            [sys.executable, "-m", "lmkrag", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd,
            input=stdin,
            env={**os.environ, **COMMAND_ENVIRONMENT, **(env or {})},
            timeout=120,
        )

    return run


@pytest.fixture
def index(built_index, tmp_path) -> Path:
    """A copy of the sample index that the test may change."""
    path = tmp_path / "index"
    shutil.copytree(built_index, path)
    return path


@pytest.fixture
def engine(index, encoder):
    """An engine over it, without re-ranking; tests that need it pass ``rerank=True``."""
    from lmkrag import Engine

    with Engine.open(index, encoder=encoder, rerank=False) as opened:
        yield opened


def _write_set(folder: Path, documents: list, queries: list) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in (("docs", documents), ("queries", queries)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
    return folder


@pytest.fixture(scope="session")
def write_set():
    """Write a set in the data format: ``write_set(folder, documents, queries)``."""
    return _write_set


@pytest.fixture(scope="session")
def sample_set(corpus, tmp_path_factory) -> Path:
    """The sample corpus with the labelled questions of ``data/questions.jsonl``, in the data format."""
    texts = {
        name: (corpus / name).read_text("utf-8")
        for name in ("lighthouse-handbook.md", "glass-river.txt")
    }
    queries = []
    for number, line in enumerate((DATA / "questions.jsonl").read_text("utf-8").splitlines()):
        record = json.loads(line)
        starts = [(texts[record["doc"]].index(quote), len(quote)) for quote in record["evidence"]]
        spans = [[start, start + length] for start, length in starts]
        queries.append(
            {
                "query_id": str(number),
                "query": record["query"],
                "doc_id": record["doc"],
                "spans": spans,
            }
        )
    documents = [{"doc_id": name, "title": name, "text": text} for name, text in texts.items()]
    return _write_set(tmp_path_factory.mktemp("sets") / "sample", documents, queries)


POSITIONS = 16_384
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }}\n{% endfor %}assistant :"
)
LEARNT = 'bonfires are allowed only in iron baskets [1] [99]. it says " gate opens at nine ".'


@pytest.fixture(scope="session")
def causal_model(make_once) -> Path:
    """A tiny Llama, made and taught on the spot to say ``LEARNT`` to whatever it is asked."""
    return make_once("tiny-llama", teach_model)


def teach_model(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the model is too small for more
    letters = [chr(code) for code in range(33, 127)]
    words = [
        "[PAD]",
        "[UNK]",
        "[END]",
        *letters,
    ]  # any other word is one unknown token, so that prompts are short
    words += sorted(set(re.findall(r"\w{2,}", LEARNT)) | {"assistant", "user", "system"})
    backend = Tokenizer(
        models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="[UNK]",
        pad_token="[PAD]",
        eos_token="[END]",
        chat_template=CHAT_TEMPLATE,
        model_max_length=POSITIONS,
    )
    end = tokenizer.eos_token_id
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=POSITIONS,
        eos_token_id=end,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    said = [*tokenizer(f"assistant : {LEARNT}", add_special_tokens=False)["input_ids"], end]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=130)
    for step in range(130):
        noise = torch.randint(3, len(tokenizer), (2, 4 + 37 * step % 400))
        ids = torch.cat([noise, torch.tensor(said).repeat(2, 1)], dim=1)
        labels = ids.clone()
        labels[:, : noise.shape[1] + 2] = -100
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    torch.set_num_threads(threads)
    assert loss.item() < 0.1
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="session")
def chat_server(causal_model, tmp_path_factory):
    """The base URL of transformers' own OpenAI-compatible server on the tiny model."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log.txt"
    transformers = str(Path(sys.executable).with_name("transformers"))
    command = [
        transformers,
        "serve",
        str(causal_model),
        "--device",
        "cpu",
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
    ]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).read()
                break
            except OSError:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.3)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(10)
