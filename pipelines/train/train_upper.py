"""Train the last layers of a reader of passages on two processors: a file keeps what the layers below compute.

    python pipelines/train/train_upper.py DATA.npz... OUT --start FOLDER [--trained 4] [--epochs 3]

Each DATA is what `pack_passages.py` packs; FOLDER holds a re-ranker of passages such as landmark-reranker-l12, which is
also the teacher that keeps what it knows. Each question has the same passages in every epoch: two at most that answer,
and the search's first others. Losses are those of `train_passages.py`. Run it again to go on from the last checkpoint.
OUT gets `log.txt`, `last.pt`, and in the end `part-NN`: `cat part-* > model.safetensors`. The states stay beside DATA in
`DATA.states` (0.8 kB a token), so that another run reads them.
"""

import argparse
import math
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from checkpoints import load_checkpoint, log_means, save_checkpoint, write_parts
from mined_passages import ANSWERS
from passage_steps import Data, Row, Step, collate
from torch import Tensor, nn
from train_passages import LOGGED, Reader, Scores, load_start, losses

SIZE = 384
AT_A_TIME = 16  # passages of alike length that are read together
WARMUP = 30


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--trained", type=int, default=4, help="layers")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--questions", type=int, default=16, help="of a step")
    parser.add_argument("--passages", type=int, default=6, help="of a question")
    parser.add_argument("--learning-rate", type=float, default=8e-5)
    parser.add_argument("--teach", type=float, default=0.3)
    parser.add_argument("--ends", type=float, default=1.0)
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument(
        "--titles", type=float, default=0.5, help="the share of passages read with titles, where not all"
    )
    parser.add_argument("--prepare", action="store_true", help="only fill the states")
    options = parser.parse_args()
    torch.manual_seed(0)
    options.out.mkdir(parents=True, exist_ok=True)
    model = Reader(load_start(options.start), 12).train()
    layers = list(model.bert.encoder.layer)
    lower, upper = layers[: -options.trained], layers[-options.trained :]
    model.requires_grad_(False)
    for module in (*upper, model.bert.pooler, model.classifier, model.complete, model.sentence, model.ends):
        module.requires_grad_(True)

    # 1. The states below the layers that are trained, and the untrained reader's score of each passage.
    parts = [prepare(model, lower, upper, path, options.passages, options.titles) for path in options.data]
    if options.prepare:
        return
    questions = [chosen for part in parts for chosen in part.questions]
    rows = [row for chosen in questions for row in chosen]
    taught = np.concatenate([part.taught for part in parts])
    places = [(part.stored, int(start)) for part in parts for start in part.starts[:-1]]

    # 2. Epochs over the questions.
    optimizer = torch.optim.AdamW([value for value in model.parameters() if value.requires_grad], options.learning_rate)
    firsts = np.concatenate([[0], np.cumsum([len(chosen) for chosen in questions])])
    steps = int(options.epochs * (len(questions) // options.questions))
    checkpoint = options.out / "last.pt"
    step, seconds = load_checkpoint(checkpoint, model, optimizer, torch.device("cpu"))
    began, total, counted = time.monotonic() - seconds, np.zeros(len(LOGGED)), 0
    while step < steps:
        epoch, place = divmod(step, len(questions) // options.questions)
        order = np.random.default_rng((1, epoch)).permutation(len(questions))
        chosen = order[place * options.questions : (place + 1) * options.questions]
        numbers = np.concatenate([np.arange(firsts[i], firsts[i + 1]) for i in chosen])
        owners = np.concatenate([np.full(firsts[i + 1] - firsts[i], at) for at, i in enumerate(chosen)])
        rate = options.learning_rate * min(1, (step + 1) / WARMUP) * (1 + math.cos(math.pi * step / steps)) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch, scores = read(model, upper, [rows[i] for i in numbers], owners, [places[i] for i in numbers])
        costs = losses(batch, scores, torch.from_numpy(taught[numbers]), options.temperature)
        passage, sentence, single, marked, complete, divergence = costs
        optimizer.zero_grad()
        labels = passage + 0.5 * sentence + single + options.ends * marked + 0.5 * complete
        (labels + options.teach * divergence).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        total += [value.item() for value in costs]
        counted += 1
        if step % 20 == 0 or step == steps:
            log_means(options.out, step, time.monotonic() - began, LOGGED, total / counted)
            total[:] = counted = 0
        if step % 60 == 0:
            save_checkpoint(checkpoint, model, optimizer, step, time.monotonic() - began)
    save_checkpoint(checkpoint, model, optimizer, step, time.monotonic() - began)
    write_parts(options.out, {n: v for n, v in model.state_dict().items() if not n.startswith("bert.embeddings.")})


class Prepared(NamedTuple):
    """The passages of a pack's questions, where the states of each begin, the states, and the untrained scores."""

    questions: list[list[Row]]
    starts: np.ndarray  # [rows + 1], in tokens
    stored: np.memmap  # [tokens, SIZE], the bits of bfloat16
    taught: np.ndarray  # [rows]


def prepare(
    model: Reader, lower: list[nn.Module], upper: list[nn.Module], path: Path, passages: int, titles: float
) -> Prepared:
    """Choose the passages of a pack, and fill the states below the trained layers."""
    questions = choose_rows(Data(path, 0, titles), passages)
    rows = [row for chosen in questions for row in chosen]
    starts = np.concatenate([[0], np.cumsum([len(row.tokens) for row in rows])])
    states = path.with_suffix(".states")
    mode = "r+" if states.exists() else "w+"
    stored = np.memmap(states, np.uint16, mode, shape=(int(starts[-1]), SIZE))
    print(f"{path.name}: {len(questions)} questions, {len(rows)} passages, {starts[-1]} tokens", flush=True)
    taught = remember(model, lower, upper, rows, starts, stored, path.with_suffix(".taught.npy"))
    return Prepared(questions, starts, stored, taught)


def choose_rows(data: Data, passages: int) -> list[list[Row]]:
    """Return the passages of each question: of one that is answered, some that do not; of others, half as many."""
    rng = np.random.default_rng(0)
    chosen = []
    for question, (low, high) in enumerate(pairwise(data.starts["passage"])):
        tokens = data.text(data.arrays["question"][question])
        numbers = data.pick(np.arange(low, high), passages, rng)
        rows = [data.row(tokens, number, data.title(question, number, rng)) for number in numbers]
        is_answered = [ANSWERS in row.labels for row in rows]
        if any(is_answered) and not all(is_answered):
            chosen.append(rows)
        elif rows and not any(is_answered):
            chosen.append(rows[: passages // 2])
    return chosen


def remember(
    model: Reader,
    lower: list[nn.Module],
    upper: list[nn.Module],
    rows: list[Row],
    starts: np.ndarray,
    stored: np.memmap,
    path: Path,
) -> np.ndarray:
    """Fill ``stored`` with the states below the trained layers, and return the untrained scores ``[rows]``."""
    taught = np.load(path) if path.exists() else np.full(len(rows), np.nan, np.float32)
    missing = np.flatnonzero(np.isnan(taught))
    missing = missing[np.argsort([len(rows[i].tokens) for i in missing], kind="stable")]
    began = time.monotonic()
    for at in range(0, len(missing), AT_A_TIME):
        part = missing[at : at + AT_A_TIME]
        batch = collate([rows[i] for i in part], np.zeros(len(part), np.int64))
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            mask = mask_scores(batch.mask)
            states = model.bert.embeddings(input_ids=batch.ids, token_type_ids=batch.types)
            for layer in lower:
                states = layer(states, mask)
            below = states.to(torch.bfloat16)
            for layer in upper:
                states = layer(states, mask)
            taught[part] = model.read(states, batch).passages.float().numpy()
        for number, row in zip(part, below, strict=True):
            length = len(rows[number].tokens)
            stored[starts[number] : starts[number] + length] = row[:length].contiguous().view(torch.uint16).numpy()
        if at // AT_A_TIME % 100 == 99:
            np.save(path, taught)
            print(f"{at + len(part)} of {len(missing)} passages, {time.monotonic() - began:.0f} s", flush=True)
    np.save(path, taught)
    return taught


def read(
    model: Reader,
    upper: list[nn.Module],
    rows: list[Row],
    owners: np.ndarray,
    places: list[tuple[np.memmap, int]],
) -> tuple[Step, Scores]:
    """Read passages from their stored states, those of alike length together; return the batch and its scores."""
    batch = collate(rows, owners)
    scores, complete = torch.zeros(len(rows)), torch.zeros(len(rows))
    sentences = torch.zeros(batch.labels.shape)
    ends = torch.full((*batch.ids.shape, 2), -1e4)
    order = np.argsort([len(row.tokens) for row in rows], kind="stable")
    for at in range(0, len(order), AT_A_TIME):
        part = order[at : at + AT_A_TIME]
        length = len(rows[part[-1]].tokens)
        states = torch.zeros(len(part), length, SIZE)
        for i, number in enumerate(part):
            size = len(rows[number].tokens)
            stored, start = places[number]
            raw = torch.from_numpy(np.array(stored[start : start + size]))
            states[i, :size] = raw.view(torch.bfloat16).float()
        small = Step(*(values[part] for values in batch))
        cut = {name: getattr(small, name)[:, :length] for name in ("ids", "types", "mask", "owners")}
        small = small._replace(**cut)
        with torch.autocast("cpu", torch.bfloat16):
            mask = mask_scores(small.mask)
            for layer in upper:
                states = layer(states, mask)
            found = model.read(states, small)
        index = torch.from_numpy(part)
        scores = scores.index_copy(0, index, found.passages.float())
        complete = complete.index_copy(0, index, found.complete.float())
        sentences = sentences.index_copy(0, index, found.sentences.float())
        padded = nn.functional.pad(found.ends.float(), (0, 0, 0, ends.shape[1] - length), value=-1e4)
        ends = ends.index_copy(0, index, padded)
    return batch, Scores(scores, complete, sentences, ends)


def mask_scores(mask: Tensor) -> Tensor:
    """Return what attention adds to mask padding, ``[p, 1, 1, t]``."""
    return torch.where(mask, 0.0, torch.finfo(torch.float32).min)[:, None, None, :]


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    main()
