"""Comparing all that was read: what the model sees, what it says, and a re-ranker that has none."""

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from lmkrag.errors import EncoderError
from lmkrag.reranker.base import ListwiseReranker, ScoredSentences
from lmkrag.reranker.landmark import LandmarkReranker, find_reranker
from lmkrag.reranker.listwise import WEIGHTS, ListwiseModel, describe_sentences
from lmkrag.reranker.loading import CrossEncoderReranker

values = st.floats(-30, 30, width=32)


def make_read(rows):
    """Sentences from (document, number in it, passage, score, rank), by their ids."""
    rows = sorted({(document, ordinal): rest for document, ordinal, *rest in rows}.items())
    numbers = np.array([rest for _, rest in rows], np.float32).reshape(len(rows), 3)
    return ScoredSentences(
        sentences=np.array([100 * document + ordinal for (document, ordinal), _ in rows]),
        documents=np.array([document for (document, _), _ in rows]),
        passages=numbers[:, 0].astype(int),
        lengths=np.full(len(rows), 80),
        score=numbers[:, 1],
        similarity=numbers[:, 1],
        rank=numbers[:, 2],
        answers=numbers[:, 2],
        strength=-np.abs(numbers[:, 2]),
    )


row = st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 15), values, values)


@given(st.lists(row, min_size=1, max_size=40))
def test_features_are_finite_and_of_one_width(rows):
    read = make_read(rows)
    features = describe_sentences(read)
    assert features.dtype == np.float32
    assert features.shape == (
        len(read.sentences),
        describe_sentences(make_read([(0, 0, 0, 1.0, 1.0)])).shape[1],
    )
    assert np.isfinite(features).all()


@given(st.lists(row, min_size=2, max_size=20))
def test_only_differences_of_ids_matter(rows):
    read = make_read(rows)
    moved = read._replace(sentences=read.sentences + 7_000, documents=read.documents + 9)
    np.testing.assert_array_equal(describe_sentences(read), describe_sentences(moved))


def test_neighbours_are_of_the_same_document():
    near = describe_sentences(make_read([(0, 99, 0, 0.5, 1.0), (0, 100, 0, 0.4, 3.0)]))
    apart = describe_sentences(
        make_read([(0, 99, 0, 0.5, 1.0), (1, 0, 0, 0.4, 3.0)])
    )  # ids 99 and 100 as well
    assert not np.allclose(near, apart)


@pytest.fixture(scope="module")
def model():
    return ListwiseModel.load(find_reranker(None))


def test_the_shipped_model_prefers_what_both_scores_prefer(model):
    rows = [
        (document, ordinal, document, 0.3, -4.0) for document in range(4) for ordinal in range(4)
    ]
    rows[5] = (1, 1, 1, 0.6, 6.0)
    logits = model.score(make_read(rows))
    assert logits.shape == (16,) and logits.dtype == np.float32
    assert logits.argmax() == 5


def test_others_change_what_a_sentence_is_worth(model):
    alone = model.score(make_read([(0, 0, 0, 0.5, 2.0), (0, 1, 0, 0.3, -3.0)]))[0]
    beaten = model.score(
        make_read([(0, 0, 0, 0.5, 2.0), (0, 1, 0, 0.3, -3.0), (1, 0, 1, 0.7, 9.0)])
    )[0]
    assert beaten < alone


def test_a_reranker_without_the_model_adds_its_ranks(tmp_path):
    folder = tmp_path / "apart"
    shutil.copytree(find_reranker(None), folder, ignore=shutil.ignore_patterns(WEIGHTS))
    read = make_read([(0, 0, 0, 0.5, 2.0), (0, 1, 0, 0.3, -3.0)])
    np.testing.assert_array_equal(LandmarkReranker.load(str(folder)).compare(read), read.rank)
    assert not np.allclose(LandmarkReranker.load().compare(read), read.rank)


def test_who_compares():
    assert isinstance(LandmarkReranker.load(), ListwiseReranker)
    assert not issubclass(CrossEncoderReranker, LandmarkReranker)
    assert not hasattr(CrossEncoderReranker, "compare")
    assert not isinstance(CrossEncoderReranker(None, "one"), ListwiseReranker)


def test_the_shipped_model_is_the_mean_of_its_members(model):
    read = make_read([(0, 0, 0, 0.5, 2.0), (0, 1, 0, 0.3, -3.0), (1, 0, 1, 0.4, 1.0)])
    alone = [
        ListwiseModel([member], model._mean, model._deviation).score(read)
        for member in model._members
    ]
    assert len(alone) > 1 and not np.allclose(alone[0], alone[1])
    np.testing.assert_allclose(model.score(read), np.mean(alone, 0), atol=1e-6)


def test_a_file_without_members_is_an_error(tmp_path):
    folder = tmp_path / "empty"
    shutil.copytree(find_reranker(None), folder)
    save_file({"mean": np.zeros(34), "deviation": np.ones(34)}, folder / WEIGHTS, {"config": "{}"})
    with pytest.raises(EncoderError, match="has no members"):
        LandmarkReranker.load(str(folder))


@pytest.mark.parametrize(
    "content", [b"", b"no weights", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "]
)
def test_a_file_that_is_no_model_is_an_error_that_names_the_folder(tmp_path, content):
    folder = tmp_path / "broken"
    shutil.copytree(find_reranker(None), folder)
    (folder / WEIGHTS).write_bytes(content)
    with pytest.raises(EncoderError, match="broken: can't be loaded as a re-ranker"):
        LandmarkReranker.load(str(folder))
