"""The format of what travels to a GPU: texts as tokens, each once, and tables of whole numbers.

A text has a number. The columns of a table, named ``table.column``, have one length; where a row
has rows of another table, a column counts them, and they stand there in order. A description in
JSON says the rest.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmkrag.types.arrays import Ids


class PackWriter:
    """Collects texts and rows, and writes them as one file."""

    def __init__(self) -> None:
        self._texts: dict[bytes, int] = {}
        self._columns: dict[str, list[int]] = defaultdict(list)

    def add_text(self, tokens: Sequence[int]) -> int:
        """Return the number of a text."""
        return self._texts.setdefault(np.array(tokens, np.uint32).tobytes(), len(self._texts))

    def add_row(self, table: str, **values: int) -> int:
        """Add a row to a table, and return its number."""
        for name, value in values.items():
            self._columns[f"{table}.{name}"].append(value)
        return len(self._columns[f"{table}.{name}"]) - 1

    def save(self, path: Path, **described: Any) -> None:
        """Write the file, and print its size."""
        texts = [np.frombuffer(text, np.uint32) for text in self._texts]
        tokens = np.concatenate(texts)
        columns: dict[str, Any] = {
            name: np.array(values, np.int32) for name, values in self._columns.items()
        }
        np.savez_compressed(
            path,
            described=json.dumps(described),
            lengths=np.array([len(text) for text in texts], np.uint16),
            tokens=tokens.astype(np.min_scalar_type(tokens.max())),
            **columns,
        )
        rows = {name.split(".")[0]: len(values) for name, values in columns.items()}
        counts = ", ".join(f"{count} x {table}" for table, count in rows.items())
        print(f"{path}: {counts}, {len(tokens):,} tokens, {path.stat().st_size:,} bytes")


class Pack:
    """A packed file. ``described`` is what it says of itself."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as stored:
            self._arrays = dict(stored)
        self.described: dict[str, Any] = json.loads(str(self._arrays.pop("described")))
        self._starts = self.starts("lengths")

    def column(self, name: str) -> Ids:
        """Return a column, empty if its table has no row."""
        values: Ids = self._arrays.get(name, np.zeros(0, np.int32))
        return values

    def starts(self, name: str) -> Ids:
        """Return where the rows begin that a column counts, and where the last of them ends."""
        starts: Ids = np.concatenate([[0], np.cumsum(self.column(name), dtype=np.int64)])
        return starts

    def text(self, number: int) -> list[int]:
        """Return the tokens of a text."""
        tokens = self._arrays["tokens"][self._starts[number] : self._starts[number + 1]]
        ids: list[int] = tokens.tolist()
        return ids
