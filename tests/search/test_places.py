"""Where a result is, as people find it in the file."""

import docx
import openpyxl
import pptx
import pytest

from lmkrag import Engine
from lmkrag.results import Span
from lmkrag.search.line_matches import find_lines
from lmkrag.types import Hit


@pytest.fixture(scope="module")
def engine(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("places")
    rows = ["part,stock"] + [f"B-{number},{7 * number}" for number in range(1, 41)]
    (folder / "stock.csv").write_text("\n".join(rows) + "\n")
    articles = (
        "It was dry all spring. The wells gave no water. By June the sheep had been sold. " * 5
    )
    (folder / "articles.csv").write_text(
        f'title,text\nRain,"{articles}"\nSnow,"{articles}The pass closed at noon."\n'
    )
    (folder / "records.jsonl").write_text(
        "\n".join(f'{{"boat": "Skua {n}", "berth": {n}}}' for n in range(1, 6))
    )
    book = openpyxl.Workbook()
    book.active.title = "Prices"
    for row in (["Part", "Price"], ["Gasket", 12], ["Valve", 80]):
        book.active.append(row)
    book.save(folder / "prices.xlsx")
    rules = docx.Document()
    rules.add_paragraph("These rules hold for all keepers.")
    rules.add_heading("Leave", 1)
    rules.add_paragraph("Leave is accrued by the month.")
    rules.add_paragraph("The harbour master approves it. Appeals go to the secretary of the Trust.")
    rules.save(folder / "rules.docx")
    slides = pptx.Presentation()
    for title, body in (("The ferry", "It leaves at nine."), ("Fares", "Dogs travel free.")):
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, body
    slides.save(folder / "ferry.pptx")
    (folder / "bees.html").write_text(
        "<h1>Bees</h1><p>They swarm in May.</p><h2>Hives</h2><p>Paint them white.</p><p>A hive weighs 40 kilograms.</p>"
    )
    (folder / "notes.txt").write_text("First.\n\nThe gate is green.\n")
    with Engine.open(folder / "index", create=True, encoder=encoder, rerank=False) as opened:
        opened.add([path for path in folder.iterdir() if path.is_file()])
        yield opened


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("how many B-7 are in stock?", "stock.csv, row 8"),  # the first row has the names
        ("when did the pass close?", "articles.csv, row 3"),  # a row of several sentences
        ("which berth has the boat Skua 4?", "records.jsonl, record 4"),
        ("what does a valve cost?", "prices.xlsx, Prices, row 3"),
        ("where do appeals go?", "rules.docx, Leave, paragraph 2"),
        ("for whom do these rules hold?", "rules.docx, paragraph 1"),
        ("do dogs pay on the ferry?", "ferry.pptx, slide 2"),
        ("how much does a hive weigh?", "bees.html, Hives, paragraph 2"),
        ("what colour is the gate?", "notes.txt:3"),
    ],
)
def test_a_sentence_is_where_people_find_it(engine, question, place):
    assert engine.search(question, level="sentence", top_k=1)[0].place == place


def test_a_citation_inside_a_passage_has_a_place_of_its_own(engine):
    answer = engine.ask("who approves leave?")
    assert answer.citations[0].place == "rules.docx, Leave, paragraph 2"
    (check,) = engine.check(answer)[:1]
    assert (check.state, check.place) == ("same", "rules.docx, Leave, paragraph 2")


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("how many B-7 are in stock?", "stock.csv, row 8"),
        ("what does a valve cost?", "prices.xlsx, Prices, row 3"),
        ("which berth has the boat Skua 4?", "records.jsonl, record 4"),
    ],
)
def test_a_checked_citation_is_where_it_was_cited(engine, question, place):
    answer = engine.ask(question)
    assert answer.citations[0].place == place
    assert engine.check(answer)[0].place == place


def test_a_row_in_a_span_that_begins_before_the_heading_of_the_sheet(engine):
    text = engine.document("prices.xlsx").text
    row = text.index("Part: Valve")
    sheet = Span(
        "prices.xlsx", "", 0, len(text), text, 1.0, kind="xlsx", paragraph=1, headings=("Prices",)
    )
    assert sheet.locate(row) == "prices.xlsx, Prices, row 3"


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("Turn the brass key twice.", "Turn%20the%20brass%20key%20twice."),
        ("## 3. Leave, pay and co-workers\n\nText.", "3.%20Leave%2C%20pay%20and%20co%2Dworkers"),
        (
            "- A rope " + "of forty metres " * 20,
            "A%20rope%20of%20forty%20metres%20of%20forty%20metres%20of%20forty%20metres%20of",
        ),
        ("船が出る。", "%E8%88%B9%E3%81%8C%E5%87%BA%E3%82%8B%E3%80%82"),
        ("| B-7 | 12 |", ""),
        ("船" * 80, ""),
    ],
)
def test_a_web_page_is_opened_at_the_words_of_the_hit(text, fragment):
    hit = Hit(0, "a.html", 0, 0, len(text), 1.0, 1.0, 0.0)
    meta = {"url": "https://example.org/a#top"}
    span = Span("a.html", "", 0, len(text), text, 1.0, kind="html", hits=(hit,), meta=meta)
    expected = f"https://example.org/a#:~:text={fragment}" if fragment else meta["url"]
    assert span.url == expected


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://example.org/\x1b]8;;", 7, None])
def test_what_is_no_address_of_a_page_is_never_a_link(url):
    assert Span("a.html", "", 0, 1, "A", 1.0, kind="html", meta={"url": url}).url == ""


def test_where_there_is_too_much_to_count_characters_are_told(engine, monkeypatch):
    from lmkrag.search import results

    monkeypatch.setattr(results, "_COUNTED", 10)
    span = engine.search("how many B-7 are in stock?", level="sentence", top_k=1)[0]
    assert span.place == f"stock.csv:{span.start}-{span.end}"


def test_a_form_feed_ends_no_line(tmp_path):
    text = "int a;\n\f\nint b;\n\f\nint drain(int x) {\n  return x;\n}\n"
    (tmp_path / "pump.c").write_text(text)
    start = text.index("int drain")
    span = Span(
        "pump.c",
        str(tmp_path / "pump.c"),
        start,
        len(text),
        text[start:],
        1.0,
        kind="code",
        line=5,
        last_line=7,
    )
    (match,) = find_lines([span], "drain")
    assert (match.first, match.lines[4], match.definition) == (5, "int drain(int x) {", 5)


def test_a_span_without_hits_is_its_own_best_sentence():
    assert Span("a.md", "", 0, 1, "A", 1.0).best_sentence == "A"
