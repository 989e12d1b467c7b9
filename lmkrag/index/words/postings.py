"""Postings of a segment's sentences: an immutable file beside the vectors, with the same rows.

Words are their 64-bit hashes, sorted; each has its rows and how often it is in them. The words of a document's title
are in its first row, each under another hash, with the number of words of the title as its count. The file also names
the languages other than English by whose rules words were stemmed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lmkrag.arrays import Bytes, Hashes, Ids
from lmkrag.errors import IndexCorrupt
from lmkrag.index.files import File, Tables, read_tables
from lmkrag.index.words.terms import STEMMERS, hash_words, query_words
from lmkrag.specs import CODE, ENGLISH
from lmkrag.system import computed_once

_TITLE = np.uint64(0x9E3779B97F4A7C15)  # a word of a title has its hash, exclusive or this
_NO_WORDS: Hashes = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Posting:
    """The sentences with one word: ``rows`` in increasing order, and how often it is in each."""

    rows: NDArray[np.uint32]
    counts: Bytes


class PostingsBuilder:
    """Gathers the words of sentences, row after row."""

    def __init__(self) -> None:
        self._words: list[Hashes] = []
        self._titles: list[Hashes] = []
        self._languages: list[str] = []

    def add(self, sentences: Iterable[str], language: str = ENGLISH, title: str = "") -> None:
        """Take the texts of the next rows, all in one language, as ISO 639-1 names it.

        With the first ones of a document comes its title.
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
        owners = np.concatenate([np.repeat(np.arange(rows, dtype=np.uint32), each) for each in (lengths, of_titles)])
        order = np.argsort(words, kind="stable")
        words, owners = words[order], owners[order]
        new = np.ones(len(words), bool)
        new[1:] = (words[1:] != words[:-1]) | (owners[1:] != owners[:-1])
        first = np.flatnonzero(new)
        counts = np.diff(np.append(first, len(words)))
        counts = np.where(order[first] < lengths.sum(), counts, of_titles[owners[first]])
        return _tables(words[first], owners[first], np.minimum(counts, 255).astype(np.uint8), lengths, languages)


def _tables(words: Hashes, rows: NDArray[np.uint32], counts: Bytes, lengths: Ids, languages: Iterable[str]) -> Tables:
    distinct, starts = np.unique(words, return_index=True)
    named = " ".join(sorted(set(languages) & (STEMMERS.keys() | {CODE})))
    return {
        "words": distinct,
        "starts": np.append(starts, len(words)).astype(np.int64),
        "rows": rows,
        "counts": counts,
        "lengths": np.minimum(lengths, 65_535).astype(np.uint16),
        "languages": np.frombuffer(named.encode("ascii"), np.uint8),
    }


class Postings:
    """A postings file opened for reading, memory-mapped."""

    def __init__(self, path: Path, file: File) -> None:
        """Map the file after comparing it with its checksum: see :func:`lmkrag.index.files.read_file`."""
        tables = read_tables(path, file)
        try:
            self._words: Hashes = tables["words"]
            self._starts, self._rows, self._counts = tables["starts"], tables["rows"], tables["counts"]
            self.lengths: NDArray[np.uint16] = tables["lengths"]
            self.languages = frozenset(tables["languages"].tobytes().decode("ascii").split())
        except KeyError as error:
            raise IndexCorrupt(f"{path}: not a postings file (no {error})") from error

    def find(self, word: int) -> Posting:
        """Return where a word is; nowhere, perhaps."""
        index = int(np.searchsorted(self._words, np.uint64(word)))
        if index == len(self._words) or self._words[index] != word:
            first, stop = 0, 0
        else:
            first, stop = int(self._starts[index]), int(self._starts[index + 1])
        return Posting(self._rows[first:stop], self._counts[first:stop])

    def find_titled(self, word: int, rows: Ids) -> Ids:
        """Return how many words the titles of documents with these first ``rows`` have; 0 where the word is not one."""
        posting = self.find(word ^ int(_TITLE))
        if not len(posting.rows):
            return np.zeros(len(rows), np.int64)
        place = np.minimum(np.searchsorted(posting.rows, rows.astype(np.uint32)), len(posting.rows) - 1)
        return np.where(posting.rows[place] == rows, posting.counts[place], 0)

    @computed_once
    def before(self) -> Ids:
        """``[rows + 1]``: the words of all rows before each."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths, dtype=np.int64)])

    def entries(self) -> tuple[Hashes, NDArray[np.uint32], Bytes]:
        """Return every (word, row, count), by word and row."""
        return np.repeat(self._words, np.diff(self._starts)), self._rows, self._counts


def merge_postings(parts: Sequence[tuple[Postings, Ids]]) -> Tables:
    """Return one file's tables for some rows of several: (postings, rows to keep, increasing), laid end to end."""
    words, rows, counts, before = [], [], [], 0
    languages: set[str] = set()
    lengths = [np.zeros(0, np.int64)]
    for postings, kept in parts:
        position = np.full(len(postings.lengths), -1, np.int64)
        position[kept] = np.arange(before, before + len(kept))
        its_words, its_rows, its_counts = postings.entries()
        moved = position[its_rows]
        alive = moved >= 0
        words.append(its_words[alive])
        rows.append(moved[alive].astype(np.uint32))
        counts.append(its_counts[alive])
        lengths.append(postings.lengths[kept].astype(np.int64))
        before += len(kept)
        languages |= postings.languages
    every = np.concatenate(words)
    order = np.argsort(every, kind="stable")
    return _tables(
        every[order], np.concatenate(rows)[order], np.concatenate(counts)[order], np.concatenate(lengths), languages
    )
