"""A model in ONNX Runtime: as fast as torch on a processor, and imported in a fraction of its time."""

import functools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import py_object, pythonapi
from typing import Any

from lmkrag.arrays import Vectors
from lmkrag.system import count_cpus


class Session:
    """Runs a graph with its weights. State: a session of the runtime. May be shared by threads.

    One run takes one processor: several side by side are faster than one after the other on all processors, since what
    each works on stays in its processor's cache. A process that was forked starts a session of its own.
    """

    def __init__(self, graph: bytes, weights: dict[str, Vectors]) -> None:
        """Take a graph that :func:`lmkrag.models.graph.build_model` built, and its weights."""
        self._graph, self._weights = graph, weights
        self._start()

    def run(self, outputs: Sequence[str], inputs: dict[str, Any]) -> list[Vectors]:
        """Return outputs by their names."""
        self._restart_if_forked()
        found: list[Vectors] = self._session.run(list(outputs), inputs)
        return found

    def run_each(self, outputs: Sequence[str], runs: Sequence[dict[str, Any]]) -> list[list[Vectors]]:
        """Return the outputs of several runs, which all processors share."""
        if len(runs) < 2:
            return [self.run(outputs, inputs) for inputs in runs]
        self._restart_if_forked()  # here, so that not each of the threads does it
        return list(_processors(count_threads(), os.getpid()).map(lambda inputs: self.run(outputs, inputs), runs))

    def _restart_if_forked(self) -> None:
        if os.getpid() != self._process:
            pythonapi.Py_IncRef(py_object(self._session))  # never ended: a thread of the parent may hold its locks
            self._start()

    def _start(self) -> None:
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # its thread keeps forked processes from ending, too
        import onnxruntime

        onnxruntime.disable_telemetry_events()  # if it was imported before
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in self._weights.values()]
        options.add_external_initializers(list(self._weights), values)
        self._session: Any = onnxruntime.InferenceSession(self._graph, options, providers=["CPUExecutionProvider"])
        self._process = os.getpid()


@functools.lru_cache(maxsize=1)
def _processors(threads: int, process: int) -> ThreadPoolExecutor:
    """The threads of a process that runs share; a forked one has none of its parent's, so it gets its own."""
    return ThreadPoolExecutor(threads, f"lmkrag-{process}")


def count_threads() -> int:
    """Return how many threads to compute with: ``OMP_NUM_THREADS`` if it is set, else one for each processor."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else count_cpus()
