"""Adding and removing over HTTP: accepted jobs are never lost, ids stay inside, one writer at a time."""

import signal
import subprocess
import time
import tracemalloc
from email.message import EmailMessage

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import DocumentNotFound, StorageError, UsageError
from lmkrag.server.indexes import ServedIndexes
from lmkrag.server.problems import Problem
from lmkrag.server.settings import ServerLimits
from lmkrag.server.upload_folder import check_doc_id
from lmkrag.server.uploads import Uploads

NOTE = b"# Ferry\n\nThe ferry to Skerry leaves at seven. Dogs travel free.\n"


def wait(client, job: dict) -> dict:
    deadline = time.monotonic() + 90
    while job["state"] not in ("done", "failed"):
        assert time.monotonic() < deadline, job
        time.sleep(0.1)
        job = client.get(f"/api/jobs/{job['job_id']}").raise_for_status().json()
    return job


def put(client, doc_id: str, **body) -> dict:
    reply = client.put(f"/api/documents/{doc_id}", **body)
    assert reply.status_code == 202, reply.text
    assert reply.headers["location"] == f"/api/jobs/{reply.json()['job_id']}"
    return reply.json()


def test_add_replace_follow_and_remove(writable, corpus, index):
    with writable.client() as client:
        assert wait(client, put(client, "notes/ferry.md", content=NOTE))["report"]["added"] == 1
        (span, *_) = client.post(
            "/api/search", json={"query": "when does the ferry leave?"}
        ).json()["spans"]
        assert span["doc_id"] == "notes/ferry.md" and "at seven" in span["text"]
        assert client.get("/api/documents/notes/ferry.md").json()["kind"] == "markdown"

        job = put(client, "notes/ferry.md", content=NOTE.replace(b"seven", b"nine"))
        job = wait(client, job)
        assert job["state"] == "done" and job["report"]["updated"] == 1
        assert "at nine" in client.get("/api/documents/notes/ferry.md/text").json()["text"]
        assert (
            client.get(f"/api/jobs/{job['job_id']}").json() == job
        )  # a client that was cut off asks again

        data = (corpus / "reports/viaduct-inspection.pdf").read_bytes()
        assert wait(client, put(client, "copies%2Freport.pdf", content=data))["state"] == "done"
        assert client.get("/api/documents/copies/report.pdf/pages/1.webp").status_code == 200

        mail = EmailMessage()
        mail["Subject"] = "Reports"
        mail.set_content("Both are attached.")
        for name, content in (("v.pdf", data), ("a.csv", b"Code,Days\nA-1,12\n"), ("b.bin", b"\0")):
            mail.add_attachment(
                content, maintype="application", subtype="octet-stream", filename=name
            )
        job = wait(client, put(client, "in/m.eml", content=mail.as_bytes()))
        assert (job["state"], [one["path"] for one in job["report"]["skipped"]]) == (
            "done",
            ["in/m.eml/b.bin"],
        )
        assert client.get("/api/documents/in/m.eml/v.pdf").json()["pages"] == 3
        assert (
            "attachment"
            in client.get("/api/documents/in/m.eml/v.pdf/pages/1.webp").json()["detail"]
        )
        mail.set_payload([part for part in mail.get_payload() if part.get_filename() != "a.csv"])
        assert wait(client, put(client, "in/m.eml", content=mail.as_bytes()))["state"] == "done"
        assert client.get("/api/documents/in/m.eml/a.csv").status_code == 404
        assert client.delete("/api/documents/in/m.eml").json() == {"removed": 1}
        assert client.get("/api/documents/in/m.eml/v.pdf").status_code == 404

        memo = {
            "text": "The memo says that the gate is green.",
            "title": "Gate",
            "meta": {"year": 2024},
        }
        assert wait(client, put(client, "memo:1", json=memo))["state"] == "done"
        found = client.post("/api/search", json={"query": "gate", "filter": "year=2024"}).json()[
            "spans"
        ]
        assert [span["title"] for span in found] == ["Gate"]

        assert client.delete("/api/documents/memo:1").json() == {"removed": 1}
        assert client.delete("/api/documents/memo:1").status_code == 404
    with Engine.open(index) as engine:
        assert not engine.verify()


def test_what_cannot_be_indexed_is_told_and_costs_nothing(writable):
    with writable.client() as client:
        failed = wait(client, put(client, "broken.pdf", content=b"%PDF-1.4 nothing"))
        assert failed["state"] == "failed" and "PDF" in failed["error"]
        assert wait(client, put(client, "x.exe", content=b"MZ"))["state"] == "failed"
        assert wait(client, put(client, "empty.txt", content=b""))["error"] == "empty file"
        assert (
            client.put("/api/documents/a.txt", json={"text": "x", "colour": 1}).status_code == 422
        )
        empty = client.put("/api/documents/a.txt", json={"text": ""})
        assert empty.status_code == 422 and empty.json()["detail"].startswith("text: ")
        assert client.get("/api/documents").json()["total"] == 5


@pytest.mark.parametrize(
    "doc_id",
    [
        "../x",
        "a/../../x",
        "/etc/x",
        "",
        ".",
        "..",
        "./x",
        " ",
        "a//b",
        "a/./b",
        ".hidden/x",
        "a\\b",
        "a\nb",
        "a\u202eb",
        "a\u2066b",
        "a\u0378b",
        "\u200d\u3000",
        "x" * 300,
        "a/" * 40 + "b",
        "/".join(["x" * 190] * 25),  # longer than a path may be
        "a.lmkrag.json",
    ],
)
def test_ids_that_lead_elsewhere(doc_id):
    with pytest.raises(UsageError, match="can't be the id of an upload"):
        check_doc_id(doc_id)


@pytest.mark.parametrize(
    "doc_id",
    [
        "می\u200cخواهم.md",
        "👩\u200d🚀.md",
        "Screenshot 9.41.00\u202fAM.png",
        "note\u00a0: x.md",
        "東京\u3000大阪.txt",
    ],
)
def test_ids_with_joiners_and_spaces(doc_id):
    assert str(check_doc_id(doc_id)) == doc_id


def test_ids_that_lead_elsewhere_over_http(writable, tmp_path):
    with writable.client() as client:
        kept = wait(client, put(client, "kept.txt", content=b"The gate is green."))
        assert kept["state"] == "done"
        for written in ("..%2F..%2Fescaped.txt", "%2Ftmp%2Fescaped.txt", "a%00b", "%2E", "."):
            assert client.put(f"/api/documents/{written}", content=b"text").status_code in (
                400,
                404,
                405,
            )
        assert (tmp_path / "index.uploads" / "kept.txt").is_file()
        assert not list(tmp_path.rglob("escaped*"))


def test_what_has_no_name_is_no_upload(writable):
    with writable.client() as client:
        assert client.put("/api/documents/", content=b"text").status_code == 400
        refused = client.put("/api/documents/", content=b"x" * 1_100_000)
        assert refused.status_code == 413 and "larger than 1,048,576 bytes" in refused.text


def test_a_folder_of_uploads_that_is_a_link_is_not_followed(writable, index, tmp_path):
    (tmp_path / "outside").mkdir()
    uploads = index.with_name("index.uploads")
    uploads.mkdir(exist_ok=True)
    (uploads / "link").symlink_to(tmp_path / "outside")
    with writable.client() as client:
        assert client.put("/api/documents/link/x.txt", content=b"text").status_code == 400
    assert not list((tmp_path / "outside").iterdir())


def test_read_only(client):
    for reply in (
        client.put("/api/documents/x.txt", content=b"x"),
        client.delete("/api/documents/glass-river.txt"),
        client.get("/api/jobs/x"),
    ):
        assert reply.status_code == 403
        assert reply.json()["detail"] == "documents can't be changed here: start with --writable"


def test_uploads_outlive_a_server_that_is_killed(serve_process, index, tmp_path):
    options = ("--index", f"demo={index}", "--writable", "--rerank", "off")
    with serve_process(tmp_path, *options) as running, running.client() as client:
        put(client, "notes/ferry.md", content=NOTE)
        put(client, "memo:1", json={"text": "The memo says that the gate is green."})
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
    with serve_process(tmp_path, *options) as running, running.client() as client:
        until_indexed(client, "notes/ferry.md")
        until_indexed(client, "memo:1")
        assert left_over(index) == []


def until_indexed(client, doc_id: str) -> None:
    deadline = time.monotonic() + 90
    while client.get(f"/api/documents/{doc_id}").status_code == 404:
        assert time.monotonic() < deadline, doc_id
        time.sleep(0.1)


def left_over(index) -> list[str]:
    return [path.name for path in (index.with_name("index.uploads") / ".incoming").glob("*")]


def test_somebody_else_writes(writable, index):
    from lmkrag.index.store import IndexStore

    store = IndexStore.open(index)
    with writable.client() as client:
        with store.locked():
            job = put(client, "notes/ferry.md", content=NOTE)
            refused = client.delete("/api/documents/glass-river.txt")
            assert refused.status_code == 409
            assert refused.headers["retry-after"]
            assert str(index) not in refused.text
            time.sleep(1)
            assert client.get(f"/api/jobs/{job['job_id']}").json()["state"] in (
                "waiting",
                "running",
            )
        assert wait(client, job)["state"] == "done"
    store.close()


@pytest.fixture
def accepting(index):
    """Uploads of an index in this process, and the index."""
    indexes = ServedIndexes({"demo": index}, ServerLimits())
    opened = []

    def start(**limits):
        opened.append(Uploads(indexes, ServerLimits(**limits)))
        return opened[-1], indexes.by_name["demo"]

    yield start
    for one in opened:
        one.close()
    indexes.close()


async def pieces(*data: bytes):
    for one in data:
        yield one


def ended(uploads, job):
    deadline = time.monotonic() + 60
    while not (job := uploads.find(job.job_id)).ended:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return job


async def test_an_upload_that_failed_is_replaced_by_a_newer_one(accepting, index, monkeypatch):
    accept, served = accepting()
    with monkeypatch.context() as patched:
        patched.setattr(type(served.engine), "add", full_disk)
        failed = ended(accept, await accept.receive(served, "a.txt", pieces(b"The gate is red.")))
    assert failed.state == "failed" and "No space left" in failed.error
    assert left_over(index) == []
    assert (
        ended(
            accept, await accept.receive(served, "a.txt", pieces(b"The gate is ", b"green."))
        ).state
        == "done"
    )
    accept.close()
    _, served = accepting()
    time.sleep(1)
    assert served.engine.read("a.txt") == "The gate is green."


async def test_what_is_in_the_folder_is_indexed_at_start(accepting, index, monkeypatch):
    accept, served = accepting()
    with monkeypatch.context() as patched:
        patched.setattr(type(served.engine), "add", full_disk)
        for job in (
            await accept.receive(served, "a.txt", pieces(b"The gate is red.")),
            await accept.add_document(
                served, Document("b", "", "The lamp is lit.", meta={"year": 2024})
            ),
        ):
            assert ended(accept, job).state == "failed"
    accept.close()
    folder = index.with_name("index.uploads")
    (folder / "notes").mkdir()
    (folder / "notes" / "by-hand.md").write_text("# Wick\n\nThe wick is trimmed at dawn.\n")
    (folder / "notes" / "link.txt").symlink_to(index.parent / "elsewhere.txt")
    (index.parent / "elsewhere.txt").write_text("The secret is green.")
    (folder / ".hidden").write_text("The secret is green.")
    _, served = accepting()
    deadline = time.monotonic() + 60
    while {"a.txt", "b", "notes/by-hand.md"} - {info.doc_id for info in served.engine.documents()}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert served.engine.status().documents == 8
    assert served.engine.read("b") == "The lamp is lit."
    assert [info.doc_id for info in served.engine.documents(filter="year=2024")] == ["b"]


async def test_a_document_that_was_removed_does_not_come_back(accepting, index):
    accept, served = accepting()
    jobs = [
        await accept.receive(served, "notes/a.txt", pieces(b"The gate is red.")),
        await accept.add_document(served, Document("b", "", "The lamp is lit.")),
        await accept.receive(served, "broken.pdf", pieces(b"%PDF-1.4 nothing")),
    ]
    assert [ended(accept, job).state for job in jobs] == ["done", "done", "failed"]
    assert [accept.remove(served, job.doc_id) for job in jobs] == [1, 1, 1]
    folder = index.with_name("index.uploads")
    assert [path for path in folder.rglob("*") if path.name != ".incoming"] == []
    accept.close()
    _, served = accepting()
    time.sleep(1)
    assert served.engine.status().documents == 5


async def test_a_file_and_a_document_sent_as_json_replace_each_other(accepting, index):
    accept, served = accepting()
    file = await accept.receive(served, "a", pieces(b"The gate is red."))
    assert ended(accept, file).state == "done"
    value = await accept.add_document(served, Document("a", "", "The lamp is lit."))
    assert ended(accept, value).report.updated == 1
    assert served.engine.read("a") == "The lamp is lit."
    assert not (index.with_name("index.uploads") / "a").exists()
    assert (
        ended(accept, await accept.receive(served, "a", pieces(b"The gate is green."))).state
        == "done"
    )
    assert served.engine.read("a") == "The gate is green."


def full_disk(*_, **__):
    raise StorageError("demo: writing failed ([Errno 28] No space left on device)")


async def test_of_two_uploads_of_one_document_the_later_is_indexed(accepting, index):
    accept, served = accepting()
    with served.engine._store.locked():
        first = await accept.receive(served, "a.txt", pieces(b"The gate is red."))
        second = await accept.receive(served, "a.txt", pieces(b"The gate is green."))
        third = await accept.add_document(served, Document("b", "", "The lamp is lit."))
        time.sleep(0.3)
        assert not accept.find(second.job_id).ended
    assert [ended(accept, job).state for job in (first, second, third)] == ["done"] * 3
    assert served.engine.read("a.txt") == "The gate is green."
    assert served.engine.read("b") == "The lamp is lit."


async def test_removing_a_document_that_waits(accepting, index):
    accept, served = accepting()
    with served.engine._store.locked():
        job = await accept.receive(served, "late.txt", pieces(b"The gate is red."))
        value = await accept.add_document(served, Document("late", "", "The lamp is lit."))
        assert accept.remove(served, "late.txt") == accept.remove(served, "late") == 1
    for one in (job, value):
        assert ended(accept, one).error == "removed before it was indexed"
    with pytest.raises(DocumentNotFound):
        accept.remove(served, "late.txt")
    time.sleep(0.5)
    accept.close()
    accepting()
    time.sleep(0.5)
    assert not {"late.txt", "late"} & {info.doc_id for info in served.engine.documents()}
    assert left_over(index) == [] and not (index.with_name("index.uploads") / "late.txt").exists()


async def test_removing_a_document_that_is_being_indexed(accepting, index, monkeypatch):
    accept, served = accepting()
    text = b"The valve opens at four bar, and the pump stops at nine. " * 4_000
    job = await accept.receive(served, "long.txt", pieces(text))
    while accept.find(job.job_id).done == 0:
        time.sleep(0.01)
    began = time.monotonic()
    assert accept.remove(served, "long.txt") == 1
    assert time.monotonic() - began < 10
    assert ended(accept, job).error == "removed before it was indexed"
    assert "long.txt" not in {info.doc_id for info in served.engine.documents()}
    assert (
        ended(accept, await accept.receive(served, "long.txt", pieces(b"The gate is red."))).state
        == "done"
    )


async def test_what_was_not_received_whole_is_gone(accepting, index):
    accept, served = accepting()

    async def broken():
        yield b"The gate"
        raise ConnectionResetError

    with pytest.raises(StorageError):
        await accept.receive(served, "a.txt", broken())
    assert left_over(index) == []
    (index.with_name("index.uploads") / ".incoming" / "f00d").write_bytes(
        b"of a server that was killed"
    )
    accept.close()
    accepting()
    assert left_over(index) == []


async def test_uploads_are_bounded_together(accepting):
    accept, served = accepting(pending=1_000, waiting_uploads=3)
    with served.engine._store.locked():
        jobs = [await accept.receive(served, "a.txt", pieces(b"x" * 900))]
        with pytest.raises(Problem) as refused:
            await accept.receive(served, "b.txt", pieces(*[b"y" * 50] * 10))
        assert refused.value.status_code == 429
        for name in ("c", "d"):
            jobs.append(await accept.receive(served, name, pieces(b"The gate is red.")))
        with pytest.raises(Problem):
            await accept.add_document(served, Document("more", "", "The gate is red."))
    assert [ended(accept, job).state for job in jobs] == ["done"] * 3
    assert ended(accept, await accept.receive(served, "b.txt", pieces(b"y" * 500))).state == "done"


async def test_a_large_upload_is_not_held_in_memory(accepting):
    accept, served = accepting()
    tracemalloc.start()
    with served.engine._store.locked():
        job = await accept.receive(served, "large.bin", pieces(*[b"\0" * (1 << 20)] * 64))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert ended(accept, job).state == "failed"


async def test_an_error_while_indexing_ends_no_thread(accepting, monkeypatch):
    accept, served = accepting()

    def broken(*_, **__):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(type(served.engine), "add", broken)
        failed = ended(accept, await accept.receive(served, "a.txt", pieces(b"The gate is red.")))
    assert failed.error == "this is a bug; the server's log says more"
    assert (
        ended(accept, await accept.receive(served, "b.txt", pieces(b"The lamp is lit."))).state
        == "done"
    )


def test_an_index_that_is_the_working_directory(serve, index, monkeypatch):
    monkeypatch.chdir(index)
    with (
        serve(index.parent, "--index", "demo=.", "--writable") as running,
        running.client() as client,
    ):
        assert wait(client, put(client, "a.b.txt", content=b"The gate is red."))["state"] == "done"
        missing = client.get("/api/documents/no.such.txt").json()
        assert missing["detail"].startswith("no document 'no.such.txt' in demo")
    assert (index.parent / "index.uploads" / "a.b.txt").is_file()


def test_page_by_page_while_the_list_changes(writable):
    with writable.client() as client:
        for name in ("a", "c", "e", "g"):
            wait(client, put(client, f"{name}.txt", content=b"The gate is red."))
        seen, after = [], ""
        while True:
            page = client.get("/api/documents", params={"after": after, "limit": 2}).json()[
                "documents"
            ]
            if not page:
                break
            seen += [info["doc_id"] for info in page]
            after = seen[-1]
            if after == "e.txt":
                client.delete("/api/documents/a.txt")
                wait(client, put(client, "f.txt", content=b"The lamp is lit."))
        assert seen == sorted(seen) and len(set(seen)) == len(seen)
        assert {"a.txt", "c.txt", "e.txt", "f.txt", "g.txt", "glass-river.txt"} <= set(seen)


async def test_files_and_folders_of_uploads_do_not_meet(accepting, index):
    accept, served = accepting()
    assert (
        ended(accept, await accept.receive(served, "a/b/c.txt", pieces(b"The gate is red."))).state
        == "done"
    )
    for name, message in (
        ("a/b", "'a/b' is a folder of uploads"),
        ("a/b/c.txt/d", "'a/b/c.txt' is an upload, and no folder"),
    ):
        with pytest.raises(UsageError, match=message):
            await accept.receive(served, name, pieces(b"The lamp is lit."))
    await accept.add_document(served, Document("memo", "memo", "The quay is wet."))
    with pytest.raises(UsageError, match="'memo' is an upload, and no folder"):
        await accept.receive(served, "memo/today.txt", pieces(b"The lamp is lit."))
    assert left_over(index) == []
    accept.remove(served, "a/b/c.txt")
    assert (
        ended(accept, await accept.receive(served, "a", pieces(b"The lamp is lit."))).state
        == "done"
    )
    assert served.engine.read("a") == "The lamp is lit."


@pytest.mark.parametrize("kind", ["application/octet-stream", "application/json"])
def test_an_upload_in_place_of_a_folder_is_refused(writable, index, kind):
    """Whoever puts a folder there: a client, or somebody on the server."""
    uploads = index.with_name(index.name + ".uploads")
    for folder in ("by hand", "memo.lmkrag.json"):
        (uploads / folder).mkdir(parents=True)
    content = (
        {"content": b"The gate is red."}
        if kind.endswith("stream")
        else {"json": {"text": "The gate is red."}}
    )
    with writable.client() as client:
        wait(client, put(client, "notes/gate.txt", content=b"The gate is red."))
        for doc_id in ("notes", "by hand", "memo"):
            reply = client.put(f"/api/documents/{doc_id}", **content)
            assert (reply.status_code, reply.json()["type"]) == (400, "urn:lmkrag:usage"), doc_id
            assert reply.json()["detail"].endswith("is a folder of uploads")
        for doc_id in ("notes/", "memo.lmkrag.json/today.txt", "a.lmkrag.json"):
            assert client.put(f"/api/documents/{doc_id}", **content).status_code == 400, doc_id
    assert left_over(index) == []


async def test_a_damaged_file_of_a_document_fails_alone(accepting, index):
    uploads = index.with_name(index.name + ".uploads")
    uploads.mkdir()
    for name, content in (("one", "[" * 100_000), ("two", '{"text": 5}'), ("three", "{")):
        (uploads / f"{name}.lmkrag.json").write_text(content)
    (uploads / "good.lmkrag.json").write_text('{"doc_id": "good", "text": "The gate is red."}')
    accept, served = accepting()
    later = await accept.add_document(served, Document("later", "", "The lamp is lit."))
    assert ended(accept, later).state == "done"
    assert {"good", "later"} <= {info.doc_id for info in served.engine.documents()}


def test_a_folder_is_served_and_kept_up_to_date(serve_process, tmp_path, monkeypatch):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "ferry.md").write_text(
        "# Ferry\n\nThe ferry to Skerry leaves at seven.\n"
    )
    with serve_process(
        tmp_path, tmp_path / "notes", "--no-open", XDG_CACHE_HOME=str(tmp_path / "cache")
    ) as running:
        assert f"MCP clients connect to {running.url}/mcp" in running.log.read_text()
        with running.client() as client:
            assert client.get("/api/indexes").json()["indexes"][0]["name"] == "notes"
            deadline = time.monotonic() + 60
            while client.get("/api/status").json()["indexing"]:
                assert time.monotonic() < deadline, running.log.read_text()
                time.sleep(0.2)
            found = client.post("/api/search", json={"query": "when does the ferry leave?"}).json()
            assert found["spans"][0]["doc_id"] == "ferry.md"
            (tmp_path / "notes" / "lamp.md").write_text("# Lamp\n\nThe wick is trimmed at dawn.\n")
            deadline = time.monotonic() + 60
            while client.get("/api/documents").json()["total"] < 2:
                assert time.monotonic() < deadline, running.log.read_text()
                time.sleep(0.2)
    assert list((tmp_path / "cache" / "lmkrag" / "folders").iterdir())  # kept for the next time
    followers = ["pgrep", "-f", f"index {tmp_path}"]
    deadline = time.monotonic() + 10
    while (
        subprocess.run(followers, capture_output=True).returncode == 0
    ):  # what follows the folder ends, too
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_folder_and_an_index_are_not_both_served(lmkrag, index, corpus):
    refused = lmkrag("serve", corpus, "--index", index)
    assert refused.returncode == 2 and "give folders or --index, not both" in refused.stderr
