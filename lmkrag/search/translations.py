"""Of translations of the same page, prefer the one in the language of the question."""

from collections import defaultdict

import numpy as np

from lmkrag.language.question import Question, detect_once
from lmkrag.language.translations import split_language
from lmkrag.search.candidates import Candidates

_TRANSLATED = 0.5  # share of its score that a page in another language keeps
_SAMPLE = 1_000  # characters whose language is that of a page without one in its name


def prefer_language(candidates: Candidates, question: Question) -> Candidates:
    """Return candidates with lower scores of pages that another one has in the question's language.

    Pages are translations of one another if their names differ by a language only. What is there in
    other languages alone keeps its score.
    """
    _, first, owners = np.unique(candidates.documents, return_index=True, return_inverse=True)
    pages: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, candidate in enumerate(first.tolist()):
        page, language = split_language(candidates.view(candidate).row.doc_id)
        pages[page][language].append(number)
    translated = [versions for versions in pages.values() if len(versions) > 1]
    if not translated:
        return candidates
    asked = question.language
    factor = np.ones(len(first))
    for versions in translated:
        for number in versions.pop("", []):
            text = candidates.view(int(first[number])).text(0, _SAMPLE)
            versions[detect_once(text)].append(number)
        if asked in versions:
            others = [number for name in versions.keys() - {asked} for number in versions[name]]
            factor[others] = _TRANSLATED
    return candidates.times("translation", factor[owners])
