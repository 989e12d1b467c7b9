"""Postings of a segment's sentences: an immutable file beside the vectors, with the same rows.

Words are their 64-bit hashes, sorted; each has its rows and how often it is in them. The words of a
document's title are in its first row, each under another hash, with the number of words of the
title as its count. The file also names the languages other than English by whose rules words were
stemmed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmkrag.index.files import MappedFile, Scratch, Tables, read_tables
from lmkrag.language.terms import STEMMERS, hash_words, query_words
from lmkrag.specs import CODE, ENGLISH
from lmkrag.system.processes import computed_once
from lmkrag.types.arrays import NO_IDS, Bytes, Hashes, Ids

_TITLE = np.uint64(0x9E3779B97F4A7C15)  # a word of a title has its hash, exclusive or this
_DEAD = np.uint32(2**32 - 1)  # instead of a row
_AT_ONCE = 1 << 21  # entries that are sorted in memory
_NO_WORDS: Hashes = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Posting:
    """The sentences that have a word.

    Attributes:
        rows: ``[n]`` uint32, increasing rows.
        counts: ``[n]`` uint8, how often the word stands in each, at most 255.
    """

    rows: NDArray[np.uint32]
    counts: Bytes


class PostingsBuilder:
    """Gathers the words of sentences, row after row."""

    def __init__(self) -> None:
        self._words: list[Hashes] = []
        self._titles: list[Hashes] = []
        self._languages: list[str] = []

    def add(self, sentences: Iterable[str], language: str = ENGLISH, title: str = "") -> None:
        """Add the texts of the next rows.

        Args:
            sentences: the texts, in order.
            language: their language (ISO 639-1), by whose rules words are stemmed, or ``code``.
            title: the title of the document that begins with the first of them; empty for none.
        """
        words = [hash_words(sentence, language) for sentence in sentences]
        self._words += words
        titles = [query_words(title)] if title and words else []
        self._titles += titles + [_NO_WORDS] * (len(words) - len(titles))
        self._languages += [language] * len(words)

    def __len__(self) -> int:
        return len(self._words)

    def take(self, rows: int) -> Tables:
        """Return the tables of the first rows, and keep the others."""
        taken, self._words = self._words[:rows], self._words[rows:]
        titles, self._titles = self._titles[:rows], self._titles[rows:]
        languages, self._languages = self._languages[:rows], self._languages[rows:]
        lengths = np.fromiter(map(len, taken), np.int64, len(taken))
        of_titles = np.fromiter(map(len, titles), np.int64, len(titles))
        words = np.concatenate([_NO_WORDS, *taken, *(title ^ _TITLE for title in titles)])
        owners = np.concatenate(
            [np.repeat(np.arange(rows, dtype=np.uint32), each) for each in (lengths, of_titles)]
        )
        order = np.argsort(words, kind="stable")
        words, owners = words[order], owners[order]
        new = np.ones(len(words), bool)
        new[1:] = (words[1:] != words[:-1]) | (owners[1:] != owners[:-1])
        first = np.flatnonzero(new)
        counts = np.diff(np.append(first, len(words)))
        counts = (
            np.where(order[first] < lengths.sum(), counts, of_titles[owners[first]])
            .clip(max=255)
            .astype(np.uint8)
        )
        distinct, sizes = np.unique(words[first], return_counts=True)
        return _tables(distinct, sizes, owners[first], counts, lengths.clip(max=65_535), languages)


def _tables(
    words: Hashes,
    sizes: Ids,
    rows: NDArray[np.uint32],
    counts: Bytes,
    lengths: NDArray[Any],
    languages: Iterable[str],
) -> Tables:
    """Return the tables of a postings file.

    Args:
        words: ``[w]`` uint64, increasing hashes of distinct words.
        sizes: ``[w]`` int64, number of rows of each word.
        rows: the rows of all words, end to end.
        counts: how often the word stands in each of these rows.
        lengths: number of words of each row of the segment.
        languages: languages of the rows.
    """
    named = " ".join(sorted(set(languages) & (STEMMERS.keys() | {CODE})))
    return {
        "words": words,
        "starts": np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
        "rows": rows,
        "counts": counts,
        "lengths": lengths.astype(np.uint16),
        "languages": np.frombuffer(named.encode("ascii"), np.uint8),
    }


class Postings:
    """A postings file opened for reading, memory-mapped.

    Attributes:
        lengths: ``[rows]`` uint16, number of words of each row.
        languages: languages other than English in which words were stemmed.
    """

    def __init__(self, file: MappedFile) -> None:
        self._tables = tables = read_tables(file)
        self._words: Hashes = tables["words"]
        self._starts: Ids = tables["starts"]
        self.lengths: NDArray[np.uint16] = tables["lengths"]
        self.languages = frozenset(tables["languages"].tobytes().decode("ascii").split())

    def find(self, words: Hashes) -> list[Posting]:
        """Return the postings of words, given by their hashes; an unknown word has an empty
        posting.
        """
        borders = [
            self._starts[np.searchsorted(self._words, words, side)].tolist()
            for side in ("left", "right")
        ]
        parts = zip(*borders, strict=True)
        return [
            Posting(self._tables.read("rows", *part), self._tables.read("counts", *part))
            for part in parts
        ]

    def find_titled(self, words: Hashes, rows: Ids) -> Ids:
        """Return the number of words of each title that has a word.

        Args:
            words: ``[w]`` uint64, hashes of words.
            rows: ``[k]`` int64, the first rows of documents.

        Returns:
            ``[w, k]`` int64; 0 if the title does not have the word.
        """
        lengths = np.zeros((len(words), len(rows)), np.int64)
        for number, posting in enumerate(self.find(words ^ _TITLE)):
            if len(posting.rows):
                place = np.minimum(
                    np.searchsorted(posting.rows, rows.astype(np.uint32)), len(posting.rows) - 1
                )
                lengths[number] = np.where(posting.rows[place] == rows, posting.counts[place], 0)
        return lengths

    @computed_once
    def before(self) -> Ids:
        """``[rows + 1]`` int64, the number of words of all rows before each."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths, dtype=np.int64)])

    def entries(self, first: int, last: int) -> tuple[Hashes, NDArray[np.uint32], Bytes]:
        """Return all entries of the words in a range of hashes.

        Args:
            first: the least hash.
            last: the greatest hash, included.

        Returns:
            Words, rows and counts, ``[n]`` each, by word and row.
        """
        low = int(np.searchsorted(self._words, np.uint64(first)))
        high = int(np.searchsorted(self._words, np.uint64(last), side="right"))
        start, stop = int(self._starts[low]), int(self._starts[high])
        words = np.repeat(self._words[low:high], np.diff(self._starts[low : high + 1]))
        return (
            words,
            self._tables.read("rows", start, stop),
            self._tables.read("counts", start, stop),
        )

    def __len__(self) -> int:
        return int(self._starts[-1])


def merge_postings(parts: Sequence[tuple[Postings, Ids]], folder: Path) -> Tables:
    """Return the tables of a postings file for some rows of several segments, laid end to end.

    What grows with the postings lies in files without a name; a share of all words at a time is
    sorted in memory.

    Args:
        parts: for each segment its postings and the rows to keep, increasing.
        folder: where the files without a name are.
    """
    # Number the rows that are kept: ``places`` has the new row of each old one.
    places, first_row, most = [], 0, sum(len(postings) for postings, _ in parts)
    for postings, live in parts:
        place = np.full(len(postings.lengths), _DEAD, np.uint32)
        place[live] = np.arange(first_row, first_row + len(live), dtype=np.uint32)
        first_row += len(live)
        places.append(place)
    # Gather, sort and write the entries of one share of the hashes after the other.
    rows, counts = Scratch(folder, np.uint32), Scratch(folder, np.uint8)
    words, sizes = [_NO_WORDS], [NO_IDS]
    shares = 1 + most // _AT_ONCE
    for share in range(shares):
        first, last = (share << 64) // shares, ((share + 1 << 64) // shares) - 1
        gathered = []
        for (postings, _), place in zip(parts, places, strict=True):
            its_words, its_rows, its_counts = postings.entries(first, last)
            moved = place[its_rows]
            alive = moved != _DEAD
            gathered.append((its_words[alive], moved[alive], its_counts[alive]))
        its_words, its_rows, its_counts = (
            np.concatenate(arrays) for arrays in zip(*gathered, strict=True)
        )
        order = np.argsort(its_words, kind="stable")
        rows.append(its_rows[order])
        counts.append(its_counts[order])
        distinct, size = np.unique(its_words, return_counts=True)
        words.append(distinct)
        sizes.append(size)
    lengths = np.concatenate(
        [np.zeros(0, np.uint16), *(postings.lengths[live] for postings, live in parts)]
    )
    languages = frozenset[str]().union(*(postings.languages for postings, _ in parts))
    return _tables(
        np.concatenate(words), np.concatenate(sizes), rows.read(), counts.read(), lengths, languages
    )
