"""Vectors in PostgreSQL with pgvector: a table for each segment, half precision, written once.

A table is filled by binary COPY and indexed afterwards: into a graph that is there, rows go a hundred times as slowly.
Rows of a segment are numbered as in its other files. A filter that keeps few rows is searched exactly: a graph would
lose its way among those not allowed.
"""

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np

from lmkrag.arrays import Ids, Mask, Scores, Vectors
from lmkrag.errors import IndexCorrupt, MissingExtra, StorageError, UsageError
from lmkrag.index.files import File, read_file, sync
from lmkrag.index.vector_set import VectorSet
from lmkrag.index.vectors import Slices
from lmkrag.types import Recipe

ADDRESS = "LMKRAG_POSTGRES"
"""The environment variable with the database's address: ``postgresql://user:password@host/database``."""

_FACTORIES = ("exact", "hnsw")
_NARROW = 0.15  # share of the rows below which all that are allowed are compared
_GRACE = "10 minutes"  # for searches that began before a segment was replaced
_SETTINGS = {"m": 16, "ef_construction": 64, "ef_search": 200, "least_rows": 10_000}
_TIMEOUT = 10  # seconds to connect
_CONNECTIONS = 8  # of a process at a time

_SCHEMA = """
CREATE SCHEMA IF NOT EXISTS lmkrag;
CREATE TABLE IF NOT EXISTS lmkrag.segment (
    name text PRIMARY KEY, rows bigint NOT NULL, dimensions integer NOT NULL, retired timestamptz
)
"""

Result = TypeVar("Result")


class PostgresStore:
    """Tables in the database that :data:`ADDRESS` names."""

    suffix = ".pgvector"

    def check(self, recipe: Recipe, dimensions: int) -> None:
        """Look whether a recipe can be followed: see :class:`lmkrag.index.vector_stores.VectorStore`."""
        if recipe.factory not in _FACTORIES:
            raise UsageError(f"recipe {recipe.name!r}: the factory of pgvector must be {' or '.join(_FACTORIES)}")
        if unknown := sorted(recipe.search.keys() - _SETTINGS.keys()):
            raise UsageError(f"recipe {recipe.name!r}: unknown setting {unknown[0]!r}: use {', '.join(_SETTINGS)}")
        if dimensions > 4_000:
            raise UsageError(f"pgvector's graphs hold vectors of 4,000 dimensions, not {dimensions:,}")
        _database()

    def add(self, path: Path, read: Slices, rows: int, dimensions: int, recipe: Recipe) -> File:
        """Write a vector set: see :class:`lmkrag.index.vector_stores.VectorStore`."""
        described = {"table": path.stem, "rows": rows, "dimensions": dimensions, "home": _identify(path.parent)}
        path.write_text(json.dumps(described) + "\n", "utf-8")
        sync(path)
        with _database().transaction() as run:
            _fill(run, path.stem, read, rows, dimensions, recipe)
        return File.of(path)

    def open(self, path: Path, file: File, rows: int, recipe: Recipe) -> "VectorTable":
        """Open a vector set: see :class:`lmkrag.index.vector_stores.VectorStore`."""
        table = _read_description(bytes(read_file(path, file)), path)["table"]
        database = _database()
        with database.transaction() as run:
            found = run("SELECT rows FROM lmkrag.segment WHERE name = $1", table)
        if not found or found[0]["rows"] != rows:
            raise IndexCorrupt(f"{path}: its vectors are gone from the database; run lmkrag repair")
        return VectorTable(database, table, rows, recipe)

    def delete(self, path: Path) -> None:
        """Delete a vector set, unless it is that of another index, of which this one is a copy.

        The table goes when searches that began before are done.
        """
        try:
            described = _read_description(path.read_bytes(), path)
        except IndexCorrupt:  # cut off while it was written: there is no table yet
            path.unlink()
            return
        if described["home"] == _identify(path.parent):
            _retire(_database(), described["table"])
        path.unlink()


class VectorTable(VectorSet):
    """The vectors of a segment in a table. May be shared by threads."""

    def __init__(self, database: "_Database", table: str, rows: int, recipe: Recipe) -> None:
        """Take what :meth:`PostgresStore.open` found."""
        self.rows = rows
        self._database, self._table = database, _quote(table)
        self._settings = _read_settings(recipe)
        self._graph = _has_graph(recipe, rows)

    def search(self, queries: Vectors, top_k: int, allowed: Mask | None = None) -> tuple[Scores, Ids]:
        """Find the nearest rows: see :class:`lmkrag.index.vector_set.VectorSet`."""
        top_k = min(top_k, self.rows)
        scores = np.full((len(queries), top_k), -np.inf, np.float32)
        rows = np.full((len(queries), top_k), -1, np.int64)
        for number, query in enumerate(queries):
            found = self._search(query, top_k, allowed)
            rows[number, : len(found)] = [row for row, _ in found]
            scores[number, : len(found)] = [score for _, score in found]
        return scores, rows

    def _search(self, query: Vectors, top_k: int, allowed: Mask | None) -> list[tuple[int, float]]:
        share = 1.0 if allowed is None else np.count_nonzero(allowed) / self.rows
        by_graph = self._graph and share >= _NARROW
        values: list[Any] = [query, top_k]
        only = nearest = ""
        if allowed is not None and by_graph:
            only = "WHERE get_bit($3::bytea, number) = 1"
            values.append(np.packbits(allowed, bitorder="little").tobytes())
        elif allowed is not None:
            only = "WHERE number = ANY($3::integer[])"
            values.append(np.flatnonzero(allowed).tolist())
        if by_graph:
            nearest = "ORDER BY embedding <#> $1::vector::halfvec LIMIT $2"
        # The exact order of what was chosen: ties, and a question's own precision, as in a file.
        exact = f"""
            WITH chosen AS MATERIALIZED (SELECT * FROM {self._table} {only} {nearest})
            SELECT number, -(embedding::vector <#> $1::vector) AS score FROM chosen
            ORDER BY score DESC, number LIMIT $2
        """
        with self._database.transaction() as run:
            if by_graph:
                run("SET LOCAL hnsw.iterative_scan = strict_order")
                run(f"SET LOCAL hnsw.ef_search = {int(self._settings['ef_search'])}")
            return [(row["number"], row["score"]) for row in run(exact, *values)]

    def read(self, rows: Ids) -> Vectors:
        """Return vectors: see :class:`lmkrag.index.vector_set.VectorSet`."""
        wanted, places = np.unique(rows, return_inverse=True)
        statement = f"SELECT embedding FROM {self._table} WHERE number = ANY($1::integer[]) ORDER BY number"
        with self._database.transaction() as run:
            found = run(statement, wanted.tolist())
        if len(found) != len(wanted):
            raise IndexCorrupt(f"{self._table}: {len(wanted) - len(found)} vectors are gone; run lmkrag repair")
        vectors = np.array([row["embedding"].to_numpy() for row in found], np.float32)
        return vectors[places]


class _Database:
    """Connections to one database, for any thread: asyncpg runs on a thread of its own. State: the pool."""

    def __init__(self, address: str) -> None:
        """Connect, and make what is not there yet.

        Raises:
            StorageError: it can't be reached, or has no pgvector. MissingExtra: asyncpg is not installed.
        """
        try:
            import asyncpg
            import pgvector.asyncpg as codecs
        except ImportError as error:
            raise MissingExtra("postgres", error.name or "asyncpg") from None
        self._errors = (
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,
            OSError,
            TimeoutError,
        )
        self._asyncpg, self._codecs = asyncpg, codecs
        self._address = address
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="lmkrag-postgres", daemon=True).start()
        self._pool: Any = self.run(self._connect())

    async def _connect(self) -> Any:
        first = await self._asyncpg.connect(self._address, timeout=_TIMEOUT)
        try:
            if not await first.fetchval("SELECT count(*) FROM pg_extension WHERE extname = 'vector'"):
                await first.execute("CREATE EXTENSION IF NOT EXISTS vector")
            if await first.fetchval("SELECT to_regclass('lmkrag.segment')") is None:
                await first.execute(_SCHEMA)
        finally:
            await first.close()
        return await self._asyncpg.create_pool(
            self._address, min_size=0, max_size=_CONNECTIONS, timeout=_TIMEOUT, init=self._codecs.register_vector
        )

    @contextlib.contextmanager
    def transaction(self) -> Iterator["_Run"]:
        """Run statements in one transaction, all or nothing.

        Raises:
            StorageError: the database failed or can't be reached.
        """
        connection, transaction = self.run(self._begin())
        try:
            try:
                yield _Run(self, connection)
            except BaseException:
                with contextlib.suppress(StorageError):  # the connection may be what failed
                    self.run(transaction.rollback())
                raise
            self.run(transaction.commit())
        finally:
            with contextlib.suppress(StorageError):  # what was committed stays; the pool forgets a connection that died
                self.run(self._pool.release(connection))

    async def _begin(self) -> tuple[Any, Any]:
        """Begin a transaction on a connection that is alive: those that died unused are put away."""
        for _ in range(_CONNECTIONS):
            connection = await self._pool.acquire(timeout=_TIMEOUT)
            try:
                transaction = connection.transaction()
                await transaction.start()
            except self._errors:
                connection.terminate()
                await self._pool.release(connection)
            else:
                return connection, transaction
        raise ConnectionError("it closes connections at once")

    def run(self, call: Awaitable[Result]) -> Result:
        """Run a call and wait for it.

        Raises:
            StorageError: the database failed or can't be reached.
        """
        try:
            return asyncio.run_coroutine_threadsafe(_wait(call), self._loop).result()
        except self._errors as error:
            place = urlsplit(self._address)  # without the password
            where = f"{place.hostname or 'local'}{place.path}"
            reason = str(error) or type(error).__name__
            raise StorageError(f"the database {where} of {ADDRESS} failed ({reason}); nothing was changed") from error


async def _wait(call: Awaitable[Result]) -> Result:
    return await call


class _Run:
    """Runs statements on one connection."""

    def __init__(self, database: _Database, connection: Any) -> None:
        self._database, self._connection = database, connection

    def __call__(self, statement: str, *values: Any) -> list[Any]:
        """Run a statement and return its rows."""
        found: list[Any] = self._database.run(self._connection.fetch(statement, *values))
        return found

    def copy(self, table: str, records: list[tuple[Any, ...]], columns: list[str]) -> None:
        """Append rows to a table of the schema."""
        copied = self._connection.copy_records_to_table(table, schema_name="lmkrag", records=records, columns=columns)
        self._database.run(copied)


_databases: dict[tuple[int, str], _Database] = {}
_guard = threading.Lock()


def _database() -> _Database:
    """The database of the environment: one pool in each process."""
    address = os.environ.get(ADDRESS)
    if not address:
        raise UsageError(f"set {ADDRESS} to the address of the database: postgresql://user:password@host/database")
    with _guard:
        key = os.getpid(), address
        if key not in _databases:
            _databases[key] = _Database(address)
        return _databases[key]


def _fill(run: _Run, name: str, read: Slices, rows: int, dimensions: int, recipe: Recipe) -> None:
    """Make, fill and index a table."""
    from pgvector import HalfVector

    settings = _read_settings(recipe)
    table = _quote(name)
    run(f"CREATE TABLE {table} (number integer NOT NULL, embedding halfvec({dimensions}) NOT NULL)")
    first = 0
    for vectors in read():
        records = [(first + number, HalfVector(vector)) for number, vector in enumerate(vectors)]
        run.copy(name, records, ["number", "embedding"])
        first += len(vectors)
    if first != rows:
        raise ValueError(f"{rows} vectors were announced, {first} came")
    run(f"ALTER TABLE {table} ADD PRIMARY KEY (number)")
    if _has_graph(recipe, rows):
        options = f"m = {int(settings['m'])}, ef_construction = {int(settings['ef_construction'])}"
        run(f"CREATE INDEX ON {table} USING hnsw (embedding halfvec_ip_ops) WITH ({options})")
    run(f"ANALYZE {table}")
    run("INSERT INTO lmkrag.segment (name, rows, dimensions) VALUES ($1, $2, $3)", name, rows, dimensions)


def _retire(database: "_Database", name: str) -> None:
    """Have a table dropped later, and drop those whose time has come."""
    with database.transaction() as run:
        run("UPDATE lmkrag.segment SET retired = now() WHERE name = $1 AND retired IS NULL", name)
        gone = f"DELETE FROM lmkrag.segment WHERE retired <= now() - interval '{_GRACE}' RETURNING name"
        for row in run(gone):
            run(f"DROP TABLE IF EXISTS {_quote(row['name'])}")


def _read_settings(recipe: Recipe) -> dict[str, float]:
    return {**_SETTINGS, **recipe.search}


def _has_graph(recipe: Recipe, rows: int) -> bool:
    """Whether a table of so many rows has a graph; a smaller one is compared whole."""
    return recipe.factory == "hnsw" and rows >= _read_settings(recipe)["least_rows"]


def _identify(folder: Path) -> str:
    """What a folder keeps when it is renamed, and a copy of it has not."""
    facts = folder.stat()
    return f"{facts.st_dev}:{facts.st_ino}"


def _quote(name: str) -> str:
    """A table's name in SQL; names are those of segments, in hexadecimal."""
    if not name.isalnum():
        raise IndexCorrupt(f"{name!r} is no name of a segment")
    return f'lmkrag."{name}"'


def _read_description(data: bytes, path: Path) -> dict[str, Any]:
    try:
        described: dict[str, Any] = json.loads(data)
        return {name: described[name] for name in ("table", "home")}
    except (ValueError, KeyError, TypeError) as error:
        raise IndexCorrupt(f"{path}: this file is damaged ({error}); run lmkrag repair") from error
