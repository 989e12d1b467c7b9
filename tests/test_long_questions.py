"""A question of more tokens than a model reads is searched and answered by its beginning, on every way in."""

import base64
import hashlib
import json

import pytest

from lmkrag import Engine
from lmkrag.conversation import Conversation
from lmkrag.errors import UsageError
from lmkrag.readers.base import LanguageModelReader
from lmkrag.reranker.base import PlacedText
from lmkrag.reranker.highlights import highlight
from lmkrag.reranker.loading import load_ours

CHINESE = "灯塔的管理员应该在黄昏时点亮灯吗当风暴来临时他要关闭北面的门"
LONG = {
    "636 Chinese characters": (CHINESE * 22)[:636],
    "10,000 Chinese characters": (CHINESE * 400)[:10_000],
    "base64": base64.b64encode(hashlib.shake_256(b"lamp").digest(3_000)).decode(),
    "hashes": "which file has the checksum "
    + " ".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(60)),
    "digits": "how often is 1 2 3 " + "4 5 6 7 8 9 " * 600,
    "signs": "?!;" * 2_000,
    "pictures": "🜁🜂" * 1_500,
    "exclusions": "the lamp" + " -word" * 1_000,
    "half a character": "\ud83d" * 3_000,
}
SHORT = "who approves leave?"


@pytest.fixture(scope="module")
def engine(built_index, encoder):
    """An engine that re-ranks, as everybody's does."""
    with Engine.open(built_index, encoder=encoder) as opened:
        yield opened


@pytest.fixture(scope="module", params=list(LONG.values()), ids=list(LONG))
def question(request):
    return request.param


def test_a_long_question_is_searched_and_answered(engine, question):
    for options in ({}, {"mode": "lexical"}, {"level": "sentence"}, {"operators": True}):
        engine.search(question, **options)
    assert engine.ask(question).reader == "extractive"
    assert engine.build_context(question).tokens > 0
    scores = engine.score_sentences(question, "glass-river.txt")
    assert len(scores) > 1


def test_a_long_question_is_read_by_each_model(engine, question):
    (score,) = load_ours().score(question, [PlacedText("", CHINESE * 40)])
    assert score == score  # no NaN
    assert len(highlight(question, "The lamp is lit. " * 3)) == 3
    assert engine.encoders.encoder.encode_query(question).shape == (384,)


def test_a_long_conversation_is_followed(engine):
    conversation = Conversation(engine)
    for asked in (LONG["hashes"], "And then?", LONG["10,000 Chinese characters"], "And why?"):
        conversation.ask(asked)
    assert len(conversation.history) == 4


def test_a_question_that_fails_does_so_alone(engine):
    questions = [SHORT, "", LONG["hashes"], " \n", SHORT]
    first, blank, long, white, last = engine.search_many(questions, top_k=2)
    assert first == last == engine.search(SHORT, top_k=2)
    assert long == engine.search(LONG["hashes"], top_k=2)
    for error in (blank, white):
        assert isinstance(error, UsageError) and str(error) == "the question is empty"
    answers = list(engine.ask_many(questions))
    assert [isinstance(answer, UsageError) for answer in answers] == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert answers[0] == answers[4] == engine.ask(SHORT)
    assert [str(error) for error in engine.search_many([""])] == ["the question is empty"]
    assert engine.search_many([]) == []


class CountingReader(LanguageModelReader):
    """A reader whose model knows no word for a lamp, and spells it out."""

    name = "counting"

    def generate(self, messages):
        yield "Nothing."

    def count_tokens(self, text):
        return 10_000 if "lamp" in text.casefold() else len(text.split())


def test_a_question_whose_passages_do_not_fit_fails_alone(engine):
    first, second = engine.ask_many(
        [SHORT, "how long must the lamp burn?"], reader=CountingReader(), top_k=1
    )
    assert first.text.startswith("Nothing.\n\n") and "hold no span" in str(second)


@pytest.fixture(scope="module")
def questions_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("questions") / "questions.jsonl"
    asked = {"first": SHORT, "blank": "", "long": LONG["hashes"], "last": SHORT}
    path.write_text(
        "\n".join(json.dumps({"query_id": key, "query": text}) for key, text in asked.items())
    )
    return path


@pytest.mark.parametrize("command", [("search", "--queries"), ("ask", "--batch")])
def test_a_file_of_questions_names_those_that_fail(lmkrag, built_index, questions_file, command):
    result = lmkrag(*command, questions_file, "--json", "--index", built_index)
    lines = {line["query_id"]: line for line in map(json.loads, result.stdout.splitlines())}
    assert list(lines) == ["first", "blank", "long", "last"]
    assert [key for key, line in lines.items() if "error" in line] == ["blank"]
    assert lines["blank"]["error"] == "the question is empty"
    assert result.returncode == 1
    assert '1 question was not answered; look for "error" in the lines above' in result.stderr
