"""Draw docs/images/page-*.png: the page on the sample corpus, in a browser.

python docs/images/page.py
python docs/images/page.py FOLDER      every state, light and dark, at three widths, to be looked at
"""

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, Route, sync_playwright

from lmkrag import Engine

ROOT = Path(__file__).parents[2]
MARKDOWN, PDF = "who approves leave?", "how far have the coping stones moved?"


class State(NamedTuple):
    """What the page shows: an address, what is waited for, and what is clicked then."""

    address: str
    shown: str = ".said"
    clicked: str = ""
    fails: bool = False  # questions, as if the server were gone
    indexing: bool = False  # whether the server says that it is


CITED = State(f"/?q={MARKDOWN}", clicked=".citation")
PICTURES = {  # of the documentation, with their width and scheme
    "page-home": (State("/", ".starters li:nth-child(3)"), 1280, "light"),
    "page-markdown": (CITED, 1600, "light"),
    "page-pdf": (State(f"/?q={PDF}", clicked=".citation"), 1600, "light"),
    "page-documents": (State("/?view=documents", ".list"), 1280, "light"),
    "page-phone": (State(f"/?q={MARKDOWN}"), 390, "dark"),
}
STATES = {
    "home": State("/", ".starters li:nth-child(3)"),
    "value": State("/?q=how many turns of the crank wind the clockwork?"),
    "passages": State(f"/?q={MARKDOWN}", clicked=".passages > summary"),
    "weak": State("/?q=which ships did the keeper sell?"),
    "refusal": State("/?q=what does the parliament of Peru decide?"),
    "pdf": State(f"/?q={PDF}", clicked=".citation"),
    "markdown": CITED,
    "code": State(
        "/?index=code&q=where is the strip drawn?&doc=relevance_strip.py", ".document .code"
    ),
    "history": State("/?view=history", ".history .line"),
    "all": State(f"/?index=*&q={MARKDOWN}"),
    "indexing": State(f"/?q={MARKDOWN}", indexing=True),
    "error": State("/?q=who trims the wick?", ".problem", fails=True),
}


def main() -> None:
    """Index the sample corpus, serve it, take the pictures."""
    with serve() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        if len(sys.argv) > 1:
            take_states(browser, address, Path(sys.argv[1]))
            return
        for name, (state, width, scheme) in PICTURES.items():
            size = {"width": width, "height": 844 if width < 500 else 900}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            show(page, address, state)
            page.screenshot(path=str(Path(__file__).with_name(f"{name}.png")))
            page.close()


@contextlib.contextmanager
def serve() -> Iterator[str]:
    """Serve the sample corpus, and some code; yield the address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "lmkrag", "serve", "--port", "0", "--writable"]
        command += ["--rerank-timeout-ms", "30000"]  # or a busy machine would show other answers
        files = {"handbook": [ROOT / "tests" / "data" / "corpus"]}
        if len(sys.argv) > 1:
            files["code"] = list(Path(__file__).parent.glob("*.py"))
        for name, paths in files.items():
            with Engine.open(Path(folder) / name, create=True) as engine:
                engine.add(paths)
            command += ["--index", f"{folder}/{name}"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            yield next(
                match[1]
                for line in server.stderr or ()
                if (match := re.search(r"(http://\S+)", line))
            )
        finally:
            server.terminate()
            server.wait()


def take_states(browser: Browser, address: str, folder: Path) -> None:
    """Save every state in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        for name, state in STATES.items():
            page.set_viewport_size({"width": 1400, "height": 900})
            show(page, address, state)
            for width in (1400, 900, 390):
                page.set_viewport_size({"width": width, "height": 844 if width < 500 else 900})
                page.wait_for_timeout(300)
                page.screenshot(path=str(folder / f"{name}-{width}-{scheme}.png"))


def show(page: Page, address: str, state: State) -> None:
    """Let the page show a state."""
    page.unroute_all()
    if state.fails:
        page.route("**/api/ask", lambda route: route.abort())
    if state.indexing:
        page.route("**/api/status*", say_indexing)
    page.goto(address + state.address)
    page.locator(state.shown).first.wait_for(timeout=120_000)
    page.wait_for_load_state("networkidle")
    if state.clicked:
        page.locator(state.clicked).first.click()
    if state.clicked == ".citation":
        page.locator(".document .place, .document .rectangle").first.wait_for(timeout=120_000)
        page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)


def say_indexing(route: Route) -> None:
    """Answer with the index's status, as if half of a folder were indexed."""
    reply = route.fetch()
    indexing = {"done": 3_000_000, "total": 6_000_000}
    route.fulfill(response=reply, json={**reply.json(), "follows": True, "indexing": indexing})


if __name__ == "__main__":
    main()
