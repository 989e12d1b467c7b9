"""lmkrag as a LlamaIndex retriever."""

import asyncio
from collections.abc import Iterable
from typing import Any

from lmkrag.engine import Engine
from lmkrag.errors import MissingExtra
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

    >>> retriever = LandmarkRetriever(engine=engine, top=8)  # doctest: +SKIP
    >>> retriever.retrieve("how is leave accrued?")[0].node.start_char_idx  # doctest: +SKIP
    """

    def __init__(
        self,
        engine: Engine,
        *,
        top: int | None = None,
        budget: int | None = None,
        mode: Mode = "hybrid",
        filter: str | None = None,
        callback_manager: CallbackManager | None = None,
        **kwargs: Any,
    ) -> None:
        """Take an open engine and how to search it: see :meth:`lmkrag.Engine.search`."""
        super().__init__(callback_manager=callback_manager, **kwargs)
        self.engine = engine
        self.top = top
        self.budget = budget
        self.mode = mode
        self.filter = filter

    def index_documents(self, documents: Iterable[Any]) -> IndexReport:
        """Index LlamaIndex documents, as its readers load them; see :meth:`lmkrag.Engine.add`."""
        return self.engine.add(documents)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        spans = self.engine.search(
            query_bundle.query_str, top=self.top, budget=self.budget, mode=self.mode, filter=self.filter
        )
        return [NodeWithScore(node=to_node(span), score=span.score) for span in spans]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def to_node(span: Span) -> TextNode:
    """Return a span as a node; its id is the same for the same place.

    Its place stands in the metadata too, which query engines keep where they drop ``start_char_idx``, but not in what a
    language model or an embedder is shown.
    """
    metadata = {
        "source": span.path,
        "doc_id": span.doc_id,
        "start": span.start,
        "end": span.end,
        "page": span.page,
    }
    hidden = ["doc_id", "start", "end"]
    return TextNode(
        id_=f"{span.doc_id}:{span.start}-{span.end}",
        text=span.text,
        start_char_idx=span.start,
        end_char_idx=span.end,
        metadata=metadata,
        excluded_embed_metadata_keys=list(metadata),
        excluded_llm_metadata_keys=hidden,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=span.doc_id, node_type=ObjectType.DOCUMENT)},
    )
