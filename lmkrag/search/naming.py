"""Which documents a question is about, by the words that name them.

Where documents are alike (contracts, releases, minutes, annual reports), each of them has a passage
that fits the question, and only a company, a date, a version or a place says which are meant. Such
words stand at the beginning of few documents, or in their titles.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from lmkrag.index.snapshot import Snapshot
from lmkrag.index.words.lexical import Places, Terms, count_document_words, find_first
from lmkrag.search.weights import Weights
from lmkrag.sentences.structure import RECORD
from lmkrag.specs import CODE
from lmkrag.types.arrays import Floats, Ids, Mask

_TITLED = 1_000  # documents whose titles are matched

WordKind = Literal["exact", "name", "number", "word"]


class Openings(NamedTuple):
    """Where the words of a question stand in documents; masks are ``[words, documents]``.

    Attributes:
        documents: positions of the documents that are compared.
        held: whether a document has a word.
        opened: whether its beginning or its title has it; source code has no such beginning.
        leading: whether its first words or its title have it.
        in_row: whether a row of a table is the first sentence that has it.
    """

    documents: Ids
    held: Mask
    opened: Mask
    leading: Mask
    in_row: Mask


def read_openings(
    snapshot: Snapshot,
    terms: Terms,
    words: Sequence[tuple[int, ...]],
    among: Ids | None,
    weights: Weights,
) -> Openings:
    """Return where words stand in the documents of a snapshot.

    Args:
        snapshot: the documents.
        terms: all forms of the words.
        words: the forms of each word, as hashes.
        among: positions of the documents to compare, increasing; None for all.
        weights: say how long an opening is.
    """
    places = find_first(snapshot.segments, snapshot.documents, terms)
    chosen = _choose_documents(places, len(snapshot.documents.keys), among)
    documents = np.flatnonzero(chosen)
    lengths = count_document_words(snapshot.segments, snapshot.documents, documents)
    border = np.clip(weights.opening_share * lengths, weights.min_opening, weights.opening)
    border[_find_code(snapshot)[documents]] = 0  # code begins with names that others define
    forms = np.zeros((4, len(terms.words), len(documents)), bool)
    held, opened, leading, in_row = forms
    for column, place in enumerate(places):
        mask = chosen[place.documents]
        owners = np.searchsorted(documents, place.documents[mask])
        held[column, owners] = True
        is_opening = place.before[mask] < border[owners]
        opened[column, owners] = is_opening
        leading[column, owners] = is_opening & (place.before[mask] < weights.min_opening)
        in_row[column, owners] = (place.roles[mask] & RECORD) != 0
    words_found = held.sum(axis=0) + opened.sum(axis=0)
    likely = np.argsort(-words_found, kind="stable")[:_TITLED]
    titled = snapshot.titles_with(terms.words, documents[likely]) > 0
    forms[:3, :, likely] |= titled
    of_words = np.array([np.isin(terms.words, each) for each in words]).reshape(
        len(words), len(terms.words)
    )
    any_form = ([each[its_forms].any(axis=0) for its_forms in of_words] for each in forms)
    return Openings(documents, *map(np.array, any_form))


def weigh_documents(
    openings: Openings, count: int, kinds: Sequence[WordKind], weights: Weights
) -> Floats:
    """Return how likely a question is about each document, as a logarithm, by its words alone.

    A word in a document's opening counts the more, the fewer openings have it, and most if it is a
    name that stands in openings alone. A name or number that other documents begin with counts
    against a document that lacks it.

    Args:
        openings: where the words of the question stand.
        count: documents that are searched.
        kinds: of each word.
        weights: say how much each kind counts.

    Returns:
        ``[documents]`` float64; only differences count.
    """
    opened, held = openings.opened.sum(axis=1), openings.held.sum(axis=1)
    kind_of = np.array(kinds)
    is_alone = (opened >= weights.opening_of_all * held) & _find_rare(openings.held, count, weights)
    of_kind = np.array(
        [_weigh_word(kind, alone, weights) for kind, alone in zip(kinds, is_alone, strict=True)]
    )
    rarity = _measure_rarity(openings.opened, count)
    rare_leading = _measure_rarity(openings.leading, count)
    return (
        _add_up(of_kind * rarity, openings.opened)
        + _add_up(weights.leading_number * (kind_of == "number") * rare_leading, openings.leading)
        - _add_up(weights.missing_key * (kind_of != "word") * rarity, ~openings.held)
    )


def find_naming_words(openings: Openings, meant: Mask, count: int, weights: Weights) -> Mask:
    """Return which words ``[words]`` name the documents ``meant`` ``[documents]``: they stand in
    the openings of all of these and of few others.

    Words in rows of a table do not: they tell its rows apart.
    """
    of_all = openings.opened[:, meant].all(axis=1)
    in_rows = openings.in_row[:, meant].any(axis=1)
    found: Mask = of_all & ~in_rows & _find_rare(openings.opened, count, weights)
    return found


def _find_rare(places: Mask, count: int, weights: Weights) -> Mask:
    """Which words of ``[words, documents]`` few of ``count`` documents have."""
    rare: Mask = places.sum(axis=1) <= max(1.0, weights.common_share * count)
    return rare


def _add_up(weights: Floats, places: Mask) -> Floats:
    """The sum of the weights of each document's words, ``[documents]``."""
    total = np.zeros(places.shape[1])
    for weight, of_word in zip(weights, places, strict=True):
        total[of_word] += weight
    return total


def _weigh_word(kind: WordKind, is_alone: bool, weights: Weights) -> float:
    """The weight of a word in a document's opening; ``is_alone``: it stands in openings alone."""
    if kind == "number":
        return weights.number
    if is_alone:
        return weights.opening_word if kind == "word" else weights.opening_name
    return weights.exact_word if kind == "exact" else 0.0


def _measure_rarity(places: Mask, count: int) -> Floats:
    """The logarithm of how few of ``count`` documents have each word of ``[words, documents]``."""
    having = places.sum(axis=1)
    return np.where(having > 0, np.log((count + 1) / (having + 0.5)), 0.0)


def _find_code(snapshot: Snapshot) -> Mask:
    """Which documents of a snapshot are source code."""
    if CODE not in snapshot.totals.languages:
        return np.zeros(len(snapshot.documents.keys), bool)
    return snapshot.match_field("kind", lambda kind: kind == CODE)


def _choose_documents(places: Sequence[Places], count: int, among: Ids | None) -> Mask:
    """Which documents ``[count]`` are compared: those that hold words, and some that may be named
    by their titles.
    """
    chosen = np.zeros(count, bool)
    for place in places:
        chosen[place.documents] = True
    room = max(0, _TITLED - np.count_nonzero(chosen))
    chosen[np.flatnonzero(~chosen[:_TITLED])[:room]] = True
    if among is not None:
        chosen[np.setdiff1d(np.flatnonzero(chosen), among, assume_unique=True)] = False
    return chosen
