import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from lmkrag import LandmarkEncoder
from lmkrag.encoder.questions import QuestionEncoder
from lmkrag.encoder.spec import BASE_ENCODER
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


def test_damaged_weights_are_an_error(encoder, tmp_path):
    import shutil

    from lmkrag.encoder.spec import find_model

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
