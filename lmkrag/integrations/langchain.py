"""lmkrag as a LangChain retriever, and its re-ranker as a document compressor for any retriever."""

from collections.abc import Sequence
from typing import Any

from lmkrag.engine import Engine
from lmkrag.errors import needs
from lmkrag.integrations.metadata import describe_highlights, describe_span
from lmkrag.remote import RemoteEngine
from lmkrag.reranker.highlights import THRESHOLD, prune
from lmkrag.results import Span
from lmkrag.search.filters import Filter
from lmkrag.search.request import SearchOptions, refuse_unknown, to_pydantic

with needs("langchain", "langchain-core"):
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
        Callbacks,
    )
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict, create_model, model_validator


_NAMES = set(SearchOptions.__annotations__) - {"top_k"}
_Options: Any = create_model("_Options", __base__=BaseRetriever, **to_pydantic(_NAMES))


class LandmarkRetriever(_Options):  # type: ignore[misc]  # made of the options of a search
    """Exact spans as LangChain documents, best first.

    The options of :meth:`lmkrag.Engine.search` are fields, too. All of them may be given again in a
    call, ``retriever.invoke(question, k=3)``, or made configurable with ``configurable_fields``.

    Attributes:
        engine: an engine on this machine, or one behind a server (:class:`lmkrag.RemoteEngine`).
        k: maximum number of results; defaults to 8.
        filter: only search matching documents, such as ``kind=pdf and path=docs/*``.

    >>> retriever = LandmarkRetriever(engine=engine, k=8)  # doctest: +SKIP
    >>> retriever.invoke("how is leave accrued?")[0].metadata["start"]  # doctest: +SKIP
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    engine: Engine | RemoteEngine
    k: int | None = None
    filter: Filter | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, options: Any) -> Any:
        refuse_unknown(options, cls.model_fields)
        return options

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return [
            to_document(span) for span in self.engine.search(query, **self._search_options(options))
        ]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return [
            to_document(span)
            for span in await self.engine.asearch(query, **self._search_options(options))
        ]

    def _search_options(self, overrides: dict[str, Any]) -> Any:
        """Return the options of a call, those of the fields where the call has none."""
        refuse_unknown(overrides, {*_NAMES, "k"})
        options = {name: getattr(self, name) for name in (*_NAMES, "k")}
        options |= {name: value for name, value in overrides.items() if value is not None}
        return options | {"top_k": options.pop("k")}


class LandmarkCompressor(BaseDocumentCompressor):
    """Cuts documents of any retriever down to the sentences that answer, the best document first.

    Documents without such a sentence are left out; if no document has one, the best sentence is
    kept. The document's metadata gets ``highlights``: start, end and probability of each sentence,
    in the text as it was. One model ranks and prunes (Chirkova et al., "Provence", arXiv
    2501.16214).

    Attributes:
        threshold: the least probability of a sentence that is kept, 0 to 1.

    >>> compressor = LandmarkCompressor(threshold=0.2)
    >>> documents = [Document("The wall was built in 1892 by masons. Apples are picked in May.")]
    >>> compressor.compress_documents(documents, "When are apples picked?")[0].page_content
    'Apples are picked in May.'
    """

    model_config = ConfigDict(extra="forbid")

    threshold: float = THRESHOLD

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Return the documents that answer, cut down to the sentences that do.

        Args:
            documents: documents of any retriever.
            query: the question.
            callbacks: not used; LangChain passes them.
        """
        titles = [str(document.metadata.get("title", "")) for document in documents]
        texts = [document.page_content for document in documents]
        return [
            Document(
                page_content=pruned.text,
                metadata={
                    **documents[pruned.number].metadata,
                    "highlights": describe_highlights(pruned),
                },
                id=documents[pruned.number].id,
            )
            for pruned in prune(query, texts, titles=titles, threshold=self.threshold)
        ]


def to_document(span: Span) -> Document:
    """Return a span as a LangChain document with its document's metadata.

    The same place of a document always has the same ``id``.
    """
    metadata = {**span.meta, **describe_span(span), "score": span.score}
    return Document(
        page_content=span.text, metadata=metadata, id=f"{span.doc_id}:{span.start}-{span.end}"
    )
