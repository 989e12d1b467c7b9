"""Headers and footers of text files that were made for a printer are blanked."""

import pytest

from lmkrag.formats.load import load_bytes
from lmkrag.sentences.split import split_sentences

HEADER = "RFC 9999           Rules of the Harbour         May 2024"
NUMBERED = {
    "Quill                 Informational                 [Page {0}]": 1,
    "ACME manual  -  {0}  -": 12,
    "{0}      Harbour rules": 7,
    "- {0} -": 1,
    "Page {0} of 9        Harbour rules of 2024": 1,
}
NAMED = ["HARBOUR RULES", "(c) 2024 Harbour Press, Vol. 3"]


def write_body(page: int, paragraphs: int = 15) -> str:
    return "".join(
        f"The lighter of pier {page}.{number} takes coal to the island, and the crew\n"
        f"sleeps in house {page}.{number}, where a lamp burns until four o'clock.\n\n"
        for number in range(paragraphs)
    )


def write(footer: str, first: int, end: str, header: str = "") -> str:
    return "".join(
        f"{header}\n\n{write_body(page)}\n{footer.format(first + page)}{end}" for page in range(6)
    )


def read(text: str, name: str = "rules.txt"):
    return load_bytes(text.encode(), name, doc_id=name, path=name)


@pytest.mark.parametrize("header", ["", HEADER], ids=["no header", "header"])
@pytest.mark.parametrize(
    ("footer", "first", "end"),
    [
        *((footer, first, end) for footer, first in NUMBERED.items() for end in ("\n\f", "\n\n\n")),
        *((footer, 0, end) for footer in NAMED for end in ("\n\f", "\r\n\f")),
    ],
)
def test_running_lines_are_blanked_and_offsets_stay(footer, first, end, header):
    text = write(footer, first, end, header)
    read_text = read(text).text
    assert len(read_text) == len(text)
    pairs = zip(text.split("\n"), read_text.split("\n"), strict=True)
    changed = [(line, left) for line, left in pairs if line != left]
    assert {line.strip("\f\r") for line, _ in changed} == {
        *(footer.format(first + page) for page in range(6)), *filter(None, [header])
    }  # fmt: skip
    assert all(left.isspace() for _, left in changed)
    for sentence in split_sentences(read_text):
        assert read_text[sentence.start : sentence.end].strip().startswith("The lighter")


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"Step {number}\n{write_body(number, 2)}" for number in range(1, 9)),
        "".join(f"Day {number}\n\n{write_body(number)}" for number in range(1, 9)),
        "".join(f"{write_body(cost)}\nTotal due: {cost}\n\f" for cost in (450, 30, 99, 12, 70)),
        "".join(
            f"Chapter {number}\n{write_body(number, 9 + 5 * (number % 3))}" for number in range(9)
        ),
        "gently\nRow your boat\nmerrily\nRow your boat\ndown\nRow your boat\nup\n" * 9,
        f"{write_body(1)}\n[Page 1]\f{write_body(2)}\n[Page 2]",
        "".join(f"{write_body(number)}\nHARBOUR RULES\n\n" for number in range(6)),
    ],
    ids=["steps", "days", "totals", "chapters", "a refrain", "two pages", "no number"],
)
def test_other_lines_stay(text):
    assert read(text).text == text


@pytest.mark.parametrize("name", ["rules.py", "rules.md"])
def test_lines_of_other_kinds_stay(name):
    text = write("- {0} -", 1, "\n\f")
    assert read(text, name).text == text
