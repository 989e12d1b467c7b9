"""transformers' Trainer on steps that are whole batches; what it logs goes to our log, and a loss must be finite."""

import logging
from typing import Any

import torch
from transformers import PrinterCallback, Trainer, TrainerCallback

from lmkrag.errors import TrainingError

log = logging.getLogger(__name__)


class LogCallback(TrainerCallback):  # type: ignore[misc]
    """Says how far a run is, and its losses."""

    def __init__(self, name: str) -> None:
        """Take what the run is called in the log."""
        self._name = name

    def on_log(self, _: Any, state: Any, __: Any, logs: dict[str, Any], **___: Any) -> None:
        """Log one line."""
        values = ", ".join(f"{name} {value:.4g}" for name, value in logs.items() if isinstance(value, float | int))
        log.info("%s: step %d of %d: %s", self._name, state.global_step, state.max_steps, values)


class StepTrainer(Trainer):  # type: ignore[misc]
    """Trains a model that is called with ``step=`` and returns its loss; an item of its data is a step.

    ``name`` is what the run is called, other arguments are Trainer's.
    """

    def __init__(self, *, name: str, **arguments: Any) -> None:
        """Make one that logs as :class:`LogCallback` and prints nothing."""
        super().__init__(data_collator=_only, **arguments)
        self._name = name
        self.remove_callback(PrinterCallback)
        self.add_callback(LogCallback(name))

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"step": inputs["step"].to(self.args.device)}

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Return the loss.

        Raises:
            TrainingError: it is not finite.
        """
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        if not bool(torch.isfinite(loss)):
            raise TrainingError(
                f"{self._name}: the loss is not finite after step {self.state.global_step}; lower the learning rate; "
                "the checkpoints before it are kept"
            )
        return loss


def _only(steps: list[Any]) -> dict[str, Any]:
    (step,) = steps
    return {"step": step}
