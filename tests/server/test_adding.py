"""Adding and removing over HTTP: accepted jobs are never lost, ids stay inside, one writer at a time."""

import json
import signal
import time
from email.message import EmailMessage

import pytest

from lmkrag import Engine
from lmkrag.errors import UsageError
from lmkrag.server.jobs import check_doc_id

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
        (span, *_) = client.post("/api/search", json={"query": "when does the ferry leave?"}).json()["spans"]
        assert span["doc_id"] == "notes/ferry.md" and "at seven" in span["text"]
        assert client.get("/api/documents/notes/ferry.md").json()["kind"] == "markdown"

        job = put(client, "notes/ferry.md", content=NOTE.replace(b"seven", b"nine"))
        with client.stream("GET", f"/api/jobs/{job['job_id']}/events") as response:
            events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: ")]
        assert events[-1]["state"] == "done" and events[-1]["report"]["updated"] == 1
        assert "at nine" in client.get("/api/documents/notes/ferry.md/text").json()["text"]
        again = client.get(f"/api/jobs/{job['job_id']}/events", headers={"Last-Event-ID": "1"}).text
        assert '"state": "done"' in again  # a client that was cut off hears the end

        data = (corpus / "reports/viaduct-inspection.pdf").read_bytes()
        assert wait(client, put(client, "copies%2Freport.pdf", content=data))["state"] == "done"
        assert client.get("/api/documents/copies/report.pdf/pages/1.webp").status_code == 200

        mail = EmailMessage()
        mail["Subject"] = "Reports"
        mail.set_content("Both are attached.")
        for name, content in (("v.pdf", data), ("a.csv", b"Code,Days\nA-1,12\n"), ("b.bin", b"\0")):
            mail.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
        job = wait(client, put(client, "in/m.eml", content=mail.as_bytes()))
        assert (job["state"], [one["path"] for one in job["report"]["skipped"]]) == ("done", ["in/m.eml/b.bin"])
        assert client.get("/api/documents/in/m.eml/v.pdf").json()["pages"] == 3
        assert "attachment" in client.get("/api/documents/in/m.eml/v.pdf/pages/1.webp").json()["detail"]
        mail.set_payload([part for part in mail.get_payload() if part.get_filename() != "a.csv"])
        assert wait(client, put(client, "in/m.eml", content=mail.as_bytes()))["state"] == "done"
        assert client.get("/api/documents/in/m.eml/a.csv").status_code == 404
        assert client.delete("/api/documents/in/m.eml").json() == {"removed": 1}
        assert client.get("/api/documents/in/m.eml/v.pdf").status_code == 404

        memo = {"text": "The memo says that the gate is green.", "title": "Gate", "meta": {"year": 2024}}
        assert wait(client, put(client, "memo:1", json=memo))["state"] == "done"
        found = client.post("/api/search", json={"query": "gate", "filter": "year=2024"}).json()["spans"]
        assert [span["title"] for span in found] == ["Gate"]

        assert client.delete("/api/documents/memo:1").json() == {"removed": 1}
        assert client.delete("/api/documents/memo:1").status_code == 404
        assert len(client.get("/api/jobs").json()["jobs"]) == 6
    with Engine.open(index) as engine:
        assert not engine.verify()


def test_what_cannot_be_indexed_is_told_and_costs_nothing(writable):
    with writable.client() as client:
        failed = wait(client, put(client, "broken.pdf", content=b"%PDF-1.4 nothing"))
        assert failed["state"] == "failed" and "PDF" in failed["error"]
        assert wait(client, put(client, "x.exe", content=b"MZ"))["state"] == "failed"
        assert wait(client, put(client, "empty.txt", content=b""))["error"] == "empty file"
        assert client.put("/api/documents/a.txt", json={"text": "x", "colour": 1}).status_code == 422
        assert client.put("/api/documents/a.txt", json={"text": ""}).status_code == 422
        assert client.get("/api/documents").json()["total"] == 5


@pytest.mark.parametrize(
    "doc_id",
    ["../x", "a/../../x", "/etc/x", "", " ", "a//b", "a/./b", ".hidden/x", "a\\b", "a\nb", "x" * 300, "a/" * 40 + "b"],
)
def test_ids_that_lead_elsewhere(doc_id):
    with pytest.raises(UsageError, match="can't be the id of an upload"):
        check_doc_id(doc_id)


def test_ids_that_lead_elsewhere_over_http(writable, tmp_path):
    with writable.client() as client:
        for written in ("..%2F..%2Fescaped.txt", "%2Ftmp%2Fescaped.txt", "a%00b"):
            assert client.put(f"/api/documents/{written}", content=b"text").status_code == 400
        assert not list(tmp_path.rglob("escaped*"))


def test_a_folder_of_uploads_that_is_a_link_is_not_followed(writable, index, tmp_path):
    (tmp_path / "outside").mkdir()
    uploads = index.with_name("index.uploads")
    uploads.mkdir(exist_ok=True)
    (uploads / "link").symlink_to(tmp_path / "outside")
    with writable.client() as client:
        assert wait(client, put(client, "link/x.txt", content=b"text"))["state"] == "failed"
    assert not list((tmp_path / "outside").iterdir())


def test_read_only(client):
    for reply in (client.put("/api/documents/x.txt", content=b"x"), client.delete("/api/documents/glass-river.txt")):
        assert reply.status_code == 403
        assert reply.json()["detail"] == "documents can't be changed here: start with --writable"
    assert client.get("/api/jobs").json() == {"jobs": []}
    assert client.get("/api/jobs/x").status_code == 404


def test_jobs_outlive_a_server_that_is_killed(serve, index, tmp_path):
    with serve(tmp_path, "--index", f"demo={index}", "--writable") as running, running.client() as client:
        put(client, "notes/ferry.md", content=NOTE)
        put(client, "memo:1", json={"text": "The memo says that the gate is green."})
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
    with serve(tmp_path, "--index", f"demo={index}", "--writable") as running, running.client() as client:
        for job in client.get("/api/jobs").json()["jobs"]:
            assert wait(client, job)["state"] == "done"
        assert client.get("/api/documents/notes/ferry.md").status_code == 200
        assert client.get("/api/documents/memo:1").status_code == 200
        left = [path.name for path in (tmp_path / "index.uploads" / ".jobs").iterdir()]
        assert left == []


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
            assert client.get(f"/api/jobs/{job['job_id']}").json()["state"] in ("waiting", "running")
        assert wait(client, job)["state"] == "done"
    store.close()
