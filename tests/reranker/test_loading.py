import numpy as np
import pytest

from lmkrag.errors import EncoderError, UsageError
from lmkrag.reranker.base import (
    DEFAULT_RERANKER,
    MULTILINGUAL_RERANKER,
    SHIPPED,
    PlacedText,
)
from lmkrag.reranker.folders import find_reranker
from lmkrag.reranker.loading import load_ours, load_reranker


@pytest.fixture(scope="module")
def cross_encoder_folder(tmp_path_factory):
    """A real CrossEncoder: our encoder's body with a head of one score, as it is before any training."""
    import torch
    from sentence_transformers import CrossEncoder
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from lmkrag.encoder.spec import find_model

    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(
        find_model(None), num_labels=1, dtype=torch.float32
    )
    model.save_pretrained(folder / "plain")
    AutoTokenizer.from_pretrained(find_model(None)).save_pretrained(folder / "plain")
    CrossEncoder(str(folder / "plain")).save_pretrained(str(folder / "saved"))
    return folder / "saved"


def test_ours_are_loaded_once():
    assert load_reranker() is load_reranker(DEFAULT_RERANKER) is load_ours()
    assert load_reranker(load_reranker()) is load_reranker()
    assert load_reranker(MULTILINGUAL_RERANKER) is load_ours(MULTILINGUAL_RERANKER)


@pytest.mark.parametrize("name", SHIPPED)
def test_one_of_ours_by_its_folder(name):
    assert isinstance(load_reranker(str(find_reranker(name))), type(load_ours(name)))


def test_a_cross_encoder_by_its_folder(cross_encoder_folder):
    reranker = load_reranker(str(cross_encoder_folder))
    passages = [
        PlacedText("Orchard", "Apples are picked in May. Pears ripen."),
        PlacedText("", "The ferry leaves."),
    ]
    scores = reranker.score("When are apples picked?", passages)
    assert scores.shape == (2,)
    assert scores[0] != scores[1]
    np.testing.assert_allclose(
        reranker.score("When are apples picked?", passages[1:]), scores[1:], atol=1e-5
    )
    assert reranker.score("When?", []).shape == (0,)


@pytest.mark.parametrize("name", ["~/saved", "./saved", "saved"])
def test_a_folder_is_loaded_from_home_or_from_here(name, cross_encoder_folder, monkeypatch):
    monkeypatch.setenv("HOME", str(cross_encoder_folder.parent))
    monkeypatch.chdir(cross_encoder_folder.parent)
    assert load_reranker(name) is load_reranker(str(cross_encoder_folder))


@pytest.mark.parametrize("name", SHIPPED)
def test_the_name_of_ours_means_no_folder_that_is_called_so(name, tmp_path, monkeypatch):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_reranker(name) is load_ours(name)


def test_a_cross_encoder_reads_the_beginning_of_a_long_question(cross_encoder_folder):
    reranker = load_reranker(str(cross_encoder_folder))
    passages = [PlacedText("", text) for text in ("The ferry leaves.", "渡船" * 600)]
    for question in ("灯塔" * 3_000, "Why? " * 3_000):
        assert np.isfinite(reranker.score(question, passages)).all()


def test_a_search_takes_its_order(engine, index, cross_encoder_folder):
    from lmkrag import Engine

    with Engine.open(index, reranker=str(cross_encoder_folder)) as other:
        found = other.search("how is leave accrued?", rerank=True, top_k=4)
    assert [span.score for span in found] == sorted((span.score for span in found), reverse=True)
    assert {span.score for span in found} != {
        span.score for span in engine.search("how is leave accrued?", top_k=4)
    }


def test_no_such_folder(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        load_reranker(str(tmp_path / "gone"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(EncoderError, match="can't be loaded"):
        load_reranker(str(tmp_path / "empty"))
