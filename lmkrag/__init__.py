"""lmkrag: a chunking-free retrieval engine.

Documents are encoded whole, sentence by sentence; a search finds sentences and grows them into
passages with exact offsets. :class:`Engine` opens an index, adds documents to it, searches it and
answers questions from it:

>>> import lmkrag
>>> engine = lmkrag.Engine.open("indexes/handbook", create=True)  # doctest: +SKIP
>>> engine.add("handbook")  # doctest: +SKIP
>>> print(engine.ask("How is leave accrued?"))  # doctest: +SKIP

Every public name is in ``__all__`` and is imported on first use, so that importing the package
imports no torch, transformers or faiss.
"""

import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lmkrag.version import __version__ as __version__

logging.getLogger(__name__).addHandler(logging.NullHandler())

# These libraries report their use to their makers unless told not to. Every process of ours, also a
# parser's and a Ray worker's, imports this module before any of them.
_NO_TELEMETRY = {
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
for _name, _value in _NO_TELEMETRY.items():
    os.environ.setdefault(_name, _value)

if TYPE_CHECKING:
    from lmkrag.encoder.landmark import LandmarkEncoder as LandmarkEncoder
    from lmkrag.engine import Engine as Engine
    from lmkrag.errors import (
        DocumentError as DocumentError,
        DocumentNotFound as DocumentNotFound,
        EncoderError as EncoderError,
        IndexClosed as IndexClosed,
        IndexCorrupt as IndexCorrupt,
        IndexLocked as IndexLocked,
        IndexMismatch as IndexMismatch,
        IndexNotFound as IndexNotFound,
        LmkragError as LmkragError,
        MissingExtra as MissingExtra,
        ReaderError as ReaderError,
        ServerError as ServerError,
        StorageError as StorageError,
        UsageError as UsageError,
    )
    from lmkrag.readers.base import AnswerStream as AnswerStream
    from lmkrag.remote import RemoteEngine as RemoteEngine
    from lmkrag.reranker.base import Reranker as Reranker
    from lmkrag.results import (
        Answer as Answer,
        Citation as Citation,
        Context as Context,
        Span as Span,
    )
    from lmkrag.types import (
        Document as Document,
        DocumentInfo as DocumentInfo,
        Hit as Hit,
        IndexReport as IndexReport,
        IndexStatus as IndexStatus,
    )

_ERRORS = (
    "DocumentError DocumentNotFound EncoderError IndexClosed IndexCorrupt IndexLocked "
    "IndexMismatch IndexNotFound "
    "LmkragError MissingExtra ReaderError ServerError StorageError UsageError"
)
_HOMES = {
    "Engine": "lmkrag.engine",
    "LandmarkEncoder": "lmkrag.encoder.landmark",
    "RemoteEngine": "lmkrag.remote",
    "Reranker": "lmkrag.reranker.base",
    "AnswerStream": "lmkrag.readers.base",
    **dict.fromkeys(_ERRORS.split(), "lmkrag.errors"),
    **dict.fromkeys(("Answer", "Citation", "Context", "Span"), "lmkrag.results"),
    **dict.fromkeys(
        ("Document", "DocumentInfo", "Hit", "IndexReport", "IndexStatus"), "lmkrag.types"
    ),
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use (PEP 562).

    Raises:
        AttributeError: the package has no public name like this.
    """
    if name not in _HOMES:
        raise AttributeError(f"module 'lmkrag' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return all public names, also those that were not imported so far."""
    return [*__all__, "__version__"]
