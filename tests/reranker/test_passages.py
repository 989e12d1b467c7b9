import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from lmkrag import Document, Engine
from lmkrag.encoder.spec import find_model
from lmkrag.errors import EncoderError
from lmkrag.models.bert import bert_inputs, read_weights
from lmkrag.models.packing import ROW_SCALES, ROWS, WORDS, unpack_weights
from lmkrag.models.quantization import write_ranges
from lmkrag.models.session import Session
from lmkrag.reranker.base import DEFAULT_RERANKER, PlacedText
from lmkrag.reranker.folders import find_reranker, read_body
from lmkrag.reranker.inputs import prepare_passage
from lmkrag.reranker.loading import load_ours
from lmkrag.reranker.passages import PASSAGE_LOGITS, STATES, PassageReranker
from lmkrag.results import Span
from lmkrag.training.calibration import RangeMeter
from pipelines.train.four_bits import Rounding, pack_blocks
from pipelines.train.reader_files import write_answers, write_graphs

QUESTION = "When are apples picked?"
TEXTS = [
    "Apples are picked in May.",
    "The ferry leaves from the northern quay at noon, except on Sundays.",
    "",
]


@pytest.fixture(scope="module")
def base():
    return find_model("landmark-mini")


def words(base):
    """The embeddings of words, which the file holds in 8 bits, as a graph reads them."""
    weights = read_weights(base / "model.safetensors", only=WORDS, rows=True)
    return weights[ROWS].astype(np.float32) * weights[ROW_SCALES]


@pytest.fixture(scope="module")
def model(base):
    """Two layers of our encoder with a head of one score, as it is before any training."""
    from transformers import AutoModelForSequenceClassification

    torch.manual_seed(0)
    options = {"num_labels": 1, "num_hidden_layers": 2, "dtype": torch.float32}
    model = AutoModelForSequenceClassification.from_pretrained(base, **options).eval()
    model.bert.embeddings.word_embeddings.weight.data = torch.from_numpy(words(base))
    return model


@pytest.fixture(scope="module")
def folder(model, base, tmp_path_factory):
    """The model as a folder of ours: packed, with graphs and ranges, the words' embeddings those of the base."""
    folder = tmp_path_factory.mktemp("passages")
    weights = {
        name.removeprefix("bert."): value.numpy() for name, value in model.state_dict().items()
    }
    weights = {
        name: value
        for name, value in weights.items()
        if name != WORDS and value.dtype == np.float32
    }
    weights |= {
        f"{head}.{kind}": np.ones((outputs, 384)[: 2 if kind == "weight" else 1], np.float32)
        for head, outputs in (("complete", 1), ("sentence", 1), ("ends", 2))
        for kind in ("weight", "bias")
    }
    save_file(pack_blocks(weights), folder / "model.safetensors")
    (folder / "reranker.json").write_text(
        json.dumps({"format": 1, "base": "landmark-mini", "layers": 2})
    )
    config, fused = read_body(folder, base, 2)
    meter = RangeMeter(fused, config)
    for text in TEXTS:
        meter.read(bert_inputs(*encode(base, text)))
    write_ranges(folder, meter.ranges)
    write_graphs(folder)
    return folder


def place(texts):
    """Passages without a place."""
    return [PlacedText("", text) for text in texts]


def encode(base, text):
    encoding = Tokenizer.from_file(str(base / "tokenizer.json")).encode(QUESTION, text)
    return np.array([encoding.ids]), np.array([encoding.type_ids])


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("auto", 0.05)])
def test_scores_are_those_of_torch(model, base, folder, monkeypatch, precision, tolerance):
    monkeypatch.setenv("LMKRAG_PRECISION", precision)
    weights = {
        name.removeprefix("bert."): value.numpy() for name, value in model.state_dict().items()
    }
    kept = {name: value for name, value in weights.items() if value.dtype == np.float32}
    unpacked = {
        name: np.asarray(value, np.float32)
        for name, value in unpack_weights(pack_blocks(kept)).items()
    }
    below = {name for name in unpacked if name.startswith(("embeddings.", "encoder.", "pooler."))}
    state = {
        f"bert.{name}" if name in below else name: torch.from_numpy(value)
        for name, value in unpacked.items()
    }
    model.load_state_dict(state, strict=False)
    expected = []
    for text in TEXTS:
        ids, types = map(torch.from_numpy, encode(base, text))
        with torch.no_grad():
            expected.append(model(input_ids=ids, token_type_ids=types).logits.item())
    scores = PassageReranker.load(str(folder)).score(QUESTION, place(TEXTS))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, atol=tolerance)
    assert len(set(scores.tolist())) == len(TEXTS)


def test_no_texts_and_long_texts(folder):
    reranker = PassageReranker.load(str(folder))
    assert reranker.score(QUESTION, []).shape == (0,)
    long = "Apples are picked in May. " * 2_000
    first, second = reranker.score("\ud800 " + QUESTION, place([long, long + "More."]))
    assert first == second  # what is behind the limit is not read
    assert np.isfinite(first)


def test_words_that_answer():
    text = (
        "The ferry to Skerry leaves at noon from the northern quay. "
        "In winter it leaves from the harbour at ten."
    )
    reranker = PassageReranker.load()
    questions = {
        "When does the ferry leave in winter?": "ten",
        "Where does the ferry to Skerry leave at noon?": "quay",
    }
    for question, answer in questions.items():
        (reading,) = reranker.read(question, place([text]))
        words = reading.find_words(0, len(text))
        assert answer in text[words.start : words.end]
        assert words.strength > 0
        assert words.lead > 0
        assert reading.score == pytest.approx(reranker.score(question, place([text]))[0])
    strange, empty = reranker.read("How do I reset a router?", place([text, ""]))
    assert strange.find_words(0, len(text)).strength < 0
    assert empty.find_words(0, 10) is None
    assert empty.score_sentence(0, 10) == -np.inf


@pytest.fixture
def runs(monkeypatch):
    """What re-rankers of passages read, as they run."""
    read = []
    run_each = Session.run_each

    def record(session, outputs, inputs):
        is_read = PASSAGE_LOGITS in outputs and STATES not in inputs[0]
        read.extend(inputs if is_read else [])
        return run_each(session, outputs, inputs)

    monkeypatch.setattr(Session, "run_each", record)
    return read


def test_what_was_read_last_is_not_read_again(folder, runs):
    reranker = PassageReranker.load(str(folder))
    scores = reranker.score(QUESTION, place([*TEXTS, TEXTS[0]]))
    readings = reranker.read(QUESTION, place(TEXTS[::-1]))
    assert len(runs) == len(TEXTS)
    assert [reading.score for reading in readings[::-1]] == scores.tolist()[:-1]
    (other,) = reranker.read("Who picks pears?", place(TEXTS[:1]))
    assert other is not readings[-1]
    for number in range(200):
        reranker.read(QUESTION, place([f"Row {number}"]))
    (again,) = reranker.read(QUESTION, place(TEXTS[:1]))
    assert again.score == readings[-1].score
    assert len(runs) == len(TEXTS) + 1 + 200 + 1  # it was forgotten


def test_an_answer_reads_nothing_that_its_search_has_read(encoder, tmp_path, runs):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(
            [Document(f"{number}.md", "", f"Lamp {number} is lit at dusk.") for number in range(9)]
        )
        for question in ("When does somebody kindle the lanterns?", "When is lamp 7 lit?"):
            engine.search(question, rerank=True)
            searched = len(runs)
            assert engine.ask(question, rerank=True).spans
            assert len(runs) == searched > 0


def test_the_last_layers_judge_from_the_states_below_them(tmp_path, monkeypatch):
    monkeypatch.setenv("LMKRAG_PRECISION", "float32")
    shipped, same = find_reranker(DEFAULT_RERANKER), tmp_path / "same"
    shutil.copytree(shipped, same, ignore=shutil.ignore_patterns("answers", "*.onnx"))
    write_answers(shipped, same)
    passages = [PlacedText("Orchard > Harvest", text) for text in TEXTS]
    twice, other = (PassageReranker.load(str(folder)) for folder in (same, shipped))
    for read, judged, differently in zip(
        twice.read(QUESTION, passages),
        twice.judge(QUESTION, passages),
        other.judge(QUESTION, passages),
        strict=True,
    ):
        assert judged.score == pytest.approx(read.score, abs=0.02)
        np.testing.assert_allclose(judged.logits, read.logits, atol=0.05)
        np.testing.assert_array_equal(judged.offsets, read.offsets)
        assert abs(differently.score - read.score) > 0.1


def test_a_reader_without_layers_that_judge_judges_as_it_reads(folder):
    reranker = PassageReranker.load(str(folder))
    judged, read = reranker.judge(QUESTION, place(TEXTS)), reranker.read(QUESTION, place(TEXTS))
    assert judged == read


def test_damaged_weights(folder, tmp_path):
    (tmp_path / "reranker.json").write_text((folder / "reranker.json").read_text())
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(EncoderError, match="can't be loaded as a re-ranker"):
        PassageReranker.load(str(tmp_path))


def test_four_bits_lose_little():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(8, 96)).astype(np.float32)
    matrix[0, :32] = 0
    packed = pack_blocks({"encoder.dense.weight": matrix, "encoder.dense.bias": matrix[0]})
    assert packed["encoder.dense.weight.int4"].nbytes == matrix.size // 2
    unpacked = unpack_weights(packed)
    assert set(unpacked) == {"encoder.dense.weight", "encoder.dense.bias"}
    found = unpacked["encoder.dense.weight"]
    assert (found[0, :32] == 0).all()
    assert np.corrcoef(found.ravel(), matrix.ravel())[0, 1] > 0.995


def test_training_computes_in_the_four_bits_of_the_file():
    matrix = np.random.default_rng(0).normal(size=(8, 96)).astype(np.float32)
    stored = unpack_weights(pack_blocks({"encoder.dense.weight": matrix}))["encoder.dense.weight"]
    weight = torch.from_numpy(matrix).requires_grad_()
    rounded = Rounding()(weight)
    assert torch.allclose(rounded, torch.from_numpy(stored), atol=1e-6)
    rounded.sum().backward()
    assert weight.grad is not None and (weight.grad == 1).all()


def test_a_number_is_read_as_the_passage_writes_it():
    reranker = load_ours()
    texts = ["The mole cost 1,250,000 euros.", "Le môle a coûté 1 250 000 euros."]
    plain, grouped = (
        reranker.score(f"What cost {cost} euros?", place(texts))
        for cost in ("1250000", "1,250,000")
    )
    assert (plain == grouped).all()


@pytest.mark.parametrize("indent", ["\t\t", "\t\t\t", "  \t\t", "\t \t"])
def test_lines_that_tabs_indent_are_no_rows(indent):
    text = f"- Visitors\n{indent}- No dogs or cats\n{indent}- Breakfast is at 8 in the hall\n"
    span = Span("inn.md", "inn.md", 0, len(text), text, 1.0)
    assert prepare_passage(span).passage.text == text


@pytest.mark.parametrize("label", ["Boats\t\t", "\tBoats\t"])
def test_a_row_of_a_label_alone_is_a_row(label):
    text = f"Fare\tMay\tJune\n{label}\nIda\t5\t4\n"
    span = Span("fares.txt", "fares.txt", 0, len(text), text, 1.0)
    assert "Boats" in prepare_passage(span).passage.text
    assert "\t" not in prepare_passage(span).passage.text


def test_what_tabs_indent_is_cited_by_its_own_line(encoder, tmp_path):
    text = "# Inn\n\n- Visitors\n\t\t- No dogs or cats are allowed\n\t\t- Breakfast is at 8 in the hall\n\t\t- Check out by 11 on every day\n"
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(Document("inn.md", "inn.md", text, "Inn", kind="markdown"), progress=False)
        (citation, *_) = engine.ask("Are dogs allowed?").citations
    assert "No dogs or cats" in text[citation.start : citation.end]
