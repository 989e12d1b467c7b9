"""Draw docs/images/page-*.png: the page on the sample corpus, in a browser.

python docs/images/page.py
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from lmkrag import Engine

ROOT = Path(__file__).parents[2]
MARKDOWN, PDF = "who approves leave?", "how far have the coping stones moved?"
SCREENS = {  # the address, the width, the scheme, and whether the first citation is opened
    "page-home": ("/", 1280, "light", False),
    "page-markdown": (f"/?q={MARKDOWN}", 1600, "light", True),
    "page-pdf": (f"/?q={PDF}", 1600, "light", True),
    "page-documents": ("/?view=documents", 1280, "light", False),
    "page-phone": (f"/?q={MARKDOWN}", 390, "dark", False),
}
SHOWN = {"page-home": ".starters", "page-documents": ".list"}  # what is waited for; else an answer


def main() -> None:
    """Index the sample corpus, serve it, take the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "handbook"
        with Engine.open(index, create=True) as engine:
            engine.add(ROOT / "tests" / "data" / "corpus")
        command = [
            sys.executable,
            "-m",
            "lmkrag",
            "serve",
            "--port",
            "0",
            "--index",
            str(index),
            "--writable",
            "--rerank-timeout-ms",
            "30000",  # or a busy machine would show other answers
        ]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            address = next(
                match[1]
                for line in server.stderr or ()
                if (match := re.search(r"(http://\S+)", line))
            )
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                for name, (path, width, scheme, opens) in SCREENS.items():
                    height = 844 if width < 500 else 900
                    size = {"width": width, "height": height}
                    take(
                        browser.new_page(viewport=size, color_scheme=scheme),
                        address + path,
                        name,
                        opens=opens,
                    )
        finally:
            server.terminate()
            server.wait()


def take(page: Page, address: str, name: str, *, opens: bool) -> None:
    """Save what the page shows at an address."""
    page.goto(address)
    page.locator(SHOWN.get(name, ".said")).first.wait_for(timeout=120_000)
    page.wait_for_load_state("networkidle")
    if opens:
        page.locator(".citation").first.click()
        page.locator(".document .place, .document .rectangle").first.wait_for(timeout=120_000)
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(500)
    page.screenshot(path=str(Path(__file__).with_name(f"{name}.png")))
    page.close()


if __name__ == "__main__":
    main()
