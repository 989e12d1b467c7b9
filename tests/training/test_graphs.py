"""The ONNX graphs that ship are those of the weights beside them, and need no package to build them."""

import os
import shutil
import subprocess
import sys

import pytest

from lmkrag import LandmarkEncoder
from lmkrag.encoder.spec import SHIPPED, find_model
from lmkrag.errors import EncoderError
from lmkrag.reranker.base import DEFAULT_RERANKER
from lmkrag.reranker.folders import find_reranker
from lmkrag.reranker.landmark import LandmarkReranker
from lmkrag.reranker.passages import PassageReranker
from lmkrag.training.calibration import write_encoder_graphs
from pipelines.train.reader_files import write_graphs


def read_graphs(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.onnx")}


def copy_without_graphs(folder, target):
    return shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*.onnx"))


@pytest.mark.parametrize("name", SHIPPED)
def test_the_graphs_of_an_encoder_are_those_that_are_built(name, tmp_path):
    built = copy_without_graphs(find_model(name), tmp_path / "model")
    write_encoder_graphs(built)
    graphs = read_graphs(find_model(name))
    assert set(graphs) == {"float32.onnx", "int8.onnx"}
    assert read_graphs(built) == graphs


def test_the_graphs_of_the_reader_of_passages_are_those_that_are_built(tmp_path):
    built = copy_without_graphs(find_reranker(DEFAULT_RERANKER), tmp_path / "model")
    write_graphs(built)
    graphs = read_graphs(find_reranker(DEFAULT_RERANKER))
    names = {"float32.onnx", "int8.onnx"}
    assert set(graphs) == names | {f"answers/{name}" for name in names}
    assert read_graphs(built) == graphs


WITHOUT_ONNX = """
import sys
sys.modules["onnx"] = None
from lmkrag import LandmarkEncoder
from lmkrag.reranker.base import PlacedText, SHIPPED
from lmkrag.reranker.loading import load_ours
for name in sys.argv[1:]:
    print(LandmarkEncoder.load(name, runtime="onnx").encode_query("who approves leave?").shape)
for name in SHIPPED:
    print(load_ours(name).score("why?", [PlacedText("", "Because.")]).shape)
"""


def test_shipped_models_run_without_the_package(tmp_path):
    command = [sys.executable, "-c", WITHOUT_ONNX, *SHIPPED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ})
    assert done.stdout.split("\n") == ["(384,)", "(384,)", "(1,)", "(1,)", ""], done.stderr


def test_a_model_without_a_graph_is_run_where_it_can_be_built(tmp_path, monkeypatch):
    folder = copy_without_graphs(find_model(None), tmp_path / "model")
    built, shipped = (
        LandmarkEncoder.load(name, runtime="onnx", precision="float32")
        for name in (str(folder), None)
    )
    assert (
        built.encode_query("who approves leave?") == shipped.encode_query("who approves leave?")
    ).all()
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None
    )  # as if nothing was installed
    with pytest.raises(EncoderError, match="ONNX Runtime can't run this model; torch can"):
        LandmarkEncoder.load(str(folder), runtime="onnx")


def test_a_damaged_graph_is_named(tmp_path):
    folder = shutil.copytree(find_model(None), tmp_path / "model")
    graph = folder / "float32.onnx"
    graph.write_bytes(graph.read_bytes()[:-1_000])
    with pytest.raises(
        EncoderError, match=r"float32\.onnx: not the graph of the weights beside it"
    ):
        LandmarkEncoder.load(str(folder), runtime="onnx", precision="float32").encode_query("why?")
    shutil.copyfile(find_model("landmark-multilingual") / "float32.onnx", graph)  # for more words
    with pytest.raises(
        EncoderError, match=r"float32\.onnx: not the graph of the weights beside it"
    ):
        LandmarkEncoder.load(str(folder), runtime="onnx", precision="float32").encode_query("why?")


@pytest.mark.parametrize("kind", [PassageReranker, LandmarkReranker])
def test_a_damaged_graph_of_a_reranker_is_named(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("LMKRAG_PRECISION", "float32")
    reranker = shutil.copytree(find_reranker(kind.load().name), tmp_path / "reranker")
    (reranker / "float32.onnx").write_bytes(b"x")
    with pytest.raises(EncoderError, match=r"float32\.onnx: not the graph"):
        kind.load(str(reranker))
    (reranker / "float32.onnx").unlink()
    with pytest.raises(EncoderError, match=r"can't be loaded as a re-ranker .*float32\.onnx"):
        kind.load(str(reranker))
