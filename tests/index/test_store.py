import contextlib
import math
import multiprocessing
import os
import shutil
import sqlite3
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from lmkrag import Engine
from lmkrag.errors import (
    IndexCorrupt,
    IndexLocked,
    IndexMismatch,
    IndexNotFound,
    StorageError,
    UsageError,
)
from lmkrag.index import catalog, catalog_segments, files, live
from lmkrag.index.files import File, MappedFile
from lmkrag.index.staged import SentenceTable, Staged
from lmkrag.index.store import IndexStore
from lmkrag.index.vectors.recipes import load_recipe
from lmkrag.index.verify import find_problems
from lmkrag.index.words.postings import PostingsBuilder
from lmkrag.language.question import Question
from lmkrag.language.terms import query_words, split_words
from lmkrag.search.request import SearchRequest
from lmkrag.search.searcher import SearchQuestion, find_spans
from lmkrag.sentences.split import split_sentences
from lmkrag.sentences.structure import LEAD_IN, NO_CONTENT, ParagraphTracker, StructureTable
from lmkrag.specs import EncoderSpec
from lmkrag.types import Document

SPEC = EncoderSpec(name="test", fingerprint="f", dimensions=8)


def vector_of(text: str) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(text.encode("utf-8", "surrogatepass")))
    vector = rng.standard_normal(8).astype(np.float32)
    return vector / np.linalg.norm(vector)


def with_kinds(sentences: list[str]) -> list[tuple[str, str]]:
    return [
        (sentence, "heading" if sentence.lstrip().startswith("#") else "text")
        for sentence in sentences
    ]


def have_content(sentences: list[str]) -> list[bool]:
    """Those with a word, but no heading that text follows."""
    kinds = [kind for _, kind in with_kinds(sentences)]
    return [
        bool(split_words(sentence)) and not (kind == "heading" and "text" in kinds[number:])
        for number, (sentence, kind) in enumerate(zip(sentences, kinds, strict=True))
    ]


def stage(
    store: IndexStore,
    *documents: list[str],
    paragraphs: ParagraphTracker | None = None,
    title: str = "",
):
    words, structure = PostingsBuilder(), StructureTable()
    for sentences in documents:
        words.add(sentences, title=title)
        structure.add(with_kinds(sentences), paragraphs or ParagraphTracker())
    vectors = np.array([vector_of(sentence) for sentences in documents for sentence in sentences])
    return store.stage_segment([vectors], words.take(len(words)), structure.take(len(structure)))


def first_of_paragraphs(sentences: list[str]) -> list[int]:
    tracker = ParagraphTracker()
    return [
        number - tracker.position(sentence, heading=kind == "heading")
        for number, (sentence, kind) in enumerate(with_kinds(sentences))
    ]


def put(store: IndexStore, texts: dict[str, str]) -> None:
    staged, pieces = [], []
    for doc_id, text in texts.items():
        sentences = split_sentences(text)
        document = Document(doc_id=doc_id, path=doc_id, text=text, fingerprint="f")
        staged.append(Staged(document, text, SentenceTable.of(sentences), "", (len(text), 0)))
        pieces.append([text[s.start : s.end] for s in sentences])
    with store.writing():
        store.commit(staged, [stage(store, *pieces)] if pieces else [])


def contents(store: IndexStore) -> dict[str, str]:
    with store.reader.snapshot() as snapshot:
        rows = list(snapshot.all_documents())
        return {
            row.doc_id: catalog.read_text(snapshot.connection, row, 0, row.length) for row in rows
        }


def check_against(store: IndexStore, model: dict[str, str]) -> None:
    """The store holds exactly the model: texts, vectors, lexical entries."""
    assert find_problems(store) == ()
    assert contents(store) == model
    with store.reader.snapshot() as snapshot:
        for row in snapshot.all_documents():
            text = model[row.doc_id]
            sentences = [text[s.start : s.end] for s in split_sentences(text)]
            ids = np.arange(row.first_sentence, row.first_sentence + row.sentences)
            expected = np.array([vector_of(sentence) for sentence in sentences])
            np.testing.assert_allclose(snapshot.read_vectors(ids), expected, atol=2e-3)
            matches = snapshot.search(
                expected[0], query_words("alpha"), mode="hybrid", top_k=10_000
            )
            assert set(ids.tolist()) <= set(matches.sentences.tolist())
            owners = snapshot.documents.owners(matches.sentences)
            described = snapshot.describe(matches.sentences, owners, expected[0], matches)
            mine = described.documents == row.id
            paragraphs = described.paragraphs[mine] - row.first_sentence
            np.testing.assert_array_equal(paragraphs, first_of_paragraphs(sentences))
            assert ((described.roles[mine] & NO_CONTENT) == 0).tolist() == have_content(sentences)
            lead_in = [
                s.rstrip().endswith((":", "?")) and kind != "heading"
                for s, kind in with_kinds(sentences)
            ]
            assert ((described.roles[mine] & LEAD_IN) != 0).tolist() == lead_in
            np.testing.assert_allclose(described.dense[mine], expected @ expected[0], atol=4e-3)
            _, found = snapshot.search_dense(expected[:1], 1)
            assert snapshot.documents.owners(found[0])[0] >= 0
        for word in ("alpha", "beta", "gamma"):
            ids, _ = snapshot.search_lexical(snapshot.find_terms(query_words(word)), 10_000)
            keys = snapshot.documents.keys[snapshot.documents.owners(ids)]
            names = {
                row.doc_id
                for row in catalog.read_documents(snapshot.connection, set(keys.tolist())).values()
            }
            assert names == {doc_id for doc_id, text in model.items() if word in text}


@pytest.fixture
def store(tmp_path):
    store = IndexStore.create(tmp_path / "index", encoder=SPEC)
    yield store
    store.close()


TEXTS = st.lists(
    st.sampled_from(
        [
            "alpha one.",
            "beta two!",
            "gamma — three?",
            "日本語。",
            "\ufffd x.",
            "a\0b.",
            "\n\n",
            "\nWe say:\n\n",
            "\n# alpha\n",
            "\n# —\n\n",
        ]
    ),
    min_size=1,
    max_size=6,
).map(" ".join)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"), st.dictionaries(st.sampled_from("abcd"), TEXTS, min_size=1, max_size=3)
        ),
        st.tuples(st.just("remove"), st.sampled_from("abcd")),
        st.tuples(st.sampled_from(["compact", "merge", "reopen"]), st.none()),
    ),
    max_size=12,
)


@given(STEPS)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_sequence_of_writes_leaves_exactly_what_was_written(tmp_path, steps):
    path = tmp_path / "model-based"
    shutil.rmtree(path, ignore_errors=True)
    store = IndexStore.create(path, encoder=SPEC)
    model: dict[str, str] = {}
    for step, value in steps:
        if step == "put":
            put(store, value)
            model.update(value)
        elif step == "remove":
            with store.writing():
                store.commit([], removed=[value])
            model.pop(value, None)
        elif step == "reopen":
            store.close()
            store = IndexStore.open(path)
        else:
            with store.writing():
                store.compact() if step == "compact" else store.merge_small()
    check_against(store, model)
    store.close()


def test_many_segments_are_merged_and_compaction_drops_the_dead(store):
    model = {f"d{i}": f"alpha no{i} here! beta no{i} there." for i in range(12)}
    for doc_id, text in model.items():
        put(store, {doc_id: text})
    assert store.status().segments == 12
    with store.writing():
        store.merge_small()
    assert store.status().segments < 12
    check_against(store, model)
    with store.writing():
        store.commit([], removed=["d3", "d4"])
    assert store.status().dead == 4
    with store.writing():
        store.compact()
    del model["d3"], model["d4"]
    assert (store.status().dead, store.status().segments) == (0, 1)
    check_against(store, model)
    assert len(list((store.path / "segments").iterdir())) == 3


def test_segments_grow_in_number_as_the_logarithm_of_the_sentences(store, monkeypatch):
    monkeypatch.setattr(live, "_SMALL", 2)
    monkeypatch.setattr(live, "_FACTOR", 3)
    written, merge = [0], store._merge

    def count(group, sentences):
        written[0] += sum(live.alive for live in group)
        merge(group, sentences)

    monkeypatch.setattr(store, "_merge", count)
    model = {f"d{i:02}": f"alpha no{i} here! beta no{i} there." for i in range(81)}
    for number, (doc_id, text) in enumerate(model.items(), 1):
        put(store, {doc_id: text})
        with store.writing():
            store.merge_small()
        with store.reader.snapshot() as snapshot:
            assert len(snapshot.segments) <= 2 * (1 + math.log(number, 3))
    assert (len(snapshot.segments), written[0]) == (
        1,
        4 * 162,
    )  # each row four times: 81 is three to the fourth
    check_against(store, model)


def test_exact_segments_get_clusters_when_the_index_outgrows_them(tmp_path):
    clusters = tmp_path / "clusters.toml"
    clusters.write_text('factory = "IVF2,SQfp16"\nminimum = 20')
    recipe = replace(load_recipe("auto"), tiers=((45, "flat"), (0, str(clusters))))

    def read_segments():
        with index.reader.snapshot() as snapshot:
            return {
                part.segment.file.name: (part.alive, part.segment.file.recipe.name)
                for part in snapshot.segments
            }

    model = {f"d{i:02}": f"alpha no{i} here! beta no{i} there." for i in range(40)}
    with contextlib.closing(
        IndexStore.create(tmp_path / "index", encoder=SPEC, recipe=recipe)
    ) as index:
        for first, stop in ((0, 20), (20, 25), (25, 40)):
            put(index, dict(list(model.items())[first:stop]))
        assert sorted(read_segments().values()) == [(10, "flat"), (30, "clusters"), (40, "flat")]
        with index.writing():
            index.merge_small()
        merged = read_segments()
        assert sorted(merged.values()) == [(10, "flat"), (30, "clusters"), (40, "clusters")]
        with index.writing():
            index.merge_small()
        assert read_segments() == merged
        check_against(index, model)


def test_words_are_merged_a_share_at_a_time(store, monkeypatch):
    monkeypatch.setattr("lmkrag.index.words.postings._AT_ONCE", 5)
    model = {f"d{i:02}": f"alpha no{i} here! beta no{i} there." for i in range(9)}
    for doc_id, text in model.items():
        put(store, {doc_id: text})
    with store.writing():
        store.commit([], removed=["d03"])
        store.compact()
    check_against(store, {doc_id: text for doc_id, text in model.items() if doc_id != "d03"})


def test_titles_are_known_by_their_words(store):
    titles = ["Elm Park", "the Rules of Elm Park", "", "Ω"]
    with store.writing():
        for number, title in enumerate(titles):
            document = Document(f"d{number}", "p", "One. Elm.", title=title)
            sentences = SentenceTable.of(split_sentences(document.text))
            staged = Staged(document, document.text, sentences, "", (1, 1))
            store.commit([staged], [stage(store, ["One.", "Elm."], title=title)])
    expectations: list[tuple[str, list[float]]] = [
        ("parks of elm", [1, 2 / 3, 0, 0]),
        ("rule", [0, 1 / 3, 0, 0]),
        ("", [0, 0, 0, 0]),
    ]
    for _ in range(2):
        for asked, expected in expectations:
            with store.reader.snapshot() as snapshot:
                lengths = snapshot.titles_with(query_words(asked), np.arange(4))
                shares = (lengths > 0).sum(0) / np.maximum(lengths.max(0, initial=1), 1)
                found, _ = snapshot.search_lexical(snapshot.find_terms(query_words("park")), 5)
            np.testing.assert_allclose(shares, expected, rtol=1e-6)
            assert not len(found)  # a title is no sentence
        with store.writing():
            store.compact()


def test_neighbours_are_one_run(store):
    for number in range(0, 30, 10):
        put(store, {f"d{each:02}": f"alpha {each}. beta." for each in range(number, number + 10)})

    def count_runs() -> list[int]:
        with store.reader.snapshot() as snapshot:
            return [len(runs) for _, runs in catalog_segments.read_segments(snapshot.connection)]

    assert count_runs() == [1, 1, 1]
    with store.writing():
        store.commit([], removed=["d07", "d08", "d20"])
    with store.reader.snapshot() as snapshot:
        assert [live.runs.tolist() for live in snapshot.segments] == [
            [[0, 1, 7], [9, 10, 1]],
            [[0, 11, 10]],
            [[1, 22, 9]],
        ]
    with store.writing():
        store.compact()
    assert count_runs() == [3]
    check_against(
        store, {f"d{n:02}": f"alpha {n}. beta." for n in range(30) if n not in (7, 8, 20)}
    )


def test_what_could_not_be_read_back_is_not_written(store, monkeypatch):
    monkeypatch.setattr("lmkrag.index.codec._MAX_UNPACKED", 10_000)
    put(store, {f"d{number}": "alpha." for number in range(400)})
    with pytest.raises(
        UsageError, match="sentences 401 0: 20,013 bytes are more than an index holds in one place"
    ):
        monkeypatch.setattr("lmkrag.index.catalog.SENTENCES_PER_BLOCK", 8_192)
        put(store, {"long": "alpha. " * 4_001})
    check_against(store, {f"d{number}": "alpha." for number in range(400)})


def hash_word(word: str) -> int:
    return int(query_words(word)[0])


def test_a_document_may_spread_over_segments(store):
    text = "alpha one! beta two! gamma three! alpha four."
    sentences = split_sentences(text)
    pieces = [text[s.start : s.end] for s in sentences]
    staged = Staged(Document("a", "a", text), text, SentenceTable.of(sentences), "", (1, 1))
    tracker = ParagraphTracker()
    with store.writing():
        parts = [stage(store, part, paragraphs=tracker) for part in (pieces[:3], pieces[3:])]
        store.commit([staged], parts)
    check_against(store, {"a": text})


def test_a_commit_with_too_few_vectors_changes_nothing(store):
    put(store, {"a": "alpha."})
    text = "beta! gamma."
    staged = Staged(
        Document("b", "b", text), text, SentenceTable.of(split_sentences(text)), "", (1, 1)
    )
    with pytest.raises(ValueError, match="fewer vectors"), store.writing():
        store.commit([staged], [])
    check_against(store, {"a": "alpha."})


def test_a_reader_keeps_its_snapshot_while_a_writer_replaces_and_compacts(store):
    put(store, {"a": "alpha old."})
    other = IndexStore.open(store.path)
    with other.reader.snapshot() as snapshot:
        put(store, {"a": "beta new.", "b": "gamma."})
        with store.writing():
            store.compact()
        row = snapshot.find_document("a")
        assert catalog.read_text(snapshot.connection, row, 0, row.length) == "alpha old."
        _, ids = snapshot.search_dense(vector_of("alpha old.")[None], 5)
        assert ids.tolist() == [[row.first_sentence]]
    assert contents(other) == {"a": "beta new.", "b": "gamma."}
    other.close()


def test_an_orphan_is_collected_by_the_next_writer(store):
    put(store, {"a": "alpha."})
    with store.writing():
        stage(store, ["lost"])
    assert len(list((store.path / "segments").iterdir())) == 6
    with store.writing():
        pass
    assert len(list((store.path / "segments").iterdir())) == 3
    check_against(store, {"a": "alpha."})


def _hold(path, locked, release):
    with IndexStore.open(path).writing():
        locked.set()
        release.wait(30)


def test_a_second_writer_gets_a_clear_error_and_a_dead_one_blocks_nobody(store):
    context = multiprocessing.get_context("spawn")
    locked, release = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(store.path, locked, release))
    process.start()
    try:
        assert locked.wait(60)
        with (
            pytest.raises(IndexLocked, match="another process is writing to this index"),
            store.writing(),
        ):
            pass
        process.kill()
        process.join(10)
        with store.writing():
            pass
    finally:
        process.kill()


def test_opening_what_is_not_there(tmp_path):
    with pytest.raises(IndexNotFound, match="no index here; make one with: lmkrag index"):
        IndexStore.open(tmp_path)


def test_creating_in_a_full_directory(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match="not empty and not an index"):
        IndexStore.create(tmp_path, encoder=SPEC)


def test_creating_goes_on_where_a_killed_process_left_off(tmp_path):
    (tmp_path / "segments").mkdir()
    (tmp_path / "write.lock").touch()
    (tmp_path / "catalog.new").write_bytes(b"half of a catalog")
    store = IndexStore.create(tmp_path, encoder=SPEC)
    put(store, {"a": "alpha."})
    check_against(store, {"a": "alpha."})
    assert {path.name for path in tmp_path.iterdir()} >= {"catalog.sqlite", "segments"}
    store.close()


def test_a_newer_format_is_refused(store):
    with sqlite3.connect(store.path / "catalog.sqlite") as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    with pytest.raises(IndexMismatch, match="format 99 of a newer lmkrag"):
        IndexStore.open(store.path)


def test_a_catalog_that_is_none(store):
    store.close()
    for path in store.path.glob("catalog.sqlite*"):
        path.unlink()
    (store.path / "catalog.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(IndexCorrupt, match="the catalog can't be read"):
        IndexStore.open(store.path)


STATEMENTS = {
    "text": "UPDATE text_block SET data = x'00'",
    "text of another": "UPDATE text_block SET data = (SELECT data FROM text_block ORDER BY document DESC LIMIT 1)",
    "sentences": "DELETE FROM sentence_block WHERE document = 1",
    "windows": "INSERT INTO window_list VALUES (1, x'0011223344556677889900')",
    "runs": "UPDATE segment SET runs = substr(runs, 1, 10)",
    "a segment's facts": "UPDATE segment SET facts = replace(facts, '3', '4')",
    "a lost segment": "DELETE FROM segment",
    "title": "UPDATE document SET title = 'x'",
    "checksum": "UPDATE document SET content_checksum = 'x'",
    "a lost document": "PRAGMA foreign_keys = OFF; DELETE FROM document WHERE id = 1",
    "a moved document": "UPDATE document SET first_sentence = 7 WHERE id = 2",
    "encoder": "UPDATE meta SET value = replace(value, 'test', 'rest') WHERE key = 'encoder'",
    "list of documents": "UPDATE meta SET value = 'x' WHERE key = 'live_documents'",
}


@pytest.mark.parametrize("damage", [*STATEMENTS, ".faiss", ".words", ".structure"])
def test_verify_finds_damage(store, damage):
    put(store, {"a": "alpha one! beta two.", "b": "gamma."})
    if damage.startswith("."):
        path = next((store.path / "segments").glob(f"*{damage}"))
        path.write_bytes(path.read_bytes()[:-1])
    else:
        with sqlite3.connect(store.path / "catalog.sqlite") as connection:
            connection.executescript(STATEMENTS[damage])
    if damage == "encoder":
        with pytest.raises(IndexCorrupt, match=r"record of the encoder and recipe is damaged"):
            IndexStore.open(store.path)
        return
    fresh = IndexStore.open(store.path)
    problems = find_problems(fresh)
    assert problems
    assert all("\n" not in problem for problem in problems)
    fresh.close()


def test_a_file_is_compared_with_its_checksum_when_it_is_first_used(store):
    put(store, {"a": "alpha one! beta two.", "b": "gamma."})
    path = next((store.path / "segments").glob("*.faiss"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with (
        contextlib.closing(IndexStore.open(store.path)) as other,
        other.reader.snapshot() as snapshot,
    ):
        ids, _ = snapshot.search_lexical(snapshot.find_terms(query_words("gamma")), 5)
        assert len(ids) == 1
        with pytest.raises(IndexCorrupt, match=r"\.faiss: this file is damaged \(checksum\)"):
            snapshot.search_dense(vector_of("gamma.")[None], 1)


def test_files_with_one_checksum_for_all_are_read_merged_and_compared(store):
    texts = {"a": "alpha one! beta two.", "b": "gamma."}
    put(store, texts)
    right = search(store.path)
    with store.writing(), store.transaction() as connection:
        for file, runs in catalog_segments.read_segments(connection):
            parts = []
            for name, part in file.files.items():
                path = store.path / "segments" / name
                data = bytes(MappedFile(path, part).read())
                path.write_bytes(data)
                parts.append(File(len(data), xxh3_128_hexdigest(data)))
            catalog_segments.delete_segment(connection, file.name)
            old = replace(file, vectors=parts[0], words=parts[1], structure=parts[2])
            catalog_segments.insert_segment(connection, old, runs)
        catalog.next_generation(connection)
    store.close()
    assert search(store.path) == right
    with contextlib.closing(IndexStore.open(store.path)) as other:
        put(other, {"c": "alpha beta gamma."})
        check_against(other, {**texts, "c": "alpha beta gamma."})
    path = max((store.path / "segments").glob("*.words"), key=lambda path: path.stat().st_size)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with contextlib.closing(IndexStore.open(store.path)) as other:
        assert any(".words: this file is damaged" in problem for problem in find_problems(other))
        with pytest.raises(IndexCorrupt, match=r"\.words: this file is damaged"), other.writing():
            other.compact()


def search(path) -> list[tuple]:
    """What a reader sees of a small index, by each way in; an error counts as seen."""
    store = IndexStore.open(path)
    try:
        seen: list[tuple] = []
        with store.reader.snapshot() as snapshot:
            query = vector_of("alpha one.")
            for mode in ("dense", "lexical", "hybrid"):
                question = SearchQuestion(read=Question.read("beta gamma"), vector=query)
                spans = find_spans(snapshot, question, SearchRequest(mode=mode, top_k=5))
                seen += [
                    (s.doc_id, s.path, s.start, s.end, s.text, s.page, round(s.score, 6))
                    for s in spans
                ]
        return seen
    finally:
        store.close()


@pytest.mark.parametrize(
    ("recipe", "block"), [("flat", files._BLOCK), ("flat", 64), ("ivf-sq8", 64)]
)
def test_a_flipped_byte_anywhere_is_never_a_wrong_answer(
    store, tmp_path, recipe, block, monkeypatch
):
    monkeypatch.setattr(files, "_BLOCK", block)
    store.recipe = replace(
        load_recipe(recipe), minimum=20, search={"nprobe": 2} if recipe == "ivf-sq8" else {}
    )
    put(store, {"a": "alpha one! beta two. " * 40, "b": "gamma three. " * 30})
    put(store, {"c": "alpha beta gamma."})
    with store.writing():
        store.commit([], removed=["a"])
    whole = contents(store)
    store.close()
    right = search(store.path)
    written = {
        path.relative_to(store.path): path.read_bytes()
        for path in sorted(store.path.rglob("*"))
        if path.is_file() and path.suffix in (".faiss", ".words", ".structure", ".sqlite")
    }
    rng = np.random.default_rng(int(os.environ.get("LMKRAG_TEST_SEED", "0")))
    reported = 0
    for trial in range(int(os.environ.get("LMKRAG_TEST_FLIPS", "100"))):
        name = sorted(written)[trial % len(written)]
        data = bytearray(written[name])
        place = int(rng.integers(len(data)))
        data[place] ^= 1 << int(rng.integers(8))
        copy = tmp_path / "flipped"
        for other, content in written.items():
            (copy / other).parent.mkdir(parents=True, exist_ok=True)
            (copy / other).write_bytes(data if other == name else content)
        try:
            seen = search(copy)
        except StorageError:
            reported += 1
            seen = right
        assert seen == right, f"byte {place} of {name}"
        try:
            opened = IndexStore.open(copy)
            problems = find_problems(opened)
            texts = {} if problems else contents(opened)
            opened.close()
        except StorageError:
            problems = ("can't be opened",)
        assert problems or texts == whole, f"byte {place} of {name}"
        assert problems or name.suffix == ".sqlite"
        shutil.rmtree(copy)
    assert reported > 30


QUOTED = "alpha drop table a b. 日本語です。"


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "a OR b",
        "NEAR(a b)",
        "*",
        "(",
        "col:x",
        "-- drop",
        "'; DROP TABLE meta;",
        "\0",
        "\ud800",
        "日本",
    ],
)
def test_query_syntax_is_only_words(store, query):
    put(store, {"a": QUOTED})
    wanted = {hash_word(word) for word in split_words(query)} & {
        hash_word(word) for word in split_words(QUOTED)
    }
    with store.reader.snapshot() as snapshot:
        ids, _ = snapshot.search_lexical(snapshot.find_terms(query_words(query)), 5)
    assert bool(len(ids)) == bool(wanted)


def test_cjk_words_are_found_inside_a_run(store):
    put(store, {"a": "東京都に住む。", "b": "alpha."})
    with store.reader.snapshot() as snapshot:
        ids, scores = snapshot.search_lexical(snapshot.find_terms(query_words("京都")), 5)
        assert len(ids) == 1
        assert scores[0] > 0


def test_documents_survive_whole(store):
    text = "x" * 40_000 + " end. " + "日本語。" * 10_000
    document = replace(
        Document("a", "/p", text), title="T", meta={"k": [1]}, page_starts=(0, 5), fingerprint="f"
    )
    sentences = split_sentences(text)
    pieces = [text[s.start : s.end] for s in sentences]
    with store.writing():
        store.commit(
            [Staged(document, text, SentenceTable.of(sentences), "/root", (3, 4))],
            [stage(store, pieces)],
        )
    with store.reader.snapshot(segments=False) as snapshot:
        row = snapshot.find_document("a")
    assert (row.title, row.meta, row.page_starts, row.root, row.size, row.mtime_ns) == (
        "T",
        {"k": [1]},
        (0, 5),
        "/root",
        3,
        4,
    )
    with store.reader.snapshot() as snapshot:
        for start, end in [(0, 10), (16_380, 16_390), (39_000, 50_000), (len(text) - 3, len(text))]:
            assert catalog.read_text(snapshot.connection, row, start, end) == text[start:end]


def test_an_index_with_shards_says_what_to_do(tmp_path, lmkrag):
    """As a development version made it."""
    (tmp_path / "shards.json").write_text('{"format": 1, "folder": "shards-2", "shards": 2}')
    refused = f"{tmp_path}: an index with shards, which lmkrag no longer reads: index the sources again, elsewhere"
    for create in (False, True):
        with pytest.raises(IndexMismatch) as error:
            Engine.open(tmp_path, create=create)
        assert str(error.value) == refused
    for command in (("search", "leave"), ("status",), ("index-tools", "reindex")):
        done = lmkrag(*command, "--index", tmp_path)
        assert (done.returncode, done.stderr) == (1, f"lmkrag: {refused}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["shards.json"]
