"""lmkrag as a LangChain retriever."""

import asyncio

from lmkrag.engine import Engine
from lmkrag.errors import MissingExtra
from lmkrag.types import Mode, Span

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict
except ImportError:
    raise MissingExtra("langchain", "langchain-core") from None


class LandmarkRetriever(BaseRetriever):
    """Exact spans as LangChain documents, best first.

    ``top``, ``budget``, ``mode`` and ``filter`` are as in :meth:`lmkrag.Engine.search`. They may be given again in a
    call, ``retriever.invoke(question, top=3)``, or made configurable with ``configurable_fields``.

    >>> retriever = LandmarkRetriever(engine=engine, top=8)  # doctest: +SKIP
    >>> retriever.invoke("how is leave accrued?")[0].metadata["start"]  # doctest: +SKIP
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    engine: Engine
    top: int | None = None
    budget: int | None = None
    mode: Mode = "hybrid"
    filter: str | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        top: int | None = None,
        budget: int | None = None,
        mode: Mode | None = None,
        filter: str | None = None,
    ) -> list[Document]:
        """Search; LangChain drops arguments that are not named here."""
        return self._search(query, top, budget, mode, filter)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        top: int | None = None,
        budget: int | None = None,
        mode: Mode | None = None,
        filter: str | None = None,
    ) -> list[Document]:
        """Search without blocking the event loop."""
        return await asyncio.to_thread(self._search, query, top, budget, mode, filter)

    def _search(
        self, query: str, top: int | None, budget: int | None, mode: Mode | None, filter: str | None
    ) -> list[Document]:
        spans = self.engine.search(
            query,
            top=top or self.top,
            budget=budget or self.budget,
            mode=mode or self.mode,
            filter=filter or self.filter,
        )
        return [to_document(span) for span in spans]


def to_document(span: Span) -> Document:
    """Return a span as a LangChain document; its ``id`` is the same for the same place."""
    metadata = {
        "source": span.path,
        "doc_id": span.doc_id,
        "start": span.start,
        "end": span.end,
        "page": span.page,
        "score": span.score,
    }
    return Document(page_content=span.text, metadata=metadata, id=f"{span.doc_id}:{span.start}-{span.end}")
