"""Train a reader of passages on packed data, on one GPU or, slowly, on processors. Needs torch, transformers, NumPy.

    python pipelines/train/train_passages.py DATA.npz OUT --start model.onnx [--layers 12] [--minutes 11]
    python pipelines/train/train_passages.py DATA.npz OUT --start model.onnx --layers 3 --teacher RUN RUN

A question's passages are read with it, `[CLS] question [SEP] title sentences [SEP]`; one score for each passage comes
from the first token, one for each sentence from the mean of its tokens. Both learn from the labels, passages also from
a teacher: the untrained model itself, so that it forgets nothing about paraphrases, or with `--teacher` the mean of
other runs. A logistic loss keeps the scores of different questions comparable, as confidence needs it. With `--ends`
the model also learns where short answers begin and end (Devlin et al., 2019): at the first token where there is none.
With fewer `--layers` than `--start` has, every n-th layer is taken. `--packed` lower layers compute with their matrices
in 4 bits, as `passage_reranker.py` stores them, so that what is measured is what ships; gradients pass the rounding
unchanged (Bengio et al., 2013). Run it again to go on from the last checkpoint.
OUT gets `log.txt`, `last.pt` and in the end `part-NN`, at most 16 MB each: `cat part-* > model.safetensors` gives what
was trained, which is all but the embeddings.
"""

import argparse
import copy
import sys
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from checkpoints import load_checkpoint, load_steps, log_means, save_checkpoint, set_rate, start_run, write_parts
from group_losses import MASKED, log_softmax, softmax_loss
from mined_passages import ANSWERS
from passage_steps import Data, Step
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils import parametrize
from transformers import BertConfig, BertModel

sys.path.insert(0, str(Path(__file__).parents[2]))

from four_bits import round_blocks

from lmkrag.models.packing import unpack_weights

LOGGED = ("passages", "sentences", "single passages", "ends", "completeness", "from the teacher")


class Scores(NamedTuple):
    """The logits of ``p`` passages: that each answers and that it has the whole answer ``[p]``, of its sentences
    ``[p, k]``, and of first and last tokens of a short answer ``[p, t, 2]``.
    """

    passages: Tensor
    complete: Tensor
    sentences: Tensor
    ends: Tensor


class Reader(nn.Module):
    """BERT with scores for a passage, for each of its sentences, and for the ends of a short answer."""

    def __init__(self, weights: dict[str, Tensor], layers: int) -> None:
        super().__init__()
        stored = 1 + max(int(name.split(".")[3]) for name in weights if name.startswith("bert.encoder.layer."))
        words = weights["bert.embeddings.word_embeddings.weight"]
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=words.shape[1],
            num_hidden_layers=layers,
            num_attention_heads=12,
            intermediate_size=4 * words.shape[1],
            layer_norm_eps=1e-12,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation="sdpa" if torch.cuda.is_available() else "eager",
        )
        self.bert = BertModel(config)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.complete = nn.Linear(config.hidden_size, 1)
        self.sentence = nn.Linear(config.hidden_size, 1)
        self.ends = nn.Linear(config.hidden_size, 2)
        nn.init.zeros_(self.sentence.weight)
        nn.init.zeros_(self.complete.weight)
        renamed = {}
        for name, value in weights.items():
            parts = name.split(".")
            if name.startswith("bert.encoder.layer."):
                if (int(parts[3]) + 1) % (stored // layers):
                    continue
                parts[3] = str((int(parts[3]) + 1) // (stored // layers) - 1)
            renamed[".".join(parts)] = value
        missing, unknown = self.load_state_dict(renamed, strict=False)
        heads = ("complete", "sentence", "ends")
        assert not unknown and all(name.startswith(heads) for name in missing), (missing, unknown)

    def forward(self, step: Step) -> Scores:
        """Return the scores of passages."""
        states = self.bert(step.ids, attention_mask=step.mask.long(), token_type_ids=step.types)
        return self.read(states.last_hidden_state, step)

    def read(self, states: Tensor, step: Step) -> Scores:
        """Return what :meth:`forward` does, from the last layer's ``states`` ``[p, t, size]``."""
        last = states.float()
        count = step.labels.shape[1]
        group = torch.where(step.owners >= 0, step.owners, count)
        sums = last.new_zeros(len(last), count + 1, last.shape[2])
        sums.scatter_add_(1, group[..., None].expand_as(last), last)
        sizes = last.new_zeros(sums.shape[:2]).scatter_add_(1, group, torch.ones_like(group, dtype=last.dtype))
        means = (sums / sizes.clamp(min=1)[..., None])[:, :count]
        place = torch.arange(last.shape[1], device=last.device)
        readable = step.mask & (step.types.bool() | (place == 0))  # no answer is in the question
        ends = self.ends(last).masked_fill(~readable[..., None], MASKED)
        pooled = self.bert.pooler(states).float()
        return Scores(self.classifier(pooled)[:, 0], self.complete(pooled)[:, 0], self.sentence(means)[..., 0], ends)


class Rounding(nn.Module):
    """A matrix in 4 bits, as :func:`passage_storage.pack_blocks` stores it; the gradient passes as if it were none."""

    def forward(self, weight: Tensor) -> Tensor:
        """Return the rounded matrix."""
        codes, scales = round_blocks(weight.detach())
        return weight + ((codes * scales).reshape(weight.shape) - weight.detach())


def losses(step: Step, scores: Scores, taught: Tensor, temperature: float) -> tuple[Tensor, ...]:
    """Return the losses that :data:`LOGGED` names; the last is the divergence from the teacher."""
    count = int(step.question.max()) + 1
    good = (step.labels == ANSWERS).any(1)
    passage = softmax_loss(scores.passages, good, step.question, count)
    known = step.labels >= 0
    owner = step.question[:, None].expand_as(step.labels)[known]
    sentence = softmax_loss(scores.sentences[known], (step.labels == ANSWERS)[known], owner, count)
    student, teacher = (log_softmax(values / temperature, step.question, count) for values in (scores.passages, taught))
    divergence = (teacher.exp() * (teacher - student)).sum() / count * temperature**2
    single = nn.functional.binary_cross_entropy_with_logits(scores.passages, good.float())
    costs = nn.functional.cross_entropy(
        scores.ends.transpose(1, 2).flatten(0, 1), step.ends.flatten(), reduction="none", ignore_index=-1
    )
    costs, marks = costs.view(-1, 2).mean(1), step.ends[:, 0]
    marked = [costs[group].mean() for group in (marks > 0, marks == 0) if bool(group.any())]
    told = step.complete >= 0
    complete = scores.complete.sum() * 0
    if bool(told.any()):
        complete = nn.functional.binary_cross_entropy_with_logits(scores.complete[told], step.complete[told].float())
    return passage, sentence, single, torch.stack(marked).sum(), complete, divergence


def load_start(path: Path) -> dict[str, Tensor]:
    """Return the weights to start from: safetensors, or a model of ONNX Runtime in int8."""
    if path.is_dir():
        return read_packed(path)
    if path.suffix == ".onnx":
        from int8_onnx import unpack

        return {name: torch.from_numpy(np.array(values)) for name, values in unpack(path).items()}
    weights: dict[str, Tensor] = load_file(path)
    return weights


def read_packed(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a re-ranker of this package."""
    weights = unpack_weights(load_arrays(folder / "model.safetensors"))
    names = {name: name if name.split(".")[0] in ("classifier", "ends") else f"bert.{name}" for name in weights}
    return {names[name]: torch.from_numpy(np.array(value, np.float32)) for name, value in weights.items()}


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, nargs="+", help="the folders of other runs")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--frozen", type=int, default=0, help="lower layers that stay as they are")
    parser.add_argument("--packed", type=int, default=0, help="lower layers that compute in 4 bits")
    parser.add_argument("--titles", type=float, default=0.5, help="the share of passages that are read with titles")
    parser.add_argument("--minutes", type=float, default=11)
    parser.add_argument("--steps", type=int, default=0, help="instead of minutes")
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--passages", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--labels", type=float, default=1.0)
    parser.add_argument("--teach", type=float, default=0.5)
    parser.add_argument("--ends", type=float, default=0.0)
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    device = start_run(options.out, options.seed)
    weights = load_start(options.start)
    model = Reader(weights, options.layers).to(device).train()
    teachers = [_load_run(run, device) for run in options.teacher or ()] or [copy.deepcopy(model)]
    for teacher in teachers:
        teacher.requires_grad_(False).eval()
    model.bert.embeddings.requires_grad_(False)
    model.bert.encoder.layer[: options.frozen].requires_grad_(False)
    matrices = [
        module for module in model.bert.encoder.layer[: options.packed].modules() if isinstance(module, nn.Linear)
    ]
    for matrix in matrices:
        parametrize.register_parametrization(matrix, "weight", Rounding())
    optimizer = torch.optim.AdamW(
        [parameter for parameter in model.parameters() if parameter.requires_grad], options.learning_rate
    )
    checkpoint = options.out / "last.pt"
    step, seconds = load_checkpoint(checkpoint, model, optimizer, device)
    began, saved = time.monotonic() - seconds, time.monotonic()
    data = Data(options.data, options.seed, options.titles)
    build = partial(data.step, questions=options.questions, passages=options.passages)
    total, counted = np.zeros(len(LOGGED)), 0
    for batch in load_steps(build, step, device, workers=8):
        elapsed = time.monotonic() - began
        done = step / options.steps if options.steps else elapsed / (60 * options.minutes)
        if done >= 1:
            break
        set_rate(optimizer, options.learning_rate, step, done, warmup=50)
        batch = Step(*(tensor.to(device, non_blocking=True) for tensor in batch))
        with torch.autocast(device.type, torch.bfloat16):
            scores = model(batch)
            with torch.no_grad():
                taught = torch.stack([teacher(batch).passages.float() for teacher in teachers]).mean(0)
        scores = Scores(*(values.float() for values in scores))
        parts = losses(batch, scores, taught, options.temperature)
        passage, sentence, single, marked, complete, divergence = parts
        optimizer.zero_grad()
        labels = options.labels * (passage + 0.5 * sentence + single + 0.5 * complete)
        (labels + options.ends * marked + options.teach * divergence).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        total += [value.item() for value in parts]
        counted += 1
        if step % 20 == 0 or step == options.steps:
            log_means(options.out, step, elapsed, LOGGED, total / counted)
            total[:] = counted = 0
        if time.monotonic() - saved > 120:
            save_checkpoint(checkpoint, model, optimizer, step, time.monotonic() - began)
            saved = time.monotonic()
    save_checkpoint(checkpoint, model, optimizer, step, time.monotonic() - began)
    for matrix in matrices:
        parametrize.remove_parametrizations(matrix, "weight", leave_parametrized=False)
    trained = {name: value for name, value in model.state_dict().items() if not name.startswith("bert.embeddings.")}
    write_parts(options.out, trained)


def _load_run(folder: Path, device: torch.device) -> Reader:
    stored = torch.load(folder / "last.pt", map_location="cpu")["model"]
    weights = {name.replace("parametrizations.weight.original", "weight"): value for name, value in stored.items()}
    layers = 1 + max(int(name.split(".")[3]) for name in weights if name.startswith("bert.encoder.layer."))
    return Reader(weights, layers).to(device)


if __name__ == "__main__":
    main()
