"""Fast versions of the trials; the long ones are commands (docs/reliability.md)."""

import contextlib
import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lmkrag import Document, Engine
from lmkrag.errors import IndexCorrupt, StorageError
from lmkrag.ingest.reindex import reindex

HERE = Path(__file__).parent


def command(name: str, *arguments: str) -> str:
    """Run a trial in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(HERE / name), *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


needs_cc = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)


def test_killed_at_random_instants():
    assert "nothing lost, nothing wrong" in command("crash.py", "kills", "--count", "10")


@needs_cc
def test_power_lost_at_some_calls():
    assert "nothing lost, nothing wrong" in command("crash.py", "faults", "--every", "199")


@needs_cc
def test_a_disk_that_is_full_or_read_only_or_can_not_sync():
    assert "nothing lost, nothing wrong" in command("crash.py", "errors", "--every", "433")


@needs_cc
def test_power_lost_while_a_backup_is_made():
    assert "nothing lost, nothing wrong" in command("crash.py", "backups", "--every", "19")


def test_readers_beside_a_writer_see_whole_states():
    assert "none wrong" in command(
        "concurrency.py", "--seconds", "3", "--processes", "2", "--threads", "2"
    )


def test_hostile_texts_are_split_without_loss():
    assert len(command("hostile.py", "--megabytes", "0.02").splitlines()) == 23


# Damage


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()  # a backup may have linked it
    path.write_bytes(data)


def sql(index: Path, statement: str) -> None:
    with sqlite3.connect(index / "catalog.sqlite") as connection:
        connection.executescript(statement)


DAMAGE = {
    "vectors flipped": lambda index: flip(next((index / "segments").glob("*.faiss"))),
    "vectors gone": lambda index: next((index / "segments").glob("*.faiss")).unlink(),
    "words flipped": lambda index: flip(next((index / "segments").glob("*.words"))),
    "structure gone": lambda index: next((index / "segments").glob("*.structure")).unlink(),
    "text": lambda index: sql(index, "UPDATE text_block SET data = x'00' WHERE document = 2"),
    "sentences": lambda index: sql(
        index, "UPDATE sentence_block SET data = x'00' WHERE document = 1"
    ),
    "segment row": lambda index: sql(index, "UPDATE segment SET facts = '{}'"),
    "a document's row": lambda index: sql(index, "UPDATE document SET title = 'x' WHERE id = 3"),
    "list of documents": lambda index: sql(
        index, "UPDATE meta SET value = '5' WHERE key = 'live_documents'"
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named_and_a_backup_replaces_it(lmkrag, index, tmp_path, damage):
    question = (
        "search",
        "How long must the lamp burn before the wick is trimmed?",
        "--index",
        index,
        "--json",
    )
    right = lmkrag(*question).stdout
    assert lmkrag("backup", index, tmp_path / "backup").returncode == 0
    DAMAGE[damage](index)
    done = lmkrag("verify", "--index", index)
    assert (
        done.returncode,
        "restore a backup, or index the sources again, elsewhere" in done.stderr,
    ) == (1, True)
    shutil.rmtree(index)
    shutil.copytree(tmp_path / "backup", index)
    assert lmkrag("verify", "--index", index).returncode == 0
    assert lmkrag(*question).stdout == right


def test_a_catalog_that_is_wholly_gone_says_what_to_do(lmkrag, index):
    for path in index.glob("catalog.sqlite*"):
        path.write_bytes(b"\0" * 4096)
    for name in ("search x", "verify"):
        done = lmkrag(*name.split(), "--index", index)
        assert done.returncode == 1
        assert "the catalog can't be read" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def damage_header(index: Path, size: int) -> None:
    with (index / "catalog.sqlite").open("r+b") as file:
        file.write(os.urandom(size))


@pytest.mark.parametrize("size", [16, 100, 8_192], ids=["magic", "header", "first page"])
def test_a_damaged_header_says_what_to_do(lmkrag, index, size):
    damage_header(index, size)
    refused = lmkrag("search", "lamp", "--index", index)
    assert (
        refused.returncode,
        "restore a backup, or index the sources again" in refused.stderr,
    ) == (1, True)


def test_renames_are_made_durable(index, monkeypatch):
    from lmkrag.index import working

    synced = []
    monkeypatch.setattr(working, "sync", lambda path: synced.append(path))
    reindex(index)
    assert synced[-1] == index.parent


# Read-only directories


@pytest.fixture
def read_only(index):
    """A sample index in a directory that can't be written to."""
    if os.geteuid() != 0:
        for path in [index, *index.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield index
        for path in [index, *index.rglob("*")]:
            path.chmod(0o755)
        return
    mounted = subprocess.run(["mount", "--bind", index, index], capture_output=True)
    if mounted.returncode:
        pytest.skip("root can write anywhere, and may not mount here")
    subprocess.run(["mount", "-o", "remount,ro,bind", index], check=True)
    yield index
    subprocess.run(["umount", "-l", index], check=True)


def test_a_read_only_index_is_searched_and_writing_is_refused(read_only, encoder, corpus):
    with Engine.open(read_only, encoder=encoder) as engine:
        assert engine.search("which stones moved?")
        assert engine.verify() == ()
        with pytest.raises(StorageError, match="can't be written to"):
            engine.add(corpus)


def test_a_full_disk_loses_nothing(tmp_path, encoder, corpus):
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", disk]).returncode
    ):
        pytest.skip("needs to mount a small file system")
    try:
        with Engine.open(disk / "index", create=True, encoder=encoder) as engine:
            engine.add([Document("a", "a", "The bridge is closed on Mondays.")])
            long = "\n\n".join(
                f"Line {i}: {np.random.default_rng(i).bytes(8).hex()}." for i in range(120)
            )
            with pytest.raises(StorageError, match=r"writing failed|can't be used"):
                engine.add([Document("b", "b", long)])
            assert engine.verify() == ()
            assert engine.status().documents == 1
            assert engine.search("when is the bridge closed?")[0].doc_id == "a"
            subprocess.run(["mount", "-o", "remount,size=40m", disk], check=True)
            assert engine.add([Document("b", "b", long)]).added == 1
            assert engine.verify() == ()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


# Determinism


def contents(index: Path) -> dict:
    with Engine.open(index) as engine, engine._store.reader.snapshot() as snapshot:
        from lmkrag.index import catalog

        found = {}
        for row in snapshot.all_documents():
            ids = np.arange(row.first_sentence, row.first_sentence + row.sentences)
            ends = catalog.read_stored(snapshot.connection, row).sentences.ends.tolist()
            found[row.doc_id] = (
                row.first_sentence,
                row.content_checksum,
                ends,
                snapshot.read_vectors(ids),
            )
        return found


def test_batches_threads_and_the_order_of_files_change_nothing(
    encoder, corpus, tmp_path, monkeypatch
):
    from lmkrag import LandmarkEncoder
    from lmkrag.encoder import landmark
    from lmkrag.ingest import pipeline as encoding
    from lmkrag.models.session import count_threads

    files = sorted(path for path in corpus.rglob("*") if path.is_file())
    threads = count_threads()
    with Engine.open(tmp_path / "one", create=True, encoder=encoder) as engine:
        engine.add(files)
    monkeypatch.setenv("OMP_NUM_THREADS", "1" if threads > 1 else "2")
    monkeypatch.setattr(landmark, "_BATCH_TOKENS", 700)
    monkeypatch.setattr(landmark, "_POOL_TOKENS", 1_500)
    monkeypatch.setattr(encoding, "_COMMIT_SENTENCES", 50)
    monkeypatch.setattr(encoding, "_SEGMENT_ROWS", 40)
    with Engine.open(tmp_path / "other", create=True, encoder=LandmarkEncoder.load()) as engine:
        engine.add(files[::-1])
        assert engine.verify() == ()
    shutil.move(
        tmp_path / "other", tmp_path / "elsewhere"
    )  # an index has no absolute paths of its own
    one, other = contents(tmp_path / "one"), contents(tmp_path / "elsewhere")
    assert list(one) == list(other)
    for name in one:
        assert one[name][:3] == other[name][:3]
        np.testing.assert_allclose(one[name][3], other[name][3], atol=2e-3)


# Security


def test_nothing_is_unpickled_evaluated_or_fetched():
    package = Path(importlib.util.find_spec("lmkrag").origin).parent
    banned = (
        "pickle",
        "torch.load(",
        "eval(",
        "exec(",
        "yaml.load(",
        "allow_pickle=True",
        "shell=True",
        "os.system",
    )
    for path in package.rglob("*.py"):
        text = path.read_text("utf-8").replace(".eval()", "").replace('"eval(', "")
        assert [word for word in banned if word in text] == [], path


def test_an_index_can_not_name_files_outside_itself(index, encoder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    sql(index, "UPDATE segment SET name = '../../secret'")
    with pytest.raises(IndexCorrupt):
        Engine.open(index, encoder=encoder).search("x")
    sql(index, "DELETE FROM segment")
    with pytest.raises(StorageError), Engine.open(index, encoder=encoder) as engine:
        engine.search("x")
    assert secret.read_text() == "x"


def test_code_and_pickles_that_come_with_a_model_are_not_run(tmp_path, encoder):
    import torch

    from lmkrag import LandmarkEncoder
    from lmkrag.encoder.spec import find_model
    from lmkrag.errors import EncoderError

    ran = tmp_path / "ran"
    folder = tmp_path / "model"
    shutil.copytree(find_model(None), folder)
    (folder / "evil.py").write_text(f"open({str(ran)!r}, 'w').write('x')\nclass Evil: pass\n")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {
        "AutoModel": "evil.Evil",
        "AutoConfig": "evil.Evil",
        "AutoTokenizer": ["evil.Evil", None],
    }
    (folder / "config.json").write_text(json.dumps(config))
    with contextlib.suppress(EncoderError):
        LandmarkEncoder.load(str(folder))
    assert not ran.exists()

    pickled = tmp_path / "pickled"
    shutil.copytree(find_model(None), pickled)
    (pickled / "model.safetensors").unlink()
    torch.save(Bomb(ran), pickled / "pytorch_model.bin")
    with pytest.raises(EncoderError):
        LandmarkEncoder.load(str(pickled))
    assert not ran.exists()


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_key_is_in_no_output(index):
    secret = "sk-very-secret-word"
    code = f"""
from lmkrag.cli import main
for url in ("http://127.0.0.1:9/v1", "http://user@127.0.0.1:9/v1", "nonsense"):
    try:
        question = ["ask", "When are bonfires allowed?", "--index", {str(index)!r}, "--rerank", "off"]
        main([*question, "--reader", "openai", "--base-url", url, "--model", "m", "--timeout", "1"])
    except SystemExit as ended:
        print(f"{{url}}: exit {{ended.code}}")
"""
    variables = {"OPENAI_API_KEY": secret, "OPENAI_LOG": "debug", "LMKRAG_DEBUG": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | variables
    )
    assert [
        line.rpartition(": ")[2] in ("exit 1", "exit 2") for line in done.stdout.splitlines()
    ] == [True] * 3
    assert secret not in done.stdout + done.stderr
