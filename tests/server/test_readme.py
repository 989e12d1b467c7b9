"""What the README and the guides say of the server is so."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = "docs/how-to/serve-a-team.md"


def python_of(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def test_python(server):
    snippets = [
        code for code in python_of("README.md") + python_of(GUIDE) if "localhost:8700" in code
    ]
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
    asked, shown = re.search(
        r"\$ curl .*?-d '(\{.*?\})'.*\n(\{.*\})\n", (ROOT / "README.md").read_text()
    ).groups()
    citation = client.post("/api/ask", json=json.loads(asked)).json()["citations"][0]
    expected = json.loads(shown)
    assert {name: citation[name] for name in expected} == expected


def test_configuration_of_an_assistant():
    (block,) = re.findall(
        r"```json\n(.*?)```", (ROOT / "docs/how-to/agents.md").read_text(), re.DOTALL
    )
    server = json.loads(block)["mcpServers"]["documents"]
    assert server["command"] == "lmkrag" and server["args"][0] == "mcp"
