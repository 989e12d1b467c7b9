"""README as a stranger runs it: block after block, with the package, the extra that a block names, and nothing else."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from lmkrag import __version__

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```(console|python)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
ADDRESS = "https://github.com/lmkrag/lmkrag"
OTHER_PROGRAMS = ("uv ", "docker ")
NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ProxyError|ReadTimeout"
)
SCORE = re.compile(r"  (\d\.\d+)\b")
PORT = "8700"
HOME = "/home/ann"


def commands_of(block: str) -> list[tuple[str, str]]:
    """The commands of a block and what is shown below each."""
    return re.findall(r"\$ (.*)\n((?:(?!\$ ).*\n)*)", block)


class Stranger:
    """A home, empty at first, and the environments in it; nothing of the environment that runs the tests is seen."""

    def __init__(self, home: Path) -> None:
        self.home = home
        cache = subprocess.run(
            [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True
        ).stdout
        names = (
            "LANG",
            "SSL_CERT_FILE",
            "REQUESTS_CA_BUNDLE",
            "http_proxy",
            "https_proxy",
            "no_proxy",
        )
        self.variables = {
            **{
                name: value
                for name, value in os.environ.items()
                if name in names or name.startswith("PIP_")
            },
            "HOME": str(home),
            "PIP_CACHE_DIR": cache.strip(),
            "PIP_RETRIES": "1",
            "PIP_NO_COMPILE": "0",  # which pip takes for no compiling: Python compiles what is imported
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "120",
            "GIT_CONFIG_COUNT": "1",  # the address leads to this repository
            "GIT_CONFIG_KEY_0": f"url.{ROOT}.insteadOf",
            "GIT_CONFIG_VALUE_0": ADDRESS,
        }

    def path(self, environment: Path | None) -> str:
        """PATH with an environment, in which else there is only Python."""
        return ":".join(
            [
                *([f"{environment}/bin"] if environment else []),
                f"{sys.base_prefix}/bin",
                "/usr/bin:/bin",
            ]
        )

    def start(
        self, script: str, folder: Path, environment: Path | None, **options
    ) -> "subprocess.Popen[str]":
        variables = {**self.variables, "PATH": self.path(environment)}
        return subprocess.Popen(
            ["bash", "-ec", script], cwd=folder, env=variables, text=True, **options
        )

    def run(self, script: str, folder: Path, environment: Path | None = None) -> str:
        """Run a script and return what it prints; without the network, the test ends here."""
        process = self.start(
            script, folder, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        output, errors = process.communicate(timeout=400)
        if process.returncode and (failure := NO_NETWORK.search(output + errors)):
            pytest.skip(f"the package registry can't be reached ({failure[0]})")
        assert process.returncode == 0, (script, output, errors)
        return output

    def ask_agent(self, command: list[str]) -> str:
        """Start what an agent was told to, and search as it does; return the reply."""
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        hello["clientInfo"] = {"name": "test", "version": "1"}
        search = {"name": "search", "arguments": {"query": "who approves leave?", "top_k": 1}}
        calls: list[dict] = [
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": search},
        ]
        script = shlex.join([*command, "--in-process"])
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with self.start(f"exec {script}", self.home, None, **pipes) as agent:
            assert agent.stdin is not None and agent.stdout is not None
            for call in calls:
                agent.stdin.write(json.dumps({"jsonrpc": "2.0", **call}) + "\n")
                agent.stdin.flush()
                reply = agent.stdout.readline() if "id" in call else ""
        return reply

    def copy(self, environment: Path, name: str) -> Path:
        """Copy an environment by hard links; its programs start its own Python."""
        copy = self.home / "environments" / name
        shutil.copytree(environment, copy, symlinks=True, copy_function=os.link)
        for program in (copy / "bin").iterdir():
            content = b"" if program.is_symlink() or program.is_dir() else program.read_bytes()
            if str(environment).encode() in content:
                program.unlink()
                program.write_bytes(content.replace(str(environment).encode(), str(copy).encode()))
                program.chmod(0o755)
        return copy


def check_output(command: str, printed: str, shown: str) -> None:
    """What is shown below a command is what it prints, up to scores, which depend on the processor."""
    assert SCORE.sub("", printed).rstrip() == SCORE.sub("", shown).rstrip(), command
    assert [float(score) for score in SCORE.findall(printed)] == pytest.approx(
        [float(score) for score in SCORE.findall(shown)], abs=0.03
    )


@pytest.mark.timeout(900)
def test_every_block_of_the_readme(tmp_path):
    for program in ("git", "make", "curl", "jq"):
        if shutil.which(program, path="/usr/bin:/bin") is None:
            pytest.skip(f"a block of README needs {program}, which is not installed")
    if not (ROOT / ".git").exists():
        pytest.skip("README begins with a clone of the repository, and this is none")
    stranger = Stranger(tmp_path)
    console = [commands_of(block) for language, block in BLOCKS if language == "console"]
    python = [block for language, block in BLOCKS if language == "python"]
    first, connect, clone_it, install_it, ask_it, serve_it, curl_it = console
    assert [*map(len, console)] == [1, 3, 3, 3, 3, 2, 1] and len(python) == 4

    # The clone, and from its environment all others: less is installed then.
    stranger.run("\n".join(command for command, _ in clone_it), tmp_path)
    clone = tmp_path / "lmkrag"
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(tmp_path / "wheel"),
    ]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (tmp_path / "constraints.txt").write_text(f"lmkrag=={__version__}\n")
    stranger.variables["PIP_CONSTRAINT"] = f"{ROOT}/constraints.txt {tmp_path}/constraints.txt"
    stranger.variables["PIP_FIND_LINKS"] = (
        f"{tmp_path}/wheel {os.environ.get('PIP_FIND_LINKS', '')}"
    )
    base = stranger.copy(clone / ".venv", "base")
    stranger.run("pip uninstall --quiet --yes lmkrag", tmp_path, base)
    for command, _ in install_it:
        if not command.startswith(OTHER_PROGRAMS):
            stranger.run(command, tmp_path, base)
    names = "import lmkrag, importlib.util as u; print(lmkrag.__file__, u.find_spec('pytest'), u.find_spec('fastapi'))"
    printed = stranger.run(f'python -c "{names}"', tmp_path, base)
    assert printed.split() == [
        str(next(base.glob("lib/*/site-packages/lmkrag/__init__.py"))),
        "None",
        "None",
    ]

    ((grep, shown),) = first
    documents = tmp_path / "Documents"
    shutil.copytree(ROOT / "tests/data/corpus", documents)
    began = time.monotonic()
    printed = stranger.run(grep.removeprefix("uvx "), tmp_path, base)
    assert time.monotonic() - began < 30  # three seconds on a machine that does nothing else
    assert printed.startswith(shown.removesuffix("...\n"))

    (install_tool, _), (index, _), (connect_it, shown) = connect
    assert install_tool == "uv tool install 'lmkrag[mcp]'"
    environment = stranger.copy(base, "tool")
    stranger.run("pip install 'lmkrag[mcp]'", tmp_path, environment)
    stranger.run(index, tmp_path, environment)
    client = environment / "bin" / "claude"  # which does nothing of what it is told
    client.write_text("#!/bin/sh\n")
    client.chmod(0o755)
    printed = stranger.run(connect_it, tmp_path, environment)
    shown = shown.replace(f"{HOME}/.local/share/uv/tools/lmkrag", str(environment))
    assert printed == shown.replace(HOME, str(tmp_path))
    told = shlex.split(printed.splitlines()[1].partition(" -- ")[2])
    assert "harbour" in stranger.ask_agent(told)

    for command, shown in ask_it:
        refused = shown.startswith("Nothing in these documents")
        printed = stranger.run(f"{command} || test $? = 1" if refused else command, clone, base)
        if shown:
            check_output(command, printed, shown)

    empty = tmp_path / "empty"
    empty.mkdir()
    for block in python[:3]:
        shutil.rmtree(empty)
        empty.mkdir()
        environment = base
        if extra := re.search(r"pip install '(lmkrag\[(\w+)\])'", block):
            environment = stranger.copy(base, extra[2])
            stranger.run(extra[0], tmp_path, environment)
        (tmp_path / "block.py").write_text(block if block == python[0] else python[0] + block)
        printed = stranger.run(f"python {tmp_path}/block.py", empty, environment)
        assert all(line in printed for line in re.findall(r"print\(.*\)  # (.*)", block))

    (install, _), (serve, shown) = serve_it
    environment = stranger.copy(base, "serve")
    stranger.run(install, tmp_path, environment)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    with (tmp_path / "server.log").open("w") as log:
        server = stranger.start(f"exec {serve} --port {port}", clone, environment, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).read()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, (
                    tmp_path / "server.log"
                ).read_text()
                time.sleep(0.2)
        assert shown.replace(PORT, port) in (tmp_path / "server.log").read_text()
        ((ask, shown),) = curl_it
        assert stranger.run(ask.replace(PORT, port), empty) == shown
        (tmp_path / "block.py").write_text(python[3].replace(PORT, port))
        stranger.run(f"python {tmp_path}/block.py", empty, base)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
