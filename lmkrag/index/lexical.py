"""Lexical search: immutable postings of a segment's sentences, and BM25 over them.

A words file lies beside each vector file and has the same rows. It is a safetensors file, read by memory map: words are
their 64-bit hashes, sorted; each has its rows and how often it is in them. Of each row it has the number of its words,
its place in its paragraph, and whether it leads to what follows.
"""

import json
import re
import threading
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save
from Stemmer import Stemmer
from xxhash import xxh3_64_intdigest

from lmkrag.errors import IndexCorrupt
from lmkrag.index.checks import File, read_file, sync
from lmkrag.index.paragraphs import ParagraphTracker, introduces
from lmkrag.types import SentenceKind

Scores = NDArray[np.float32]
Rows = NDArray[np.int64]
Words = NDArray[np.uint64]
"""Hashes of words."""

K1, B = 1.2, 0.75
"""Saturation and length normalisation of BM25 (Robertson and Zaragoza, 2009)."""

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_WORD = re.compile(r"[^\W_]+")
_STOP_WORDS = frozenset(
    """a about after all also an and any are as at be because been before being between both but by can could did do
    does doing for from had has have having he her his how i if in into is it its me more most my no not of on or
    other our s she should so some such t than that the their them then there these they this those to under was we
    were what when where which while who whom why will with would you your""".split()
)
_LONGEST = 64  # characters of a word that count

HEADS, INTRODUCES = 1, 2
"""How a sentence leads to what follows: a heading that text follows in its paragraph; a colon or a question."""


def split_words(text: str) -> list[str]:
    """Return the words of a text, in lower case and without marks; a Chinese, Japanese or Korean character is one."""
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
        text = _CJK.sub(r" \g<0> ", unicodedata.normalize("NFC", text))
    return _WORD.findall(text.lower())


def query_words(query: str) -> Words:
    """Return the hashes of the words of a question, once each.

    English function words are left out, unless there are no others: BM25 gives them next to no weight, and each
    matches most of an index.
    """
    words = split_words(query)
    telling = [word for word in words if word not in _STOP_WORDS]
    return np.fromiter(dict.fromkeys(map(_hash_word, telling or words)), np.uint64)


_own = threading.local()  # a stemmer serves one thread


@lru_cache(1 << 17)
def _hash_word(word: str) -> int:
    if not hasattr(_own, "stemmer"):
        _own.stemmer = Stemmer("porter", 0)
    stem = _own.stemmer.stemWord(word[:_LONGEST])
    return xxh3_64_intdigest(stem.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Posting:
    """The sentences with one word: ``rows`` in increasing order, and how often it is in each."""

    rows: NDArray[np.uint32]
    counts: NDArray[np.uint8]


class WordCounter:
    """Gathers the words of sentences, row after row."""

    def __init__(self) -> None:
        """Start with no rows."""
        self._words: list[Words] = []
        self._lengths: list[int] = []
        self._places: list[int] = []
        self._leads: list[int] = []
        self._headings: list[int] = []  # rows without text after them so far

    def add(self, sentences: Iterable[tuple[str, SentenceKind]], paragraphs: ParagraphTracker) -> None:
        """Count the words of the next rows: sentences of the one document that ``paragraphs`` follows."""
        for text, kind in sentences:
            found = list(map(_hash_word, split_words(text)))
            self._words.append(np.array(found, np.uint64))
            self._lengths.append(len(found))
            self._places.append(paragraphs.place(text, heading=kind == "heading"))
            self._leads.append(INTRODUCES if introduces(text) else 0)
            self._note_heading(len(self._places) - 1, kind == "heading")

    def _note_heading(self, row: int, heading: bool) -> None:
        if self._places[row] == 0:
            self._headings = []
        if heading:
            self._headings.append(row)
            return
        for above in self._headings:
            self._leads[above] = HEADS
        self._headings = []

    def tables(self) -> dict[str, NDArray[Any]]:
        """Return the rows gathered as what a words file holds."""
        lengths = np.array(self._lengths, np.int64)
        words = np.concatenate([np.zeros(0, np.uint64), *self._words])
        rows = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
        order = np.argsort(words, kind="stable")
        words, rows = words[order], rows[order]
        new = np.ones(len(words), bool)
        new[1:] = (words[1:] != words[:-1]) | (rows[1:] != rows[:-1])
        first = np.flatnonzero(new)
        counts = np.diff(np.append(first, len(words)))
        return _tables(
            words[first],
            rows[first],
            np.minimum(counts, 255).astype(np.uint8),
            lengths,
            np.array(self._places, np.int64),
            np.array(self._leads, np.uint8),
        )


def _tables(
    words: Words,
    rows: NDArray[np.uint32],
    counts: NDArray[np.uint8],
    lengths: Rows,
    places: Rows,
    leads: NDArray[np.uint8],
) -> dict[str, Any]:
    known, starts = np.unique(words, return_index=True)
    return {
        "words": known,
        "starts": np.append(starts, len(words)).astype(np.int64),
        "rows": rows,
        "counts": counts,
        "lengths": np.minimum(lengths, 65_535).astype(np.uint16),
        "places": np.minimum(places, 65_535).astype(np.uint16),
        "leads": leads,
    }


def write_words(path: Path, tables: dict[str, NDArray[Any]]) -> File:
    """Write a words file and make it durable."""
    path.write_bytes(save(tables))
    sync(path)
    return File.of(path)


class Lexicon:
    """A words file opened for reading, memory-mapped."""

    def __init__(self, path: Path, file: File) -> None:
        """Check the file against its checksum and map it.

        Raises:
            IndexCorrupt: it is gone or not the one that was written.
        """
        data = read_file(path, file)
        try:
            tables = _map_tables(data)
            self._words: Words = tables["words"]
            self._starts, self._rows, self._counts = tables["starts"], tables["rows"], tables["counts"]
            self.lengths: NDArray[np.uint16] = tables["lengths"]
            self.places: NDArray[np.uint16] = tables["places"]
            self.leads: NDArray[np.uint8] = tables["leads"]
        except (ValueError, KeyError, TypeError) as error:
            raise IndexCorrupt(f"{path}: not a words file ({error})") from error

    def find(self, word: int) -> Posting:
        """Return where a word is; nowhere, perhaps."""
        place = int(np.searchsorted(self._words, np.uint64(word)))
        if place == len(self._words) or self._words[place] != word:
            place, first, stop = 0, 0, 0
        else:
            first, stop = int(self._starts[place]), int(self._starts[place + 1])
        return Posting(self._rows[first:stop], self._counts[first:stop])

    @cached_property
    def length(self) -> int:
        """The words of all sentences together."""
        return int(self.lengths.sum(dtype=np.int64))

    def entries(self) -> tuple[Words, NDArray[np.uint32], NDArray[np.uint8]]:
        """Return every (word, row, count), by word and row."""
        return np.repeat(self._words, np.diff(self._starts)), self._rows, self._counts


def merge_words(parts: Sequence[tuple[Lexicon, Rows]]) -> dict[str, NDArray[Any]]:
    """Return one file's tables for some rows of several, in order.

    Args:
        parts: (lexicon, rows to keep in increasing order), laid end to end.
    """
    words, rows, counts, before = [], [], [], 0
    lengths, places, leads = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.uint8)]
    for lexicon, kept in parts:
        place = np.full(len(lexicon.lengths), -1, np.int64)
        place[kept] = np.arange(before, before + len(kept))
        its_words, its_rows, its_counts = lexicon.entries()
        moved = place[its_rows]
        alive = moved >= 0
        words.append(its_words[alive])
        rows.append(moved[alive].astype(np.uint32))
        counts.append(its_counts[alive])
        lengths.append(lexicon.lengths[kept].astype(np.int64))
        places.append(lexicon.places[kept].astype(np.int64))
        leads.append(lexicon.leads[kept])
        before += len(kept)
    every = np.concatenate(words)
    order = np.argsort(every, kind="stable")
    return _tables(
        every[order],
        np.concatenate(rows)[order],
        np.concatenate(counts)[order],
        np.concatenate(lengths),
        np.concatenate(places),
        np.concatenate(leads),
    )


def weigh(matches: int, total: int) -> float:
    """Return the inverse document frequency of a word in ``matches`` of ``total`` sentences; never below 1e-6."""
    return max(1e-6, float(np.log((total - matches + 0.5) / (matches + 0.5))))


def score_texts(counts: NDArray[np.float64], weights: Sequence[float], lengths: Rows, average: float) -> Scores:
    """Return the BM25 scores ``[k]`` of some texts.

    Args:
        counts: ``[words, k]`` how often each word of a question is in each text.
        weights: of the words.
        lengths: ``[k]`` words of each text.
        average: words of a text, of all there are.
    """
    norm = _norm(lengths, average)
    scores: Scores = (np.array(weights) @ ((K1 + 1) * counts / (counts + norm))).astype(np.float32)
    return scores


def score_rows(
    postings: Sequence[Posting], weights: Sequence[float], lengths: NDArray[np.uint16], average: float
) -> tuple[Rows, Scores]:
    """Return every row that has a word, in no order, and its BM25 score.

    Args:
        postings: of each word of a question, in one lexicon.
        weights: of the words.
        lengths: ``[rows]`` words of each sentence.
        average: of all sentences searched.
    """
    total = np.zeros(len(lengths), np.float32)
    found = [np.zeros(0, np.uint32)]
    for posting, weight in zip(postings, weights, strict=True):
        rows, counts = posting.rows, posting.counts.astype(np.float32)
        norm = _norm(lengths[rows], average)
        before = total[rows]
        found.append(rows[before == 0])
        total[rows] = before + np.float32(weight * (K1 + 1)) * counts / (counts + norm)
    every = np.concatenate(found).astype(np.int64)
    return every, total[every]


def _norm(lengths: NDArray[Any], average: float) -> NDArray[Any]:
    """What BM25 adds to the count of a word in texts of some lengths."""
    return np.float32(K1 * (1 - B)) + np.float32(K1 * B / average) * lengths


def _map_tables(data: memoryview) -> dict[str, NDArray[Any]]:
    """Views into a safetensors file: eight bytes of length, a JSON header, the arrays."""
    kinds = {"U64": np.uint64, "I64": np.int64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8}
    size = int.from_bytes(data[:8], "little")
    header = json.loads(bytes(data[8 : 8 + size]))
    header.pop("__metadata__", None)
    body = data[8 + size :]
    return {
        name: np.frombuffer(body[slice(*facts["data_offsets"])], kinds[facts["dtype"]])
        for name, facts in header.items()
    }
