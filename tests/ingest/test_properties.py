"""What the properties of a note say answers questions, as the row of a table does."""

import pytest

from lmkrag import Engine

YAML = "---\nowner: Ben Marsh\nberth: 14\ndue: 2025-06-01\n---\n\n# Kestrel\n\nShe needs sails.\n"
TOML = "+++\ntitle = 'Kestrel'\nowner = 'Ben Marsh'\ndue = 2025-06-01\n+++\n\nShe needs sails.\n"
FIELDS = "# Kestrel\n\nowner:: Ben Marsh\ndue:: 2025-06-01\n\nShe needs sails.\n"
NOTION = "# Kestrel\n\nOwner: Ben Marsh\nBerth: 14\nDue: 2025-06-01\n\nShe needs sails.\n"


@pytest.mark.parametrize(
    "note", [YAML, TOML, FIELDS, NOTION], ids=["yaml", "toml", "obsidian", "notion"]
)
def test_a_question_finds_a_property(note, tmp_path):
    (tmp_path / "a.md").write_text(note)
    (tmp_path / "b.md").write_text(
        note.replace("Kestrel", "Heron").replace("Ben Marsh", "Ada Quill")
    )
    with Engine.open(tmp_path / "index", create=True, encoder="landmark-mini") as engine:
        engine.add([tmp_path / "a.md", tmp_path / "b.md"])
        assert "Ben Marsh" in engine.ask("Who owns the Kestrel?").text
        assert "Ada Quill" in engine.ask("Who is the owner of the Heron?").text
        assert "2025-06-01" in engine.ask("When is the Kestrel due?").text
        (info,) = (each for each in engine.documents() if each.doc_id == "a.md")
        assert info.title == "Kestrel"
