"""The model in training, and the encoder folders it is read from and written to."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from lmkrag.encoder.loading import read_config
from lmkrag.encoder.spec import (
    BASE_ENCODER,
    FORMAT_VERSION,
    find_model,
    read_settings,
    write_encoder,
)
from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.encoder.torch_model import Pooling, load_backbone, read_sentences
from lmkrag.errors import EncoderError, UsageError
from lmkrag.models.bert import read_weights
from lmkrag.models.files import hash_weights, make_readable, write_json
from lmkrag.models.packing import WORDS, decode_words, pack_matrices
from lmkrag.training.settings import ModelSettings, StageSettings
from lmkrag.training.steps import Step


def landmark_loss(
    scores: Tensor,
    weights: Tensor,
    candidate: Tensor,
    same: Tensor,
    *,
    mixing: float,
    temperature: float,
) -> Tensor:
    """Return the loss of questions against the sentences of a step.

    Each sentence of the evidence is compared with the negatives, in a softmax over those of its own
    document and in another over those of other documents (Conti et al., "Context is Gold to find
    the Gold Passage", arXiv 2505.24782). The log-likelihoods are averaged by position weight (Luo
    et al., arXiv 2402.11573; there the weight stands inside the logarithm, where it has no
    gradient).

    Args:
        scores: ``[q, n]`` float, cosines of questions and sentences.
        weights: ``[q, n]`` float, above 0 at a question's evidence, each row with sum one.
        candidate: ``[q, n]`` bool, the sentences that may be negatives.
        same: ``[q, n]`` bool, the sentences of the question's document.
        mixing: share of the softmax inside the document, 0 to 1.
        temperature: divides the cosines; above 0.

    Returns:
        A scalar, the mean over questions.
    """
    logits = scores / temperature
    parts = []
    for share, negatives in ((mixing, candidate & same), (1 - mixing, candidate & ~same)):
        if share > 0:
            # -log p of each piece of evidence among the negatives and itself, averaged by weight
            crowd = torch.logsumexp(logits.masked_fill(~negatives, -1e4), dim=1, keepdim=True)
            parts.append(share * (weights * (torch.logaddexp(logits, crowd) - logits)).sum(1))
    return torch.stack(parts).sum(0).mean()


def imitation_loss(scores: Tensor, taught: Tensor, *, temperature: float) -> Tensor:
    """Return how far the softmaxes of scores are from a teacher's (distillation; Hinton et al.,
    arXiv 1503.02531).

    Args:
        scores: ``[q, n]`` float, the student's.
        taught: ``[q, n]`` float, the teacher's.
        temperature: divides both; above 0.

    Returns:
        The Kullback-Leibler divergence, a scalar, the mean over questions.
    """
    student, teacher = (
        torch.log_softmax(values / temperature, dim=1) for values in (scores, taught)
    )
    return (teacher.exp() * (teacher - student)).sum(1).mean()


def anchor_loss(vectors: Tensor, anchors: Tensor) -> Tensor:
    """Return the mean cosine distance of vectors ``[n, d]`` of length one to those of a teacher."""
    return (1 - (vectors * anchors).sum(1)).mean()


class Student(NamedTuple):
    """An encoder whose parts can be trained.

    Attributes:
        backbone: the network, of transformers.
        pooling: makes vectors of its states.
        tokenizer: its tokenizer, of transformers.
    """

    backbone: Any
    pooling: Pooling
    tokenizer: Any


def create_student(model: ModelSettings, folder: Path) -> None:
    """Write the encoder folder that training starts from: base, landmark and settings.

    A new landmark begins with the embedding of the token that ends a text, which the base knows as
    a border (as LMK pooling does, arXiv 2601.21525).

    Args:
        model: the settings of the encoder.
        folder: where to write.

    Raises:
        UsageError: the window is longer than the positions, or ``layers`` do not fit the base.
        EncoderError: the base can't be loaded.
    """
    from transformers import AutoConfig, AutoTokenizer

    source = find_model(model.base or BASE_ENCODER)
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        backbone = load_backbone(source, config=config, dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise EncoderError(f"{source}: can't be loaded as an encoder ({error})") from error
    if model.layers:
        if not read_settings(source):
            raise UsageError(
                f"{source.name}: has no landmark.json; only an encoder of ours can teach "
                "one of fewer layers"
            )
        _keep_layers(backbone, model.layers)
    positions = min(
        getattr(backbone.config, "max_position_embeddings", 512), tokenizer.model_max_length
    )
    if model.window > positions - tokenizer.num_special_tokens_to_add():
        raise UsageError(
            f"a window of {model.window} tokens is longer than {source.name} has positions for"
        )
    if model.landmark and model.landmark not in tokenizer.get_vocab():
        tokenizer.add_special_tokens({"additional_special_tokens": [model.landmark]})
        # It begins with the embedding of the token that ends a text, which the base knows as a
        # border.
        border = tokenizer.sep_token_id or tokenizer.eos_token_id or 0
        backbone.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        table = backbone.get_input_embeddings().weight
        with torch.no_grad():
            table[tokenizer.convert_tokens_to_ids(model.landmark)] = table[border]
    settings = {"format": FORMAT_VERSION, **model.reading, "dimensions": config.hidden_size}
    write_encoder(folder, model=backbone, tokenizer=tokenizer, settings=settings)


def _keep_layers(backbone: Any, numbers: Sequence[int]) -> None:
    """Leave out all layers but some (Sanh et al., "DistilBERT", arXiv 1910.01108)."""
    layers = getattr(getattr(backbone, "encoder", None), "layer", ())
    if not all(0 <= number < len(layers) for number in numbers):
        raise UsageError(f"layers {list(numbers)}: the base has {len(layers)}, counted from 0")
    backbone.encoder.layer = nn.ModuleList(layers[number] for number in numbers)
    backbone.config.num_hidden_layers = len(numbers)


def load_student(folder: Path) -> Student:
    """Read an encoder folder for training, in float32 and without dropout."""
    from transformers import AutoConfig, AutoTokenizer

    settings = read_settings(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    # Dropout makes a step on a CPU five times slower, and a fine-tune this short gains nothing by
    # it.
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    backbone = load_backbone(folder, config=config, dtype=torch.float32, attn_implementation="sdpa")
    for name, parameter in backbone.named_parameters():
        if name.startswith("pooler."):
            parameter.requires_grad_(False)  # no vector of ours passes through it
    return Student(backbone, Pooling(settings["pooling"]), tokenizer)


def average_encoders(folders: Sequence[Path], shares: Sequence[float], out: Path) -> None:
    """Write the encoder whose weights are the mean of several encoders of one architecture, as
    float16.

    Wortsman et al., "Robust fine-tuning of zero-shot models" (CVPR 2022) and "Model soups" (ICML
    2022).

    Args:
        folders: encoder folders; all but the weights is copied from the last.
        shares: the share of each; their sum is one.
        out: where to write.

    Raises:
        EncoderError: the weights do not fit together, or are infinite or NaN.
    """
    out.mkdir(parents=True, exist_ok=True)
    for path in folders[-1].iterdir():
        if path.is_file() and path.suffix != ".safetensors":
            shutil.copyfile(path, out / path.name)
    for name in sorted(path.name for path in folders[-1].glob("*.safetensors")):
        mean: dict[str, Tensor] = {}
        for folder, share in zip(folders, shares, strict=True):
            weights = load_file(folder / name)
            if mean and _shapes_of(mean) != _shapes_of(weights):
                raise EncoderError(f"{folder}: its weights do not fit those of {folders[0]}")
            for key, tensor in weights.items():
                mean[key] = mean.get(key, 0) + share * tensor.double()
        if not all(bool(torch.isfinite(tensor).all()) for tensor in mean.values()):
            raise EncoderError(f"{folders[-1]}: weights that are not finite are not saved")
        save_file(
            {key: tensor.half().contiguous() for key, tensor in mean.items()},
            out / name,
            {"format": "pt"},
        )
    write_json(out / "config.json", {**read_config(out), "dtype": "float16"})
    record_weights(out)


def _shapes_of(weights: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in weights.items()}


def record_weights(folder: Path) -> None:
    """Record a hash of the weights of an encoder folder, whose files are complete."""
    write_json(folder / "landmark.json", {**read_settings(folder), "weights": hash_weights(folder)})
    make_readable(folder)


class LandmarkObjective(nn.Module):
    """The student and its loss, as a module that transformers' Trainer trains."""

    def __init__(self, student: Student, stage: StageSettings, teacher: Student | None) -> None:
        """Take the parts of a stage.

        Args:
            student: the encoder that is trained.
            stage: the settings of the stage.
            teacher: the encoder whose vectors and order are learnt, too; None for none.
        """
        super().__init__()
        self.backbone = student.backbone
        self.pooling = student.pooling
        self._stage = stage
        # In a list it is no submodule, so no checkpoint holds it.
        self._teacher = [teacher] if teacher else []
        if teacher:
            teacher.backbone.eval().requires_grad_(False)

    def forward(self, step: Step) -> dict[str, Tensor]:
        """Return the ``loss`` of a step: the landmark loss, and the distance to the teacher by its
        weights.
        """
        sentences = read_sentences(self.backbone, self.pooling, step.windows)
        questions = read_sentences(self.backbone, self.pooling, step.questions)
        scores, temperature = questions @ sentences.T, self._stage.temperature
        distillation = sentences.new_zeros(())
        if self._teacher and step.is_taught:
            teacher = self._teacher[0]
            with torch.no_grad():
                readings = step.taught or (step.windows,)  # whose mean is learnt
                read = [
                    read_sentences(teacher.backbone, teacher.pooling, windows)
                    for windows in readings
                ]
                taught = nn.functional.normalize(torch.stack(read).sum(0), dim=1)
                taught_questions = read_sentences(teacher.backbone, teacher.pooling, step.questions)
            # How far the vectors are from the teacher's, and the order of the sentences from its
            # order.
            vectors, anchors = [sentences, questions], [taught, taught_questions]
            distance = anchor_loss(torch.cat(vectors), torch.cat(anchors))
            distillation = self._stage.anchor * distance
            if self._stage.imitation > 0:
                order = taught_questions @ taught.T
                imitation = imitation_loss(scores, order, temperature=temperature)
                distillation = distillation + self._stage.imitation * imitation
        loss = landmark_loss(
            scores,
            step.weights,
            step.candidate,
            step.same,
            mixing=step.mixing,
            temperature=temperature,
        )
        return {"loss": loss + distillation}


def pack_encoder(folder: Path, base: Path) -> None:
    """Pack an encoder whose base has packed embeddings of words, which it shares.

    Args:
        folder: the encoder folder, which is rewritten.
        base: the folder of its base.

    Raises:
        EncoderError: its embeddings of words differ from its base's, since they were trained.
    """
    with safe_open(base / "model.safetensors", "np") as file:
        words = {
            name: file.get_tensor(name)
            for name in file.keys()  # noqa: SIM118
            if name.startswith(f"{WORDS}.")
        }
    weights = read_weights(folder / "model.safetensors")
    if not np.array_equal(weights.pop(WORDS), decode_words(words)):
        raise EncoderError(
            f"{folder}: its embeddings of words are not those of {base}: train with freeze_words"
        )
    save_arrays(pack_matrices(weights) | words, folder / "model.safetensors", {"format": "pt"})
    record_weights(folder)


def tokenizer_of(student: Student, model: ModelSettings, window: int) -> SentenceTokenizer:
    """Return the sentence tokenizer of a student.

    Args:
        student: the encoder.
        model: its settings.
        window: tokens of a window, special tokens not counted.
    """
    return SentenceTokenizer(
        student.tokenizer.backend_tokenizer,
        window=window,
        landmark=model.landmark,
        query_prefix=model.query_prefix,
        title_tokens=model.title_tokens,
        pad=student.tokenizer.pad_token_id or 0,
    )
