"""What a competent user has without lmkrag: SQLite's FTS5, and chunks with BM25 and a cross-encoder."""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from lmkrag import Document
from lmkrag.encoder.spec import BASE_ENCODER
from lmkrag.evaluation.baselines import Baseline
from lmkrag.evaluation.metrics import Piece

Find = Callable[[str], list[Piece]]

FOUND = 100  # pieces that each search returns
FUSED = 60  # constant of reciprocal rank fusion (Cormack et al., 2009)
_BGE = "Represent this sentence for searching relevant passages: "


def search_fts5(documents: Sequence[Document], size: int, limit: int = FOUND) -> Find:
    """Return how FTS5 finds pieces of about ``size`` characters, cut at white space, by BM25 with Porter's stems; the
    best ``limit``.
    """
    pieces = [
        (document.doc_id, match.start(), match.end())
        for document in documents
        for match in re.finditer(rf"\S(?s:.{{0,{size - 1}}})(?!\S)|\S+", document.text)
    ]
    texts = {document.doc_id: document.text for document in documents}
    return _search_words(pieces, [texts[name][start:end] for name, start, end in pieces], limit)


def search_chunks(
    documents: Sequence[Document],
    name: str,
    *,
    model: str = BASE_ENCODER,
    words: bool = False,
    reranker: str = "",
    limit: int = FOUND,
) -> Find:
    """Return how chunks are found: by a baseline's vectors, fused with BM25 over their ``words``, then re-ranked.

    ``name`` is that of a :class:`lmkrag.evaluation.baselines.Baseline`, ``model`` the one that embeds, with the prefix
    that bge expects before questions if its name has ``bge``, and ``reranker`` a cross-encoder of
    sentence-transformers that reads the best 30 of ``limit``.
    """
    baseline = Baseline(name, model=model, prefixes=(_BGE if "bge" in model else "", ""))
    units = list(baseline.encode_documents(documents))
    pieces = [
        (d.doc_id, *bounds)
        for d, made in zip(documents, units, strict=True)
        for bounds in made.bounds
    ]
    vectors = np.concatenate([made.vectors for made in units])
    whole = {document.doc_id: document.text for document in documents}
    texts = {piece: whole[piece[0]][piece[1] : piece[2]] for piece in pieces}
    by_words = _search_words(pieces, list(texts.values()), limit) if words else None
    cross_encoder = None
    if reranker:
        from sentence_transformers import CrossEncoder

        cross_encoder = CrossEncoder(reranker)

    def find(question: str) -> list[Piece]:
        best = np.argsort(-(vectors @ baseline.encode_queries([question])[0]), kind="stable")[
            :limit
        ]
        found = [pieces[number] for number in best.tolist()]
        if by_words is not None:
            scores: dict[Piece, float] = defaultdict(float)
            for ranked in (found, by_words(question)):
                for rank, piece in enumerate(ranked, 1):
                    scores[piece] += 1 / (FUSED + rank)
            found = sorted(scores, key=lambda piece: -scores[piece])
        if cross_encoder is not None:
            read = cross_encoder.predict([(question, texts[piece]) for piece in found[:30]])
            found = [found[number] for number in np.argsort(-np.asarray(read)).tolist()] + found[
                30:
            ]
        return found

    return find


def _search_words(pieces: Sequence[Piece], texts: Sequence[str], limit: int) -> Find:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE pieces USING fts5(text, tokenize = 'porter unicode61')")
    database.executemany("INSERT INTO pieces (rowid, text) VALUES (?, ?)", enumerate(texts))
    query = "SELECT rowid FROM pieces WHERE pieces MATCH ? ORDER BY rank LIMIT ?"

    def find(question: str) -> list[Piece]:
        words = " OR ".join(
            f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", question.lower()))
        )
        return (
            [pieces[number] for (number,) in database.execute(query, (words, limit))]
            if words
            else []
        )

    return find
