"""Prometheus metrics of the server."""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from http import HTTPMethod

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric

from lmkrag.server.indexes import ServedIndexes
from lmkrag.server.problems import Problem

_OF_INDEX = {
    "generation": "Commits to the index so far",
    "documents": "Documents in the index",
    "sentences": "Sentences in the index",
    "up": "Whether the index can be read",
}
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counters, latencies and queues of requests and the state of each index, in a registry of
    their own.
    """

    def __init__(self, indexes: ServedIndexes) -> None:
        self._indexes = indexes
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "lmkrag_requests",
            "Requests by method, route and status",
            ["method", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "lmkrag_request_seconds",
            "Seconds to the end of a response",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "lmkrag_requests_in_flight", "Requests that are being answered", registry=registry
        )
        Gauge(
            "lmkrag_searches_pending", "Searches that run or wait", registry=registry
        ).set_function(lambda: len(indexes.workers.pending))
        registry.register(self)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; unknown methods share one label."""
        method = method if method in HTTPMethod.__members__ else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def render(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges of indexes, which are read at scrape time; the registry calls this."""
        gauges = {
            name: GaugeMetricFamily(f"lmkrag_index_{name}", text, labels=["index"])
            for name, text in _OF_INDEX.items()
        }
        for name, index in self._indexes.by_name.items():
            values = {"up": 0}
            with contextlib.suppress(Problem):
                values = {**asdict(index.call(lambda engine: engine.status())), "up": 1}
            for field in gauges.keys() & values.keys():
                gauges[field].add_metric([name], values[field])
        yield from gauges.values()
