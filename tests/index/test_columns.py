"""Columns of documents say what their rows say, whatever was written, and filters read them alone."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from lmkrag import Document
from lmkrag.errors import IndexCorrupt
from lmkrag.index import codec
from lmkrag.index.columns import fields_of
from lmkrag.index.ranges import expand_ranges
from lmkrag.index.staged import SentenceTable, Staged
from lmkrag.index.store import IndexStore
from lmkrag.index.verify import find_problems
from lmkrag.search.filters import filter_files, parse_filter
from lmkrag.search.selection import list_documents
from lmkrag.sentences.split import split_sentences
from tests.index.test_store import SPEC, stage

METAS = [
    {"Year": 1911, "tags": ["x", ["y", 2]], "draft": True},
    {"year": "1912", "tags": [], "draft": 1, "author": "Ann\0\ud800"},
    {"year": 1.0, "tags": None, "draft": "true", "title": "front"},
    {"YEAR": 1913.5, "tags": {"a": [1]}, "scanned_pages": [1, 4]},
    {
        "tags": [None, "z"],
        "date": "2020-03-01",
        "scanned_pages": [2],
        "author": "Ann\nΟΔΟΣ\nb",
        "ocr_confidence": 0.5,
    },
    {},
]
EXPRESSIONS = [
    *(
        "kind=pdf",
        "year>=1912",
        "year<1912",
        "year!=1911",
        "not year=1911",
        'year="1.0"',
        "tags=y",
        "tags=2",
        "tags!=x",
    ),
    *(
        'tags=""',
        "tags=*",
        "tags>=a",
        "draft=true",
        "draft=1",
        "missing!=3",
        "missing=*",
        "title=front",
        "title=t*",
    ),
    *(
        "path=docs",
        "path=docs/a",
        "path=docs/*",
        "path=*3.md",
        "path in (docs/b, nowhere)",
        "doc_id=docs/a/*",
    ),
    *(
        "kind=pdf and not (tags=x or year>1912)",
        "kind not in (pdf, text) or author=ann*",
        "modified=1970-01",
        'author="Ann\nΟΔΟΣ\nb"',
        'title="T1\nT2"',
        "author in (*οδος?b, ann)",
        "root=/r",
    ),
    filter_files(include=["docs/a/"], exclude=["*1.md"]),
    filter_files(path="docs/b"),
]


@pytest.fixture
def store(tmp_path):
    with closing(IndexStore.create(tmp_path / "index", encoder=SPEC)) as store:
        yield store


def put(store, numbers):
    staged = []
    for number in numbers:
        name = f"docs/{'ab'[number % 2]}/{number}.md"
        document = Document(
            name,
            "/r/" + name,
            "alpha.",
            f"T{number % 5}",
            ("pdf", "text", "code")[number % 3],
            meta=METAS[number % 6],
        )
        sentences = SentenceTable.of(split_sentences("alpha."))
        staged.append(Staged(document, "alpha.", sentences, "/r", (6, 10**15 * (number % 4))))
    with store.writing():
        store.commit(staged, [stage(store, *[["alpha."]] * len(staged))])


def check(store):
    """Every filter keeps the documents whose rows pass it, in a state that was read piece by piece or at once."""
    assert find_problems(store) == ()
    with store.reader.snapshot() as snapshot:
        rows = list(snapshot.all_documents())
        assert snapshot.documents.keys.tolist() == sorted(row.id for row in rows)
        for expression in EXPRESSIONS:
            predicate = parse_filter(expression)
            expected = []
            for row in rows:
                fields = fields_of(row)
                if predicate(lambda key, test, fields=fields: np.array(test(fields.get(key)))):  # type: ignore[misc]
                    expected.append(row)
            kept = np.flatnonzero(predicate(snapshot.match_field))
            assert set(snapshot.documents.keys[kept].tolist()) == {row.id for row in expected}, (
                expression
            )
            names = [row.doc_id for row in expected]
            assert [info.doc_id for info in list_documents(snapshot, expression)] == names, (
                expression
            )
            assert [
                info.doc_id
                for info in list_documents(snapshot, expression, after="docs/a/3", limit=2)
            ] == [name for name in names if name > "docs/a/3"][:2]
    status = store.status()
    assert (status.documents, status.characters) == (len(rows), sum(row.length for row in rows))
    assert status.kinds == {
        kind: n for kind in ("code", "pdf", "text") if (n := [r.kind for r in rows].count(kind))
    }
    assert status.roots == ({"/r": len(rows)} if rows else {})
    assert status.unread_pages == 2 * sum(row.meta == METAS[3] for row in rows)


def test_filters_keep_what_rows_say_whatever_was_written(store):
    check(store)
    put(store, range(40))
    check(store)
    put(store, range(500, 1_100))  # over several blocks
    put(store, [3, 4, 1_200])
    with store.writing():
        store.commit([], removed=["docs/a/0.md", "docs/b/5.md", "docs/b/599.md"])
    check(store)
    with store.writing():
        with store.reader.snapshot() as snapshot:
            row = snapshot.find_document("docs/b/7.md")
        store.note_files(touched=[(row.id, (6, 10**15))])
    check(store)
    with store.writing():
        store.commit(
            [], removed=[f"docs/{'ab'[number % 2]}/{number}.md" for number in range(500, 1_100)]
        )
    check(store)


@pytest.mark.parametrize(
    "change", ["DELETE FROM document_column WHERE name = 'kind'", "UPDATE document SET kind = 'x'"]
)
def test_columns_that_do_not_fit_are_reported(store, change):
    put(store, range(3))
    with closing(sqlite3.connect(store.path / "catalog.sqlite")) as connection, connection:
        connection.execute(change)
    assert find_problems(store)
    if "DELETE" in change:
        with (
            store.reader.snapshot() as snapshot,
            pytest.raises(IndexCorrupt, match="lost columns of documents"),
        ):
            snapshot.match_field("kind", lambda _: True)


def test_columns_with_all_numbers_in_json_are_read(store):
    """As lmkrag wrote them until 27 November 2026."""
    put(store, range(600))
    with closing(sqlite3.connect(store.path / "catalog.sqlite")) as connection, connection:
        rows = connection.execute(
            "SELECT name, block, data FROM document_column WHERE name != ''"
        ).fetchall()
        for name, block, data in rows:
            place = f"column {name} {block}"
            text, _, packed = codec.unpack(data, place).partition(b"\n")
            numbers = np.cumsum(np.frombuffer(packed, "<u2"), dtype="<u2").tolist()
            fields = {}
            for key, values in json.loads(text).items():
                counts, numbers = numbers[: len(values)], numbers[len(values) :]
                fields[key] = values, counts, numbers[: sum(counts)]
                numbers = numbers[sum(counts) :]
            assert numbers == []
            old = codec.pack(json.dumps(fields).encode(), place)
            connection.execute(
                "UPDATE document_column SET data = ? WHERE name = ? AND block = ?",
                (old, name, block),
            )
    check(store)


def test_expand_ranges_by_example():
    assert expand_ranges(np.array([5, 1]), np.array([2, 3])).tolist() == [5, 6, 1, 2, 3]
