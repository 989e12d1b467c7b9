"""Training a decoder by products of low rank, in miniature: packed, trained, written as an encoder, and read."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lmkrag import LandmarkEncoder
from lmkrag.encoder.windows import plan_windows
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.sentences.split import split_sentences
from lmkrag.training.settings import ModelSettings
from lmkrag.training.student import create_student, load_student
from pipelines.train.decoder_base import decode_4_bits, decode_8_bits, order_rows
from pipelines.train.documents import Documents
from pipelines.train.low_rank import Adapter, merge_adapter
from pipelines.train.watch import read

RANK, WINDOW = 4, 128
RECIPE = """
out = "run"
data = {data}

[[stages]]
name = "documents"
steps = 1
sets = [{{path = "sample", task = "documents"}}]
"""


@pytest.fixture(scope="module")
def start(small_decoder, tmp_path_factory):
    """The decoder with a landmark token."""
    folder = tmp_path_factory.mktemp("start")
    create_student(
        ModelSettings(base=str(small_decoder), pooling="lmk", window=WINDOW, overlap=0.0), folder
    )
    return folder


def read_packed(data, student, number):
    """The vectors of a packed document's sentences, as training computes them."""
    ids, title = data.sets[0].document(number).ids, data.sets[0].titles[number]
    plan = plan_windows(map(len, ids), budget=WINDOW - len(title), overlap=0.0)
    windows = [ids[part.first : part.stop] for part in plan]
    with torch.no_grad():
        return torch.cat(
            [read(student, data.special, [window], [title]) for window in windows]
        ).numpy()


def test_what_is_written_reads_documents_as_training_did(start, sample_set, tmp_path, run_module):
    recipe, packed, trained, out = (
        tmp_path / name for name in ("recipe.toml", "data.npz", "run", "encoder")
    )
    recipe.write_text(RECIPE.format(data=json.dumps(str(sample_set.parent))))
    run_module("pack_documents", recipe, packed, "--encoder", start)
    options = f"--rank {RANK} --windows {WINDOW} --steps 3 --tokens 256 --accumulate 1 --learning-rate 0.1"
    run_module(
        "train_landmarks", packed, trained, "--start", start, "--watch", packed, *options.split()
    )
    first, *_, last = (trained / "log.txt").read_text().splitlines()
    assert first.startswith("before: sample ")
    assert last.startswith("after: sample ")
    weights = trained / "model.safetensors"
    weights.write_bytes(b"".join(part.read_bytes() for part in sorted(trained.glob("part-*"))))
    run_module("encoder_files", start, weights, out)

    data = Documents(packed)
    landmark = data.special.landmark[0]
    student = load_student(start)
    student.backbone.eval()
    untrained = [read_packed(data, student, number) for number in range(len(data.sets[0]))]
    adapter = Adapter(student.backbone, landmark, RANK)
    adapter.load_state_dict(torch.load(trained / "last.pt")["model"])
    assert not any(parameter.requires_grad for parameter in student.backbone.parameters())
    before, after = (
        LandmarkEncoder.load(str(folder), dtype=torch.float32) for folder in (start, out)
    )
    by_title = {
        tuple(after.tokens.title(document.title)): document
        for document in load_dataset(sample_set).documents
    }
    for number, title in enumerate(data.sets[0].titles):
        document = by_title[tuple(title)]
        for encoder, expected, error in (
            (before, untrained[number], 1e-5),
            (after, read_packed(data, student, number), 2e-3),
        ):
            sentences = split_sentences(document.text, kind=document.kind)
            _, vectors = encoder.encode(document.text, sentences, title=document.title)
            np.testing.assert_allclose(vectors, expected, atol=error)
        assert np.abs(vectors - untrained[number]).max() > 0.05  # far more than float16 rounds


def test_an_adapter_that_has_learnt_nothing_changes_nothing(start):
    weights = {
        name: value.numpy() for name, value in load_file(start / "model.safetensors").items()
    }
    landmark = len(weights["embed_tokens.weight"]) - 1
    adapter = Adapter(load_student(start).backbone, landmark, RANK)
    trained = {name: value.numpy() for name, value in adapter.state_dict().items()}
    merged = merge_adapter(weights, trained, landmark)
    assert merged.keys() == weights.keys()
    for name, value in weights.items():
        np.testing.assert_array_equal(merged[name], value)


@pytest.mark.parametrize(("kind", "decode"), [("Q4_1", decode_4_bits), ("Q8_0", decode_8_bits)])
def test_blocks_of_few_bits_are_read_as_gguf_reads_them(kind, decode):
    from gguf import GGMLQuantizationType, quants

    matrix = np.random.default_rng(0).normal(size=(6, 64)).astype(np.float32)
    rows = quants.quantize(matrix, GGMLQuantizationType[kind])
    np.testing.assert_array_equal(decode(rows), quants.dequantize(rows, GGMLQuantizationType[kind]))


def test_rows_of_heads_are_ordered_by_halves():
    ordered = order_rows(np.arange(128)[:, None])[:, 0].tolist()
    assert ordered == [*range(0, 64, 2), *range(1, 64, 2), *range(64, 128, 2), *range(65, 128, 2)]
