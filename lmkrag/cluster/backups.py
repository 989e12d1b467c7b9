"""Snapshots of an index in a folder that any machine can reach: a disk, or object storage by its URL.

    objects/CHECKSUM.faiss ...       files of segments, each once, whatever the snapshots that have it
    catalogs/CHECKSUM.sqlite         a copy of a catalog, by SQLite's backup
    manifests/00000007.json          what a snapshot consists of, under a checksum of its own
    tags/NAME.json                   a snapshot that is kept by name

A snapshot exists once its manifest does. It is written last, under the next number, and only if nobody else has: killed
at any instant a half push is invisible, and of two that push at once one is refused.
"""

import contextlib
import json
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from xxhash import xxh3_128

from lmkrag.cluster.manifests import (
    FORMAT,
    RemoteSnapshot,
    Stored,
    Transfer,
    check_manifest,
    check_tag,
    checksum_of,
    stored_file,
)
from lmkrag.corpus.remote_files import open_url
from lmkrag.errors import IndexCorrupt, IndexMismatch, StorageError, UsageError
from lmkrag.index import catalog, catalog_segments
from lmkrag.index.files import File, sync
from lmkrag.index.opening import index_exists, open_store
from lmkrag.index.pool import CATALOG
from lmkrag.index.shards import write_record
from lmkrag.index.working import WorkingFolder

_TRIES = 3  # of a push: a writer may compact the index while its files are read
_CHUNK = 8 << 20
_PULLED = "pulled.json"
_FRESH = timedelta(days=1)  # a file this young may be part of a snapshot that is being pushed
_MANIFEST = re.compile(r"(\d{8})\.json")


class Remote:
    """A folder of snapshots, by its URL: ``s3://bucket/handbook``, ``file:///mnt/backup/handbook``, or a path."""

    def __init__(self, url: str) -> None:
        """Take the URL.

        Raises:
            UsageError: nothing reads such URLs. MissingExtra: what does is not installed.
        """
        self.url = url
        self._files, self._root = open_url(url)

    # Snapshots

    def push(self, path: Path, *, tag: str = "") -> Transfer:
        """Store the state that an index has now; files that an earlier snapshot has do not travel again.

        Raises:
            StorageError: the folder can't be written to, or somebody else pushed meanwhile. UsageError: the tag is no
                name, or another snapshot has it.
        """
        check_tag(tag)
        with self._errors():
            if tag and self._files.exists(self._at("tags", f"{tag}.json")):
                raise UsageError(f"{self.url}: there is a snapshot {tag!r} already")
            numbers = self._numbers()
            number = max(numbers, default=0) + 1
            newest = self._read(self._at("manifests", f"{number - 1:08}.json")) if numbers else None
            # What the newest snapshot has is collected by nobody; what is only there may be, while this push goes on.
            kept = {file.name for file in newest.files.values()} if newest else set()
            for attempt in range(1, _TRIES + 1):
                try:
                    made, transfer = self._send_state(path, number, kept)
                    break
                except (FileNotFoundError, IndexCorrupt):  # a writer has replaced a segment: take its newer state
                    if attempt == _TRIES:
                        raise
            self._create(self._at("manifests", f"{number:08}.json"), made)
            if tag:
                self._create(self._at("tags", f"{tag}.json"), replace(made, tag=tag))
        return transfer

    def _send_state(self, path: Path, number: int, kept: set[str]) -> tuple[RemoteSnapshot, Transfer]:
        """Send the files of the state that an index has now, unless they are there to stay."""
        with contextlib.closing(open_store(path)) as store, tempfile.TemporaryDirectory() as work:
            sharded = bool(store.shards)
            files: dict[str, Stored] = {}
            sent = sent_bytes = documents = sentences = 0
            with contextlib.ExitStack() as held:
                for shard, part in enumerate(store.parts):
                    snapshot = held.enter_context(part.reader.snapshot())
                    below = part.path.relative_to(path).as_posix() + "/" if sharded else ""
                    copy = Path(work) / f"{shard}.sqlite"
                    _copy_catalog(snapshot.connection, copy)
                    local = {f"{below}{CATALOG}": (copy, stored_file("catalogs", ".sqlite", File.of(copy)))}
                    for file, _ in catalog_segments.read_segments(snapshot.connection):
                        for name, one in file.files.items():
                            stored = stored_file("objects", Path(name).suffix, one)
                            local[f"{below}segments/{name}"] = (part.path / "segments" / name, stored)
                    for name, (source, stored) in local.items():
                        files[name] = stored
                        if not self._stays(stored, kept):
                            self._send(source, stored)
                            sent, sent_bytes = sent + 1, sent_bytes + stored.bytes
                    documents += len(snapshot.documents.keys)
                    sentences += snapshot.documents.sentences
            folder = store.parts[0].path.parent.name if sharded else ""
            now = datetime.now(UTC).isoformat(timespec="seconds")
            shards = store.shards
        made = RemoteSnapshot(number, now, documents, sentences, folder, shards, files)
        return made, Transfer(number, sent, sent_bytes)

    def _stays(self, stored: Stored, kept: set[str]) -> bool:
        """Return whether a file is in the folder, and is not collected before this push is done."""
        if self._size(stored.name) != stored.bytes:
            return False
        return stored.name in kept or self._age(stored.name) < _FRESH / 2

    def pull(
        self,
        path: Path,
        *,
        tag: str = "",
        number: int | None = None,
        shard: int | None = None,
        beside: Path | None = None,
    ) -> Transfer:
        """Make an index of a snapshot, the newest by default; files that are at ``path`` already do not travel again.

        An index that an earlier pull has made there is replaced in one step, once the new one is whole and can be
        opened; another one is left alone.

        Args:
            path: the directory of the index.
            tag: of the snapshot.
            number: of the snapshot.
            shard: pull only this one, as an index without shards.
            beside: another index that was pulled, whose files do not travel again either.

        Raises:
            UsageError: there is no such snapshot, or ``path`` holds something else. StorageError: it can't be read or
                written. IndexCorrupt: a file is not what was pushed; nothing is replaced.
        """
        wanted = self.find(tag=tag, number=number)
        if shard is not None:
            wanted = wanted.of_shard(shard)
        if path.exists() and any(path.iterdir()) and not (path / _PULLED).is_file():
            raise UsageError(f"{path}: holds something that was not pulled; choose another directory")
        work = WorkingFolder(path, "pull")
        partial = work.new
        with self._errors():
            work.finish_interrupted()
            work.remove()
            work.index.parent.mkdir(parents=True, exist_ok=True)
            work.claim()
            sent = sent_bytes = 0
            for name, stored in wanted.files.items():
                target = partial / name
                target.parent.mkdir(parents=True, exist_ok=True)
                here = (beside or path) / name
                if name.endswith(CATALOG) or not (here.is_file() and File.of(here).checksum == stored.checksum):
                    self._fetch(stored, target)
                    sent, sent_bytes = sent + 1, sent_bytes + stored.bytes
                else:
                    target.hardlink_to(here)
            for name in wanted.files:
                if name.endswith(CATALOG):
                    (partial / name).with_name("segments").mkdir(exist_ok=True)
                    with contextlib.closing(catalog.connect(partial / name)) as connection:
                        connection.execute("PRAGMA journal_mode = WAL")
            (partial / _PULLED).write_text(json.dumps({"url": self.url, "number": wanted.number}) + "\n", "utf-8")
            if wanted.shards:
                write_record(partial, wanted.folder, wanted.shards)
            with contextlib.closing(open_store(partial)) as pulled, pulled.reader.snapshot():
                pass  # its catalog and segments are sound
            with _writing(path):
                work.take_place()
            work.remove()
        return Transfer(wanted.number, sent, sent_bytes)

    def snapshots(self) -> list[RemoteSnapshot]:
        """Return the snapshots there are, the oldest first, those that are kept by name with their tags.

        Raises:
            StorageError: the folder can't be read. IndexCorrupt: a manifest can't be read.
        """
        with self._errors():
            tagged = {one.number: one for one in (self._read(self._at("tags", name)) for name in self._list("tags"))}
            numbers = self._numbers()
            found = {number: self._read(self._at("manifests", f"{number:08}.json")) for number in numbers}
            return [one for _, one in sorted({**found, **tagged}.items())]

    def newest(self) -> int:
        """Return the number of the newest snapshot.

        Raises:
            UsageError: there is none. StorageError: the folder can't be read.
        """
        with self._errors():
            numbers = self._numbers()
        if not numbers:
            raise UsageError(f"{self.url}: no snapshots here")
        return max(numbers)

    def find(self, *, tag: str = "", number: int | None = None) -> RemoteSnapshot:
        """Return one snapshot, the newest by default.

        Raises:
            UsageError: there is no such snapshot.
        """
        check_tag(tag)
        found = [
            one for one in self.snapshots() if (not tag or one.tag == tag) and (number is None or one.number == number)
        ]
        if not found:
            what = f"no snapshot {tag or number}" if tag or number is not None else "no snapshots here"
            raise UsageError(f"{self.url}: {what}")
        return found[-1]

    def verify(self, *, tag: str = "", number: int | None = None) -> list[str]:
        """Read every file of a snapshot and compare it with its checksum; return a line for each problem."""
        problems = []
        for name, stored in self.find(tag=tag, number=number).files.items():
            try:
                self._fetch(stored, None)
            except (IndexCorrupt, StorageError) as error:
                problems.append(f"{name}: {error}")
        return problems

    def collect(self, keep: int) -> int:
        """Remove all but the newest ``keep`` snapshots and those with tags, and files of none; return how many files.

        Files of the last day are left: they may be of a snapshot that is being pushed.
        """
        if keep < 1:
            raise UsageError(f"at least one snapshot must be kept, not {keep}")
        with self._errors():
            for number in self._numbers()[:-keep]:
                self._files.rm_file(self._at("manifests", f"{number:08}.json"))
            used = {file.name for one in self.snapshots() for file in one.files.values()}
            removed = 0
            for kind in ("objects", "catalogs"):
                for name in self._list(kind):
                    if f"{kind}/{name}" not in used and self._age(f"{kind}/{name}") > _FRESH:
                        self._files.rm_file(self._at(kind, name))
                        removed += 1
        return removed

    # Files

    def _at(self, *parts: str) -> str:
        return "/".join([self._root.rstrip("/"), *parts])

    def _list(self, kind: str) -> list[str]:
        self._files.invalidate_cache()
        try:
            entries: Iterable[str] = self._files.ls(self._at(kind), detail=False)
        except FileNotFoundError:
            return []
        return sorted(name for entry in entries if (name := entry.rstrip("/").rpartition("/")[2]))

    def _numbers(self) -> list[int]:
        return [int(found[1]) for name in self._list("manifests") if (found := _MANIFEST.fullmatch(name))]

    def _size(self, name: str) -> int | None:
        try:
            return int(self._files.size(self._at(name)) or 0)
        except FileNotFoundError:
            return None

    def _age(self, name: str) -> timedelta:
        modified: datetime = self._files.modified(self._at(name))
        return datetime.now(UTC) - modified.astimezone(UTC)

    def _send(self, source: Path, stored: Stored) -> None:
        """Put a file in place, under another name first where that is not atomic."""
        if self._on_disk:
            self._files.makedirs(self._at(stored.name).rpartition("/")[0], exist_ok=True)
            partial = self._at(f"{stored.name}.partial")
            self._files.put_file(str(source), partial)
            self._files.mv(partial, self._at(stored.name))
        else:
            self._files.put_file(str(source), self._at(stored.name))

    @property
    def _on_disk(self) -> bool:
        """Whether there are folders, which have to be made; in object storage that would make buckets."""
        protocol = self._files.protocol
        return "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def _fetch(self, stored: Stored, target: Path | None) -> None:
        """Read a file to ``target``, or only read it, and compare it with its checksum."""
        digest, size = xxh3_128(), 0
        with contextlib.ExitStack() as held:
            source = held.enter_context(self._files.open(self._at(stored.name), "rb"))
            written = held.enter_context(target.open("wb")) if target is not None else None
            while size <= stored.bytes and (chunk := source.read(min(_CHUNK, stored.bytes - size + 1))):
                digest.update(chunk)
                size += len(chunk)
                if written is not None:
                    written.write(chunk)
        if size != stored.bytes or digest.hexdigest() != stored.checksum:
            raise IndexCorrupt(f"{self.url}/{stored.name}: not the file that was pushed (checksum)")
        if target is not None:
            sync(target)

    def _create(self, place: str, made: RemoteSnapshot) -> None:
        """Write a manifest, unless there is one."""
        if self._on_disk:
            self._files.makedirs(place.rpartition("/")[0], exist_ok=True)
        record = {"format": FORMAT, **asdict(made)}
        data = json.dumps({**record, "checksum": checksum_of(record)}).encode()
        try:
            self._files.pipe_file(place, data, mode="create")
        except FileExistsError as error:
            raise StorageError(f"{self.url}: somebody else has pushed meanwhile; push again") from error

    def _read(self, place: str) -> RemoteSnapshot:
        try:
            record: dict[str, Any] = json.loads(self._files.cat_file(place))
            checksum = record.pop("checksum", None)
            version = int(record["format"])
            if version > FORMAT:
                raise IndexMismatch(f"{place}: made by a newer lmkrag: upgrade")
            if version > 1 and checksum != checksum_of(record):
                raise IndexCorrupt(f"{place}: this manifest is damaged (checksum)")
            del record["format"]
            files = {str(name): Stored(**file) for name, file in record.pop("files").items()}
            found = RemoteSnapshot(files=files, **record)
            check_manifest(found)
            return found
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise IndexCorrupt(f"{place}: not a manifest ({error})") from error

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """What a file system raises, as one line of ours."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            why = str(error).strip().splitlines()
            raise StorageError(f"{self.url}: {why[0] if why else type(error).__name__}") from error
        except Exception as error:
            if not type(error).__module__.startswith(("botocore", "aiobotocore", "aiohttp", "s3fs")):
                raise
            raise StorageError(f"{self.url}: {str(error).splitlines()[0]}") from error


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Hold the lock of an index, if there is one."""
    if not index_exists(path):
        yield
        return
    with contextlib.closing(open_store(path)) as store, store.writing():
        yield


def _copy_catalog(connection: sqlite3.Connection, target: Path) -> None:
    """Copy the state that a connection reads; one file, without a write-ahead log."""
    with contextlib.closing(sqlite3.connect(target)) as copy:
        connection.backup(copy)
    with contextlib.closing(catalog.connect(target)) as copied:
        copied.execute("PRAGMA journal_mode = DELETE")
