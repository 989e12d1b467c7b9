"""The part of Qdrant's HTTP interface that lmkrag uses: ``python rest_server.py [FOLDER [KILOBYTES]]``.

It prints the port that it listens on. With it, requests are serialized and writers are processes. Without a folder it is
over qdrant-client's local mode, whose storage and search are not Qdrant's. With one it is over Qdrant's own engine, by
``qdrant-edge-py``, which keeps its files there and searches by graphs and codes from so many kilobytes of vectors on;
replicas and the server itself are still not Qdrant's.
"""

import http.server
import json
import re
import sys
import threading
from pathlib import Path
from typing import Any

from qdrant_client import QdrantClient, models

GUARD = threading.Lock()
CLIENT: Any = QdrantClient(":memory:")


def answer(method: str, path: str, body: Any) -> Any:
    """Return the result of a request."""
    name, _, action = re.sub("[?].*", "", path).removeprefix("/collections/").partition("/")
    route = f"{method} {action}"
    if route == "GET exists":
        return {"exists": CLIENT.collection_exists(name)}
    if route == "PUT ":
        named = {"": body["vectors"]} if "size" in body["vectors"] else body["vectors"]
        sizes = {key: models.VectorParams(**value) for key, value in named.items()}
        codes = body.get("quantization_config")
        codes = codes and models.ScalarQuantization(**codes)
        return CLIENT.create_collection(name, vectors_config=sizes, quantization_config=codes)
    if route == "DELETE ":
        return CLIENT.delete_collection(name)
    if route == "PUT points":
        points: Any = (
            models.Batch(**body["batch"]) if "batch" in body else models.PointsList(**body).points
        )
        mode = body.get("update_mode")
        CLIENT.upsert(name, points, update_mode=mode and models.UpdateMode(mode))
        return {"status": "completed", "operation_id": 1}
    if route == "POST points":
        request = models.PointRequest(**body)
        return CLIENT.retrieve(
            name, request.ids, request.with_payload, with_vectors=request.with_vector or False
        )
    if route == "POST points/query/batch":
        requests = models.QueryRequestBatch(**body).searches
        if isinstance(CLIENT, QdrantClient):  # it warns of what it can't do
            requests = [item.model_copy(update={"params": None}) for item in requests]
        return CLIENT.query_batch_points(name, requests)
    if route == "POST points/scroll":
        scroll = models.ScrollRequest(**body)
        records, offset = CLIENT.scroll(
            name, limit=scroll.limit or 10, offset=scroll.offset, with_payload=False
        )
        return {"points": records, "next_page_offset": offset}
    if route == "POST points/count":
        return CLIENT.count(name)
    if route == "POST points/payload":
        CLIENT.set_payload(name, body["payload"], points=body["points"])
        return {"status": "completed", "operation_id": 1}
    if route == "POST points/delete":
        CLIENT.delete(name, models.PointIdsList(**body))
        return {"status": "completed", "operation_id": 1}
    raise KeyError(route)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request after the other."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status = 200
        reply: dict[str, Any] = {"title": "qdrant", "version": "1.17.0"}
        if self.path != "/":
            try:
                with GUARD:
                    reply = {
                        "status": "ok",
                        "time": 0.0,
                        "result": answer(self.command, self.path, data and json.loads(data)),
                    }
            except ValueError as error:
                status, reply = (
                    404 if "not found" in str(error) else 400,
                    {"status": {"error": str(error)}},
                )
        text = json.dumps(reply, default=lambda model: model.model_dump(mode="json")).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Print nothing."""


if __name__ == "__main__":
    if len(sys.argv) > 1:
        # beside this script, which runs by itself
        from edge_client import EdgeClient  # type: ignore[import-not-found]

        CLIENT = EdgeClient(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
