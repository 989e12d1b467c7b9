"""vLLM needs a GPU and its extra; without them the reader says which."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest

from lmkrag.errors import MissingExtra
from lmkrag.readers.choose import load_reader
from lmkrag.readers.prompt import NOT_IN_DOCUMENTS
from lmkrag.readers.vllm import VllmReader
from lmkrag.results import Span

SPAN = Span("a.md", "/a.md", 0, 45, "Bonfires are allowed only in the iron basket.", 1.0)


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_without_vllm_the_extra_is_named(causal_model):
    with pytest.raises(MissingExtra, match=r"vllm is not installed: pip install 'lmkrag\[vllm\]'"):
        load_reader("vllm", model=str(causal_model))


def test_with_vllm_on_a_gpu_a_batch_is_answered(causal_model):
    torch = pytest.importorskip("torch")
    pytest.importorskip("vllm", reason="needs the vllm extra")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    reader = load_reader("vllm", model=str(causal_model), max_tokens=60)
    answers = list(reader.answer_each(["Where?", "When?"], [[SPAN], []]))  # type: ignore[attr-defined]
    assert [answer.found for answer in answers] == [True, False]


def test_without_passages_a_batch_says_so(monkeypatch):
    monkeypatch.setitem(
        sys.modules, "vllm", SimpleNamespace(LLM=lambda **_: None, SamplingParams=lambda **_: None)
    )
    (answer,) = VllmReader("a/model").answer_each(["When?"], [[]])
    assert (answer.text, answer.found) == (NOT_IN_DOCUMENTS, False)


class FakeLLM:
    """The documented calls of ``vllm.LLM`` (0.33) that the reader makes; what it says is given."""

    def __init__(self, replies, **engine):
        self.replies, self.engine, self.calls = replies, engine, []

    def chat(self, messages, sampling_params=None, use_tqdm=True, *, chat_template_kwargs=None):
        self.calls.append((messages, sampling_params, chat_template_kwargs))
        return [
            SimpleNamespace(outputs=[SimpleNamespace(text=text, finish_reason=reason)])
            for text, reason in self.replies[: len(messages)]
        ]


@pytest.fixture
def load(monkeypatch):
    """Make readers whose vLLM says what is given."""

    def load_with(*replies, **engine):
        made = []

        def make(**settings):
            made.append(FakeLLM(replies, **settings))
            return made[0]

        fake = SimpleNamespace(LLM=make, SamplingParams=lambda **settings: settings)
        monkeypatch.setitem(sys.modules, "vllm", fake)
        return VllmReader("Qwen/Qwen3-4B", **engine), made[0]

    return load_with


def test_vllm_leaves_room_on_the_card_for_the_encoder_and_vectors(load):
    assert load()[1].engine == {
        "model": "Qwen/Qwen3-4B",
        "gpu_memory_utilization": 0.6,
        "enable_prefix_caching": True,
    }
    assert load(gpu_memory_utilization=0.9)[1].engine["gpu_memory_utilization"] == 0.9


def test_what_a_model_thinks_is_no_answer(load):
    reader, llm = load(
        ("<think>\nThe basket is iron [7].\n</think>\n\nIn the iron basket [1].", "stop"),
        ("Only in the iron", "length"),
    )
    whole, cut = reader.answer_each(["Where?", "How?"], [[SPAN], [SPAN]])
    assert whole.text == "In the iron basket [1]." and whole.warnings == ()
    assert whole.citations[0].quote == SPAN.text
    assert "the model stopped at its token limit: the answer is not whole" in cut.warnings
    ((conversations, sampling, template),) = llm.calls
    assert [message["role"] for message in conversations[0]] == ["system", "user"]
    assert sampling == {"temperature": 0.0, "max_tokens": 1_024}
    assert template == {"enable_thinking": False}


def test_one_question_is_answered_as_a_batch_is(load):
    reader, _ = load(("In the iron basket [1].", "stop"))
    stream = reader.stream("Where?", [SPAN])
    assert "".join(stream) == "In the iron basket [1]."
    assert stream.answer().answered_by == "Qwen/Qwen3-4B"
