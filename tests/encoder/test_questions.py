import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from lmkrag import Engine, LandmarkEncoder
from lmkrag.encoder.questions import QuestionEncoder
from lmkrag.encoder.spec import BASE_ENCODER, find_model, fingerprint_model
from lmkrag.errors import EncoderError

QUESTIONS = ["When is the lamp lit?", "", "x", "日本 \ud800 <LMK> [SEP]", "how? " * 400, "naïve café — “quoted”"]


@pytest.mark.parametrize("name", [None, BASE_ENCODER])
def test_vectors_are_those_of_the_framework(name):
    import torch

    full = LandmarkEncoder.load(name, dtype=torch.float32)
    light = QuestionEncoder.load(full.spec)
    np.testing.assert_allclose(light.encode_queries(QUESTIONS), full.encode_queries(QUESTIONS), atol=2e-5)
    assert light.encode_queries([]).shape == (0, 384)
    for question in QUESTIONS:
        assert light.count_tokens(question) == full.count_tokens(question)


def test_what_it_can_not_run_is_left_to_the_framework(encoder):
    assert QuestionEncoder.load(replace(encoder.spec, pooling="gem")) is None
    assert QuestionEncoder.load(replace(encoder.spec, fingerprint="another")) is None


def rename_weights(folder, rename):
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    save_file({rename(name): tensor for name, tensor in weights.items()}, folder / "model.safetensors")


@pytest.fixture
def plain_bert(tmp_path):
    """The base model as a checkpoint with a head on top would be saved: weights named ``bert.*``."""
    folder = tmp_path / "plain"
    shutil.copytree(find_model(BASE_ENCODER), folder)
    rename_weights(folder, lambda name: f"bert.{name}")
    return folder


def test_a_plain_checkpoint_answers_fresh_searches(plain_bert, tmp_path, corpus):
    with Engine.open(tmp_path / "index", create=True, encoder=str(plain_bert)) as engine:
        engine.add(corpus / "glass-river.txt")
        spec, right = engine.encoder.spec, engine.encoder.encode_query(QUESTIONS[0])
        spans = engine.search(QUESTIONS[0])
    light = QuestionEncoder.load(spec)
    np.testing.assert_allclose(light.encode_queries(QUESTIONS[:1])[0], right, atol=2e-3)
    with Engine.open(tmp_path / "index") as engine:
        found = engine.search(QUESTIONS[0])
    assert [(span.start, span.end) for span in found] == [(span.start, span.end) for span in spans]


def test_weights_of_other_names_are_left_to_the_framework(plain_bert, encoder):
    rename_weights(plain_bert, lambda name: name.replace("attention.self.query", "attention.self.q"))
    fingerprint = fingerprint_model(plain_bert, "254 0.5 mean")
    spec = replace(encoder.spec, name=str(plain_bert), fingerprint=fingerprint, pooling="mean")
    assert QuestionEncoder.load(spec) is None
    (plain_bert / "model.safetensors").rename(plain_bert / "model-00001-of-00001.safetensors")
    assert QuestionEncoder.load(replace(spec, fingerprint=fingerprint_model(plain_bert, "254 0.5 mean"))) is None


def test_damaged_weights_are_an_error(encoder, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(find_model(None), folder)
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(EncoderError, match="its weights are not those that"):
        QuestionEncoder.load(replace(encoder.spec, name=str(folder)))


def test_searching_imports_no_framework(built_index):
    code = (
        "import sys; from lmkrag import Engine; "
        f"print(Engine.open({str(built_index)!r}).search('which stones moved?', budget=50)[0].text[:20]); "
        "print({'torch', 'transformers', 'nltk'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "set()", done.stdout + done.stderr
