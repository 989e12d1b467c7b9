"""A graphics card, for a FAISS that was built for CUDA (``faiss-gpu``).

FAISS lets one thread at a time use a card, and what is on a card does not survive a fork.
"""

import logging
import os
import threading
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from lmkrag.models.device import find_device
from lmkrag.system.platform import measure_card

SHARE = 0.2  # of a card's memory, for vectors: docs/how-to/gpu.md has the shares of the others
_TEMPORARY = 1 << 27  # bytes of the share that FAISS computes in
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Card:
    """The first card that CUDA shows this process.

    Attributes:
        room: bytes of its memory that may be used.
    """

    def __init__(self, faiss: Any, room: int) -> None:
        """Take a card.

        Args:
            faiss: the module, built for CUDA.
            room: bytes of its memory that may be used.
        """
        self.room, self._faiss, self._lock = room, faiss, threading.Lock()
        self._resources, self._is_left = faiss.StandardGpuResources(), False
        self._resources.setTempMemory(_TEMPORARY)
        # owner of an index, the index, its bytes
        self._copies: list[tuple[weakref.ref[Any], Any, int]] = []
        os.register_at_fork(after_in_child=self._leave)

    def use(self, call: Callable[[], T]) -> T | None:
        """Run a function of FAISS on the card.

        Args:
            call: the function, which no other thread runs at the same time.

        Returns:
            Its result; None if the card has failed, such as for want of memory, or is the parent's.
        """
        if self._is_left:  # and another thread may have held the lock at the fork
            return None
        with self._lock:
            try:
                return call()
            except (RuntimeError, MemoryError) as error:
                _log.warning("the card failed, vectors are searched on the CPU: %s", error)
                self._is_left = True
                return None

    def copy(self, owner: object, index: Any, size: int) -> Any:
        """Copy an index to the card, inside :meth:`use`.

        Args:
            owner: the object that the copy is kept for; that of an object that is gone is freed
                before the next one is made.
            index: FAISS's index, of exact vectors in float16 or of 8-bit vectors in clusters.
            size: its bytes; FAISS needs them twice while it copies.

        Returns:
            FAISS's index on the card; None if there is no room for it.
        """
        self._copies = [copy for copy in self._copies if copy[0]()]
        for other, copied, _ in self._copies:
            if other() is owner:  # another thread was sooner
                return copied
        if _TEMPORARY + sum(copy[2] for copy in self._copies) + 2 * size > self.room:
            return None
        options = self._faiss.GpuClonerOptions()
        options.use_cuvs = False  # it has neither of these types
        copied = self._faiss.index_cpu_to_gpu(self._resources, 0, index, options)
        self._copies.append((weakref.ref(owner), copied, size))
        return copied

    def _leave(self) -> None:
        """Leave the card to the process that this one was forked from: freeing what is on it would
        end this process.
        """
        self._is_left = True
        for owner in (self._resources, *(copy[1] for copy in self._copies)):
            owner.this.disown()


@cache
def open_card(faiss: Any) -> Card | None:
    """Return the first card of this process; None if FAISS or ``LMKRAG_DEVICE`` keeps to the CPU,
    or if the share of its memory is not free.
    """
    if find_device() == "cpu" or not hasattr(faiss, "StandardGpuResources"):
        return None
    free, total = measure_card()  # first, since FAISS ends the process where CUDA fails
    room = int(SHARE * total)
    return Card(faiss, room) if free > room and faiss.get_num_gpus() else None
