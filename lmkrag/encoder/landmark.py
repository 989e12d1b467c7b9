"""The landmark encoder: read a document once, in sliding windows, and keep one vector per sentence.

Luo et al., "Landmark Embedding" (ACL 2024, arXiv 2402.11573), put a landmark token after each
sentence and read its state as the sentence's vector. Günther et al., "Late Chunking" (arXiv
2409.04701), pool the tokens of a unit after the whole text was encoded, which works with untrained
encoders, too.

The way of a document: sentences become pieces (token ids), pieces become windows, windows of
several documents become a pool that is sorted by length, and a pool is read in batches.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from xxhash import xxh3_64_intdigest

from lmkrag.encoder.loading import Runtime, load_parts
from lmkrag.encoder.tokens import Piece, SentenceTokenizer
from lmkrag.encoder.windows import WindowModel, plan_windows
from lmkrag.models.device import Precision
from lmkrag.specs import EncoderSpec, Sentence, Text, Window
from lmkrag.types.arrays import Vectors

if TYPE_CHECKING:
    import torch

_POOL_TOKENS = 16_384  # windows sorted by length together; more sorts better, less streams better
_BATCH_TOKENS = 4_096  # one forward pass, padding included


class EncoderInput(NamedTuple):
    """A document to encode.

    Attributes:
        key: a number of the caller's own, which the results have, too.
        text: the text, in memory or on disk.
        sentences: sentences that tile the text, read lazily.
        title: title of the document; empty if it has none.
    """

    key: int
    text: Text
    sentences: Iterable[Sentence]
    title: str = ""


# vectors by document, hash of the window, and number
Recall = Callable[[int, int, int], Vectors | None]


class Encoded(NamedTuple):
    """The next sentences of a document with their vectors.

    Attributes:
        key: the key of the :class:`EncoderInput`.
        sentences: consecutive sentences of the document; one longer than a window is split.
        vectors: ``[len(sentences), dimensions]`` float32 of length one.
        window_hash: hash of the tokens of their window, its title among them, and of the range of
            sentences it owns.
    """

    key: int
    sentences: list[Sentence]
    vectors: Vectors
    window_hash: int  # of the tokens of their window, its title among them


class _Job(NamedTuple):
    """A window of a document to encode: its plan, its title's token ids and its pieces."""

    key: int
    window: Window
    title: list[int]
    pieces: list[Piece]

    @property
    def tokens(self) -> int:
        """Number of tokens, special tokens not counted."""
        return len(self.title) + self.window.tokens

    @property
    def owned(self) -> slice:
        """The pieces whose vectors are taken from this window, as a slice of ``pieces``."""
        return slice(
            self.window.own_first - self.window.first, self.window.own_stop - self.window.first
        )

    @property
    def hash(self) -> int:
        """A 64-bit hash of the window's tokens and of the range that it owns; equal windows have
        equal vectors.
        """
        parts = [self.title, *(piece.ids for piece in self.pieces)]
        tokens = array("q", (self.owned.start, self.owned.stop, *map(len, parts)))
        for part in parts:
            tokens.extend(part)
        return xxh3_64_intdigest(tokens.tobytes())


class _Pending(NamedTuple):
    """Windows that are being encoded: their hashes, known vectors or None, and a future with the
    vectors of the others.
    """

    jobs: list[_Job]
    hashes: list[int]
    known: list[Vectors | None]
    fresh: Future[dict[int, Vectors]]

    def parts(self) -> Iterator[Encoded]:
        """Yield their sentences and vectors, once they are encoded."""
        fresh = self.fresh.result()
        for job, window_hash, known in zip(self.jobs, self.hashes, self.known, strict=True):
            # a copy: a view would keep the whole batch in memory
            vectors = fresh[window_hash][job.owned].copy() if known is None else known
            yield Encoded(
                job.key, [piece.sentence for piece in job.pieces[job.owned]], vectors, window_hash
            )


class LandmarkEncoder:
    """Any Hugging Face encoder, read so that every sentence is embedded in its context.

    A folder with ``landmark.json`` says how its model was trained to be read. Any other model is
    read by mean-pooling each sentence's tokens inside its window (late chunking).

    Attributes:
        spec: how the encoder reads text; an index records it.
        tokens: the tokenizer, which works sentence by sentence.
        model: the network with its pooling, in ONNX Runtime or torch.

    >>> encoder = LandmarkEncoder.load()
    >>> sentences = [Sentence(0, 10), Sentence(10, 22)]
    >>> fitted, vectors = encoder.encode("It rained. Then it froze", sentences)
    >>> vectors.shape
    (2, 384)
    """

    def __init__(self, model: WindowModel, tokens: SentenceTokenizer, spec: EncoderSpec) -> None:
        """Take the parts of an encoder; :meth:`load` reads them from a model folder.

        Args:
            model: runs windows of token ids through the network and pools them into vectors.
            tokens: turns sentences and questions into token ids, by the settings of ``spec``.
            spec: window, overlap, pooling, landmark and fingerprint of the encoder.
        """
        self.spec, self.tokens, self.model = spec, tokens, model

    @classmethod
    def load(
        cls,
        name: str | None = None,
        *,
        device: str | None = None,
        dtype: "torch.dtype | None" = None,
        window: int | None = None,
        overlap: float | None = None,
        runtime: Runtime | None = None,
        precision: Precision | None = None,
    ) -> Self:
        """Load an encoder from a model folder or the Hugging Face hub.

        Args:
            name: a folder, a hub name (``owner/name``), ``landmark-mini`` or
                ``landmark-multilingual``; None for ``landmark-mini``, which is packaged.
            device: a torch device, such as ``cuda:1``; defaults to CUDA if there is a card, else to
                the CPU.
            dtype: dtype of weights and activations in torch; defaults to the fastest that is
                correct on the device.
            window: tokens of a window, special tokens not counted; defaults to what the model was
                made for.
            overlap: share of a window that the next one repeats, at least 0 and below 1; defaults
                to 0 for packaged models, else to what the model says.
            runtime: ``onnx`` or ``torch``. By default ONNX Runtime runs a BERT on a CPU, and torch
                everything else; torch also runs a BERT on a card or on a CPU with AMX, if torch is
                installed.
            precision: ``float32``, ``int8`` (ONNX Runtime, a model with ``ranges.npz``, a processor
                with VNNI), or ``auto``, the fastest that suits the model and the machine, bfloat16
                among them. Vectors agree with those in float32 within a cosine of 0.996; questions
                are never read in int8. Defaults to the environment variable ``LMKRAG_PRECISION``,
                else to ``auto``.

        Raises:
            UsageError: there is no such folder or precision, or ``overlap`` is out of range.
            EncoderError: the model can't be loaded, or its window is longer than its positions.
            MissingExtra: the model needs torch, which is not installed.
        """
        return cls(*load_parts(name, device, dtype, window, overlap, runtime, precision))

    @property
    def device(self) -> str:
        """The device of the model, as torch names it."""
        return self.model.device

    def encode(
        self, text: str, sentences: Iterable[Sentence], *, title: str = ""
    ) -> tuple[list[Sentence], Vectors]:
        """Encode one document.

        Args:
            text: the text of the document.
            sentences: sentences that tile the text, in order, such as those of
                :func:`lmkrag.sentences.split.split_sentences`.
            title: title of the document; an encoder that was trained for it reads it before every
                window.

        Returns:
            The sentences, those longer than a window split at white space, and their vectors ``[n,
                dimensions]`` float32 of length one.
        """
        parts = list(self.encode_stream([EncoderInput(0, text, sentences, title)]))
        fitted = [sentence for part in parts for sentence in part.sentences]
        vectors = [part.vectors for part in parts]
        return fitted, np.concatenate(vectors) if vectors else np.zeros(
            (0, self.spec.dimensions), np.float32
        )

    def encode_stream(
        self, documents: Iterable[EncoderInput], *, recall: Recall | None = None
    ) -> Iterator[Encoded]:
        """Encode documents one after the other, windows of several documents in a batch.

        The next windows are planned while a thread encodes the ones before. Memory does not grow
        with the length of a document.

        Args:
            documents: the documents, read as they are needed.
            recall: a function of (``key``, hash of a window, number of its owned sentences) that
                returns the vectors of a window which was encoded before, or None. Equal windows
                that come soon after each other are encoded once in any case.

        Yields:
            The sentences of each document in order, documents in order; a long document comes in
                many parts.
        """
        # Plan: documents become windows, lazily. Windows that own no sentence are left out.
        jobs = (job for document in documents for job in self._jobs(document))
        before: _Pending | None = None
        # Encode: a thread encodes a pool of windows while this one plans the next and yields the
        # pool before.
        with ThreadPoolExecutor(1, "lmkrag-encode") as ahead:
            for pool in _pools(job for job in jobs if job.owned.stop > job.owned.start):
                pending = self._begin(pool, before.fresh.result() if before else {}, recall, ahead)
                if before:
                    yield from before.parts()
                before = pending
            if before:
                yield from before.parts()

    def _begin(
        self,
        pool: list[_Job],
        earlier: Mapping[int, Vectors],
        recall: Recall | None,
        ahead: ThreadPoolExecutor,
    ) -> "_Pending":
        """Start encoding the windows of a pool whose vectors are not known.

        ``recall`` and ``earlier``, the vectors of the pool before by hash, are asked first. Equal
        windows of the pool are encoded once.
        """
        hashes = [job.hash for job in pool]
        known: list[Vectors | None] = []
        for job, window_hash in zip(pool, hashes, strict=True):
            vectors = (
                recall(job.key, window_hash, job.owned.stop - job.owned.start) if recall else None
            )
            if vectors is None and window_hash in earlier:
                vectors = earlier[window_hash][job.owned].copy()
            known.append(vectors)
        unknown = {
            mark: job
            for job, mark, vectors in zip(pool, hashes, known, strict=True)
            if vectors is None
        }

        def encode() -> dict[int, Vectors]:
            return dict(zip(unknown, self._encode_windows(list(unknown.values())), strict=True))

        return _Pending(pool, hashes, known, ahead.submit(encode))

    def encode_queries(self, queries: Sequence[str]) -> Vectors:
        """Encode questions, each alone and in float32, whatever the precision of documents.

        Args:
            queries: questions; one longer than a window is cut to it.

        Returns:
            Vectors ``[len(queries), dimensions]`` float32 of length one.
        """
        pieces = map(self.tokens.query, queries)
        jobs = (
            _Job(key, Window(0, 1, 0, 1, len(piece.ids)), [], [piece])
            for key, piece in enumerate(pieces)
        )
        vectors = [
            vector for pool in _pools(jobs) for vector in self._encode_windows(pool, exact=True)
        ]
        return (
            np.concatenate(vectors) if vectors else np.zeros((0, self.spec.dimensions), np.float32)
        )

    def encode_query(self, query: str) -> Vectors:
        """Encode one question; return its vector ``[dimensions]`` float32 of length one."""
        vector: Vectors = self.encode_queries([query])[0]
        return vector

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, special tokens and landmarks not counted."""
        return self.tokens.count(text)

    def _jobs(self, document: EncoderInput) -> Iterator[_Job]:
        """Yield the windows of a document, each with the document's title."""
        title = self.tokens.title(document.title)
        for window, pieces in self.windows(document.text, document.sentences, taken=len(title)):
            yield _Job(document.key, window, title, pieces)

    def windows(
        self, text: Text, sentences: Iterable[Sentence], *, taken: int = 0
    ) -> Iterator[tuple[Window, list[Piece]]]:
        """Plan the windows of a document in bounded memory.

        Args:
            text: the text of the document.
            sentences: sentences that tile it, in order.
            taken: tokens of each window that are not for sentences, such as those of the title.

        Yields:
            Each window, in order, with the pieces of its sentences ``[first, stop)``.
        """
        held: deque[Piece] = deque()
        first = 0  # the ordinal of held[0]

        def count() -> Iterator[int]:
            for piece in self.tokens.pieces(text, sentences, taken=taken):
                held.append(piece)
                yield max(1, len(piece.ids))

        for window in plan_windows(
            count(), budget=self.spec.window - taken, overlap=self.spec.overlap
        ):
            while first < window.first:
                held.popleft()
                first += 1
            yield window, list(islice(held, window.stop - window.first))

    def _encode_windows(self, pool: list[_Job], *, exact: bool = False) -> list[Vectors]:
        """Encode windows in batches of like length, so that little is padded.

        Args:
            pool: windows of any documents.
            exact: whether to compute in float32 even if documents are read in int8.

        Returns:
            The vectors ``[sentences of the window, dimensions]`` of each window, in the order of
                ``pool``.
        """
        results: list[Vectors] = [np.empty(0, np.float32)] * len(pool)
        # The longest windows come first; as many make a batch as fit its tokens, padding included.
        order = sorted(range(len(pool)), key=lambda i: pool[i].tokens, reverse=True)
        while order:
            longest = pool[order[0]].tokens + len(self.tokens.prefix) + len(self.tokens.suffix)
            size = max(1, _BATCH_TOKENS // longest)
            batch, order = order[:size], order[size:]
            windows = [[piece.ids for piece in pool[i].pieces] for i in batch]
            vectors = self.model.read(windows, [pool[i].title for i in batch], exact=exact)
            borders = np.cumsum([len(window) for window in windows])[:-1]
            for index, of_window in zip(batch, np.split(vectors, borders), strict=True):
                results[index] = of_window
        return results


def _pools(jobs: Iterator[_Job]) -> Iterator[list[_Job]]:
    """Yield windows in groups of about 16,384 tokens, which are sorted by length together."""
    pool: list[_Job] = []
    tokens = 0
    for job in jobs:
        pool.append(job)
        tokens += job.tokens
        if tokens >= _POOL_TOKENS:
            yield pool
            pool, tokens = [], 0
    if pool:
        yield pool
