import numpy as np
import pytest
import torch

from lmkrag import LandmarkEncoder
from lmkrag.encoder.spec import find_model
from lmkrag.integrations.sentence_transformers import load_sentence_transformer
from lmkrag.sentences.split import split_sentences
from lmkrag.training.settings import ModelSettings
from lmkrag.training.student import create_student

TEXT = "The gate opens at nine. It shuts at noon. " * 12 + "Dogs stay out."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    create_student(ModelSettings(window=64), folder)
    return folder


def test_the_vector_is_the_mean_of_the_landmarks(folder):
    encoder = LandmarkEncoder.load(str(folder), dtype=torch.float32)
    _, vectors = encoder.encode(TEXT, split_sentences(TEXT))
    expected = vectors.mean(0) / np.linalg.norm(vectors.mean(0))
    model = load_sentence_transformer(folder)
    one, short = model.encode([TEXT, "Dogs?"])
    np.testing.assert_allclose(one, expected, atol=1e-5)
    np.testing.assert_allclose(short, encoder.encode_query("Dogs?"), atol=1e-5)
    assert model.get_embedding_dimension() == 384


def test_it_loads_by_modules_json_and_survives_saving(folder, tmp_path):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    model.save(str(tmp_path / "saved"))
    again = SentenceTransformer(str(tmp_path / "saved"), trust_remote_code=True, device="cpu")
    np.testing.assert_allclose(model.encode(TEXT), again.encode(TEXT), atol=1e-6)
    LandmarkEncoder.load(str(tmp_path / "saved"))
    modes = {(tmp_path / "saved" / name).stat().st_mode for name in ("model.safetensors", "landmark.json")}
    assert len(modes) == 1  # safetensors writes for the owner alone


def test_packed_words_are_saved_as_they_were_trained(tmp_path):
    model = load_sentence_transformer(find_model("landmark-multilingual"))
    with torch.no_grad():
        model[0].backbone.get_input_embeddings().weight.mul_(1.5)
    model.save(str(tmp_path / "saved"))
    again = load_sentence_transformer(tmp_path / "saved")
    np.testing.assert_allclose(model.encode(TEXT), again.encode(TEXT), atol=1e-6)


def test_an_empty_text_has_a_vector(folder):
    model = load_sentence_transformer(folder)
    assert np.isfinite(model.encode(["", "  "])).all()
