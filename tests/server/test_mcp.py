"""MCP by the SDK's own client: in process, on standard input and output, and over HTTP."""

import base64
import json
import os
import sys
from dataclasses import fields
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from lmkrag import Document, Engine
from lmkrag.readers.extractive import ExtractiveReader
from lmkrag.search.outline import outline
from lmkrag.search.request import SearchRequest, option_of
from lmkrag.server.indexes import ServedIndexes
from lmkrag.server.mcp import create_mcp_server
from lmkrag.server.settings import ServerLimits
from lmkrag.server.uploads import Uploads


@pytest.fixture
def make(index):
    opened: list[Any] = []

    def server(*, writable: bool = False, for_owner: bool = False):
        indexes = ServedIndexes({"demo": index}, ServerLimits(), for_owner=for_owner)
        uploads = Uploads(indexes, ServerLimits()) if writable else None
        opened.extend([*([uploads] if uploads else []), indexes])
        return create_mcp_server(indexes, ExtractiveReader(), uploads)

    yield server
    for part in opened:
        part.close()


async def call(client, tool: str, **arguments) -> dict[str, Any]:
    """Call a tool that must succeed, and return what it says."""
    reply = await client.call_tool(tool, arguments)
    assert not reply.is_error, reply
    return reply.structured_content


async def find_place(client) -> dict[str, Any]:
    """Where the best passage on leave is, as tools take it."""
    found = await call(client, "search", query="how is leave accrued?", top_k=1)
    return {name: found["passages"][0][name] for name in ("doc_id", "start", "end")}


async def tools_are_described(client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools.keys() == {
        *("search", "ask", "gather_evidence", "find_related"),
        *("read_document", "document_outline", "check", "list_documents", "page_image"),
    }
    for tool in tools.values():
        assert tool.annotations.read_only_hint
        assert tool.description
        assert bool(tool.output_schema) == (tool.name != "page_image")


async def passages_have_places(client) -> None:
    found = await call(client, "search", query="how is leave accrued?", top_k=2)
    assert len(found["passages"]) == 2
    assert found["passages"][0]["place"] == "lighthouse-handbook.md:50"


async def citations_are_what_is_read_there(client) -> None:
    asked = await call(client, "ask", question="who approves leave?")
    assert asked["found"]
    citation = asked["citations"][0]
    where = {name: citation[name] for name in ("doc_id", "start", "end")}
    assert (await call(client, "read_document", **where))["text"] == citation["quote"]


async def documents_are_listed_by_a_filter(client) -> None:
    listed = await call(client, "list_documents", filter="kind=pdf")
    assert listed["cursor"] is None
    assert [document["pages"] for document in listed["documents"]] == [3]


async def pages_are_drawn(client) -> None:
    options = {"query": "which ships are there?", "filter": "kind=pdf", "top_k": 1, "boxes": True}
    (passage,) = (await call(client, "search", **options))["passages"]
    assert {box["page"] for box in passage["boxes"]} >= {passage["page"]}
    outlined = {name: passage[name] for name in ("doc_id", "page", "start", "end")}
    for arguments in (outlined, {"doc_id": passage["doc_id"]}):
        (image,) = (await client.call_tool("page_image", arguments)).content
        assert image.mime_type == "image/jpeg"
        assert base64.b64decode(image.data).startswith(b"\xff\xd8")


async def a_page_that_is_not_there_is_refused(client) -> None:
    name = "reports/viaduct-inspection.pdf"
    refused = await client.call_tool("page_image", {"doc_id": name, "page": 4})
    assert refused.is_error
    assert refused.content[0].text.endswith(f"{name} has 3 pages")


async def a_heading_stands_above_a_passage(client) -> None:
    place = await find_place(client)
    outlined = await call(client, "document_outline", doc_id=place["doc_id"])
    first, *others = outlined["headings"]
    assert first["level"] == 1
    assert any(heading["start"] <= place["start"] < heading["end"] for heading in others)


async def related_passages_are_others(client) -> None:
    place = await find_place(client)
    others = (await call(client, "find_related", **place, top_k=3))["passages"]
    assert 1 <= len(others) <= 3
    same = [other for other in others if other["doc_id"] == place["doc_id"]]
    assert all(other["end"] <= place["start"] or place["end"] <= other["start"] for other in same)


async def evidence_names_what_is_missing_and_stands_word_for_word(client) -> None:
    question = "Does rule QX-77 say how leave is accrued?"
    evidence = await call(client, "gather_evidence", question=question, max_tokens=200)
    assert evidence["missing"] == ["QX-77"]
    assert evidence["generation"] >= 1
    quoted = " ".join(f'"{passage["text"].splitlines()[0]}"' for passage in evidence["passages"])
    checked = await call(client, "check", text=quoted)
    assert {citation["state"] for citation in checked["citations"]} == {"same"}


USES = [
    tools_are_described,
    passages_have_places,
    citations_are_what_is_read_there,
    documents_are_listed_by_a_filter,
    pages_are_drawn,
    a_page_that_is_not_there_is_refused,
    a_heading_stands_above_a_passage,
    related_passages_are_others,
    evidence_names_what_is_missing_and_stands_word_for_word,
]
"""What an assistant does with a client."""

each_use = pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)


@each_use
async def test_in_process(make, use):
    async with Client(make()) as client:
        await use(client)


@each_use
async def test_http(server, use):
    async with Client(f"{server.url}/mcp") as client:
        await use(client)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_stdio(built_index, mode):
    """All in one session, as starting it takes seconds; every failure is reported."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "lmkrag", "mcp", "--in-process", "--index", f"demo={built_index}"],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    failures = []
    async with Client(command, mode=mode) as client:
        for use in USES:
            try:
                await use(client)
            except Exception as error:
                error.add_note(f"in {use.__name__}")
                failures.append(error)
    if failures:
        raise ExceptionGroup("over standard input and output", failures)


def is_empty(value) -> bool:
    return value is None or value is False or value in ("", [])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search", {"query": "how is leave accrued?"}),
        ("gather_evidence", {"question": "how is leave accrued?"}),
        ("find_related", {"doc_id": "glass-river.txt", "start": 0, "end": 500}),
    ],
)
async def test_a_reply_has_no_empty_fields_and_no_indentation(make, tool, arguments):
    async with Client(make()) as client:
        reply = await client.call_tool(tool, arguments)
    (content,) = reply.content
    assert json.loads(content.text) == reply.structured_content
    assert "\n " not in content.text and '": ' not in content.text
    for passage in reply.structured_content["passages"]:
        assert passage.keys() >= {"doc_id", "place", "start", "end", "score", "text"}
        assert [name for name, value in passage.items() if is_empty(value)] == []


@pytest.mark.parametrize("blank", ["", "  "])
@pytest.mark.parametrize(
    ("tool", "arguments", "optional"),
    [
        ("search", {"query": "leave"}, ("filter", "since", "until", "top_k", "index")),
        ("ask", {"question": "who approves leave?"}, ("filter", "index")),
        ("gather_evidence", {"question": "who approves leave?"}, ("max_tokens", "filter")),
        ("read_document", {"doc_id": "glass-river.txt"}, ("start", "end", "index")),
        ("list_documents", {}, ("filter", "cursor", "index")),
    ],
)
async def test_a_blank_argument_is_none(make, tool, arguments, optional, blank):
    async with Client(make()) as client:
        expected = await call(client, tool, **arguments)
        assert await call(client, tool, **arguments, **dict.fromkeys(optional, blank)) == expected


async def test_an_end_of_0_reads_on(make):
    async with Client(make()) as client:
        read = await call(client, "read_document", doc_id="glass-river.txt", end=0)
    assert read["text"]


@pytest.mark.parametrize("tool", ["read_document", "document_outline", "page_image"])
async def test_a_path_in_place_of_an_id_gets_a_hint(make, tool):
    async with Client(make()) as client:
        path = "/home/keeper/trust/reports/viaduct-inspection.pdf"
        refused = await client.call_tool(tool, {"doc_id": path})
    assert refused.is_error
    assert "did you mean 'reports/viaduct-inspection.pdf'?" in refused.content[0].text


@pytest.mark.parametrize("budget", [200, 1_000])
async def test_evidence_keeps_within_its_budget_with_all_that_is_said(make, built_index, budget):
    async with Client(make()) as client:
        question = "What do keepers, bees and the viaduct need?"
        evidence = await call(client, "gather_evidence", question=question, max_tokens=budget)
    assert evidence["passages"]
    with Engine.open(built_index) as engine:
        written = json.dumps(evidence["passages"], ensure_ascii=False, separators=(",", ":"))
        assert engine.encoders.count_tokens(written) <= budget + 10


async def test_documents_are_resources(make, corpus):
    async with Client(make()) as client:
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "lmkrag://{index}/{+doc_id}"
        listed = {
            resource.name: str(resource.uri)
            for resource in (await client.list_resources()).resources
        }
        assert len(listed) == 5
        for name, address in listed.items():
            assert (await client.read_resource(address)).contents[0].text, name
        resource = await client.read_resource("lmkrag://demo/glass-river.txt")
        assert resource.contents[0].text == (corpus / "glass-river.txt").read_text("utf-8")
        nested = await client.read_resource("lmkrag://demo/reports/viaduct-inspection.pdf")
        assert "coping stones" in nested.contents[0].text


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search", {"query": "x", "index": "none"}, "no index 'none': there is demo"),
        ("search", {"query": "x", "filter": "kind="}, "filter"),
        (
            "search",
            {"query": "leave", "filter": "kind=pfd"},
            "no document matches the filter 'kind=pfd'; a filter asks for kind, path, doc_id, title, modified, speaker or a key",
        ),
        ("list_documents", {"filter": "kind=pfd"}, "no document matches the filter"),
        ("search", {"query": ""}, "at least 1 character"),
        ("search", {"query": "x", "top_k": 1000}, "top_k must be at most 50, not 1000"),
        ("read_document", {"doc_id": "glass-rivr.txt"}, "did you mean 'glass-river.txt'?"),
        ("search", {"query": "x", "k": 1}, "no option 'k': use top_k"),
        ("ask", {"query": "x"}, "no option 'query': use question"),
        ("add_document", {"doc_id": "x", "text": "y"}, "add_document"),
    ],
)
async def test_mistakes_are_told(make, tool, arguments, message):
    async with Client(make()) as client:
        try:
            reply = await client.call_tool(tool, arguments)
        except Exception as error:  # a tool that is not there
            assert message in str(error)
            return
        assert reply.is_error
        assert message in reply.content[0].text
        assert (await client.call_tool("search", {"query": "leave"})).structured_content["passages"]


async def test_an_empty_filter_names_what_documents_have_only_to_their_owner(make):
    for for_owner, says in (
        (True, ["markdown", "front matter: author, date, tags, title, year"]),
        (False, []),
    ):
        async with Client(make(for_owner=for_owner)) as client:
            for tool, question in (
                ("search", "query"),
                ("ask", "question"),
                ("gather_evidence", "question"),
            ):
                reply = await client.call_tool(
                    tool, {question: "leave?", "filter": "kind=pdf and yaer=2024"}
                )
                message = reply.content[0].text
                assert "no document matches the filter" in message
                assert [
                    words
                    for words in ("markdown", "front matter: author, date, tags, title, year")
                    if words in message
                ] == says


async def test_options_are_those_for_assistants(make):
    wanted = {declared.name for declared in fields(SearchRequest) if option_of(declared).agents}
    async with Client(make()) as client:
        (tool,) = [tool for tool in (await client.list_tools()).tools if tool.name == "search"]
        assert set(tool.input_schema["properties"]) == wanted | {"query", "index"}
        found = await client.call_tool(
            "search", {"query": "leave", "max_tokens": 60, "per_document": 1}
        )
        assert found.structured_content["passages"]


async def test_a_resource_that_is_not_there(make):
    async with Client(make()) as client:
        for address in (
            "lmkrag://demo/none.txt",
            "lmkrag://none/x",
            "lmkrag://demo/../../etc/passwd",
        ):
            with pytest.raises(Exception, match=r"(?i)no document|no index|resource"):
                await client.read_resource(address)


async def test_ids_that_look_like_paths_are_read(make, index):
    ids = ["/abs/x.txt#5ca6", "a/../b.txt", "../c.txt"]
    with Engine.open(index) as engine:
        engine.add([Document(doc_id, text="The gate is green.") for doc_id in ids])
    async with Client(make()) as client:
        listed = {
            resource.name: str(resource.uri)
            for resource in (await client.list_resources()).resources
        }
        for doc_id in ids:
            assert (await client.read_resource(listed[doc_id])).contents[
                0
            ].text == "The gate is green."


async def test_more_quotations_than_are_checked_at_once(make):
    async with Client(make()) as client:
        refused = await client.call_tool("check", {"text": '"the keepers may fly" ' * 201})
        assert refused.is_error and "200 quotations at most" in refused.content[0].text


async def test_writing(make):
    async with Client(make(writable=True)) as client:
        odd = {"doc_id": "notes/50% off? #1 ü.txt", "text": "The odd note is yellow."}
        await client.call_tool("add_document", odd)
        listed = {
            resource.name: str(resource.uri)
            for resource in (await client.list_resources()).resources
        }
        assert (await client.read_resource(listed[odd["doc_id"]])).contents[0].text == odd["text"]
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert not tools["add_document"].annotations.read_only_hint
        note = {"doc_id": "notes/ferry.md", "text": "# Ferry\n\nThe ferry leaves at seven.\n"}
        assert (await client.call_tool("add_document", note)).structured_content["added"] == 1
        found = await client.call_tool("search", {"query": "when does the ferry leave?"})
        assert found.structured_content["passages"][0]["doc_id"] == "notes/ferry.md"
        removed = await client.call_tool("remove_document", {"doc_id": "notes/ferry.md"})
        assert removed.structured_content["removed"] == 1
        assert (await client.call_tool("add_document", {**note, "doc_id": "../x"})).is_error
        empty = await client.call_tool("add_document", {**note, "text": " \n "})
        assert empty.is_error and "no text in it" in empty.content[0].text


def test_no_index(lmkrag):
    refused = lmkrag("mcp", "--index", "no/such", stdin="")
    assert refused.returncode == 1
    assert not refused.stdout
    assert "no index here" in refused.stderr


async def test_documents_are_listed_page_by_page(make, monkeypatch):
    monkeypatch.setattr("lmkrag.server.mcp._LISTED", 2)
    async with Client(make()) as client:
        names, cursor = [], None
        while True:
            listed = (
                await client.call_tool("list_documents", {"cursor": cursor})
            ).structured_content
            names += [document["doc_id"] for document in listed["documents"]]
            cursor = listed["cursor"]
            if cursor is None:
                break
            assert len(listed["documents"]) == 2
        assert len(names) == len(set(names)) == 5


def test_source_code_is_outlined():
    text = """import os

class Store:
    def open(self):
        pass

    async def close(self):
        pass

def main():
    pass
"""
    headings = outline(Document(text=text, kind="code"))
    assert [(one.level, one.text) for one in headings] == [
        (1, "class Store"),
        (2, "def open(self)"),
        (2, "async def close(self)"),
        (1, "def main()"),
    ]
    assert text[headings[0].start : headings[0].end].endswith("pass\n\n")
    script = "export class Gate {\n  open() {}\n}\n\nfunction swing(gate) {\n}\n"
    found = [one.text for one in outline(Document(text=script, kind="code"))]
    assert found == ["export class Gate", "open()", "function swing(gate)"]


async def test_stale_files_are_a_note_after_the_passages(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "pay.md").write_text("The keeper of the lamp earns 900 euros.")
    with Engine.open(tmp_path / "index", create=True) as engine:
        engine.add(folder)
    (folder / "pay.md").unlink()
    indexes = ServedIndexes({"demo": tmp_path / "index"}, ServerLimits())
    async with Client(create_mcp_server(indexes, ExtractiveReader())) as client:
        found = await client.call_tool("search", {"query": "what does the keeper earn?"})
        asked = await client.call_tool("ask", {"question": "what does the keeper earn?"})
    indexes.close()
    (note,) = found.structured_content["notes"]
    assert (
        note.startswith("pay.md disappeared since indexing")
        and [*found.structured_content][-1] == "notes"
    )
    assert (
        found.structured_content["passages"][0]["text"] == "The keeper of the lamp earns 900 euros."
    )
    assert note in asked.structured_content["warnings"]
