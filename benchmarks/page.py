"""How long until the page shows something, and until a question shows its first passage?

    python benchmarks/page.py INDEX [--runs 9]

Serves the index, opens the page in a browser and asks questions, one after the other; medians. Then the weight of the
page: bytes of every file it loads before a question is asked.
"""

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import time

from playwright.sync_api import Page, sync_playwright

QUESTIONS = (
    "how is leave accrued?",
    "who approves it?",
    "what is trimmed at dawn?",
    "when was it opened?",
)
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("index")
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    command = [sys.executable, "-m", "lmkrag", "serve", "--port", "0", "--index", options.index]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        address = next(
            match[1] for line in server.stderr or () if (match := re.search(r"(http://\S+)", line))
        )
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            ask(browser.new_page(), address, QUESTIONS[0])  # the first search loads the models
            paints, passages = [], []
            for number in range(options.runs):
                page = browser.new_page()
                page.goto(address)
                page.locator("#q").wait_for()
                paints.append(page.evaluate(PAINT))
                passages.append(ask(page, address, QUESTIONS[number % len(QUESTIONS)]))
                page.close()
            page, sizes = browser.new_page(), []
            page.on(
                "response",
                lambda response: sizes.append(len(response.body())) if response.ok else None,
            )
            page.goto(address)
            page.wait_for_load_state("networkidle")
        print(f"first paint                    {statistics.median(paints):6.0f} ms")
        print(f"from a question to a passage   {1000 * statistics.median(passages):6.0f} ms")
        print(f"weight                         {sum(sizes) / 1000:6.1f} KB in {len(sizes)} files")
    finally:
        server.terminate()
        server.wait()


def ask(page: Page, address: str, question: str) -> float:
    """The seconds from Enter to the first passage."""
    page.goto(address)
    page.locator("#q").fill(question)
    started = time.monotonic()
    page.locator("#q").press("Enter")
    page.locator(".result").first.wait_for()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
