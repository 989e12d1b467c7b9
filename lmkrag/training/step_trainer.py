"""transformers' Trainer for steps that are whole batches.

Lines of its log go to the package's log, and a loss must be finite.
"""

import logging
import math
import os
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, Trainer, TrainingArguments

from lmkrag.errors import TrainingError

log = logging.getLogger(__name__)


def step_arguments(folder: Path, *, steps: int, warmup: float, **more: Any) -> TrainingArguments:
    """Return Trainer's arguments for a model that is trained on whole steps.

    Args:
        folder: where checkpoints are written.
        steps: number of optimizer steps.
        warmup: share of the steps in which the learning rate rises, before it falls along a cosine.
        more: further arguments of ``TrainingArguments``.
    """
    workers = (
        min(8, os.cpu_count() or 1) if torch.cuda.is_available() else 0
    )  # so that a card does not wait
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=1,  # a step is a batch already
        max_steps=steps,
        lr_scheduler_type="cosine",
        warmup_steps=max(1, math.ceil(warmup * steps)),
        use_cpu=not torch.cuda.is_available(),
        logging_nan_inf_filter=False,
        save_total_limit=2,
        remove_unused_columns=False,
        dataloader_num_workers=workers,
        dataloader_pin_memory=False,
        disable_tqdm=True,  # its bar and prints go to standard output, which is for the result
        train_sampling_strategy="sequential",
        **more,
    )
    arguments._n_gpu = min(
        1, arguments.n_gpu
    )  # else Trainer splits a step among the cards that this process sees
    return arguments


class StepTrainer(Trainer):  # type: ignore[misc]
    """Trains a model that is called with ``step=`` and returns its loss; an item of its data is a
    step.
    """

    def __init__(self, *, name: str, **arguments: Any) -> None:
        """Take a name for messages, and the arguments of transformers' Trainer."""
        super().__init__(data_collator=lambda steps: {"step": steps[0]}, **arguments)
        self._name = name
        self.remove_callback(PrinterCallback)

    def log(self, logs: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """Log how far the run is, and its losses.

        Args:
            logs: values by name.
            args: further arguments of Trainer's method.
            kwargs: further arguments of Trainer's method.
        """
        super().log(logs, *args, **kwargs)
        values = ", ".join(
            f"{name} {value:.4g}" for name, value in logs.items() if isinstance(value, float | int)
        )
        log.info(
            "%s: step %d of %d: %s",
            self._name,
            self.state.global_step,
            self.state.max_steps,
            values,
        )

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Move a step to the device."""
        return {"step": inputs["step"].to(self.args.device)}

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Return the loss of a step.

        Args:
            model: the model in training.
            inputs: the step, as ``step``.
            args: further arguments of Trainer's method.
            kwargs: further arguments of Trainer's method.

        Raises:
            TrainingError: the loss is infinite or NaN.
        """
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        if not bool(torch.isfinite(loss)):
            raise TrainingError(
                f"{self._name}: the loss is not finite after step {self.state.global_step}; lower "
                "the learning rate; "
                "the checkpoints before it are kept"
            )
        return loss
