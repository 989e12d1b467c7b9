"""Shards: searched as one index, resharded without a loss."""

import json
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmkrag import Document, Engine
from lmkrag.cluster import resharding
from lmkrag.cluster.parallel import adopt_batches
from lmkrag.cluster.resharding import reshard_index
from lmkrag.errors import IndexCorrupt, IndexMismatch, IndexNotFound, UsageError
from lmkrag.index.opening import open_store
from lmkrag.index.shard_ids import choose_shard
from lmkrag.ingest.repair import repair_index


def reshard(engine: Engine, shards: int) -> int:
    """Reshard the index of an engine, which is opened again."""
    try:
        return reshard_index(engine._store.path, shards)
    finally:
        engine.close()
        Engine.__init__(engine, open_store(engine._store.path), rerank=False)


WORDS = ["pump", "valve", "rotor", "seal", "steam", "yard", "is", "oiled", "turns", "the", "red", "old"]


@given(st.text(), st.integers(1, 60), st.integers(1, 60))
def test_documents_move_to_new_shards_only(doc_id, few, many):
    few, many = sorted((few, many))
    before, after = choose_shard(doc_id, few), choose_shard(doc_id, many)
    assert 0 <= before < few
    assert after == before or few <= after < many


def test_shards_are_of_about_one_size():
    counts = [0] * 8
    for number in range(8_000):
        counts[choose_shard(f"docs/{number}.md", 8)] += 1
    assert min(counts) > 850 and max(counts) < 1_150


@pytest.mark.parametrize("shards", [1, 2, 3, 8])
def test_shards_find_what_one_index_finds(everything, engine, shards):
    before, documents = everything(engine), [info.doc_id for info in engine.documents()]
    filtered = [span.place for span in engine.search("leave", filter="kind=markdown")]
    assert reshard(engine, shards) == len(documents)
    assert engine.status().shards == shards
    assert [info.doc_id for info in engine.documents()] == documents
    assert everything(engine) == before
    assert [span.place for span in engine.search("leave", filter="kind=markdown")] == filtered
    assert engine.score_sentences("leave", "lighthouse-handbook.md")
    assert not engine.verify()


@settings(max_examples=8)
@given(
    st.lists(
        st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=5),
        min_size=2,
        max_size=8,
    ),
    st.integers(2, 5),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
)
def test_any_documents_in_any_shards(everything, encoder, tmp_path_factory, texts, shards, question):
    path = tmp_path_factory.mktemp("any") / "index"
    with Engine.open(path, create=True, encoder=encoder, rerank=False) as engine:
        # each document has a word of its own, so that no two sentences tie
        engine.add(
            [
                Document(
                    f"d{number}", "", " ".join(f"{' '.join(words)} n{number}x{k}." for k, words in enumerate(text))
                )
                for number, text in enumerate(texts)
            ]
        )
        wanted = [" ".join(question), "n1x0"]
        before = everything(engine, wanted)
        reshard(engine, shards)
        assert _scores(everything(engine, wanted)) == _scores(before)
        assert not engine.verify()


def _scores(found: dict) -> dict:
    """The scores in order, and the spans without: those that tie come in the order of their ids."""
    return {key: ([score for *_, score in spans], sorted(span[:3] for span in spans)) for key, spans in found.items()}


def test_the_life_of_a_sharded_index(corpus, tmp_path, lmkrag):
    docs, index = tmp_path / "docs", tmp_path / "index"
    shutil.copytree(corpus, docs)
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    made = lmkrag("index", docs, "--index", index, "--shards", "3")
    assert made.returncode == 0, made.stderr
    assert "5 added, 1 skipped" in made.stderr
    assert sorted(path.name for path in index.iterdir()) == ["shards-3", "shards.json"]
    (docs / "beekeeping.html").unlink()
    (docs / "note.md").write_text("---\nyear: 2024\n---\nThe note says that the gate is green.")
    synced = lmkrag("index", docs, "--prune", "--index", index)
    assert "1 added, 4 unchanged, 1 removed, 1 skipped" in synced.stderr
    status = json.loads(lmkrag("status", "--index", index, "--json").stdout)
    assert (status["documents"], status["shards"], status["skipped"]) == (5, 3, 1)
    found = json.loads(lmkrag("search", "the gate", "--filter", "year=2024", "--index", index, "--json").stdout)
    assert [span["doc_id"] for span in found["spans"]] == ["note.md"]
    assert "The harbour master approves leave" in lmkrag("ask", "who approves leave?", "--index", index).stdout
    moved = lmkrag("cluster", "reshard", "--shards", "2", "--index", index)
    assert (moved.returncode, moved.stderr) == (0, f"{index}: 5 documents in 2 shards\n")
    assert "has 2 shards already" in lmkrag("cluster", "reshard", "--shards", "2", "--index", index).stderr
    assert "has 2 shards; run lmkrag cluster reshard" in lmkrag("index", docs, "--index", index, "--shards", "4").stderr
    with Engine.open(index) as engine:
        assert "green" in engine.read("note.md")
        assert engine.add(docs).unchanged == 5
        engine.add([Document("memo", "", "A memo about the winch.", meta={"year": 2023})])
        assert engine.search("winch")[0].doc_id == "memo"
        assert engine.remove(["memo", "note.md"]) == 2
        engine.compact()
        assert not engine.verify()
        assert len(engine.documents()) == 4
        with Engine.open(tmp_path / "other", create=True) as other:
            assert adopt_batches(other._store, [index]).added == 4  # from shards, and back into some
            other.add([Document("memo", "", "A memo about the winch.")])
        assert adopt_batches(engine._store, [tmp_path / "other"]).added == 1
        assert engine.search("winch")[0].doc_id == "memo"


def test_resharding_that_is_cut_short(everything, engine, monkeypatch):
    before = everything(engine)

    def stop(*_):
        raise KeyboardInterrupt

    for name in ("write_record", "_remove_leftovers"):
        with monkeypatch.context() as patched:
            calls = []
            original = getattr(resharding, name)

            def act(*arguments, original=original, calls=calls, name=name):
                calls.append(arguments)
                if name == "write_record" or len(calls) == 2:  # before the commit; after it
                    stop()
                return original(*arguments)

            patched.setattr(resharding, name, act)
            with pytest.raises(KeyboardInterrupt):
                reshard(engine, 3)
        assert engine.status().shards == (0 if name == "write_record" else 3)
        assert everything(engine) == before
        assert not engine.verify()
    reshard(engine, 2)
    assert everything(engine) == before
    assert {path.name for path in engine._store.path.iterdir()} <= {"shards-2", "shards.json", "write.lock"}


def test_shards_that_are_damaged(engine, encoder, corpus, tmp_path):
    reshard(engine, 3)
    path = engine._store.path
    segment = next(path.glob("shards-3/*/segments/*.faiss"))
    segment.write_bytes(segment.read_bytes()[:-50] + b"\0" * 50)
    (problem, *_) = engine.verify()
    assert problem.startswith("shard ") and "damaged" in problem
    report = repair_index(path)
    assert report.kept + report.restored == 5 and not engine.verify()
    engine.close()

    shard = path / "shards-3" / "001"
    shard.rename(tmp_path / "elsewhere")
    with pytest.raises(IndexNotFound, match="shard 1 of 3 is not there"):
        Engine.open(path)
    with Engine.open(shard, create=True, encoder="all-MiniLM-L6-v2"):
        pass
    with pytest.raises(IndexMismatch, match="made with another encoder than shard 0"):
        Engine.open(path)
    shutil.rmtree(shard)
    (tmp_path / "elsewhere").rename(shard)
    for record in ('{"format": 1, "folder": "../x", "shards": 3}', '{"format": 1, "folder": "x", "shards": 0}', "{"):
        (path / "shards.json").write_text(record)
        with pytest.raises(IndexCorrupt, match=r"shards\.json: can't be read"):
            Engine.open(path)
    (path / "shards.json").write_text('{"format": 2, "folder": "shards-3", "shards": 3}')
    with pytest.raises(IndexMismatch, match="newer lmkrag"):
        Engine.open(path)


@pytest.mark.parametrize("shards", [0, -1, 1_001, 2.0, True])
def test_wrong_numbers_of_shards(tmp_path, shards, engine):
    with pytest.raises(UsageError, match="shards must be a whole number"):
        Engine.open(tmp_path / "new", create=True, shards=shards)
    with pytest.raises(UsageError, match="shards must be a whole number"):
        reshard(engine, shards)
    assert engine.search("leave")


@pytest.fixture
def sharded(engine, index):
    """Four shards, the third of which holds something."""
    reshard(engine, 4)
    return index


def shard_of(path, doc_id):
    return path / "shards-4" / f"{choose_shard(doc_id, 4):03}"


def test_a_shard_that_is_not_there_or_damaged_is_an_error(sharded, lmkrag):
    question = "who approves leave?"
    with Engine.open(sharded) as whole:
        found = whole.search(question, rerank=False, top_k=30)
    lost = found[0].doc_id
    shutil.move(shard_of(sharded, lost), sharded.parent / "elsewhere")
    with pytest.raises(IndexNotFound, match=f"shard {choose_shard(lost, 4)} of 4 is not there"):
        Engine.open(sharded)
    assert lmkrag("search", question, "--index", sharded).returncode == 1
    shutil.move(sharded.parent / "elsewhere", shard_of(sharded, lost))
    (segment,) = (shard_of(sharded, lost) / "segments").glob("*.words")
    data = segment.read_bytes()
    segment.write_bytes(data[:-9] + b"\0" * 9)
    with Engine.open(sharded) as damaged, pytest.raises(IndexCorrupt):
        damaged.search(question)
    segment.write_bytes(data)
    with Engine.open(sharded) as again:
        assert again.search(question, rerank=False, top_k=30) == found


def test_no_shard_at_all_is_an_error(sharded):
    shutil.rmtree(sharded / "shards-4")
    with pytest.raises(IndexNotFound):
        Engine.open(sharded)
