"""The page in a real browser: ask, open what is cited, find the mark at the right place."""

import re
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from lmkrag import Document, Engine

MARKDOWN = "how is leave accrued?"
PDF = "how far have the coping stones moved?"


@pytest.fixture
def page(browser):
    """A page of which no error was printed when the test is over."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    opened = context.new_page()
    errors: list[str] = []
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("request", lambda request: opened.requested.append(request.url))
    opened.requested, opened.errors = [], errors
    yield opened
    context.close()
    assert errors == []


def until(page, script: str) -> None:
    """Wait until a script is true; playwright's own way is forbidden by the page's policy."""
    deadline = time.monotonic() + 20
    while not page.evaluate(script):
        assert time.monotonic() < deadline, script
        time.sleep(0.05)


def ask(page, url: str, question: str) -> None:
    page.goto(url)
    page.get_by_role("searchbox").fill(question)
    page.get_by_role("searchbox").press("Enter")
    page.locator(".citations li").first.wait_for()
    page.locator(".result").first.wait_for()


def test_ask_and_open_a_citation_in_markdown(page, server, corpus):
    ask(page, server.url, MARKDOWN)
    assert page.locator(".said").inner_text().startswith("3. Leave and relief\nLeave is accrued by the month")
    page.locator(".said .citation").first.click()
    mark = page.locator(".markdown mark").first
    mark.wait_for()
    state = {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}
    text = (corpus / "lighthouse-handbook.md").read_text("utf-8")
    quote = text[int(state["start"]) : int(state["end"])]
    marked = "".join(page.locator(".markdown mark").all_inner_texts())
    assert " ".join(marked.split()) == " ".join(quote.split())
    assert mark.locator("xpath=ancestor::p").count() == 1
    box = mark.bounding_box()
    assert 0 < box["y"] < 900  # it was scrolled to
    assert page.locator(".markdown table td").count() > 3
    assert {urlsplit(address).netloc for address in page.requested} == {urlsplit(server.url).netloc}


def test_open_a_citation_in_a_pdf(page, server):
    ask(page, server.url, PDF)
    page.locator(".citations .link").first.click()
    rectangle = page.locator(".rectangle").first
    rectangle.wait_for()
    assert "Page 2 of 3" in page.locator(".pages").inner_text()
    until(page, "document.querySelector('.page img').naturalWidth > 0")
    image, marked = page.locator(".page img").bounding_box(), rectangle.bounding_box()
    share = (marked["y"] - image["y"]) / image["height"]
    assert 0.15 < share < 0.25  # the paragraph about the parapet is the second of the page
    assert marked["width"] > image["width"] / 2
    page.get_by_role("button", name="Next page").click()
    page.get_by_text("Page 3 of 3").wait_for()
    assert page.locator(".rectangle").count() == 0


def test_an_address_shows_the_same_to_somebody_else(page, server, browser):
    ask(page, server.url, MARKDOWN)
    page.locator(".result h3 button").nth(1).click()
    page.locator("mark").first.wait_for()
    address, marked = page.url, page.locator("mark").first.inner_text()
    other = browser.new_page()
    other.goto(address)
    other.locator("mark").first.wait_for()
    assert other.locator("mark").first.inner_text() == marked
    assert other.get_by_role("searchbox").input_value() == MARKDOWN
    other.close()
    page.go_back()
    page.locator(".document").wait_for(state="detached")


def test_the_strip_leads_to_sentences(page, server):
    ask(page, server.url, MARKDOWN)
    page.locator(".result h3 button").nth(2).click()
    strip = page.get_by_role("slider")
    strip.wait_for()
    before = page.url
    strip.focus()
    strip.press("Home")
    page.wait_for_url(re.compile(r"start=0\b"))
    strip.press("ArrowDown")
    page.wait_for_url(lambda address: "start=0" not in address)
    assert page.url != before
    box = strip.bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + box["height"] / 2)
    page.locator(".strip .sentence").wait_for()
    until(page, "document.querySelector('.strip .sentence').innerText.length > 15")
    page.mouse.click(box["x"] + 10, box["y"] + box["height"] * 0.9)
    page.locator("mark").first.wait_for()


def test_why_feedback_and_keys(page, serve, index, tmp_path):
    with serve(tmp_path, "--index", f"demo={index}", "--writable") as running:
        ask(page, running.url, MARKDOWN)
        result = page.locator(".result").first
        result.get_by_text("Why this passage").click()
        assert "Similarity of the sentence" in result.inner_text()
        assert "Words of the question: leave, accrued" in result.inner_text()
        good = result.get_by_role("button", name="Answers the question")
        good.click()
        until(page, "document.querySelector('.thumb').getAttribute('aria-pressed') === 'true'")
        page.reload()
        until(page, "document.querySelector('.thumb')?.getAttribute('aria-pressed') === 'true'")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "q"
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("j")
        page.keyboard.press("j")
        focused = "document.activeElement.closest('.result') === document.querySelectorAll('.result')[1]"
        assert page.evaluate(focused)
        page.keyboard.press("k")
        assert not page.evaluate(focused)


def test_filters(page, server):
    page.goto(f"{server.url}/?q=stones&kind=pdf&folder=reports")
    page.locator(".result").first.wait_for()
    places = page.locator(".result h3").all_inner_texts()
    assert places and all(place.startswith("reports/viaduct-inspection.pdf") for place in places)
    page.goto(f"{server.url}/?q=stones&folder=nowhere")
    page.get_by_text("Nothing was found.").wait_for()


def test_text_beyond_the_basic_plane_and_markup(page, serve, encoder, tmp_path):
    text = "🜁🜂🜃 signs come first. <img src=x onerror=alert(1)> The ferry leaves at seven 🜄 sharp. Dogs travel free."
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(Document("ferry 100%/a b#c?.txt", "memo://1", text))
    with serve(tmp_path, "--index", tmp_path / "index") as running:
        start = text.index("The ferry")
        end = text.index(" Dogs")
        page.goto(f"{running.url}/?doc=ferry+100%25%2Fa+b%23c%3F.txt&start={start}&end={end}")
        page.locator("mark").wait_for()
        assert page.locator("mark").inner_text() == text[start:end]
        assert "<img src=x" in page.locator(".text").inner_text()
        ask(page, running.url, "when does the ferry leave?")
        assert "seven" in page.locator(".citations q mark").inner_text()
        assert "onerror" in page.locator("main").inner_text()
        assert page.locator("img").count() == 0


def test_adding_by_hand(page, writable, tmp_path):
    (tmp_path / "ferry.md").write_text("# Ferry\n\nThe ferry to Skerry leaves at seven.\n")
    page.goto(writable.url)
    page.locator("input[type=file]").set_input_files(tmp_path / "ferry.md")
    page.get_by_text("ferry.md: done").wait_for(timeout=60_000)
    ask(page, writable.url, "when does the ferry leave?")
    assert "at seven" in page.locator(".said").inner_text()
    assert "6 documents" in page.locator("footer").inner_text()


def test_a_server_with_a_token(page, serve, built_index, tmp_path):
    with serve(tmp_path, "--index", f"demo={built_index}", LMKRAG_TOKEN="a-token-of-tests") as running:
        page.goto(running.url)
        page.get_by_label("The server's token").fill("wrong-token")
        page.get_by_role("button", name="Enter").click()
        page.get_by_role("alert").wait_for()
        page.get_by_label("The server's token").fill("a-token-of-tests")
        page.get_by_role("button", name="Enter").click()
        page.get_by_role("searchbox").fill(PDF)
        page.get_by_role("searchbox").press("Enter")
        page.locator(".citations .link").first.click()
        until(page, "document.querySelector('.page img')?.naturalWidth > 0")  # images have the cookie
        page.errors[:] = [error for error in page.errors if "401" not in error]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 380])
def test_accessible(page, writable_page, scheme, width):
    from axe_playwright_python.sync_playwright import Axe

    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    for address in ("/", f"/?q={MARKDOWN}", f"/?q={PDF}&doc=reports/viaduct-inspection.pdf&start=1219&end=1301"):
        page.goto(writable_page.url + address)
        page.locator("footer").wait_for()
        if "q=" in address:
            page.locator(".result").first.wait_for()
            page.locator(".citations li").first.wait_for()
        if "doc=" in address:
            page.get_by_role("slider").wait_for()
        page.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
        found = Axe().run(page).response["violations"]
        serious = [
            (item["id"], item["nodes"][0]["html"]) for item in found if item["impact"] in ("serious", "critical")
        ]
        assert serious == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.fixture(scope="module")
def writable_page(serve, built_index, tmp_path_factory):
    import shutil

    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(built_index, folder / "index")
    with serve(folder, "--index", f"demo={folder / 'index'}", "--writable") as running:
        yield running
