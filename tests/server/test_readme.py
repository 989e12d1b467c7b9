"""What the README and docs/serving.md say of the server is so."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python_of(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def test_python(server):
    snippets = [code for code in python_of("README.md") + python_of("docs/serving.md") if "localhost:8700" in code]
    assert len(snippets) == 3
    for snippet in snippets:
        code = snippet.replace("http://localhost:8700", server.url).replace("handbook", "demo")
        names: dict = {}
        exec("from lmkrag import Engine\n" + code, names)
        if "reply" in names:
            said = re.findall(r"# (.*)", snippet)
            message = names["reply"].choices[0].message
            assert [message.content.splitlines()[0], message.annotations[0].url_citation.title] == [
                line.replace("demo-", "lighthouse-") for line in said
            ]


def test_the_output_of_curl(client):
    shown = re.search(r"\$ curl .*?-d '(\{.*?\})'.*?\n(\{\n.*?\n\})\n", (ROOT / "README.md").read_text(), re.DOTALL)
    asked, expected = json.loads(shown[1]), json.loads(shown[2])
    reply = client.post("/api/ask", json=asked).json()
    for citation in [*reply["citations"], *expected["citations"]]:
        citation["path"] = Path(citation["path"]).name
    assert {name: reply[name] for name in expected} == expected


def test_routes_are_described(client):
    text = (ROOT / "docs" / "serving.md").read_text()
    for path in client.get("/openapi.json").json()["paths"]:
        first = re.sub(r"\{doc_id\}", "ID", path)
        first = re.sub(r"\{job_id\}", "JOB", first).replace("{number}", "N")
        if path not in ("/api/login", "/api/logout"):
            assert first in text, path


def test_configuration_of_an_assistant():
    for name in ("README.md", "docs/serving.md"):
        (block,) = re.findall(r"```json\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
        server = json.loads(block)["mcpServers"]["documents"]
        assert server["command"] == "lmkrag" and server["args"][0] == "mcp"
