"""Look at a whole index: what it holds, and whether every file and row is what was written."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from lmkrag.errors import IndexCorrupt
from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.store import IndexStore, Snapshot
from lmkrag.index.vectors import Segment
from lmkrag.types import IndexStatus


def read_status(store: IndexStore) -> IndexStatus:
    """Return what an index holds, without reading its vectors."""
    with store.reading(vectors=False) as snapshot:
        documents = list(catalog.all_documents(snapshot.connection))
        segments = catalog.read_segments(snapshot.connection)
        version = int(catalog.read_meta(snapshot.connection)["format"])
    sentences = sum(row.sentences for row in documents)
    return IndexStatus(
        path=str(store.path),
        documents=len(documents),
        sentences=sentences,
        characters=sum(row.length for row in documents),
        dead=sum(file.rows for file, _ in segments) - sentences,
        segments=len(segments),
        bytes=sum(path.stat().st_size for path in store.path.rglob("*") if path.is_file()),
        recipe=store.recipe.name,
        encoder=store.encoder.name,
        fingerprint=store.encoder.fingerprint,
        dimensions=store.encoder.dimensions,
        version=version,
        kinds=dict(sorted(Counter(row.kind for row in documents).items())),
    )


def find_problems(store: IndexStore) -> tuple[str, ...]:
    """Check the catalog, each document against its checksum, each segment file, and that each sentence has a vector.

    Returns:
        One line a problem; empty when the index is whole.
    """
    try:
        with store.reading(vectors=False) as snapshot:
            return tuple(_problems(store, snapshot))
    except IndexCorrupt as error:
        return (str(error),)


def _problems(store: IndexStore, snapshot: Snapshot) -> Iterator[str]:
    connection = snapshot.connection
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield f"catalog: {line}"
    covered: Counter[int] = Counter()
    for file, runs in catalog.read_segments(connection):
        try:
            Segment(store.path / "segments" / file.name, file)
        except IndexCorrupt as error:
            yield str(error)
        for row, sentence, count in runs:
            if row + count > file.rows:
                yield f"segment {file.name}: a run reaches past its {file.rows} rows"
            covered.update(range(sentence, sentence + count))
    for document in catalog.all_documents(connection):
        yield from _document_problems(snapshot, document, covered)
    for sentence in sorted(key for key in covered if covered[key]):
        yield f"segments hold a vector of sentence {sentence}, which no document has"
        break


def _document_problems(snapshot: Snapshot, row: DocumentRow, covered: Counter[int]) -> Iterator[str]:
    first, stop = row.first_sentence, row.first_sentence + row.sentences
    if any(covered.pop(key, 0) != 1 for key in range(first, stop)):
        yield f"document {row.doc_id!r}: not every sentence has exactly one vector"
    sentences = catalog.read_sentences(snapshot.connection, first, stop)
    borders = [0, *(end for _, _, end in sentences)]
    tiled = all(start == before for (_, start, _), before in zip(sentences, borders, strict=False))
    if len(sentences) != row.sentences or borders[-1] != row.length or not tiled:
        yield f"document {row.doc_id!r}: its sentences do not tile its text"
    if any(left >= right for left, right in pairwise(borders)):
        yield f"document {row.doc_id!r}: a sentence is empty"
    try:
        text = catalog.read_text(snapshot.connection, row, 0, row.length)
    except IndexCorrupt as error:
        yield str(error)
        return
    if catalog.checksum_document(row.doc_id, text, borders[1:]) != row.checksum:
        yield f"document {row.doc_id!r}: its checksum is wrong"
