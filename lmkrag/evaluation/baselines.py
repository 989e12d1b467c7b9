"""The chunk-based retrievers that lmkrag is measured against, built as their users build them.

Each reads the same weights as our encoder's base model, searches exactly, and returns its units
best first.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmkrag.encoder.landmark import LandmarkEncoder
from lmkrag.encoder.spec import BASE_ENCODER, find_model
from lmkrag.errors import UsageError, needs
from lmkrag.models.device import choose_device, choose_dtype
from lmkrag.sentences.split import split_sentences
from lmkrag.specs import Sentence
from lmkrag.types import Document
from lmkrag.types.arrays import Vectors

_NAME = re.compile(r"(?P<kind>recursive|sentence|late):(?P<size>\d+)(?P<title>\+title)?")


def parse_name(name: str) -> re.Match[str]:
    """Return the parts of a baseline's name: ``kind``, ``size`` and ``title``.

    Raises:
        UsageError: there is no baseline of this name.
    """
    form = _NAME.fullmatch(name)
    if form is None or (form["kind"] == "late" and form["title"]):
        raise UsageError(
            f"unknown baseline {name!r}: use recursive:TOKENS, sentence:NEIGHBOURS or late:TOKENS, "
            "the first two "
            "also with +title"
        )
    return form


@dataclass(frozen=True, slots=True)
class Units:
    """The units of one document: unit ``i`` is characters ``bounds[i]`` and has ``vectors[i]``.

    Attributes:
        bounds: ``[start, end)`` of each unit.
        vectors: ``[n, dimensions]`` float32 of length one.
    """

    bounds: list[tuple[int, int]]
    vectors: Vectors


class Baseline:
    """A chunk-based retriever.

    ``recursive:N`` is LangChain's RecursiveCharacterTextSplitter: chunks of N tokens, no overlap,
    each embedded alone. ``sentence:N`` embeds sentences alone, and returns each with N neighbours
    on each side (LlamaIndex's sentence window). ``late:N`` are chunks of about N tokens,
    mean-pooled from a context as long as the model reads (Günther et al., "Late Chunking", arXiv
    2409.04701). The first two with ``+title`` put the document's title before each text (contextual
    chunk headers).
    """

    def __init__(
        self, name: str, *, model: str = BASE_ENCODER, prefixes: tuple[str, str] = ("", "")
    ) -> None:
        """Load the model of a baseline.

        Args:
            name: ``recursive:N``, ``sentence:N`` or ``late:N``, the first two also with ``+title``.
            model: a folder or hub name; defaults to all-MiniLM-L6-v2.
            prefixes: texts that stand before questions and before documents.

        Raises:
            UsageError: there is no baseline of this name.
            MissingExtra: the ``eval`` extra is not installed.
        """
        self.name = name
        form = parse_name(name)
        self._kind, self._size, self._titled = (
            form["kind"],
            int(form["size"]),
            form["title"] is not None,
        )
        self._model = _load_model(model)
        self._prefixes = prefixes
        self._late_encoder = (
            LandmarkEncoder.load(model, window=510, overlap=0.0) if self._kind == "late" else None
        )
        self._splitter = (
            _recursive_splitter(self._model.tokenizer, self._size)
            if self._kind == "recursive"
            else None
        )

    def encode_queries(self, queries: Sequence[str]) -> Vectors:
        """Encode questions: ``[len(queries), dimensions]`` float32 of length one."""
        return self._embed([self._prefixes[0] + query for query in queries])

    def encode_documents(self, documents: Sequence[Document]) -> Iterator[Units]:
        """Split and encode documents, in order."""
        if self._late_encoder is not None:
            for document in documents:
                yield self._late(self._late_encoder, document.text)
            return
        embedded = [self._split(document.text) for document in documents]
        pieces: list[str] = []
        for document, units in zip(documents, embedded, strict=True):
            head = self._prefixes[1] + (
                f"{document.title}\n\n" if self._titled and document.title else ""
            )
            pieces += [head + document.text[unit.start : unit.end] for unit in units]
        vectors = self._embed(pieces)
        first, neighbours = 0, self._size if self._kind == "sentence" else 0
        for units in embedded:
            last = len(units) - 1
            bounds = [
                (units[max(0, i - neighbours)].start, units[min(last, i + neighbours)].end)
                for i in range(len(units))
            ]
            yield Units(bounds, vectors[first : first + len(units)])
            first += len(units)

    def _embed(self, texts: list[str]) -> Vectors:
        """Return the vectors ``[n, dimensions]`` float32 of texts, each embedded alone."""
        vectors: Vectors = self._model.encode(
            texts, normalize_embeddings=True, show_progress_bar=False
        )
        return vectors.astype(np.float32)

    def _split(self, text: str) -> list[Sentence]:
        """Return the sentences or the chunks of a text."""
        if self._splitter is None:
            return split_sentences(text)
        chunks = self._splitter.create_documents([text])
        starts = [chunk.metadata["start_index"] for chunk in chunks]
        return [
            Sentence(start, start + len(chunk.page_content))
            for start, chunk in zip(starts, chunks, strict=True)
        ]

    def _late(self, encoder: LandmarkEncoder, text: str) -> Units:
        """Return chunks of whole sentences, pooled from the states of the whole context."""
        sentences, vectors = encoder.encode(text, split_sentences(text))
        lengths = np.array([encoder.count_tokens(text[s.start : s.end]) for s in sentences])
        bounds, rows, first = [], [], 0
        while first < len(sentences):
            stop = first + 1
            while stop < len(sentences) and lengths[first : stop + 1].sum() <= self._size:
                stop += 1
            # The mean over a chunk's tokens is the mean of its sentences' means, each weighing its
            # tokens.
            rows.append(
                np.average(vectors[first:stop], axis=0, weights=np.maximum(lengths[first:stop], 1))
            )
            bounds.append((sentences[first].start, sentences[stop - 1].end))
            first = stop
        matrix = np.array(rows, np.float32).reshape(len(rows), encoder.spec.dimensions)
        return Units(
            bounds, matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
        )


def _load_model(model: str) -> Any:
    with needs("eval", "sentence-transformers"):
        from sentence_transformers import SentenceTransformer
    device = choose_device()
    loaded = SentenceTransformer(
        str(find_model(model)), device=str(device), model_kwargs={"dtype": choose_dtype(device)}
    )
    loaded.max_seq_length = (
        512  # all it has positions for: the shipped 256 would cut longer chunks in silence
    )
    return loaded


def _recursive_splitter(tokenizer: Any, tokens: int) -> Any:
    with needs("eval", "langchain-text-splitters"):
        from langchain_text_splitters import RecursiveCharacterTextSplitter
    return RecursiveCharacterTextSplitter(
        chunk_size=tokens,
        chunk_overlap=0,
        length_function=lambda text: len(
            tokenizer.encode(text, add_special_tokens=False, verbose=False)
        ),
        add_start_index=True,
    )
