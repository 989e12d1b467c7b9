"""The page in a real browser: ask, follow up, open what is cited at the right place, manage documents, every state."""

import json
import re
import shutil
import time
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import openpyxl
import pytest

from lmkrag import Document, Engine
from lmkrag.server.settings import ServerLimits, ServerSettings

MARKDOWN = "how is leave accrued?"
UNDO = 8_000  # milliseconds, longer than a removal can be undone
PATIENCE = 90_000  # milliseconds, on a machine with other work to do
EVIL = "evil\u202e.md"
PDF = "how far have the coping stones moved?"


SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
"""What every test of the page leaves to be looked at."""


@pytest.fixture(scope="module")
def quick_server(serve, built_index, tmp_path_factory):
    """A server on the sample index that does not re-rank."""
    with serve(
        tmp_path_factory.mktemp("quick"), "--rerank", "off", "--index", f"demo={built_index}"
    ) as running:
        yield running


@pytest.fixture
def page(browser, request):
    """A page of which no error was printed when the test is over."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(PATIENCE)
    opened = context.new_page()
    errors: list[str] = []
    opened.on(
        "console", lambda message: errors.append(message.text) if message.type == "error" else None
    )
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("request", lambda request: opened.requested.append(request.url))
    opened.requested, opened.errors = [], errors
    yield opened
    opened.screenshot(path=SCREENSHOTS / f"{request.node.name}.png")
    context.close()
    assert errors == []


def until(page, script: str) -> None:
    """Wait until a script is true; playwright's own way is forbidden by the page's policy."""
    deadline = time.monotonic() + PATIENCE / 1_000
    while not page.evaluate(script):
        assert time.monotonic() < deadline, script
        time.sleep(0.05)


def ask(page, url: str, question: str) -> None:
    page.goto(url)
    follow_up(page, question)


def follow_up(page, question: str) -> None:
    box = page.locator("#q")
    box.fill(question)
    box.press("Enter")
    page.get_by_role("heading", name=question, level=2).wait_for()
    page.locator(".turn:last-child .result").first.wait_for(state="attached")
    page.locator(".turn:last-child .citations li").first.wait_for()


def open_passages(page) -> None:
    """Open the passages below the last answer, which are closed at first."""
    page.locator(".turn:last-child .passages > summary").click()


def test_the_first_screen_shows_what_is_indexed_and_has_the_cursor(page, quick_server):
    page.goto(quick_server.url)
    page.get_by_text("Answers quote exact passages of 5 documents.").wait_for()
    until(page, "document.activeElement.id === 'q'")
    page.locator(".contents a").first.wait_for()
    lines = page.locator(".contents li").all_inner_texts()
    assert len(lines) == 5
    assert any(
        "Beekeeping through the year" in line and "beekeeping.html" in line for line in lines
    )
    page.get_by_role("link", name="All documents").click()
    page.locator(".list a").first.wait_for()
    page.go_back()
    page.locator(".contents a", has_text="lighthouse-handbook.md").click()
    page.locator(".document h2", has_text="Keeper's Handbook").wait_for()


def test_the_first_screen_asks_what_the_index_answers(page, serve, tmp_path, corpus):
    shutil.copytree(corpus, tmp_path / "files")
    (tmp_path / "files" / "LICENSE").write_text("Everybody may copy this handbook.\n" * 9)
    (tmp_path / "files" / "Makefile").write_text("all:\n\ttrim the wick\n")
    for _ in range(2):  # the second time it is known at once
        with Engine.open(tmp_path / "index", create=True) as engine:
            engine.add(tmp_path / "files")
    with serve(tmp_path, "--index", tmp_path / "index") as running:
        page.goto(running.url)
        page.locator(".starters a").first.wait_for(timeout=120_000)
        assert page.locator(".contents li").count() == 5
        listed = page.locator(".contents").inner_text()
        assert "LICENSE" not in listed and "Makefile" not in listed
        assert page.locator(".home .chip", has_text="reports 2").count() == 1
        question = page.locator(".starters a").first.inner_text()
        page.locator(".starters a").first.click()
        page.get_by_role("heading", name=question, level=2).wait_for()
        page.get_by_text(re.compile("Very sure|Fairly sure")).wait_for()


def test_documents_fit_a_phone(page, writable_page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{writable_page.url}/?view=documents")
    page.locator(".list a").first.wait_for()
    assert page.evaluate(
        "(table => table.scrollWidth <= table.clientWidth)(document.querySelector('.documents .table'))"
    )
    for part in (".list a", ".list button", ".list .title"):
        box = page.locator(part).first.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_a_workbook_is_a_table_with_its_own_numbers(page, serve, tmp_path):
    rows = [
        ("Watch plan",),
        ("1.", "Light the lamp", "Keeper"),
        ("2.", "Trim", "Ann"),
        ("6.", "Count the oil", "Bo"),
    ]
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    (tmp_path / "files").mkdir()
    workbook.save(tmp_path / "files" / "plan.xlsx")
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(tmp_path / "files")
    with serve(tmp_path, "--index", tmp_path / "index") as running:
        page.goto(f"{running.url}/?doc=plan.xlsx")
        page.locator(".document td").first.wait_for()
        first = [row.split("\t")[0] for row in page.locator(".document tr").all_inner_texts()]
        assert first == ["Watch plan", "1.", "2.", "6."]
        assert (
            page.locator(".document li").count() == 0
            and " | " not in page.locator(".document").inner_text()
        )


def test_ask_and_open_a_citation_in_markdown(page, server, corpus):
    ask(page, server.url, MARKDOWN)
    said = page.locator(".said").inner_text()
    assert "3. Leave and relief\n\nLeave is accrued by the month" in said
    assert "Leave is accrued" in page.locator(".said mark.quoted").first.inner_text()
    page.locator(".said .citation").first.click()
    mark = page.locator(".document mark.place").first
    mark.wait_for()
    state = {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}
    text = (corpus / "lighthouse-handbook.md").read_text("utf-8")
    quote = text[int(state["start"]) : int(state["end"])]
    marked = "".join(page.locator(".document mark.place").all_inner_texts())
    assert " ".join(marked.split()) == " ".join(quote.split())
    assert mark.locator("xpath=ancestor::p").count() == 1
    box = mark.bounding_box()
    assert 0 < box["y"] < 900  # it was scrolled to
    assert page.locator(".document table td").count() > 3
    assert {urlsplit(address).netloc for address in page.requested} == {urlsplit(server.url).netloc}
    page.keyboard.press("Escape")
    page.locator(".document").wait_for(state="detached")


def test_open_a_citation_in_a_pdf(page, quick_server):
    ask(page, quick_server.url, PDF)
    page.locator(".citations a").first.click()
    rectangle = page.locator(".rectangle").first
    rectangle.wait_for()
    assert page.locator(".pages input").input_value() == "2"
    until(page, "document.querySelector('.page img').naturalWidth > 0")
    image, marked = page.locator(".page img").bounding_box(), rectangle.bounding_box()
    share = (marked["y"] - image["y"]) / image["height"]
    assert 0.15 < share < 0.25  # the paragraph about the parapet is the second of the page
    assert marked["width"] > image["width"] / 2
    page.get_by_role("button", name="Zoom in").click()
    until(page, f"document.querySelector('.page').offsetWidth > {1.4 * image['width']}")
    page.get_by_role("button", name="Next page").click()
    until(page, "document.querySelector('.pages input').value === '3'")
    assert page.locator(".rectangle").count() == 0
    page.locator(".pages input").fill("1")
    page.locator(".pages input").press("Enter")
    page.get_by_alt_text("Page 1").wait_for()


def test_an_address_shows_the_same_to_somebody_else(page, quick_server, browser):
    ask(page, quick_server.url, MARKDOWN)
    open_passages(page)
    page.locator(".result h3 a").nth(1).click()
    page.locator(".document mark.place").first.wait_for()
    address, marked = page.url, page.locator(".document mark.place").first.inner_text()
    other = browser.new_page()
    other.goto(address)
    other.locator(".document mark.place").first.wait_for()
    assert other.locator(".document mark.place").first.inner_text() == marked
    assert other.get_by_role("heading", name=MARKDOWN).count() == 1
    other.close()
    page.go_back()
    page.locator(".document").wait_for(state="detached")


def test_citations_and_results_are_links(page, quick_server):
    ask(page, quick_server.url, MARKDOWN)
    for link in (page.locator(".said .citation").first, page.locator(".result h3 a").first):
        assert "doc=lighthouse-handbook.md" in link.get_attribute("href")
    assert "accrued" in page.locator(".said .citation").first.get_attribute("title")
    with page.context.expect_page() as opened:
        page.locator(".result h3 a").first.click(button="middle")
    opened.value.locator(".document").wait_for()
    assert page.locator(".document").count() == 0


def test_a_thread_of_questions_with_history_by_address(page, quick_server):
    ask(page, quick_server.url, MARKDOWN)
    follow_up(page, "And who approves it?")
    assert parse_qs(urlsplit(page.url).query)["q"] == [MARKDOWN, "And who approves it?"]
    assert page.locator(".turn").count() == 2
    page.go_back()
    until(page, "document.querySelectorAll('.turn').length === 1")
    page.go_forward()
    until(page, "document.querySelectorAll('.turn').length === 2")
    page.reload()  # only the last question is asked again
    page.locator(".turn:last-child .result").first.wait_for()
    page.get_by_role("button", name="Show the answer").click()
    page.locator(".turn:first-child .citations").wait_for()
    page.locator(".turn:last-child").get_by_role("button", name="Edit").click()
    edit = page.locator(".edit input")
    edit.fill("What is trimmed at dawn?")
    edit.press("Enter")
    page.get_by_role("heading", name="What is trimmed at dawn?").wait_for()
    assert page.locator(".turn").count() == 2


def test_copying_and_searching_one_document(page, quick_server):
    ask(page, quick_server.url, MARKDOWN)
    page.get_by_role("button", name="Copy answer").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"**{MARKDOWN}**") and "[1] lighthouse-handbook.md:" in copied
    page.locator(".result").first.get_by_role("button", name="Only in this document").click()
    page.get_by_text("Only in lighthouse-handbook.md").wait_for()
    until(page, "[...document.querySelectorAll('.result h3 a')].length > 0")
    open_passages(page)
    places = page.locator(".result h3 a").all_inner_texts()
    assert all(place.startswith("lighthouse-handbook.md") for place in places)
    page.get_by_role("button", name="Search everywhere").click()
    page.get_by_text("Only in lighthouse-handbook.md").wait_for(state="detached")


def test_the_strip_leads_to_sentences(page, quick_server):
    ask(page, quick_server.url, MARKDOWN)
    open_passages(page)
    page.locator(".result h3 a").nth(2).click()
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
    page.locator("mark.place").first.wait_for()


def test_why_and_keys(page, quick_server):
    ask(page, quick_server.url, MARKDOWN)
    result = page.locator(".result").first
    result.get_by_text("Why this passage").click()
    assert "Similarity of the sentence" in result.inner_text()
    assert "Words of the question: leave, accrued" in result.inner_text()
    page.keyboard.press("Escape")  # leaves the box
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    focused = (
        "document.activeElement.closest('.result') === document.querySelectorAll('.result')[1]"
    )
    assert page.evaluate(focused)
    page.keyboard.press("k")
    assert not page.evaluate(focused)
    page.keyboard.press("Enter")
    page.locator(".document").wait_for()
    page.keyboard.press("Escape")
    page.locator(".document").wait_for(state="detached")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Next, previous passage").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")


def test_filters_and_nothing_found(page, quick_server):
    page.goto(f"{quick_server.url}/?q=stones&kind=pdf&folder=reports")
    page.locator(".citations .result").first.wait_for()
    open_passages(page)
    places = page.locator(".result h3 a").all_inner_texts()
    assert places and all(place.startswith("reports/viaduct-inspection.pdf") for place in places)
    page.goto(f"{quick_server.url}/?q=stones&folder=nowhere")
    page.get_by_text("No passage was found.").wait_for()


@pytest.fixture(scope="module")
def many_kinds(serve, tmp_path_factory):
    """A server on a table, code, and a text that tries to break out."""
    folder = tmp_path_factory.mktemp("kinds")
    rows = "\n".join(f"code: B-{n} | part: bolt number {n} | stock: {7 * n}" for n in range(1, 301))
    code = 'import os\n\n\ndef trim_wick(lamp):\n    """Trim the wick of a lamp."""\n    return os.fspath(lamp)\n'
    text = "🜁🜂🜃 signs come first. <img src=x onerror=alert(1)> The ferry leaves at seven 🜄 sharp. Dogs travel free."
    with Engine.open(folder / "index", create=True) as engine:
        engine.add(Document("stock.csv", "stock.csv", rows, "Stock", kind="csv"))
        engine.add(Document("lamps/wick.py", "wick.py", code, "wick", kind="code"))
        engine.add(
            Document(
                "ferry 100%/a b#c?.txt", "memo://1", text, meta={"url": "https://example.org/ferry"}
            )
        )
        script = {"url": "javascript:alert(1)"}
        markup = "[click](javascript:alert(1)) <svg onload=alert(1)>"
        engine.add(Document("evil‮.md", "memo://2", markup, kind="markdown", meta=script))
    with serve(folder, "--rerank", "off", "--index", folder / "index") as running:
        running.text, running.rows = text, rows
        yield running


def test_text_beyond_the_basic_plane_and_markup(page, many_kinds):
    text = many_kinds.text
    start, end = text.index("The ferry"), text.index(" Dogs")
    page.goto(f"{many_kinds.url}/?doc=ferry+100%25%2Fa+b%23c%3F.txt&start={start}&end={end}")
    page.locator("mark.place").wait_for()
    assert page.locator("mark.place").inner_text() == text[start:end]
    assert "<img src=x" in page.locator(".document").inner_text()
    assert page.locator(".document header a").get_attribute("href") == "https://example.org/ferry"
    ask(page, many_kinds.url, "when does the ferry leave?")
    assert any("seven" in text for text in page.locator(".said mark").all_inner_texts())
    assert "onerror" in page.locator("main").inner_text()
    page.goto(f"{many_kinds.url}/?{urlencode({'doc': EVIL})}")
    page.get_by_text("<svg onload").wait_for()
    assert page.locator(".document a").count() == 0
    assert page.locator("img").count() == 0


def test_a_table_opens_at_its_row(page, many_kinds):
    ask(page, many_kinds.url, "how many of B-250 are in stock?")
    assert "1750" in page.locator(".said blockquote").first.inner_text()
    page.locator(".said .citation").first.click()
    page.locator(".document mark.place").first.wait_for()
    until(
        page,
        "(y => y > 0 && y < innerHeight)(document.querySelector('mark.place').getBoundingClientRect().y)",
    )
    assert "B-250" in page.locator(".document tr:has(mark.place)").first.inner_text()


def test_code_has_lines(page, many_kinds):
    page.goto(f"{many_kinds.url}/?doc=lamps%2Fwick.py&start=11&end=30")
    page.locator("mark.place").first.wait_for()
    assert page.locator(".numbers").inner_text().split() == ["1", "2", "3", "4", "5", "6"]
    assert (
        page.locator(".code .blocks code").inner_text().startswith("import os\n\n\ndef trim_wick")
    )
    page.get_by_role("button", name="Copy code").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith(
        "import os\n\n\ndef trim_wick"
    )


def test_documents_are_listed_added_and_removed_with_undo(page, writable, tmp_path):
    (tmp_path / "ferry.md").write_text("# Ferry\n\nThe ferry to Skerry leaves at seven.\n")
    page.clock.install()
    page.goto(f"{writable.url}/?view=documents")
    page.locator(".list a").first.wait_for()
    assert page.locator(".list tbody tr").count() == 5
    page.locator("input[type=file]").set_input_files(tmp_path / "ferry.md")
    page.get_by_text("ferry.md: done").wait_for(timeout=60_000)
    page.get_by_role("link", name="ferry.md").wait_for()
    page.get_by_label("Title or name").fill("ferry")
    assert page.locator(".list tbody tr").count() == 1
    page.get_by_role("button", name="Remove ferry.md").click()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("link", name="ferry.md").wait_for()
    page.get_by_role("button", name="Remove ferry.md").click()
    page.get_by_text("Removed ferry.md.").wait_for()
    page.clock.fast_forward(UNDO)
    page.get_by_text("No document is called so.").wait_for(timeout=15_000)
    with writable.client() as client:
        assert client.get("/api/documents").json()["total"] == 5


def test_a_file_is_dropped_anywhere(page, writable):
    page.goto(writable.url)
    page.get_by_text("5 documents").wait_for()
    script = """() => {
      const data = new DataTransfer();
      data.items.add(new File(["The ferry to Skerry leaves at seven.\\n"], "drop.txt"));
      for (const type of ["dragover", "drop"]) dispatchEvent(new DragEvent(type, { dataTransfer: data }));
    }"""
    page.evaluate(script)
    page.get_by_text("drop.txt: done").wait_for(timeout=60_000)
    page.get_by_text("6 documents").wait_for()
    ask(page, writable.url, "when does the ferry leave?")
    assert "seven" in page.locator(".said").inner_text()


def test_two_tabs_remove_the_same_document(page, writable):
    other = page.context.new_page()
    page.clock.install()  # of both
    for tab in (page, other):
        tab.goto(f"{writable.url}/?view=documents")
        tab.get_by_role("button", name="Remove beekeeping.html").click()
    page.clock.fast_forward(UNDO)
    for tab in (page, other):
        until(tab, "document.querySelectorAll('.list tbody tr').length === 4")
        tab.get_by_text("Undo").wait_for(state="detached", timeout=20_000)
    with writable.client() as client:
        assert client.get("/api/documents").json()["total"] == 4
    page.errors[:] = [error for error in page.errors if "404" not in error]


def test_a_thread_of_200_questions(page, quick_server):
    questions = [f"What does rule {number} of the handbook say?" for number in range(199)]
    page.goto(f"{quick_server.url}/?{urlencode({'q': [*questions, MARKDOWN]}, doseq=True)}")
    page.locator(".turn:last-child .citations li").first.wait_for()
    assert page.locator(".turn").count() == 200
    assert (
        page.get_by_role("button", name="Show the answer").count() == 199
    )  # only the last one is asked
    follow_up(page, PDF)
    assert page.locator(".turn").count() == 201


def test_a_server_that_has_too_much_to_do(page, serve_settings, built_index):
    with serve_settings(
        ServerSettings({"demo": built_index}, port=0, limits=ServerLimits(requests=0))
    ) as running:
        page.clock.install()
        with page.expect_response(lambda response: response.status == 429):
            page.goto(f"{running.url}/?q=leave")
        page.clock.fast_forward(10_000)  # the page asks twice, as late as the server says
        page.get_by_text(
            "too many requests are in flight; try again in a few seconds"
        ).first.wait_for()
        page.errors[:] = [error for error in page.errors if "429" not in error]


def test_a_busy_server_is_asked_again(page, quick_server):
    refused = []

    def refuse_once(route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            route.fulfill(
                status=429, headers={"Retry-After": "1"}, json={"detail": "too many requests"}
            )

    page.route("**/api/ask", refuse_once)
    ask(page, quick_server.url, MARKDOWN)
    assert refused and page.get_by_text("too many requests").count() == 0
    page.errors[:] = [error for error in page.errors if "429" not in error]


def test_a_folder_is_served_while_it_is_indexed(page, serve_process, tmp_path):
    (tmp_path / "notes").mkdir()
    for number in range(70):
        rules = "\n\n".join(
            f"Rule {rule} of island {number} is about lamp {rule * number}." for rule in range(50)
        )
        (tmp_path / "notes" / f"island-{number}.md").write_text(f"# Island {number}\n\n{rules}\n")
    with serve_process(
        tmp_path, tmp_path / "notes", "--no-open", XDG_CACHE_HOME=str(tmp_path / "cache")
    ) as running:
        page.goto(running.url)
        page.get_by_text("Indexing:").wait_for()
        until(page, "document.querySelector('.indexing progress').value > 0")
        page.screenshot(path=SCREENSHOTS / "indexing.png")
        page.locator("#q").fill("What is rule 49 of island 69 about?")
        page.locator("#q").press("Enter")
        page.get_by_text("then your question is asked again").wait_for()
        page.get_by_text("Indexing:").wait_for(state="detached", timeout=120_000)
        page.locator(".said", has_text="lamp 3381").wait_for(timeout=60_000)  # in the last file
        page.get_by_role("link", name="New question").click()
        page.get_by_text("Answers quote exact passages of 70 documents.").wait_for()


def test_an_answer_that_is_not_sure(page, server):
    page.goto(f"{server.url}/?{urlencode({'q': 'Who approves the salary of the mayor of Porto?'})}")
    page.locator(".passages:not([open])").wait_for()  # below a refusal they are closed
    said = page.locator(".said", has_text="Probably not in these documents.")
    said.wait_for(timeout=90_000)
    assert said.inner_text().split("\n")[0] == "Hardly likely"
    assert page.locator(".result .weak").count() + page.locator(".said.perhaps").count()


def test_an_empty_index_and_one_whose_file_has_changed(page, serve, tmp_path, corpus):
    Engine.open(tmp_path / "empty", create=True).close()
    shutil.copytree(corpus, tmp_path / "files")
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(tmp_path / "files")
    (tmp_path / "files" / "reports" / "viaduct-inspection.pdf").write_bytes(b"%PDF-1.4 changed")
    with serve(tmp_path, "--index", tmp_path / "empty", "--index", tmp_path / "index") as running:
        page.goto(running.url)
        page.get_by_text("There are no documents yet.").wait_for()
        page.get_by_label("Index").select_option("index")
        page.get_by_text("5 documents").wait_for()
        page.goto(
            f"{running.url}/?index=index&doc=reports/viaduct-inspection.pdf&start=1219&end=1301"
        )
        page.get_by_role("alert").first.wait_for()
        assert "changed" in page.get_by_role("alert").first.inner_text()
        page.locator("mark.place").first.wait_for()  # the text that was indexed is shown instead
        page.errors[:] = [error for error in page.errors if "Failed to load resource" not in error]


def test_the_value_stands_above_its_sentence_and_nothing_is_said_twice(page, server):
    page.goto(f"{server.url}/?{urlencode({'q': 'who approves leave?'})}")
    page.locator(".value").wait_for(timeout=90_000)
    assert page.locator(".value").inner_text() == "The harbour master"
    tops = [
        page.locator(part).first.bounding_box()["y"]
        for part in (".turn h2", ".value", ".sure", ".citations h3", ".citations mark")
    ]
    assert tops == sorted(tops)
    assert page.locator(".sure").inner_text() in ("Very sure", "Fairly sure")
    marked = "".join(page.locator(".citations mark").all_inner_texts())
    assert "harbour master approves leave." in " ".join(marked.split())
    shown = page.locator(".citations .result").evaluate_all("all => all.map(one => one.value)")
    assert page.locator(".passages[open]").count() == 0
    open_passages(page)
    listed = page.locator(".passages .result").evaluate_all("all => all.map(one => one.value)")
    assert listed and not set(shown) & set(listed)
    size = page.locator(".value").evaluate("one => parseFloat(getComputedStyle(one).fontSize)")
    assert size > 25


def test_every_number_of_an_answer_is_a_source(page, serve, built_index, careless_model, tmp_path):
    with serve(
        tmp_path, *careless_model.options, "--index", f"demo={built_index}", OPENAI_API_KEY="none"
    ) as running:
        ask(page, running.url, MARKDOWN)
        cited = set(page.locator(".said .blocks .citation").all_inner_texts())
        listed = page.locator(".citations li").evaluate_all("all => all.map(one => `${one.value}`)")
    assert cited and cited == set(listed)


def test_questions_are_kept_searched_and_deleted(page, quick_server, browser):
    ask(page, quick_server.url, MARKDOWN)
    follow_up(page, "And who approves it?")
    page.get_by_role("link", name="New question").click()
    follow_up(page, PDF)
    page.get_by_role("link", name="History").click()
    asked = page.locator(".history li a")
    assert asked.all_inner_texts() == [PDF, "And who approves it?", MARKDOWN]
    page.get_by_label("Search", exact=True).fill("approves")
    assert asked.count() == 1
    asked.first.click()
    until(page, "document.querySelectorAll('.turn').length === 2")  # the thread as it was
    page.go_back()
    page.locator(".history").wait_for()
    page.get_by_role("button", name=f"Delete {PDF}").click()
    page.reload()
    assert PDF not in page.locator(".history").inner_text()
    page.get_by_role("button", name="Delete all").click()
    page.get_by_text("There are no questions yet.").wait_for()
    for number in range(52):
        page.evaluate(
            """number => localStorage.setItem("questions", JSON.stringify([
              { question: `${number}`, address: `/?q=${number}`, asked: new Date().toISOString() },
              ...JSON.parse(localStorage.getItem("questions") || "[]")]))""",
            number,
        )
    ask(page, quick_server.url, MARKDOWN)
    assert page.evaluate("JSON.parse(localStorage.getItem('questions')).length") == 50
    other = browser.new_context().new_page()
    other.goto(f"{quick_server.url}/?view=history")
    other.get_by_text("There are no questions yet.").wait_for()
    other.context.close()


@pytest.fixture(scope="module")
def two_indexes(serve, built_index, tmp_path_factory):
    """A server on the sample index and one about ferries."""
    folder = tmp_path_factory.mktemp("two")
    with Engine.open(folder / "ferries", create=True) as engine:
        text = "The ferry to Skerry leaves the north quay at seven. Dogs travel free of charge."
        engine.add(Document("ferry.txt", "memo://ferry", text, "Ferries"))
    arguments = ("--index", f"demo={built_index}", "--index", folder / "ferries")
    with serve(folder, "--rerank", "off", *arguments) as running:
        yield running


def test_all_indexes_are_asked_at_once(page, two_indexes):
    ask(page, two_indexes.url, "when does the ferry to Skerry leave?")
    page.get_by_label("Index").select_option("ferries")
    page.locator(".said", has_text="at seven").wait_for()  # the question stays
    page.get_by_label("Index").select_option("*")
    page.locator(".of").nth(1).wait_for()
    page.locator(".of .citations a", has_text="ferry.txt").first.wait_for()
    until(page, "document.querySelector('.of > summary').innerText === 'ferries'")  # the best first
    page.locator(".of .citations a", has_text="ferry.txt").first.click()
    page.locator(".document mark.place").first.wait_for()
    assert page.get_by_label("Index").input_value() == "*"
    page.get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Documents").click()
    page.get_by_role("button", name="ferries").click()
    page.get_by_role("link", name="ferry.txt").wait_for()


def test_filters_are_chips_that_work_at_once(page, quick_server):
    ask(page, quick_server.url, "stones")
    page.get_by_label("Kind").select_option("pdf")
    page.wait_for_url(re.compile("kind=pdf"))
    page.locator(".turn .result").first.wait_for()
    open_passages(page)
    places = page.locator(".result h3 a").all_inner_texts()
    assert places and all(place.startswith("reports/viaduct-inspection.pdf") for place in places)
    page.get_by_label("Folder").select_option("reports")
    page.wait_for_url(re.compile("folder=reports"))
    page.get_by_label("Time").select_option("week")
    page.wait_for_url(re.compile(r"from=\d{4}-\d\d-\d\d"))
    page.get_by_label("Time").select_option("dates")
    page.get_by_label("from").fill("1999-01-01")
    page.wait_for_url(re.compile("from=1999-01-01"))
    page.get_by_role("button", name="Clear").click()
    page.wait_for_url(lambda address: "kind=" not in address and "from=" not in address)


def test_the_colours_are_kept_and_control_k_goes_to_the_question(page, quick_server):
    page.emulate_media(color_scheme="light")
    page.goto(quick_server.url)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    button = page.get_by_role("button", name="Colours")
    button.click()  # light
    button.click()
    assert button.get_attribute("aria-label") == "Colours: dark"
    dark = page.evaluate(paper)
    assert dark != light
    page.goto(f"{quick_server.url}/?view=documents&q=leave")
    assert page.evaluate(paper) == dark
    page.get_by_role("link", name="New question").click()
    page.locator("h1 a").focus()
    page.keyboard.press("Control+k")
    assert page.evaluate("document.activeElement.id") == "q"


def test_what_did_not_help_is_written_into_a_file(page, serve, built_index, tmp_path, quick_server):
    ask(page, quick_server.url, MARKDOWN)
    assert page.get_by_role("button", name="Not helpful").count() == 0  # off by default
    file = tmp_path / "feedback.jsonl"
    with serve(tmp_path, "--index", f"demo={built_index}", "--feedback", file) as running:
        ask(page, running.url, MARKDOWN)
        page.get_by_role("button", name="Not helpful").click()
        page.get_by_role("button", name="Thank you").wait_for()
    (line,) = file.read_text("utf-8").splitlines()
    record = json.loads(line)
    assert record["question"] == MARKDOWN and record["index"] == "demo"
    assert record["places"] == ["lighthouse-handbook.md:50"] and "accrued" in record["answer"]


def test_the_document_panel(page, quick_server, corpus):
    page.goto(f"{quick_server.url}/?doc=lighthouse-handbook.md")
    page.get_by_label("Outline").select_option(label="\u20033. Leave and relief")
    page.locator("mark.place", has_text="Leave and relief").wait_for()
    page.get_by_label("Outline").select_option("")  # leads nowhere
    page.get_by_label("Find in this document").fill("KEEPER")
    page.locator(".tools .quiet", has_text=re.compile(r"^(?:\d+ of )?[1-9]\d*$")).wait_for()
    page.get_by_label("Find in this document").press("Enter")
    first = page.locator("mark.place")
    until(page, "document.querySelector('mark.place').innerText.toLowerCase() === 'keeper'")
    before = page.url
    page.get_by_role("button", name="Next place").click()
    page.wait_for_url(lambda address: address != before)
    assert first.inner_text().lower() == "keeper"
    page.get_by_role("button", name="Previous place").click()
    page.wait_for_url(before)
    assert sum("/blocks?" in address for address in page.requested) == 1  # the text stays
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    text = (corpus / "lighthouse-handbook.md").read_bytes()
    assert Path(download.value.path()).read_bytes() == text


def test_code_and_formulas_are_shown_and_not_their_source(page, serve, tmp_path):
    code = "def trim(lamp):\n    # the wick\n    return 'bright'\n"
    paper = "\\section{Tides}\nThe tide is $\\alpha \\leq \\frac{1}{2}$, and it is \\emph{never} more.\n"
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(Document("wick.py", "wick.py", code, kind="code"))
        engine.add(Document("tides.tex", "tides.tex", paper))
    with serve(tmp_path, "--rerank", "off", "--index", tmp_path / "index") as running:
        page.goto(f"{running.url}/?doc=wick.py&start=4&end=8")
        page.locator(".code-keyword", has_text="def").wait_for()
        assert page.locator(".code-comment").inner_text() == "# the wick"
        assert page.locator(".code-name mark.place").inner_text() == "trim"
        assert page.locator(".code .blocks code").inner_text() == code
        page.goto(f"{running.url}/?doc=tides.tex")
        page.locator(".document strong", has_text="Tides").wait_for()
        shown = page.locator(".document .blocks").inner_text()
        assert "α≤1/2, and it is never more." in shown and "\\" not in shown


def test_the_server_is_gone(page, serve, built_index, tmp_path):
    with serve(tmp_path, "--index", f"demo={built_index}") as running:
        page.goto(running.url)
        page.get_by_text("5 documents").wait_for()
    page.locator("#q").fill(MARKDOWN)
    page.locator("#q").press("Enter")
    page.get_by_text("The server can't be reached. Is it still running?").first.wait_for()
    assert page.get_by_role("button", name="Try again").count() == 1
    assert page.get_by_role("button", name="Ask again").count() == 0  # one way on
    page.errors[:] = [error for error in page.errors if "ERR_CONNECTION" not in error]


def test_a_server_with_a_token(page, serve, built_index, tmp_path):
    with serve(
        tmp_path, "--index", f"demo={built_index}", LMKRAG_TOKEN="a-token-of-tests"
    ) as running:
        page.goto(running.url)
        page.get_by_label("The server's token").fill("wrong-token")
        page.get_by_role("button", name="Enter").click()
        page.get_by_role("alert").wait_for()
        page.get_by_label("The server's token").fill("a-token-of-tests")
        page.get_by_role("button", name="Enter").click()
        page.locator("#q").fill(PDF)
        page.locator("#q").press("Enter")
        page.locator(".citations a").first.click()
        until(
            page, "document.querySelector('.page img')?.naturalWidth > 0"
        )  # images have the cookie
        page.errors[:] = [error for error in page.errors if "401" not in error]


@pytest.mark.parametrize("width", [390, 1280])
def test_accessible(page, writable_page, width):
    """In light colours all is checked; dark ones change nothing but colours, so two rules remain."""
    from axe_playwright_python.sync_playwright import Axe

    page.set_viewport_size({"width": width, "height": 800})
    cited = f"/?q={MARKDOWN}&q={PDF}&doc=reports/viaduct-inspection.pdf&start=1219&end=1301"
    for address in (
        "/",
        "/?view=documents",
        f"/?q={MARKDOWN}",
        cited,
        "/?q=xylophone+tariffs+of+Peru",
    ):
        page.goto(writable_page.url + address)
        if "q=" in address:
            page.locator(".result").first.wait_for(state="attached")
            page.locator(".said").first.wait_for()
        if "doc=" in address:
            page.get_by_role("slider").wait_for()
        if "view=" in address:
            page.locator(".list a").first.wait_for()
        page.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
        for scheme, rules in (
            ("light", {}),
            ("dark", {"runOnly": ["color-contrast", "link-in-text-block"]}),
        ):
            page.emulate_media(color_scheme=scheme)
            found = (
                Axe()
                .run(page, options={"resultTypes": ["violations"], **rules})
                .response["violations"]
            )
            assert [(item["id"], item["nodes"][0]["html"]) for item in found] == [], (
                address,
                scheme,
            )
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), address


@pytest.fixture(scope="module")
def writable_page(serve, built_index, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(built_index, folder / "index")
    with serve(
        folder, "--index", f"demo={folder / 'index'}", "--writable", "--rerank", "off"
    ) as running:
        yield running


def test_warnings_of_an_answer_are_seen(page, serve, built_index, careless_model, tmp_path):
    with serve(
        tmp_path, *careless_model.options, "--index", f"demo={built_index}", OPENAI_API_KEY="none"
    ) as running:
        ask(page, running.url, MARKDOWN)
        warnings = page.locator(".answer .problem").all_inner_texts()
    assert warnings == [f"Warning: {warning}" for warning in careless_model.warnings]


def test_documents_of_two_writable_indexes_begin_with_their_files(
    page, serve, built_index, tmp_path
):
    shutil.copytree(built_index, tmp_path / "one")
    shutil.copytree(built_index, tmp_path / "two")
    with serve(
        tmp_path, "--index", tmp_path / "one", "--index", tmp_path / "two", "--writable"
    ) as running:
        page.goto(f"{running.url}/?view=documents")
        page.locator(".list a").first.wait_for()
        names = page.locator(".list tbody td:first-child a").all_inner_texts()
        assert "viaduct-inspection.pdf" in names
        assert page.locator(".list .folder", has_text="reports").count() == 2
        assert page.get_by_role("alert").count() == 0


def test_the_copy_button_covers_no_code(page, many_kinds):
    page.goto(f"{many_kinds.url}/?doc=lamps%2Fwick.py")
    button = page.get_by_role("button", name="Copy code").bounding_box()
    code = page.locator(".code .blocks pre").bounding_box()
    assert button["y"] + button["height"] <= code["y"] + 1


@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_of_a_pdf_keeps_its_shape(page, quick_server, width):
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{quick_server.url}/?doc=reports/viaduct-inspection.pdf")
    until(page, "document.querySelector('.page img')?.naturalWidth > 0")
    shape = "(image => image.width / image.height - image.naturalWidth / image.naturalHeight)"
    assert abs(page.evaluate(f"{shape}(document.querySelector('.page img'))")) < 0.02


def test_a_login_that_has_ended_is_asked_for_again(page, serve, built_index, tmp_path):
    with serve(
        tmp_path, "--index", f"demo={built_index}", LMKRAG_TOKEN="a-token-of-tests"
    ) as running:
        page.goto(running.url)
        page.get_by_label("The server's token").fill("a-token-of-tests")
        page.get_by_role("button", name="Enter").click()
        page.get_by_text("5 documents").wait_for()
        page.context.clear_cookies()  # a restart ends every login, too
        page.locator("#q").fill(PDF)
        page.locator("#q").press("Enter")
        page.get_by_label("The server's token").fill("a-token-of-tests")
        page.get_by_role("button", name="Enter").click()
        page.locator(".citations a").first.wait_for()
        page.errors[:] = [error for error in page.errors if "401" not in error]


def test_a_folder_is_followed_when_one_look_has_failed(page, serve_process, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "ferry.md").write_text("# Ferry\n\nIt leaves at seven.\n")
    looks = []

    def fail_second(route) -> None:
        looks.append(route.request.url)
        route.abort() if len(looks) == 2 else route.continue_()

    with serve_process(
        tmp_path, tmp_path / "notes", "--no-open", XDG_CACHE_HOME=str(tmp_path / "cache")
    ) as running:
        page.clock.install()
        page.goto(running.url)
        page.get_by_text("of 1 document.").wait_for()
        page.route("**/api/status*", fail_second)
        (tmp_path / "notes" / "tides.md").write_text("# Tides\n\nHigh water comes at noon.\n")
        deadline = time.monotonic() + PATIENCE / 1_000
        while not page.get_by_text("of 2 documents.").count():
            assert time.monotonic() < deadline, looks
            page.clock.fast_forward(16_000)
            page.wait_for_timeout(200)
        page.get_by_role("alert").wait_for(state="detached")
    page.errors[:] = [error for error in page.errors if "ERR_FAILED" not in error]


def test_a_document_that_was_removed_can_be_added_again(page, writable, tmp_path):
    (tmp_path / "ferry.md").write_text("# Ferry\n\nThe ferry to Skerry leaves at seven.\n")
    page.clock.install()
    page.goto(f"{writable.url}/?view=documents")
    button = page.get_by_role("button", name="Remove ferry.md")
    for _ in range(2):
        page.locator("input[type=file]").set_input_files(tmp_path / "ferry.md")
        button.click()
        page.get_by_text("Removed ferry.md.").wait_for()
        page.clock.fast_forward(UNDO)
        page.get_by_text("Removed ferry.md.").wait_for(state="detached")
        assert button.count() == 0


def test_a_removal_that_fails_leaves_the_document(page, writable):
    def refuse(route) -> None:
        if route.request.method == "DELETE":
            route.fulfill(status=409, json={"detail": "another process writes to the index"})
        else:
            route.continue_()

    page.route("**/api/documents/*", refuse)
    page.clock.install()
    page.goto(f"{writable.url}/?view=documents")
    button = page.get_by_role("button", name="Remove beekeeping.html")
    button.click()
    page.get_by_text("Removed beekeeping.html.").wait_for()
    page.clock.fast_forward(UNDO)
    page.get_by_role("alert").get_by_text("another process writes").wait_for()
    button.wait_for()
    page.errors[:] = [error for error in page.errors if "409" not in error]


@pytest.fixture(scope="module")
def long_text(serve, tmp_path_factory):
    """A server on a text of which the page shows a part at once."""
    folder = tmp_path_factory.mktemp("long")
    text = "".join(f"Line {number} of the log: {'all is well ' * 80}\n" for number in range(120))
    with Engine.open(folder / "index", create=True) as engine:
        engine.add(Document("log.txt", "log.txt", text))
    with serve(folder, "--rerank", "off", "--index", folder / "index") as running:
        running.text = text
        yield running


def test_a_long_text_is_read_on_where_a_part_ends(page, long_text):
    content, shown = page.locator(".document .content"), page.locator(".document .blocks")
    start = long_text.text.index("Line 40 ")
    page.goto(f"{long_text.url}/?doc=log.txt&start={start}&end={start + 7}")
    page.locator("mark.place").wait_for()
    last = re.findall(r"Line (\d+) ", shown.inner_text())[-1]
    page.get_by_role("button", name="Show what follows").click()
    page.get_by_text(f"Line {int(last) + 1} of the log").wait_for()
    first = shown.locator("p").first.bounding_box()
    assert content.bounding_box()["y"] <= first["y"] < content.bounding_box()["y"] + 200
    assert shown.inner_text().startswith(f"Line {int(last) + 1} ")
    page.get_by_role("button", name="Show what is before").click()
    page.get_by_text(f"Line {last} of the log").wait_for()
    until(
        page,
        "(area => area.scrollTop + area.clientHeight > area.scrollHeight - 9)(document.querySelector('.content'))",
    )
    page.get_by_role("button", name="Show what follows").click()
    page.get_by_role("button", name="Show what follows").wait_for(state="detached")
    assert "Line 119 of the log" in shown.inner_text()


def test_the_best_pages_of_a_pdf_can_be_turned_to_again(page, quick_server):
    address = {"q": PDF, "doc": "reports/viaduct-inspection.pdf"}
    page.goto(f"{quick_server.url}/?{urlencode(address)}")
    best, turned = page.locator("button.best").first, page.locator(".pages input")
    number = best.inner_text()
    for name in ("Next page", "Previous page"):
        best.click()
        until(page, f"document.querySelector('.pages input').value === '{number}'")
        button = page.get_by_label(name)
        if button.is_enabled():
            button.click()
            until(page, f"document.querySelector('.pages input').value !== '{number}'")
    best.click()
    until(page, f"document.querySelector('.pages input').value === '{number}'")
    assert turned.input_value() == number


def test_a_pdf_whose_file_is_gone_shows_its_text(page, serve, tmp_path, corpus):
    shutil.copytree(corpus / "reports", tmp_path / "files")
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(tmp_path / "files")
    (tmp_path / "files" / "viaduct-inspection.pdf").unlink()
    with serve(tmp_path, "--index", tmp_path / "index") as running:
        page.goto(f"{running.url}/?doc=viaduct-inspection.pdf")
        page.get_by_text("its file can't be read").wait_for()
        page.locator(".document .blocks", has_text="coping stones").wait_for()
        assert page.locator(".document img").count() == 0
    page.errors[:] = [error for error in page.errors if "Failed to load resource" not in error]


def test_a_mark_is_scrolled_to_when_its_page_is_drawn(page, quick_server):
    page.set_viewport_size({"width": 1300, "height": 480})
    held = []
    page.route("**/pages/*.webp*", lambda route: held.append(route))
    with quick_server.client() as client:
        name = "reports/viaduct-inspection.pdf"
        stop = client.get(f"/api/documents/{name.replace('/', '%2F')}").json()["page_starts"][1]
    page.goto(f"{quick_server.url}/?doc={name}&start={stop - 160}&end={stop - 20}")
    page.locator(".rectangle").first.wait_for(state="attached")
    page.wait_for_timeout(300)  # what was to be scrolled before the page is there has been
    for route in held:
        route.continue_()
    until(page, "document.querySelector('.page img').naturalWidth > 0")
    until(
        page,
        """(([mark, area]) => area.top <= mark.top && mark.bottom <= area.bottom)(
          [".rectangle", ".content"].map(part => document.querySelector(part).getBoundingClientRect()))""",
    )


def test_the_first_screen_asks_when_a_known_folder_has_been_looked_through(
    page, serve_process, tmp_path, corpus
):
    shutil.copytree(corpus, tmp_path / "files")
    cache = str(tmp_path / "cache")
    for is_known in (False, True):
        with serve_process(
            tmp_path, tmp_path / "files", "--no-open", ready=not is_known, XDG_CACHE_HOME=cache
        ) as running:
            page.goto(running.url)
            page.locator(".starters a").first.wait_for(timeout=120_000)
            page.goto("about:blank")


def test_a_filter_asks_the_last_question_of_a_thread_with_what_was_said(page, quick_server):
    ask(page, quick_server.url, MARKDOWN)
    follow_up(page, "And who approves it?")
    asked = []
    page.on("request", lambda sent: asked.append(sent) if "/api/ask" in sent.url else None)
    page.get_by_label("Kind").select_option("markdown")
    page.get_by_role("button", name="Show the answer").wait_for()
    page.locator(".turn:last-child .citations li").first.wait_for()
    (body,) = [sent.post_data_json for sent in asked]
    assert body["question"] == "And who approves it?"
    assert [question for question, answer in body["history"] if answer] == [MARKDOWN]
    page.get_by_role("button", name="Show the answer").click()
    page.locator(".turn:first-child .citations li").first.wait_for()


def test_replies_of_an_index_that_was_left_are_not_shown(page, two_indexes):
    held = []
    page.route(
        re.compile(r"/api/(?:status|overview)\?index=demo"), lambda route: held.append(route)
    )
    page.goto(f"{two_indexes.url}/?index=ferries")
    page.get_by_text("of 1 document.").wait_for()
    page.get_by_label("Index").select_option("demo")
    page.wait_for_timeout(300)
    page.get_by_label("Index").select_option("ferries")
    assert held
    for route in held:
        route.continue_()
    page.wait_for_timeout(1_000)
    assert "of 1 document." in page.locator(".home").inner_text()
    assert page.locator(".contents a").all_inner_texts() == ["Ferries ferry.txt"]


def test_a_file_that_was_edited_is_added_again(page, writable, tmp_path):
    file = tmp_path / "parrot.md"
    page.goto(f"{writable.url}/?view=documents")
    for language in ("Latin", "Greek"):
        file.write_text(f"The parrot speaks {language}.\n")
        with (
            page.expect_request(lambda sent: sent.method == "PUT"),
            page.expect_file_chooser() as chooser,
        ):
            page.locator("input[type=file]").click()
            chooser.value.set_files(file)
        page.get_by_text("parrot.md: done").wait_for()
        page.get_by_role("button", name="Close").click()
    with writable.client() as client:
        assert client.get("/api/documents/parrot.md/text").json()["text"] == file.read_text()


def test_a_dropped_folder_and_a_dragged_link_are_no_files(page, writable, tmp_path):
    (tmp_path / "folder").mkdir()
    page.goto(writable.url)
    link = page.locator(".contents a").first
    link.hover()
    page.mouse.down()
    for place in range(600, 640, 10):
        page.mouse.move(place, 300)
    page.wait_for_timeout(300)
    assert page.locator(".drop").count() == 0
    page.mouse.up()
    devtools = page.context.new_cdp_session(page)
    dropped = {"items": [], "files": [str(tmp_path / "folder")], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        devtools.send(
            "Input.dispatchDragEvent", {"type": kind, "x": 500, "y": 400, "data": dropped}
        )
    page.locator(".uploads", has_text="folder: failed").wait_for()
    assert "drop the files of a folder" in page.locator(".uploads").inner_text()


def test_a_problem_is_over_when_documents_are_listed(page, two_indexes):
    failed = []

    def fail_once(route) -> None:
        failed.append(route)
        route.abort() if len(failed) == 1 else route.continue_()

    page.route("**/api/documents?*", fail_once)
    page.goto(f"{two_indexes.url}/?view=documents")
    page.get_by_role("alert").wait_for()
    page.get_by_label("Index").select_option("ferries")
    page.locator(".list a", has_text="ferry.txt").wait_for()
    page.get_by_role("alert").wait_for(state="detached")
    page.errors[:] = [error for error in page.errors if "ERR_FAILED" not in error]


def test_an_answer_that_breaks_off_can_be_asked_for_again(page, quick_server):
    page.route(
        "**/api/ask",
        lambda route: route.fulfill(
            content_type="text/event-stream", body='event: text\ndata: ""\n\n'
        ),
    )
    page.goto(f"{quick_server.url}/?{urlencode({'q': MARKDOWN})}")
    page.get_by_role("alert").get_by_text("The answer broke off.").wait_for()
    page.unroute("**/api/ask")
    page.get_by_role("button", name="Try again").click()
    page.locator(".said .citations li").first.wait_for()


def test_an_answer_is_kept_after_it_was_asked_for_again(page, quick_server):
    ask(page, quick_server.url, MARKDOWN)
    asked = []
    page.on("request", lambda sent: asked.append(sent) if "/api/ask" in sent.url else None)
    answer = page.locator(".answer[aria-busy=false] .citations li").first

    def choose(mode):
        page.get_by_label("Search by").select_option(mode)

    for begin in (page.get_by_role("button", name="Ask again").click, lambda: choose("lexical")):
        with page.expect_request("**/api/ask"):
            begin()
        answer.wait_for()
    for mode in ("", "lexical", ""):
        choose(mode)
        page.wait_for_timeout(200)  # in which it would be asked
        answer.wait_for()
    assert len(asked) == 2


def test_the_largest_folder_comes_first(page, serve, tmp_path):
    with Engine.open(tmp_path / "index", create=True) as engine:
        for name in ("2019/a.txt", "minutes/a.txt", "minutes/b.txt"):
            engine.add(Document(name, name, f"The ferry of {name} leaves at seven."))
    with serve(tmp_path, "--rerank", "off", "--index", tmp_path / "index") as running:
        page.goto(running.url)
        page.locator("p.chips button").first.wait_for()
        assert page.locator("p.chips button").all_inner_texts() == ["minutes 2", "2019 1"]
