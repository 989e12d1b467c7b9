"""What the configuration of a reader of passages says, and options that stand in for it."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Collection
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

from lmkrag.encoder.spec import SHIPPED as ENCODERS
from lmkrag.encoder.spec import find_model
from lmkrag.errors import UsageError
from lmkrag.reranker.folders import find_reranker
from lmkrag.training.settings import build_settings, read_toml


@dataclass(frozen=True, slots=True)
class MinedSet:
    """A training set: its share of the questions, and what is mined of it."""

    path: str
    weight: float = 1.0
    strings: bool = False  # its spans are short answers; what is beside one is no negative
    characters: int = 300_000  # of documents that are searched
    questions: int = 2_500  # that are mined, at most


@dataclass(frozen=True, slots=True)
class Training:
    """How a reader learns."""

    layers: list[int] = field(default_factory=list)  # of the start, from 0; all if empty
    trained: int = 0  # layers from the last on that learn, with the heads; all if 0, on a GPU
    packed: int = 0  # layers from the first on that compute in 4 bits
    questions: int = 64  # of a step
    passages: int = 8  # of a question
    hard: int = 0  # passages that don't answer, those that the teacher likes best; all if 0
    titles: float = 0.5  # share of the passages that are read with their places, where not all are
    passage_tokens: int = 240
    learning_rate: float = 5e-5
    warmup: int = 50
    ends: float = 1.0  # weight of the ends of short answers
    teach: float = 0.3  # weight of the teacher's order of passages
    imitate: float = 0.0  # weight of the teacher's sentences and ends of short answers
    temperature: float = 2.0
    minutes: float = 9.0  # on a GPU
    epochs: float = 3.0  # of the upper layers alone
    steps: int = 0  # instead of minutes or epochs
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSettings:
    """A reader of passages: what it is made from, what it learns from, and how."""

    base: str  # the encoder whose tokenizer it has, and that searches for its passages
    start: str  # a reader, or an encoder
    teacher: str = ""  # a reader; the start itself without
    data: str
    sets: list[MinedSet]
    training: Training = field(default_factory=Training)  # of all layers, on a GPU
    upper: Training = field(default_factory=Training)  # of the last layers, on two cores
    folder: Path = Path()

    def find_set(self, chosen: MinedSet) -> Path:
        """Return the folder of a set; ``data`` is relative to the configuration."""
        return (self.folder / self.data / chosen.path).resolve()


def find_start(name: str) -> Path:
    """Return the folder of an encoder or a re-ranker. Raises UsageError: there is none."""
    is_encoder = name in ENCODERS or (Path(name).expanduser() / "landmark.json").is_file()
    return find_model(name) if is_encoder else find_reranker(name)


def load_settings(path: Path) -> ReaderSettings:
    """Read a configuration. Raises UsageError: a key, a type or a value that makes no sense."""
    values = {**read_toml(path), "folder": path.parent}
    settings: ReaderSettings = build_settings(ReaderSettings, values, str(path))
    for training in (settings.training, settings.upper):
        if not 0 <= training.titles <= 1:
            raise UsageError(f"{path}: titles must be in [0, 1]")
        if min(training.questions, training.passages - 1) < 1:
            raise UsageError(f"{path}: a step needs a question, and a question two passages")
    return settings


def add_numbers(parser: ArgumentParser, kind: type[Any], without: Collection[str] = ()) -> None:
    """Add an option for each number of a settings class, and for each list of numbers, but for
    those that a command does not read.
    """
    for item in fields(kind):
        (number,) = get_args(item.type) or (item.type,)
        if number in (int, float) and item.name not in without:
            several = "+" if get_args(item.type) else None
            option = f"--{item.name.replace('_', '-')}"
            parser.add_argument(option, type=number, nargs=several, metavar="N")  # type: ignore[arg-type]


def replace_given(settings: Any, options: Namespace) -> Any:
    """Return settings with the values that were given as options."""
    given = {name: value for name, value in vars(options).items() if value is not None}
    known = {item.name for item in fields(settings)}
    return replace(settings, **{name: given[name] for name in known & given.keys()})


def command_parser(description: str | None, without: Collection[str]) -> ArgumentParser:
    """Return the parser of a command that trains a reader without some numbers of the recipe."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("packs", type=Path, nargs="+", metavar="pack")
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", help="instead of the recipe's")
    add_numbers(parser, Training, without)
    return parser


def read_command(parser: ArgumentParser) -> tuple[ReaderSettings, Namespace]:
    """Return the settings of a command that trains a reader, and its options."""
    options = parser.parse_args()
    return replace_given(load_settings(options.recipe), options), options
