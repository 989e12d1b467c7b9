"""Training the listwise model for real, in miniature, and what it is exported to."""

import runpy
import shutil
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from listwise_model import ListwiseData, ListwiseSettings, ListwiseTrainee, keep_passages, measure_features
from mined_passages import ANSWERS, UNKNOWN
from mining import mine_passages
from reranker_settings import RerankerSet
from train_listwise import load_settings, read_list, train_listwise

from lmkrag.errors import UsageError
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.reranker.landmark import LandmarkReranker, find_reranker
from lmkrag.reranker.listwise import WEIGHTS, ListwiseModel, describe_sentences, normalize_features

RECIPES = Path(__file__).parents[2] / "pipelines" / "train"


@pytest.fixture(scope="module")
def settings(sample_set, tmp_path_factory):
    return ListwiseSettings(
        out="run",
        data=str(sample_set.parent),
        sets=[RerankerSet("sample", questions=6)],
        steps=2,
        size=8,
        questions=3,
        checkpoint_every=1,
        log_every=1,
        folder=tmp_path_factory.mktemp("listwise"),
    )


@pytest.fixture(scope="module")
def lists(settings):
    reranker = LandmarkReranker.load()
    return [read_list(question, reranker) for question in mine_passages(settings, settings.sets[0])]


def test_a_list_holds_every_sentence_once(lists):
    assert len(lists) >= 5
    for read, labels in lists:
        assert (np.diff(read.sentences) > 0).all()
        assert {len(values) for values in read} == {len(labels)}
        assert ANSWERS in labels


def test_what_the_search_did_not_score_is_left_out(settings):
    question = mine_passages(settings, settings.sets[0])[0]
    first = question.passages[0]
    scored = (False, *first.scored[1:])
    changed = question._replace(passages=(first._replace(scored=scored), *question.passages[1:]))
    reranker = LandmarkReranker.load()
    all_of_it, less = (read_list(one, reranker).read for one in (question, changed))
    assert set(all_of_it.sentences.tolist()) - set(less.sentences.tolist()) <= {first.first}
    assert first.first in all_of_it.sentences[all_of_it.passages == 0]
    assert first.first not in less.sentences[less.passages == 0]


def test_a_search_that_stopped_early_has_the_first_passages(lists):
    one = max(lists, key=lambda one: one.read.passages.max())
    kept = keep_passages(one, 1)
    assert set(kept.read.passages.tolist()) == {0}
    np.testing.assert_array_equal(kept.labels, one.labels[one.read.passages == 0])


def test_a_step_is_a_function_of_its_number(settings, lists):
    mean, deviation = measure_features([lists])
    data = ListwiseData(replace(settings, steps=2, seed=1), [lists], mean, deviation, 2)
    assert len(data) == 4
    assert torch.equal(data[0].features, data[0].features)
    assert not torch.equal(data[0].real, data[1].real) or not torch.equal(data[0].features, data[1].features)
    step = data[0]
    assert (step.labels[~step.real] == UNKNOWN).all()
    assert (step.features[~step.real] == 0).all()


def test_a_set_of_more_weight_has_more_questions(settings, lists):
    mean, deviation = measure_features([lists])
    marked, unmarked = ([one._replace(labels=np.full_like(one.labels, label)) for one in lists] for label in (1, 0))
    sets = [RerankerSet("sample", weight=9.0), RerankerSet("sample", weight=1.0)]
    step = ListwiseData(replace(settings, questions=40, sets=sets), [marked, unmarked], mean, deviation, 1)[0]
    assert 28 <= int((step.labels == ANSWERS).any(1).sum()) < 40


def test_the_loss_falls_when_evidence_rises(settings, lists):
    mean, deviation = measure_features([lists])
    torch.manual_seed(0)
    model = ListwiseTrainee(mean, deviation, size=8, layers=1, members=2, dropout=0.0)
    step = ListwiseData(replace(settings, questions=6), [lists], mean, deviation, 1)[0]
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(30):
        loss = model(step)["loss"]
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0]


def test_onnx_says_what_torch_says(lists, tmp_path):
    mean, deviation = measure_features([lists])
    torch.manual_seed(1)
    model = ListwiseTrainee(mean, deviation, size=16, layers=2, members=3, dropout=0.1).eval()
    (tmp_path / "reranker.json").write_text("{}")
    model.save(tmp_path)
    model.half().float()  # the rounding of the file
    loaded = ListwiseModel.load(tmp_path)
    read, _ = lists[0]
    features = torch.from_numpy(normalize_features(describe_sentences(read), mean, deviation))[None]
    padded = torch.cat([features, torch.zeros(1, 3, len(mean))], 1)  # padding changes nothing
    known = torch.arange(padded.shape[1])[None] < features.shape[1]
    with torch.no_grad():
        logits = model.read(padded, known).mean(0)[0, : features.shape[1]]
    np.testing.assert_allclose(loaded.score(read), logits, atol=1e-4)


def test_a_short_run_writes_a_reranker_that_loads(settings):
    folder = train_listwise(settings)
    trained = LandmarkReranker.load(str(folder))
    assert (folder / "model.safetensors").read_bytes() == (find_reranker(None) / "model.safetensors").read_bytes()
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1
    assert trained._listwise is not None
    weights = (folder / WEIGHTS).read_bytes()
    assert weights != (find_reranker(None) / WEIGHTS).read_bytes()
    train_listwise(settings)  # done: nothing changes
    assert (folder / WEIGHTS).read_bytes() == weights


def test_documents_that_are_skipped_are_not_mined(settings, sample_set):
    documents = load_dataset(sample_set).documents
    half = sum(len(document.text) for document in documents) // 2
    other = replace(settings, out="other", sets=[RerankerSet("sample", skip=half)])
    first = replace(settings, out="first", sets=[RerankerSet("sample", characters=half)])
    skipped, kept = (
        {passage.title for question in mine_passages(one, one.sets[0]) for passage in question.passages}
        for one in (other, first)
    )
    assert skipped and kept and not skipped & kept


def test_the_recipe_skips_what_the_re_ranker_learnt_from():
    with (RECIPES / "landmark-reranker.toml").open("rb") as file:
        read = tomllib.load(file)["reranker"]
    with (RECIPES / "landmark-listwise.toml").open("rb") as file:
        compared = tomllib.load(file)["listwise"]
    assert read.get("seed", 0) == compared.get("seed", 0)  # the order of documents is the seed's
    characters = {chosen["path"]: chosen.get("characters", RerankerSet("").characters) for chosen in read["sets"]}
    assert all(chosen["skip"] >= characters[chosen["path"]] for chosen in compared["sets"])


GOOD = '[listwise]\nout = "run"\ndata = "{data}"\nsteps = 1\nsize = 8\nquestions = 2\nsets = [{{ path = "sample" }}]\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 1", "steps = 0", "steps must be above 0"),
        ("steps = 1", "stepps = 2", "unknown key 'stepps'"),
        ("size = 8", "size = 10", "size must be a multiple of 4 above 0"),
        ("size = 8", "members = 0", "members must be above 0"),
        ("size = 8", "dropout = 1", r"dropout must be in \[0, 1\)"),
        ("sample", "none", "no such set"),
        ("[listwise]", "[other]\n[listwise]", r"beside \[listwise\] there must be nothing"),
    ],
)
def test_settings_that_make_no_sense(sample_set, tmp_path, old, new, message):
    path = tmp_path / "train.toml"
    path.write_text(GOOD.format(data=sample_set.parent).replace(old, new))
    with pytest.raises(UsageError, match=message):
        load_settings(path)


def test_the_command_line_trains_one_for_a_folder(sample_set, settings, lists, tmp_path, monkeypatch, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mined").symlink_to(settings.folder / "run" / "mined")
    shutil.copytree(find_reranker(None), tmp_path / "mine", ignore=shutil.ignore_patterns(WEIGHTS))
    config = tmp_path / "train.toml"
    config.write_text(GOOD.format(data=sample_set.parent) + 'reranker = "mine"\n')
    monkeypatch.setattr(sys, "argv", ["train_listwise.py", str(config)])
    runpy.run_path(str(RECIPES / "train_listwise.py"), run_name="__main__")
    assert capsys.readouterr().out.strip() == str(tmp_path / "run" / "reranker")
    assert (tmp_path / "run" / "reranker" / WEIGHTS).is_file()
