"""MCP by the SDK's own client: in process, on standard input and output, and over HTTP."""

import base64
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


async def use(client) -> None:
    """Do with a client what an assistant does."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools.keys() == {
        *("search", "ask", "gather_evidence", "find_related"),
        *("read_document", "document_outline", "check", "list_documents", "page_image"),
    }
    for tool in tools.values():
        assert tool.annotations.read_only_hint
        assert tool.description and bool(tool.output_schema) == (tool.name != "page_image")
    found = await client.call_tool("search", {"query": "how is leave accrued?", "top_k": 2})
    passages = found.structured_content["passages"]
    assert len(passages) == 2 and passages[0]["place"] == "lighthouse-handbook.md:50"
    asked = await client.call_tool("ask", {"question": "who approves leave?"})
    assert asked.structured_content["found"]
    citation = asked.structured_content["citations"][0]
    where = {name: citation[name] for name in ("doc_id", "start", "end")}
    read = await client.call_tool("read_document", where)
    assert read.structured_content["text"] == citation["quote"]
    listed = (await client.call_tool("list_documents", {"filter": "kind=pdf"})).structured_content
    assert listed["cursor"] is None
    assert [document["pages"] for document in listed["documents"]] == [3]
    (document,) = listed["documents"]
    options = {"query": "which ships are there?", "filter": "kind=pdf", "top_k": 1, "boxes": True}
    (passage,) = (await client.call_tool("search", options)).structured_content["passages"]
    assert {box["page"] for box in passage["boxes"]} >= {passage["page"]}
    shown = {name: passage[name] for name in ("doc_id", "page", "start", "end")}
    for arguments in (shown, {"doc_id": document["doc_id"]}):
        (image,) = (await client.call_tool("page_image", arguments)).content
        assert image.mime_type == "image/jpeg" and base64.b64decode(image.data).startswith(
            b"\xff\xd8"
        )
    refused = await client.call_tool("page_image", {"doc_id": document["doc_id"], "page": 4})
    assert refused.is_error and refused.content[0].text.endswith(
        f"{document['doc_id']} has 3 pages"
    )
    outlined = await client.call_tool("document_outline", {"doc_id": "lighthouse-handbook.md"})
    headings = outlined.structured_content["headings"]
    assert headings[0]["level"] == 1
    assert any(
        heading["start"] <= passages[0]["start"] < heading["end"] for heading in headings[1:]
    )
    related = await client.call_tool("find_related", {**where, "top_k": 3})
    others = related.structured_content["passages"]
    assert 1 <= len(others) <= 3
    same = [other for other in others if other["doc_id"] == where["doc_id"]]
    assert all(other["end"] <= where["start"] or where["end"] <= other["start"] for other in same)
    question = "Does rule QX-77 say how leave is accrued?"
    evidence = (
        await client.call_tool("gather_evidence", {"question": question, "max_tokens": 200})
    ).structured_content
    assert evidence["missing"] == ["QX-77"]
    assert evidence["generation"] >= 1
    quoted = " ".join(f'"{passage["text"].splitlines()[0]}"' for passage in evidence["passages"])
    checked = (await client.call_tool("check", {"text": quoted})).structured_content["citations"]
    assert {citation["state"] for citation in checked} == {"same"}


async def test_in_process(make, corpus):
    async with Client(make()) as client:
        await use(client)
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
            "no document matches the filter 'kind=pfd'; a filter asks for kind, path, doc_id, title, modified or a key",
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


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_stdio(built_index, mode):
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "lmkrag", "mcp", "--in-process", "--index", f"demo={built_index}"],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    async with Client(command, mode=mode) as client:
        await use(client)


async def test_http(server):
    async with Client(f"{server.url}/mcp") as client:
        await use(client)


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
