"""Searching and asking over HTTP give what the engine gives."""

import json

import pytest
from starlette.testclient import TestClient

from lmkrag import Document, Engine, RemoteEngine
from lmkrag.errors import UsageError
from lmkrag.evidence.finder import EvidenceFinder
from lmkrag.readers.extractive import ExtractiveReader
from lmkrag.results import ABSTAINED
from lmkrag.serialization import answer_to_json, to_json
from lmkrag.server.app import create_app
from lmkrag.server.asking import find_evidence
from lmkrag.server.settings import ServerSettings

QUESTION = "how is leave accrued?"


@pytest.fixture(scope="module")
def local(built_index):
    with Engine.open(built_index) as opened:
        yield opened


def same(found: list, expected: list) -> bool:
    def key(spans):
        return [
            (s["doc_id"], s["start"], s["end"], s["text"], round(s["score"], 4), len(s["hits"]))
            for s in spans
        ]

    return key(found) == key(expected)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top_k": 3, "level": "span"},
        {"max_tokens": 60},
        {"mode": "lexical", "level": "sentence"},
        {"mode": "dense", "level": "document"},
        {"filter": "kind=pdf", "per_document": 1},
        {"level": "sentence", "index": "demo"},
        {"rerank": True, "top_k": 3},
        {"rerank_timeout_ms": 30_000, "level": "span"},
    ],
)
def test_search_is_the_engines(client, local, options):
    reply = (
        client.post("/api/search", json={"query": QUESTION, **options}).raise_for_status().json()
    )
    options.pop("index", None)
    expected = [to_json(span) for span in local.search(QUESTION, **options)]
    assert expected
    assert same(reply["spans"], expected)


def test_a_client_learns_that_a_file_has_changed_and_of_no_folder_here(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "pay.md").write_text("The keeper of the lamp earns 900 euros a month.")
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(tmp_path / "docs")
    (tmp_path / "docs" / "pay.md").write_text("The keeper of the lamp earns 1,200 euros a month.")
    settings = ServerSettings({"demo": tmp_path / "index"})
    query = {"query": "what does the keeper of the lamp earn?"}
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        found = client.post("/api/search", json=query).json()
        assert [span["stale"] for span in found["spans"]] == ["changed"]
        assert found["notes"] == ["pay.md changed since indexing"]
        assert client.post("/api/ask", json={"question": query["query"]}).json()["warnings"] == [
            "pay.md changed since indexing"
        ]


def test_fields_are_those_of_the_command_line(client, local):
    (span,) = client.post("/api/search", json={"query": QUESTION, "top_k": 1}).json()["spans"]
    assert span.keys() == to_json(local.search(QUESTION, top_k=1)[0]).keys()
    (explained,) = client.post(
        "/api/search", json={"query": QUESTION, "top_k": 1, "explain": True}
    ).json()["spans"]
    assert span["explanation"] is None and explained.keys() == span.keys()
    parts = sum(part["value"] * part["weight"] for part in explained["explanation"]["parts"])
    for factor in explained["explanation"]["factors"]:
        parts *= factor["value"]
    assert parts == pytest.approx(explained["score"], abs=1e-5)


def test_batch(client, local):
    queries = ["When are bonfires allowed?", QUESTION]
    reply = (
        client.post("/api/search/batch", json={"queries": queries, "top_k": 2})
        .raise_for_status()
        .json()
    )
    for result, query in zip(reply["results"], queries, strict=True):
        assert same(result["spans"], [to_json(span) for span in local.search(query, top_k=2)])


CHINESE = "灯塔的管理员应该在黄昏时点亮灯吗当风暴来临时他要关闭北面的门" * 22
HASHES = "which file has the checksum " + " ".join(
    f"{number * 2654435761 % 2**32:08x}" for number in range(1_000)
)


@pytest.mark.parametrize("question", [CHINESE, HASHES], ids=["Chinese", "hashes"])
def test_a_question_of_many_tokens_is_no_error(client, question):
    client.post("/api/search", json={"query": question}).raise_for_status()
    client.post("/api/ask", json={"question": question}).raise_for_status()
    history = [[question, question]] * 5
    client.post("/api/ask", json={"question": "And why?", "history": history}).raise_for_status()
    client.post("/v1/rerank", json={"query": question, "documents": [question]}).raise_for_status()
    client.get(
        "/api/documents/glass-river.txt/relevance", params={"query": question[:2_000]}
    ).raise_for_status()


def test_a_question_of_a_batch_fails_alone(client, server):
    queries = [QUESTION, "", HASHES, "x" * 10_001, " "]
    reply = (
        client.post("/api/search/batch", json={"queries": queries, "top_k": 2})
        .raise_for_status()
        .json()
    )
    alone = client.post("/api/search", json={"query": QUESTION, "top_k": 2}).json()
    first, *others = reply["results"]
    assert first == {**{name: alone[name] for name in ("spans", "notes", "blocks")}, "error": None}
    blank, too_long = "the question is empty", "a question has at most 10,000 characters"
    assert [result["error"] for result in others] == [blank, None, too_long, blank]
    assert [bool(result["spans"]) for result in others] == [False, True, False, False]
    with RemoteEngine(server.url) as remote:
        found = remote.search_many(queries, top_k=2)
        answers = list(remote.ask_many(queries))
    for results in (found, answers):
        assert [isinstance(result, UsageError) for result in results] == [
            False,
            True,
            False,
            True,
            True,
        ]
    assert str(found[3]) == too_long and "at most 10000 characters" in str(answers[3])


def test_ask(client, local):
    reply = (
        client.post("/api/ask", json={"question": "who approves leave?"}).raise_for_status().json()
    )
    expected = answer_to_json("who approves leave?", local.ask("who approves leave?"))
    assert reply["text"] == expected["text"]
    assert "The harbour master approves leave." in reply["text"]
    assert reply["label"] in ("strong", "likely") and reply["confidence"] > 0.5
    assert reply["citations"] == [
        {**citation, "path": citation["doc_id"]} for citation in expected["citations"]
    ]
    assert same(reply["spans"], expected["spans"])


def events_of(lines) -> list:
    found, event = [], ""
    for line in lines:
        if line.startswith("event: "):
            event = line[7:]
        elif line.startswith("data: "):
            found.append((event, json.loads(line[6:])))
    return found


def test_ask_streams(client):
    body = {"question": "who approves leave?", "stream": True}
    with client.stream("POST", "/api/ask", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = events_of(response.iter_lines())
    names = [name for name, _ in events]
    assert names[0] == "spans" and names[-1] == "answer" and set(names[1:-1]) == {"text"}
    whole = events[-1][1]
    assert "".join(data for name, data in events if name == "text") == whole["text"]
    assert whole["found"] and whole["spans"] == events[0][1]["spans"]


def test_nothing_answers(client):
    reply = (
        client.post("/api/ask", json={"question": "xqzzt vwoop grfbl?"}).raise_for_status().json()
    )
    assert (reply["found"], reply["label"]) == (False, "weak")


def test_a_language_model_reads_and_its_citations_are_checked(
    serve, built_index, chat_server, causal_model, tmp_path
):
    options = [
        "--reader",
        "openai",
        "--base-url",
        chat_server,
        "--model",
        causal_model,
        "--index",
        built_index,
    ]
    with serve(tmp_path, *options, OPENAI_API_KEY="none") as running, running.client() as client:
        body = {"question": "When are bonfires allowed?", "stream": True}
        with client.stream("POST", "/api/ask", json=body) as response:
            events = events_of(response.iter_lines())
        assert len([name for name, _ in events if name == "text"]) > 3
        assert events[-1][0] == "answer"
        assert events[-1][1]["reader"].startswith("openai")
        assert any("[99]" in warning for warning in events[-1][1]["warnings"])
        assert client.get("/api/status").json()["reader"] == events[-1][1]["reader"]


def test_a_reader_that_fails_is_told_in_the_stream_and_out_of_it(serve, built_index, tmp_path):
    options = [
        "--reader",
        "openai",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--model",
        "m",
        "--index",
        built_index,
    ]
    with serve(tmp_path, *options, OPENAI_API_KEY="none") as running, running.client() as client:
        reply = client.post("/api/ask", json={"question": "When?"})
        assert reply.status_code == 502
        assert reply.json()["type"] == "urn:lmkrag:reader"
        with client.stream(
            "POST", "/api/ask", json={"question": "When?", "stream": True}
        ) as response:
            events = events_of(response.iter_lines())
        assert [name for name, _ in events] == ["spans", "error"]
        assert events[-1][1]["status"] == 502


def test_several_indexes(serve, built_index, index, tmp_path):
    with Engine.open(index) as engine:
        engine.remove("glass-river.txt")
    with serve(tmp_path, "--index", f"one={built_index}", "--index", f"two={index}") as running:
        with running.client() as client:
            found = client.get("/api/indexes").json()
            assert [(item["name"], item["documents"]) for item in found["indexes"]] == [
                ("one", 5),
                ("two", 4),
            ]
            assert client.get("/api/documents", params={"index": "two"}).json()["total"] == 4
            unnamed = client.post("/api/search", json={"query": "leave"})
            assert unnamed.status_code == 400
            assert unnamed.json()["detail"] == 'name an index with "index": one of one, two'
        with RemoteEngine(f"{running.url}/two") as remote:
            assert len(remote.documents()) == 4


def test_extractive_reader_is_named(client):
    assert client.get("/api/status").json()["reader"] == ExtractiveReader.name


def test_citations_are_checked(client):
    found = client.post("/api/search", json={"query": "how is leave accrued?", "top_k": 1}).json()[
        "spans"
    ][0]
    cited = {name: found[name] for name in ("doc_id", "start", "end")}
    body = {
        "citations": [
            cited | {"quote": found["text"]},
            cited | {"quote": "Leave is a matter of taste."},
        ]
    }
    checked = client.post("/api/check", json=body).json()["citations"]
    assert checked[0]["state"] == "same"
    assert checked[1]["state"] in ("gone", "reworded", "changed")
    told = client.post("/api/check", json={"text": f'It says "{found["text"][:60]}".'}).json()[
        "citations"
    ]
    assert told[0]["state"] == "same" and told[0]["doc_id"] == found["doc_id"]


def test_blocks_history_and_words_of_a_span(client):
    reply = client.post(
        "/api/search", json={"query": "how is leave accrued?", "top_k": 2, "blocks": True}
    ).json()
    assert len(reply["blocks"]) == len(reply["spans"]) == 2
    first = reply["spans"][0]
    assert (first["place"], first["weak"]) == ("lighthouse-handbook.md:50", False)
    assert first["section"].startswith("Keeper's Handbook of Skerry Light > 3.")
    body = {
        "question": "And on what day of the month?",
        "history": [["how is leave accrued?", ""]],
        "blocks": True,
    }
    said = client.post("/api/ask", json=body).json()
    assert said["blocks"] and said["question"] == "And on what day of the month?"
    assert {span["doc_id"] for span in said["spans"][:2]} == {
        "lighthouse-handbook.md"
    }  # nothing else says of what
    assert (
        client.post("/api/ask", json={"question": "x", "history": [["q", "a"]] * 21}).status_code
        == 422
    )


@pytest.fixture
def libraries(tmp_path):
    """An index of public and private documents, and the server's view of it."""
    from lmkrag.server.indexes import ServedIndexes
    from lmkrag.server.settings import ServerLimits

    with Engine.open(tmp_path / "index", create=True) as engine:
        secret = "The takeover of Brinmore closes in May. The price of Brinmore is nine million.\n"
        engine.add(
            Document(
                "private/plan.md",
                "plan.md",
                f"# Brinmore takeover\n\n{secret}",
                "Brinmore takeover",
            )
        )
        public = "The library opens at nine. The library lends forty books to a reader. Fines are paid at the desk.\n"
        engine.add(
            Document("public/rules.md", "rules.md", f"# Library rules\n\n{public}", "Library rules")
        )
    served = ServedIndexes({"docs": tmp_path / "index"}, ServerLimits())
    yield served.find("docs")
    served.close()


async def test_a_follow_up_keeps_the_filter_and_is_one_search(libraries, monkeypatch):
    searches: list[list[str]] = []
    search = EvidenceFinder.search

    def record(self, queries, *arguments, **options):
        searches.append(list(queries))
        return search(self, queries, *arguments, **options)

    monkeypatch.setattr(EvidenceFinder, "search", record)
    evidence = await find_evidence(
        libraries,
        ExtractiveReader(),
        "And at what price?",
        {"filter": "path=public/*"},
        history=[("When does the takeover of Brinmore close?", "In May.")],
    )
    assert evidence.question == "And at what price? (When does the takeover of Brinmore close?)"
    assert {span.doc_id for span in evidence.spans} <= {"public/rules.md"}
    assert searches == [[evidence.question]]


async def test_whoever_does_not_own_the_index_is_told_that_it_abstains(libraries):
    evidence = await find_evidence(
        libraries, ExtractiveReader(), "Who won the cup in 1990?", {"abstain_below": 0.9}
    )
    answer = await evidence.answer()
    assert (answer.text, answer.warnings) == (ABSTAINED, ())
    assert 0 < answer.confidence < 0.9


def test_a_streamed_follow_up_names_the_question_as_it_was_asked(client):
    first = client.post("/api/ask", json={"question": "how is leave accrued?"}).json()
    body = {
        "question": "And who approves it?",
        "history": [["how is leave accrued?", first["text"]]],
        "stream": True,
    }
    events = client.post("/api/ask", json=body).text
    said = json.loads(events.rpartition("event: answer")[2].partition("data: ")[2].splitlines()[0])
    assert said["question"] == "And who approves it?"
    assert said["citations"][0]["doc_id"] == "lighthouse-handbook.md"


@pytest.mark.parametrize(
    ("path", "body", "optional"),
    [
        ("/api/search", {"query": "leave"}, ("filter", "since", "until", "top_k", "index")),
        ("/api/ask", {"question": "who approves leave?"}, ("filter", "since", "index")),
        ("/retrieval", {"knowledge_id": "demo", "query": "leave"}, ("metadata_condition",)),
    ],
)
def test_a_blank_option_is_none(client, path, body, optional):
    expected = client.post(path, json=body).raise_for_status().json()
    blank = dict.fromkeys(optional, "")
    assert client.post(path, json={**body, **blank}).raise_for_status().json() == expected


def test_a_search_by_its_address(client):
    expected = client.post("/api/search", json={"query": "leave"}).raise_for_status().json()
    found = client.get("/api/search", params={"q": "leave"}).raise_for_status().json()
    assert found == expected
    limited = client.get(
        "/api/search", params={"q": "leave", "top_k": 1, "filter": "kind=markdown", "since": ""}
    )
    assert len(limited.raise_for_status().json()["spans"]) == 1
    refused = client.get("/api/search", params={"q": "leave", "limit": 1})
    assert refused.status_code == 422 and "use top_k" in refused.text
    assert client.get("/api/search").status_code == 422
