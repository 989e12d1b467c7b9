"""The numbers that decide what a search finds and in which order, with their units.

They were chosen by macro-averaged recall on the English development sets, and by what each rule
mends and breaks of strangers' questions (``benchmarks/rules.py``, ``benchmarks/log``). The date
after each group is that of the last comparison. Comparisons give another value,
``dataclasses.replace(WEIGHTS, ...)``, to :class:`lmkrag.engine.Engine`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights of a search. Shares and gains have no unit."""

    # Candidates (2026-11-22)
    pool: int = 128
    """Sentences that each of the two searches returns, at least."""
    pool_per_result: int = 8
    """Sentences that each of the two searches returns per result, at least."""
    expanded: int = 32
    """Candidates whose neighbours become candidates, too, at least."""
    expanded_per_result: int = 4
    """Candidates whose neighbours become candidates per result, at least."""

    # Fusion (2026-11-30)
    lexical: float = 0.12
    """Weight of BM25, divided by the best score of the query, beside a similarity of weight 1."""
    lexical_neighbour: float = 0.3
    """Share of the next sentences' BM25 that a sentence gets."""
    neighbourhoods: tuple[tuple[int, float], ...] = ((4, 0.7), (12, 0.5))
    """(sentences to each side, weight of the best score there)."""
    paragraph: float = 1.0
    """Weight of the best score in the sentence's paragraph."""
    document: float = 1.0
    """Weight of the best score in the sentence's document."""
    navigation: float = 0.1
    """Share of their scores that entries of tables of contents and links keep: they repeat what
    they lead to.
    """

    # The documents that a query names (2026-11-30)
    opening: int = 250
    """Words at a document's beginning that may name it: a contract's parties, a report's company
    and year.
    """
    opening_share: float = 0.25
    """Share of a short document's words that is its opening."""
    min_opening: int = 30
    """Words that an opening has at least."""
    opening_name: float = 0.6
    """Weight of a name, date, code or version that stands in openings alone, times the logarithm of
    how few have it. The following weights are of the same kind.
    """
    exact_word: float = 0.05
    """Of a date, code or version that other documents have elsewhere."""
    number: float = 0.1
    """Of a number, such as a year."""
    leading_number: float = 0.1
    """Of a number among the first words of an opening, in addition."""
    opening_word: float = 0.02
    """Of any other word that stands in openings alone."""
    missing_key: float = 0.02
    """Of a name, date, code, version or number of other openings, against a document without it."""
    clear_margin: float = 0.1
    """Difference of the logarithms from which on the words that name the likeliest documents do not
    count inside them.
    """
    opening_of_all: float = 0.9
    """Share of the documents with a word whose openings have it, at least, for it to stand there
    alone.
    """
    common_share: float = 0.2
    """Share of all documents that have such a word, at most."""
    most_named: int = 8
    """Documents whose best sentences are gathered because they are named, at most."""
    max_penalty: float = 0.95
    """Share of their scores that other documents lose at most."""

    # Operators (2026-11-22)
    phrase: float = 1.5
    """Factor of the score of a sentence for each quoted phrase that it holds."""
    only_phrases: float = 100.0
    """The same for a query of nothing but phrases."""

    # Conversations (2026-11-29)
    assistant: float = 0.5
    """Factor of the scores in answers of an assistant, for a question about the one who asks."""

    per_message: int = 2
    """Passages of one message, at most."""

    # Source code (2026-12-01)
    definition: float = 1.5
    """Factor of the score of lines that define a name of the query."""
    sought_definition: float = 3.0
    """The same for a query that is nothing but a name."""
    secondary: float = 0.7
    """Factor of the scores in tests, generated files and copies of others' code."""
    path: float = 0.2
    """Share of its score that code gains when its path has all words of the query."""
    file_name: float = 0.1
    """Share of its score that code gains when the query has each part of its file's name."""
    beside: float = 0.5
    """Factor of the scores of code for a query that pages answer, and of prose for one that code
    answers, in a folder that is mostly code.
    """
    licence: float = 0.1
    """Factor of the scores of comments on the copyright or licence of a file."""

    # Growth (2026-11-21)
    keep: float = 0.98
    """A neighbour joins a span while the sum of (its score - keep x the hit's score) does not fall.
    """
    passage_keep: float = 0.95
    """The same for a passage, which a person reads."""
    reach: int = 8
    """Sentences that a hit grows to each side, at most."""
    join: float = 0.97
    """A span joins a better one that it touches when its hit has at least this share of the better
    hit's score.
    """
    sentences_before: int | None = None
    """For comparisons: instead of growing, take this many sentences before the hit (Luo et al.,
    2024, section 3.3).
    """

    # Re-ranking (2026-11-28)
    most_read: int = 24
    """Results that are read with the question, at most."""
    read_at_once: int = 8
    """Passages that are read before it is asked whether one of them is likely to answer."""
    likely: float = -1.0
    """Log-odds that a passage answers, from which on no more are read."""
    reading: float = 8.0
    """Log-odds by which a passage that is read gains a factor of e of its score."""
    reading_around: float = 12.0
    """The same of a span, a sentence or a document, which the passage around its best sentence is
    read for.
    """

    # Passages (2026-11-23)
    paragraph_chars: int = 300
    """Characters of a paragraph that is returned whole, at most."""
    section_chars: int = 500
    """Characters of the text under a heading that is returned whole, at most."""
    lead_chars: int = 600
    """Characters between a table's header or a list's lead-in and the row or item, at most, for
    both to be returned.
    """
    antecedent_chars: int = 250
    """Characters of the sentence before a pronoun, at most, to be returned with it."""
    following_chars: int = 400
    """Characters that a passage takes, at most, of what its last sentence announces."""
    block_chars: int = 2_000
    """Characters of a function or block of code, at most, to be returned whole."""
    touching: int = 8
    """Spans, the best ones, that become one passage with a better one that they touch."""
    max_merged_chars: int = 300
    """Characters of a passage made of spans that only touch, at most."""
    max_extension_chars: int = 100
    """Characters by which a passage grows for a lesser one that overlaps it, at most; else that one
    is cut off.
    """
    min_copy_chars: int = 80
    """Characters of a passage, at least, for another document's passage with the same words to be
    its copy.
    """


WEIGHTS = Weights()
"""The weights of a search, unless others are given."""
