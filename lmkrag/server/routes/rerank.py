"""Rerank texts of the caller's own, in the form of Jina's and Cohere's APIs, which frameworks
speak.
"""

from functools import partial
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field, StrictBool

from lmkrag.reranker.base import DEFAULT_RERANKER
from lmkrag.reranker.highlights import highlight
from lmkrag.server.problems import Problem
from lmkrag.server.schemas import Question
from lmkrag.server.service import TheService

router = APIRouter(prefix="/v1", tags=["Rerank"])

_MAX_TEXTS = 256
_MAX_TEXT = 20_000  # characters: each text holds a thread for as long as it is read
_MAX_CHARACTERS = 200_000  # of all texts of a request


class TextDocument(BaseModel):
    """A text to be ranked."""

    text: str = Field(max_length=_MAX_TEXT)


class RerankBody(BaseModel):
    """A question, and the texts to rank by how well they answer it; the model is ours, whatever it
    is called.
    """

    model: str = Field("", max_length=200)
    query: Question
    documents: list[Annotated[str, Field(max_length=_MAX_TEXT)] | TextDocument] = Field(
        min_length=1, max_length=_MAX_TEXTS
    )
    top_n: int | None = Field(None, ge=1, description="Number of results; all without.")
    return_documents: StrictBool = False


class HighlightModel(BaseModel):
    """Characters ``[start, end)`` of a text, a sentence, and the probability that it answers."""

    start: int
    end: int
    score: float


class RankedText(BaseModel):
    """A text: its place in the request from 0, the probability that its best sentence answers, and
    every sentence's.
    """

    index: int
    relevance_score: float
    highlights: list[HighlightModel]
    document: TextDocument | None = None


class RerankReply(BaseModel):
    """The texts, best first."""

    model: str
    results: list[RankedText]


@router.post("/rerank", response_model_exclude_none=True)
async def rerank(body: RerankBody, service: TheService) -> RerankReply:
    """Rank texts by how well they answer a question, and say which of their sentences do."""
    texts = [
        document if isinstance(document, str) else document.text for document in body.documents
    ]
    if sum(map(len, texts)) > _MAX_CHARACTERS:
        raise Problem(413, "too-large", f"the texts have more than {_MAX_CHARACTERS:,} characters")

    workers = service.indexes.workers
    until = workers.find_deadline()
    ranked = []
    for number, text in enumerate(texts):  # other requests get their turn in between
        highlights = await workers.run(partial(highlight, body.query, text), until=until)
        ranked.append(
            RankedText(
                index=number,
                relevance_score=max((sentence.score for sentence in highlights), default=0.0),
                highlights=[
                    HighlightModel(start=s.start, end=s.end, score=score) for s, score in highlights
                ],
                document=TextDocument(text=text) if body.return_documents else None,
            )
        )
    ranked.sort(key=lambda text: -text.relevance_score)
    return RerankReply(model=DEFAULT_RERANKER, results=ranked[: body.top_n])
