"""Pictures and other files as base64 inside a text are no text, in any format."""

import base64
import hashlib
import json
from pathlib import Path

import pytest

from lmkrag import Engine
from lmkrag.formats.load import load_bytes, load_document

BYTES = b"".join(hashlib.sha512(bytes([number])).digest() for number in range(40))
PICTURE = base64.b64encode(BYTES).decode()
LINES = base64.encodebytes(BYTES).decode()
URI = f"data:image/png;base64,{PICTURE}"
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": f"# Pump\n![sketch]({URI})\nThe seal is part 88-310."}
    ]
}
MAIL = f"From: ada@example.org\nTo: ben@example.org\nSubject: Pump\n\n{LINES}\nPart 88-310.\n"


def read(text: str, name: str) -> str:
    return load_bytes(text.encode(), name, doc_id=name, path=name).text


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.md", f"![sketch]({URI})\n\nPart 88-310.", "![sketch]\n\nPart 88-310."),
        (
            "a.md",
            f"![][image1]\n\nPart 88-310.\n\n[image1]: <{URI}>\n",
            "\n\nPart 88-310.\n\n\n",
        ),
        ("a.md", f'<img src="{URI}" alt="x"> 88', '<img src="(image)" alt="x"> 88'),
        ("a.txt", f"Key:\n{LINES}Part 88-310.", None),
        ("a.txt", f"Dump {BYTES.hex()} of part 88-310.", "Dump (data) of part 88-310."),
        ("a.css", f"b88 {{ src: url({URI}) }}", "b88 { src: url((image)) }"),
        ("a.json", json.dumps({"part": 88, "picture": URI}), "part: 88\npicture: (image)"),
        ("a.json", json.dumps({"part": 88, "file": LINES}), "part: 88\nfile: (data)"),
        ("a.csv", f"part,picture\n88,{PICTURE}\n", "part: 88 | picture: (data)"),
        ("a.html", f"<p>Part 88-310.<pre>{PICTURE}</pre>", "Part 88-310.\n\n```\n(data)\n```"),
        ("a.ipynb", json.dumps(NOTEBOOK), "# Pump\n![sketch]\nThe seal is part 88-310."),
        ("a.eml", MAIL, None),
    ],
)
def test_encoded_files_are_no_text(name, text, expected):
    shown = read(text, name)
    assert "88" in shown
    assert PICTURE[:60] not in shown and PICTURE[-60:] not in shown
    assert expected is None or shown == expected


@pytest.mark.parametrize("name", ["a.md", "a.txt", "a.py"])
def test_lines_keep_their_numbers(name):
    text = f"one\n![x]({URI})\n{LINES}\n[image1]: <{URI}>\nlast line\n"
    shown = read(text, name)
    assert shown.count("\n") == text.count("\n")
    assert shown.split("\n").index("last line") == text.split("\n").index("last line")


@pytest.mark.parametrize(
    "text",
    [
        "data:image/png;base64,... is how a picture is written.",
        "-" * 300,
        "/usr/share/doc/" + "packages/of/the/harbour/" * 10,
        "https://example.org/x?token=" + PICTURE[:150],
        "ACGT" * 100,
        "sha512 " + hashlib.sha512(b"").hexdigest(),
        "3." + "141592653589793238462643383279" * 10,
        "COLUMN_OF_A_VERY_LONG_NAME_" * 8,
    ],
)
def test_long_words_stay(text):
    assert read(text, "a.txt") == text


def test_a_long_file_is_read_without_them_as_well(tmp_path):
    text = f"Part 88-310.\n![sketch]({URI})\nlast line\n" * 1600
    path = tmp_path / "long.md"
    path.write_text(text)
    with Engine.open(tmp_path / "index", create=True, encoder="landmark-mini") as engine:
        engine.add([path])
        (info,) = engine.documents()
        assert engine.document(info.doc_id).text == load_document(path, "long.md").text
    assert PICTURE[:40] not in load_document(path, "long.md").text


def test_a_pasted_picture_is_of_no_language(tmp_path: Path):
    (tmp_path / "a.md").write_text(f"The fee is 45 euros.\n\n[image1]: <{URI}>\n")
    with Engine.open(tmp_path / "index", create=True) as engine:
        assert engine.add(tmp_path / "a.md").warnings == ()
        assert engine.status().encoder == "landmark-mini"
