"""Documents over HTTP: lists, texts by range, relevance, pages and places."""

import io
import shutil
import time
from itertools import pairwise

import pypdfium2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmkrag import Engine

PDF = "reports/viaduct-inspection.pdf"


@pytest.fixture(scope="module")
def local(built_index):
    with Engine.open(built_index) as opened:
        yield opened


def test_list_is_paged_and_filtered(client, local):
    everything = client.get("/api/documents").json()
    assert everything["total"] == len(everything["documents"]) == len(local.documents())
    part = client.get(
        "/api/documents", params={"after": everything["documents"][0]["doc_id"], "limit": 2}
    ).json()
    assert part["documents"] == everything["documents"][1:3]
    filtered = client.get("/api/documents", params={"filter": "kind=pdf"}).json()
    assert [item["doc_id"] for item in filtered["documents"]] == [PDF]


@pytest.mark.parametrize("written", [PDF, PDF.replace("/", "%2F")])
def test_ids_with_slashes(client, local, written):
    reply = client.get(f"/api/documents/{written}").raise_for_status().json()
    assert reply["doc_id"] == PDF
    assert reply["pages"] == 3 and len(reply["page_starts"]) == 3
    assert client.get(f"/api/documents/{written}/text").json()["text"] == local.read(PDF)


def test_unknown_document(client):
    reply = client.get("/api/documents/lighthouse-handbok.md")
    assert reply.status_code == 404
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["near"] == "lighthouse-handbook.md"
    assert reply.json()["detail"] == (
        "no document 'lighthouse-handbok.md' in demo; did you mean 'lighthouse-handbook.md'?"
    )


def test_words_are_found_wherever_lines_end(client, local):
    text = local.read("lighthouse-handbook.md")
    query = {"query": "the  HARBOUR master"}
    matches = client.get("/api/documents/lighthouse-handbook.md/matches", params=query).json()
    found = [text[start:end] for start, end in matches["matches"]]
    assert found and {" ".join(each.lower().split()) for each in found} == {"the harbour master"}
    assert len(found) == " ".join(text.lower().split()).count("the harbour master")
    blank = client.get("/api/documents/lighthouse-handbook.md/matches", params={"query": "  "})
    assert blank.status_code == 422


def test_the_outline_of_a_document(client, local):
    reply = client.get("/api/documents/lighthouse-handbook.md/outline").json()
    text = local.read("lighthouse-handbook.md")
    headings = {item["text"]: item for item in reply["headings"]}
    leave = headings["3. Leave and relief"]
    assert text[leave["start"] : leave["end"]].startswith("## 3. Leave and relief")


def test_the_original_is_sent_as_it_was_indexed(serve, tmp_path, corpus):
    shutil.copytree(corpus, tmp_path / "files")
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(tmp_path / "files")
    with serve(tmp_path, "--index", tmp_path / "index") as running, running.client() as client:
        kinds = {}
        for name in (PDF, "lighthouse-handbook.md", "beekeeping.html"):
            reply = client.get(f"/api/documents/{name}/original").raise_for_status()
            assert reply.content == (corpus / name).read_bytes()
            sent = reply.headers["content-disposition"].partition(";")[0]
            kinds[name] = (reply.headers["content-type"].partition(";")[0], sent)
            assert reply.headers["x-content-type-options"] == "nosniff"
        assert kinds == {
            PDF: ("application/pdf", "inline"),
            "lighthouse-handbook.md": ("text/plain", "inline"),
            # it may have scripts
            "beekeeping.html": ("application/octet-stream", "attachment"),
        }
        (tmp_path / "files" / "lighthouse-handbook.md").write_text("Something else.")
        changed = client.get("/api/documents/lighthouse-handbook.md/original")
        assert (changed.status_code, changed.json()["detail"]) == (
            422,
            "lighthouse-handbook.md: its file has changed since it was indexed",
        )
        (tmp_path / "files" / "beekeeping.html").unlink()
        gone = client.get("/api/documents/beekeeping.html/original")
        assert gone.status_code == 422 and "can't be read" in gone.json()["detail"]


def test_a_document_in_no_file_lends_its_path_to_nobody(writable, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("The safe opens at seven.")
    body = {"text": "The lamp is lit.", "path": str(secret)}
    with writable.client() as client:
        client.put("/api/documents/lamp", json=body).raise_for_status()
        until_found(client, "lamp")
        reply = client.get("/api/documents/lamp/original")
        assert (reply.status_code, reply.json()["detail"]) == (422, "lamp is in no file")


def until_found(client, doc_id: str) -> None:
    deadline = time.monotonic() + 60
    while client.get(f"/api/documents/{doc_id}").status_code == 404:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_record_says_when_the_file_was_changed(client, corpus):
    from datetime import UTC, datetime

    changed = (corpus / "glass-river.txt").stat().st_mtime
    reply = client.get("/api/documents/glass-river.txt").json()
    assert reply["modified"] == datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, 6_000), length=st.integers(1, 6_000))
def test_any_range_of_a_text(client, local, start, length):
    text = local.read("glass-river.txt")
    asked = {"start": start, "end": start + length}
    reply = (
        client.get("/api/documents/glass-river.txt/text", params=asked).raise_for_status().json()
    )
    assert reply["text"] == text[start : start + length]
    assert reply["text"] == text[reply["start"] : reply["end"]]
    assert reply["characters"] == len(text)


@pytest.mark.parametrize("end", ["", "0"])
def test_a_blank_end_of_a_text_is_left_out(client, local, end):
    reply = client.get(f"/api/documents/glass-river.txt/text?start=9&end={end}")
    assert reply.json()["text"] == local.read("glass-river.txt", 9)


def test_relevance_covers_the_document(client, local):
    asked = {"query": "how is leave accrued?"}
    reply = (
        client.get("/api/documents/lighthouse-handbook.md/relevance", params=asked)
        .raise_for_status()
        .json()
    )
    sentences = reply["sentences"]
    assert sentences[0]["start"] == 0
    assert sentences[-1]["end"] == len(local.read("lighthouse-handbook.md"))
    assert all(one["end"] == other["start"] for one, other in pairwise(sentences))
    best = max(sentences, key=lambda sentence: sentence["score"])
    text = local.read("lighthouse-handbook.md")[best["start"] : best["end"]]
    assert text.startswith("Leave is accrued by the month")
    few = client.get(
        "/api/documents/lighthouse-handbook.md/relevance", params={**asked, "points": 5}
    ).json()
    assert len(few["sentences"]) == 5 and few["total"] == len(sentences)
    assert best in few["sentences"]


def test_page_and_place_of_a_quotation(client, local):
    quote = "Eleven coping stones on the north side have moved outward by up to 22 millimetres."
    start = local.read(PDF).index(quote)
    asked = {"start": start, "end": start + len(quote)}
    places = (
        client.get(f"/api/documents/{PDF}/places", params=asked).raise_for_status().json()["places"]
    )
    assert [place["page"] for place in places] == [2]
    (rectangle,) = places[0]["rectangles"]
    source = pypdfium2.PdfDocument(local.documents(doc_ids=[PDF])[0].path)
    page = source[1]
    width, height = page.get_size()
    left, top, right, bottom = rectangle
    read = page.get_textpage().get_text_bounded(
        left * width, height - bottom * height, right * width, height - top * height
    )
    assert read.strip() == quote
    image = client.get(f"/api/documents/{PDF}/pages/2.webp").raise_for_status()
    assert image.headers["content-type"] == "image/webp"
    assert image.content[:4] == b"RIFF" and image.content[8:12] == b"WEBP"


def test_a_span_over_two_pages(client, local):
    second = local.documents(doc_ids=[PDF])[0].page_starts[1]
    asked = {"start": second - 30, "end": second + 30}
    places = client.get(f"/api/documents/{PDF}/places", params=asked).json()["places"]
    assert [place["page"] for place in places] == [1, 2]


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        (f"{PDF}/pages/4.webp", 400, "has 3 pages"),
        (f"{PDF}/pages/0.webp", 422, "greater than or equal to 1"),
        (f"{PDF}/pages/1.webp?scale=1000", 422, "less than or equal to 4"),
        ("glass-river.txt/pages/1.webp", 400, "has no pages"),
        ("glass-river.txt/places?start=0&end=3", 400, "has no pages"),
        ("glass-river.txt/relevance", 422, "query: Field required"),
        ("glass-river.txt/text?start=-1", 422, "greater than or equal to 0"),
    ],
)
def test_what_there_is_not(client, path, status, detail):
    reply = client.get(f"/api/documents/{path}")
    assert reply.status_code == status
    assert detail in reply.json()["detail"]


def test_pages_only_from_the_file_that_was_indexed(serve, corpus, encoder, tmp_path):
    copy = tmp_path / "report.pdf"
    shutil.copyfile(corpus / PDF, copy)
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(copy)
    with serve(tmp_path, "--index", tmp_path / "index") as running, running.client() as client:
        assert client.get("/api/documents/report.pdf/pages/1.webp").status_code == 200
        copy.write_bytes(copy.read_bytes() + b"\n%")
        changed = client.get("/api/documents/report.pdf/pages/1.webp")
        assert changed.status_code == 422
        assert changed.json()["detail"] == "its file has changed since it was indexed"
        assert client.get("/api/documents/report.pdf/places?start=0&end=9").status_code == 422
        copy.unlink()
        assert client.get("/api/documents/report.pdf/pages/1.webp").status_code == 422
        assert client.get("/api/documents/report.pdf/text").json()["text"]


def test_image_shows_the_page(client):
    from PIL import Image

    small = client.get(f"/api/documents/{PDF}/pages/1.webp", params={"scale": 0.5}).content
    large = client.get(f"/api/documents/{PDF}/pages/1.webp", params={"scale": 2}).content
    sizes = [Image.open(io.BytesIO(image)).size for image in (small, large)]
    assert sizes[1][0] == pytest.approx(4 * sizes[0][0], abs=4)
    assert Image.open(io.BytesIO(large)).convert("L").getextrema() == (0, 255)
