"""The landmark encoder: read a document once, in sliding windows, and keep one vector per sentence.

Luo et al., "Landmark Embedding" (ACL 2024, arXiv 2402.11573) for the idea; Günther et al., "Late Chunking"
(arXiv 2409.04701) for reading an untrained encoder this way.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError

from lmkrag.encoder.device import choose_device, choose_dtype
from lmkrag.encoder.pooling import POOLINGS, pool_sentences
from lmkrag.encoder.spec import (
    DEFAULT_ENCODER,
    DEFAULT_OVERLAP,
    DEFAULT_WINDOW,
    find_model,
    fingerprint_model,
    read_settings,
)
from lmkrag.encoder.windows import plan_windows
from lmkrag.errors import EncoderError
from lmkrag.types import EncoderSpec, Sentence, Window

_TOKENIZER_BATCH = 256  # sentences
_POOL_TOKENS = 32_768  # windows sorted by length together; more sorts better, less streams better
_BATCH_TOKENS = 4_096  # one forward pass, padding included

Vectors = NDArray[np.float32]


class Encoded(NamedTuple):
    """The next sentences of document ``key``, and their vectors ``[len(sentences), dimensions]``."""

    key: int
    sentences: list[Sentence]
    vectors: Vectors


class _Piece(NamedTuple):
    sentence: Sentence
    ids: list[int]


class _Job(NamedTuple):
    key: int
    window: Window
    pieces: list[_Piece]


class LandmarkEncoder:
    """Any Hugging Face encoder, read so that every sentence is embedded in its context.

    A folder with ``landmark.json`` says how it was trained to be read; any other model is read by mean-pooling each
    sentence's tokens inside its window.

    >>> encoder = LandmarkEncoder.load()
    >>> sentences = [Sentence(0, 10), Sentence(10, 22)]
    >>> fitted, vectors = encoder.encode("It rained. Then it froze", sentences)
    >>> vectors.shape
    (2, 384)
    """

    def __init__(self, model: Any, tokenizer: Any, spec: EncoderSpec, *, device: torch.device) -> None:
        """Take a loaded model and its fast tokenizer; :meth:`load` builds them."""
        if spec.pooling not in POOLINGS:
            raise EncoderError(f"unknown pooling {spec.pooling!r}: one of {', '.join(POOLINGS)}")
        self.spec = spec
        self.device = device
        self._model = model.to(device).eval()
        self._prefix, self._suffix = _special_tokens(tokenizer)
        self._tokens = tokenizer.backend_tokenizer  # calling the tokenizer itself would undo what follows
        self._tokens.no_truncation()
        self._tokens.no_padding()
        self._tokens.encode_special_tokens = True  # a literal "[SEP]" in a document is text
        self._pad = tokenizer.pad_token_id or 0
        self._landmark = [tokenizer.convert_tokens_to_ids(spec.landmark)] if spec.landmark else []

    @classmethod
    def load(
        cls,
        name: str | None = None,
        *,
        device: str | None = None,
        dtype: torch.dtype | None = None,
        window: int | None = None,
        overlap: float | None = None,
    ) -> Self:
        """Load a model folder or hub name; the packaged default without one.

        Args:
            name: a folder, a hub name (``owner/name``), or None.
            device: a torch device; CUDA when there is a card, else the CPU.
            dtype: weights and activations; the fastest that is correct on the device.
            window: tokens a window, special tokens not counted; what the model was made for without one.
            overlap: share of a window repeated in the next.

        Raises:
            UsageError: no such folder. EncoderError: it can't be loaded.
        """
        from transformers import AutoConfig, AutoModel, AutoTokenizer
        from transformers.utils import logging

        folder = find_model(name)
        settings = read_settings(folder)
        where = choose_device(device)
        logging.disable_progress_bar()
        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model = AutoModel.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, dtype=dtype or choose_dtype(where)
            )
        except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
            raise EncoderError(f"{folder}: can't be loaded as an encoder ({error})") from error
        finally:
            logging.enable_progress_bar()
        if not getattr(tokenizer, "is_fast", False):
            raise EncoderError(f"{folder}: needs a fast tokenizer (tokenizer.json), this model has none")
        prefix, suffix = _special_tokens(tokenizer)
        longest = min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", 512))
        free = longest - len(prefix) - len(suffix)
        chosen = window or settings.get("window") or min(DEFAULT_WINDOW, free)
        if chosen > free:
            raise EncoderError(f"a window of {chosen} tokens is longer than the {longest} positions of {folder.name}")
        pooling = settings.get("pooling", "mean")
        share = settings.get("overlap", DEFAULT_OVERLAP) if overlap is None else overlap
        spec = EncoderSpec(
            name=str(folder.resolve()) if name and Path(name).is_dir() else name or DEFAULT_ENCODER,
            fingerprint=fingerprint_model(folder, f"{chosen} {share} {pooling}"),
            dimensions=config.hidden_size,
            pooling=pooling,
            window=chosen,
            overlap=share,
            landmark=settings.get("landmark", ""),
            query_prefix=settings.get("query_prefix", ""),
        )
        return cls(model, tokenizer, spec, device=where)

    def encode(self, text: str, sentences: Iterable[Sentence]) -> tuple[list[Sentence], Vectors]:
        """Encode one document.

        Args:
            text: the document.
            sentences: sentences that tile it.

        Returns:
            The sentences (those longer than a window split), and their vectors ``[n, dimensions]`` of length one.
        """
        parts = list(self.encode_stream([(0, text, sentences)]))
        fitted = [sentence for part in parts for sentence in part.sentences]
        vectors = [part.vectors for part in parts]
        return fitted, np.concatenate(vectors) if vectors else np.zeros((0, self.spec.dimensions), np.float32)

    def encode_stream(self, documents: Iterable[tuple[int, str, Iterable[Sentence]]]) -> Iterator[Encoded]:
        """Encode documents one after the other, windows of several in a batch.

        Args:
            documents: (key, text, sentences that tile it); read as they are needed.

        Yields:
            The sentences of each document in order, documents in order; a long document comes in many parts. What is
            held in memory does not grow with the document.
        """
        jobs = (job for key, text, sentences in documents for job in self._windows(key, text, sentences))
        for pool in _pools(jobs):
            for job, vectors in zip(pool, self._encode_pool(pool), strict=True):
                window = job.window
                own = slice(window.own_first - window.first, window.own_stop - window.first)
                if own.stop > own.start:
                    yield Encoded(job.key, [piece.sentence for piece in job.pieces[own]], vectors[own])

    def encode_queries(self, queries: Sequence[str]) -> Vectors:
        """Encode questions: ``[len(queries), dimensions]`` float32 of length one. Cut at the window's length."""
        jobs = []
        for key, query in enumerate(queries):
            text = _encodable(self.spec.query_prefix + query)
            ids = self._tokens.encode(text, add_special_tokens=False).ids[: self.spec.window - len(self._landmark)]
            piece = _Piece(Sentence(0, len(text)), ids + self._landmark)
            jobs.append(_Job(key, Window(0, 1, 0, 1, len(piece.ids)), [piece]))
        parts = [self._encode_pool(pool) for pool in _pools(iter(jobs))]
        vectors = [vector for part in parts for vector in part]
        return np.concatenate(vectors) if vectors else np.zeros((0, self.spec.dimensions), np.float32)

    def encode_query(self, query: str) -> Vectors:
        """Encode one question: ``[dimensions]`` float32 of length one."""
        vector: Vectors = self.encode_queries([query])[0]
        return vector

    def count_tokens(self, text: str) -> int:
        """Return how many tokens ``text`` is, special tokens not counted."""
        return len(self._tokens.encode(_encodable(text), add_special_tokens=False).ids)

    def _windows(self, key: int, text: str, sentences: Iterable[Sentence]) -> Iterator[_Job]:
        held: deque[_Piece] = deque()
        first = 0  # the ordinal of held[0]

        def count() -> Iterator[int]:
            for piece in self._tokenize(text, sentences):
                held.append(piece)
                yield max(1, len(piece.ids))

        for window in plan_windows(count(), budget=self.spec.window, overlap=self.spec.overlap):
            while first < window.first:
                held.popleft()
                first += 1
            yield _Job(key, window, list(islice(held, window.stop - window.first)))

    def _tokenize(self, text: str, sentences: Iterable[Sentence]) -> Iterator[_Piece]:
        """Tokenize sentence by sentence, and split those that no window holds at white space."""
        budget = self.spec.window - len(self._landmark)
        remaining = iter(sentences)
        while batch := list(islice(remaining, _TOKENIZER_BATCH)):
            texts = [_encodable(text[sentence.start : sentence.end]) for sentence in batch]
            encodings = self._tokens.encode_batch(texts, add_special_tokens=False)
            for sentence, encoding in zip(batch, encodings, strict=True):
                while len(encoding.ids) > budget:
                    cut = sentence.start + _cut(text[sentence.start : sentence.end], encoding.offsets, budget)
                    head = self._tokens.encode(_encodable(text[sentence.start : cut]), add_special_tokens=False)
                    # A piece tokenizes almost as it did in place; what little it gains is cut off its vector only.
                    yield _Piece(Sentence(sentence.start, cut, sentence.kind), head.ids[:budget] + self._landmark)
                    sentence = Sentence(cut, sentence.end, sentence.kind)
                    encoding = self._tokens.encode(_encodable(text[cut : sentence.end]), add_special_tokens=False)
                yield _Piece(sentence, encoding.ids + self._landmark)

    def _encode_pool(self, pool: list[_Job]) -> list[Vectors]:
        """Encode windows, those of like length together; the vectors come in the order of the windows."""
        results: list[Vectors] = [np.empty(0, np.float32)] * len(pool)
        order = sorted(range(len(pool)), key=lambda i: pool[i].window.tokens, reverse=True)
        while order:
            longest = pool[order[0]].window.tokens + len(self._prefix) + len(self._suffix)
            size = max(1, _BATCH_TOKENS // longest)
            batch, order = order[:size], order[size:]
            for index, vectors in zip(batch, self._forward([pool[i] for i in batch]), strict=True):
                results[index] = vectors
        return results

    @torch.inference_mode()
    def _forward(self, jobs: list[_Job]) -> list[Vectors]:
        rows = [[*self._prefix, *(token for piece in job.pieces for token in piece.ids), *self._suffix] for job in jobs]
        width = max(map(len, rows))
        total = sum(len(job.pieces) for job in jobs)
        ids = torch.full((len(rows), width), self._pad, dtype=torch.long)
        owner = torch.full((len(rows), width), total, dtype=torch.long)
        is_landmark = torch.zeros((len(rows), width), dtype=torch.bool)
        sentence = 0
        for row, (job, tokens) in enumerate(zip(jobs, rows, strict=True)):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            column = len(self._prefix)
            for piece in job.pieces:
                end = column + len(piece.ids)
                owner[row, column:end] = sentence
                if self._landmark:
                    is_landmark[row, end - 1] = True
                column, sentence = end, sentence + 1
        lengths = torch.tensor([len(tokens) for tokens in rows])
        mask = (torch.arange(width)[None] < lengths[:, None]).long()
        inputs = {"input_ids": ids.to(self.device)}
        if bool((lengths < width).any()):
            inputs["attention_mask"] = mask.to(self.device)
        states = self._model(**inputs).last_hidden_state
        vectors = pool_sentences(
            self.spec.pooling,
            states.flatten(0, 1),
            owner.flatten().to(self.device),
            is_landmark.flatten().to(self.device),
            total,
        )
        borders = np.cumsum([len(job.pieces) for job in jobs])[:-1]
        return np.split(vectors.cpu().numpy(), borders)


def _pools(jobs: Iterator[_Job]) -> Iterator[list[_Job]]:
    pool: list[_Job] = []
    tokens = 0
    for job in jobs:
        pool.append(job)
        tokens += job.window.tokens
        if tokens >= _POOL_TOKENS:
            yield pool
            pool, tokens = [], 0
    if pool:
        yield pool


def _encodable(text: str) -> str:
    """Text of the same length that UTF-8 can hold: the tokenizer refuses lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """What the tokenizer puts before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    dressed = tokenizer("a")["input_ids"]
    for start in range(len(dressed) - len(bare) + 1):
        if dressed[start : start + len(bare)] == bare:
            return dressed[:start], dressed[start + len(bare) :]
    return [], []


def _cut(text: str, offsets: list[tuple[int, int]], budget: int) -> int:
    """Where to cut ``text`` so that its head has at most ``budget`` tokens: the last white space, else a token."""
    limit = offsets[budget][0] or 1
    for position in range(limit, limit // 2, -1):
        if text[position - 1].isspace():
            return position
    return limit
