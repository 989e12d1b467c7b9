"""The reader on vLLM in this process: for many questions at once on a GPU."""

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

from lmkrag.errors import ReaderError, needs
from lmkrag.readers.base import LanguageModelReader, name_model, remove_thoughts
from lmkrag.readers.citations import CUT
from lmkrag.readers.prompt import Messages, Prompts, is_small_model
from lmkrag.results import Answer, Span

_SHARE = 0.6  # of the card's memory: docs/how-to/gpu.md has the shares of the others


class VllmReader(LanguageModelReader):
    """Answers batches with ``vllm.LLM``, which does not stream; to serve people run ``vllm serve``,
    use ``openai``.
    """

    name = "vllm"

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int = 1_024,
        temperature: float = 0.0,
        prompts: Prompts | None = None,
        **engine: Any,
    ) -> None:
        """Load a model.

        Args:
            model: a folder or hub name.
            max_tokens: that an answer has at most, thoughts included.
            temperature: of its sampling; 0 always takes the likeliest token.
            prompts: the prompts; defaults to the packaged ones that fit the model's size.
            engine: for ``vllm.LLM``, such as ``gpu_memory_utilization``, which defaults to 0.6.

        Raises:
            MissingExtra: vLLM is not installed.
            ReaderError: vLLM can't load the model here.
        """
        with needs("vllm", "vllm"):
            import vllm
        super().__init__(prompts)
        self._model, self._turn = model, Lock()
        engine = {"gpu_memory_utilization": _SHARE, "enable_prefix_caching": True} | engine
        try:
            self._llm = vllm.LLM(model=model, **engine)
        except (RuntimeError, ValueError, OSError) as error:
            raise ReaderError(f"{model}: vLLM can't load it here ({error})") from error
        self._sampling = vllm.SamplingParams(temperature=temperature, max_tokens=max_tokens)

    def count_tokens(self, text: str) -> int:
        """Return how many tokens the model reads ``text`` as."""
        return len(self._llm.get_tokenizer().encode(text, add_special_tokens=False))

    @property
    def is_small(self) -> bool:
        """Whether the model's name says that it is small."""
        return is_small_model(self._model)

    @property
    def answered_by(self) -> str:
        """The model."""
        return name_model(self._model)

    def generate(self, messages: Messages) -> Iterator[str]:
        """Yield what the model says, in one piece."""
        yield from self._chat([messages])

    def answer_each(
        self, questions: Sequence[str], spans: Sequence[Sequence[Span]]
    ) -> Iterator[Answer | ReaderError]:
        """Answer several questions in one batch, which fails as a whole."""
        unasked = [*map(self.answer_without_model, questions, spans)]
        shown = [self.prompts.choose(its_spans) for its_spans in spans]
        asked = [index for index, answer in enumerate(unasked) if answer is None]
        try:
            texts = self._chat(
                [self.prompts.answer(questions[index], shown[index]) for index in asked]
            )
        except ReaderError as error:
            yield from (error for _ in questions)
            return
        answers = dict(zip(asked, texts, strict=True))
        for index, answer in enumerate(unasked):
            yield answer or self._check(answers[index], shown[index])

    def _chat(self, conversations: list[Messages]) -> list[str]:
        """Return the replies without what the model thinks; ``vllm.LLM`` serves one thread at a
        time.
        """
        if not conversations:
            return []
        try:
            with self._turn:
                outputs = self._llm.chat(
                    conversations,
                    self._sampling,
                    use_tqdm=False,
                    chat_template_kwargs={"enable_thinking": False},  # of models that can choose
                )
        except (RuntimeError, ValueError) as error:
            raise ReaderError(
                f"vLLM failed ({error}); is the prompt too long? lower --context-tokens"
            ) from error
        completions = [output.outputs[0] for output in outputs]
        return [
            remove_thoughts(completion.text) + (CUT if completion.finish_reason == "length" else "")
            for completion in completions
        ]
