import contextlib
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from lmkrag.errors import IndexCorrupt
from lmkrag.index import files
from lmkrag.index.files import MappedFile, read_tables, write_tables
from lmkrag.index.words.lexical import K1, B, inverse_document_frequency, score_rows
from lmkrag.index.words.postings import Postings, PostingsBuilder, merge_postings
from lmkrag.language.terms import drop_stop_words, find_stems, hash_words, query_words, split_words

SENTENCES = st.lists(
    st.lists(st.sampled_from(["alpha", "beta", "betas", "the", "Gamma", "delta"]), max_size=6).map(
        " ".join
    ),
    min_size=1,
    max_size=12,
)


def opened(path, tables) -> Postings:
    return Postings(MappedFile(path, write_tables(path, tables)))


def counted(sentences: list[str]) -> dict:
    words = PostingsBuilder()
    words.add(sentences)
    return words.take(len(words))


def bm25(sentences: list[str], query: str) -> list[float]:
    """The textbook formula, word by word."""
    stemmed = [[word.rstrip("s") for word in split_words(sentence)] for sentence in sentences]
    terms = dict.fromkeys(word.rstrip("s") for word in split_words(query))
    average = sum(map(len, stemmed)) / len(stemmed)
    scores = []
    for words in stemmed:
        counts, score = Counter(words), 0.0
        for term in terms:
            matches = sum(term in other for other in stemmed)
            weight = max(1e-6, math.log((len(stemmed) - matches + 0.5) / (matches + 0.5)))
            if counts[term]:
                norm = K1 * (1 - B + B * len(words) / average)
                score += weight * counts[term] * (K1 + 1) / (counts[term] + norm)
        scores.append(score)
    return scores


@given(SENTENCES, st.sampled_from(["alpha", "betas delta", "gamma alpha beta"]))
@settings(max_examples=60, deadline=None)
def test_scores_are_those_of_the_formula(tmp_path_factory, sentences, query):
    file = opened(tmp_path_factory.mktemp("words") / "w.words", counted(sentences))
    postings = file.find(query_words(query))
    weights = [
        inverse_document_frequency(len(posting.rows), len(sentences)) for posting in postings
    ]
    rows, scores = score_rows(
        postings, weights, file.lengths, max(1e-9, int(file.before[-1]) / len(sentences))
    )
    found = np.zeros(len(sentences))
    found[rows] = scores
    assert len(set(rows.tolist())) == len(rows)
    np.testing.assert_allclose(
        found, bm25(sentences, query) if int(file.before[-1]) else 0, rtol=1e-5
    )


@given(st.lists(st.tuples(SENTENCES, st.integers(0, 2**12 - 1)), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_merged_words_are_those_of_the_rows_kept(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("words")
    kept = [np.array([i for i in range(len(s)) if bits >> i & 1], np.int64) for s, bits in parts]
    files = [opened(folder / f"{i}.words", counted(s)) for i, (s, _) in enumerate(parts)]
    merged = merge_postings(list(zip(files, kept, strict=True)), tmp_path_factory.getbasetemp())
    expected = counted([s[i] for (s, _), rows in zip(parts, kept, strict=True) for i in rows])
    for name, table in expected.items():
        np.testing.assert_array_equal(merged[name], table)
        assert merged[name].dtype == table.dtype


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("Valve VX-1007.", ["vx-1007"]),
        ("since 3.6, in v2.1.0-rc1", ["3.6", "v2.1.0-rc1", "2.1.0-rc1"]),
        ("V2.0.13 and v2x.1", ["v2.0.13", "2.0.13", "v2x.1"]),
        ("call Z_SYNC_FLUSH on db.internal", ["z_sync_flush", "db.internal"]),
        ("std::vector2 and foo/bar.py", ["foo/bar.py"]),
        ("well-known, e.g. U.S. and/or", []),
        ("x" * 60 + "-1", []),
    ],
)
def test_identifiers_come_whole_after_their_parts(text, whole):
    words = split_words(text)
    assert [word for word in words if not word.isalnum()] == whole
    assert set(query_words(text).tolist()) <= set(hash_words(text).tolist())


def test_words_have_no_case_and_no_accents_and_cjk_characters_are_words():
    assert split_words("Café-au-LAIT, naïve_b 12") == [
        "cafe",
        "au",
        "lait",
        "naive",
        "b",
        "naive_b",
        "12",
    ]
    assert split_words("東京都に") == ["東", "京", "都", "に"]
    assert query_words("the runner runs").tolist() == query_words("RUNNER run").tolist()
    assert len(query_words("who is it")) == 3
    assert len(query_words("")) == 0


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        ("who approves the leave", ["approves", "leave"]),
        ("Wer genehmigt den Urlaub?", ["genehmigt", "urlaub"]),
        ("Was ist in der Kiste", ["kiste"]),
        ("Qui approuve les congés ?", ["approuve", "conges"]),
        ("¿Quién aprueba las vacaciones?", ["aprueba", "vacaciones"]),
        ("кто утверждает отпуск за границей", ["утверждает", "отпуск", "границеи"]),
        ("a die on the wheel", ["die", "wheel"]),
        ("who is it", []),
        ("", []),
    ],
)
def test_function_words_are_left_out_in_the_language_of_the_question(question, kept):
    assert drop_stop_words(split_words(question)) == kept


@given(st.text())
def test_words_that_are_kept_are_the_questions_in_order(question):
    words = iter(split_words(question))
    assert all(word in words for word in drop_stop_words(split_words(question)))


def test_a_file_that_is_none(tmp_path):
    path = tmp_path / "w.words"
    file = write_tables(path, counted(["alpha"]))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(IndexCorrupt, match=r"damaged \(checksum\); restore a backup"):
        Postings(MappedFile(path, file))


def test_of_postings_only_those_that_are_used_are_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_BLOCK", 64)
    sentences = [f"every word{number} is here" for number in range(300)]
    path = tmp_path / "w.words"
    file = write_tables(path, counted(sentences))
    assert load_file(path)["lengths"].tolist() == [4] * 300, "an ordinary safetensors file"
    whole = Postings(MappedFile(path, file))
    words = [hash_words(f"word{number}") for number in range(300)]
    data = bytearray(path.read_bytes())
    place, _ = read_tables(MappedFile(path, file)).arrays["rows"]
    data[place + 64] ^= 1  # a row of one of the first words, in a block of rows alone
    path.write_bytes(data)
    damaged, sound = Postings(MappedFile(path, file)), 0
    for word in words:
        with contextlib.suppress(IndexCorrupt):
            assert damaged.find(word)[0].rows.tolist() == whole.find(word)[0].rows.tolist()
            sound += 1
    assert 250 < sound < 300
    with pytest.raises(IndexCorrupt, match=r"w\.words: this file is damaged \(checksum\)"):
        damaged.entries(0, 2**64 - 1)


@given(SENTENCES, st.integers(0, 12))
@settings(deadline=None)
def test_rows_are_taken_in_parts(sentences, cut):
    words = PostingsBuilder()
    words.add(sentences)
    parts = [words.take(min(cut, len(sentences))), words.take(len(words))]
    for part, expected in zip(
        parts, [counted(sentences[:cut]), counted(sentences[cut:])], strict=True
    ):
        for name, table in expected.items():
            np.testing.assert_array_equal(part[name], table)


def test_split_words_by_example():
    assert split_words("Valve VX-1007, e.g. in well-known places.") == [
        "valve",
        "vx",
        "1007",
        "vx-1007",
        "e",
        "g",
        "in",
        "well",
        "known",
        "places",
    ]


def test_drop_stop_words_by_example():
    assert (
        drop_stop_words(["who", "approves", "the", "leave"]),
        drop_stop_words(["wer", "genehmigt", "den", "urlaub"]),
    ) == (["approves", "leave"], ["genehmigt", "urlaub"])


def test_find_stems_by_example():
    assert find_stems("Where are expired permits refused?") == ["expi", "perm", "refu"]
