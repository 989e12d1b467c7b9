"""Training a re-ranker for real, in miniature, and what it is exported to."""

import json
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import train_reranker as recipe
from mined_passages import ANSWERS, MinedPassage
from mining import mine_passages
from pack_passages import join_answers, shared_words
from place_steps import collate_places
from reranker_files import save_reranker
from reranker_model import RerankerModel
from reranker_settings import RerankerSet, RerankerSettings, load_reranker_settings
from reranker_steps import RerankerData, lay_out, make_unanswerable
from tokenizers import Tokenizer
from train_sentences import SentenceData, align_values, find_landmarks

from lmkrag import Engine
from lmkrag.encoder.spec import find_model
from lmkrag.errors import UsageError
from lmkrag.evaluation.dataset import write_records
from lmkrag.models.bert import read_weights
from lmkrag.models.packing import WORDS
from lmkrag.models.quantization import check_ranges, read_ranges
from lmkrag.reranker.base import RerankPassage
from lmkrag.reranker.landmark import LandmarkReranker, PairTokenizer, find_reranker, read_body

RECIPES = Path(__file__).parents[2] / "pipelines" / "train"
QUESTION = "How often is the clockwork wound?"
PASSAGE = RerankPassage(
    "The lamp", ("It is wound every three hours. ", "The lens is wiped with leather. ", "Nobody sings.")
)


def run_script(name, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(RECIPES / name), run_name="__main__")


@pytest.fixture(scope="module")
def settings(sample_set, tmp_path_factory):
    return RerankerSettings(
        out="run",
        data=str(sample_set.parent),
        sets=[RerankerSet("sample", strings=True)],
        steps=2,
        layers=2,
        questions=3,
        checkpoint_every=1,
        log_every=1,
        folder=tmp_path_factory.mktemp("reranker"),
    )


@pytest.fixture(scope="module")
def mined(settings):
    return mine_passages(settings, settings.sets[0])


def test_passages_hold_the_evidence_and_near_misses(mined, sample_set):
    assert len(mined) >= 5
    for question, passages in mined:
        assert any(ANSWERS in passage.labels for passage in passages), question
        for passage in passages:
            assert len(passage.sentences) == len(passage.scores) == len(passage.labels)
            for number, start, end in passage.answers:
                assert passage.labels[number] == ANSWERS
                assert 0 <= start < end <= len(passage.sentences[number])
    assert sum(ANSWERS not in passage.labels for _, passages in mined for passage in passages) > len(mined)


def test_questions_of_other_languages_are_searched_with_their_words(tmp_path):
    texts = {
        "haus": "Die Häuser am Hafen wurden 1890 gebaut. Nach dem Feuer zogen die Fischer in die Oberstadt.",
        "boot": "Drei Boote liegen im Winter an Land. Im Mai werden sie gestrichen und kalfatert.",
    }
    rest = " Der Wärter schreibt jeden Abend auf, wie hoch das Wasser steht und welche Schiffe er gesehen hat."
    texts = {name: text + 3 * rest for name, text in texts.items()}  # enough to tell the language from
    start = texts["haus"].index("Die Häuser")
    spans = [[start, start + len("Die Häuser am Hafen wurden 1890 gebaut.")]]
    folder = tmp_path / "set"
    folder.mkdir()
    write_records(folder / "docs.jsonl.gz", ({"doc_id": k, "title": "", "text": v} for k, v in texts.items()))
    question = "Haus"
    write_records(folder / "queries.jsonl.gz", [{"query_id": "1", "query": question, "doc_id": "haus", "spans": spans}])
    settings = RerankerSettings(
        out="run", data=str(tmp_path), sets=[RerankerSet("set")], steps=1, base="landmark-multilingual", folder=tmp_path
    )
    (mined,) = mine_passages(settings, settings.sets[0])
    with Engine.open(tmp_path / "run" / "indexes" / "set") as engine:
        best = engine.search(question, level="sentence", top_k=1, rerank=False)[0]
    assert "Häuser" in best.text
    scores = [score for passage in mined.passages for score in passage.scores]
    assert max(scores) == pytest.approx(best.score, abs=1e-4)


def test_the_words_of_a_packed_base_are_not_written_again(tmp_path, sample_set):
    settings = RerankerSettings(
        out="run",
        data=str(sample_set.parent),
        sets=[],
        steps=1,
        layers=1,
        base="landmark-multilingual",
        passage_tokens=400,
        folder=tmp_path,
    )
    model = RerankerModel(settings)
    save_reranker(model, settings, tmp_path / "reranker")
    assert (tmp_path / "reranker" / "model.safetensors").stat().st_size < 4_000_000  # a layer in 8 bits, not in 16
    loaded = LandmarkReranker.load(str(tmp_path / "reranker"))
    passage = RerankPassage("", ("Das Lager hat zu. ",) * 40 + ("Äpfel werden im Mai gepflückt.",))
    (reading,) = loaded.read("Wann werden Äpfel gepflückt?", [passage])
    assert reading.answers[-1] > -10  # after 240 tokens, too


def test_a_step_is_a_function_of_its_number(settings, mined):
    tokens = PairTokenizer(Tokenizer.from_file(str(find_model(None) / "tokenizer.json")), "<LMK>")
    data = RerankerData(settings, [mined], tokens, 1)
    one, again, other = data[0], data[0], data[1]
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(one.batches, again.batches, strict=True))
    assert [len(batch.ids) for batch in one.batches] != [] and len(data) == settings.steps
    assert one.batches[0].ids.shape != other.batches[0].ids.shape or not torch.equal(
        one.batches[0].ids, other.batches[0].ids
    )


def test_a_short_run_writes_what_loads_and_goes_on_from_a_checkpoint(settings, mined, monkeypatch):
    monkeypatch.setattr(recipe, "_QUESTIONS", 2)
    folder = recipe.train_reranker(settings)
    trained = LandmarkReranker.load(str(folder))
    check_ranges(read_ranges(folder), read_body(folder, find_model(None), settings.layers)[1], settings.layers)
    assert np.isfinite(trained.score(QUESTION, [PASSAGE])[0]).all()
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1  # safetensors writes for the owner alone
    weights = (folder / "model.safetensors").read_bytes()
    recipe.train_reranker(settings)  # done: nothing changes
    assert (folder / "model.safetensors").read_bytes() == weights
    further = replace(settings, out="further", start="run/reranker", steps=1)
    (settings.folder / "further").mkdir()
    (settings.folder / "further" / "mined").symlink_to(settings.folder / "run" / "mined")
    assert LandmarkReranker.load(str(recipe.train_reranker(further)))


@pytest.fixture(scope="module")
def packed(settings, mined):
    path = settings.folder / "passages.npz"
    run_script("pack_passages.py", settings.folder / "run" / "mined", path)
    return path


@pytest.mark.parametrize(("titles", "passage_tokens"), [(0.0, 240), (1.0, 240), (1.0, 60)])
def test_packed_passages_are_laid_out_as_a_search_does(packed, mined, titles, passage_tokens):
    tokens = PairTokenizer(Tokenizer.from_file(str(find_model(None) / "tokenizer.json")), "<LMK>", passage_tokens)
    data = SentenceData(packed, 0, titles, passage_tokens)
    marked = 0
    ordered = sorted(mined, key=lambda each: shared_words(each.question, join_answers(each.passages)))
    for number, (question, passages) in enumerate(ordered):
        ids = data.text(data.arrays["question"][number])
        for place, passage in enumerate(passages, int(data.starts["passage"][number])):
            row = data.lay_out(ids, place, data.title(place, np.random.default_rng(0)), number)
            pair = tokens.pair(question, RerankPassage(passage.title if titles else "", passage.sentences))
            expected = lay_out(pair, passage, number)
            for name in ("ids", "owners", "question", "labels", "answers", "number"):
                np.testing.assert_array_equal(getattr(row, name), getattr(expected, name), name)
            np.testing.assert_allclose(row.scores, expected.scores, atol=1e-3)
            marked += len(row.answers)
    assert marked


def test_the_teacher_reads_what_the_student_reads(packed):
    data = SentenceData(packed, 0, 0.5)
    step = data.sentence_step(0, questions=6, passages=4, unanswerable=1.0, taught=True)
    assert not step.places.answerable.all()
    for batch, text in zip(step.places.batches, step.texts, strict=True):
        landmarks = find_landmarks(batch.owners)
        assert torch.equal(landmarks, (batch.ids == data.landmark) & (batch.owners >= 0))
        places = (batch.owners >= 0) & ~landmarks
        assert torch.equal(align_values(text.ids[..., None], text, places)[..., 0], batch.ids * places)
        assert torch.equal(text.question, batch.question)


def test_training_on_packed_passages_begins_with_the_scores_of_its_start(settings, packed, tmp_path, monkeypatch):
    torch.manual_seed(2)
    model, start, run, out = RerankerModel(settings), *(tmp_path / name for name in ("start", "run", "out"))
    torch.nn.init.normal_(model.head.out.weight, std=2.0)
    save_reranker(model, settings, start, packed=True)
    teacher = find_reranker("landmark-reranker-l12")
    options = ["--steps", 1, "--learning-rate", 0, "--questions", 2, "--teacher", teacher]
    run_script("train_sentences.py", packed, run, "--start", start, *options)
    (run / "part-00").rename(run / "model.safetensors")
    monkeypatch.setattr(recipe, "_QUESTIONS", 1)
    mined = settings.folder / "run" / "mined"
    run_script("sentence_reranker.py", run, out, "--start", start, "--mined", mined)
    monkeypatch.setenv("LMKRAG_PRECISION", "float32")
    before, after = (LandmarkReranker.load(str(folder)).score(QUESTION, [PASSAGE])[0] for folder in (start, out))
    assert np.ptp(before) > 0.5
    np.testing.assert_allclose(before, after, atol=0.02)  # the layers are in 8 bits


def test_numpy_says_what_torch_says(settings, tmp_path):
    settings = replace(settings, base="landmark-mini")
    torch.manual_seed(1)
    model = RerankerModel(settings).eval()
    words = read_weights(find_model("landmark-mini") / "model.safetensors", only=WORDS)[WORDS]
    np.testing.assert_array_equal(model.bert.get_input_embeddings().weight.detach(), words)
    for module in (model.head.out, model.head.match, model.head.ends, model.head.weigh):
        torch.nn.init.normal_(module.weight, std=0.2)
    save_reranker(model, settings, tmp_path / "saved")
    model.half().float()  # the rounding of the file
    loaded = LandmarkReranker.load(str(tmp_path / "saved"))
    (reading,) = loaded.read(QUESTION, [PASSAGE])
    pair = loaded._tokens.pair(QUESTION, PASSAGE)
    mined = MinedPassage(*PASSAGE, (0.0,) * 3, (0.0,) * 3, (0,) * 3, (True,) * 3, (), 1, 1)
    batch = collate_places([lay_out(pair, mined, 0)])
    with torch.no_grad():
        scores, ends = model.read(batch)
    np.testing.assert_allclose(reading.rank, scores[0, :, 0], atol=5e-3)
    np.testing.assert_allclose(reading.answers, scores[0, :, 1], atol=5e-3)
    inside = torch.from_numpy(pair.owners) >= 0
    first, last = ends[0].masked_fill(~inside[:, None], -1e4).log_softmax(0).T
    start, end = reading.short[0]
    tokens = [k for k in np.flatnonzero(pair.owners == 0) if start <= pair.offsets[k, 0] < pair.offsets[k, 1] <= end]
    assert float(first[tokens[0]] + last[tokens[-1]]) == pytest.approx(reading.strength[0], abs=2e-2)


def test_a_question_made_unanswerable():
    rng = np.random.default_rng(0)
    texts = ["Anna Berg planted the orchard in 1892, and Ivar Moe the hedge in 1901."]
    assert make_unanswerable("What did Anna Berg plant?", texts, rng) == "What did Ivar Moe plant?"
    assert make_unanswerable("Who planted a tree in 1892?", texts, rng) == "Who planted a tree in 1901?"
    assert make_unanswerable("Which tree is the oldest?", texts, rng) == "Which tree is the newest?"
    assert make_unanswerable("why?", texts, rng) is None
    burnt = ["Bergen burned in 1702, Oslo in 1624."]
    assert make_unanswerable("When did Bergen burn?", burnt, np.random.default_rng(0)) == "When did Oslo burn?"


GOOD = '[reranker]\nout = "run"\ndata = "{data}"\nsteps = 2\nsets = [{{ path = "sample" }}]\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 2", "steps = 0", "steps must be above 0"),
        ("steps = 2", "stepps = 2", "unknown key 'stepps'"),
        ("steps = 2", "steps = 2\npassages = 1", "passages must be above 1"),
        ("steps = 2", 'steps = 2\nprecision = "int8"', "precision must be one of auto, float32, bfloat16"),
        ("steps = 2", "steps = 2\ntitles = 2", r"titles must be in \[0, 1\]"),
        ("sample", "none", "no such set"),
        ("[reranker]", "[other]\n[reranker]", r"beside \[reranker\] there must be nothing"),
    ],
)
def test_settings_that_make_no_sense(sample_set, tmp_path, old, new, message):
    path = tmp_path / "train.toml"
    path.write_text(GOOD.format(data=sample_set.parent).replace(old, new))
    with pytest.raises(UsageError, match=message):
        load_reranker_settings(path)


def test_the_command_line_trains_one(sample_set, settings, mined, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mined").symlink_to(settings.folder / "run" / "mined")
    config = tmp_path / "train.toml"
    config.write_text(GOOD.format(data=sample_set.parent).replace("steps = 2", "steps = 1\nlayers = 1\nquestions = 2"))
    run_script("train_reranker.py", config)
    assert capsys.readouterr().out.strip() == str(tmp_path / "run" / "reranker")
    assert json.loads((tmp_path / "run" / "reranker" / "reranker.json").read_text())["layers"] == 1


def test_the_command_line_names_a_bad_configuration(tmp_path, capsys):
    config = tmp_path / "train.toml"
    config.write_text("[reranker]\nstepps = 1\n")
    with pytest.raises(SystemExit) as ended:
        run_script("train_reranker.py", config)
    assert ended.value.code == 2
    assert f"error: {config}: reranker: unknown key 'stepps'" in capsys.readouterr().err
