"""Pack mined passages, tokenized, into one file that travels to a GPU.

    python pipelines/train/pack_passages.py MINED... OUT.npz [--questions 3000]

Each MINED holds the `SET.jsonl.gz` that `train_reranker.py` leaves in its folder `mined`, or `written_questions.py` in
its own. A sentence is stored once, however many passages hold it. At most `--questions` of each set are taken, first
those that share few words with what answers them. A short answer is stored as a sentence with its first and last token;
the sentence -1 means that the passage answers, but not in few words.
"""

import argparse
import gzip
import json
import re
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Any

import numpy as np
from mining import ANSWERS
from tokenizers import Tokenizer

from lmkrag.encoder.spec import find_model

QUESTION, TITLE, SENTENCE = 64, 16, 120  # tokens of each, at most
LITTLE = 0.35  # of a question's words in what answers it
_WORD = re.compile(r"\w{3,}")


class Pack:
    """The tokens of texts, each text once."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.from_file(str(find_model("landmark-mini") / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.tokens: list[np.ndarray] = []
        self._starts: list[list[int]] = []  # of the tokens of each, in characters
        self._known: dict[str, int] = {}

    def add(self, text: str, most: int) -> int:
        """Return the number of a text."""
        if text not in self._known:
            self._known[text] = len(self.tokens)
            encoding = self._tokenizer.encode(text[:2_000], add_special_tokens=False)
            self.tokens.append(np.array(encoding.ids[:most], np.uint16))
            self._starts.append([start for start, _ in encoding.offsets[:most]])
        return self._known[text]

    def locate(self, number: int, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and the last token of some characters of a text, if it has them."""
        starts = self._starts[number]
        first, last = bisect_right(starts, start) - 1, bisect_left(starts, end) - 1
        return (first, last) if 0 <= first <= last and (last + 1 < len(starts) or len(starts) < SENTENCE) else None


def shared_words(question: str, answer: str) -> float:
    """Return the share of a question's words in what answers it, by their first five letters."""
    words = {word[:5] for word in _WORD.findall(question.lower())}
    return len(words & {word[:5] for word in _WORD.findall(answer.lower())}) / max(1, len(words))


def join_answers(passages: list[Any]) -> str:
    """Return the sentences of mined passages that answer."""
    pairs = [pair for _, texts, _, _, labels, *_ in passages for pair in zip(texts, labels, strict=True)]
    return " ".join(text for text, label in pairs if label == ANSWERS)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mined", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    parser.add_argument("--questions", type=int, default=3_000)
    options = parser.parse_args()
    pack = Pack()
    columns: dict[str, list[int]] = {name: [] for name in ("set", "question", "little", "passages")}
    passage_columns: dict[str, list[int]] = {name: [] for name in ("title", "sentences")}
    sentences: list[int] = []
    labels: list[int] = []
    scores: list[float] = []
    answers: list[tuple[int, int, int, int]] = []  # passage, sentence, first and last token
    names = []
    files = [file for folder in options.mined for file in sorted(folder.glob("*.jsonl.gz"))]
    for number, file in enumerate(files):
        names.append(f"{file.parent.name}/{file.name.split('.')[0]}")
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            mined = [json.loads(line) for line in lines]
        mined = [(shared_words(question, join_answers(passages)), question, passages) for question, passages in mined]
        mined.sort(key=lambda row: row[0])
        for shared, question, passages in mined[: options.questions]:
            columns["set"].append(number)
            columns["question"].append(pack.add(question, QUESTION))
            columns["little"].append(shared < LITTLE)
            columns["passages"].append(len(passages))
            for title, texts, scored, _, known, _, short, *_ in passages:
                passage_columns["title"].append(pack.add(title, TITLE))
                passage_columns["sentences"].append(len(texts))
                packed = [pack.add(text, SENTENCE) for text in texts]
                sentences += packed
                passage = len(passage_columns["title"]) - 1
                located = [(place, pack.locate(packed[place], start, end)) for place, start, end in short if place >= 0]
                answers += [(passage, place, *tokens) for place, tokens in located if tokens]
                answers += [(passage, -1, 0, 0) for place, _, _ in short if place < 0]
                labels += known
                scores += scored
    arrays: dict[str, Any] = {name: np.array(values, np.int32) for name, values in columns.items()}
    arrays |= {f"passage_{name}": np.array(values, np.int32) for name, values in passage_columns.items()}
    arrays["sentence"] = np.array(sentences, np.int32)
    arrays["label"], arrays["score"] = np.array(labels, np.int8), np.array(scores, np.float16)
    arrays["answer"] = np.array(answers, np.int32).reshape(-1, 4)
    arrays["tokens"] = np.concatenate(pack.tokens)
    arrays["lengths"] = np.array([len(ids) for ids in pack.tokens], np.uint8)
    np.savez_compressed(options.out, names=np.array(names), **arrays)
    size = options.out.stat().st_size
    questions, passages = len(columns["set"]), len(passage_columns["title"])
    print(f"{questions} questions, {passages} passages, {len(answers)} short answers, {size:,} bytes")


if __name__ == "__main__":
    main()
