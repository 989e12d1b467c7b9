"""Results whose files are no longer what was indexed say so, and how to bring the index in step."""

import json
import os
import time

import pytest

from lmkrag import Document, Engine

QUESTION = "how much does the keeper of the lamp earn?"


@pytest.fixture
def folder(tmp_path):
    docs = tmp_path / "docs"
    (docs / "notes").mkdir(parents=True)
    for name in ("notes/north.md", "notes/south.md", "notes/east.md", "notes/west.md"):
        (docs / name).write_text(
            f"# {name}\n\nThe keeper of the {name[6:-3]} lamp earns 900 euros a month.\n"
        )
        os.utime(docs / name, (10**9, 10**9))
    return docs


@pytest.fixture
def engine(folder, tmp_path):
    with Engine.open(tmp_path / "index", create=True) as opened:
        opened.add(folder)
        yield opened


def states(engine):
    return {span.doc_id: span.stale for span in engine.search(QUESTION)}


def test_files_as_they_were_are_not_stale(engine, folder):
    os.utime(folder / "notes/north.md")  # touched, with the same words
    found = engine.search(QUESTION)
    assert len(found) == 4 and {span.stale for span in found} == {""} and found.notes == ()


def test_changed_and_gone_files_say_so_and_what_to_run(engine, folder, tmp_path):
    (folder / "notes/north.md").write_text(
        "# notes/north.md\n\nThe keeper of the north lamp earns 800 euros a month.\n"
    )
    (folder / "notes/south.md").unlink()
    assert states(engine) == {
        "notes/north.md": "changed",  # as many bytes as before
        "notes/south.md": "gone",
        "notes/east.md": "",
        "notes/west.md": "",
    }
    found = engine.search(QUESTION)
    command = f"lmkrag index {folder} --prune --index {tmp_path / 'index'}"
    assert found.notes == (
        "notes/north.md changed since indexing, notes/south.md disappeared since indexing; "
        f"to bring the index in step: {command}",
    )
    assert "900" in next(
        span.text for span in found if span.stale == "changed"
    )  # the text is the index's
    assert engine.ask(QUESTION).warnings == found.notes
    with engine.ask_stream(QUESTION) as stream:
        assert stream.answer().warnings == found.notes
    assert engine.build_context(QUESTION).notes == found.notes
    engine.add(folder, prune=True)  # what the command does
    assert set(states(engine).values()) == {""} and len(states(engine)) == 3


def test_a_file_that_moved_is_found_by_its_fingerprint(engine, folder):
    (folder / "elsewhere").mkdir()
    (folder / "notes/east.md").rename(folder / "elsewhere/orient.md")
    (span,) = engine.search(QUESTION, filter="doc_id=notes/east.md")
    assert (span.stale, span.path) == ("", str(folder / "elsewhere/orient.md"))
    (note,) = engine.search(QUESTION, filter="doc_id=notes/east.md").notes
    assert note.startswith(
        "notes/east.md moved since indexing; to bring the index in step: lmkrag index "
    )


def test_the_files_of_a_folder_are_looked_through_once_for_a_while(engine, folder, monkeypatch):
    (folder / "notes/north.md").unlink()
    (folder / "notes/south.md").unlink()
    walks = []
    walk = os.walk
    monkeypatch.setattr(os, "walk", lambda root: walks.append(root) or walk(root))
    for _ in range(3):
        assert sorted(states(engine).values()) == ["", "", "gone", "gone"]
    assert len(walks) <= 2  # two, if a span of time ends between
    (folder / "notes/north.md").write_text(
        "# notes/north.md\n\nThe keeper of the north lamp earns 900 euros a month.\n"
    )
    assert states(engine)["notes/north.md"] == ""  # at once, where it was


def test_a_file_that_is_replaced_or_can_not_be_read(engine, folder):
    (folder / "notes/west.md").replace(folder / "notes/north.md")  # another file takes its name
    (folder / "notes/south.md").unlink()
    (folder / "notes/south.md").mkdir()  # a folder of that name
    (folder / "notes/east.md").unlink()
    (folder / "notes/east.md").symlink_to(folder / "no such file")
    assert states(engine) == {
        "notes/north.md": "changed",
        "notes/south.md": "changed",
        "notes/east.md": "gone",
        "notes/west.md": "",  # it is at north.md now
    }


def test_a_file_that_was_added_alone_is_named_alone(tmp_path):
    (tmp_path / "pay.md").write_text("The keeper of the lamp earns 900 euros.")
    (tmp_path / "private.md").write_text("Not to be indexed.")
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(tmp_path / "pay.md")
        (tmp_path / "pay.md").write_text("The keeper of the lamp earns 1200 euros.")
        assert f"lmkrag index {tmp_path / 'pay.md'} --prune" in engine.search(QUESTION).notes[0]


def test_attachments_are_as_stale_as_the_file_they_are_in(tmp_path):
    mail = tmp_path / "mail" / "letter.eml"
    mail.parent.mkdir()
    mail.write_text(
        "From: a@example.org\nSubject: Pay\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n"
        "--b\nContent-Type: text/plain\n\nSee below.\n--b\nContent-Type: text/plain; name=pay.txt\n"
        "Content-Disposition: attachment; filename=pay.txt\n\nThe keeper of the lamp earns 900 euros.\n--b--\n"
    )
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(mail.parent)
        assert states(engine)["letter.eml/pay.txt"] == ""
        mail.write_text(mail.read_text().replace("900", "800"))
        assert states(engine)["letter.eml/pay.txt"] == "changed"


def test_documents_without_a_file_and_folders_of_another_machine_are_not_stale(engine, folder):
    engine.add(
        Document("said.md", "https://example.org/said", "The keeper of the lamp earns 700 euros.")
    )
    folder.rename(folder.with_name("unmounted"))
    assert set(states(engine).values()) == {""} and "said.md" in states(engine)


def test_it_takes_a_millisecond_for_eight_results(tmp_path):
    from lmkrag.evidence.freshness import mark_stale
    from lmkrag.evidence.passes import SearchContext
    from lmkrag.language.question import Question
    from lmkrag.search.request import SearchRequest

    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.md").write_text(f"The keeper of lamp {number} earns 900 euros.")
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(folder)
        found = engine.search(QUESTION, rerank=False)
        assert len({span.doc_id for span in found}) == 8
        times = []
        with engine._reading() as snapshot:
            context = SearchContext(
                snapshot, Question.read(QUESTION), SearchRequest(), engine.pages, tmp_path
            )
            for _ in range(50):
                begin = time.perf_counter()
                mark_stale(found, context)
                times.append(time.perf_counter() - begin)
        assert min(times) < 0.001


def test_the_command_line_prints_it_above_the_results(engine, folder, lmkrag, tmp_path):
    (folder / "notes/south.md").unlink()
    ran = lmkrag("search", QUESTION, "--index", tmp_path / "index")
    assert ran.stderr.startswith(
        "lmkrag: notes/south.md disappeared since indexing; to bring the index in step: "
    )
    assert "(gone since indexing)" in ran.stdout
    printed = json.loads(lmkrag("search", QUESTION, "--index", tmp_path / "index", "--json").stdout)
    assert printed["notes"] and {"gone", ""} == {span["stale"] for span in printed["spans"]}
    assert "disappeared" in lmkrag("ask", QUESTION, "--index", tmp_path / "index").stderr


def test_frameworks_get_it_as_metadata(engine, folder):
    from lmkrag.integrations import langchain, llama_index

    (folder / "notes/south.md").unlink()
    documents = langchain.LandmarkRetriever(engine=engine).invoke(QUESTION)
    assert {doc.metadata.get("stale") for doc in documents} == {None, "gone"}
    nodes = llama_index.LandmarkRetriever(engine).retrieve(QUESTION)
    assert {node.node.metadata.get("stale") for node in nodes} == {None, "gone"}
