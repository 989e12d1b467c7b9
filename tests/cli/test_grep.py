"""``lmkrag grep``: a folder that was never indexed is searched at once, and again when it has changed."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from lmkrag import Engine, LandmarkEncoder
from lmkrag.cli.serve import _open_cached_index
from lmkrag.index.files import lock_index
from lmkrag.ingest.folder_cache import cached_index, choose_files, rank_files, use_cached
from lmkrag.ingest.walk import walk
from lmkrag.search.code_blocks import find_definitions

SESSION = '''"""Sessions."""


def check_token(token, now):
    """Refuse a session token that has expired."""
    return token.expires > now
'''
RETRY = "MAX_ATTEMPTS = 5\n\n\ndef backoff(attempt):\n    # wait longer after every failed request\n    return 2**attempt\n"


@pytest.fixture
def folder(tmp_path):
    source = tmp_path / "project"
    (source / "net").mkdir(parents=True)
    (source / "session.py").write_text(SESSION)
    (source / "net" / "retry.py").write_text(RETRY)
    (source / "NOTES.md").write_text("# Notes\n\nThe server answers slowly after midnight.\n")
    return source


@pytest.fixture
def grep(tmp_path, folder, lmkrag, monkeypatch):
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    def run(*arguments, cwd=folder):
        return lmkrag("grep", *arguments, cwd=cwd, env={"XDG_CACHE_HOME": str(tmp_path / "cache")})

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    yield run
    for process in started:  # what indexes the rest of a large folder would go on for half a minute
        process.kill()
        process.wait()


def test_results_are_file_line_and_text(grep):
    found = grep("where is an expired session refused", "-k", 1)
    assert found.returncode == 0, found.stderr
    for line in found.stdout.splitlines():
        name, number, text = line.split(":", 2)
        assert name == "session.py"
        assert SESSION.splitlines()[int(number) - 1] == text
    assert "session.py:5:" in found.stdout


def test_files_counts_context_json_and_globs(grep):
    assert grep("wait after a failed request", "-l", "-k", 1).stdout == "net/retry.py\n"
    assert grep("wait after a failed request", "-c", "-k", 1).stdout == "net/retry.py:1\n"
    around = grep("expired token", "-k", 1, "-C", 2, "--include", "*.py").stdout
    assert "session.py-" in around and "session.py:" in around
    record = json.loads(grep("slow answers at night", "--json", "--exclude", "*.py").stdout)
    assert record["matches"][0]["path"] == "NOTES.md"
    assert record["matches"][0]["line"] in (1, 3)
    assert {match["path"] for match in record["matches"]} == {"NOTES.md"}


def test_a_pattern_must_hold_beside_the_meaning(grep):
    assert (
        grep("retrying requests", "--regex", r"2\*\*\w+").stdout
        == "net/retry.py:6:    return 2**attempt\n"
    )
    assert (
        grep("retrying requests", "--regex", "MAX_attempts", "-i").stdout
        == "net/retry.py:1:MAX_ATTEMPTS = 5\n"
    )
    nothing = grep("retrying requests", "--regex", "nowhere")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert grep("retrying", "--regex", "(").returncode == 2


def test_changes_are_seen_and_a_file_can_be_searched(grep, folder, tmp_path):
    assert "tide" not in grep("when is high water").stdout
    (folder / "tide.md").write_text("High water is at noon on Mondays.\n")
    assert (
        grep("when is high water", "-k", 1).stdout
        == "tide.md:1:High water is at noon on Mondays.\n"
    )
    (folder / "tide.md").unlink()
    assert "tide" not in grep("when is high water").stdout
    outside = grep("a failed request", folder / "net" / "retry.py", "-l", cwd=tmp_path)
    assert outside.stdout == "project/net/retry.py\n"
    assert len(list((tmp_path / "cache" / "lmkrag" / "folders").iterdir())) == 2


def test_files_without_lines_are_found_by_row_paragraph_and_page(grep, folder, corpus):
    rows = "code,item,price\nM1,Copper pipe,9.10\nM2,Brass rod,18.90\nM3,Lino sheet,3.20\n"
    (folder / "prices.csv").write_text(rows)
    page = "<p>The kiln is hot.</p><p>The choir sings in the barn.</p>"
    (folder / "club.html").write_text(f"<html><body><h1>Club</h1>{page}</body></html>")
    row = "prices.csv:row 3:code: M2 | item: Brass rod | price: 18.90\n"
    assert grep("brass rod", "prices.csv", "-k", 1).stdout == row
    found = grep("[a-z]+ rod price", "prices.csv", "--regex", r"\d+\.9\d").stdout
    assert found == row
    (match,) = json.loads(grep("brass rod", "prices.csv", "-k", 1, "--json").stdout)["matches"]
    assert (match["line"], match["place"]) == (None, "row 3")
    found = grep("where does the choir sing", "-k", 1).stdout
    assert found == "club.html:Club, paragraph 2:The choir sings in the barn.\n"
    report = corpus / "reports" / "viaduct-inspection.pdf"
    found = grep("what do the recommendations cost", report, "-k", 1).stdout
    assert re.match(r".*viaduct-inspection\.pdf:page \d:", found)


def test_a_large_folder_answers_from_its_most_promising_files(grep, folder):
    filler = "\n".join(f"value_{n} = compute_something({n})" for n in range(400)) + "\n"
    for number in range(30):
        (folder / f"filler_{number:02}.py").write_text(
            filler.replace("something", f"something_{number}")
        )
    found = grep("where is an expired session refused", "-k", 1)
    assert "session.py" in found.stdout
    told = "results and their order may change while the rest is being indexed"
    assert told in found.stderr
    (folder / "more.py").write_text(filler)
    printed = grep("where is an expired session refused", "-k", 1, "--json")
    notes = json.loads(printed.stdout)["notes"]
    assert notes == [] or told in notes[0]  # the background process may be done


def test_no_line_is_printed_twice(grep, folder, corpus):
    shutil.copy(corpus / "lighthouse-handbook.md", folder)
    found = grep("how is leave accrued", "-k", 10, "--include", "lighthouse*").stdout.splitlines()
    places = [line.split(":")[1] for line in found if line != "--"]
    assert len(places) > 6
    assert len(places) == len(set(places))


def test_what_another_process_is_indexing_is_searched_as_well(grep, folder, tmp_path):
    grep("anything")
    (index,) = (tmp_path / "cache" / "lmkrag" / "folders").iterdir()
    (folder / "tide.md").write_text("High water is at noon on Mondays.\n")
    for number in range(10):
        (folder / f"filler_{number}.py").write_text(f"value = {number}\n" * 600)
    with lock_index(index):
        found = grep("when is high water", "-k", 1)
    assert found.stdout == "tide.md:1:High water is at noon on Mondays.\n"
    told = r"lmkrag: \d of \d+ new or changed files are searched now, .* while the rest is being indexed, so run this again for all\n"
    assert re.fullmatch(told, found.stderr)


def test_files_with_the_rare_words_of_a_question_come_first(folder):
    files = [file for file in walk(folder) if not hasattr(file, "reason")]
    assert rank_files(files, "expired session tokens")[0].doc_id == "session.py"
    assert rank_files(files, "what does retry do")[0].doc_id == "net/retry.py"
    assert len(rank_files(files, "???")) == 3


def test_a_long_file_is_left_to_the_background_however_well_its_words_fit(folder):
    (folder / "app.min.js").write_text("expired(session,tokens);" * 4_000)
    files = [file for file in walk(folder) if not hasattr(file, "reason")]
    assert "session.py" in (
        names := [file.doc_id for file in choose_files(files, "expired session tokens")]
    )
    assert "app.min.js" not in names
    (longest,) = (file for file in files if file.doc_id == "app.min.js")
    assert choose_files([longest], "expired session tokens") == [longest]


def test_globs_are_filters_of_the_search(grep, folder):
    (folder / "docs").mkdir()
    (folder / "docs" / "tokens.md").write_text("Sessions end at midnight.\n")
    for number in range(260):
        (folder / f"code_{number}.py").write_text(
            f"def refuse_expired_session_{number}():\n    return {number}\n"
        )
    found = grep("where is an expired session refused", "--include", "docs/*.md", "-l")
    assert found.stdout == "docs/tokens.md\n"
    others = grep(
        "where is an expired session refused",
        "--exclude",
        "code_*",
        "--exclude",
        "*.md",
        "-l",
        "-k",
        2,
    )
    assert set(others.stdout.split()) == {"session.py", "net/retry.py"}


def test_results_are_apart_named_by_their_function_and_in_one_order(grep):
    first, second = (grep("where is an expired session refused", "-k", 2) for _ in range(2))
    assert first.stdout == second.stdout
    assert first.stdout.startswith("session.py:4:def check_token(token, now):\nsession.py:5:")
    assert first.stdout.count("--\n") == 1


def test_on_a_terminal_results_stand_below_the_names_of_their_files(on_terminal, folder, tmp_path):
    (folder / "session.py").write_text(
        SESSION + "\n\nclass Session:\n    def is_expired(self):\n        return True\n"
    )
    printed = on_terminal(
        "grep",
        "expired session or failed request",
        folder,
        "-k",
        3,
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        NO_COLOR="1",
    )
    blocks = re.sub(r"\x1b\[[\d;]*m|\r", "", printed).split("\n\n")
    assert [block.partition("\n")[0].rpartition("/")[2] for block in blocks].count(
        "session.py"
    ) >= 1
    assert all(not block.endswith("--") for block in blocks)
    assert printed.count("--\r\n") == 3 - len(blocks)


def test_only_weak_results_exit_with_one(grep):
    assert grep("wait after a failed request").returncode == 0
    assert grep("qwzx vrrkl pflomph").returncode == 1


def test_the_cache_is_private_and_first_searches_wait_for_one_another(folder, tmp_path):
    command = [
        sys.executable,
        "-m",
        "lmkrag",
        "grep",
        "where is an expired session refused",
        "-k",
        "1",
    ]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    running = [
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    found = [(*process.communicate(timeout=90), process.returncode) for process in running]
    assert "session.py:5:" in found[0][0]
    assert set(found) == {(found[0][0], "", 0)}
    (tmp_path / "cache").chmod(0o755)
    paths = list((tmp_path / "cache" / "lmkrag").rglob("*"))
    assert paths
    for path in (tmp_path / "cache" / "lmkrag", *paths):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_cache_that_cannot_be_written_to_is_one_sentence(lmkrag, folder, tmp_path):
    (tmp_path / "file").write_text("")
    found = lmkrag("grep", "anything", cwd=folder, env={"XDG_CACHE_HOME": str(tmp_path / "file")})
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.count("\n") == 1
    assert (
        "the cache can't be written to (Not a directory); XDG_CACHE_HOME names another folder for it"
        in found.stderr
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [("size=200k", "No space left on device"), ("size=9m,ro", "Read-only file system")],
)
def test_a_full_or_read_only_disk_is_one_sentence(lmkrag, folder, tmp_path, options, reason):
    home = tmp_path / "home"
    home.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", home], capture_output=True
    ).returncode:
        pytest.skip("a file system can't be mounted here")
    try:
        for _ in range(2):
            found = lmkrag("grep", "anything", cwd=folder, env={"XDG_CACHE_HOME": str(home)})
            sentence = f"the cache can't be written to ({reason}); XDG_CACHE_HOME names another folder for it"
            assert (found.returncode, found.stdout) == (1, "")
            assert found.stderr == f"lmkrag: {home}/lmkrag/folders: {sentence}\n"
        if "ro" not in options:
            subprocess.run(["mount", "-o", "remount,size=9m", home], check=True)
            assert lmkrag("grep", "anything", cwd=folder, env={"XDG_CACHE_HOME": str(home)}).stdout
    finally:
        subprocess.run(["umount", "--lazy", home], check=True)


def test_a_search_does_not_wait_for_another(grep, folder, tmp_path, monkeypatch):
    """While one process writes the index or searches it, others answer."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert grep("where is an expired session refused", "-k", 1).returncode == 0
    (index,) = (tmp_path / "cache" / "lmkrag" / "folders").iterdir()

    def search(_: object) -> str:
        return grep("where is an expired session refused", "-k", 1).stdout

    assert "session.py:5:" in use_cached(index, lambda: None, search)


def test_the_definition_is_the_one_that_a_line_stands_in():
    text = "int add(int a,\n        int b)\n{\n    return a + b;\n}\n\nif debug:\n    print(1)\n"
    assert [next(find_definitions(text, number), None) for number in (1, 4, 5, 7, 8)] == [
        1,
        1,
        1,
        None,
        None,
    ]
    text = "class A:\n    def f(\n        self,\n    ):\n        return 1\n\n    field = 2\n"
    assert [next(find_definitions(text, number), None) for number in (1, 5, 7)] == [1, 2, 1]
    text = "/// Adds\n/// two.\nfn add() {\n}\n\n    # set\n    @cached\n    def get(self):\n        pass\n"
    assert [next(find_definitions(text, number), None) for number in (1, 2, 6, 7)] == [3, 3, 8, 8]


def test_a_generated_file_is_searched_where_it_is_named(grep, folder):
    (folder / "mill.go").write_text("// Code generated by stringer. DO NOT EDIT.\nvar miller = 1\n")
    assert "mill.go" not in grep("who is the miller", "-k", 9).stdout
    assert grep("who is the miller", "mill.go", "-k", 1).stdout.startswith("mill.go:")
    assert "mill.go" not in grep("who is the miller", "session.py").stdout


def test_prose_has_no_definition(grep, folder):
    (folder / "plan.md").write_text("class of 1984\n\n    Their reunion is in May.\n")
    assert grep("when is the reunion", "-k", 1).stdout == "plan.md:3:    Their reunion is in May.\n"


def make_old_index(index, folder):
    """An index whose encoder had other weights."""
    old = LandmarkEncoder.load()
    old.spec = replace(old.spec, fingerprint="0" * 64)
    with Engine.open(index, create=True, encoder=old) as engine:
        engine.add(folder)


def test_the_cached_index_of_a_served_folder_is_made_again(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_old_index(cached_index([folder]), folder)
    ((name, index),) = _open_cached_index((folder,)).items()
    assert name == "project"
    with Engine.open(index) as engine:
        assert (
            engine.encoders.encoder.spec.fingerprint != "0" * 64
        )  # and it loads: it is the one that ships


@pytest.mark.parametrize("fault", ["another encoder", "damaged"])
def test_an_index_of_another_version_is_made_again(grep, folder, tmp_path, fault):
    assert grep("where is an expired session refused", "-k", 1).returncode == 0
    (index,) = (tmp_path / "cache" / "lmkrag" / "folders").iterdir()
    if fault == "damaged":
        (index / "catalog.sqlite").write_bytes(b"no database" * 1_000)
    else:
        shutil.rmtree(index)
        make_old_index(index, folder)
    found = grep("where is an expired session refused", "-k", 1)
    assert (found.returncode, found.stdout.partition(":")[0]) == (0, "session.py"), found.stderr


def test_a_folder_has_one_index(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(folder)
    assert cached_index([folder]) == cached_index([folder / "net" / ".."])
    assert cached_index([folder]) != cached_index([folder / "net"])
    assert cached_index([folder]).is_relative_to(tmp_path / "elsewhere")
