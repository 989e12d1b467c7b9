"""vLLM needs a GPU and its extra; without them the reader says which."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest

from lmkrag.errors import MissingExtra
from lmkrag.readers.choose import load_reader
from lmkrag.readers.prompt import NOT_IN_DOCUMENTS
from lmkrag.readers.vllm import VllmReader


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_without_vllm_the_extra_is_named(causal_model):
    with pytest.raises(MissingExtra, match=r"vllm is not installed: pip install 'lmkrag\[vllm\]'"):
        load_reader("vllm", model=str(causal_model))


def test_with_vllm_on_a_gpu_a_batch_is_answered(causal_model):
    torch = pytest.importorskip("torch")
    pytest.importorskip("vllm", reason="needs the vllm extra")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    from lmkrag.results import Span

    span = Span("a.md", "/a.md", 0, 45, "Bonfires are allowed only in the iron basket.", 1.0)
    reader = load_reader("vllm", model=str(causal_model), max_tokens=60)
    answers = list(reader.answer_each(["Where?", "When?"], [[span], []]))  # type: ignore[attr-defined]
    assert [answer.found for answer in answers] == [True, False]


def test_without_passages_a_batch_says_so(monkeypatch):
    monkeypatch.setitem(
        sys.modules, "vllm", SimpleNamespace(LLM=lambda **_: None, SamplingParams=lambda **_: None)
    )
    (answer,) = VllmReader("a/model").answer_each(["When?"], [[]])
    assert (answer.text, answer.found) == (NOT_IN_DOCUMENTS, False)
