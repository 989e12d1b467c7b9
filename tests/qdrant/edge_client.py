"""Qdrant's engine in this process, by the calls of qdrant-client that ``rest_server.py`` makes.

``qdrant-edge-py`` is Qdrant's storage and search, without its server: one shard in a directory, no
collections by name, no replicas, no optimizer in the background. Here a collection is a shard.
"""

import shutil
from pathlib import Path
from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models

INDEXED_KB = 10_000  # of vectors in a segment, from which a server builds a graph and codes for it
_MODES = {
    None: edge.UpdateMode.Upsert,
    models.UpdateMode.INSERT_ONLY: edge.UpdateMode.InsertOnly,
}


class EdgeClient:
    """Collections, each a shard. State: the shards by name."""

    def __init__(self, folder: Path, indexed_kb: int = INDEXED_KB) -> None:
        """Take the directory that shards are made in.

        Args:
            folder: the directory.
            indexed_kb: kilobytes of vectors from which a segment is searched by its graph and codes.
        """
        self._folder, self._indexed_kb = folder, indexed_kb
        self._shards: dict[str, edge.EdgeShard] = {}

    def collection_exists(self, name: str) -> bool:
        """Return whether there is a collection."""
        return name in self._shards

    def create_collection(self, name: str, vectors_config: Any, quantization_config: Any) -> bool:
        """Create a collection of named vectors, of which it keeps codes of 8 bits if asked to."""
        if name in self._shards:
            raise ValueError(f"Collection {name} already exists")
        vectors = {
            key: edge.EdgeVectorParams(size=value.size, distance=edge.Distance.Dot)
            for key, value in vectors_config.items()
        }
        codes = None
        if quantization_config is not None:
            quantile = quantization_config.scalar.quantile
            codes = edge.ScalarQuantizationConfig(edge.ScalarType.Int8, quantile=quantile)
        config = edge.EdgeConfig(
            vectors=vectors,
            quantization_config=codes,
            hnsw_config=edge.HnswIndexConfig(
                m=16, ef_construct=100, full_scan_threshold=self._indexed_kb
            ),
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=self._indexed_kb),
        )
        self._shards[name] = edge.EdgeShard.create(str(self._folder / name), config)
        return True

    def delete_collection(self, name: str) -> bool:
        """Delete a collection."""
        self._find(name).close()
        del self._shards[name]
        shutil.rmtree(self._folder / name)
        return True

    def upsert(self, name: str, points: Any, update_mode: Any = None) -> None:
        """Write points, given one by one or as a batch, then optimize as a server does later."""
        if isinstance(points, models.Batch):
            ids, columns = points.ids, points.vectors
            written = [
                edge.Point(key, {column: rows[place] for column, rows in columns.items()})
                for place, key in enumerate(ids)
            ]
        else:
            written = [edge.Point(point.id, point.vector, point.payload) for point in points]
        shard = self._find(name)
        shard.update(edge.UpdateOperation.upsert_points(written, update_mode=_MODES[update_mode]))
        shard.optimize()

    def set_payload(self, name: str, payload: Any, points: list[int]) -> None:
        """Write values of the payload of some points."""
        self._find(name).update(edge.UpdateOperation.set_payload(points, payload))

    def delete(self, name: str, points_selector: models.PointIdsList) -> None:
        """Delete points."""
        self._find(name).update(edge.UpdateOperation.delete_points(points_selector.points))

    def retrieve(
        self, name: str, ids: Any, with_payload: Any, with_vectors: Any
    ) -> list[models.Record]:
        """Return those of some points that exist."""
        if isinstance(with_payload, models.PayloadSelectorInclude):
            with_payload = with_payload.include
        records = self._find(name).retrieve(ids, with_payload or False, with_vectors or False)
        return [_copy_record(record) for record in records]

    def scroll(
        self, name: str, limit: int, offset: Any, with_payload: bool
    ) -> tuple[list[models.Record], Any]:
        """Return points by id, and where the next ones begin."""
        request = edge.ScrollRequest(
            offset=offset, limit=limit, with_payload=with_payload, with_vector=False
        )
        records, following = self._find(name).scroll(request)
        return [_copy_record(record) for record in records], following

    def count(self, name: str) -> models.CountResult:
        """Return how many points there are."""
        return models.CountResult(count=self._find(name).count(edge.CountRequest(exact=True)))

    def query_batch_points(
        self, name: str, requests: list[models.QueryRequest]
    ) -> list[models.QueryResponse]:
        """Return the nearest points for each request."""
        batch = edge.QueryBatchRequest([_translate(request) for request in requests])
        return [
            models.QueryResponse(
                points=[
                    models.ScoredPoint(id=point.id, version=point.version, score=point.score)
                    for point in points
                ]
            )
            for points in self._find(name).query_batch(batch)
        ]

    def _find(self, name: str) -> edge.EdgeShard:
        """Return the shard of a collection."""
        if name not in self._shards:
            raise ValueError(f"Collection {name} not found")
        return self._shards[name]


def _copy_record(record: edge.Record) -> models.Record:
    """Return a point as qdrant-client has it."""
    return models.Record(id=record.id, payload=record.payload, vector=record.vector)


def _translate(request: models.QueryRequest) -> edge.QueryRequest:
    """Return a request for the nearest points as the engine has it."""
    chosen = None
    if request.filter is not None:
        among = {key for condition in request.filter.must for key in condition.has_id}
        chosen = edge.Filter(must=[edge.HasIdCondition(among)])
    codes = request.params.quantization
    params = edge.SearchParams(
        hnsw_ef=request.params.hnsw_ef,
        exact=request.params.exact,
        quantization=edge.QuantizationSearchParams(
            ignore=codes.ignore, rescore=codes.rescore, oversampling=codes.oversampling
        ),
    )
    return edge.QueryRequest(
        query=edge.Query.Nearest(request.query.nearest, using=request.using),
        filter=chosen,
        limit=request.limit,
        params=params,
    )
