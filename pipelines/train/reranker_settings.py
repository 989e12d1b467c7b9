"""Read and check the configuration of a re-ranker's training."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lmkrag.arrays import Floats
from lmkrag.errors import UsageError
from lmkrag.reranker.base import PASSAGE_TOKENS
from lmkrag.training.settings import PRECISIONS, build_settings, read_toml


@dataclass(frozen=True, slots=True)
class RerankerSet:
    """A training set: its folder, its share of the questions, and what its spans mean."""

    path: str
    weight: float = 1.0
    within: bool = False  # its questions make sense only inside their document
    strings: bool = False  # spans are short answers, which are learnt; the rest of their paragraph is no negative
    characters: int = 300_000  # of documents that are searched
    questions: int = 2_500  # that are mined, at most
    skip: int = 0  # characters of documents that are left out first


def share_sets(sets: Sequence[RerankerSet], mined: Sequence[Sequence[Any]], power: float) -> Floats:
    """Return the share of the questions that each set gets: its weight times its size to a power."""
    weights = np.array([chosen.weight * len(questions) ** power for chosen, questions in zip(sets, mined, strict=True)])
    shares: Floats = weights / weights.sum()
    return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class MiningSettings:
    """The settings of every training for re-rankers: what is mined, and where the run is kept."""

    out: str
    data: str
    sets: list[RerankerSet]
    steps: int
    base: str = "landmark-mini"  # the encoder that searches
    learning_rate: float = 1e-4
    warmup: float = 0.02
    seed: int = 0
    threads: int = 0
    checkpoint_every: int = 200
    log_every: int = 50
    folder: Path = field(default=Path())

    def resolve(self, path: str) -> Path:
        """Return a path of the configuration, which is relative to its file."""
        return (self.folder / path).resolve()


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankerSettings(MiningSettings):
    """The training of a re-ranker: the table ``[reranker]`` of a configuration."""

    start: str = ""  # the folder of a re-ranker to go on from, empty for a new one
    layers: int = 3  # of the base, from which the model starts with its word embeddings
    questions: int = 8  # of a step
    passages: int = 4  # of each question
    unanswerable: float = 0.2  # share of questions of sets with ``strings`` that are changed so that nothing answers
    titles: float = 0.5  # share of passages that are read with their documents' titles
    weight: float = 0.03  # of the scores beside similarities, see :class:`lmkrag.reranker.base.Reranker`
    passage_tokens: int = PASSAGE_TOKENS  # of a passage that are read, at most
    precision: str = "auto"


def load_reranker_settings(path: Path) -> RerankerSettings:
    """Read and check the table ``[reranker]``. Raises UsageError: a key, a type or a value that makes no sense."""
    settings: RerankerSettings = load_table(path, "reranker", RerankerSettings)
    checks = {
        "layers must be above 0": settings.layers > 0,
        "questions must be above 0": settings.questions > 0,
        "passages must be above 1": settings.passages > 1,
        "unanswerable must be in [0, 1]": 0 <= settings.unanswerable <= 1,
        "titles must be in [0, 1]": 0 <= settings.titles <= 1,
        f"precision must be one of {', '.join(PRECISIONS)}": settings.precision in PRECISIONS,
    }
    check_settings(path, settings, checks)
    return settings


def describe_settings(folder: Path) -> RerankerSettings:
    """Return the settings of the model in a re-ranker's folder."""
    described = json.loads((folder / "reranker.json").read_text("utf-8"))
    names = {"base", "layers", "weight", "passage_tokens"} & described.keys()
    return RerankerSettings(out="", data="", sets=[], steps=1, **{name: described[name] for name in names})


def load_table(path: Path, table: str, kind: type[MiningSettings]) -> Any:
    """Return the settings of a configuration's only table. Raises UsageError: there is more, or a key is wrong."""
    tables = read_toml(path)
    if list(tables) != [table]:
        raise UsageError(f"{path}: beside [{table}] there must be nothing")
    return build_settings(kind, {**tables[table], "folder": path.parent}, f"{path}: {table}")


def check_settings(path: Path, settings: MiningSettings, special: dict[str, bool]) -> None:
    """Raise UsageError by the first check that fails: of ``special``, by their messages, or of any such settings."""
    checks = {
        "steps must be above 0": settings.steps > 0,
        "there are no sets": bool(settings.sets),
        "a set's weight must be above 0": all(chosen.weight > 0 for chosen in settings.sets),
        **special,
    }
    for message, fine in checks.items():
        if not fine:
            raise UsageError(f"{path}: {message}")
    for chosen in settings.sets:
        folder = settings.resolve(settings.data) / chosen.path
        if not folder.is_dir():
            raise UsageError(f"{path}: no such set: {folder}")
