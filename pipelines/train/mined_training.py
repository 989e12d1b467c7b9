"""Train on mined questions with transformers' Trainer, from the last checkpoint on."""

import argparse
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from reranker_settings import MiningSettings
from torch.nn import Module
from torch.utils.data import Dataset
from transformers import TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from lmkrag.errors import UsageError
from lmkrag.training.step_trainer import StepTrainer, step_arguments


def mining_arguments(settings: MiningSettings, report_to: str, **more: Any) -> TrainingArguments:
    """Return Trainer's arguments for a run that learns from mined questions."""
    return step_arguments(
        settings.resolve(settings.out) / "checkpoints",
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        warmup=settings.warmup,
        logging_steps=settings.log_every,
        seed=settings.seed,
        report_to=report_to,
        save_steps=settings.checkpoint_every,
        **more,
    )


def train_steps(name: str, model: Module, data: Dataset[Any], groups: Any, arguments: TrainingArguments) -> bool:
    """Train from the last checkpoint; return whether this process saves. Raises TrainingError: loss not finite."""
    optimizer = torch.optim.AdamW(groups, arguments.learning_rate, weight_decay=0.01)
    trainer = StepTrainer(name=name, model=model, args=arguments, train_dataset=data, optimizers=(optimizer, None))
    checkpoints = arguments.output_dir
    trainer.train(resume_from_checkpoint=get_last_checkpoint(checkpoints) if Path(checkpoints).is_dir() else None)
    return bool(trainer.is_world_process_zero())


def run_command(description: str, load: Callable[[Path], Any], train: Callable[..., Path]) -> None:
    """Train what the configuration on the command line says, and print the folder that was written."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, metavar="CONFIG.toml")
    parser.add_argument("--report-to", choices=["none", "tensorboard", "wandb"], default="none")
    options = parser.parse_args()
    first = os.environ.get("RANK", "0") == "0"  # torchrun starts this once a card
    logging.basicConfig(level=logging.INFO if first else logging.WARNING, format="%(message)s")
    try:
        settings = load(options.config)
    except UsageError as error:
        parser.error(str(error))
    folder = train(settings, report_to=options.report_to)
    if first:
        print(folder)
