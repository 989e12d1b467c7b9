"""One module asks the system for what not every system has, and each answer has another road."""

import ast
import errno
import fcntl
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from lmkrag.system import platform

ROOT = Path(__file__).parents[2]
THE_MODULE = ROOT / "lmkrag/system/platform.py"
OF_SOME_SYSTEMS = {"fcntl", "resource", "termios", "posix", "multiprocessing"}
NOT_EVERYWHERE = {
    *("sched_getaffinity", "sched_setaffinity", "posix_fadvise", "posix_fallocate", "fdatasync"),
    *("fork", "forkpty", "sendfile", "splice", "copy_file_range", "memfd_create", "eventfd"),
    *("pidfd_open", "getrandom", "setrlimit", "prlimit", "flock", "prctl", "CDLL", "epoll"),
}
OF_THE_SYSTEM = ("/proc", "/sys", "/dev/shm", "/run")


def strings_of_documentation(tree: ast.AST) -> set[ast.AST]:
    """The strings that stand alone, which are docstrings."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def find_uses(source: str) -> list[str]:
    """What code asks of the system that not every system has."""
    tree = ast.parse(source)
    documentation = strings_of_documentation(tree)
    uses: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            uses += [name.name for name in node.names if name.name in OF_SOME_SYSTEMS]
        elif isinstance(node, ast.ImportFrom):
            names = {node.module, *(name.name for name in node.names)}
            uses += names & (OF_SOME_SYSTEMS | NOT_EVERYWHERE)
        elif isinstance(node, ast.Attribute) and node.attr in NOT_EVERYWHERE:
            uses.append(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_path = node.value.startswith(OF_THE_SYSTEM)
            uses += [node.value] if is_path and node not in documentation else []
    return uses


def test_only_one_module_asks_for_what_not_every_system_has():
    sources = {path: path.read_text() for path in (ROOT / "lmkrag").rglob("*.py")}
    uses = {str(path): found for path, text in sources.items() if (found := find_uses(text))}
    assert {*find_uses(THE_MODULE.read_text())} >= {"fcntl", "resource", "sched_getaffinity"}
    del uses[str(THE_MODULE)]
    assert uses == {}


@pytest.mark.parametrize(
    "line",
    [
        "import fcntl",
        "from os import fork",
        "import os; os.posix_fadvise(1, 0, 0, 0)",
        "from pathlib import Path; Path('/proc/self/statm').read_text()",
        "import ctypes; ctypes.CDLL(None).prctl(1, 9)",
    ],
)
def test_another_module_that_does_is_found(line):
    assert find_uses(line)


def test_the_types_of_macos_have_all_that_is_used(tmp_path):
    """typeshed knows what each system's Python has; ``make check-types`` looks at the whole package."""
    checked = "".join((ROOT / name).read_text() for name in ("Makefile",))
    assert "mypy --platform darwin" in checked
    (tmp_path / "code.py").write_text("import os\nos.sched_getaffinity(0)\n")
    command = [sys.executable, "-m", "mypy", "--platform", "darwin", "code.py"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert 'Module has no attribute "sched_getaffinity"' in result.stdout


def test_processors_are_counted_without_affinity(monkeypatch):
    assert platform.count_cpus() >= 1
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert platform.count_cpus() == os.cpu_count()


def test_a_limit_of_memory_that_is_refused_is_said(monkeypatch):
    def refuse(*_):
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert platform.limit_memory(1 << 40) is False
    platform.limit_processor(60)
    platform.leave_no_core()


def test_a_lock_keeps_others_out_and_says_so(tmp_path):
    path = tmp_path / "lock"
    assert platform.is_locked(path) is False
    with platform.hold_lock(path):
        assert platform.is_locked(path) is True
        with pytest.raises(BlockingIOError), platform.hold_lock(path, wait=False):
            pass
    assert platform.is_locked(path) is False


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_a_file_system_without_locks_locks_nothing(tmp_path, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with platform.hold_lock(tmp_path / "lock"), platform.hold_lock(tmp_path / "lock", wait=False):
        assert platform.is_locked(tmp_path / "lock") is None


def test_a_file_is_forced_to_the_disk_as_the_system_can(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", done.append)
    platform.sync(tmp_path)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, command: done.append(command))
    platform.sync(tmp_path)
    assert len(done) == 2 and done[1] == 51


def test_a_process_ends_with_its_parent_where_the_system_does_not_end_it(tmp_path):
    child = (
        "import ctypes, time\n"
        "class Library:\n    pass\n"
        "ctypes.CDLL = lambda *_, **__: Library()\n"
        "from lmkrag.system.platform import end_with_parent\n"
        "end_with_parent()\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    (tmp_path / "child.py").write_text(child)
    parent = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, sys.argv[1]], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\nos._exit(0)\n"
    )
    # the pipe of the errors ends with the child, which has it from its parent
    command = [sys.executable, "-c", parent, str(tmp_path / "child.py")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert (result.returncode, result.stderr) == (0, "")
