"""Shards that other processes hold find what one process finds."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmkrag import Document, Engine
from lmkrag.cluster import hosting, scattering
from lmkrag.cluster.backups import Remote
from lmkrag.cluster.hosting import ShardHost
from lmkrag.cluster.scattering import ScatteredStore
from lmkrag.cluster.shard_sources import PulledShard, ShardDirectory
from lmkrag.errors import IndexMismatch, ShardUnreachable, SnapshotExpired, UsageError
from lmkrag.index.shards import shard_folders

WORDS = ["pump", "valve", "rotor", "seal", "steam", "yard", "is", "oiled", "turns", "the", "red", "old"]


class ThreadShards:
    """Hosts in this process, each call on another thread. ``down`` are those that do not answer."""

    def __init__(self, hosts, *, joint=False):
        self.hosts, self.joint, self.count = hosts, joint, len(hosts)
        self.down, self.calls = set(), []
        self._threads = ThreadPoolExecutor(8)

    def start(self, shard, method, *arguments):
        self.calls.append((shard, method, *arguments[1:2]))

        def call():
            if shard in self.down:
                raise ShardUnreachable(f"shard {shard} does not answer")
            return getattr(self.hosts[shard], method)(*arguments)

        return self._threads.submit(call).result


def scatter(path, encoder):
    shards = ThreadShards([ShardHost(ShardDirectory(folder)) for folder in shard_folders(path)])
    return shards, Engine(ScatteredStore(Path("big"), shards), encoder, rerank=False)


@pytest.fixture
def sharded(tmp_path, encoder, corpus):
    with Engine.open(tmp_path / "big", create=True, encoder=encoder, shards=3, rerank=False) as engine:
        engine.add(corpus)
        yield engine


def test_it_finds_what_one_process_finds(everything, sharded, encoder):
    _, scattered = scatter(sharded._store.path, encoder)
    assert everything(scattered) == everything(sharded)
    for question in ("who approves leave?", 'leave -manager "sick leave"'):
        one, other = (engine.search(question, filter="kind=markdown", explain=True) for engine in (sharded, scattered))
        assert [span.place for span in one] == [span.place for span in other]
        assert [span.headings for span in one] == [span.headings for span in other]
    doc_id = sharded.documents()[0].doc_id
    assert scattered.documents() == sharded.documents()
    assert scattered.document(doc_id) == sharded.document(doc_id)
    assert scattered.read(doc_id, 10, 40) == sharded.read(doc_id, 10, 40)
    assert scattered.score_sentences("leave", doc_id) == sharded.score_sentences("leave", doc_id)
    assert scattered.status().sentences == sharded.status().sentences
    assert scattered.status().documents == sharded.status().documents
    assert scattered.ask("who approves leave?").text == sharded.ask("who approves leave?").text


def test_words_are_stemmed_by_the_languages_of_all_shards(everything, sharded, encoder):
    german = "Die alten Häuser am Hafen wurden im Winter neu gedeckt. Der Hafenmeister prüft die Dächer jedes Jahr."
    sharded.add([Document(f"{number}.txt", "", f"{german} {german} Nummer {number}.") for number in range(5)])
    _, scattered = scatter(sharded._store.path, encoder)
    for question in ("Haus am Hafen", "who approves leave?"):
        one, other = (engine.search(question, mode="lexical", explain=True) for engine in (sharded, scattered))
        assert one == other
    assert scattered.search("das Haus", mode="lexical")


@settings(max_examples=8, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), min_size=1, max_size=12),
    shards=st.integers(1, 4),
    asked=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
)
def test_any_texts_are_found_as_in_one_process(everything, tmp_path_factory, encoder, texts, shards, asked):
    path = tmp_path_factory.mktemp("any") / "big"
    documents = [
        Document(doc_id=f"{number}.txt", path=f"{number}.txt", text=" ".join(words).capitalize() + ".")
        for number, words in enumerate(texts)
    ]
    with Engine.open(path, create=True, encoder=encoder, shards=shards, rerank=False) as engine:
        engine.add(documents)
        _, scattered = scatter(path, encoder)
        question = [" ".join(asked)]
        assert everything(scattered, question) == everything(engine, question)


def test_a_search_takes_three_calls_to_each_shard_and_one_to_each_document(sharded, encoder):
    shards, scattered = scatter(sharded._store.path, encoder)
    scattered.search("how often is the pump oiled?")
    shards.calls.clear()
    scattered.search("what is done each week?", top_k=3, level="sentence")
    asked = Counter(call[2] for call in shards.calls if call[1] == "call")
    assert asked.pop("view_document") <= 3
    asked.pop("words_in_titles", None)
    assert asked.pop("describe") <= 3
    assert asked == {"find": 3, "match": 3}
    shards.calls.clear()
    scattered.search("what is done each week?", top_k=3, level="sentence")
    assert not any(call[2:] == ("view_document",) for call in shards.calls)


def test_what_is_written_meanwhile_is_found_within_a_second(sharded, encoder, monkeypatch):
    _, scattered = scatter(sharded._store.path, encoder)
    assert not scattered.search("zanzibar", mode="lexical")
    sharded.add([Document(doc_id="z.txt", path="z.txt", text="Zanzibar is an island.")])
    monkeypatch.setattr(scattering, "_FRESH", 0.0)
    assert scattered.search("zanzibar", mode="lexical")[0].doc_id == "z.txt"


def test_searches_beside_a_writer_never_fail(sharded, encoder, monkeypatch):
    monkeypatch.setattr(hosting, "KEPT", 0.5)
    monkeypatch.setattr(scattering, "_FRESH", 0.05)
    shards, scattered = scatter(sharded._store.path, encoder)
    stop = threading.Event()

    def write():
        for number in range(12):
            sharded.add([Document(doc_id=f"{number % 3}.txt", path="n.txt", text=f"The pump turns {number} times.")])
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    searches = 0
    while not stop.is_set() or searches < 20:
        assert scattered.search("how often does the pump turn?")
        searches += 1
    writer.join()
    time.sleep(0.6)
    for host in shards.hosts:
        host.newest()
        host.release(after=0.5)
        assert len(host._held) <= 1


def test_a_shard_that_does_not_answer_is_an_error_while_it_does_not(sharded, encoder, monkeypatch):
    monkeypatch.setattr(scattering, "_FRESH", 0.0)
    shards, scattered = scatter(sharded._store.path, encoder)
    found = scattered.search("leave", top_k=50)
    shards.down = {1}
    with pytest.raises(ShardUnreachable, match="shard 1 does not answer"):
        scattered.search("leave")
    shards.down = set()
    assert scattered.search("leave", top_k=50) == found


def test_it_is_not_written_to(sharded, encoder):
    _, scattered = scatter(sharded._store.path, encoder)
    for write in (
        lambda: scattered.add([Document(doc_id="a", path="a", text="A.")]),
        lambda: scattered.remove(sharded.documents()[0].doc_id),
        scattered.compact,
        scattered.verify,
    ):
        with pytest.raises(UsageError, match="is read from other processes"):
            write()


def test_pulled_snapshots_roll_to_the_newest(everything, sharded, encoder, tmp_path, monkeypatch):
    url = f"file://{tmp_path}/pushed"
    Remote(url).push(sharded._store.path)
    sources = [PulledShard(url, shard, tmp_path / "cache") for shard in range(3)]
    shards = ThreadShards([ShardHost(source) for source in sources], joint=True)
    scattered = Engine(ScatteredStore(Path("pulled"), shards), encoder, rerank=False)
    assert everything(scattered) == everything(sharded)
    sharded.add([Document(doc_id="z.txt", path="z.txt", text="Zanzibar is an island.")])
    Remote(url).push(sharded._store.path)
    assert not scattered.search("zanzibar", mode="lexical")
    monkeypatch.setattr(scattering, "_FRESH", 0.0)
    assert not scattered.search("zanzibar", mode="lexical")  # nobody waits for what has to be pulled
    for host in shards.hosts[:2]:
        host.follow()
    assert not scattered.search("zanzibar", mode="lexical")  # all or none
    shards.hosts[2].follow()
    assert scattered.search("zanzibar", mode="lexical")[0].doc_id == "z.txt"
    for _ in range(4):
        Remote(url).push(sharded._store.path)
        for host in shards.hosts:
            host.follow()
        assert scattered.search("leave")
    assert len(list((tmp_path / "cache" / "000-0").glob("*"))) == 3


def test_each_process_has_its_own_part_of_the_cache(sharded, tmp_path):
    url = f"file://{tmp_path}/pushed"
    Remote(url).push(sharded._store.path)
    one, other = (PulledShard(url, 1, tmp_path / "cache") for _ in range(2))
    for source in (one, other):
        with source.hold("1") as (_, snapshot):
            assert snapshot.documents.sentences
    assert sorted(path.name for path in (tmp_path / "cache").glob("*-?")) == ["001-0", "001-1"]
    del one, source
    assert PulledShard(url, 1, tmp_path / "cache")._cache.name == "001-0"  # what is there is pulled no more
    with pytest.raises(SnapshotExpired, match="no snapshot 7"), other.hold("7"):
        pass


def test_a_state_that_loads_for_long_keeps_nobody_waiting(sharded):
    source = ShardDirectory(shard_folders(sharded._store.path)[0])
    host, arrived, go = ShardHost(source), threading.Event(), threading.Event()
    state = host.newest()
    before = host.call(state, "totals")
    hold = source.hold

    @contextmanager
    def slowly(name):
        arrived.set()
        assert go.wait(20)
        with hold(name) as held:
            yield held

    source.hold = slowly  # type: ignore[assignment]
    sharded.add([Document(doc_id=f"{number}.txt", path="n.txt", text="A pump.") for number in range(9)])
    with ThreadPoolExecutor(2) as threads:
        loading = [threads.submit(host.call, host.newest(), "totals") for _ in range(2)]
        assert arrived.wait(20)
        assert host.call(state, "totals") == before
        go.set()
        assert loading[0].result() == loading[1].result()


def test_shards_of_another_encoder_are_refused(sharded, tmp_path):
    with Engine.open(tmp_path / "other", create=True, encoder="all-MiniLM-L6-v2", shards=1) as engine:
        engine.add([Document(doc_id="a", path="a", text="A pump.")])
    folders = [*shard_folders(sharded._store.path)[:1], *shard_folders(tmp_path / "other")]
    with pytest.raises(IndexMismatch, match="shard 1 was made with another encoder"):
        ScatteredStore(Path("mixed"), ThreadShards([ShardHost(ShardDirectory(folder)) for folder in folders]))
