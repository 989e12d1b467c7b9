"""Pack mined passages, tokenized, into one file that travels to a GPU.

    python pipelines/train/pack_passages.py MINED... OUT.npz [--questions 3000] [--recipe RERANKER.toml]

Each MINED holds the `SET.jsonl.gz` that `train_reranker.py` leaves in its folder `mined`, or `written_questions.py` in
its own. A sentence is stored once, however many passages hold it. At most `--questions` of each set are taken, first
those that share few words with what answers them. A short answer is stored as a sentence with its first and last token;
the sentence -1 means that the passage answers, but not in few words. Questions with a short answer also stand there as
`make_unanswerable` changes them, where it can. A recipe says whose tokenizer it is and how much each mined set weighs;
without one it is landmark-mini's, and sets of headings weigh half.
"""

import argparse
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mined_passages import ANSWERS, MinedPassage, MinedQuestion, read_mined
from reranker_settings import RerankerSettings, load_reranker_settings
from reranker_steps import make_unanswerable
from tokenizers import Tokenizer

from lmkrag.encoder.spec import DEFAULT_ENCODER, find_model, read_settings
from lmkrag.encoder.tokens import prepare_tokenizer
from lmkrag.models.tokens import encodable

QUESTION, TITLE, SENTENCE = 64, 16, 120  # tokens of each, at most
LITTLE = 0.35  # of a question's words in what answers it
HEADINGS = {"aws_headings", "peps", "rfcs", "eips", "rustbook", "faq_headings", "medquad"}
HALF = 0.5
_WORD = re.compile(r"\w{3,}")


class Pack:
    """The tokens of texts, each text once."""

    def __init__(self, encoder: Path) -> None:
        """Take the folder of the encoder whose tokenizer it is."""
        self._tokenizer = Tokenizer.from_file(str(encoder / "tokenizer.json"))
        (first,), (last,) = prepare_tokenizer(self._tokenizer)
        self.special = [first, last, self._tokenizer.token_to_id(read_settings(encoder)["landmark"])]
        self.tokens: list[np.ndarray] = []
        self._starts: list[list[int]] = []  # of the tokens of each, in characters
        self._known: dict[tuple[str, int], int] = {}

    def add(self, text: str, most: int) -> int:
        """Return the number of a text, of which there are ``most`` tokens."""
        if (text, most) not in self._known:
            self._known[text, most] = len(self.tokens)
            encoding = self._tokenizer.encode(encodable(text[:2_000]), add_special_tokens=False)
            self.tokens.append(np.array(encoding.ids[:most], np.uint32))
            self._starts.append([start for start, _ in encoding.offsets[:most]])
        return self._known[text, most]

    def locate(self, number: int, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and the last token of some characters of a text, if it has them."""
        starts = self._starts[number]
        first, last = bisect_right(starts, start) - 1, bisect_left(starts, end) - 1
        return (first, last) if 0 <= first <= last and (last + 1 < len(starts) or len(starts) < SENTENCE) else None


def shared_words(question: str, answer: str) -> float:
    """Return the share of a question's words in what answers it, by their first five letters."""
    words = {word[:5] for word in _WORD.findall(question.lower())}
    return len(words & {word[:5] for word in _WORD.findall(answer.lower())}) / max(1, len(words))


def join_answers(passages: Sequence[MinedPassage]) -> str:
    """Return the sentences of mined passages that answer."""
    pairs = [pair for passage in passages for pair in zip(passage.sentences, passage.labels, strict=True)]
    return " ".join(text for text, label in pairs if label == ANSWERS)


def change_question(mined: MinedQuestion) -> str | None:
    """Return the question as its passages don't answer it; None without a short answer or anything to exchange."""
    if not any(place >= 0 for passage in mined.passages for place, _, _ in passage.answers):
        return None
    good = next(passage for passage in mined.passages if ANSWERS in passage.labels)
    return make_unanswerable(mined.question, good.sentences, np.random.default_rng(0))


def weigh_set(folder: str, name: str, recipe: RerankerSettings | None) -> float:
    """Return how much a set of a folder weighs."""
    if folder != "mined":
        return 1.0
    if recipe is None:
        return HALF if name in HEADINGS else 1.0
    return next((chosen.weight for chosen in recipe.sets if chosen.path.replace("/", "_") == name), 1.0)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mined", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    parser.add_argument("--questions", type=int, default=3_000)
    parser.add_argument("--recipe", type=Path)
    options = parser.parse_args()
    recipe = load_reranker_settings(options.recipe) if options.recipe else None
    pack = Pack(find_model(recipe.base if recipe else DEFAULT_ENCODER))
    columns: dict[str, list[int]] = {name: [] for name in ("set", "question", "changed", "little", "passages")}
    passage_columns: dict[str, list[int]] = {name: [] for name in ("title", "sentences")}
    sentences: list[int] = []
    labels: list[int] = []
    scores: list[float] = []
    answers: list[tuple[int, int, int, int]] = []  # passage, sentence, first and last token
    names, weights = [], []
    files = [file for folder in options.mined for file in sorted(folder.glob("*.jsonl.gz"))]
    for number, file in enumerate(files):
        folder, name = file.parent.name, file.name.split(".")[0]
        names.append(f"{folder}/{name}")
        weights.append(weigh_set(folder, name, recipe))
        mined = [(shared_words(each.question, join_answers(each.passages)), each) for each in read_mined(file)]
        mined.sort(key=lambda row: row[0])
        for shared, question in mined[: options.questions]:
            changed = change_question(question)
            columns["set"].append(number)
            columns["question"].append(pack.add(question.question, QUESTION))
            columns["changed"].append(-1 if changed is None else pack.add(changed, QUESTION))
            columns["little"].append(shared < LITTLE)
            columns["passages"].append(len(question.passages))
            for passage in question.passages:
                row = len(passage_columns["title"])
                passage_columns["title"].append(pack.add(passage.title, TITLE))
                passage_columns["sentences"].append(len(passage.sentences))
                packed = [pack.add(text, SENTENCE) for text in passage.sentences]
                sentences += packed
                short = passage.answers
                located = [(place, pack.locate(packed[place], start, end)) for place, start, end in short if place >= 0]
                answers += [(row, place, *tokens) for place, tokens in located if tokens]
                answers += [(row, -1, 0, 0) for place, _, _ in short if place < 0]
                labels += passage.labels
                scores += passage.scores
    arrays: dict[str, Any] = {name: np.array(values, np.int32) for name, values in columns.items()}
    arrays |= {f"passage_{name}": np.array(values, np.int32) for name, values in passage_columns.items()}
    arrays["sentence"] = np.array(sentences, np.int32)
    arrays["label"], arrays["score"] = np.array(labels, np.int8), np.array(scores, np.float16)
    arrays["answer"] = np.array(answers, np.int32).reshape(-1, 4)
    tokens = np.concatenate(pack.tokens)
    arrays["tokens"] = tokens.astype(np.min_scalar_type(tokens.max()))
    arrays["special"], arrays["weight"] = np.array(pack.special), np.array(weights)
    arrays["lengths"] = np.array([len(ids) for ids in pack.tokens], np.uint8)
    np.savez_compressed(options.out, names=np.array(names), **arrays)
    size = options.out.stat().st_size
    questions, passages = len(columns["set"]), len(passage_columns["title"])
    print(f"{questions} questions, {passages} passages, {len(answers)} short answers, {size:,} bytes")


if __name__ == "__main__":
    main()
