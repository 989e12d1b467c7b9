"""lmkrag as a LlamaIndex retriever, and its re-ranker as a node postprocessor for any retriever."""

from collections.abc import Iterable
from typing import Unpack

from lmkrag.engine import Engine
from lmkrag.errors import UsageError, needs
from lmkrag.integrations.metadata import describe_highlights, describe_span
from lmkrag.remote import RemoteEngine
from lmkrag.reranker.highlights import THRESHOLD, Pruned, prune
from lmkrag.results import Span
from lmkrag.search.request import SearchOptions, SearchRequest, show_options

with needs("llamaindex", "llama-index-core"):
    from llama_index.core.callbacks.base import CallbackManager
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import (
        MetadataMode,
        NodeRelationship,
        NodeWithScore,
        ObjectType,
        QueryBundle,
        RelatedNodeInfo,
        TextNode,
    )


_LLM_METADATA = ("title", "section", "page", "stale", "superseded_by", "instructs_model")


class LandmarkRetriever(BaseRetriever):
    """Exact spans as LlamaIndex nodes, best first.

    >>> retriever = LandmarkRetriever(engine=engine, similarity_top_k=8)  # doctest: +SKIP
    >>> retriever.retrieve("how is leave accrued?")[0].node.start_char_idx  # doctest: +SKIP
    """

    @show_options(SearchOptions)
    def __init__(
        self,
        engine: Engine | RemoteEngine,
        *,
        similarity_top_k: int | None = None,
        callback_manager: CallbackManager | None = None,
        **options: Unpack[SearchOptions],
    ) -> None:
        """Take an engine and the options of its searches.

        Args:
            engine: an engine on this machine, or one behind a server
                (:class:`lmkrag.RemoteEngine`).
            similarity_top_k: maximum number of results; defaults to 8.
            callback_manager: LlamaIndex's; None for its default.
            options: the other options of :meth:`lmkrag.Engine.search`.

        Raises:
            UsageError: an option is unknown or out of range.
        """
        super().__init__(callback_manager=callback_manager)
        self.engine = engine
        self.options: SearchOptions = {"top_k": similarity_top_k, **options}
        SearchRequest(**self.options)  # wrong options are refused now, not at the first question

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _to_nodes(self.engine.search(query_bundle.query_str, **self.options))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _to_nodes(await self.engine.asearch(query_bundle.query_str, **self.options))


class LandmarkPostprocessor(BaseNodePostprocessor):
    """Cuts nodes of any retriever down to the sentences that answer, the best node first.

    Nodes without such a sentence are left out; if no node has one, the best sentence is kept. The
    node's score is the probability of its best sentence, and its metadata gets ``highlights``:
    start, end and probability of each sentence, in the text as it was. One model ranks and prunes
    (Chirkova et al., "Provence", arXiv 2501.16214).

    Attributes:
        threshold: the least probability of a sentence that is kept, 0 to 1.

    >>> nodes = [NodeWithScore(node=TextNode(text="The wall was built in 1892 by masons. Apples are picked in May."))]
    >>> LandmarkPostprocessor().postprocess_nodes(nodes, query_str="When are apples picked?")[0].text
    'Apples are picked in May.'
    """  # noqa: E501

    threshold: float = THRESHOLD

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise UsageError(
                "the postprocessor needs the question: postprocess_nodes(nodes, query_str=...)"
            )
        titles = [str(scored.metadata.get("title", "")) for scored in nodes]
        texts = [scored.node.get_content(MetadataMode.NONE) for scored in nodes]
        return [
            _cut_down(nodes[pruned.number], pruned)
            for pruned in prune(
                query_bundle.query_str, texts, titles=titles, threshold=self.threshold
            )
        ]


def _cut_down(scored: NodeWithScore, pruned: Pruned) -> NodeWithScore:
    """Return a copy of a node with the text that was kept."""
    node = scored.node.model_copy(deep=True)
    node.set_content(pruned.text)
    node.metadata["highlights"] = describe_highlights(pruned)
    for excluded in (node.excluded_embed_metadata_keys, node.excluded_llm_metadata_keys):
        excluded.append("highlights")
    return NodeWithScore(node=node, score=max(highlight.score for highlight in pruned.kept))


def _to_nodes(spans: Iterable[Span]) -> list[NodeWithScore]:
    return [NodeWithScore(node=to_node(span), score=span.score) for span in spans]


def to_node(span: Span) -> TextNode:
    """Return a span as a LlamaIndex node with its document's metadata.

    The same place of a document always has the same id. The metadata repeats the offsets, since
    query engines drop ``start_char_idx``. A language model gets the title, the section, the page
    and the warnings; an embedder gets only the text.
    """
    metadata = {**span.meta, **describe_span(span)}
    return TextNode(
        id_=f"{span.doc_id}:{span.start}-{span.end}",
        text=span.text,
        start_char_idx=span.start,
        end_char_idx=span.end,
        metadata=metadata,
        excluded_embed_metadata_keys=list(metadata),
        excluded_llm_metadata_keys=[key for key in metadata if key not in _LLM_METADATA],
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(
                node_id=span.doc_id, node_type=ObjectType.DOCUMENT
            )
        },
    )
