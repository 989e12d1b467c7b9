"""The encoders of one index, for questions and documents, each loaded on first use."""

import concurrent.futures.thread  # noqa: F401  # registers its fork hooks now, not while a fork waits
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lmkrag.errors import IndexMismatch
from lmkrag.specs import EncoderSpec
from lmkrag.system.processes import refuse_fork

if TYPE_CHECKING:
    from lmkrag.encoder.landmark import LandmarkEncoder
    from lmkrag.encoder.loading import Runtime
    from lmkrag.types.arrays import Vectors

_FEW_QUESTIONS = 32  # more are encoded by torch where it is faster, its import included


class _Waiting(NamedTuple):
    """Questions of one caller, and their vectors once they are encoded."""

    questions: Sequence[str]
    vectors: "Future[Vectors]"


class IndexEncoders:
    """The encoder of an index, and a lighter one for questions that needs no torch.

    State: both encoders once they are loaded, and the questions that wait to be encoded.
    Thread-safe.

    Attributes:
        path: the index, for messages.
        asks_once: whether the process will probably end after one question, which is then encoded
            without ONNX Runtime.
    """

    def __init__(
        self, path: Path | str, spec: EncoderSpec, encoder: "LandmarkEncoder | None" = None
    ) -> None:
        """Take what an index has recorded of its encoder.

        Args:
            path: the index, for messages.
            spec: the spec that the index has recorded.
            encoder: the loaded encoder; by default it is loaded by its recorded name on first use.

        Raises:
            IndexMismatch: the fingerprint of ``encoder`` differs from that of ``spec``.
        """
        self.path, self._spec = path, spec
        self._encoder = encoder
        self._light: LandmarkEncoder | None = None
        # the process will probably end after one question, so it is read without ONNX Runtime
        self.asks_once = False
        self._guard = threading.RLock()
        self._waiting: list[_Waiting] = []  # questions to be encoded next
        self._encodes = threading.Lock()
        self._process = os.getpid()
        if encoder is not None:
            self._check(encoder)

    def _guarded(self) -> threading.RLock:
        """Return the lock of the loaded encoders and of the waiting questions.

        Raises:
            UsageError: the process was forked.
        """
        refuse_fork(self._process, self.path)
        return self._guard

    def encoder_of(self, spec: EncoderSpec) -> "LandmarkEncoder":
        """Return the encoder of a spec, which differs from the recorded one if the first documents
        of the index changed it.

        Raises:
            EncoderError: the encoder can't be loaded.
        """
        with self._guarded():
            if spec != self._spec:
                self._spec, self._encoder, self._light = spec, None, None
            return self.encoder

    @property
    def name(self) -> str:
        """The name of the encoder: a folder, a hub name, or that of a packaged one."""
        return self._spec.name

    @property
    def encoder(self) -> "LandmarkEncoder":
        """The encoder that made the index, loaded on first use."""
        from lmkrag.encoder.loading import prefers_torch

        with self._guarded():
            if self._encoder is None:
                self._encoder = (
                    self._load() if self._light is None or prefers_torch() else self._light
                )
            return self._encoder

    @property
    def _for_questions(self) -> "LandmarkEncoder":
        """The encoder of questions: without torch where possible, unless the other one is
        loaded.
        """
        from lmkrag.encoder.loading import runs_without_torch
        from lmkrag.encoder.spec import find_model

        with self._guarded():
            if self._encoder is None and self._light is None:
                if not runs_without_torch(find_model(self._spec.name), self._spec.pooling):
                    return self.encoder
                self._light = self._load("numpy" if self.asks_once else "onnx")
            return self.encoder if self._light is None else self._light

    def _load(self, runtime: "Runtime | None" = None) -> "LandmarkEncoder":
        """Load the encoder of the spec, with its window and overlap, and check its fingerprint."""
        from lmkrag.encoder.landmark import LandmarkEncoder

        spec = self._spec
        loaded = LandmarkEncoder.load(
            spec.name, window=spec.window, overlap=spec.overlap, runtime=runtime
        )
        self._check(loaded)
        return loaded

    def encode_questions(self, questions: Sequence[str]) -> "Vectors":
        """Encode questions. Calls that wait meanwhile are encoded together in one batch.

        Args:
            questions: any number of questions; more than 32 are encoded with the encoder of
                documents, which may use torch.

        Returns:
            Vectors ``[len(questions), dimensions]`` float32 of length one.
        """
        if len(questions) > _FEW_QUESTIONS:
            return self.encoder.encode_queries(questions)
        entry = _Waiting(questions, Future())
        with self._guarded():
            self._waiting.append(entry)
        with self._encodes:  # its holder encodes for all that wait
            while not entry.vectors.done():
                self._encode_waiting()
        return entry.vectors.result()

    def _encode_waiting(self) -> None:
        """Encode the first waiting questions, as many as fit in a batch, and set their vectors or
        errors. Questions that an interruption such as Ctrl+C leaves without either wait again.
        """
        with self._guarded():
            together = [self._waiting.pop(0)]
            size = len(together[0].questions)
            while self._waiting and size + len(self._waiting[0].questions) <= _FEW_QUESTIONS:
                together.append(self._waiting.pop(0))
                size += len(together[-1].questions)
        try:
            self._encode_together(together)
        except Exception:  # a question that can't be encoded fails alone
            for item in together:
                try:
                    self._encode_together([item])
                except Exception as error:
                    item.vectors.set_exception(error)
        finally:
            with self._guarded():
                self._waiting[:0] = [item for item in together if not item.vectors.done()]

    def _encode_together(self, waiting: "Sequence[_Waiting]") -> None:
        """Encode the questions of several callers in one batch, and set each caller's vectors."""
        questions = [question for item in waiting for question in item.questions]
        vectors = self._for_questions.encode_queries(questions)
        start = 0
        for item in waiting:
            item.vectors.set_result(vectors[start : start + len(item.questions)])
            start += len(item.questions)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, special tokens not counted."""
        return self._for_questions.count_tokens(text)

    def count_word(self, word: str) -> int:
        """Return the number of tokens of a word in lower case, or of it as a name if it has fewer
        as one.
        """
        return min(self.count_tokens(form) for form in (word, word.capitalize()))

    def _check(self, encoder: "LandmarkEncoder") -> None:
        """Raise IndexMismatch unless an encoder has the recorded fingerprint."""
        if encoder.spec.fingerprint != self._spec.fingerprint:
            raise IndexMismatch(
                f"{self.path}: made with encoder {self._spec.name!r} "
                f"({self._spec.fingerprint[:8]}), not with "
                f"{encoder.spec.name!r} ({encoder.spec.fingerprint[:8]}); run lmkrag index-tools "
                "reindex, or open "
                "it with the encoder that made it"
            )


def load_encoder(
    encoder: "str | LandmarkEncoder | None",
    *,
    window: int | None = None,
    overlap: float | None = None,
) -> "LandmarkEncoder":
    """Load an encoder; a loaded one is returned unchanged.

    Args:
        encoder: a folder, a hub name, a loaded encoder, or None for the packaged default.
        window: tokens of a window; defaults to what the model was made for.
        overlap: share of a window that the next one repeats, at least 0 and below 1; defaults to
            what the model was made for.

    Raises:
        UsageError: there is no such folder, or ``overlap`` is out of range.
        EncoderError: the model can't be loaded.
        MissingExtra: the model needs torch, which is not installed.
    """
    from lmkrag.encoder.landmark import LandmarkEncoder

    if isinstance(encoder, LandmarkEncoder):
        return encoder
    return LandmarkEncoder.load(encoder, window=window, overlap=overlap)
