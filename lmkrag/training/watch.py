"""Measure recall during training."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from lmkrag.corpus.sentences import split_sentences
from lmkrag.encoder.landmark import LandmarkEncoder
from lmkrag.evaluation.dataset import Dataset, load_dataset
from lmkrag.evaluation.metrics import overlap_at
from lmkrag.retrieval.fusion import fuse
from lmkrag.training.settings import TrainSettings
from lmkrag.training.student import Student, tokenizer_of
from lmkrag.types import EncoderSpec

_BUDGETS = (500, 1_000, 2_000)


@dataclass(frozen=True, slots=True)
class _Sample:
    dataset: Dataset
    within: bool


class RecallWatch:
    """Recall of the dense landmarks alone, best sentences first, on a sample of the evaluation sets."""

    def __init__(self, settings: TrainSettings, student: Student) -> None:
        """Read the sets and choose the documents and questions."""
        self._settings = settings
        self._student = student
        chosen = settings.evaluation
        self._samples = [
            _Sample(
                _sample(load_dataset(settings.resolve(name)), chosen.characters, chosen.queries),
                settings.resolve(name).name in chosen.within,
            )
            for name in chosen.sets
        ]

    def measure(self) -> dict[str, float]:
        """Return recall (%) at 500, 1,000 and 2,000 characters, their mean ``recall``, and that of each set."""
        model = self._settings.model
        backbone = self._student.backbone
        spec = EncoderSpec(
            name="student",
            fingerprint="",
            dimensions=backbone.config.hidden_size,
            pooling=model.pooling,
            window=model.window,
            overlap=model.overlap,
            landmark=model.landmark,
            query_prefix=model.query_prefix,
        )
        device = next(backbone.parameters()).device
        encoder = LandmarkEncoder(
            backbone,
            self._student.pooling,
            tokenizer_of(self._student, model, model.window),
            spec,
            device=device,
        )
        half = self._settings.precision == "bfloat16"
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            rows = {sample.dataset.name: _recall(encoder, sample) for sample in self._samples}
        backbone.train()
        self._student.pooling.train()
        table = 100 * np.array(list(rows.values()))
        measures = {f"recall_{budget}": float(table[:, i].mean()) for i, budget in enumerate(_BUDGETS)}
        measures |= {f"recall_{name}": float(100 * np.mean(row)) for name, row in rows.items()}
        return {"recall": float(table.mean()), **measures}


def _sample(dataset: Dataset, characters: int, queries: int) -> Dataset:
    """Some documents, of at least so many characters, and some questions about them."""
    rng = np.random.default_rng(0)
    asked = {query.doc_id for query in dataset.queries if query.spans}
    candidates = [document for document in dataset.documents if document.doc_id in asked]
    documents, total = [], 0
    for index in rng.permutation(len(candidates)):
        documents.append(candidates[index])
        total += len(candidates[index].text)
        if total >= characters:
            break
    kept = {document.doc_id for document in documents}
    fitting = [query for query in dataset.queries if query.spans and query.doc_id in kept]
    order = rng.permutation(len(fitting))[:queries]
    return replace(dataset, documents=tuple(documents), queries=tuple(fitting[i] for i in sorted(order)))


def _recall(encoder: LandmarkEncoder, sample: _Sample) -> Any:
    documents = sample.dataset.documents
    owner: list[int] = []
    bounds: list[tuple[int, int]] = []
    parts = []
    stream = ((key, document.text, split_sentences(document.text)) for key, document in enumerate(documents))
    for encoded in encoder.encode_stream(stream):
        owner += [encoded.key] * len(encoded.sentences)
        bounds += [(sentence.start, sentence.end) for sentence in encoded.sentences]
        parts.append(encoded.vectors)
    keys, vectors = np.array(owner), np.concatenate(parts)
    number = {document.doc_id: key for key, document in enumerate(documents)}
    questions = encoder.encode_queries([query.query for query in sample.dataset.queries])
    rows = []
    for query, question in zip(sample.dataset.queries, questions, strict=True):
        row = fuse(vectors @ question, None, np.arange(len(keys)), keys)
        scope = np.flatnonzero(keys == number[query.doc_id]) if sample.within else np.arange(len(keys))
        best = scope[np.argsort(-row[scope])[:200]]
        pieces = [(documents[keys[i]].doc_id, *bounds[i]) for i in best]
        gold = [(query.doc_id, start, end) for start, end in query.spans]
        rows.append([overlap.recall for overlap in overlap_at(pieces, gold, _BUDGETS)])
    return np.mean(rows, axis=0)
