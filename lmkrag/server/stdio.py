"""MCP on standard input and output, for an assistant that starts the server itself."""

from collections.abc import Mapping
from pathlib import Path

from lmkrag.readers.base import Reader
from lmkrag.server.indexes import ServedIndexes
from lmkrag.server.mcp import create_mcp_server
from lmkrag.server.settings import ServerLimits
from lmkrag.server.uploads import Uploads
from lmkrag.server.workers import Workers


def serve_stdio(paths: Mapping[str, Path], *, reader: Reader, writable: bool, limits: ServerLimits) -> None:
    """Serve until standard input ends. The indexes are open before the first word is read.

    Raises:
        IndexNotFound: one is not there. StorageError: one can't be used.
    """
    workers = Workers(limits)
    indexes = ServedIndexes(paths, workers)
    uploads = Uploads(indexes, limits) if writable else None
    try:
        create_mcp_server(indexes, reader, uploads).run("stdio")
    finally:
        if uploads is not None:
            uploads.close()
        workers.close()
        indexes.close()
