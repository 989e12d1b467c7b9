import os
import pty
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def on_terminal():
    """Run the command line on a terminal and return what it prints there, control codes included."""

    def run(*arguments, code: int = 0, errors: bool = False, **environment: str) -> str:
        ours, theirs = pty.openpty()
        settings = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        process = subprocess.Popen(
            [sys.executable, "-m", "lmkrag", *map(str, arguments)],
            stdout=theirs,
            stderr=theirs if errors else subprocess.DEVNULL,
            env={**settings, "HF_HUB_OFFLINE": "1", "LMKRAG_RERANK": "off", **environment},
        )
        os.close(theirs)
        printed = b""
        while True:
            try:
                part = os.read(ours, 4_096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            printed += part
        assert process.wait(60) == code
        return printed.decode()

    return run
