"""An engine is of the process that opened it: a forked one says so, and opens its own."""

import os
import threading
import time

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import UsageError
from lmkrag.system.platform import count_cpus

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


def is_refused(call) -> None:
    with pytest.raises(
        UsageError, match="opened before this process was forked; open it again in this process"
    ):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda engine: engine.search("how is leave accrued?"),
        lambda engine: engine.ask("how is leave accrued?"),
        lambda engine: engine.documents(),
        lambda engine: engine.add(Document("new", text="The lamp is lit.")),
        lambda engine: engine.remove("lighthouse-handbook.md"),
    ],
    ids=["search", "ask", "documents", "add", "remove"],
)
def test_a_forked_process_is_told_to_open_its_own(index, call):
    with Engine.open(index, rerank=False) as engine:
        before = engine.search("how is leave accrued?")
        assert in_child(lambda: is_refused(lambda: call(engine))) == 0
        assert engine.search("how is leave accrued?") == before


def test_a_forked_process_opens_its_own(index):
    with Engine.open(index, rerank=False) as engine:
        before = engine.search("how is leave accrued?")

        def search():
            with Engine.open(index, rerank=False) as own:
                assert own.search("how is leave accrued?") == before

        assert in_child(search) == 0


def test_a_fork_while_threads_search_is_refused_at_once(index):
    with Engine.open(index, rerank=False) as engine:
        done = threading.Event()

        def search():
            while not done.is_set():
                engine.search("how is leave accrued?")

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        refused = [
            in_child(lambda: is_refused(lambda: engine.search("which stones moved?")))
            for _ in range(6)
        ]
        done.set()
        for thread in threads:
            thread.join()
        assert refused == [0] * 6


def test_processors_are_counted_where_the_system_knows_no_affinity(monkeypatch):
    """As macOS."""
    assert count_cpus() >= 1
    monkeypatch.delattr(os, "sched_getaffinity")
    assert count_cpus() == os.cpu_count()
