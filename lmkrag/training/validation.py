"""Measure recall during training: of the dense landmarks alone, on a sample of evaluation sets."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from lmkrag.encoder.landmark import EncoderInput, LandmarkEncoder
from lmkrag.encoder.torch_model import TorchModel
from lmkrag.evaluation.dataset import Dataset, load_dataset
from lmkrag.evaluation.metrics import Piece, overlap_at
from lmkrag.search.fusion import fuse
from lmkrag.sentences.split import split_sentences
from lmkrag.sentences.structure import ParagraphTracker
from lmkrag.specs import EncoderSpec
from lmkrag.training.settings import TrainSettings, use_bfloat16
from lmkrag.training.student import Student, tokenizer_of
from lmkrag.types.arrays import Floats, Ids, Vectors

_BUDGETS = (500, 1_000, 2_000)
_RANKED = 200


class _HalfModel(TorchModel):
    """A network that computes in bfloat16 as training does, with weights in float32."""

    def read(self, *args: Any, **options: Any) -> Vectors:
        with torch.autocast(torch.device(self.device).type, torch.bfloat16):
            return super().read(*args, **options)


class RecallWatch:
    """Measures recall of the dense landmarks alone, best sentences first, on a sample of the
    evaluation sets.
    """

    def __init__(self, settings: TrainSettings, student: Student) -> None:
        """Take the settings of a run and the student, and draw the sample."""
        self._settings = settings
        self._student = student
        chosen = settings.evaluation
        folders = [settings.resolve(name) for name in chosen.sets]
        self._within = {folder.name for folder in folders} & set(chosen.within)
        self._samples = [
            sample_dataset(load_dataset(folder), chosen.characters, chosen.queries)
            for folder in folders
        ]

    def measure(self) -> dict[str, float]:
        """Return recall in % by name.

        ``recall_500``, ``recall_1000`` and ``recall_2000`` are means over sets at as many
        characters, ``recall_SET`` is the mean of a set, and ``recall`` the mean of all.
        """
        model = self._settings.model
        backbone = self._student.backbone
        spec = EncoderSpec("student", "", backbone.config.hidden_size, **model.reading)
        device = next(backbone.parameters()).device
        tokens = tokenizer_of(self._student, model, model.window)
        kind = _HalfModel if use_bfloat16(self._settings.precision) else TorchModel
        encoder = LandmarkEncoder(
            kind(backbone, self._student.pooling, tokens, device), tokens, spec
        )
        rows = {}
        for sample in self._samples:
            ranked = rank_sentences(encoder, sample, within=sample.name in self._within)
            rows[sample.name] = recall_rows(sample, ranked).mean(0)
        backbone.train()
        self._student.pooling.train()
        table = 100 * np.array(list(rows.values()))
        measures = {
            f"recall_{budget}": float(table[:, i].mean()) for i, budget in enumerate(_BUDGETS)
        }
        measures |= {f"recall_{name}": float(100 * np.mean(row)) for name, row in rows.items()}
        return {"recall": float(table.mean()), **measures}


def sample_dataset(dataset: Dataset, characters: int, queries: int) -> Dataset:
    """Return some documents of a set, and questions about them, drawn with a fixed seed.

    Args:
        dataset: the set.
        characters: the least number of characters of all documents together.
        queries: maximum number of questions.
    """
    rng = np.random.default_rng(0)
    labelled = {query.doc_id for query in dataset.queries if query.spans}
    candidates = [document for document in dataset.documents if document.doc_id in labelled]
    documents, total = [], 0
    for index in rng.permutation(len(candidates)):
        documents.append(candidates[index])
        total += len(candidates[index].text)
        if total >= characters:
            break
    ids = {document.doc_id for document in documents}
    fitting = [query for query in dataset.queries if query.spans and query.doc_id in ids]
    order = rng.permutation(len(fitting))[:queries]
    return replace(
        dataset, documents=tuple(documents), queries=tuple(fitting[i] for i in sorted(order))
    )


def _read_landmarks(encoder: LandmarkEncoder, dataset: Dataset) -> tuple[Ids, Ids, Ids, Vectors]:
    """Encode the documents of a set, sentence by sentence.

    Returns:
        Documents ``[n]`` and paragraphs ``[n]`` of the sentences, their bounds ``[n, 2]`` in
            characters, and their vectors ``[n, d]``.
    """
    owner: list[int] = []
    passages: list[int] = []
    bounds: list[tuple[int, int]] = []
    parts = []
    texts = [document.text for document in dataset.documents]
    trackers = [ParagraphTracker() for _ in texts]
    inputs = (
        EncoderInput(key, document.text, split_sentences(document.text), document.title)
        for key, document in enumerate(dataset.documents)
    )
    for encoded in encoder.encode_stream(inputs):
        key = encoded.key
        owner += [key] * len(encoded.sentences)
        bounds += [(sentence.start, sentence.end) for sentence in encoded.sentences]
        passages += [
            trackers[key].position(
                texts[key][sentence.start : sentence.end], heading=sentence.kind == "heading"
            )
            for sentence in encoded.sentences
        ]
        parts.append(encoded.vectors)
    paragraphs = np.arange(len(passages)) - passages
    return np.array(owner), paragraphs, np.array(bounds), np.concatenate(parts)


def rank_sentences(
    encoder: LandmarkEncoder, dataset: Dataset, *, within: bool
) -> list[list[Piece]]:
    """Return the best sentences for each question, by fused scores of landmarks, without words.

    Args:
        encoder: the encoder.
        dataset: documents and questions.
        within: whether a question is asked of its own document only.

    Returns:
        For each question at most 200 sentences, best first.
    """
    keys, paragraphs, bounds, vectors = _read_landmarks(encoder, dataset)
    number = {document.doc_id: key for key, document in enumerate(dataset.documents)}
    questions = encoder.encode_queries([query.query for query in dataset.queries])
    ranked = []
    for query, question in zip(dataset.queries, questions, strict=True):
        scores = fuse(vectors @ question, None, np.arange(len(keys)), keys, paragraphs).score
        scope = np.flatnonzero(keys == number[query.doc_id]) if within else np.arange(len(keys))
        best = scope[np.argsort(-scores[scope], kind="stable")[:_RANKED]]
        ranked.append(
            [
                (dataset.documents[keys[i]].doc_id, int(bounds[i, 0]), int(bounds[i, 1]))
                for i in best
            ]
        )
    return ranked


def recall_rows(dataset: Dataset, ranked: list[list[Piece]]) -> Floats:
    """Return recall at 500, 1,000 and 2,000 characters, ``[queries, 3]``."""
    rows = []
    for query, pieces in zip(dataset.queries, ranked, strict=True):
        overlaps = overlap_at(pieces, query.evidence, _BUDGETS)
        rows.append([overlap.recall for overlap in overlaps])
    return np.array(rows)
