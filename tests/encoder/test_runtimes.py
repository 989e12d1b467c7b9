"""ONNX Runtime and torch give the same vectors; what only torch can run is left to it."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmkrag import Engine, LandmarkEncoder
from lmkrag.encoder.loading import prefers_torch, runs_without_torch
from lmkrag.encoder.onnx_model import POOLINGS, OnnxModel
from lmkrag.encoder.spec import BASE_ENCODER, MULTILINGUAL_ENCODER, SHIPPED, find_model
from lmkrag.encoder.torch_model import Pooling, TorchModel
from lmkrag.errors import EncoderError, MissingExtra, UsageError
from lmkrag.models import device
from lmkrag.models.bert import Bert, group_texts, read_weights
from lmkrag.models.device import PRECISION, multiplies_int8
from lmkrag.models.quantization import RANGES, read_ranges, write_ranges
from lmkrag.models.session import count_threads
from lmkrag.sentences.split import split_sentences

QUESTIONS = [
    "When is the lamp lit?",
    "",
    "x",
    "日本 \ud800 <LMK> [SEP]",
    "how? " * 400,
    "naïve café — “quoted”",
]
TEXT = "The lamp is lit at dusk. Nobody may trim the wick. Bees swarm in May. " * 40


@pytest.fixture(scope="module", params=[None, BASE_ENCODER])
def both(request):
    return tuple(
        LandmarkEncoder.load(request.param, runtime=name, precision="float32")
        for name in ("onnx", "torch")
    )


def test_questions_have_the_same_vectors(both):
    onnx, torch = both
    assert onnx.spec == torch.spec
    np.testing.assert_allclose(
        onnx.encode_queries(QUESTIONS), torch.encode_queries(QUESTIONS), atol=2e-5
    )
    assert onnx.encode_queries([]).shape == (0, 384)
    for question in QUESTIONS:
        assert onnx.count_tokens(question) == torch.count_tokens(question)


@pytest.mark.parametrize(
    "text",
    [TEXT, "", "One.", "Short. " + "x" * 3_000, "\n\n".join(f"Line {i}" for i in range(300))],
)
def test_documents_have_the_same_vectors(both, text):
    onnx, torch = both
    fitted, vectors = onnx.encode(text, split_sentences(text), title="The keepers")
    assert fitted == torch.encode(text, split_sentences(text), title="The keepers")[0]
    np.testing.assert_allclose(
        vectors, torch.encode(text, split_sentences(text), title="The keepers")[1], atol=2e-5
    )


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=5), min_size=1, max_size=6),
    st.sampled_from(POOLINGS),
)
@settings(max_examples=30)
def test_any_sentences_are_pooled_as_in_torch(both, sizes, pooling):
    """Sentences of any number of tokens, none among them, in windows with and without a title."""
    import torch

    onnx, reference = both
    landmark = onnx.tokens.landmark
    rng = np.random.default_rng(len(sizes))
    windows = [
        [[*map(int, rng.integers(1_000, 9_000, size)), *landmark] for size in window]
        for window in sizes
    ]
    titles = [[2_000, 3_000][: number % 3] for number in range(len(windows))]
    if not any(windows):
        return
    found = OnnxModel(onnx.model._bert, pooling, onnx.tokens).read(windows, titles)
    exact = TorchModel(reference.model.network, Pooling(pooling), onnx.tokens, torch.device("cpu"))
    np.testing.assert_allclose(found, exact.read(windows, titles), atol=2e-5)


def test_texts_of_all_lengths_are_read_as_if_alone():
    folder = find_model(None)
    bert = Bert(
        read_weights(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    )
    texts = [[101, *range(2_000, 2_000 + length), 102] for length in (0, 1, 37, 5, 200, 5)]
    together = bert.read([token for text in texts for token in text], [len(text) for text in texts])
    alone = np.concatenate([bert.read(text, [len(text)]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=2e-5)


@given(st.lists(st.integers(0, 600), max_size=60))
def test_texts_of_one_length_are_grouped(lengths):
    groups = group_texts(lengths)
    places = np.concatenate([group.ravel() for group in groups]) if groups else np.empty(0)
    assert sorted(places.tolist()) == list(range(sum(lengths)))
    starts = set(np.cumsum([0, *lengths]).tolist())
    for group in groups:
        assert len(group) == 1 or group.size <= 256
        for text in group:
            assert text[0] in starts
            assert text[-1] + 1 in starts
            assert (np.diff(text) == 1).all()


def test_an_error_in_one_run_reaches_who_asked(both):
    bert = both[0].model._bert
    with pytest.raises(Exception, match="indices element out of data bounds"):
        bert.read([101, 102, 101, 9_999_999, 102], [2, 3])


def rename_weights(folder, rename):
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    save_file(
        {rename(name): tensor for name, tensor in weights.items()}, folder / "model.safetensors"
    )


@pytest.fixture
def plain_bert(tmp_path):
    """The base model as a checkpoint with a head on top would be saved: weights named ``bert.*``."""
    folder = tmp_path / "plain"
    shutil.copytree(find_model(BASE_ENCODER), folder)
    rename_weights(folder, lambda name: f"bert.{name}")
    return folder


def test_a_plain_checkpoint_is_read(plain_bert):
    light = LandmarkEncoder.load(str(plain_bert), runtime="onnx")
    full = LandmarkEncoder.load(str(plain_bert), runtime="torch")
    assert light.spec == full.spec
    np.testing.assert_allclose(
        light.encode_query(QUESTIONS[0]), full.encode_query(QUESTIONS[0]), atol=2e-3
    )


def test_what_it_can_not_run_is_left_to_torch(plain_bert):
    assert runs_without_torch(plain_bert, "mean")
    assert not runs_without_torch(plain_bert, "gem")
    rename_weights(
        plain_bert, lambda name: name.replace("attention.self.query", "attention.self.q")
    )
    assert not runs_without_torch(plain_bert, "mean")
    with pytest.raises(EncoderError, match="torch can: pip install"):
        LandmarkEncoder.load(str(plain_bert), runtime="onnx")
    (plain_bert / "model.safetensors").rename(plain_bert / "model-00001-of-00001.safetensors")
    assert not runs_without_torch(plain_bert, "mean")


def test_weights_that_are_missing_are_an_error(plain_bert):
    rename_weights(
        plain_bert, lambda name: name.replace("1.attention.self.query", "1.attention.self.q")
    )
    with pytest.raises(EncoderError, match=r"query\.bias is missing"):
        LandmarkEncoder.load(str(plain_bert), runtime="torch")


def test_damaged_weights_are_an_error(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(find_model(None), folder)
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(EncoderError, match="its weights are not those that"):
        LandmarkEncoder.load(str(folder))


@pytest.mark.parametrize(
    ("name", "questions"),
    [
        (None, [*QUESTIONS[:4], QUESTIONS[5]]),
        (BASE_ENCODER, QUESTIONS[:1]),
        (MULTILINGUAL_ENCODER, ["x"]),
    ],
)
def test_one_question_is_read_without_onnx_runtime(name, questions, monkeypatch):
    expected = LandmarkEncoder.load(name, runtime="onnx", precision="float32").encode_queries(
        questions
    )
    for question, vector in zip(questions, expected, strict=True):
        late = LandmarkEncoder.load(name, runtime="numpy", precision="float32")
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "onnxruntime", None)  # importing it fails
            np.testing.assert_allclose(late.encode_query(question), vector, atol=1e-6)
    np.testing.assert_allclose(
        late.encode_query(questions[0]), expected[0], atol=1e-6
    )  # as ONNX Runtime reads it
    assert late.model.precision == "float32"


def test_a_plain_machine_prefers_onnx_runtime(monkeypatch):
    from lmkrag.encoder import loading

    monkeypatch.setattr(device, "has_card", lambda: False)
    with monkeypatch.context() as patch:
        patch.setattr(device, "has_amx", lambda: True)
        assert prefers_torch() and prefers_torch("cpu")
    assert not prefers_torch()
    assert isinstance(LandmarkEncoder.load().model, OnnxModel)
    monkeypatch.setattr(device, "has_card", lambda: True)
    assert prefers_torch()
    assert not prefers_torch("cpu")
    monkeypatch.setenv("LMKRAG_DEVICE", "cpu")
    assert not prefers_torch()
    monkeypatch.delenv("LMKRAG_DEVICE")
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    assert not prefers_torch()
    with pytest.raises(
        MissingExtra, match=r"torch is not installed: pip install 'lmkrag\[torch\]'"
    ):
        LandmarkEncoder.load(runtime="torch")


def test_the_device_of_the_environment(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name, expected in (("auto", "cpu"), ("cpu", "cpu")):
        monkeypatch.setenv("LMKRAG_DEVICE", name)
        assert device.choose_device() == torch.device(expected)
    monkeypatch.setenv("LMKRAG_DEVICE", "cuda")
    with pytest.raises(UsageError, match="device cuda: torch finds no card here"):
        LandmarkEncoder.load(runtime="torch")
    assert device.choose_device("cpu") == torch.device("cpu"), "an argument comes first"
    monkeypatch.setenv("LMKRAG_DEVICE", "gpu")
    with pytest.raises(UsageError, match="LMKRAG_DEVICE must be one of auto, cpu, cuda"):
        LandmarkEncoder.load(runtime="torch")


needs_vnni = pytest.mark.skipif(
    not multiplies_int8(), reason="the processor multiplies no int8 (VNNI)"
)


@pytest.fixture(scope="module")
def int8():
    return LandmarkEncoder.load(precision="int8")


@needs_vnni
@pytest.mark.parametrize("name", SHIPPED)
def test_int8_agrees_with_float32(name, corpus):
    exact, fast = (
        LandmarkEncoder.load(name, precision=precision) for precision in ("float32", "int8")
    )
    assert fast.spec == exact.spec
    cosines = []
    for path in [*corpus.rglob("*.txt"), *corpus.rglob("*.md")]:
        text = path.read_text("utf-8")
        (_, one), (_, other) = (
            encoder.encode(text, split_sentences(text)) for encoder in (exact, fast)
        )
        assert not np.array_equal(one, other)
        cosines += (one * other).sum(1).tolist()
    assert len(cosines) > 50
    assert np.mean(cosines) > 0.997
    assert min(cosines) > 0.99
    np.testing.assert_array_equal(fast.encode_queries(QUESTIONS), exact.encode_queries(QUESTIONS))


@needs_vnni
@given(st.lists(st.integers(1, 60), min_size=1, max_size=5))
@settings(max_examples=20)
def test_what_is_read_beside_a_text_changes_nothing(int8, lengths):
    rng = np.random.default_rng(lengths[0])
    windows = [
        [[*map(int, rng.integers(1_000, 9_000, length)), *int8.tokens.landmark]]
        for length in lengths
    ]
    together = int8.model.read(windows, [[]] * len(windows))
    alone = np.concatenate([int8.model.read([window], [[]]) for window in windows])
    # A sum in another order moves a value over the border of a step now and then.
    assert (together * alone).sum(1).min() > 0.9995


@needs_vnni
def test_ranges_of_another_model_are_an_error(tmp_path):
    folder = shutil.copytree(find_model(None), tmp_path / "model")
    shutil.copyfile(find_model(MULTILINGUAL_ENCODER) / RANGES, folder / RANGES)
    with pytest.raises(EncoderError, match="measured with other weights; remove it"):
        LandmarkEncoder.load(str(folder), runtime="onnx", precision="auto")
    assert LandmarkEncoder.load(str(folder), precision="float32")
    (folder / RANGES).write_bytes((find_model(None) / RANGES).read_bytes()[:-100])
    with pytest.raises(EncoderError, match="can't be read"):
        LandmarkEncoder.load(str(folder), precision="int8")
    ranges = dict(read_ranges(find_model(None)))
    ranges.popitem()
    write_ranges(folder, ranges)
    with pytest.raises(EncoderError, match="do not fit its weights"):
        LandmarkEncoder.load(str(folder), precision="int8")
    (folder / RANGES).unlink()
    with pytest.raises(EncoderError, match="so it can't be run in int8"):
        LandmarkEncoder.load(str(folder), precision="int8")


def test_precisions(monkeypatch):
    monkeypatch.setattr(device, "processor_flags", frozenset)
    with pytest.raises(UsageError, match="no instructions for it"):
        LandmarkEncoder.load(precision="int8")
    with pytest.raises(UsageError, match="one of auto, float32, int8, not 'half'"):
        LandmarkEncoder.load(precision="half")
    monkeypatch.setenv(PRECISION, "half")
    with pytest.raises(UsageError, match="not 'half'"):
        LandmarkEncoder.load()
    monkeypatch.setenv(PRECISION, "float32")
    text = list(split_sentences(TEXT))
    assert np.array_equal(
        LandmarkEncoder.load().encode(TEXT, text)[1],
        LandmarkEncoder.load(precision="float32").encode(TEXT, text)[1],
    )


@pytest.mark.parametrize(
    ("setting", "threads"),
    [("3", 3), ("3,1", 3), (" 3 , 1", 3), ("0", None), ("many", None), ("", None)],
)
def test_threads_are_those_of_the_environment(monkeypatch, setting, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    every = count_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    assert count_threads() == (threads or every)


def test_a_forked_process_reads_and_ends():
    """Threads of the runtime are not forked: a session of the parent's would wait for them for ever."""
    code = (
        "import os, sys; from lmkrag import LandmarkEncoder; encoder = LandmarkEncoder.load(); "
        "first = encoder.encode_query('Who?'); child = os.fork(); "
        "same = abs(encoder.encode_query('Who?') - first).max() < 1e-5; "
        "sys.exit(not same) if child == 0 else sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)


def test_neither_indexing_nor_searching_imports_torch(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv(PRECISION, "float32")  # else a processor with AMX would use torch
    code = (
        "import sys; from lmkrag import Engine; "
        f"engine = Engine.open({str(tmp_path / 'index')!r}, create=True); "
        f"engine.add({str(corpus / 'glass-river.txt')!r}); "
        "print(engine.search('which stones moved?', max_tokens=50, rerank=True)[0].text[:20]); "
        "print(engine.ask('which stones moved?').text); "
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "set()", done.stdout + done.stderr


def test_an_index_of_a_plain_checkpoint_answers(plain_bert, tmp_path, corpus, monkeypatch):
    monkeypatch.setenv(PRECISION, "float32")
    with Engine.open(tmp_path / "index", create=True, encoder=str(plain_bert)) as engine:
        engine.add(corpus / "glass-river.txt")
        spans = engine.search(QUESTIONS[0])
    with Engine.open(tmp_path / "index") as engine:
        found = engine.search(QUESTIONS[0])
    assert [(span.start, span.end) for span in found] == [(span.start, span.end) for span in spans]
