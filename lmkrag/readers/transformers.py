"""The reader on a Hugging Face causal model of this machine."""

from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from threading import Event, Thread
from typing import Any

from lmkrag.errors import ReaderError, UsageError, needs
from lmkrag.models.device import choose_device
from lmkrag.models.tokens import tokenize
from lmkrag.readers.base import LanguageModelReader, name_model
from lmkrag.readers.citations import CUT
from lmkrag.readers.prompt import MAX_SMALL_MODEL, Messages, Prompts


class TransformersReader(LanguageModelReader):
    """Loads a causal model and streams from it, on a GPU when there is one."""

    name = "transformers"

    def __init__(
        self,
        model: str,
        *,
        device: str | None = None,
        max_tokens: int = 1_024,
        temperature: float = 0.0,
        timeout: float = 600.0,
        prompts: Prompts | None = None,
    ) -> None:
        """Load a model: a folder, a GGUF file (needs the package ``gguf``) or a hub name; its code
        is never run.

        ``timeout`` is for the next piece; ``temperature`` 0 always takes the likeliest token.
        Raises UsageError: no such folder. ReaderError: it can't be loaded as a causal model.
        MissingExtra: torch or transformers is not installed.
        """
        with needs("torch"):
            from transformers import AutoModelForCausalLM, AutoTokenizer

        super().__init__(prompts)
        self._name = name_model(model)
        path = Path(model)
        file = {"gguf_file": path.name} if path.suffix == ".gguf" and path.is_file() else {}
        folder = str(path.parent) if file else model
        if not Path(folder).is_dir() and (
            model.startswith((".", "/", "~")) or model.count("/") != 1
        ):
            raise UsageError(f"reader 'transformers': no such model folder: {model}")
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **file)
            loaded = AutoModelForCausalLM.from_pretrained(
                folder, use_safetensors=True, trust_remote_code=False, dtype="auto", **file
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise ReaderError(f"{model}: can't be loaded as a causal model ({error})") from error
        self._model = loaded.to(choose_device(device)).eval()
        self._longest = int(getattr(loaded.config, "max_position_embeddings", 0) or 1 << 30)
        self._max_tokens = max_tokens
        self._sampling = (
            {"do_sample": True, "temperature": temperature}
            if temperature > 0
            else {"do_sample": False}
        )
        self._timeout = timeout

    @property
    def is_small(self) -> bool:
        """Whether the model has few parameters."""
        return bool(self._model.num_parameters() <= MAX_SMALL_MODEL)

    @property
    def answered_by(self) -> str:
        """The model."""
        return self._name

    def count_tokens(self, text: str) -> int:
        """Return how many tokens the model reads ``text`` as."""
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def shorten(self, question: str) -> str:
        """Return the beginning of a question, a quarter of what the model reads at most."""
        most = max(1, self._longest // 4)
        tokens = tokenize(self._tokenizer.backend_tokenizer, question, most)
        return question if len(tokens) < most else question[: tokens.offsets[-1][1]]

    def generate(self, messages: Messages) -> Iterator[str]:
        from transformers import TextIteratorStreamer

        inputs = self._encode(messages)
        length = inputs["input_ids"].shape[1]
        room = self._longest - length
        if room < 1:
            raise ReaderError(
                f"the prompt has {length} tokens, the model reads {self._longest}: "
                "lower --context-tokens"
            )
        streamer = TextIteratorStreamer(
            self._tokenizer, skip_prompt=True, skip_special_tokens=True, timeout=0.5
        )
        settings = {**self._sampling, "max_new_tokens": min(self._max_tokens, room)}
        worker = _Generation(self._model, streamer, inputs, settings)
        worker.start()
        try:
            yield from self._pieces(streamer, worker)
        finally:
            worker.stop.set()  # the caller may have closed the generator
            worker.join()

    def _pieces(self, streamer: Any, worker: "_Generation") -> Iterator[str]:
        waited = 0.0
        while True:
            try:
                piece = next(streamer)
            except StopIteration:
                break
            except Empty:
                if not worker.is_alive() and worker.failure:
                    break
                waited += streamer.timeout
                if waited >= self._timeout:
                    raise ReaderError(
                        f"the model said nothing for {self._timeout:.0f} seconds"
                    ) from None
                continue
            waited = 0.0
            if piece:
                yield piece
        worker.join()
        if worker.failure:
            raise ReaderError(f"the model failed ({worker.failure})") from worker.failure
        if worker.cut:
            yield CUT

    def _encode(self, messages: Messages) -> Any:
        if self._tokenizer.chat_template:
            inputs = self._tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
        else:  # a base model: plain text to go on from
            text = "\n\n".join(message["content"] for message in messages)
            inputs = self._tokenizer(f"{text}\n\nAnswer:", return_tensors="pt")
        return {
            name: inputs[name].to(self._model.device)
            for name in ("input_ids", "attention_mask")
            if name in inputs
        }


class _Generation(Thread):
    """One run of ``generate``, which ``stop`` ends. State: its exception in ``failure``, and
    whether it was ``cut``.
    """

    def __init__(self, model: Any, streamer: Any, inputs: Any, settings: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.stop = Event()
        self.failure: Exception | None = None
        self.cut = False
        self._model, self._streamer, self._inputs, self._settings = (
            model,
            streamer,
            inputs,
            settings,
        )

    def run(self) -> None:
        """Generate until the model ends, or is stopped."""
        from transformers import StoppingCriteriaList

        try:
            output = self._model.generate(
                **self._inputs,
                streamer=self._streamer,
                **self._settings,
                stopping_criteria=StoppingCriteriaList([self._stopped]),
            )
            self.cut = (
                output.shape[1] - self._inputs["input_ids"].shape[1]
                >= self._settings["max_new_tokens"]
            )
        except Exception as error:  # any error has to reach the reader
            self.failure = error
            self._streamer.end()

    def _stopped(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        return torch.full((input_ids.shape[0],), self.stop.is_set(), device=input_ids.device)
