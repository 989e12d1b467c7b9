"""A process that is forked while other threads work on an index searches it all the same."""

import os
import threading
import time

import pytest

from lmkrag import Engine
from lmkrag.system import count_cpus, fork_gate

SECONDS = 60


def in_child(work) -> int:
    """Fork, do something in the child, and return its exit code; -1 where it hangs."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


@pytest.mark.parametrize("lock", ["_guard", "_encodes"])
def test_forked_while_another_thread_encodes_a_question(index, encoder, lock):
    """At the worst instant: another thread holds the lock at the fork."""
    with Engine.open(index, rerank=False) as engine:
        engine.search("warm up")
        held, leave = threading.Event(), threading.Event()

        def hold():
            with getattr(engine.encoders, lock):
                held.set()
                leave.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        code = in_child(lambda: engine.search("how is leave accrued?", filter="kind=markdown"))
        leave.set()
        thread.join()
        assert code == 0
        assert engine.search("how is leave accrued?")


def test_forked_again_and_again_while_threads_search(index):
    with Engine.open(index, rerank=False) as engine:
        done = threading.Event()

        def search():
            number = 0
            while not done.is_set():
                number += 1
                engine.search(f"how is leave {number} accrued?", filter="kind=markdown" if number % 2 else None)

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        codes = [in_child(lambda: engine.search("which stones moved?")) for _ in range(6)]
        done.set()
        for thread in threads:
            thread.join()
        assert codes == [0] * 6


def test_a_fork_waits_for_threads_that_read_the_index(index):
    """SQLite's allocator has one lock for the process: held at the instant of the fork, the child hangs."""
    with Engine.open(index, rerank=False) as engine:
        reading, forked = threading.Event(), threading.Event()
        order = []

        def read():
            with engine._reading():
                reading.set()
                forked.wait(0.3)
                with fork_gate.enter():  # while the fork waits
                    order.append("read")

        thread = threading.Thread(target=read)
        thread.start()
        reading.wait()
        with engine._reading():  # what the forking thread reads itself does not count
            began = time.monotonic()
            assert in_child(lambda: order == ["read"] or 1 / 0) == 0
            assert time.monotonic() - began < 3
        thread.join()


def test_a_fork_does_not_wait_for_ever(index):
    with Engine.open(index, rerank=False) as engine:
        engine.search("warm up")
        reading, leave = threading.Event(), threading.Event()

        def read():
            with engine._reading():
                reading.set()
                leave.wait()

        thread = threading.Thread(target=read)
        thread.start()
        reading.wait()
        assert in_child(lambda: engine.search("which stones moved?")) == 0
        assert engine.search("how is leave accrued?")
        leave.set()
        thread.join()


def test_forked_while_another_thread_loads_the_encoder(index):
    """Python 3.11 holds a lock while it computes a cached property: none of ours may be one."""
    for pause in (0.0, 0.05, 0.1, 0.2, 0.4):
        with Engine.open(index, rerank=False) as engine:
            thread = threading.Thread(target=engine.search, args=("how is leave accrued?",))
            thread.start()
            time.sleep(pause)
            code = in_child(lambda engine=engine: engine.search("which stones moved?"))
            thread.join()
            assert code == 0


def test_processors_are_counted_where_the_system_knows_no_affinity(monkeypatch):
    """As macOS."""
    assert count_cpus() >= 1
    monkeypatch.delattr(os, "sched_getaffinity")
    assert count_cpus() == os.cpu_count()
