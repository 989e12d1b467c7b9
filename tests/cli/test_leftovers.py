"""What a killed backup or reindexing left beside an index: every command names it, the next that writes removes it."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lmkrag import Engine
from lmkrag.index.files import lock_index
from lmkrag.index.working import WorkingFolder

KILLED = {
    "backup": """
import os, signal
import lmkrag.index.backup as backup
backup.find_problems = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # the copy is complete, and not in its place
""",
    "reindex": """
import os, signal
from lmkrag.index.store import IndexStore
commit = IndexStore.commit
def commit_and_end(*arguments, **options):
    commit(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)
IndexStore.commit = commit_and_end
""",
}


def kill(job: str, *arguments: object) -> None:
    """Run a command that is killed in the middle of its job."""
    script = f"{KILLED[job]}\nfrom lmkrag.cli import main\nmain({[*map(str, arguments)]!r})"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    killed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env=environment, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr


@pytest.fixture(params=["backup", "reindex"])
def left(request, index, tmp_path):
    """An index, the job that was killed, and the folder that it left."""
    if request.param == "backup":
        copy = tmp_path / "copy"
        shutil.copytree(index, copy)
        (copy / "backup.json").write_text(f'{{"path": "{copy}"}}\n')
        kill("backup", "backup", index, copy)
        index = copy
    else:
        kill("reindex", "index-tools", "reindex", "--index", index)
    folder = index.with_name(f".{index.name}.lmkrag-{request.param}")
    assert any(path.is_file() and path.stat().st_size > 10_000 for path in folder.rglob("*"))
    return index, request.param, folder


READING = [["search", "leave"], ["list"], ["status"], ["show", "glass-river.txt"], ["verify"]]


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_commands_that_read_name_it(lmkrag, left, command):
    index, job, folder = left
    result = lmkrag(*command, "--index", index)
    said = f"lmkrag: {folder}: left by an interrupted {job}; the next command that writes to the index removes it\n"
    assert (result.returncode, result.stderr.startswith(said)) == (0, True)
    assert folder.exists()


@pytest.mark.parametrize(
    "command", [["remove", "glass-river.txt"], ["index-tools", "compact"], ["index"]], ids=str
)
def test_commands_that_write_name_and_remove_it(lmkrag, left, command, tmp_path):
    index, job, folder = left
    if command == ["index"]:
        (tmp_path / "new.md").write_text("The gate is green.")
        command = ["index", tmp_path / "new.md"]
    result = lmkrag(*command, "--index", index)
    assert result.returncode == 0
    assert result.stderr.startswith(
        f"lmkrag: {folder}: left by an interrupted {job}; it is removed\n"
    )
    assert not folder.exists()
    with Engine.open(index) as engine:
        assert engine.verify() == ()


def test_the_same_command_goes_on_with_it(lmkrag, left, tmp_path):
    index, job, folder = left
    source = tmp_path / "index"
    again = (
        ["backup", source, index]
        if job == "backup"
        else ["index-tools", "reindex", "--index", index]
    )
    result = lmkrag(*again)
    assert (result.returncode, folder.exists()) == (0, False)
    assert result.stderr.startswith(
        f"lmkrag: {folder}: left by an interrupted {job}; it is continued or removed\n"
    )


def test_a_job_that_goes_on_is_not_taken_for_an_interrupted_one(lmkrag, left):
    index, job, folder = left
    with lock_index(folder if job == "backup" else index):
        assert lmkrag("list", "--index", index).stderr == ""
        if job == "backup":
            assert lmkrag("remove", "glass-river.txt", "--index", index).returncode == 0
    assert folder.exists()


def test_a_folder_of_somebody_else_is_left_alone(lmkrag, index):
    folder = index.with_name(f".{index.name}.lmkrag-reindex")
    folder.mkdir()
    (folder / "mine.txt").write_text("not of lmkrag")
    result = lmkrag("remove", "glass-river.txt", "--index", index)
    assert (result.returncode, result.stderr.count("\n")) == (0, 1)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_an_index_that_was_being_exchanged_is_in_its_place_again(lmkrag, index):
    """Where the system can't exchange two folders in one step, a kill between two renames leaves none in place."""
    expected = lmkrag("list", "--index", index).stdout
    work = WorkingFolder(index, "reindex")
    work.claim()
    shutil.copytree(index, work.new)
    Path(index).rename(work.old)
    result = lmkrag("index", "--index", index, Path(__file__))
    assert result.returncode == 0
    assert set(expected.splitlines()) < set(lmkrag("list", "--index", index).stdout.splitlines())
    assert not work.path.exists()
