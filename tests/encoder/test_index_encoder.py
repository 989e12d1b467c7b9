"""Questions of many threads are encoded together, each as if alone."""

import threading
import time

import numpy as np
import pytest

from lmkrag.encoder.index_encoder import IndexEncoders

QUESTIONS = [f"how many keepers serve at rock number {number} in a year?" for number in range(48)]


@pytest.fixture
def encoders(encoder, tmp_path):
    return IndexEncoders(tmp_path, encoder.spec)


def test_threads_get_their_own(encoders):
    alone = [encoders.encode_questions([question])[0] for question in QUESTIONS]
    together: dict[int, np.ndarray] = {}
    barrier = threading.Barrier(len(QUESTIONS))

    def encode(number: int) -> None:
        barrier.wait()
        together[number] = encoders.encode_questions(QUESTIONS[number : number + 1])[0]

    threads = [threading.Thread(target=encode, args=(number,)) for number in range(len(QUESTIONS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, vector in enumerate(alone):
        np.testing.assert_allclose(together[number], vector, atol=1e-5)


def test_fewer_calls_than_threads(encoders, monkeypatch):
    encoders.encode_questions(["first"])
    light = encoders._light
    calls: list[int] = []
    encode = light.encode_queries

    def count(queries):
        calls.append(len(queries))
        return encode(queries)

    monkeypatch.setattr(light, "encode_queries", count)
    threads = [
        threading.Thread(target=encoders.encode_questions, args=([question],))
        for question in QUESTIONS
    ]
    with encoders._encodes:  # all of them wait
        for thread in threads:
            thread.start()
        while len(encoders._waiting) < len(QUESTIONS):
            pass
    for thread in threads:
        thread.join()
    assert sum(calls) == len(QUESTIONS)
    assert calls == [32, 16]


def test_a_question_that_fails_fails_alone(encoders, monkeypatch):
    encoders.encode_questions(["first"])
    encode = encoders._light.encode_queries

    def fail_at_bad(queries):
        if "bad" in queries:
            raise ValueError("bad question")
        return encode(queries)

    monkeypatch.setattr(encoders._light, "encode_queries", fail_at_bad)
    outcomes: dict[str, object] = {}

    def run(question: str) -> None:
        try:
            outcomes[question] = encoders.encode_questions([question]).shape
        except ValueError as error:
            outcomes[question] = str(error)

    threads = [
        threading.Thread(target=run, args=(question,)) for question in ("good", "bad", "fine")
    ]
    with encoders._encodes:
        for thread in threads:
            thread.start()
        while len(encoders._waiting) < 3:
            pass
    for thread in threads:
        thread.join()
    assert outcomes == {"good": (1, 384), "bad": "bad question", "fine": (1, 384)}


def test_an_interruption_of_one_thread_leaves_the_questions_of_others(
    encoder, tmp_path, monkeypatch
):
    encoders, encode = IndexEncoders(tmp_path, encoder.spec, encoder), encoder.encode_queries
    begun, all_wait, interruptions = threading.Event(), threading.Event(), [KeyboardInterrupt()]

    def interrupt_once(queries):
        if not begun.is_set():
            begun.set()
            all_wait.wait()
        elif interruptions:
            raise interruptions.pop()
        return encode(queries)

    monkeypatch.setattr(encoder, "encode_queries", interrupt_once)
    outcomes: list[object] = []

    def run(question: str) -> None:
        try:
            outcomes.append(encoders.encode_questions([question]).shape)
        except BaseException as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=run, args=(question,)) for question in QUESTIONS[:5]]
    threads[0].start()
    begun.wait()
    for thread in threads[1:]:
        thread.start()
    time.sleep(0.2)  # until they wait for the first one
    all_wait.set()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == ["(1, 384)"] * 4 + [str(KeyboardInterrupt)]
