"""A question that several documents answer, each about itself: the place tells which is meant."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from lmkrag.evaluation.dataset import Query
from lmkrag.types import Document
from pipelines.train.contrasts.alone import SHORT
from pipelines.train.contrasts.passages import (
    Contrast,
    cut_beside,
    cut_passage,
    load_set,
    name_document,
    shared_names,
)
from pipelines.train.mined import make_negative

SETS = {"cuad": 2_000, "medquad": 2_000, "policyqa": 1_500, "eips": 700, "peps": 700, "rfcs": 700}
_FEWEST = 4  # documents that answer one question
_NEAREST, _OTHERS, _BESIDE = 2, 2, 2  # passages of documents of alike names, of others, of its own
_GAP = " ... ?"  # where the subject of a question stood
_FORMS = ("{0} ({1})", "{1}: {0}", "In {1}: {0}", "{0} in {1}", "{0}, {1}?")
_HEADING = re.compile(r"(?P<title>.+): (?P<heading>[^:]+)")
_MEDICAL = re.compile(
    r"(.*\b(?:of|for|to|by|with|is|are|get|have|causes)) (?:\(are\) )?(.+?) ?\?(.*)"
)


def ask_alike(name: str, data: Path, count: int, rng: np.random.Generator) -> Iterator[Contrast]:
    """Yield questions about one document, with passages of others that answer for themselves."""
    documents, queries = load_set(data / name)
    groups = _group_questions(name, queries, documents)
    usable = [
        (subject, about)
        for subject, group in groups.items()
        if len(group) >= _FEWEST
        for about in group
    ]
    for number in rng.permutation(len(usable))[:count]:
        subject, about = usable[number]
        group = groups[subject]
        others = _pick_others(about, [each for each in group if each != about], rng)
        query = group[about]
        document, is_short = documents[query.doc_id], name in SHORT
        passage, inside = cut_passage(document, query.spans, rng, is_short=is_short)
        own = passage._replace(place=about)
        beside = [each._replace(place=about) for each in cut_beside(document, inside, rng)]
        passages = [own]
        for other in others:
            query = group[other]
            passage, _ = cut_passage(documents[query.doc_id], query.spans, rng, is_short=is_short)
            passages.append(make_negative(other, passage.sentences))
        # Without its place nobody can tell whose the answer is: another document's name before it.
        if not _names_document("".join(own.sentences), about):
            passages.append(make_negative(others[0], own.sentences))
        if own.answers:
            key = f"{name}/alike/{group[about].query_id}"
            question = _phrase(subject, about, rng)
            yield Contrast(key, question, (*passages, *beside[:_BESIDE]), about)


def _group_questions(
    name: str, queries: Sequence[Query], documents: Mapping[str, Document]
) -> dict[str, dict[str, Query]]:
    """Return the questions by what they ask for, and by what they ask it about."""
    groups: dict[str, dict[str, Query]] = defaultdict(dict)
    for query in queries:
        subject, about = _split_question(name, query.query, documents[query.doc_id])
        if subject and about:
            groups[subject].setdefault(about, query)
    return groups


def _split_question(name: str, question: str, document: Document) -> tuple[str, str]:
    """Return what a question asks for, and what it asks it about; empty if it can't be told."""
    if name == "medquad":
        match = _MEDICAL.fullmatch(question)
        return (match[1] + _GAP, match[2]) if match else ("", "")
    if name in ("cuad", "policyqa"):
        is_description = name == "cuad" and len(question) > 90
        subject = question.split(": ")[-1] if is_description else question
        return subject, name_document(document)
    match = _HEADING.fullmatch(question)
    return (match["heading"], match["title"]) if match and len(match["title"]) > 8 else ("", "")


def _pick_others(about: str, others: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Return documents of alike names, and some of the others."""
    alike = sorted(others, key=lambda other: -shared_names(other, about))[:_NEAREST]
    drawn = [others[number] for number in rng.permutation(len(others))[:_OTHERS]]
    return [*alike, *(other for other in drawn if other not in alike)]


def _phrase(subject: str, about: str, rng: np.random.Generator) -> str:
    """Return a question about something, in one of several ways."""
    if _GAP in subject:
        return subject.replace("...", about).replace(" ?", "?")
    return _FORMS[int(rng.integers(len(_FORMS)))].format(subject, about)


def _names_document(text: str, about: str) -> bool:
    """Return whether a text has a longer word of a name, however it is joined or written."""
    letters = re.sub(r"[^a-z0-9]", "", text.lower())
    return any(word[:6] in letters for word in re.findall(r"[a-z0-9]{5,}", about.lower()))
