"""Cross-encoders of passages: BERT reads a question and a text together, and gives one score for both."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from lmkrag.arrays import Scores, Vectors
from lmkrag.errors import EncoderError
from lmkrag.models.bert import bert_inputs
from lmkrag.models.files import encodable
from lmkrag.models.session import Session
from lmkrag.reranker.landmark import find_reranker, read_folder

SCORE = "score"  # the output of the graph, ``[1, 1]`` float32, of one question and text
HEAD = ("pooler.dense.weight", "pooler.dense.bias", "classifier.weight", "classifier.bias")
"""The layers above BERT, by the names that transformers gives them; their weights are ``[out, in]``."""

_QUESTION_CHARS, _TEXT_CHARS = 1_000, 4_000  # that are looked at
_TOKENS = 400  # of a question and a text that are read, at most


class PassageReranker:
    """Scores texts by reading each with a question. State: the model. May be shared by threads.

    >>> reranker = PassageReranker.load("landmark-reranker-l12")
    >>> texts = ["Pears ripen in October.", "Apples are picked in May."]
    >>> int(reranker.score_texts("When are apples picked?", texts).argmax())
    1
    """

    def __init__(self, name: str, session: Session, tokenizer: Tokenizer) -> None:
        """Take the model and its tokenizer, whose settings are changed; :meth:`load` builds them."""
        self.name, self._session, self._tokenizer = name, session, tokenizer
        tokenizer.no_padding()
        tokenizer.enable_truncation(_TOKENS, strategy="only_second")
        tokenizer.encode_special_tokens = True

    @classmethod
    def load(cls, name: str) -> Self:
        """Load a model of this package or a folder. Raises UsageError: no such folder. EncoderError: it is broken."""
        folder = find_reranker(name)
        try:
            _, tokenizer, graph, weights = read_folder(folder)
            return cls(name, Session(graph.read_bytes(), weights | read_head(folder)), tokenizer)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise EncoderError(f"{folder}: can't be loaded as a re-ranker of passages ({error})") from error

    def score_texts(self, question: str, texts: Sequence[str]) -> Scores:
        """Return how well each text answers a question, ``[texts]`` float32 log-odds."""
        asked = encodable(question[:_QUESTION_CHARS])
        runs = [self._inputs(asked, encodable(text[:_TEXT_CHARS])) for text in texts]
        return np.array([found[0, 0] for (found,) in self._session.run_each([SCORE], runs)], np.float32)

    def _inputs(self, question: str, text: str) -> dict[str, Any]:
        encoding = self._tokenizer.encode(question, text)
        return bert_inputs(np.array([encoding.ids]), np.array([encoding.type_ids]))


def read_head(folder: Path) -> dict[str, Vectors]:
    """Return the weights of :data:`HEAD`."""
    with safe_open(folder / "model.safetensors", "np") as file:
        return {name: file.get_tensor(name).astype(np.float32) for name in HEAD}
