"""What a training configuration may say, and reading it."""

import importlib.util
import tomllib
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from lmkrag.errors import MissingExtra, UsageError

try:
    import torch
except ImportError:
    raise MissingExtra("train", "torch") from None

from lmkrag.encoder.onnx_model import POOLINGS
from lmkrag.models.device import has_bfloat16

TASKS = ("pairs", "shuffled", "documents")
TEACHERS = ("base", "latest")
PRECISIONS = (
    "auto",
    "float32",
    "bfloat16",
)  # ``auto``: bfloat16 where the machine multiplies it fast


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The encoder to train."""

    # a name, a folder (beside the configuration if it begins with a dot), or empty for
    # all-MiniLM-L6-v2
    base: str = ""
    layers: list[int] = field(
        default_factory=list
    )  # of the base to keep, from 0; the base teaches them; all if empty
    pooling: str = "lmk+mean"
    landmark: str = "<LMK>"
    query_prefix: str = ""
    title_tokens: int = 24  # of its title, at the beginning of each window of a document
    window: int = 254
    overlap: float = 0.5

    @property
    def reading(self) -> dict[str, Any]:
        """How the encoder reads, by the names of ``landmark.json`` and
        :class:`lmkrag.specs.EncoderSpec`.
        """
        names = ("pooling", "landmark", "window", "overlap", "query_prefix", "title_tokens")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class SetSettings:
    """A training set."""

    path: str  # its folder, see :meth:`TrainSettings.find_set`
    task: str
    weight: float = 1.0  # its share of the steps of its task
    # its questions make sense only inside their document, so other documents are no negatives
    within: bool = False
    documents: int = 4  # how many share a step; fewer means more negatives from the same one
    taught: bool = (
        True  # learn the teacher's vectors and order of its sentences, if the stage has a teacher
    )


@dataclass(frozen=True, slots=True)
class StageSettings:
    """One stage."""

    name: str
    sets: list[SetSettings] = field(default_factory=list)  # those of the stage before, if empty
    steps: int = 0
    learning_rate: float = 3e-5
    tokens: int = 4_096  # of text in a step
    windows: list[int] = field(default_factory=lambda: [254])  # lengths, one of which a step has
    queries_per_window: int = 4
    accumulate: int = 1
    alpha: float = 0.08  # of the position weights exp(-alpha (n - i))
    mixing: float = 0.5  # share of the softmax inside the document
    temperature: float = 0.05
    teacher: str = "base"  # ``base``, or ``latest``, the encoder that the stage begins with
    anchor: float = 0.0  # weight of the distance to the teacher's vectors
    imitation: float = (
        0.0  # weight of the divergence from the teacher's order of the sentences for each question
    )
    # the latest teaches, reading windows whole, as halves and quarters; the student as halves
    thorough: bool = False
    titles: float = 0.5  # share of the documents that are read with their titles
    # leave the embeddings of words, so that models that read them from this one still can
    freeze_words: bool = False
    warmup: float = 0.05
    evaluate_every: int = 0
    patience: int = 0


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """What early stopping watches: recall on some queries of some documents of these sets."""

    sets: list[str] = field(default_factory=list)
    within: list[str] = field(default_factory=list)
    characters: int = 250_000
    queries: int = 40


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """A whole run: ``lmkrag train`` reads it from TOML."""

    out: str
    data: str  # the folder of the sets, relative to the configuration
    stages: list[StageSettings]
    model: ModelSettings = field(default_factory=ModelSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    # the base's share in the final weights (Wortsman et al., "Robust fine-tuning", CVPR 2022)
    keep_base: float = 0.0
    precision: str = "auto"
    seed: int = 0
    threads: int = 0
    checkpoint_every: int = 200
    log_every: int = 20
    folder: Path = Path()

    def resolve(self, path: str) -> Path:
        """Return a path of the configuration, which is relative to its file."""
        return (self.folder / path).resolve()

    def find_set(self, path: str) -> Path:
        """Return the folder of a set: below ``data``, or beside the configuration if its path
        begins with a dot.
        """
        return self.resolve(path) if path.startswith(".") else self.resolve(self.data) / path


def use_bfloat16(precision: str) -> bool:
    """Return whether to train in bfloat16 here: without the instructions for it, a CPU is hundreds
    of times slower.
    """
    return precision == "bfloat16" or (
        precision == "auto" and (torch.cuda.is_available() or has_bfloat16())
    )


def prepare_training(threads: int) -> None:
    """Limit torch's threads, 0 for no limit. Raises MissingExtra: the ``train`` extra is not
    installed.
    """
    if importlib.util.find_spec("accelerate") is None:
        raise MissingExtra("train", "accelerate")
    if threads:
        torch.set_num_threads(threads)
    torch.backends.cuda.enable_cudnn_sdp(
        False
    )  # it plans anew for each shape, which takes longer than a step


def load_settings(path: Path) -> TrainSettings:
    """Read and check a configuration, or raise UsageError: a file, key, type, value or set that
    makes no sense.
    """
    settings: TrainSettings = build_settings(
        TrainSettings, {**read_toml(path), "folder": path.parent}, str(path)
    )
    for before, stage in pairwise(settings.stages):
        if not stage.sets:
            stage.sets.extend(before.sets)
    if settings.model.base.startswith("."):
        settings = replace(
            settings, model=replace(settings.model, base=str(settings.resolve(settings.model.base)))
        )
    _check(settings, path)
    return settings


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds. Raises UsageError: no such file, or not TOML."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML ({error})") from error


def build_settings(kind: Any, values: Any, where: str) -> Any:
    """Return a settings class of what a table holds, or raise UsageError where a key or a type is
    wrong.
    """
    if not isinstance(values, dict):
        raise UsageError(f"{where}: must be a table")
    hints = get_type_hints(kind)
    for name in values:
        if name not in hints:
            raise UsageError(
                f"{where}: unknown key {name!r}; it may have {', '.join(sorted(hints))}"
            )
    for item in fields(kind):
        if item.name not in values and item.default is MISSING and item.default_factory is MISSING:
            raise UsageError(f"{where}: {item.name!r} is missing")
    return kind(
        **{name: _value(hints[name], value, f"{where}: {name}") for name, value in values.items()}
    )


def _value(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint):
        return build_settings(hint, value, where)
    if get_origin(hint) is list:
        if not isinstance(value, list):
            raise UsageError(f"{where}: must be a list")
        return [
            _value(get_args(hint)[0], item, f"{where}[{index}]") for index, item in enumerate(value)
        ]
    if hint is float and type(value) is int:
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise UsageError(f"{where}: must be {hint.__name__}, not {value!r}")
    return value


def _check(settings: TrainSettings, path: Path) -> None:
    def require(fine: bool, message: str) -> None:
        if not fine:
            raise UsageError(f"{path}: {message}")

    model = settings.model
    require(
        model.pooling in POOLINGS,
        f"unknown pooling {model.pooling!r}: one of {', '.join(POOLINGS)}",
    )
    require(
        bool(model.landmark) or "lmk" not in model.pooling,
        f"pooling {model.pooling!r} needs a landmark token",
    )
    require(settings.precision in PRECISIONS, f"precision must be one of {', '.join(PRECISIONS)}")
    require(0 <= settings.keep_base < 1, "keep_base must be in [0, 1)")
    require(0 <= model.overlap < 1, "model.overlap must be in [0, 1)")
    require(model.title_tokens >= 0, "model.title_tokens must be 0 or more")
    require(bool(settings.stages), "no stages")
    names = [stage.name for stage in settings.stages]
    require(len(set(names)) == len(names), "two stages have the same name")
    for stage in settings.stages:
        where = f"stage {stage.name!r}"
        require(stage.steps > 0, f"{where}: steps must be above 0")
        require(bool(stage.sets), f"{where}: no sets")
        require(0 <= stage.mixing <= 1, f"{where}: mixing must be in [0, 1]")
        require(0 <= stage.titles <= 1, f"{where}: titles must be in [0, 1]")
        taught = stage.imitation > 0 or stage.anchor > 0
        require(taught or not stage.thorough, f"{where}: thorough needs imitation or anchor")
        require(stage.teacher in TEACHERS, f"{where}: teacher must be one of {', '.join(TEACHERS)}")
        require(stage.temperature > 0, f"{where}: temperature must be above 0")
        require(
            bool(stage.windows) and min(stage.windows) > 0, f"{where}: windows must be token counts"
        )
        for chosen in stage.sets:
            require(
                chosen.task in TASKS,
                f"{where}: unknown task {chosen.task!r}: one of {', '.join(TASKS)}",
            )
            require(chosen.weight > 0, f"{where}: a weight must be above 0")
            require(chosen.documents > 0, f"{where}: documents must be above 0")
            folder = settings.find_set(chosen.path)
            require(folder.is_dir(), f"{where}: no such set: {folder}")
    for name in settings.evaluation.sets:
        require(
            settings.resolve(name).is_dir(), f"evaluation: no such set: {settings.resolve(name)}"
        )
