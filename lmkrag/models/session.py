"""A model in ONNX Runtime, which is as fast as torch on a CPU, and takes a fraction of the time to
import.
"""

import functools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import py_object, pythonapi
from pathlib import Path
from typing import Any

from lmkrag.errors import EncoderError
from lmkrag.system.platform import count_cpus
from lmkrag.types.arrays import Vectors, Weights

Config = dict[str, Any]  # a model's config.json

BEFORE, AFTER = "before", "after"
"""Outputs of graphs: states around BERT's layers, ``[texts * length, dimensions]`` float32."""


class Session:
    """Runs a graph with its weights. State: a session of the runtime. May be shared by threads.

    Each run uses one processor. Runs in parallel are faster than one run at a time on all
    processors, since the data of each stay in the cache of its processor. A forked process starts
    its own session.
    """

    def __init__(self, graph: bytes | Path, weights: Weights) -> None:
        """Start a session.

        Args:
            graph: a serialized graph without weights, or its file.
            weights: the weights by their names in the graph.

        Raises:
            OSError: the file can't be read.
            EncoderError: the file is no graph of these weights.
        """
        self._source = graph
        self._graph = graph.read_bytes() if isinstance(graph, Path) else graph
        self._weights = weights
        self._start()

    def run(self, outputs: Sequence[str], inputs: dict[str, Any]) -> list[Vectors]:
        """Return the outputs of one run.

        Args:
            outputs: names of the outputs.
            inputs: arrays by the names of the inputs.
        """
        self._restart_if_forked()
        values: list[Vectors] = self._session.run(list(outputs), inputs)
        return values

    def run_each(
        self, outputs: Sequence[str], runs: Sequence[dict[str, Any]]
    ) -> list[list[Vectors]]:
        """Return the outputs of several runs, which all processors share.

        Args:
            outputs: names of the outputs.
            runs: the inputs of each run, by name.
        """
        if len(runs) < 2:
            return [self.run(outputs, inputs) for inputs in runs]
        self._restart_if_forked()  # before several threads do it
        return list(
            _processors(count_threads(), os.getpid()).map(
                lambda inputs: self.run(outputs, inputs), runs
            )
        )

    def _restart_if_forked(self) -> None:
        """Start a session of its own in a forked process."""
        if os.getpid() != self._process:
            # never freed: a thread of the parent may hold its locks
            pythonapi.Py_IncRef(py_object(self._session))
            self._start()

    def _start(self) -> None:
        """Start the runtime's session, with one thread and the weights in memory."""
        import onnxruntime

        onnxruntime.disable_telemetry_events()  # if it was imported before lmkrag
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        values = [
            onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in self._weights.values()
        ]
        options.add_external_initializers(list(self._weights), values)
        try:
            self._session: Any = onnxruntime.InferenceSession(
                self._graph, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # each kind of damage has its own
            if not isinstance(self._source, Path):
                raise
            reason = str(error).splitlines()[0]
            raise EncoderError(
                f"{self._source}: not the graph of the weights beside it ({reason})"
            ) from error
        self._process = os.getpid()


@functools.lru_cache(maxsize=1)
def _processors(threads: int, process: int) -> ThreadPoolExecutor:
    """Return the threads that all runs of a process share; a forked process starts its own."""
    return ThreadPoolExecutor(threads, f"lmkrag-{process}")


def count_threads() -> int:
    """Return the number of threads to compute with: ``OMP_NUM_THREADS`` if it is set, of ``4,2``
    for nested loops the first number, else one for each processor.
    """
    setting = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(setting) if setting.isdecimal() and int(setting) > 0 else count_cpus()
