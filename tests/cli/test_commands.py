import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios

import pytest

from lmkrag.cli import main

QUESTION = "How long must the lamp burn before the keeper may trim it?"


def test_search_prints_places_and_text(lmkrag, index):
    result = lmkrag("search", QUESTION, "--index", index, "--top", 2)
    assert result.returncode == 0
    assert "1. lighthouse-handbook.md:" in result.stdout
    assert "burned for four hours" in " ".join(result.stdout.split())
    assert result.stderr == ""


def test_search_json_is_json_and_nothing_else(lmkrag, index, corpus):
    result = lmkrag("search", QUESTION, "--index", index, "--json", "--top", 3)
    found = json.loads(result.stdout)
    assert len(found["spans"]) == 3
    span = found["spans"][0]
    assert set(span) >= {"doc_id", "path", "start", "end", "score", "page", "text"}
    assert (corpus / span["doc_id"]).read_text()[span["start"] : span["end"]] == span["text"]


def test_batch_search(lmkrag, index, tmp_path):
    queries = tmp_path / "q.jsonl"
    queries.write_text(
        '{"query_id": "a", "query": "fog horn"}\n{"query_id": 7, "query": "salmon"}\n'
    )
    for source, stdin in ((queries, None), ("-", queries.read_text())):
        result = lmkrag(
            "search", "--queries", source, "--json", "--index", index, "--top", 2, stdin=stdin
        )
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert [line["query_id"] for line in lines] == ["a", 7]
        assert lines[1]["spans"][0]["doc_id"] == "glass-river.txt"
        assert all(len(line["spans"]) == 2 for line in lines)


def test_files_that_people_write_may_begin_with_a_byte_order_mark(lmkrag, index, tmp_path):
    mine = {"LMKRAG_INDEX": str(index), "LMKRAG_TOP_K": "1"}
    (tmp_path / "q.jsonl").write_text('{"query_id": "a", "query": "fog horn"}\n', "utf-8-sig")
    for source, stdin in (("q.jsonl", None), ("-", (tmp_path / "q.jsonl").read_text("utf-8"))):
        result = lmkrag(
            "search", "--queries", source, "--json", stdin=stdin, cwd=tmp_path, env=mine
        )
        assert len(json.loads(result.stdout)["spans"]) == 1
    result = lmkrag("ask", "--batch", "q.jsonl", "--json", cwd=tmp_path, env=mine)
    assert json.loads(result.stdout)["query_id"] == "a"


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_files_that_people_write_have_many_encodings(lmkrag, index, tmp_path, encoding):
    questions = tmp_path / "questions.jsonl"
    questions.write_bytes('{"query_id": "a", "query": "coping stones, à côté"}\n'.encode(encoding))
    for command in (["search", "--json", "--queries"], ["ask", "--batch"]):
        result = lmkrag(*command, questions, "--index", index)
        assert (result.returncode, json.loads(result.stdout)["query_id"]) == (0, "a"), result.stderr
    answer = "“Annual leave is counted in séances.” [1]".encode(encoding)
    (tmp_path / "answer.txt").write_bytes(answer)
    for source, stdin in ((tmp_path / "answer.txt", None), ("-", answer)):
        assert "séances" in lmkrag("check", source, "--index", index, stdin=stdin).stdout
    (tmp_path / "answer.txt").write_bytes(bytes(range(256)) * 9)
    result = lmkrag("check", tmp_path / "answer.txt", "--index", index)
    assert (result.returncode, result.stderr) == (
        2,
        f"lmkrag: {tmp_path / 'answer.txt'}: binary file, not text\n",
    )


def test_ask_shows_exact_places_and_pages(lmkrag, index):
    result = lmkrag("ask", "How far have the coping stones moved?", "--index", index)
    assert result.returncode == 0
    assert re.search(
        r"^\[1\] reports/viaduct-inspection.pdf, page 2  (strong|likely) 2026-11-21 \(properties\)$",
        result.stdout,
        re.MULTILINE,
    )
    assert "Eleven coping stones" in result.stdout


def test_ask_json_and_standard_input(lmkrag, index):
    result = lmkrag("ask", "-", "--index", index, "--json", stdin="when are bonfires allowed?\n")
    answer = json.loads(result.stdout)
    assert answer["found"] is True
    citation = answer["citations"][0]
    text = lmkrag("show", citation["doc_id"], "--index", index).stdout
    assert text[citation["start"] : citation["end"]] == citation["quote"]


def test_ask_says_when_nothing_answers(lmkrag, index):
    question = "boiling point of tungsten hexafluoride?"
    result = lmkrag("ask", question, "--index", index)
    assert result.stdout.startswith("Probably not in these documents. Closest:\n")
    assert result.returncode == 0
    for command in ("ask", "search"):
        result = lmkrag(command, question, "--index", index, "--abstain-below", "0.3")
        said = result.stdout + result.stderr
        assert said.count("Nothing in these documents answers this.") == 1
        assert result.returncode == 1
    refused = lmkrag("ask", question, "--index", index, "--abstain-below", "1.5")
    assert refused.returncode == 2


def test_show_is_the_file(lmkrag, index, corpus):
    result = lmkrag("show", "glass-river.txt", "--index", index)
    assert result.stdout == (corpus / "glass-river.txt").read_text()


def test_a_second_run_of_an_unchanged_directory_loads_no_model(index, corpus):
    code = (
        "import sys\nfrom lmkrag.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print([m for m in ('torch', 'transformers', 'faiss', 'nltk') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, "index", str(corpus), "--index", str(index)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "5 unchanged" in result.stderr
    assert result.stdout == "[]\n"


def test_progress_on_a_terminal_and_none_in_a_pipe(lmkrag, corpus, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(5):
        shutil.copy(corpus / "glass-river.txt", docs / f"{number}.txt")
    terminal, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    command = [sys.executable, "-m", "lmkrag", "index", str(docs), "--index", str(tmp_path / "a")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=side)
    os.close(side)
    shown = b""
    with contextlib.suppress(OSError):  # a closed terminal reads as an error
        while data := os.read(terminal, 4096):
            shown += data
    assert process.wait(60) == 0
    assert b"looking for changes" in shown and b".txt" in shown and b"B/s" in shown
    assert b"\x1b[2K" in shown.rpartition(b"B/s")[2]  # the line is erased
    piped = lmkrag("index", docs, "--index", tmp_path / "b")
    assert piped.stderr.count("\n") == 1
    assert "5 added" in piped.stderr


def test_manage(lmkrag, index):
    status = json.loads(lmkrag("status", "--index", index, "--json").stdout)
    assert (status["documents"], status["dead"], status["recipe"]) == (5, 0, "auto")
    assert status["kinds"]["pdf"] == 1
    assert lmkrag("remove", "glass-river.txt", "--index", index).returncode == 0
    assert json.loads(lmkrag("status", "--index", index, "--json").stdout)["documents"] == 4
    assert lmkrag("verify", "--index", index).returncode == 0
    assert (
        json.loads(lmkrag("index-tools", "compact", "--index", index, "--json").stdout)[
            "bytes_after"
        ]
        > 0
    )
    assert json.loads(lmkrag("verify", "--index", index, "--json").stdout) == {"problems": []}


def test_verify_finds_damage_and_exits_1(lmkrag, index):
    segment = next((index / "segments").iterdir())
    data = bytearray(segment.read_bytes())
    data[-5] ^= 255
    segment.write_bytes(data)
    result = lmkrag("verify", "--index", index)
    assert result.returncode == 1
    assert "damaged (checksum)" in result.stdout
    search = lmkrag("search", "lamp", "--index", index)
    assert search.returncode == 1
    assert search.stderr.startswith("lmkrag: ")
    assert "damaged (checksum)" in search.stderr
    assert "Traceback" not in search.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["search", "x", "--index", "nowhere"],
            1,
            "lmkrag: nowhere: no index here; make one with: lmkrag index",
        ),
        (["search"], 2, "give a QUERY, or --queries"),
        (["remove"], 2, "give either ids of documents or --filter EXPR"),
        (
            ["remove", "x", "--filter", "kind=pdf"],
            2,
            "give either ids of documents or --filter EXPR",
        ),
        (["search", "x", "--top", "0"], 2, "Invalid value for '-k' / '--top-k' / '--top'"),
        (["search", "x", "--mode", "magic"], 2, "Invalid value for '--mode'"),
        (["index", "missing-directory"], 2, "lmkrag: missing-directory: no such file or directory"),
        (["index"], 2, "Missing argument"),
        (["nonsense"], 2, "No such command"),
        (
            ["ask", "x", "--reader", "oracle"],
            2,
            "reader 'oracle': use one of extractive, openai, vllm, transformers",
        ),
    ],
)
def test_mistakes_get_one_line_and_the_right_code(lmkrag, arguments, code, message, tmp_path):
    result = lmkrag(*arguments, cwd=tmp_path)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_mistakes_that_need_an_index(lmkrag, index):
    result = lmkrag("search", "x", "--index", index, "--filter", "kind==")
    assert (result.returncode, "filter 'kind=='" in result.stderr) == (2, True)
    result = lmkrag("show", "no\x1b[31m.md", "--index", index)
    assert result.returncode == 2
    assert "\x1b" not in result.stderr
    result = lmkrag("search", "--queries", "-", "--json", "--index", index, stdin='{"query": 1}')
    assert "questions, line 1: not" in result.stderr
    lines = [
        f'{{"query_id": {number}, "query": "{text}"}}'
        for number, text in enumerate(["leave", " ", "pump"])
    ]
    for command in (["search", "--json", "--queries", "-"], ["ask", "--batch", "-"]):
        result = lmkrag(*command, "--index", index, stdin="\n".join(lines))
        first, empty, last = map(json.loads, result.stdout.splitlines())
        assert result.returncode == 1 and "error" not in first and "error" not in last
        assert empty == {"query_id": 1, "question": " ", "error": "the question is empty"}
    assert "With --json" in lmkrag("search", "--help").stdout


def test_settings_come_from_flags_then_variables(lmkrag, index, tmp_path):
    def count(*arguments, **env):
        result = lmkrag(
            "search", "coping stones", "--json", *arguments, env={"LMKRAG_INDEX": str(index), **env}
        )
        return len(json.loads(result.stdout)["spans"])

    assert count() == 8
    assert count(LMKRAG_TOP_K="2") == 2
    assert count("--top", 1, LMKRAG_TOP_K="2") == 1


def command_lines(group):
    """Every command and group with the names that lead to it."""
    for name, command in group.commands.items():
        yield [name]
        if hasattr(command, "commands"):
            yield from ([name, *names] for names in command_lines(command))


@pytest.mark.parametrize("command", list(command_lines(main)), ids=" ".join)
def test_every_command_has_help_with_an_example(lmkrag, command):
    result = lmkrag(*command, "--help")
    assert result.returncode == 0
    assert f"Example: lmkrag {' '.join(command)}" in result.stdout
    assert "--debug" in result.stdout


def test_help_shows_its_examples_as_lines(lmkrag):
    result = lmkrag("--help")
    assert "..." not in result.stdout.split("Commands:")[1]  # every summary is whole
    assert "\b" not in result.stdout
    assert "\\b" not in result.stdout
    assert (
        '\n  lmkrag search "sick leave"          find passages about something\n' in result.stdout
    )


def test_list_gives_ids_that_can_be_removed(lmkrag, index):
    result = lmkrag("list", "--index", index, "--filter", "path=reports/*")
    names = result.stdout.split()
    assert names == ["reports/allotment-minutes.docx", "reports/viaduct-inspection.pdf"]
    (line, _) = lmkrag(
        "list", "--index", index, "--filter", "path=reports/*", "--json"
    ).stdout.splitlines()
    assert (
        json.loads(line)["meta"] == {"author": "Allotment Society"}
        or json.loads(line)["kind"] == "docx"
    )
    assert lmkrag("remove", *names, "--index", index).returncode == 0
    assert len(lmkrag("list", "--index", index).stdout.split()) == 3


def test_debug_tells_what_failed_where(lmkrag, tmp_path):
    (tmp_path / "bad.ipynb").write_text("{ no notebook")
    plain = lmkrag("index", tmp_path / "bad.ipynb", "--index", tmp_path / "a")
    assert "skipped bad.ipynb: broken notebook" in plain.stderr
    assert "Traceback" not in plain.stderr
    told = lmkrag("index", tmp_path / "bad.ipynb", "--index", tmp_path / "b", "--debug")
    assert "lmkrag.formats.isolated: " in told.stderr
    assert "Traceback" in told.stderr
    failed = lmkrag("search", "x", "--index", tmp_path / "none", "--debug")
    assert "IndexNotFound" in failed.stderr
    told = lmkrag("index", tmp_path / "bad.ipynb", "--index", tmp_path / "c", "-v")
    assert "lmkrag.ingest.report: bad.ipynb: skipped: broken notebook" in told.stderr


def test_recipes(lmkrag):
    assert [
        recipe["name"] for recipe in json.loads(lmkrag("index-tools", "recipes", "--json").stdout)
    ] == [
        "auto",
        "flat",
        "hnsw",
        "ivf-rabitq",
        "ivf-sq8",
    ]


def test_questions_need_no_quotes(lmkrag, index):
    quoted = lmkrag("search", "how is leave accrued", "--index", index, "-k", 1)
    assert (
        lmkrag("search", "how", "is", "leave", "accrued", "--index", index, "-k", 1).stdout
        == quoted.stdout
    )
    assert (
        "a twelfth of the year's days"
        in lmkrag("ask", "how", "is", "leave", "accrued", "--index", index).stdout
    )


def test_an_empty_question_is_wrong_usage(lmkrag, index):
    for command in (["search", " "], ["ask", ""], ["ask", "-"]):
        result = lmkrag(*command, "--index", index, stdin="\n")
        assert (result.returncode, result.stderr) == (2, "lmkrag: the question is empty\n")


def test_an_index_is_found_in_a_folder_above(lmkrag, index, tmp_path):
    inner = tmp_path / "project" / "src" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "project" / "indexes").mkdir()
    shutil.copytree(index, tmp_path / "project" / "indexes" / "default")
    assert "lighthouse-handbook.md:" in lmkrag("search", "the", "lamp", cwd=inner).stdout
    (inner / "a.txt").write_text("The heron waits.")
    assert (
        lmkrag("index", "a.txt", cwd=inner).returncode == 0
    )  # a new index is made here, not above
    assert (inner / "indexes" / "default" / "catalog.sqlite").exists()
    assert lmkrag("list", cwd=inner).stdout == "a.txt\n"


def test_a_misspelt_id_gets_a_suggestion(lmkrag, index):
    for command in ("show", "remove"):
        result = lmkrag(command, "glass-rivr.txt", "--index", index)
        assert result.returncode == 2
        assert "no document 'glass-rivr.txt'" in result.stderr
        assert "did you mean 'glass-river.txt'?" in result.stderr


def test_ids_are_taken_as_list_prints_them(lmkrag, on_terminal, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "two\nlines.txt").write_text("The lamp is \x1b[31mred.\n")
    lmkrag("index", tmp_path / "docs", "--index", tmp_path / "index")
    (doc_id,) = lmkrag("list", "--index", tmp_path / "index").stdout.splitlines()
    assert (
        lmkrag("show", doc_id, "--index", tmp_path / "index").stdout == "The lamp is \x1b[31mred.\n"
    )
    shown = on_terminal("show", doc_id, "--index", tmp_path / "index", NO_COLOR="1")
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == "> The lamp is \\x1b[31mred.\r\n"
    assert "1 removed" in lmkrag("remove", doc_id, "--index", tmp_path / "index").stderr


def test_remove_by_filter(lmkrag, index):
    assert lmkrag("remove", "--filter", "path=reports/*", "--index", index).returncode == 0
    assert len(lmkrag("list", "--index", index).stdout.split()) == 3


def test_a_filter_that_matches_nothing_says_what_there_is(lmkrag, index):
    for command in (["search", "water"], ["list"], ["remove"]):
        result = lmkrag(*command, "--filter", "kind=pfd", "--index", index)
        assert (
            "no document matches the filter 'kind=pfd'; kind is one of docx, html, markdown, pdf, text"
            in result.stderr
        )
        assert "front matter: author, date, tags, title, year" in result.stderr
    assert lmkrag("search", "water", "--filter", "kind=pdf", "--index", index).stderr == ""
    found = lmkrag("search", "lamp", "--filter", "kind=pdg", "--index", index, "--json")
    (note,) = json.loads(found.stdout)["notes"]
    assert note.startswith("no document matches the filter 'kind=pdg'")


def test_prune_brings_an_index_up_to_date(lmkrag, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("The mill was built in 1801.")
    (docs / "b.md").write_text("The bridge is green.")
    assert "2 added" in lmkrag("index", docs, "--prune", "--index", tmp_path / "index").stderr
    (docs / "b.md").unlink()
    (docs / "c.md").write_text("The church has two bells.")
    report = json.loads(
        lmkrag("index", docs, "--prune", "--index", tmp_path / "index", "--json").stdout
    )
    assert (report["added"], report["unchanged"], report["removed"]) == (1, 1, 1)


def test_whole_documents_are_listed_by_their_best_sentence(lmkrag, index):
    result = lmkrag(
        "search", "Which stones moved?", "--level", "document", "--index", index, "-k", 3
    )
    assert result.stdout.count("\n") < 16
    assert result.stdout.startswith("1. reports/viaduct-inspection.pdf, page 1  ")


def test_status_says_where_documents_came_from(lmkrag, index, corpus):
    status = json.loads(lmkrag("status", "--index", index, "--json").stdout)
    assert status["roots"] == {str(corpus): 5}
    assert status["skipped"] == 0
    os.utime(index / "catalog.sqlite", (1_000_000_000, 1_000_000_000))
    for _ in range(2):
        status = json.loads(lmkrag("status", "--index", index, "--json").stdout)
        assert status["changed"] == "2001-09-09T01:46:40+00:00"
    assert lmkrag("remove", "glass-river.txt", "--index", index).returncode == 0
    status = json.loads(lmkrag("status", "--index", index, "--json").stdout)
    assert status["changed"].startswith("20") and not status["changed"].startswith("2001")
    assert f"{corpus} (4 documents)" in lmkrag("status", "--index", index).stdout


BOATS = """# Boats

## Rescue

The rescue boat is launched from the lee side of the ferry, where it is calm. It holds six
people and can be lowered by two of the crew, even at night, since there are lamps on both sides of it. The cover
is taken off in the harbour already, so that nobody has to look for a knife when the boat is needed.

## Tug

The tug pulls nine tonnes.
"""
FARES = "AGE = 14\n\n\ndef fare(age, base):\n    if age < AGE:\n\t\treturn 0\n    return base\n\n\n"


@pytest.fixture(scope="module")
def notes(lmkrag, tmp_path_factory):
    """A Markdown file and a source file with an index of them."""
    folder = tmp_path_factory.mktemp("notes")
    (folder / "boats.md").write_text(BOATS)
    tugs = "".join(
        f"def tug_{n}():\n    return 'pulls {n} tonnes of barges'\n\n\n" for n in range(20)
    )
    (folder / "fares.py").write_text(FARES + tugs)
    index = folder / "index"
    assert lmkrag("index", folder, "--index", index).returncode == 0
    return index


def test_results_say_where_they_stand(lmkrag, notes):
    result = lmkrag(
        "search", "how many people does the rescue boat hold", "--index", notes, "-k", 1
    )
    heading, section, *text = result.stdout.splitlines()
    assert heading.startswith("1. boats.md:5  ") and not heading.endswith(" weak")
    assert section == "   Boats > Rescue"
    assert text[0].startswith("   > The rescue boat")
    answer = lmkrag("ask", "how many people does the rescue boat hold?", "--index", notes).stdout
    assert re.search(r"\[1\] boats\.md:5  (?:strong|fair)\n    Boats > Rescue\n", answer)
    (span,) = json.loads(
        lmkrag("search", "rescue boat", "--index", notes, "-k", 1, "--json").stdout
    )["spans"]
    assert (span["line"], span["last_line"], span["headings"]) == (5, 7, ["Boats", "Rescue"])
    assert span["coverage"] == 1


def test_code_comes_by_functions_and_keeps_its_lines(lmkrag, notes):
    result = lmkrag(
        "search", "what does a child's fare return below the age", "--index", notes, "-k", 1
    )
    assert "fares.py:" in result.stdout
    assert "   > def fare(age, base):\n   >     if age < AGE:\n" in result.stdout
    assert "def tug_9" not in result.stdout


def test_lines_around_results(lmkrag, notes):
    alone = lmkrag("search", "how many tonnes does the tug pull?", "--index", notes, "-k", 1).stdout
    assert "lowered by two" not in alone
    around = lmkrag(
        "search", "how many tonnes does the tug pull?", "--index", notes, "-k", 1, "-C", 4
    ).stdout
    assert around.index("lowered by two") < around.index("## Tug") < around.index("The tug pulls")


def test_at_most_so_many_results_of_a_document(lmkrag, notes):
    found = lmkrag("search", "rescue boat tug", "--index", notes, "--per-document", 1, "--json")
    doc_ids = [span["doc_id"] for span in json.loads(found.stdout)["spans"]]
    assert sorted(doc_ids) == ["boats.md", "fares.py"]


def test_a_part_of_a_document_is_shown(lmkrag, notes, index):
    text = lmkrag("show", "boats.md", "--index", notes).stdout
    place = text.index("nine tonnes")
    part = json.loads(
        lmkrag("show", "boats.md", "--index", notes, "--span", place, place + 11, "--json").stdout
    )
    assert part == {"doc_id": "boats.md", "start": place, "end": place + 11, "text": "nine tonnes"}
    page = lmkrag("show", "reports/viaduct-inspection.pdf", "--index", index, "--page", 2).stdout
    assert page.startswith("Findings")
    assert "Recommendations and cost" not in page
    for wrong, message in (
        (["--page", 1], "boats.md has no pages"),
        (["--span", 10, 5], f"--span 10 5 holds none of the {len(text)} characters of boats.md"),
        (
            ["--span", 9_000, 9_001],
            f"--span 9000 9001 holds none of the {len(text)} characters of boats.md",
        ),
        (["--page", 1, "--span", 1, 2], "give --page or --span; --image takes both"),
    ):
        result = lmkrag("show", "boats.md", "--index", notes, *wrong)
        assert (result.returncode, result.stderr) == (2, f"lmkrag: {message}\n")


def test_on_a_terminal_results_are_wrapped_marked_and_linked(on_terminal, notes):
    text = on_terminal(
        "search", "rescue boat", "--index", notes, "-k", 1, COLUMNS="60", TERM="xterm-256color"
    )
    assert "\x1b]8;" in text  # a link
    assert "boats.md\x1b\\" in text
    plain = re.sub(r"\x1b\]8;[^\x1b]*\x1b\\|\x1b\[[0-9;]*m", "", text)
    lines = [line.strip() for line in plain.splitlines()]
    assert max(map(len, lines)) <= 60
    assert "six people and can" in " ".join(lines)  # the author's line end is gone
    assert re.search(r"\x1b\[[0-9;]*4m[Rr]escue", text)  # a word of the question


def test_a_question_is_read_from_standard_input_by_search_and_ask(lmkrag, index):
    for command in ("search", "ask"):
        piped = lmkrag(command, "-", "--index", index, "--json", stdin="who approves leave?\n")
        typed = lmkrag(command, "who", "approves", "leave?", "--index", index, "--json")
        assert json.loads(piped.stdout) == json.loads(typed.stdout)
        assert lmkrag(command, "-", "--index", index, stdin="\n").returncode == 2


def test_operators_of_the_command_line(lmkrag, index):
    plain = json.loads(lmkrag("search", "who approves leave", "--index", index, "--json").stdout)[
        "spans"
    ]
    assert any("harbour master" in span["text"] for span in plain)
    without = lmkrag("search", 'who approves leave -"harbour master"', "--index", index, "--json")
    assert not any("harbour master" in span["text"] for span in json.loads(without.stdout)["spans"])


def test_several_indexes_in_the_environment(lmkrag, index, tmp_path):
    two = lmkrag("mcp", env={"LMKRAG_INDEX": f"{index}{os.pathsep}{tmp_path / 'none'}"}, stdin="")
    assert f"{tmp_path / 'none'}: no index here" in two.stderr


def test_links_out_of_a_folder_are_followed_by_a_flag(lmkrag, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (tmp_path / "secret.txt").write_text("The secret is green.")
    (docs / "link.txt").symlink_to(tmp_path / "secret.txt")
    told = lmkrag("index", docs, "--index", tmp_path / "index")
    assert "skipped link.txt: link to a file outside the directory" in told.stderr
    assert (
        "1 added" in lmkrag("index", docs, "--index", tmp_path / "index", "--follow-links").stderr
    )


def test_questions_that_are_not_utf8_are_answered_in_utf8(lmkrag, index, tmp_path):
    odd = '{"query_id": "\\ud800", "query": "leave \\ud800"}\n'
    for arguments in (["search", "--queries", "-", "--json"], ["ask", "--batch", "-", "--json"]):
        done = lmkrag(*arguments, "--index", index, stdin=odd)
        assert (done.returncode, json.loads(done.stdout)["query_id"]) == (0, "\ufffd"), done.stderr
    for command in ("search", "ask"):
        done = lmkrag(command, os.fsdecode(b"leave caf\xe9"), "--index", index, "--json")
        assert "leave caf\ufffd" in json.loads(done.stdout).values()


def test_many_skipped_files_are_counted_by_reason(tmp_path, lmkrag):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("The ferry leaves at nine.")
    for number in range(21):
        (docs / f"{number}.gif").write_bytes(b"GIF89a")
    for number in range(3):
        (docs / f"{number}.md").write_bytes(b"")
    done = lmkrag("index", docs, "--index", tmp_path / "index")
    assert (
        "skipped 24 files: 21 unsupported format (.gif); 3 empty file (-v or --json lists them)"
        in done.stderr
    )
    assert done.stderr.count("\n") == 2
    told = lmkrag("-v", "index", docs, "--index", tmp_path / "index")
    assert "7.gif: skipped: unsupported format (.gif)" in told.stderr
