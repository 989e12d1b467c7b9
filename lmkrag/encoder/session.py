"""A model in ONNX Runtime: as fast as torch on a processor, and imported in a fraction of its time."""

import os
from collections.abc import Sequence
from ctypes import py_object, pythonapi
from typing import Any

from lmkrag.arrays import Vectors


class Session:
    """Runs a graph with its weights. State: a session of the runtime. May be shared by threads.

    A process that was forked starts a session of its own if the runtime has threads: they stayed with its parent.
    """

    def __init__(self, graph: bytes, weights: dict[str, Vectors]) -> None:
        """Take a graph that :func:`lmkrag.encoder.graph.build_model` built, and its weights."""
        self._graph, self._weights = graph, weights
        self._start()

    def run(self, outputs: Sequence[str], inputs: dict[str, Any]) -> list[Vectors]:
        """Return outputs by their names."""
        if self._threads > 1 and os.getpid() != self._process:
            pythonapi.Py_IncRef(py_object(self._session))  # ending it would wait for the parent's threads
            self._start()
        found: list[Vectors] = self._session.run(list(outputs), inputs)
        return found

    def _start(self) -> None:
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # its thread keeps forked processes from ending, too
        import onnxruntime

        onnxruntime.disable_telemetry_events()  # if it was imported before
        options = onnxruntime.SessionOptions()
        self._threads = options.intra_op_num_threads = count_threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # leaves processors to other work
        options.log_severity_level = 3
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in self._weights.values()]
        options.add_external_initializers(list(self._weights), values)
        self._session: Any = onnxruntime.InferenceSession(self._graph, options, providers=["CPUExecutionProvider"])
        self._process = os.getpid()


def count_threads() -> int:
    """Return how many threads to compute with: ``OMP_NUM_THREADS`` if it is set, else one for each processor."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else len(os.sched_getaffinity(0))
