"""What the system refuses: folders without permission, closed and full outputs. It costs one line, or one file."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
_OVERRIDES = "-dac_override,-dac_read_search"


@pytest.fixture
def lmkrag_user() -> Run:
    """Run a line of shell, in which "$@" is the command, as somebody to whom permissions apply."""
    prefix = (
        []
        if os.geteuid()
        else ["setpriv", f"--bounding-set={_OVERRIDES}", f"--inh-caps={_OVERRIDES}"]
    )
    if prefix and (
        shutil.which("setpriv") is None or subprocess.run([*prefix, "true"], check=False).returncode
    ):
        pytest.skip("root can't give up its permissions here")

    def run(line: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [*prefix, sys.executable, "-m", "lmkrag", *map(str, arguments)]
        settings = {**os.environ, "HF_HUB_OFFLINE": "1", "LMKRAG_RERANK": "off"}
        return subprocess.run(
            ["sh", "-c", line, "sh", *command],
            capture_output=True,
            text=True,
            env=settings,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def docs(tmp_path: Path):
    """A folder with one inside that can be locked."""
    private = tmp_path / "docs" / "private"
    private.mkdir(parents=True)
    (tmp_path / "docs" / "a.txt").write_text("The mill was built in 1801.")
    (private / "c.txt").write_text("The church has two bells.")
    yield tmp_path / "docs"
    private.chmod(0o755)


@pytest.mark.parametrize("option", ["--follow-links", "--prune", "--watch"])
def test_a_folder_that_can_not_be_read_any_more_costs_itself_only(
    docs, tmp_path, lmkrag, lmkrag_user, option
):
    index = tmp_path / "index"
    assert lmkrag("index", docs, "--index", index).returncode == 0
    (docs / "a.txt").write_text("The mill was built in 1802, and burnt.")
    (docs / "new.txt").write_text("The bridge was painted green.")
    (docs / "elsewhere").symlink_to(docs / "private" / "c.txt")
    (docs / "private").chmod(0)
    log = tmp_path / "log"
    until_it_follows = (
        f'"$@" 2>{log} & until grep -q following {log}; do sleep 0.1; done; kill $!; cat {log} >&2'
    )
    line = until_it_follows if option == "--watch" else '"$@"'
    run = lmkrag_user(line, "index", docs, "--index", index, option)
    assert "skipped private/: can't be read (Permission denied)" in run.stderr
    assert "1 added, 1 updated" in run.stderr
    assert "Traceback" not in run.stderr
    assert lmkrag("list", "--index", index).stdout.split() == ["a.txt", "new.txt", "private/c.txt"]
    alone = lmkrag_user('"$@"', "index", docs / "private" / "c.txt", "--index", index)
    assert (alone.returncode, alone.stderr) == (
        2,
        f"lmkrag: {docs}/private/c.txt: permission denied\n",
    )


def test_a_working_directory_that_can_not_be_read(lmkrag_user, docs):
    run = lmkrag_user(f'cd {docs}/private && chmod 0 . && exec "$@"', "list")
    assert (run.returncode, run.stdout) == (1, "")
    where = "'indexes/default/catalog.sqlite'"
    assert run.stderr == f"lmkrag: reading or writing failed (Permission denied: {where})\n"


@pytest.mark.parametrize(
    "arguments", ["ask leave", "search leave --json", "list", "show glass-river.txt"]
)
@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('exec "$@" >&-', "standard output is closed"),
        ('exec "$@" >/dev/full', "No space left on device"),
    ],
    ids=["closed", "full"],
)
def test_an_output_that_can_not_be_written(lmkrag_user, index, arguments, line, why):
    if "full" in line and not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    run = lmkrag_user(line, *arguments.split(), "--index", index)
    assert (run.returncode, run.stderr) == (1, f"lmkrag: reading or writing failed ({why})\n")


def test_closed_inputs_and_messages(lmkrag_user, index):
    assert lmkrag_user('exec "$@" 2>&-', "ask", "leave", "--index", index).returncode == 0
    assert lmkrag_user('exec "$@" <&-', "chat", "--index", index).returncode == 0
    run = lmkrag_user('exec "$@" <&-', "ask", "-", "--index", index)
    assert (run.returncode, run.stderr) == (2, "lmkrag: the question is empty\n")
