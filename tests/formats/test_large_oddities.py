"""Files that were written to be slow to read: time grows with their size, and not with its square."""

import time
from contextlib import suppress

import pytest

from lmkrag.errors import DocumentError
from lmkrag.formats.load import check_file, is_plain, load_bytes
from lmkrag.sentences.split import split_sentences

SIZE = 300_000  # bytes; by the square of the size each took more than ten seconds
SECONDS = 4.0


@pytest.mark.parametrize(
    ("name", "before", "repeated", "after"),
    [
        ("open.json", "", "[", ""),
        ("objects.json", "", '{"a":', ""),
        ("closed.json", "[" * (SIZE // 2), "]", ""),
        ("lines.jsonl", "", "[[[[\n", ""),
        ("comments.json", "", "/* ", ""),
        ("unseparated.json", "", "[1,{x,", ""),
        ("options.ics", "BEGIN:VEVENT\nSUMMARY;", "a=b", ""),
        ("long.rtf", "{\\rtf1 ", "\\par The gate is red.", "}"),
        ("raised.rtf", "{\\rtf1 ", "\\super", "}"),
        ("line.rtf", "{\\rtf1 ", "|", "}"),
        ("subject.eml", "Subject: ", "gate ", "\n\nThe gate is red."),
        ("words.eml", "Subject: ", "=?utf-8?q?gate?= ", "\n\nThe gate is red."),
        ("people.eml", "To: ", '"Ada, ', "\n\nThe gate is red."),
        ("braces.srt", "00:00:01,000 --> 00:00:02,000\n", "{\\", ""),
        ("voices.vtt", "00:00:01.000 --> 00:00:02.000\n", "<v ", ""),
        ("times.srt", "", "1\n00:00:01,000 -->\n", ""),
        ("groups.rtf", "{\\rtf1 ", "{\\b\\i\\v", "}"),
        ("parts.eml", "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n", "--b\nContent-Type: a/b\n\nx\n", ""),
        ("keys.md", "---\n", "? ", "\n---\n"),
        ("type.eml", "Content-Type: text/plain; ", "a=b; ", "\n\nThe gate is red."),
        ("notes", "From a ", "Mon Jan  1 1:11 ", ""),
        ("notes.mbox", "From a ", "Mon Jan  1 1:11 ", "\nSubject: x\n\nThe gate is red."),
    ],
)
def test_time_grows_with_size(name, before, repeated, after):
    data = (before + repeated * (SIZE // len(repeated)) + after).encode()
    started = time.process_time()
    with suppress(DocumentError):  # of what has no text
        found = load_bytes(data, name, doc_id=name, path=name)
        split_sentences(found.text, kind=found.kind)
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize("repeated", [b"Mon Jan  1 1:11 ", b"a: b\n", b"From: a\n", b"\t", b"a:\n\t", b"From From "])
def test_a_guess_of_a_format_costs_less_than_reading_the_file(repeated, tmp_path):
    path = tmp_path / "notes"
    path.write_bytes((b"From a " + repeated * SIZE)[:SIZE])
    began = time.process_time()
    for _ in range(10):
        is_plain(path)
        check_file(path)
    assert time.process_time() - began < 1.0
