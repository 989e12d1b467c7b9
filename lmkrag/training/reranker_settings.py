"""What the configuration of a re-ranker's training may say, and reading it."""

from dataclasses import dataclass, field
from pathlib import Path

from lmkrag.errors import UsageError
from lmkrag.training.settings import PRECISIONS, build_settings, read_toml


@dataclass(frozen=True, slots=True)
class RerankerSet:
    """A training set: its folder, its share of the questions, and what its spans mean.

    ``within``: its questions make sense only inside their document. ``strings``: its spans are short answers, which the
    model learns to mark; what stands around them in their paragraph is no negative. ``characters``: of documents that
    are searched; ``questions``: of them that are mined, at most.
    """

    path: str
    weight: float = 1.0
    within: bool = False
    strings: bool = False
    characters: int = 300_000
    questions: int = 2_500


@dataclass(frozen=True, slots=True)
class RerankerSettings:
    """A whole run: ``lmkrag train`` reads it from TOML.

    ``base``: the encoder whose first ``layers`` layers and word embeddings the model starts from. ``start``: the folder
    of a re-ranker to go on from, empty for a new one. A step reads ``places`` places for each of ``questions``
    questions. ``unanswerable``: the share of the questions of sets with short answers that are changed so that nothing
    answers them. ``titles``: the share of places that are read with their documents' titles. ``weight``: of the scores
    beside similarities, see :class:`lmkrag.reranker.base.Reranker`.
    """

    out: str
    data: str
    sets: list[RerankerSet]
    steps: int
    base: str = "landmark-mini"
    start: str = ""
    layers: int = 3
    questions: int = 8
    places: int = 4
    learning_rate: float = 1e-4
    warmup: float = 0.02
    unanswerable: float = 0.2
    titles: float = 0.5
    weight: float = 0.03
    precision: str = "auto"
    seed: int = 0
    threads: int = 0
    checkpoint_every: int = 200
    log_every: int = 50
    folder: Path = field(default=Path())

    def resolve(self, path: str) -> Path:
        """Return a path of the configuration, which is relative to its file."""
        return (self.folder / path).resolve()


def is_for_reranker(path: Path) -> bool:
    """Return whether a configuration is one of a re-ranker: it has a table ``[reranker]``.

    Raises:
        UsageError: no such file, or not TOML.
    """
    return "reranker" in read_toml(path)


def load_reranker_settings(path: Path) -> RerankerSettings:
    """Read and check the table ``[reranker]`` of a configuration.

    Raises:
        UsageError: a key, a type or a value that makes no sense, a set that does not exist.
    """
    tables = read_toml(path)
    if list(tables) != ["reranker"]:
        raise UsageError(f"{path}: beside [reranker] there must be nothing")
    settings: RerankerSettings = build_settings(
        RerankerSettings, {**tables["reranker"], "folder": path.parent}, f"{path}: reranker"
    )
    checks = {
        "steps must be above 0": settings.steps > 0,
        "layers must be above 0": settings.layers > 0,
        "questions must be above 0": settings.questions > 0,
        "places must be above 1": settings.places > 1,
        "unanswerable must be in [0, 1]": 0 <= settings.unanswerable <= 1,
        "titles must be in [0, 1]": 0 <= settings.titles <= 1,
        f"precision must be one of {', '.join(PRECISIONS)}": settings.precision in PRECISIONS,
        "there are no sets": bool(settings.sets),
        "a set's weight must be above 0": all(chosen.weight > 0 for chosen in settings.sets),
    }
    for message, fine in checks.items():
        if not fine:
            raise UsageError(f"{path}: {message}")
    for chosen in settings.sets:
        folder = settings.resolve(settings.data) / chosen.path
        if not folder.is_dir():
            raise UsageError(f"{path}: no such set: {folder}")
    return settings
