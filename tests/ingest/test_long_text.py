import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmkrag import Engine
from lmkrag.encoder import landmark
from lmkrag.errors import DocumentError
from lmkrag.formats import load
from lmkrag.formats.load import is_long, load_document
from lmkrag.formats.text import decode
from lmkrag.ingest import long_text
from lmkrag.ingest.long_text import TextOnDisk, load_long_text

PROSE = "The lamp was lit at dusk — twice. Grüße aus Łódź! 東京 is far; 🜁 is air.\n\n"


@given(
    st.lists(st.text(st.characters(), max_size=30), max_size=8),
    st.integers(0, 300),
    st.integers(0, 300),
)
@settings(deadline=None)
def test_it_slices_like_a_string(pieces, start, stop):
    text = TextOnDisk(lambda: iter(pieces))
    whole = "".join(pieces)
    assert len(text) == len(whole)
    assert text[start:stop] == whole[start:stop]
    assert text[:] == whole
    assert text.blank == (not whole.strip())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("piece", [3, 7, 64, 1 << 20])
def test_a_long_text_is_read_as_a_short_one_is(tmp_path, monkeypatch, encoding, piece):
    monkeypatch.setattr(long_text, "_PIECE", piece)  # characters are cut between pieces
    path = tmp_path / "notes.md"
    path.write_bytes(
        ("---\ntitle: Lamps\nowner: Ida\n---\n# Heading\n" + PROSE * 20).encode(encoding)
    )
    short = load_document(path, "notes.md")
    document, text = load_long_text(path, "notes.md")
    assert text[:] == short.text == decode(path.read_bytes())
    assert document.text == ""
    for name in ("doc_id", "path", "title", "kind", "meta", "fingerprint"):
        assert getattr(document, name) == getattr(short, name), name


@pytest.mark.parametrize("damage", [b"\xff\xfe\xfd", b"\xc3"], ids=["in the middle", "at the end"])
def test_damaged_bytes_are_marked_in_both(tmp_path, damage):
    path = tmp_path / "a.txt"
    path.write_bytes(PROSE.encode() + (damage + PROSE.encode() if len(damage) > 1 else damage))
    assert load_long_text(path, "a")[1][:] == load_document(path, "a").text


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(bytes(range(32)) * 100)
    with pytest.raises(DocumentError, match="binary file"):
        load_long_text(path, "a")
    path.write_text("\ufeff" + " \n" * 100)
    for read in (load_long_text, load_document):
        with pytest.raises(DocumentError, match="no text in it"):
            read(path, "a")
    with pytest.raises(DocumentError, match="can't be read"):
        load_long_text(tmp_path / "gone.txt", "a")


def test_only_plain_files_stay_on_the_disk(tmp_path):
    assert is_long(tmp_path / "a.log", 5 << 20)
    assert not is_long(tmp_path / "a.log", 1 << 20)
    assert not is_long(tmp_path / "a.pdf", 5 << 20)
    assert not is_long(tmp_path / "a.zip", 5 << 20)


def test_an_index_of_a_long_file_is_that_of_a_short_one(tmp_path, encoder, monkeypatch):
    path = tmp_path / "notes.txt"
    path.write_text(
        " ".join(f"Keeper number {n} lit the lamp. It was cold — very cold." for n in range(60))
        + PROSE
    )
    found = []
    for limit in (1 << 30, 100):
        monkeypatch.setattr(load, "_LONG", limit)
        with Engine.open(tmp_path / f"index-{limit}", create=True, encoder=encoder) as engine:
            assert engine.add(path).characters == len(path.read_text())
            assert engine.verify() == ()
            assert engine.read("notes.txt") == path.read_text()
            found.append(engine.search("Who lit the lamp as keeper number 41?"))
            assert engine.add(path).unchanged == 1

    assert found[0] == found[1]
    assert "number 41" in found[0][0].text


def test_progress_is_told_inside_a_long_document(tmp_path, encoder, monkeypatch):
    monkeypatch.setattr(landmark, "_POOL_TOKENS", 256)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("The keeper slept until noon. " * 200)
    (tmp_path / "docs" / "b.zip").write_bytes(b"no text")
    told = []
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(tmp_path / "docs", progress=lambda *how: told.append(how))
    size = sum(path.stat().st_size for path in (tmp_path / "docs").iterdir())
    done = [bytes_done for _, bytes_done, _ in told]
    assert len(done) > 4
    assert done == sorted(done)
    assert done[-1] == size
    assert {total for *_, total in told} == {size}


def test_text_on_disk_by_example():
    text = TextOnDisk(lambda: iter(["It rained. ", "Then it froze — hard."]))
    assert (len(text), text[11:24]) == (32, "Then it froze")
