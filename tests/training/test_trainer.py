"""Training for real, in miniature: the packaged base, a few steps on the sample set."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from lmkrag import LandmarkEncoder
from lmkrag.encoder.loading import read_config
from lmkrag.encoder.spec import BASE_ENCODER, MULTILINGUAL_ENCODER, find_model
from lmkrag.errors import EncoderError, TrainingError, UsageError
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.models.bert import fuse_weights, is_packed, read_weights
from lmkrag.models.packing import WORDS
from lmkrag.models.quantization import check_ranges, read_ranges
from lmkrag.sentences.split import split_sentences
from lmkrag.training.settings import (
    EvaluationSettings,
    ModelSettings,
    SetSettings,
    StageSettings,
    TrainSettings,
    load_settings,
)
from lmkrag.training.student import average_encoders, pack_encoder
from lmkrag.training.trainer import train
from lmkrag.training.validation import rank_sentences, recall_rows, sample_dataset


@pytest.fixture(scope="module")
def small_base(tmp_path_factory):
    """A BERT of two layers with random weights, with the tokenizer of the packaged base: steps take a tenth."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("base")
    for path in find_model(BASE_ENCODER).glob("*token*"):
        shutil.copyfile(path, folder / path.name)
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    BertModel(BertConfig(vocab_size=30_522, **sizes)).save_pretrained(folder)
    return folder


def make_settings(data, base, folder):
    def stage(name, task, **changes):
        chosen = SetSettings("sample", task, documents=2)
        values = {"steps": 4, "tokens": 256, "windows": [64], "learning_rate": 5e-5}
        return StageSettings(name, [chosen], **(values | changes))

    return TrainSettings(
        out="run",
        data=str(data),
        stages=[
            stage("distant", "pairs"),
            stage("weak", "shuffled"),
            stage("real", "documents", anchor=0.1),
        ],
        model=ModelSettings(base=str(base), window=64),
        keep_base=0.25,
        checkpoint_every=2,
        log_every=1,
        folder=folder,
    )


@pytest.fixture
def settings(sample_set, small_base, tmp_path):
    return make_settings(sample_set.parent, small_base, tmp_path)


@pytest.fixture
def large_settings(settings):
    """For models with a base as large as the shipped ones, without checkpoints, which take as long as the steps."""
    return replace(settings, checkpoint_every=100, keep_base=0.0)


@pytest.fixture(scope="module")
def one_stage(sample_set, small_base, tmp_path_factory):
    """Settings of a run of one stage, which is done."""
    settings = make_settings(sample_set.parent, small_base, tmp_path_factory.mktemp("one"))
    settings = replace(settings, stages=settings.stages[:1])
    train(settings, report_to="tensorboard")
    return settings


def weights(folder):
    return load_file(folder / "model.safetensors")


def assert_trained_alike(one, other, start):
    """The two are the same, or differ by little of what training moved them."""
    start = {name: tensor.half() for name, tensor in start.items()}
    moved = distance(other, start)
    assert moved > 0
    assert distance(one, other) < 0.05 * moved


def distance(one, other):
    return (
        sum(float((one[name].float() - other[name].float()).square().sum()) for name in one) ** 0.5
    )


def test_three_stages_make_an_encoder_that_learnt(large_settings, corpus):
    short = [replace(stage, steps=1) for stage in large_settings.stages[:2]]
    longer = replace(large_settings.stages[2], steps=8)
    shipped = ModelSettings(window=64)
    folder = train(replace(large_settings, model=shipped, stages=[*short, longer]))
    log = json.loads((folder.parent / "real" / "log.json").read_text())
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert len(losses) == 8
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    encoder = LandmarkEncoder.load(str(folder))
    assert (encoder.spec.pooling, encoder.spec.window, encoder.spec.landmark) == (
        "lmk+mean",
        64,
        "<LMK>",
    )
    text = (corpus / "glass-river.txt").read_text()
    sentences, vectors = encoder.encode(text, split_sentences(text))
    best = sentences[
        int(np.argmax(vectors @ encoder.encode_query("Why was it called the Glass River?")))
    ]
    assert "Glass River because" in " ".join(text[best.start : best.end].split())
    assert all(tensor.dtype == torch.float16 for tensor in weights(folder).values())
    assert (
        len({path.stat().st_mode for path in folder.iterdir()}) == 1
    )  # safetensors writes for the owner alone


def test_an_interrupted_run_goes_on_and_ends_the_same(settings, monkeypatch):
    one_stage = replace(settings, stages=settings.stages[2:], keep_base=0.0)
    whole = weights(train(replace(one_stage, out="whole")))

    import transformers

    plain = transformers.Trainer.training_step

    def interrupted(self, *args, **kwargs):
        if self.state.global_step == 3:
            raise KeyboardInterrupt
        return plain(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(transformers.Trainer, "training_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(one_stage)
    out = one_stage.resolve(one_stage.out)
    assert (out / "real" / "checkpoint-2").is_dir()
    assert not (out / "encoder").exists()
    assert_trained_alike(weights(train(one_stage)), whole, weights(out / "start"))


def test_two_processes_train_as_one_that_accumulates(sample_set, small_base, tmp_path):
    """Two stages, so that the second process has to wait for what the first one writes."""
    config = tmp_path / "two.toml"
    stages = [
        STAGE.format(task=task, anchor=anchor)
        for task, anchor in (("pairs", 0.0), ("documents", 0.1))
    ]
    config.write_text(
        RUN.format(data=json.dumps(str(sample_set.parent)), base=json.dumps(str(small_base)))
        + "".join(stages)
    )
    settings = load_settings(config)
    accumulating = [replace(stage, accumulate=2) for stage in settings.stages]
    alone = train(replace(settings, out="one", stages=accumulating))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node=2",
            "-m",
            "lmkrag",
            "train",
            str(config),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(tmp_path / "two" / "encoder")]  # said once
    assert_trained_alike(
        weights(tmp_path / "two" / "encoder"), weights(alone), weights(alone.parent / "start")
    )


RUN = """
out = "two"
data = {data}
precision = "float32"
keep_base = 0.25
checkpoint_every = 2

[model]
base = {base}
window = 64
"""
STAGE = """
[[stages]]
name = "{task}"
sets = [{{path = "sample", task = "{task}", documents = 2}}]
steps = 2
tokens = 256
windows = [64]
learning_rate = 5e-5
anchor = {anchor}
"""


def test_a_done_run_is_not_run_again(one_stage):
    log = one_stage.resolve("run/distant/log.json")
    before = log.stat().st_mtime_ns
    assert train(one_stage) == one_stage.resolve("run/encoder")
    assert log.stat().st_mtime_ns == before


def test_another_configuration_does_not_resume(one_stage):
    with pytest.raises(UsageError, match="holds a run of other settings"):
        train(replace(one_stage, seed=7))


def test_a_folder_with_other_things_is_left_alone(settings, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty, and no training run"):
        train(settings)


def test_a_loss_that_is_not_finite_stops_the_run(settings):
    broken = replace(settings.stages[0], learning_rate=1e30)
    with pytest.raises(TrainingError, match="stage 'distant': the loss is not finite after step"):
        train(replace(settings, stages=[broken], precision="float32"))
    assert not (settings.resolve("run") / "encoder").exists()


def test_recall_is_watched_and_the_best_weights_are_kept(settings, sample_set):
    """At a rate this high recall falls as training goes on: what is kept must be what was best, not what came last."""
    watched = replace(
        settings.stages[2], steps=4, evaluate_every=2, patience=9, learning_rate=4e-3, warmup=0.0
    )
    chosen = EvaluationSettings(sets=[str(sample_set)], queries=18)
    shipped = ModelSettings(window=64)
    run = replace(
        settings,
        model=shipped,
        stages=[watched],
        evaluation=chosen,
        keep_base=0.0,
        precision="float32",
    )
    folder = train(run)
    log = json.loads((folder.parent / "real" / "log.json").read_text())
    recalls = [entry["eval_recall"] for entry in log if "eval_recall" in entry]
    assert len(recalls) == 2
    assert abs(recalls[0] - recalls[1]) > 3  # so that one can be told from the other
    dataset = sample_dataset(load_dataset(sample_set), chosen.characters, chosen.queries)
    encoder = LandmarkEncoder.load(str(folder), dtype=torch.float32)
    recall = 100 * recall_rows(dataset, rank_sentences(encoder, dataset, within=False)).mean()
    assert recall == pytest.approx(max(recalls), abs=2)


def test_tensorboard_gets_the_losses(one_stage):
    assert list(one_stage.resolve("run").rglob("events.out.tfevents.*"))


def test_an_encoder_can_be_run_in_int8_when_it_is_trained(one_stage):
    folder = one_stage.resolve(one_stage.out) / "encoder"
    layers = read_config(folder)["num_hidden_layers"]
    check_ranges(
        read_ranges(folder),
        fuse_weights(read_weights(folder / "model.safetensors"), layers),
        layers,
    )


def test_averaging_is_the_weighted_mean(one_stage):
    start, trained, mean = (
        one_stage.resolve(f"run/{name}") for name in ("start", "distant/encoder", "encoder")
    )
    name = "encoder.layer.0.output.dense.weight"
    expected = 0.25 * weights(start)[name] + 0.75 * weights(trained)[name]
    torch.testing.assert_close(
        weights(mean)[name].float(), expected, rtol=1e-3, atol=1e-6
    )  # of float16
    assert not torch.equal(weights(start)[name], weights(trained)[name])


def test_weights_that_are_not_finite_are_not_saved(one_stage, tmp_path):
    start = shutil.copytree(one_stage.resolve("run/start"), tmp_path / "start")
    tensors = weights(start)
    tensors["embeddings.LayerNorm.weight"][0] = float("nan")
    save_file(tensors, start / "model.safetensors", {"format": "pt"})
    with pytest.raises(EncoderError, match="not finite"):
        average_encoders([start], [1.0], tmp_path / "out")


def test_a_decoder_is_trained_end_to_end(settings, small_decoder):
    model = ModelSettings(base=str(small_decoder), pooling="lmk", window=64)
    stage = replace(settings.stages[2], learning_rate=5e-3, steps=6)
    folder = train(replace(settings, model=model, stages=[stage], keep_base=0.0))
    encoder = LandmarkEncoder.load(str(folder), dtype=torch.float32)
    # A landmark's state sees all text before it, and none after it.
    first, second = "The gate opens at nine. ", "It shuts at noon. "
    alone = encoder.encode(first, split_sentences(first))[1]
    followed = encoder.encode(first + second, split_sentences(first + second))[1]
    preceded = encoder.encode(second, split_sentences(second))[1]
    np.testing.assert_allclose(alone[0], followed[0], atol=1e-5)
    assert np.abs(preceded[0] - followed[1]).max() > 1e-3
    start, trained = weights(folder.parent / "start"), weights(folder)
    moved = [name for name in trained if not torch.equal(start[name].half(), trained[name])]
    assert any("q_proj" in name for name in moved)
    assert any("embed_tokens" in name for name in moved)


def test_an_encoder_of_fewer_layers_imitates_the_one_it_was_cut_from(large_settings, corpus):
    model = ModelSettings(base="landmark-mini", layers=[0, 2, 5], window=64)
    stage = replace(large_settings.stages[2], steps=8, anchor=1.0, imitation=1.0)
    folder = train(replace(large_settings, model=model, stages=[stage]))
    assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == 3
    text = (corpus / "glass-river.txt").read_text()
    sentences = split_sentences(text)
    _, taught = LandmarkEncoder.load("landmark-mini", window=64).encode(text, sentences)

    def likeness(encoder):
        return float(
            (LandmarkEncoder.load(str(encoder), window=64).encode(text, sentences)[1] * taught)
            .sum(1)
            .mean()
        )

    assert likeness(folder.parent / "start") < likeness(folder) < 0.999


def test_a_thorough_teacher_is_the_encoder_that_a_stage_begins_with(settings, monkeypatch):
    from lmkrag.training import trainer

    first = replace(settings.stages[2], name="first", steps=2)
    second = replace(settings.stages[2], steps=2, anchor=0.0, imitation=1.0, thorough=True)
    teachers = []

    class Recorded(trainer.LandmarkObjective):  # type: ignore[misc,name-defined]
        def __init__(self, student, stage, teacher):
            teachers.append(
                {name: value.clone() for name, value in teacher.backbone.state_dict().items()}
            )
            super().__init__(student, stage, teacher)

    monkeypatch.setattr(trainer, "LandmarkObjective", Recorded)
    folder = train(replace(settings, stages=[first, second], keep_base=0.0))
    begun = weights(folder.parent / "first" / "encoder")
    assert all(torch.equal(teachers[1][name], value.float()) for name, value in begun.items())
    one = "encoder.layer.0.output.dense.weight"
    assert not torch.equal(teachers[0][one], begun[one])
    assert not torch.equal(weights(folder)[one], begun[one])


def test_frozen_words_stay_as_they_are(large_settings):
    stage = replace(large_settings.stages[2], steps=2, freeze_words=True)
    folder = train(
        replace(
            large_settings, model=ModelSettings(base="landmark-mini", window=64), stages=[stage]
        )
    )
    after = weights(folder)
    before = {
        name: torch.from_numpy(value).half()
        for name, value in read_weights(find_model("landmark-mini") / "model.safetensors").items()
    }
    assert torch.equal(after[WORDS], before[WORDS])
    moved = {name for name in before if not torch.equal(after[name], before[name])}
    assert {name.split(".")[2] for name in moved if name.startswith("encoder.layer")} == {
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
    }


def test_an_encoder_of_a_packed_base_is_packed(large_settings, tmp_path):
    stage = replace(large_settings.stages[2], steps=2, learning_rate=1e-3, freeze_words=True)
    model = ModelSettings(
        base=MULTILINGUAL_ENCODER, landmark="</s>", query_prefix="query: ", window=64
    )
    folder = train(replace(large_settings, model=model, stages=[stage]))
    base = find_model(MULTILINGUAL_ENCODER)
    assert is_packed(folder)
    assert (folder / "model.safetensors").stat().st_size < 1.1 * (
        base / "model.safetensors"
    ).stat().st_size
    after, before = (read_weights(path / "model.safetensors") for path in (folder, base))
    np.testing.assert_array_equal(after[WORDS], before[WORDS])
    name = "encoder.layer.0.output.dense.weight"
    assert 0 < np.abs(after[name] - before[name]).max() < 0.05
    assert LandmarkEncoder.load(str(folder)).encode_queries(["Wann?"]).shape == (1, 384)
    with pytest.raises(EncoderError, match="train with freeze_words"):
        pack_encoder(shutil.copytree(find_model("landmark-mini"), tmp_path / "other"), base)
