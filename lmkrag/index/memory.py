"""What was worked out, or answered by another process, and would be again: the newest of it."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Memory(Generic[Value]):
    """Keeps the values that were used last. May be shared by threads.

    >>> memory = Memory[int](2)
    >>> [memory.remember(word, lambda: len(word)) for word in ("one", "three", "five", "one")]
    [3, 5, 4, 3]
    >>> memory.get("three")
    """

    def __init__(self, most: int) -> None:
        """Take how many values are kept."""
        self._most = most
        self._guard = threading.Lock()
        self._known: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable) -> Value | None:
        """Return a value, or None if it is not kept."""
        with self._guard:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def put(self, key: Hashable, value: Value) -> Value:
        """Keep a value, and return it."""
        with self._guard:
            self._known[key] = value
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return value

    def remember(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return a value, made if it is not kept."""
        known = self.get(key)
        return self.put(key, make()) if known is None else known
