"""The re-ranker in training: the model that :mod:`lmkrag.reranker.landmark` runs, and its losses."""

from pathlib import Path
from typing import Any

import torch
from mining import ANSWERS, UNKNOWN
from reranker_files import pack_layers, save_half, write_reranker_graphs
from reranker_settings import RerankerSettings
from reranker_steps import PlaceBatch, PlaceStep
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from lmkrag.encoder.spec import find_model, read_settings
from lmkrag.encoder.torch_model import load_backbone
from lmkrag.errors import EncoderError, UsageError
from lmkrag.models.bert import has_codewords
from lmkrag.models.files import make_readable, write_json
from lmkrag.models.quantization import RANGES
from lmkrag.reranker.landmark import FORMAT

_ANSWER_SHARE, _SHORT_SHARE = 0.3, 0.4  # of the losses beside the order's
_SCALE = 20.0  # of similarities in the softmax, at the start
_MASKED = -1e4


class Head(nn.Module):
    """Scores of sentences and of the ends of short answers, from the states of a question and a passage."""

    def __init__(self, size: int) -> None:
        """Make one whose scores are all 0: at the start the order is that of the similarities."""
        super().__init__()
        self.dense = nn.Linear(2 * size, size)
        self.out = nn.Linear(size, 2)
        self.weigh = nn.Linear(size, 1)
        self.match = nn.Linear(2, 2, bias=False)
        self.ends = nn.Linear(size, 2)
        self.scale = nn.Parameter(torch.tensor(_SCALE).log())
        for module in (self.out, self.match, self.ends, self.weigh):
            nn.init.zeros_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(
        self, after: Tensor, before: Tensor, question_mask: Tensor, owners: Tensor, count: int
    ) -> tuple[Tensor, Tensor]:
        """Return how sentences rank and the log-odds that they answer ``[p, k, 2]``, and starts and ends ``[p, t, 2]``.

        ``after`` and ``before`` ``[p, t, d]`` are states of the last layer and before the first, ``question_mask``
        ``[p, t]`` the question's tokens, ``owners`` ``[p, t]`` the sentence each token is of, -1 for none, of
        ``count``.
        """
        group = torch.where(owners >= 0, owners, count)
        shape = (len(after), count + 1, after.shape[2])
        sums = after.new_zeros(shape).scatter_add_(1, group[..., None].expand_as(after), after)
        sizes = after.new_zeros(shape[:2]).scatter_add_(1, group, torch.ones_like(group, dtype=after.dtype))
        means = (sums / sizes.clamp(min=1)[..., None])[:, :count]
        longest = int(question_mask.sum(1).max())
        question, real = after[:, 1 : 1 + longest], question_mask[:, 1 : 1 + longest]
        whole = (question * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
        weights = self.weigh(question)[..., 0].masked_fill(~real, _MASKED).softmax(1)
        matches = []
        for states in (after, before):
            unit = functional.normalize(states, dim=-1)
            alike = unit[:, 1 : 1 + longest] @ unit.transpose(1, 2)
            best = alike.new_full((*alike.shape[:2], count + 1), -1.0)
            best = best.scatter_reduce(2, group[:, None].expand_as(alike), alike, "amax", include_self=True)
            matches.append((weights[..., None] * best[..., :count]).sum(1))
        features = torch.cat([means, means * whole[:, None] * 4], -1)
        hidden = functional.gelu(self.dense(features))
        return self.out(hidden) + self.match(torch.stack(matches, -1)), self.ends(after)


class RerankerModel(nn.Module):
    """The model and its loss, in the form that transformers' Trainer trains."""

    def __init__(self, settings: RerankerSettings) -> None:
        """Make the model from the base's first layers, or one to go on from. Raises UsageError, EncoderError."""
        from transformers import AutoConfig

        super().__init__()
        self._settings = settings
        base = find_model(settings.base)
        self.landmark = read_settings(base).get("landmark", "")
        try:
            config = AutoConfig.from_pretrained(base)
            config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
            # For texts this short the fused attention is half as fast on a CPU.
            bert = load_backbone(base, config=config, dtype=torch.float32, attn_implementation="eager")
        except (OSError, ValueError, TypeError) as error:
            raise EncoderError(f"{base}: can't be loaded as a base ({error})") from error
        if not self.landmark or bert.config.model_type != "bert" or len(bert.encoder.layer) < settings.layers:
            raise UsageError(f"{base}: a re-ranker needs a BERT with a landmark and {settings.layers} layers or more")
        bert.encoder.layer = bert.encoder.layer[: settings.layers]
        bert.pooler = None
        bert.embeddings.word_embeddings.weight.requires_grad_(False)  # the encoder's, and stay so: one file for both
        self.bert = bert
        self.head = Head(bert.config.hidden_size)
        if settings.start:
            self._load(settings.resolve(settings.start))

    def _load(self, folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        body = {name: value.float() for name, value in weights.items() if not name.startswith("head.")}
        missing, unknown = self.bert.load_state_dict(body, strict=False)
        if unknown or [name for name in missing if "word_embeddings" not in name and "position_ids" not in name]:
            raise UsageError(f"{folder}: holds no re-ranker of {self._settings.layers} layers")
        head = {
            name.removeprefix("head."): value.float() for name, value in weights.items() if name.startswith("head.")
        }
        self.head.load_state_dict(head)

    def read(self, batch: PlaceBatch) -> tuple[Tensor, Tensor]:
        """Return the head's scores of passages: see :meth:`Head.forward`."""
        before = self.bert.embeddings(input_ids=batch.ids, token_type_ids=batch.types)
        after = self.bert(
            input_ids=batch.ids, token_type_ids=batch.types, attention_mask=batch.mask.long()
        ).last_hidden_state
        scores, ends = self.head(after, before, batch.question_mask, batch.owners, batch.labels.shape[1])
        return scores, ends

    def forward(self, step: PlaceStep) -> dict[str, Tensor]:
        """Return ``{"loss": scalar}``.

        The loss has three parts: for each question, the softmax of similarity and rank together over the sentences
        read; for each sentence, whether it answers; for each short answer, where it starts and ends in its passage.
        """
        logits, says, labels, questions, marked = [], [], [], [], []
        for batch in step.batches:
            scores, ends = self.read(batch)
            known = batch.labels != UNKNOWN
            logits.append((batch.scores * self.head.scale.exp() + scores[..., 0])[known])
            says.append(scores[..., 1][known])
            labels.append(batch.labels[known])
            questions.append(batch.question[:, None].expand_as(batch.labels)[known])
            marked.append(_short_losses(batch, ends, step.answerable))
        logit, good, question = torch.cat(logits), torch.cat(labels) == ANSWERS, torch.cat(questions)
        order = logit.new_zeros(())
        for number in step.answerable.nonzero()[:, 0].tolist():
            group = question == number
            if (group & good).any():
                order = order + logit[group].logsumexp(0) - logit[group & good].logsumexp(0)
        answers = functional.binary_cross_entropy_with_logits(
            torch.cat(says), (good & step.answerable[question]).to(logit.dtype)
        )
        short = torch.cat(marked)
        loss = order / len(step.answerable) + _ANSWER_SHARE * answers
        return {"loss": loss + _SHORT_SHARE * short.mean() if len(short) else loss}


def _short_losses(batch: PlaceBatch, ends: Tensor, answerable: Tensor) -> Tensor:
    """The losses of the passages that hold a short answer."""
    marked = answerable[batch.question] & batch.starts.any(1)
    inside = ends[marked].masked_fill((batch.owners[marked] < 0)[..., None], _MASKED).log_softmax(1)
    sums = [
        inside[..., side].masked_fill(~gold[marked], _MASKED).logsumexp(1)
        for side, gold in enumerate((batch.starts, batch.ends))
    ]
    return -(sums[0] + sums[1]) / 2


def save_reranker(model: RerankerModel, settings: RerankerSettings, folder: Path) -> None:
    """Write the folder of a re-ranker, float16 without the words' embeddings, or raise EncoderError: not finite."""
    folder.mkdir(parents=True, exist_ok=True)
    weights: dict[str, Any] = {
        name: value for name, value in model.bert.state_dict().items() if "word_embeddings" not in name
    }
    weights |= {f"head.{name}": value for name, value in model.head.state_dict().items()}
    weights = {name: value for name, value in weights.items() if value.is_floating_point()}
    save_half(weights, folder / "model.safetensors")
    if has_codewords(find_model(settings.base)):
        pack_layers(folder / "model.safetensors")
    described = {
        "format": FORMAT,
        "base": settings.base,
        "layers": settings.layers,
        "landmark": model.landmark,
        "weight": settings.weight,
        "passage_tokens": settings.passage_tokens,
    }
    write_json(folder / "reranker.json", described)
    make_readable(folder)
    (folder / RANGES).unlink(missing_ok=True)  # of earlier weights
    write_reranker_graphs(folder)
