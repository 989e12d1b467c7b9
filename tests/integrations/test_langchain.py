"""LangChain's own tests of retrievers, a chain with a real chat client, and documents of its loaders."""

from datetime import date

import pytest
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnablePassthrough
from langchain_core.tracers.context import collect_runs
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import RetrieversIntegrationTests
from pydantic import ValidationError

from lmkrag import Engine
from lmkrag.errors import UsageError
from lmkrag.integrations.langchain import LandmarkCompressor, LandmarkRetriever

QUESTION = "When are bonfires allowed?"


class TestStandard(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _open(self, engine):
        self._engine = engine

    @property
    def retriever_constructor(self):
        return LandmarkRetriever

    @property
    def retriever_constructor_params(self):
        return {"engine": self._engine}

    @property
    def retriever_query_example(self):
        return QUESTION

    @property
    def num_results_arg_name(self):
        return "k"


def test_what_a_document_carries(engine):
    found = LandmarkRetriever(engine=engine, k=3).invoke(QUESTION)
    spans = engine.search(QUESTION, top_k=3)
    assert [document.page_content for document in found] == [span.text for span in spans]
    document, span = found[0], spans[0]
    known = {
        "source",
        "doc_id",
        "start",
        "end",
        "title",
        "kind",
        "section",
        "score",
        "dated",
        "dated_by",
    }
    assert set(document.metadata) == known | {"author"}  # of the Word file; it has no pages
    assert (document.metadata["kind"], document.metadata["title"]) == (span.kind, span.title)
    (paged,) = LandmarkRetriever(engine=engine, k=1, filter="kind=pdf").invoke(
        "Reset the coping stones"
    )
    assert paged.metadata["page"] == 3
    assert (
        engine.read(span.doc_id)[document.metadata["start"] : document.metadata["end"]]
        == document.page_content
    )
    assert document.id == f"{span.doc_id}:{span.start}-{span.end}"


def test_every_field_counts_in_a_call_and_by_configuration(engine):
    retriever = LandmarkRetriever(engine=engine, k=4)
    only = 'doc_id="glass-river.txt"'
    assert {
        document.metadata["doc_id"] for document in retriever.invoke(QUESTION, filter=only)
    } == {"glass-river.txt"}
    small = retriever.invoke(QUESTION, max_tokens=60)
    assert (
        sum(engine.encoders.encoder.count_tokens(document.page_content) for document in small) <= 60
    )
    dense = [document.id for document in retriever.invoke(QUESTION, mode="dense")]
    assert dense == [
        f"{s.doc_id}:{s.start}-{s.end}" for s in engine.search(QUESTION, top_k=4, mode="dense")
    ]
    configurable = retriever.configurable_fields(
        k=ConfigurableField(id="k"), filter=ConfigurableField(id="filter")
    )
    found = configurable.invoke(QUESTION, {"configurable": {"k": 2, "filter": only}})
    assert [document.metadata["doc_id"] for document in found] == ["glass-river.txt"] * 2


async def test_a_chain_with_a_real_client_and_tracing(engine, chat_server, causal_model):
    retriever = LandmarkRetriever(engine=engine, k=2)
    prompt = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
    model = ChatOpenAI(
        base_url=chat_server, api_key="none", model=str(causal_model), max_tokens=60, temperature=0
    )  # type: ignore[call-arg]
    context = retriever | (
        lambda documents: "\n".join(document.page_content for document in documents)
    )
    chain = (
        {"context": context, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    )
    with collect_runs() as runs:
        answer = await chain.ainvoke(QUESTION)
    assert answer.strip().startswith("bonfires are allowed")
    pending, kinds = list(runs.traced_runs), []
    while pending:
        run = pending.pop()
        kinds.append(run.run_type)
        pending += run.child_runs
    assert "retriever" in kinds


def test_documents_of_its_loaders(encoder, tmp_path):
    pages = [
        Document(
            "The ferry leaves at seven.",
            metadata={"source": "timetable.pdf", "page": 0, "year": 2024},
        ),
        Document(
            "The last boat is at ten.",
            metadata={"source": "timetable.pdf", "page": 1, "year": 2025},
        ),
        Document("Notes without a source.", id="note-1"),
        Document("Nothing but words."),
        Document("The ferry leaves at eight.", metadata={"source": "timetable.pdf", "page": 0}),
    ]
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        assert engine.add(pages[:3]).added == 3
        assert engine.add(iter(pages[3:])).added == 2
        assert engine.add(pages).unchanged == 5
        texts = {document.doc_id: engine.read(document.doc_id) for document in engine.documents()}
        assert sorted(texts.values()) == sorted(page.page_content for page in pages)
        assert texts["note-1"] == "Notes without a source."
        found = engine.search("when does the last boat leave?", filter="year>=2025")
        assert [span.doc_id.startswith("timetable.pdf#page=1#") for span in found] == [True]
        assert found[0].path == "timetable.pdf"


def test_metadata_of_any_type_is_kept(encoder, tmp_path):
    metadata = {
        "tags": ["bird"],
        "date": date(2024, 3, 1),
        "page": 3,
        "page_label": None,
        "source": ["x"],
    }
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add([Document(page_content="The tern nests on the isle.", metadata=metadata)])
        (info,) = engine.documents(filter={"tags": "bird", "date": date(2024, 3, 1)})
        assert info.meta == {"tags": ["bird"], "date": "2024-03-01", "page": 3, "source": ["x"]}
        assert info.doc_id.startswith("page=3#")
        assert LandmarkRetriever(engine=engine, filter={"tags": "bird"}).invoke(
            "Where does the tern nest?"
        )
        assert not LandmarkRetriever(engine=engine, filter={"tags": "fish"}).invoke(
            "Where does the tern nest?"
        )


def test_misspelt_arguments_are_refused(engine):
    with pytest.raises(ValidationError, match="filtr"):
        LandmarkRetriever(engine=engine, filtr="kind=pdf")
    with pytest.raises(ValidationError, match="no option 'index': use engine"):
        LandmarkRetriever(index=engine)
    for name in ("top_k", "similarity_top_k", "n_results"):
        with pytest.raises(ValidationError, match=f"no option '{name}': use k"):
            LandmarkRetriever(engine=engine, **{name: 1})
        with pytest.raises(UsageError, match=f"no option '{name}': use k"):
            LandmarkRetriever(engine=engine).invoke(QUESTION, **{name: 1})
    with pytest.raises(UsageError, match="no option 'filtr': use filter"):
        LandmarkRetriever(engine=engine).invoke(QUESTION, filtr="kind=pdf")
    with pytest.raises(UsageError, match="top_k must be at least 1, not 0"):
        LandmarkRetriever(engine=engine).invoke(QUESTION, k=0)


def test_a_compressor_keeps_what_answers():
    documents = [
        Document("The ferry leaves at nine.", metadata={"title": "Ferry"}, id="a"),
        Document(
            "The wall was built in 1892 by masons. Apples are picked in May.",
            metadata={"title": "Orchard"},
            id="b",
        ),
    ]
    (kept,) = LandmarkCompressor().compress_documents(documents, "When are apples picked?")
    assert (kept.page_content, kept.id, kept.metadata["title"]) == (
        "Apples are picked in May.",
        "b",
        "Orchard",
    )
    ((start, end, probability),) = kept.metadata["highlights"]
    assert documents[1].page_content[start:end] == kept.page_content
    assert 0.2 <= probability <= 1
    assert "highlights" not in documents[1].metadata
    assert LandmarkCompressor().compress_documents([], "When?") == []


def test_rerank_is_passed_on(engine):
    found = LandmarkRetriever(engine=engine, k=3, rerank=True).invoke(QUESTION)
    assert [document.metadata["start"] for document in found] == [
        span.start for span in engine.search(QUESTION, top_k=3, rerank=True)
    ]
