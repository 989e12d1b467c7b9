"""The settings of a training run, and how they are read from TOML and checked."""

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
    """The encoder to train.

    Attributes:
        base: a name, a folder (beside the configuration if it begins with a dot), or empty for
            all-MiniLM-L6-v2.
        layers: layers of the base to keep, from 0, which the base then teaches; empty for all.
        pooling: how states become vectors: see :class:`lmkrag.encoder.torch_model.Pooling`.
        landmark: the token after each sentence; empty for none.
        query_prefix: text before each question.
        title_tokens: the most tokens of a document's title, which begins each of its windows.
        window: tokens of a window, special tokens not counted.
        overlap: share of a window that the next one repeats, at least 0 and below 1.
    """

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
        """The settings of reading, by the names of ``landmark.json`` and
        :class:`lmkrag.specs.EncoderSpec`.
        """
        names = ("pooling", "landmark", "window", "overlap", "query_prefix", "title_tokens")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class SetSettings:
    """A training set, and how it is used.

    Attributes:
        path: its folder: see :meth:`TrainSettings.find_set`.
        task: ``pairs`` (a passage has one landmark), ``shuffled`` (evidence of several documents in
            a window) or ``documents`` (windows of real documents).
        weight: its share of the steps, relative to the other sets; above 0.
        within: whether its questions make sense only inside their document, so that other documents
            are no negatives.
        documents: number of documents that share a step; fewer means more negatives from the same
            one.
        taught: whether the teacher's vectors and order of its sentences are learnt, if the stage
            has a teacher.
    """

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
    """One stage of training.

    The stages of Luo et al. (arXiv 2402.11573) are pairs, shuffled evidence, and real documents.

    Attributes:
        name: name of the stage, and of its folder.
        sets: its training sets; if empty, those of the stage before.
        steps: number of optimizer steps.
        learning_rate: the highest learning rate; it falls along a cosine.
        tokens: number of tokens of text in a step.
        windows: lengths of windows in tokens, one of which each step has.
        queries_per_window: maximum number of questions for each window.
        accumulate: number of forward passes of an optimizer step.
        alpha: the position weight of a span's sentence ``i`` of ``n`` is exp(-alpha (n - i)).
        mixing: share of the softmax inside the document, 0 to 1; the rest compares with other
            documents.
        temperature: temperature of all softmaxes, above 0.
        teacher: ``base``, or ``latest``, the encoder that the stage begins with.
        anchor: weight of the distance to the teacher's vectors; 0 for none.
        imitation: weight of the divergence from the teacher's order of the sentences for each
            question; 0 for none.
        thorough: whether the latest encoder teaches, reading windows whole, as halves and as
            quarters; the student reads halves.
        titles: share of the documents that are read with their titles, 0 to 1.
        freeze_words: whether embeddings of words stay as they are, so that models that share them
            still can.
        warmup: share of the steps in which the learning rate rises.
        evaluate_every: number of steps between measurements of recall; 0 for none.
        patience: number of measurements without a better one after which the stage stops; 0 for no
            limit.
    """

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
    """What early stopping watches: recall on questions about some documents of evaluation sets.

    Attributes:
        sets: folders of the sets, relative to the configuration.
        within: names of the sets whose questions are asked of their own document only.
        characters: number of characters of documents, of each set.
        queries: maximum number of questions, of each set.
    """

    sets: list[str] = field(default_factory=list)
    within: list[str] = field(default_factory=list)
    characters: int = 250_000
    queries: int = 40


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """The settings of a whole run, which ``lmkrag train`` reads from TOML.

    Attributes:
        out: folder of the run, relative to the configuration.
        data: folder of the sets, relative to the configuration.
        stages: the stages, in order.
        model: the encoder to train.
        evaluation: what early stopping watches.
        keep_base: share of the base in the final weights, at least 0 and below 1 (Wortsman et al.,
            "Robust fine-tuning of zero-shot models", CVPR 2022).
        precision: ``float32``, ``bfloat16``, or ``auto`` for bfloat16 where it is fast.
        seed: seed of all random numbers.
        threads: number of torch's threads; 0 for no limit.
        checkpoint_every: number of steps between checkpoints.
        log_every: number of steps between lines of the log.
        folder: the folder of the configuration.
    """

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
    """Return whether to train in bfloat16 here.

    Without instructions for it, a CPU is hundreds of times slower.
    """
    return precision == "bfloat16" or (
        precision == "auto" and (torch.cuda.is_available() or has_bfloat16())
    )


def prepare_training(threads: int) -> None:
    """Set torch up for training.

    Args:
        threads: number of torch's threads; 0 for no limit.

    Raises:
        MissingExtra: the ``train`` extra is not installed.
    """
    if importlib.util.find_spec("accelerate") is None:
        raise MissingExtra("train", "accelerate")
    if threads:
        torch.set_num_threads(threads)
    torch.backends.cuda.enable_cudnn_sdp(
        False
    )  # it plans anew for each shape, which takes longer than a step


def load_settings(path: Path) -> TrainSettings:
    """Read and check a configuration.

    Raises:
        UsageError: the file, a key, a type, a value or a set is wrong; the message names it.
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
    """Return the tables of a TOML file.

    Raises:
        UsageError: there is no such file, or it is not TOML.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML ({error})") from error


def build_settings(kind: Any, values: Any, where: str) -> Any:
    """Return an object of a settings class from a table of TOML, recursively.

    Args:
        kind: the dataclass.
        values: the table.
        where: the place of the table, for messages.

    Raises:
        UsageError: a key is unknown or missing, or a value is of another type.
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
    """Return a value of TOML as a field of a settings class has it."""
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
    """Raise UsageError for the first setting that is out of range."""

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
