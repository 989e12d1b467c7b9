"""Where a span stands: line, page, headings."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmkrag import Document, Engine
from lmkrag.index.catalog import SENTENCES_PER_BLOCK, TEXT_PER_BLOCK
from lmkrag.index.view import DocumentView
from lmkrag.search.results import find_header, find_headings, read_heading, strip

MANUAL = """# Manual

Before all.

## Loading

### Vehicles

Cars stand at the side.

## Fog

No crossing below 200 metres.
"""


def at(view, piece: str) -> tuple[str, ...]:
    return find_headings(view, view.ordinal_at(view.text(0, view.row.length).index(piece)))


def test_headings_by_level(make_view):
    view = make_view(MANUAL)
    assert at(view, "Cars") == ("Manual", "Loading", "Vehicles")
    assert at(view, "No crossing") == ("Manual", "Fog")
    assert at(view, "Before") == ("Manual",)
    assert at(view, "## Fog") == ("Manual", "Fog")


def test_a_byte_order_mark_is_not_shown(make_view):
    text = "\ufeff" + MANUAL
    view = make_view(text)
    assert at(view, "Cars") == ("Manual", "Loading", "Vehicles")
    start, end = strip(view, 0, len("\ufeff# Manual\n\n"))
    assert text[start:end] == "# Manual"
    assert find_header(make_view("\ufeff| name | age |\n| Ida | 4 |\n"), 1) == "| name | age |"


@pytest.mark.parametrize("mark", ["+\n", "[[fog]]\n"])
def test_marks_of_asciidoc_begin_no_passage(make_view, mark):
    text = f"= Fog\n\n{mark}No crossing.\n"
    start, end = strip(make_view(text), text.index(mark), len(text))
    assert text[start:end] == "No crossing."


def test_headings_by_underline_and_number(make_view):
    view = make_view(
        "Handbook\n========\n\nStart\n-----\n\nFirst the ledger.\n\n2. Stop\n\nThen all others stop.\n"
    )
    assert at(view, "First the") == ("Handbook", "Start")
    assert read_heading("=head2 How do I sail?\n\n") == (1, "How do I sail?")
    assert read_heading("** Bug fixes\n\n") == (2, "Bug fixes")
    assert read_heading("2.3.1 Notice of leave\n") == (3, "2.3.1 Notice of leave")
    assert read_heading("**Notes**\n") == (7, "Notes")
    assert read_heading("  \n") == (7, "")


def test_a_view_reads_across_blocks(make_view):
    lines = [f"Line {number} is here." for number in range(SENTENCES_PER_BLOCK + 300)]
    text = "# Top\n\n" + "\n".join(lines) + "\n"
    assert len(text) > 2 * TEXT_PER_BLOCK
    view = make_view(text)
    assert view.text(0, len(text)) == text
    far = text.index("Line 700 ")
    assert view.sentence(view.ordinal_at(far)).startswith("Line 700 ")
    assert view.count_lines(far) == text.count("\n", 0, far) == 702
    assert find_headings(view, view.ordinal_at(far)) == ("Top",)


@given(st.text(alphabet="ab .\n字", min_size=1, max_size=400), st.data())
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_view_is_the_document(make_view, text, data):
    view = make_view(text)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text) + 10))
    assert view.text(start, end) == text[start:end]
    assert "".join(view.sentence(ordinal) for ordinal in range(view.row.sentences)) == text
    if start < len(text):
        low, high = view.bounds(view.ordinal_at(start))
        assert low <= start < high


def test_a_search_in_a_long_document_reads_little_of_it(encoder, tmp_path, monkeypatch):
    """Passages that are far apart are not joined by reading all that lies between them."""
    text = "\n\n".join(
        f"Boat {n} carries rope {n * n % 977} and lamp {n * 7 % 331}." for n in range(4_000)
    )
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(Document("boats.txt", text=text))
        read = []
        original = DocumentView.text

        def count(view, start, end):
            read.append(end - start)
            return original(view, start, end)

        monkeypatch.setattr(DocumentView, "text", count)
        spans = engine.search("which boat carries a lamp?", top_k=20)
        assert len(spans) == 20
        assert sum(read) < len(text)
        for span in spans:
            assert span.line == text.count("\n", 0, span.start) + 1


def test_read_heading_by_example():
    assert (
        read_heading("## Leave ##\n\n"),
        read_heading("Sickness\n--------\n"),
        read_heading("3.2 Notice\n"),
    ) == (
        (2, "Leave"),
        (2, "Sickness"),
        (2, "3.2 Notice"),
    )
