"""lmkrag as a LlamaIndex retriever."""

from collections.abc import Iterable
from typing import Any

from lmkrag.engine import Engine
from lmkrag.errors import MissingExtra, UsageError
from lmkrag.integrations.metadata import describe_span
from lmkrag.remote import RemoteEngine
from lmkrag.retrieval.request import AskOptions, SearchRequest
from lmkrag.types import IndexReport, Mode, Span

try:
    from llama_index.core.callbacks.base import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import (
        NodeRelationship,
        NodeWithScore,
        ObjectType,
        QueryBundle,
        RelatedNodeInfo,
        TextNode,
    )
except ImportError:
    raise MissingExtra("llamaindex", "llama-index-core") from None


class LandmarkRetriever(BaseRetriever):
    """Exact spans as LlamaIndex nodes, best first.

    >>> retriever = LandmarkRetriever(engine=engine, similarity_top_k=8)  # doctest: +SKIP
    >>> retriever.retrieve("how is leave accrued?")[0].node.start_char_idx  # doctest: +SKIP
    """

    def __init__(
        self,
        engine: Engine | RemoteEngine,
        *,
        similarity_top_k: int | None = None,
        budget: int | None = None,
        mode: Mode = "hybrid",
        filter: str | None = None,
        callback_manager: CallbackManager | None = None,
        **kwargs: Any,
    ) -> None:
        """Take an open engine and how to search it: see :meth:`lmkrag.Engine.search`."""
        super().__init__(callback_manager=callback_manager, **kwargs)
        self.engine = engine
        self.similarity_top_k = similarity_top_k
        self.budget = budget
        self.mode = mode
        self.filter = filter
        SearchRequest(**self._options())  # wrong options are refused now, not at the first question

    def index_documents(self, documents: Iterable[Any]) -> IndexReport:
        """Index LlamaIndex documents, as its readers load them; see :meth:`lmkrag.Engine.add`."""
        if isinstance(self.engine, RemoteEngine):
            raise UsageError("documents can't be indexed through a connection: index where the index is")
        return self.engine.add(documents)

    def _options(self) -> AskOptions:
        return {
            "top_k": self.similarity_top_k,
            "budget": self.budget,
            "mode": self.mode,
            "filter": self.filter,
        }

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _to_nodes(self.engine.search(query_bundle.query_str, **self._options()))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _to_nodes(await self.engine.asearch(query_bundle.query_str, **self._options()))


def _to_nodes(spans: Iterable[Span]) -> list[NodeWithScore]:
    return [NodeWithScore(node=to_node(span), score=span.score) for span in spans]


def to_node(span: Span) -> TextNode:
    """Return a span as a node; its id is the same for the same place.

    Its metadata holds the document's own (front matter, for example), then what lmkrag knows of it and of the span: its
    place stands there too, which query engines keep where they drop ``start_char_idx``. A language model is shown the
    title, the section and the page, an embedder only the text.
    """
    metadata = {**span.meta, **describe_span(span)}
    return TextNode(
        id_=f"{span.doc_id}:{span.start}-{span.end}",
        text=span.text,
        start_char_idx=span.start,
        end_char_idx=span.end,
        metadata=metadata,
        excluded_embed_metadata_keys=list(metadata),
        excluded_llm_metadata_keys=[key for key in metadata if key not in ("title", "section", "page")],
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=span.doc_id, node_type=ObjectType.DOCUMENT)},
    )
