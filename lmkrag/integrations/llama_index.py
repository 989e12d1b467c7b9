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

    Nodes without such a sentence are left out; where there is none in any, the best sentence is
    kept. The node's score is the probability of its best sentence, and its metadata gets
    ``highlights``: start, end and probability of each sentence, in the text as it was.

    >>> nodes = [NodeWithScore(node=TextNode(text="Pears ripen in October. Apples are picked in May."))]
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
    node = scored.node.model_copy(deep=True)
    node.set_content(pruned.text)
    node.metadata["highlights"] = describe_highlights(pruned)
    for excluded in (node.excluded_embed_metadata_keys, node.excluded_llm_metadata_keys):
        excluded.append("highlights")
    return NodeWithScore(node=node, score=max(highlight.score for highlight in pruned.kept))


def _to_nodes(spans: Iterable[Span]) -> list[NodeWithScore]:
    return [NodeWithScore(node=to_node(span), score=span.score) for span in spans]


def to_node(span: Span) -> TextNode:
    """Return a span as a node, with its document's metadata; its id is the same for the same place.

    The metadata repeats its offsets, since query engines drop ``start_char_idx``. A language model
    gets the title, the section, the page and the warnings, an embedder only the text.
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
