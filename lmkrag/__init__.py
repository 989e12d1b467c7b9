"""lmkrag: a chunking-free retrieval engine. Importing it imports no torch, transformers, faiss or nltk."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lmkrag.version import __version__ as __version__

logging.getLogger(__name__).addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from lmkrag.corpus.sentences import split_sentences as split_sentences
    from lmkrag.encoder.landmark import LandmarkEncoder as LandmarkEncoder
    from lmkrag.encoder.windows import plan_windows as plan_windows
    from lmkrag.engine import Engine as Engine
    from lmkrag.errors import DocumentError as DocumentError
    from lmkrag.errors import DocumentNotFound as DocumentNotFound
    from lmkrag.errors import EmptyDocument as EmptyDocument
    from lmkrag.errors import EncoderError as EncoderError
    from lmkrag.errors import IndexClosed as IndexClosed
    from lmkrag.errors import IndexCorrupt as IndexCorrupt
    from lmkrag.errors import IndexLocked as IndexLocked
    from lmkrag.errors import IndexMismatch as IndexMismatch
    from lmkrag.errors import IndexNotFound as IndexNotFound
    from lmkrag.errors import LmkragError as LmkragError
    from lmkrag.errors import MissingExtra as MissingExtra
    from lmkrag.errors import ReaderError as ReaderError
    from lmkrag.errors import ServerError as ServerError
    from lmkrag.errors import ShardUnreachable as ShardUnreachable
    from lmkrag.errors import SnapshotExpired as SnapshotExpired
    from lmkrag.errors import StorageError as StorageError
    from lmkrag.errors import TrainingError as TrainingError
    from lmkrag.errors import UsageError as UsageError
    from lmkrag.readers.base import AnswerStream as AnswerStream
    from lmkrag.readers.base import AsyncAnswerStream as AsyncAnswerStream
    from lmkrag.remote import RemoteEngine as RemoteEngine
    from lmkrag.reranker.base import Place as Place
    from lmkrag.reranker.base import Reranker as Reranker
    from lmkrag.reranker.highlights import Highlight as Highlight
    from lmkrag.reranker.highlights import highlight as highlight
    from lmkrag.retrieval.growth import grow_spans as grow_spans
    from lmkrag.types import Answer as Answer
    from lmkrag.types import Citation as Citation
    from lmkrag.types import Context as Context
    from lmkrag.types import Document as Document
    from lmkrag.types import DocumentInfo as DocumentInfo
    from lmkrag.types import EncoderSpec as EncoderSpec
    from lmkrag.types import Explanation as Explanation
    from lmkrag.types import Hit as Hit
    from lmkrag.types import IndexCounts as IndexCounts
    from lmkrag.types import IndexReport as IndexReport
    from lmkrag.types import IndexStatus as IndexStatus
    from lmkrag.types import Recipe as Recipe
    from lmkrag.types import RepairReport as RepairReport
    from lmkrag.types import ScorePart as ScorePart
    from lmkrag.types import Sentence as Sentence
    from lmkrag.types import SentenceScore as SentenceScore
    from lmkrag.types import ShortAnswer as ShortAnswer
    from lmkrag.types import Skipped as Skipped
    from lmkrag.types import Span as Span
    from lmkrag.types import Window as Window

_HOMES = {
    **dict.fromkeys(("split_sentences",), "lmkrag.corpus.sentences"),
    **dict.fromkeys(("LandmarkEncoder",), "lmkrag.encoder.landmark"),
    **dict.fromkeys(("plan_windows",), "lmkrag.encoder.windows"),
    **dict.fromkeys(("Engine",), "lmkrag.engine"),
    **dict.fromkeys(
        (
            "DocumentError",
            "DocumentNotFound",
            "EmptyDocument",
            "EncoderError",
            "IndexClosed",
            "IndexCorrupt",
            "IndexLocked",
            "IndexMismatch",
            "IndexNotFound",
            "LmkragError",
            "MissingExtra",
            "ReaderError",
            "ServerError",
            "ShardUnreachable",
            "SnapshotExpired",
            "StorageError",
            "TrainingError",
            "UsageError",
        ),
        "lmkrag.errors",
    ),
    **dict.fromkeys(
        (
            "AnswerStream",
            "AsyncAnswerStream",
        ),
        "lmkrag.readers.base",
    ),
    **dict.fromkeys(("RemoteEngine",), "lmkrag.remote"),
    **dict.fromkeys(("Place", "Reranker"), "lmkrag.reranker.base"),
    **dict.fromkeys(("Highlight", "highlight"), "lmkrag.reranker.highlights"),
    **dict.fromkeys(("grow_spans",), "lmkrag.retrieval.growth"),
    **dict.fromkeys(
        (
            "Answer",
            "Citation",
            "Context",
            "Document",
            "DocumentInfo",
            "EncoderSpec",
            "Explanation",
            "Hit",
            "IndexCounts",
            "IndexReport",
            "IndexStatus",
            "Recipe",
            "RepairReport",
            "ScorePart",
            "Sentence",
            "SentenceScore",
            "ShortAnswer",
            "Skipped",
            "Span",
            "Window",
        ),
        "lmkrag.types",
    ),
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lmkrag' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
