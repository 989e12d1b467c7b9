import json
import re
import shutil
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lmkrag import LandmarkEncoder
from lmkrag.encoder import landmark
from lmkrag.encoder.landmark import EncoderInput
from lmkrag.encoder.onnx_model import POOLINGS
from lmkrag.encoder.spec import BASE_ENCODER, MULTILINGUAL_ENCODER, SHIPPED, find_model
from lmkrag.encoder.torch_model import Pooling
from lmkrag.errors import EncoderError, UsageError
from lmkrag.models.files import hash_weights
from lmkrag.sentences.split import split_sentences
from lmkrag.specs import Sentence

TEXT = "The lamp is lit at dusk. Nobody may trim the wick. Bees swarm in May. " * 40


@pytest.fixture(scope="module")
def exact():
    return LandmarkEncoder.load(BASE_ENCODER, dtype=torch.float32, device="cpu")


def test_vectors_are_the_means_of_token_states_inside_their_window(exact):
    """Against a slow reference: one window, transformers alone."""
    from transformers import AutoModel, AutoTokenizer

    text = "It rained for days. Then the river froze."
    sentences = split_sentences(text)
    _, vectors = exact.encode(text, sentences)
    folder = find_model(BASE_ENCODER)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pieces = [
        tokenizer(text[s.start : s.end], add_special_tokens=False)["input_ids"] for s in sentences
    ]
    ids = [101, *pieces[0], *pieces[1], 102]
    with torch.inference_mode():
        states = AutoModel.from_pretrained(folder)(input_ids=torch.tensor([ids])).last_hidden_state[
            0
        ]
    first = 1 + len(pieces[0])
    expected = torch.stack(
        [states[1:first].mean(0), states[first : first + len(pieces[1])].mean(0)]
    )
    expected = torch.nn.functional.normalize(expected, dim=1).numpy()  # type: ignore[assignment]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_batching_changes_nothing(exact):
    sentences = split_sentences(TEXT)
    _, alone = exact.encode(TEXT, sentences)
    short = "A short text. It has two sentences."
    inputs = [EncoderInput(0, short, split_sentences(short)), EncoderInput(1, TEXT, sentences)]
    parts = list(exact.encode_stream(inputs))
    together = np.concatenate([part.vectors for part in parts if part.key == 1])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert [part.key for part in parts] == sorted(part.key for part in parts)


def test_windows_are_planned_while_those_before_are_encoded(encoder, monkeypatch):
    monkeypatch.setattr(landmark, "_POOL_TOKENS", 300)
    planned: list[int] = []

    def documents():
        for key in range(8):
            planned.append(key)
            text = f"Lighthouse {key}. {TEXT[:1_500]}"
            yield EncoderInput(key, text, split_sentences(text))

    read = encoder.model.read

    def slow(windows, titles, *, exact=False):
        began = len(planned)
        for _ in range(100):
            if len(planned) > began or len(planned) == 8:
                break
            time.sleep(0.01)
        return read(windows, titles, exact=exact)

    monkeypatch.setattr(encoder.model, "read", slow)
    stream = encoder.encode_stream(documents())
    keys = [next(stream).key]
    assert len(planned) > 1
    keys += [part.key for part in stream]
    assert list(dict.fromkeys(keys)) == list(range(8))


def test_copies_of_a_window_are_read_once_wherever_they_are(encoder, monkeypatch):
    monkeypatch.setattr(landmark, "_POOL_TOKENS", 300)
    read = encoder.model.read
    seen = []

    def count(windows, titles, *, exact=False):
        seen.append(len(windows))
        return read(windows, titles, exact=exact)

    monkeypatch.setattr(encoder.model, "read", count)
    text = TEXT[:1_050]
    one, other = (EncoderInput(key, text, split_sentences(text)) for key in (0, 1))
    parts = list(encoder.encode_stream([one]))
    windows = sum(seen)
    seen.clear()
    both = list(encoder.encode_stream([one, other]))
    assert sum(seen) == windows
    again = np.concatenate([part.vectors for part in both if part.key == 1])
    np.testing.assert_array_equal(again, np.concatenate([part.vectors for part in parts]))


def test_an_error_while_encoding_ends_the_stream(encoder, monkeypatch):
    def broken(windows, titles, *, exact=False):
        raise EncoderError("out of memory")

    monkeypatch.setattr(encoder.model, "read", broken)
    with pytest.raises(EncoderError, match="out of memory"):
        encoder.encode(TEXT, split_sentences(TEXT))


def test_the_precision_of_this_machine_agrees_with_float32(encoder):
    sentences = split_sentences(TEXT)
    _, exact = encoder.encode(TEXT, sentences)
    _, fast = LandmarkEncoder.load(precision="auto").encode(TEXT, sentences)
    assert float((exact * fast).sum(1).min()) > 0.99


def test_an_index_in_the_precision_of_this_machine_answers(corpus, tmp_path, lmkrag):
    auto = {"LMKRAG_PRECISION": "auto", "LMKRAG_RERANK": "on"}
    done = lmkrag("index", corpus, "--index", tmp_path / "index", env=auto)
    assert done.returncode == 0, done.stderr
    for precision in (auto, {"LMKRAG_PRECISION": "float32"}):
        found = lmkrag(
            "search",
            "who approves leave?",
            "--index",
            tmp_path / "index",
            "--top-k",
            "1",
            env=precision,
        )
        assert "harbour master" in found.stdout


def test_a_sentence_sees_its_context(exact):
    plain, bees = "It leaves early. ", "The swarm gathers at the hive. "
    _, alone = exact.encode(plain, split_sentences(plain))
    text = bees + plain
    _, inside = exact.encode(text, split_sentences(text))
    query = exact.encode_query("When does the swarm leave the hive?")
    assert inside[1] @ query > alone[0] @ query


def test_a_title_stands_before_each_window(trained_folder):
    """Against the same window whose first sentence is the title."""
    path = trained_folder / "landmark.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"title_tokens": 4}))
    encoder = LandmarkEncoder.load(str(trained_folder), dtype=torch.float32, device="cpu")
    title, text = "Rules of Elm Park", "Dogs stay out. The gate shuts at noon. "
    joined = title + ". " + text
    _, vectors = encoder.encode(
        text, split_sentences(text), title=title + " and of the other parks"
    )
    first, *rest = [Sentence(0, len(title)), *split_sentences(text)]
    shifted = [Sentence(s.start + len(title) + 2, s.end + len(title) + 2) for s in rest]
    _, expected = encoder.encode(joined, [first, *shifted])
    np.testing.assert_allclose(vectors, expected[1:], atol=1e-5)
    _, untitled = encoder.encode(text, split_sentences(text))
    assert float((vectors * untitled).sum(1).max()) < 0.99
    assert np.array_equal(encoder.encode(text, split_sentences(text), title=" ")[1], untitled)


def test_the_mark_of_a_window_tells_its_title(encoder):
    def marks(title):
        return [
            part.window_hash
            for part in encoder.encode_stream([EncoderInput(0, TEXT, split_sentences(TEXT), title)])
        ]

    assert marks("Elm Park") == marks("Elm Park")
    assert not set(marks("Elm Park")) & set(marks("Elm Street"))


def test_an_encoder_not_made_for_titles_reads_none(exact):
    sentences = split_sentences(TEXT)
    assert np.array_equal(
        exact.encode(TEXT, sentences, title="Bees")[1], exact.encode(TEXT, sentences)[1]
    )


@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=300),
    st.lists(st.sampled_from(["Bees swarm. ", "qx7 " * 90])),
)
@settings(max_examples=20, deadline=None)
def test_windows_with_any_title_hold_all_sentences(encoder, title, parts):
    text = "".join(parts)
    fitted, vectors = encoder.encode(text, split_sentences(text), title=title)
    assert "".join(text[s.start : s.end] for s in fitted) == text
    assert len(vectors) == len(fitted)
    assert np.isfinite(vectors).all()
    ids = encoder.tokens.title(title)
    for window, pieces in encoder.windows(text, split_sentences(text), taken=len(ids)):
        assert len(ids) + window.tokens <= encoder.spec.window
        assert window.tokens == sum(len(piece.ids) for piece in pieces)


def test_a_sentence_longer_than_a_window_is_split_never_cut(exact):
    text = "qx7 zv9 " * 120
    fitted, vectors = exact.encode(text, split_sentences(text))
    assert "".join(text[s.start : s.end] for s in fitted) == text
    assert len(fitted) == len(vectors) > 1
    assert all(exact.count_tokens(text[s.start : s.end]) <= exact.spec.window for s in fitted)


def test_special_tokens_in_a_text_are_text(exact):
    text = "We write [SEP] and [CLS] and <LMK> here. Nothing happens."
    fitted, vectors = exact.encode(text, split_sentences(text))
    assert 102 not in exact.tokens.query(text).ids
    assert len(fitted) == len(vectors)


@pytest.mark.parametrize("text", ["\u200b\u200b\u200b", "😀 😀", "\ud800", "\x00\x01", "א" * 50])
def test_odd_texts_have_finite_vectors(exact, text):
    _, vectors = exact.encode(text, split_sentences(text))
    assert vectors.shape == (1, 384)
    assert np.isfinite(vectors).all()


def test_no_queries_no_sentences(exact):
    assert exact.encode_queries([]).shape == (0, 384)
    assert exact.encode("", [])[1].shape == (0, 384)


def test_a_long_query_is_accepted(exact):
    assert np.linalg.norm(exact.encode_query("why " * 2_000)) == pytest.approx(1, abs=1e-5)


# The tokens of both sentences that a pooling reads; 3 and 5 are landmarks.
READ = {
    "mean": ([1, 2], [4]),
    "lmk": ([3], [5]),
    "lmk+mean": ([1, 2, 3], [4, 5]),
}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_against_a_loop(pooling):
    rng = np.random.default_rng(0)
    states = torch.tensor(rng.standard_normal((7, 16)), dtype=torch.float32)
    owner = torch.tensor([2, 0, 0, 0, 1, 1, 2])  # 2 stands for none
    landmark = torch.tensor([False, False, False, True, False, True, False])
    module = Pooling(pooling)
    pooled = module(states, owner, landmark, 2)
    for sentence, rows in enumerate(READ[pooling]):
        expected = states[rows].mean(0)
        torch.testing.assert_close(
            pooled[sentence], expected / expected.norm(), rtol=1e-4, atol=1e-5
        )


@pytest.fixture
def trained_folder(tmp_path):
    """The packaged model with a landmark token, read as landmark.json says."""
    from transformers import AutoModel, AutoTokenizer

    folder = tmp_path / "landmark"
    tokenizer = AutoTokenizer.from_pretrained(find_model(BASE_ENCODER))
    tokenizer.add_special_tokens({"additional_special_tokens": ["<LMK>"]})
    tokenizer.save_pretrained(folder)
    model = AutoModel.from_pretrained(find_model(BASE_ENCODER))
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    settings = {
        "format": 1,
        "pooling": "lmk+mean",
        "landmark": "<LMK>",
        "window": 100,
        "overlap": 0.25,
    }
    (folder / "landmark.json").write_text(json.dumps(settings))
    return folder


def test_landmark_json_is_obeyed(trained_folder):
    encoder = LandmarkEncoder.load(str(trained_folder), dtype=torch.float32)
    assert (encoder.spec.window, encoder.spec.overlap, encoder.spec.pooling) == (
        100,
        0.25,
        "lmk+mean",
    )
    fitted, vectors = encoder.encode(TEXT, split_sentences(TEXT))
    assert len(fitted) == len(vectors) == 120
    literal = "A text that says <LMK> aloud."
    *words, landmark = encoder.tokens.query(literal).ids
    assert landmark not in words


def test_other_reading_other_fingerprint(trained_folder):
    one = LandmarkEncoder.load(str(trained_folder)).spec.fingerprint
    assert LandmarkEncoder.load(str(trained_folder), overlap=0.5).spec.fingerprint != one


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "format 99 is newer than this lmkrag reads: upgrade lmkrag"),
        ({"pooling": "magic"}, "unknown pooling 'magic'"),
        (
            {"window": 5000},
            "a window of 5000 tokens is longer than the 510 that landmark has positions for",
        ),
    ],
)
def test_a_bad_landmark_json(trained_folder, change, message):
    path = trained_folder / "landmark.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(EncoderError, match=re.escape(message)):
        LandmarkEncoder.load(str(trained_folder))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("landmark", {"landmark": "<END>"}, "model: its landmark '<END>' is no token of its tok"),
        ("landmark", {"landmark": ""}, "model: its landmark '' is no token of its tokenizer.json"),
        ("landmark", {"window": "254"}, "landmark.json: 'window' must be int, not '254'"),
        ("landmark", {"overlap": "half"}, "landmark.json: 'overlap' must be float, not 'half'"),
        ("landmark", {"pooling": None}, "landmark.json: 'pooling' must be str, not None"),
        ("config", {"hidden_size": None}, "config.json: 'hidden_size' must be int, not None"),
        ("config", {"layer_norm_eps": "0"}, "config.json: 'layer_norm_eps' must be float, not '0'"),
    ],
)
def test_a_value_that_makes_no_sense_is_named_with_its_file(tmp_path, name, change, message):
    folder = shutil.copytree(find_model(None), tmp_path / "model")
    path = folder / f"{name}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(EncoderError, match=re.escape(message)):
        LandmarkEncoder.load(str(folder), runtime="onnx")


def test_a_configuration_that_is_no_object(tmp_path):
    folder = shutil.copytree(find_model(None), tmp_path / "model")
    (folder / "config.json").write_text("[1]")
    with pytest.raises(EncoderError, match="can't be loaded as an encoder"):
        LandmarkEncoder.load(str(folder))


def test_a_tokenizer_without_a_limit(tmp_path):
    folder = shutil.copytree(find_model(None), tmp_path / "model")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": None}))
    assert LandmarkEncoder.load(str(folder), runtime="onnx").spec.window == 254


def test_a_window_of_no_tokens():
    with pytest.raises(UsageError, match="a window must have at least one token, not -5"):
        LandmarkEncoder.load(window=-5)


def test_broken_landmark_json(trained_folder):
    (trained_folder / "landmark.json").write_text("{")
    with pytest.raises(EncoderError, match=r"not a landmark.json"):
        LandmarkEncoder.load(str(trained_folder))


def test_missing_folder():
    with pytest.raises(
        UsageError, match=r"'\./nowhere': no such folder; landmark-mini and landmark-multilingual"
    ):
        LandmarkEncoder.load("./nowhere")


@pytest.mark.parametrize("name", [*SHIPPED, BASE_ENCODER])
def test_the_name_of_a_packaged_encoder_means_no_folder_that_is_called_so(
    name, tmp_path, monkeypatch
):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert LandmarkEncoder.load(name).spec.name == name
    with pytest.raises(EncoderError, match="not a model folder"):
        LandmarkEncoder.load(f"./{name}")


@pytest.mark.parametrize("name", ["~/own", "./own", "own"])
def test_a_folder_is_recorded_by_its_absolute_path(name, tmp_path, monkeypatch):
    shutil.copytree(find_model(None), tmp_path / "own")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert LandmarkEncoder.load(name).spec.name == str((tmp_path / "own").resolve())


def test_folder_without_model(tmp_path):
    with pytest.raises(EncoderError, match=r"not a model folder \(no config.json in it\)"):
        LandmarkEncoder.load(str(tmp_path))


def test_damaged_weights(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(find_model(BASE_ENCODER), folder)
    (folder / "model.safetensors").write_bytes(b"\x00" * 100)
    with pytest.raises(EncoderError, match="can't be loaded as an encoder"):
        LandmarkEncoder.load(str(folder))


def test_unknown_hub_name_offline():
    with pytest.raises(EncoderError, match="neither a folder nor a model that the hub gives"):
        LandmarkEncoder.load("nobody/nothing")


def test_weights_that_landmark_json_does_not_name_are_refused(trained_folder):
    path = trained_folder / "landmark.json"
    settings = json.loads(path.read_text()) | {"weights": hash_weights(trained_folder)}
    path.write_text(json.dumps(settings))
    LandmarkEncoder.load(str(trained_folder))
    weights = trained_folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(EncoderError, match=r"its weights are not those that landmark.json names"):
        LandmarkEncoder.load(str(trained_folder))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_encoders_are_whole(name):
    folder = find_model(name)
    assert json.loads((folder / "landmark.json").read_text())["weights"] == hash_weights(folder)
    assert (folder / "README.md").read_text().startswith("---\nlicense: apache-2.0")
    assert LandmarkEncoder.load(name).spec.name == name


def test_packed_weights_are_the_same_in_both_runtimes():
    by_onnx = LandmarkEncoder.load(MULTILINGUAL_ENCODER, runtime="onnx", precision="float32")
    by_torch = LandmarkEncoder.load(MULTILINGUAL_ENCODER, runtime="torch", precision="float32")
    text = "Die Fähre fährt um neun Uhr. The boat is red. 船は赤い。"
    sentences = list(split_sentences(text))
    np.testing.assert_allclose(
        by_torch.encode(text, sentences)[1], by_onnx.encode(text, sentences)[1], atol=1e-3
    )


QUESTIONS = {
    "When does the ferry sail?": "The ferry sails at nine in the morning.",
    "Wann fährt die Fähre?": "Die Fähre fährt um neun Uhr morgens ab.",
    "À quelle heure part le bac ?": "Le bac part à neuf heures du matin.",
    "Во сколько отправляется паром?": "Паром отправляется в девять часов утра.",
    "渡轮几点开？": "渡轮早上九点开船。",
    "フェリーは何時に出ますか。": "フェリーは朝九時に出ます。",
    "متى تغادر العبارة؟": "تغادر العبارة في التاسعة صباحا.",
    "नौका कब चलती है?": "नौका सुबह नौ बजे चलती है।",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_find_answers_in_every_language(question):
    encoder = LandmarkEncoder.load(MULTILINGUAL_ENCODER)
    others = [
        "The inn has six rooms.",
        "Das Boot ist rot.",
        "灯塔是白色的。",
        "Снег лежит до мая.",
        "قصة قصيرة.",
    ]
    answers = [*QUESTIONS.values(), *others]
    vectors = np.concatenate(
        [encoder.encode(text, list(split_sentences(text)))[1][:1] for text in answers]
    )
    (asked,) = encoder.encode_queries([question])
    best = np.argsort(-(vectors @ asked)).tolist()
    assert list(QUESTIONS).index(question) in best[:3]


def test_an_index_chooses_its_encoder_by_language(tmp_path, lmkrag):
    docs = tmp_path / "docs"
    docs.mkdir()
    texts = [f"{answer} " * 8 for answer in QUESTIONS.values()]
    for number, text in enumerate(texts):
        (docs / f"{number}.txt").write_text(text, "utf-8")
    done = lmkrag("index", docs, "--index", tmp_path / "index")
    assert done.returncode == 0, done.stderr
    assert (
        "of the text sampled is not in English: encoder landmark-multilingual was chosen"
        in done.stderr
    )
    status = json.loads(lmkrag("status", "--index", tmp_path / "index", "--json").stdout)
    assert status["encoder"] == MULTILINGUAL_ENCODER
    found = lmkrag("search", "Wann fährt die Fähre?", "--index", tmp_path / "index", "--top-k", "1")
    assert "neun Uhr" in found.stdout
    english = lmkrag("index", docs / "0.txt", "--index", tmp_path / "english")
    assert "encoder" not in english.stderr
    chosen = lmkrag("index", docs, "--index", tmp_path / "chosen", "--encoder", "landmark-mini")
    assert "was chosen" not in chosen.stderr
