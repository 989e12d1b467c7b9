"""Hooks of the documentation: the table of HTTP routes, and links of included files."""

import json
import re
from pathlib import Path
from typing import Any

REPOSITORY = "https://github.com/lmkrag/lmkrag/blob/main/"
INCLUDED = {
    "explanation/security.md": "",
    "project/changelog.md": "",
    "project/contributing.md": "",
    "project/benchmarks.md": "benchmarks/",
}
"""Pages that include a file of the repository, and the folder that it is in."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Put the routes in their place; files that are not pages are links into the repository."""
    path = page.file.src_uri
    if path in INCLUDED:
        (name,) = re.findall(r'--8<-- "(.*?)"', markdown)
        return _absolute(Path(name).read_text("utf-8"), INCLUDED[path])
    return (
        markdown.replace("<!-- routes -->", _routes())
        if "<!-- routes -->" in markdown
        else markdown
    )


def _absolute(markdown: str, folder: str) -> str:
    def change(link: re.Match[str]) -> str:
        target = link[2]
        while target.startswith("../"):
            target = target[3:]
        inside = folder if not link[2].startswith("../") else ""
        return f"{link[1]}({REPOSITORY}{inside}{target})"

    return re.sub(r"(\])\((?!https?:|#|mailto:)([^)\s]+)\)", change, markdown)


def _routes() -> str:
    """The routes of the API, from the description that a test compares with the server's."""
    description = json.loads(Path("tests/data/openapi.json").read_text("utf-8"))
    lines = ["| request | what it does |", "| --- | --- |"]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            summary = operation.get("description") or operation.get("summary", "")
            lines.append(f"| `{method.upper()} {path}` | {summary.splitlines()[0]} |")
    return "\n".join(lines)
