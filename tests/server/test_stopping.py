"""The server stops when it is told to, and answers first."""

import signal
import threading
import time


def test_requests_in_flight_end(serve, built_index, chat_server, causal_model, tmp_path):
    options = ["--reader", "openai", "--base-url", chat_server, "--model", causal_model, "--index", built_index]
    with serve(tmp_path, *options, OPENAI_API_KEY="none") as running, running.client() as client:
        texts: list[str] = []

        def ask():
            body = {"question": "When are bonfires allowed?", "stream": True}
            with client.stream("POST", "/api/ask", json=body) as response:
                began.set()
                texts.append(response.read().decode())

        began = threading.Event()
        thread = threading.Thread(target=ask)
        thread.start()
        assert began.wait(60)
        running.process.send_signal(signal.SIGTERM)
        thread.join(60)
        assert running.process.wait(60) in (0, -signal.SIGTERM)
        assert "event: answer" in texts[0]
    assert "Traceback" not in running.log.read_text()


def test_an_idle_server_stops_at_once(serve, built_index, tmp_path):
    with serve(tmp_path, "--index", built_index, "--writable") as running, running.client() as client:
        client.get("/api/status")
        began = time.monotonic()
        running.process.send_signal(signal.SIGINT)
        running.process.wait(40)
        assert time.monotonic() - began < 15
    assert "Traceback" not in running.log.read_text()
