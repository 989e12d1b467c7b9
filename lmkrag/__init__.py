"""lmkrag: a chunking-free retrieval engine. Importing it imports no torch, transformers, faiss or nltk."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lmkrag.corpus.sentences import split_sentences as split_sentences
    from lmkrag.encoder.landmark import LandmarkEncoder as LandmarkEncoder
    from lmkrag.encoder.windows import plan_windows as plan_windows
    from lmkrag.engine import Engine as Engine
    from lmkrag.errors import LmkragError as LmkragError
    from lmkrag.retrieval.growth import grow_spans as grow_spans
    from lmkrag.types import Answer as Answer
    from lmkrag.types import Citation as Citation
    from lmkrag.types import Context as Context
    from lmkrag.types import Document as Document
    from lmkrag.types import Hit as Hit
    from lmkrag.types import IndexReport as IndexReport
    from lmkrag.types import IndexStatus as IndexStatus
    from lmkrag.types import Sentence as Sentence
    from lmkrag.types import Span as Span

_HOMES = {
    "Engine": "lmkrag.engine",
    "LandmarkEncoder": "lmkrag.encoder.landmark",
    "LmkragError": "lmkrag.errors",
    "grow_spans": "lmkrag.retrieval.growth",
    "plan_windows": "lmkrag.encoder.windows",
    "split_sentences": "lmkrag.corpus.sentences",
    **dict.fromkeys(
        ("Answer", "Citation", "Context", "Document", "Hit", "IndexReport", "IndexStatus", "Sentence", "Span"),
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
