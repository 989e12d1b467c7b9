"""An S3 server on this machine, and what searches of one index must find as those of another."""

import os
import socket
import subprocess
import sys
import time

import pytest


@pytest.fixture(scope="session")
def s3():
    """The environment of an S3 server on this machine."""
    pytest.importorskip("moto")
    pytest.importorskip("s3fs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    deadline = time.monotonic() + 60
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        assert time.monotonic() < deadline and server.poll() is None
        time.sleep(0.1)
    import s3fs

    s3fs.S3FileSystem().mkdir("bucket")
    yield variables
    server.kill()
    server.wait()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


QUESTIONS = ["who approves leave?", "how far have the coping stones moved?", "smoker", "what is the lamp made of?"]


@pytest.fixture(scope="session")
def everything():
    """What every kind of search finds, with its scores."""

    def find(engine, questions=QUESTIONS) -> dict:
        return {
            (question, level, mode): [
                (span.doc_id, span.start, span.end, pytest.approx(span.score, abs=1e-5))
                for span in engine.search(question, level=level, mode=mode, top_k=20)
            ]
            for question in questions
            for level in ("passage", "span", "sentence", "document")
            for mode in ("hybrid", "dense", "lexical")
        }

    return find
