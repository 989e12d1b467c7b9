"""Whatever adds the first documents of an index, its encoder is chosen by their languages."""

import json

import pytest

from lmkrag import Document, Engine, IndexMismatch
from lmkrag.encoder.spec import DEFAULT_ENCODER, MULTILINGUAL_ENCODER

GERMAN = """Die alten Häuser am Hafen wurden im Winter neu gedeckt. Der Hafenmeister prüft die Dächer jedes Jahr und
schreibt auf, was fehlt. Für die Boote gibt es einen Schuppen, der im Winter voll ist."""
ENGLISH = """The keeper of the lighthouse approves all leases and keeps a list of them in the office. The boats are
checked every spring, and whatever has to be repaired is written down. In summer the shed is open."""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "haven"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"{number}. {GERMAN}", "utf-8")
    return folder


def german():
    return [Document(f"{number}.txt", text=f"{number}. {GERMAN}") for number in range(5)]


def test_documents_that_are_not_in_english_choose_the_multilingual_encoder(tmp_path):
    with Engine.open(tmp_path / "index", create=True) as engine:
        report = engine.add(german())
        assert report.warnings == (
            f"100% of the text sampled is not in English: encoder {MULTILINGUAL_ENCODER} was chosen",
        )
        assert engine.status().encoder == engine.encoders.name == MULTILINGUAL_ENCODER
        assert engine.search("Wer prüft die Dächer?")[0].hits[0].dense > 0.4
        assert engine.add(Document("en.txt", text=ENGLISH)).warnings == ()
    with Engine.open(tmp_path / "index") as engine:
        assert engine.status().encoder == MULTILINGUAL_ENCODER
        assert engine.search("Who approves leases?")[0].doc_id == "en.txt"
        assert engine.verify() == ()


WRITTEN_IN_GERMAN = {
    "hafen.1": f'.\\" written by hand\n.TH HAFEN 1\n.SH NAME\nhafen\n.PP\n{GERMAN}\n',
    "HAFEN": GERMAN,
    "hafen.mbox": "From a@haven.example Mon Nov  2 09:00:00 2026\nFrom: a@haven.example\n"
    f"Subject: Hafen\nDate: Mon, 2 Nov 2026 09:00:00 +0100\n\n{GERMAN}\n",
    "hafen.csv": f'number,report\n1,"{" ".join([GERMAN.replace(chr(10), " ")] * 2)}"\n',
    "hafen.json": json.dumps([{"report": " ".join([GERMAN] * 2)}]),
}


@pytest.mark.parametrize("name", WRITTEN_IN_GERMAN)
def test_the_text_of_a_file_chooses_and_not_its_suffix(name, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / name).write_text(WRITTEN_IN_GERMAN[name], "utf-8")
    (folder / "hafen.sh").write_text("# print the names of all boats in the harbour\nls boats\n")
    (folder / "lengths.csv").write_text("boat,length\nMarie,7\nJohanne,9\n")
    with Engine.open(tmp_path / "index", create=True) as engine:
        (warning,) = engine.add(folder).warnings
        assert warning.startswith("100% of the text sampled is not in English")
        assert engine.status().encoder == MULTILINGUAL_ENCODER


def test_a_long_cell_is_not_the_language_of_its_table(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    remark = " ".join([GERMAN.replace("\n", " ")] * 2)
    rows = [f"{year},{year % 7},ash\n" for year in range(1990, 2020)]
    rows[14] = f'2004,3,"{remark}"\n'
    (folder / "trees.csv").write_text("year,felled,kind\n" + "".join(rows), "utf-8")
    (folder / "boats.csv").write_text("boat,length\nMarie,7\nJohanne,9\n")
    with Engine.open(tmp_path / "index", create=True) as engine:
        assert engine.add(folder).warnings == ()
        assert engine.status().encoder == DEFAULT_ENCODER


def test_english_documents_keep_the_default(tmp_path):
    with Engine.open(tmp_path / "index", create=True) as engine:
        assert engine.add(Document("en.txt", text=ENGLISH)).warnings == ()
        assert engine.status().encoder == DEFAULT_ENCODER
        (warning,) = engine.add(german()).warnings  # too late to choose
        assert warning.startswith("5 of 5 documents are not in English, which landmark-mini reads")
        assert engine.status().encoder == DEFAULT_ENCODER


def test_a_named_encoder_stays(tmp_path, folder):
    with Engine.open(tmp_path / "index", create=True, encoder=DEFAULT_ENCODER) as engine:
        assert engine.add(folder).warnings[0].startswith("3 of 3 documents are not in English")
        assert engine.status().encoder == DEFAULT_ENCODER
    with Engine.open(tmp_path / "other", create=True, encoder=MULTILINGUAL_ENCODER) as engine:
        assert engine.add(Document("en.txt", text=ENGLISH)).warnings == ()
        assert engine.status().encoder == MULTILINGUAL_ENCODER


def test_the_choice_may_change_while_an_index_is_empty(tmp_path):
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(german())
        engine.remove([document.doc_id for document in engine.documents()])
        engine.add(Document("en.txt", text=ENGLISH))
        assert engine.status().encoder == engine.encoders.name == DEFAULT_ENCODER


def test_another_engine_on_the_same_index_has_to_be_opened_again(tmp_path):
    with (
        Engine.open(tmp_path / "index", create=True) as early,
        Engine.open(tmp_path / "index") as engine,
    ):
        assert early.search("Dach") == []
        engine.add(german())
        with pytest.raises(IndexMismatch, match="open it again"):
            early.search("Dach")
        with pytest.raises(IndexMismatch, match="open it again"):
            early.add(Document("en.txt", text=ENGLISH))


def test_langchain_and_llama_index_choose_alike(tmp_path):
    from langchain_core.documents import Document as LangChainDocument
    from llama_index.core.schema import TextNode

    for name, documents in {
        "langchain": [LangChainDocument(page_content=GERMAN, metadata={"source": "de.txt"})],
        "llama-index": [TextNode(text=GERMAN, id_="de")],
    }.items():
        with Engine.open(tmp_path / name, create=True) as engine:
            assert MULTILINGUAL_ENCODER in engine.add(documents).warnings[0]
            assert engine.status().encoder == MULTILINGUAL_ENCODER


def test_the_command_line_prints_the_choice(tmp_path, folder, lmkrag):
    found = lmkrag("index", folder, "--index", tmp_path / "index", "--json")
    (warning,) = json.loads(found.stdout)["warnings"]
    assert f"encoder {MULTILINGUAL_ENCODER} was chosen" in warning
    assert f"lmkrag: warning: {warning}\n" in found.stderr
    grepped = lmkrag(
        "grep", "Wer prüft die Dächer?", folder, env={"XDG_CACHE_HOME": str(tmp_path / "cache")}
    )
    assert grepped.returncode == 0
    (index,) = (tmp_path / "cache" / "lmkrag" / "folders").glob("haven-*")
    assert (
        json.loads(lmkrag("status", "--index", index, "--json").stdout)["encoder"]
        == MULTILINGUAL_ENCODER
    )
