"""A Ray cluster of several machines, as far as one machine can be several: processes and machines die in the middle."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from lmkrag import Document, Engine
from lmkrag.cluster import parallel as indexing
from lmkrag.cluster.backups import Remote
from lmkrag.errors import UsageError
from lmkrag.server.ray_serving import RaySettings, open_scattered, serving_on_ray
from lmkrag.server.settings import ServerSettings

pytestmark = pytest.mark.timeout(280)


@pytest.fixture(scope="module")
def cluster(s3):
    """Three machines of two cores, which reach the S3 server."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        made.add_node(num_cpus=2)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def processes(name):
    """The processes of Ray that do something now, by its name."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if name in place.read_bytes().split(b"\0")[0].decode(errors="replace"):
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(24):
        sentences = (f"Pump {number} of yard {line} is oiled every {line + number} days." for line in range(60))
        (folder / f"{number:02}.txt").write_text(" ".join(sentences))
    return folder


def test_workers_and_a_machine_die_while_it_indexes(cluster, texts, encoder, tmp_path, monkeypatch):
    with Engine.open(tmp_path / "one", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(texts)
        sentences, shown = engine.status().sentences, engine.read("07.txt")
    monkeypatch.setattr(indexing, "_LEAST", 1)
    doomed = cluster.add_node(num_cpus=2)
    killed = []

    def kill():
        wait_for(lambda: processes("BatchEncoder.encode") and len(processes("BatchEncoder")) > 2)
        dead, full = processes("BatchEncoder")[:2]
        os.kill(dead, signal.SIGKILL)
        resource.prlimit(full, resource.RLIMIT_FSIZE, (10_000, 10_000))  # its disk is full from now on
        killed.extend([dead, full])
        cluster.remove_node(doomed, allow_graceful=False)
        killed.append(doomed)

    monkeypatch.chdir(tmp_path)
    with Engine.open("big", create=True, encoder=encoder, shards=2, rerank=False) as engine:
        killer = threading.Thread(target=kill)
        killer.start()
        report = engine.add("texts", workers=4, ray=cluster.address)
        killer.join()
        assert len(killed) == 3
        assert (report.added, report.skipped) == (24, ())
        assert (engine.status().sentences, engine.read("07.txt")) == (sentences, shown)
        assert engine.search("pump 7 of yard 59", mode="lexical")[0].doc_id == "07.txt"
        assert engine.add("texts", workers=4, ray=cluster.address).unchanged == 24
        assert not engine.verify()


def test_a_cluster_that_is_not_there_or_has_no_cards(cluster, texts, encoder, tmp_path, monkeypatch, lmkrag_process):
    monkeypatch.setattr(indexing, "_LEAST", 1)
    with Engine.open(tmp_path / "big", create=True, encoder=encoder) as engine:
        with pytest.raises(UsageError, match="has 0 GPUs"):
            engine.add(texts, workers=2, ray=cluster.address, gpus=0.5)
        with pytest.raises(UsageError, match="gpus"):
            engine.add(texts, gpus=0.5)
    done = lmkrag_process("serve", "--index", tmp_path / "big", "--ray", "127.0.0.1:1", "--no-auth")
    assert done.returncode == 2
    assert "no Ray cluster can be reached at '127.0.0.1:1'" in done.stderr
    done = lmkrag_process("serve", "--index", "s3://bucket/big")
    assert "only served on Ray" in done.stderr
    (tmp_path / "ray.py").write_text("raise ImportError('not here')")
    hidden = {"PYTHONPATH": str(tmp_path)}
    done = lmkrag_process("cluster", "encode", texts, "--out", tmp_path / "batches", "--ray", "local", env=hidden)
    assert (done.returncode, done.stderr) == (1, "lmkrag: ray is not installed: pip install 'lmkrag[ray]'\n")


def test_workers_import_no_modules_of_the_working_directory(tmp_path):
    code = """
import sys
from lmkrag.cluster.ray_cluster import connected
class Actor:
    def folders(self):
        return sys.path
with connected("local") as ray:
    print(*ray.get(ray.remote(Actor).remote().folders.remote()), sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in done.stdout.splitlines()


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_shards_die_and_snapshots_roll_while_it_serves(cluster, corpus, encoder, tmp_path, port, everything):
    url = "s3://bucket/rolled"
    with Engine.open(tmp_path / "big", create=True, encoder=encoder, shards=2, rerank=False) as engine:
        engine.add(corpus)
        wanted = [span.start for span in engine.search("who approves leave?")]
        Remote(url).push(engine._store.path)
        doomed = cluster.add_node(num_cpus=2)
        settings = ServerSettings({"big": url}, port=port, rerank=False)
        stop, statuses = threading.Event(), []
        where = RaySettings(cluster.address, replicas=2, cache=str(tmp_path / "cache"))
        with serving_on_ray(settings, where) as base, httpx.Client(base_url=base, timeout=60) as client:

            def find(question, **options):
                return client.post("/api/search", json={"query": question, **options})

            def ask_on():
                while not stop.is_set():
                    try:
                        statuses.append(find("who approves leave?").status_code)
                    except httpx.TransportError:
                        statuses.append(0)

            assert [span["start"] for span in find("who approves leave?").json()["spans"]] == wanted
            processes_find = everything(open_scattered(settings, "big"), ["what is the lamp made of?"])
            assert processes_find == everything(engine, ["what is the lamp made of?"])
            with ThreadPoolExecutor(2) as threads:
                asking = [threads.submit(ask_on) for _ in range(2)]
                try:
                    for victim in processes("ServeReplica:lmkrag:big-000")[:1]:
                        os.kill(victim, signal.SIGKILL)
                    wait_for(lambda: len(processes("ServeReplica:lmkrag:big-000")) == 2)
                    before = len(statuses)
                    engine.add([Document(doc_id="z.txt", path="z.txt", text="Zanzibar is an island.")])
                    Remote(url).push(engine._store.path)
                    wait_for(lambda: find("zanzibar", mode="lexical").json()["spans"])
                    wait_for(lambda: len(statuses) > before + 10)
                    rolled = len(statuses)
                    cluster.remove_node(doomed, allow_graceful=False)
                    wait_for(lambda: len(statuses) > rolled + 20)
                finally:
                    stop.set()
                for one in asking:
                    one.result()
            assert set(statuses[:rolled]) == {200}
            assert set(statuses[-10:]) == {200}
            assert sum(status != 200 for status in statuses) <= 2  # those that the dead machine was answering
