"""The shipped re-ranker: what it finds, and what it makes of input that is out of the ordinary."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmkrag.encoder.spec import find_model
from lmkrag.errors import EncoderError
from lmkrag.models.device import PRECISION, multiplies_int8
from lmkrag.models.quantization import RANGES
from lmkrag.reranker.base import MULTILINGUAL_RERANKER, SHIPPED, RerankPassage
from lmkrag.reranker.landmark import LandmarkReranker, find_reranker
from lmkrag.sentences.split import split_sentences

ORCHARD = RerankPassage(
    "The orchard",
    (
        "Pears ripen in October. ",
        "Apples are picked in May. ",
        "The orchard was planted in 1892 by Anna Berg, a teacher from Bergen. ",
        "Its fence is 240 metres long.",
    ),
)


@pytest.fixture(scope="module")
def reranker():
    return LandmarkReranker.load()


@pytest.mark.parametrize(
    ("question", "sentence", "words"),
    [
        ("When are apples picked?", 1, "May"),
        ("Who planted the orchard?", 2, "Anna Berg"),
        ("How long is the fence?", 3, "240"),
    ],
)
def test_the_sentence_and_the_words_that_answer_are_found(reranker, question, sentence, words):
    (reading,) = reranker.read(question, [ORCHARD])
    assert reading.rank.argmax() == reading.answers.argmax() == sentence
    start, end = reading.short[sentence]
    assert words in ORCHARD.sentences[sentence][start:end]


@pytest.mark.parametrize(
    ("question", "sentences", "answer"),
    [
        (
            "Wann werden die Äpfel gepflückt?",
            (
                "Birnen reifen im Herbst. ",
                "Die Äpfel werden im Mai gepflückt. ",
                "Der Zaun ist 240 Meter lang.",
            ),
            1,
        ),
        (
            "Qui a planté le verger ?",
            (
                "La clôture a 240 mètres. ",
                "On cueille les pommes en mai. ",
                "Anna Berg a planté le verger en 1892.",
            ),
            2,
        ),
        (
            "柵の長さは？",
            ("梨は十月に熟す。", "柵の長さは240メートルである。", "果樹園は1892年に作られた。"),
            1,
        ),
        (
            "Кто посадил сад?",
            ("Сад посадила Анна Берг. ", "Груши созревают в октябре. ", "Забор длинный."),
            0,
        ),
        (
            "متى يقطف التفاح؟",
            ("ينضج الكمثرى في أكتوبر. ", "يقطف التفاح في مايو. ", "طول السور 240 مترا."),
            1,
        ),
    ],
)
def test_the_sentence_that_answers_in_other_languages_is_found(question, sentences, answer):
    (reading,) = LandmarkReranker.load(MULTILINGUAL_RERANKER).read(
        question, [RerankPassage("", sentences)]
    )
    assert reading.rank.argmax() == reading.answers.argmax() == answer


def test_a_question_that_is_not_answered_has_low_odds(reranker):
    (answered,) = reranker.read("When are apples picked?", [ORCHARD])
    (open_one,) = reranker.read("Which engine drives the ferry?", [ORCHARD])
    assert answered.answers.max() > 0 > open_one.answers.max()


def test_passages_are_read_apart(reranker):
    other = RerankPassage("", ("The ferry leaves at nine.",))
    alone = reranker.read("When are apples picked?", [ORCHARD])[0]
    together = reranker.read("When are apples picked?", [other, ORCHARD, other])[1]
    np.testing.assert_allclose(alone.rank, together.rank, atol=0.1)  # a step in int8
    np.testing.assert_array_equal(alone.short, together.short)


def test_nothing_to_read(reranker):
    assert reranker.read("When?", []) == []
    (reading,) = reranker.read("When?", [RerankPassage("", ())])
    assert len(reading.rank) == 0


def test_a_question_longer_than_the_window_is_cut(reranker):
    (reading,) = reranker.read("When are apples picked? " * 500, [ORCHARD])
    assert np.isfinite(reading.rank).all()


def test_what_does_not_fit_ranks_last_and_answers_nothing(reranker):
    long = RerankPassage(
        "",
        ORCHARD.sentences[:2]
        + ("The harvest goes on and on. " * 40,) * 3
        + ("Apples are picked in May.",),
    )
    (reading,) = reranker.read("When are apples picked?", [long])
    assert reading.rank.argmax() == 1
    assert reading.rank[-1] == reading.rank.min()
    assert reading.answers[-1] < -10
    assert tuple(reading.short[-1]) == (0, 0)


@settings(max_examples=20)
@given(st.text(max_size=60), st.lists(st.text(max_size=80), max_size=5), st.text(max_size=10))
def test_any_text_gives_finite_scores_and_passages_in_it(reranker, question, sentences, title):
    (reading,) = reranker.read(question, [RerankPassage(title, tuple(sentences))])
    assert len(reading.rank) == len(reading.answers) == len(reading.strength) == len(sentences)
    assert np.isfinite(reading.rank).all()
    for sentence, (start, end) in zip(sentences, reading.short, strict=True):
        assert 0 <= start <= end <= len(sentence)


@pytest.fixture
def folder(tmp_path):
    copied = tmp_path / "reranker"
    shutil.copytree(find_reranker(None), copied)
    return copied


def test_a_folder_loads_as_the_package_does(reranker, folder):
    loaded = LandmarkReranker.load(str(folder))
    np.testing.assert_array_equal(
        loaded.score("When are apples picked?", [ORCHARD])[0],
        reranker.score("When are apples picked?", [ORCHARD])[0],
    )


def test_scores_that_are_not_finite_order_nothing(folder):
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["head.out.bias"] = np.full_like(weights["head.out.bias"], np.nan)
    save_file(weights, folder / "model.safetensors")
    (folder / RANGES).unlink()  # of other weights
    (scores,) = LandmarkReranker.load(str(folder)).score("When are apples picked?", [ORCHARD])
    assert not scores.any()


@pytest.mark.skipif(not multiplies_int8(), reason="the processor multiplies no int8 (VNNI)")
@pytest.mark.parametrize("name", SHIPPED)
def test_int8_says_what_float32_says(name, corpus, monkeypatch):
    monkeypatch.setenv(PRECISION, "int8")
    fast = LandmarkReranker.load(name)
    monkeypatch.setenv(PRECISION, "float32")
    exact = LandmarkReranker.load(name)
    text = (corpus / "glass-river.txt").read_text("utf-8")
    sentences = [text[sentence.start : sentence.end] for sentence in split_sentences(text)]
    passages = [
        RerankPassage("", tuple(sentences[first : first + 5]))
        for first in range(0, len(sentences), 5)
    ]
    for question in ("Which stones moved?", "When did it freeze?"):
        one, other = (reranker.read(question, passages) for reranker in (exact, fast))
        for scores in ("rank", "answers"):
            ranks, others = (
                np.concatenate([getattr(reading, scores) for reading in readings])
                for readings in (one, other)
            )
            assert not np.array_equal(ranks, others)
            assert np.corrcoef(ranks, others)[0, 1] > 0.99


@pytest.mark.skipif(not multiplies_int8(), reason="the processor multiplies no int8 (VNNI)")
def test_ranges_of_other_weights_are_refused(folder, monkeypatch):
    monkeypatch.setenv(PRECISION, "auto")
    shutil.copyfile(find_model("landmark-multilingual") / RANGES, folder / RANGES)
    with pytest.raises(EncoderError, match="measured with other weights"):
        LandmarkReranker.load(str(folder))


@pytest.mark.parametrize("fault", ["cut", "gone", "newer", "no json", "no layer"])
def test_a_damaged_folder_is_refused_with_its_name(folder, fault):
    weights, described = folder / "model.safetensors", folder / "reranker.json"
    if fault == "cut":
        weights.write_bytes(weights.read_bytes()[:1_000])
    elif fault == "gone":
        weights.unlink()
    elif fault == "no json":
        described.write_text("{")
    else:
        change = {"format": 99} if fault == "newer" else {"layers": 4}
        described.write_text(json.dumps(json.loads(described.read_text()) | change))
    with pytest.raises(EncoderError, match=str(folder)):
        LandmarkReranker.load(str(folder))
