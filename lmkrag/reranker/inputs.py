"""From a question and a passage to tokens: ``[CLS] question [SEP] title <LMK> sentence <LMK> sentence <LMK> [SEP]``."""

from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from lmkrag.arrays import Ids
from lmkrag.encoder.tokens import special_tokens
from lmkrag.models.files import encodable
from lmkrag.reranker.base import RerankPassage

_QUESTION, _TITLE, _SENTENCE = 64, 16, 120  # tokens of each that are read, at most
PASSAGE_TOKENS = 240  # tokens of a passage that are read, unless a re-ranker says otherwise
_LONGEST = 2_000  # characters of a question, title or sentence that are looked at


class PairTokens(NamedTuple):
    """A question and a passage as tokens."""

    ids: Ids  # ``[tokens]``
    question: int  # tokens of the question, which follow the first one
    owners: Ids  # ``[tokens]``, the sentence that each is of, -1 for none
    offsets: Ids  # ``[tokens, 2]``, where they stand in their sentences

    @property
    def types(self) -> Ids:
        """``[tokens]``: 0 for the question, 1 for the passage."""
        types = np.ones(len(self.ids), np.int64)
        types[: self.question + 2] = 0
        return types


class PairTokenizer:
    """Tokenizes questions with passages. State: the tokenizer."""

    def __init__(self, tokenizer: Tokenizer, landmark: str, passage_tokens: int = PASSAGE_TOKENS) -> None:
        """Take the model's tokenizer, whose settings are changed, its landmark, and the most tokens of a passage."""
        self._passage_tokens = passage_tokens
        self._tokens = tokenizer
        self._tokens.no_truncation()
        self._tokens.no_padding()
        self._tokens.encode_special_tokens = True
        (self._first,), (self._last,) = special_tokens(tokenizer)
        self._landmark = int(tokenizer.token_to_id(landmark) or 0)

    def pair(self, question: str, passage: RerankPassage) -> PairTokens:
        """Tokenize a question and a passage; sentences that do not fit are left out, long ones are cut."""
        question_ids = self._encode(question, _QUESTION)[0]
        title = self._encode(passage.title, _TITLE)[0]
        ids = [self._first, *question_ids, self._last, *title, *([self._landmark] if title else [])]
        owners = [-1] * len(ids)
        offsets = [(0, 0)] * len(ids)
        room = len(question_ids) + 2 + self._passage_tokens
        for number, sentence in enumerate(passage.sentences):
            tokens, passages = self._encode(sentence, _SENTENCE)
            if len(ids) + len(tokens) + 2 > room:
                break
            ids += [*tokens, self._landmark]
            owners += [number] * (len(tokens) + 1)
            offsets += [*passages, (len(sentence), len(sentence))]
        return PairTokens(
            np.array([*ids, self._last], np.int64),
            len(question_ids),
            np.array([*owners, -1], np.int64),
            np.array([*offsets, (0, 0)], np.int64),
        )

    def _encode(self, text: str, most: int) -> tuple[list[int], list[tuple[int, int]]]:
        encoding = self._tokens.encode(encodable(text[:_LONGEST]), add_special_tokens=False)
        return encoding.ids[:most], encoding.offsets[:most]
