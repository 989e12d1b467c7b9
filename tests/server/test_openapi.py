"""The API as it is described: the description does not change unnoticed, and requests made from it are answered."""

import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

GOLDEN = Path(__file__).parent.parent / "data" / "openapi.json"
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
EXAMPLES = int(os.environ.get("LMKRAG_TEST_EXAMPLES", "15"))
"""Requests of each operation."""

HOW_TO = "`python tests/server/test_openapi.py` writes it anew"


def described() -> dict:
    import tempfile

    from lmkrag import Engine
    from lmkrag.server.app import create_app
    from lmkrag.server.settings import ServerSettings

    with tempfile.TemporaryDirectory() as folder:
        Engine.open(f"{folder}/index", create=True).close()
        guard = create_app(ServerSettings({"demo": Path(folder) / "index"}))
        return guard._app._app.openapi()  # type: ignore[attr-defined]


def unwrap(value):
    """Return a description of the API in which no text wraps: where docstrings do does not count."""
    if isinstance(value, list):
        return [unwrap(item) for item in value]
    if isinstance(value, dict):
        return {name: unwrap(item) for name, item in value.items()}
    return " ".join(value.split()) if isinstance(value, str) else value


def write() -> None:
    found = unwrap(described())
    GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def test_description_is_the_golden_one(client):
    found = unwrap(client.get("/openapi.json").json())
    golden = json.loads(GOLDEN.read_text())
    del found["info"]["version"], golden["info"]["version"]
    assert found == golden, f"the API has changed; {HOW_TO}"


def test_every_request_has_an_example(client):
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["SearchBody"]["properties"]["query"]["examples"]
    assert schemas["AskBody"]["properties"]["question"]["examples"]


def operations() -> list[str]:
    described = json.loads(GOLDEN.read_text())["paths"]
    return [f"{method.upper()} {path}" for path, methods in described.items() for method in methods]


@pytest.fixture(scope="module")
def schema(serve, built_index, tmp_path_factory):
    """What a server describes that may be written to, on an index of its own."""
    folder = tmp_path_factory.mktemp("generated")
    shutil.copytree(built_index, folder / "index")
    with serve(
        folder, "--index", f"demo={folder / 'index'}", "--writable", "--rerank", "off"
    ) as running:
        yield schemathesis.openapi.from_url(f"{running.url}/openapi.json")
        counts = Counter()
        for line in httpx.get(f"{running.url}/metrics").text.splitlines():
            if line.startswith("lmkrag_requests_total{"):
                counts[re.search(r'status="(\d+)"', line)[1]] += int(float(line.rsplit(" ", 1)[1]))
        print(f"{counts.total()} requests, by status: {dict(sorted(counts.items()))}")


@pytest.mark.parametrize("operation", operations())
def test_generated_requests(schema, operation):
    method, path = operation.split()
    described = schema[path][method]

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=described.as_strategy())
    def run(case):
        case.call_and_validate(checks=CHECKS, timeout=30)

    run()


if __name__ == "__main__":
    write()
