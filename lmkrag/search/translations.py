"""Of translations of the same page, prefer the one in the language of the question."""

from collections import defaultdict

import numpy as np

from lmkrag.language.question import Question, detect_once
from lmkrag.language.translations import split_language
from lmkrag.search.candidates import Candidates
from lmkrag.specs import CODE

_TRANSLATED = 0.5  # share of its score that a page in another language keeps
_LOOKED_AT = 64  # documents, the best ones, whose names are compared
_SAMPLE = 1_000  # characters that show the language of a page without one in its name


def prefer_language(candidates: Candidates, question: Question) -> Candidates:
    """Return candidates with lower scores of pages that another one has in the question's language.

    Pages are translations of one another if their names differ by a language only. What is there in
    other languages alone keeps its score, and so does source code.
    """
    ranked = np.argsort(-candidates.score, kind="stable")
    first = np.sort(np.unique(candidates.documents[ranked], return_index=True)[1])
    pages: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for candidate in ranked[first[:_LOOKED_AT]].tolist():
        row = candidates.view(candidate).row
        if row.kind != CODE:  # user_id.py is no Indonesian user.py
            page, language = split_language(row.doc_id)
            pages[page].append((language, candidate))
    others: list[int] = []
    for versions in pages.values():
        if len(versions) == 1:
            continue
        known = [
            (language or detect_once(candidates.view(candidate).text(0, _SAMPLE)), candidate)
            for language, candidate in versions
        ]
        asked = question.language
        foreign = [candidate for language, candidate in known if language != asked]
        if len(foreign) < len(known):
            others += foreign
    if not others:
        return candidates
    translated = np.isin(candidates.documents, candidates.documents[others])
    return candidates.times("translation", np.where(translated, _TRANSLATED, 1))
