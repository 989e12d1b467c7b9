"""The shipped re-ranker for other languages: what it finds, and what it makes of input that is out of the ordinary."""

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
from lmkrag.reranker.base import MULTILINGUAL_RERANKER, PlacedText
from lmkrag.reranker.folders import find_reranker
from lmkrag.reranker.landmark import LandmarkReranker
from lmkrag.reranker.passages import PassageReranker
from lmkrag.sentences.split import split_sentences

ORCHARD = PlacedText(
    "Der Obstgarten",
    "Birnen reifen im Herbst. Die Äpfel werden im Mai gepflückt. Anna Berg, eine Lehrerin aus "
    "Bergen, hat den Garten gepflanzt. Der Zaun ist 240 Meter lang.",
)
QUESTION = "Wann werden die Äpfel gepflückt?"


@pytest.fixture(scope="module")
def reranker():
    return LandmarkReranker.load()


def best_sentence(reading, text):
    scores = [reading.score_sentence(each.start, each.end) for each in split_sentences(text)]
    return int(np.argmax(scores))


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
def test_the_sentence_that_answers_is_found(reranker, question, sentences, answer):
    text = "".join(sentences)
    (reading,) = reranker.read(question, [PlacedText("", text)])
    assert best_sentence(reading, text) == answer


def test_a_question_that_is_not_answered_has_lower_odds(reranker):
    scores = [
        reranker.score(question, [ORCHARD])[0]
        for question in (QUESTION, "Welcher Motor treibt die Fähre an?")
    ]
    assert scores[0] > scores[1]


def test_passages_are_read_apart(reranker):
    other = PlacedText("", "Die Fähre legt um neun ab.")
    alone = reranker.score(QUESTION, [ORCHARD])[0]
    together = reranker.score(QUESTION, [other, ORCHARD, other])[1]
    assert alone == pytest.approx(together, abs=0.1)  # a step in int8


def test_nothing_to_read(reranker):
    assert reranker.read(QUESTION, []) == []
    (reading,) = reranker.read(QUESTION, [PlacedText("", "")])
    assert np.isfinite(reading.score)
    assert reading.score_sentence(0, 5) == -np.inf
    assert reading.find_words(0, 5) is None


def test_a_question_longer_than_the_window_is_cut(reranker):
    assert np.isfinite(reranker.score(QUESTION * 500, [ORCHARD])).all()


def test_what_does_not_fit_answers_nothing(reranker):
    long = (
        ORCHARD.text + " Die Ernte geht immer weiter." * 200 + " Die Äpfel werden im Mai gepflückt."
    )
    (reading,) = reranker.read(QUESTION, [PlacedText("", long)])
    assert best_sentence(reading, long) == 1
    assert reading.score_sentence(len(long) - 20, len(long)) < -10


@settings(max_examples=20)
@given(st.text(max_size=60), st.text(max_size=300), st.text(max_size=10))
def test_any_text_gives_finite_scores(reranker, question, text, place):
    (reading,) = reranker.read(question, [PlacedText(place, text)])
    assert np.isfinite(reading.score)


@pytest.fixture
def folder(tmp_path):
    copied = tmp_path / "reranker"
    shutil.copytree(find_reranker(MULTILINGUAL_RERANKER), copied)
    return copied


def test_a_folder_loads_as_the_package_does(reranker, folder):
    loaded = LandmarkReranker.load(str(folder))
    assert loaded.score(QUESTION, [ORCHARD]) == reranker.score(QUESTION, [ORCHARD])


def test_a_landmark_that_the_tokenizer_lacks_is_refused(folder):
    path = folder / "reranker.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"landmark": "<END>"}))
    with pytest.raises(EncoderError, match="its landmark '<END>' is no token of its tokenizer"):
        LandmarkReranker.load(str(folder))


def test_scores_that_are_not_finite_order_nothing(folder):
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["head.out.bias"] = np.full_like(weights["head.out.bias"], np.nan)
    save_file(weights, folder / "model.safetensors")
    (folder / RANGES).unlink()  # of other weights
    (reading,) = LandmarkReranker.load(str(folder)).read(QUESTION, [ORCHARD])
    assert len(set(reading.answers.tolist())) == 1


@pytest.mark.skipif(not multiplies_int8(), reason="the processor multiplies no int8 (VNNI)")
@pytest.mark.parametrize("kind", [LandmarkReranker, PassageReranker])
def test_int8_says_what_float32_says(kind, corpus, monkeypatch):
    text = (corpus / "glass-river.txt").read_text("utf-8")
    passages = [PlacedText("", text[start : start + 400]) for start in range(0, len(text), 400)]
    scores = {}
    for precision in ("int8", "float32"):
        monkeypatch.setenv(PRECISION, precision)
        reranker = kind.load()
        scores[precision] = np.concatenate(
            [
                reranker.score(question, passages)
                for question in ("Which stones moved?", "When did it freeze?")
            ]
        )
    assert not np.array_equal(scores["int8"], scores["float32"])
    assert np.corrcoef(scores["int8"], scores["float32"])[0, 1] > 0.98


@pytest.mark.skipif(not multiplies_int8(), reason="the processor multiplies no int8 (VNNI)")
def test_ranges_of_other_weights_are_refused(folder, monkeypatch):
    monkeypatch.setenv(PRECISION, "auto")
    shutil.copyfile(find_model("landmark-mini") / RANGES, folder / RANGES)
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
