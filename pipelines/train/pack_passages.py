"""Pack mined passages, tokenized, into one file that travels to a GPU.

    python -m pipelines.train.pack_passages RECIPE.toml MINED... OUT.npz [--questions 3000]

Each MINED holds the `SET.jsonl.gz` of `mine.py` or of `contrasts`. At most `--questions` of each
set are taken, first those that share few words with what answers them. The recipe says whose
tokenizer it is, and how much each set of a folder named `mined` weighs; others weigh 1.

The table `question` says its set, its text, whether it shares few words, and how many passages it
has; `passage` its place, whether it is complete, and how many sentences and short answers it has;
`sentence` its text and label; `answer` its sentence, -1 for none, and its first and last token.
"""

import argparse
import re
from bisect import bisect_left, bisect_right
from pathlib import Path

from tokenizers import Tokenizer

from lmkrag.encoder.spec import find_model
from lmkrag.encoder.tokens import prepare_tokenizer
from lmkrag.models.tokens import encodable
from pipelines.train.mined import ANSWERS, Mined, Passage, read_mined
from pipelines.train.packs import PackWriter
from pipelines.train.settings import ReaderSettings, load_settings

QUESTION, PLACE, SENTENCE = 64, 40, 120  # tokens of each, at most
CHARACTERS = 2_000  # of a text that are tokenized
LITTLE = 0.35  # of a question's words in what answers it
PLACED = ("-alike", "-list", "-rows", "notes")  # sets that are always read with their places
_WORD = re.compile(r"\w{3,}")


class PassageWriter:
    """Collects questions and their passages."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Take the tokenizer, whose settings are changed."""
        self.pack = PackWriter()
        self._tokenizer = tokenizer
        (first,), (last,) = prepare_tokenizer(tokenizer)
        self.special = first, last
        self._known: dict[tuple[str, int], tuple[int, list[int]]] = {}

    def add_question(self, number: int, mined: Mined) -> None:
        """Take a question of the set of a number."""
        text, _ = self._add_text(mined.question, QUESTION)
        little = share_words(mined) < LITTLE
        count = len(mined.passages)
        self.pack.add_row("question", set=number, text=text, little=little, passages=count)
        for passage in mined.passages:
            self._add_passage(passage)

    def _add_passage(self, passage: Passage) -> None:
        texts = [self._add_text(sentence, SENTENCE) for sentence in passage.sentences]
        for (text, _), label in zip(texts, passage.labels, strict=True):
            self.pack.add_row("sentence", text=text, label=label)
        answers = 0
        if passage.short and passage.answers:
            number, start, end = passage.short
            tokens = locate(texts[number][1], start, end) if number >= 0 else (0, 0)
            if tokens:
                answers = 1
                self.pack.add_row("answer", sentence=number, first=tokens[0], last=tokens[1])
        title, _ = self._add_text(passage.place, PLACE)
        sentences, complete = len(passage.sentences), passage.complete
        self.pack.add_row(
            "passage", title=title, complete=complete, sentences=sentences, answers=answers
        )

    def _add_text(self, text: str, most: int) -> tuple[int, list[int]]:
        """Return the number of a text of ``most`` tokens, and where they begin in it."""
        if (text, most) not in self._known:
            part = encodable(text[:CHARACTERS])
            encoding = self._tokenizer.encode(part, add_special_tokens=False)
            starts = [start for start, _ in encoding.offsets[:most]]
            self._known[text, most] = self.pack.add_text(encoding.ids[:most]), starts
        return self._known[text, most]


def locate(starts: list[int], start: int, end: int) -> tuple[int, int] | None:
    """Return the first and the last token of some characters of a sentence, if they were kept."""
    first, last = bisect_right(starts, start) - 1, bisect_left(starts, end) - 1
    is_cut = last + 1 == len(starts) == SENTENCE
    return (first, last) if 0 <= first <= last and not is_cut else None


def share_words(mined: Mined) -> float:
    """Return the share of a question's words that are in what answers it."""
    answers = [
        text
        for passage in mined.passages
        for text, label in zip(passage.sentences, passage.labels, strict=True)
        if label == ANSWERS
    ]
    return shared_words(mined.question, " ".join(answers))


def shared_words(question: str, answer: str) -> float:
    """Return the share of a question's words that an answer has, by their first letters."""
    words = {word[:5] for word in _WORD.findall(question.lower())}
    return len(words & {word[:5] for word in _WORD.findall(answer.lower())}) / max(1, len(words))


def weigh_set(file: Path, recipe: ReaderSettings) -> float:
    """Return how much a set of a folder weighs."""
    weights = {chosen.path.replace("/", "_"): chosen.weight for chosen in recipe.sets}
    return weights.get(name_set(file), 1.0) if file.parent.name == "mined" else 1.0


def name_set(file: Path) -> str:
    """Return the name of the set of a file."""
    return file.name.removesuffix(".jsonl.gz")


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("mined", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    parser.add_argument("--questions", type=int, default=3_000)
    options = parser.parse_args()
    recipe = load_settings(options.recipe)
    tokenizer = Tokenizer.from_file(str(find_model(recipe.base) / "tokenizer.json"))
    writer = PassageWriter(tokenizer)
    files = [file for folder in options.mined for file in sorted(folder.glob("*.jsonl.gz"))]
    for number, file in enumerate(files):
        for mined in sorted(read_mined(file), key=share_words)[: options.questions]:
            writer.add_question(number, mined)
    sets = [
        {
            "name": f"{file.parent.name}/{name_set(file)}",
            "weight": weigh_set(file, recipe),
            "placed": name_set(file).endswith(PLACED),
        }
        for file in files
    ]
    writer.pack.save(options.out, sets=sets, special=writer.special)


if __name__ == "__main__":
    main()
