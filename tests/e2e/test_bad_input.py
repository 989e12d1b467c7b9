"""One directory of everything that goes wrong: each file is indexed or skipped with one line, nothing else is lost."""

import json
import os
import random
import subprocess
import sys

import pytest

from lmkrag import Engine

GOOD = "The observatory opens its dome at nightfall. Visitors climb forty steps."


@pytest.fixture
def mess(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "good.md").write_text(GOOD)
    (docs / "empty.txt").touch()
    (docs / "binary.txt").write_bytes(random.Random(0).randbytes(5_000))
    (docs / "latin.txt").write_bytes(
        "Ærø søger æbler på øen, sagde den ængstelige Åse.".encode("cp1252")
    )
    (docs / "nul.txt").write_bytes(
        b"Zero\x00 bytes are kept in this file as they are, not dropped." * 3
    )
    (docs / "line.txt").write_text("telescope mirror " * 15_000)
    (docs / "word.txt").write_text("x" * 60_000)
    (docs / "broken.pdf").write_bytes(b"%PDF-1.7\nbroken")
    (docs / "broken.docx").write_bytes(b"PK\x03\x04broken")
    (docs / "broken.json").write_text("{")
    (docs / "image.gif").write_bytes(b"GIF89a\r\n")
    (docs / "loop").symlink_to(docs)
    (docs / "dangling.txt").symlink_to(docs / "nothing.txt")
    for name in ("with space.txt", "quote\"'.txt", "emoji 😀.txt", "new\nline.txt"):
        (docs / name).write_text(GOOD)
    (docs / "unreadable.txt").write_text("secret")
    (docs / "unreadable.txt").chmod(0)
    return docs


def test_everything_that_goes_wrong(mess, tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        report = engine.add(mess)
        skipped = {item.path: item.reason for item in report.skipped}
        expected = {
            "binary.txt": "binary file, not text",
            "broken.docx": "broken Word file",
            "broken.json": "broken JSON",
            "broken.pdf": "broken PDF",
            "dangling.txt": "can't be read",
            "empty.txt": "empty file",
            "image.gif": "unsupported format (.gif)",
            "loop": "link to a directory",
        }
        if os.geteuid() != 0:
            expected["unreadable.txt"] = "can't be read"
        assert set(skipped) == set(expected)
        for name, reason in expected.items():
            assert reason in skipped[name]
            assert "\n" not in skipped[name]
        assert report.added == len(list(mess.iterdir())) - len(skipped)
        assert engine.verify() == ()
        for name in ("with space.txt", "quote\"'.txt", "emoji 😀.txt", "new\nline.txt", "good.md"):
            assert engine.read(name) == GOOD
        assert "\0" in engine.read("nul.txt")
        assert engine.read("latin.txt").startswith("Ærø")
        spans = engine.search("how many steps do visitors climb?", top_k=5)
        assert "forty steps" in spans[0].text
        assert len(engine.read("line.txt")) == 17 * 15_000


def test_the_command_line_lists_what_was_skipped(mess, tmp_path):
    command = [
        sys.executable,
        "-m",
        "lmkrag",
        "index",
        str(mess),
        "--index",
        str(tmp_path / "i"),
        "--exclude",
        "*.txt",
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert result.returncode == 0
    assert result.stdout == ""
    assert "skipped broken.pdf: broken PDF" in result.stderr
    assert "1 added, 5 skipped" in result.stderr
    strict = subprocess.run(
        [*command, "--strict", "--json"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert strict.returncode == 1
    report = json.loads(strict.stdout)
    assert (report["unchanged"] + report["added"], len(report["skipped"])) == (1, 5)


def test_an_empty_directory(tmp_path, encoder):
    (tmp_path / "empty").mkdir()
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        assert engine.add(tmp_path / "empty").added == 0
        assert engine.search("anything") == []
        assert engine.ask("anything?").found is False
        assert engine.verify() == ()
