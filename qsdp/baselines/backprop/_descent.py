"""Stochastic gradient descent: what the systems that train by automatic gradients share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils.validation import check_choice
from qsdp.baselines._estimator import checked
from qsdp.baselines._history import Callback, History, train_epochs
from qsdp.baselines._torch import check_device, minibatches, require_torch, seeded, training_epoch

__all__ = ["OPTIMIZERS", "GradientDescent", "descent_of"]

OPTIMIZERS = ("sgd", "adam")
SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True)
class GradientDescent:
    """How gradients are followed; checked."""

    learning_rate: float
    momentum: float
    clip: float | None
    optimizer: str
    schedule: str
    batch_size: int
    n_epochs: int
    patience: int | None
    device: Any
    dtype: Any
    callback: Callback | None
    verbose: bool

    def tensor(self, array: Any) -> Any:
        """Return an array as a tensor of the chosen kind and place."""
        return require_torch().as_tensor(np.asarray(array), dtype=self.dtype, device=self.device)

    def run(
        self,
        training: Any,
        measure: Callable[[], Mapping[str, float]],
        *,
        width: float,
        rng: np.random.Generator,
        history: History,
        best: str | None,
    ) -> None:
        r"""Minimise the objective of a `GradientTraining` over its parameters, in place; the history is filled.

        `width` is the factor of SGD's steps. With 1/m in front of m neurons the gradient of one is of order 1/m, and
        steps must be m times as long; Adam's do not depend on it. `clip` is in units of the norm of such a gradient of
        all neurons, one over the root. `rng` draws the seed of the order of samples; `measure` and `best` are those of
        `train_epochs`.
        """
        torch = require_torch()
        tensors = list(training.parameters.values())
        if self.optimizer == "sgd":
            steps = torch.optim.SGD(tensors, lr=self.learning_rate * width, momentum=self.momentum)
        else:
            steps = torch.optim.Adam(tensors, lr=self.learning_rate, betas=(self.momentum, 0.999))
        schedule = None
        if self.schedule == "cosine":
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(steps, T_max=self.n_epochs)
        generator = seeded(rng)

        def set_state(state: list[Any]) -> None:
            with torch.no_grad():
                for tensor, kept in zip(tensors, state, strict=True):
                    tensor.copy_(kept)

        train_epochs(
            training_epoch(
                steps,
                lambda rows: training.objective(rows.to(self.device)).backward(),
                lambda: minibatches(len(training.targets), self.batch_size, generator),
                clipped=(tensors, None if self.clip is None else self.clip / math.sqrt(width)),
                project=training.project,
                schedule=schedule,
            ),
            measure,
            self.n_epochs,
            get_state=lambda: [tensor.detach().clone() for tensor in tensors],
            set_state=set_state,
            history=history,
            suggestion="a smaller learning_rate" + (" or clip=1.0" if self.clip is None else ""),
            callback=self.callback,
            verbose=self.verbose,
            name="backprop",
            best=best,
            patience=self.patience,
        )


def descent_of(estimator: Any) -> GradientDescent:
    """Return the checked descent of an estimator's parameters of these names."""
    given = checked(
        estimator, "learning_rate", "momentum", "clip", "batch_size", "n_epochs", "patience", "verbose", "dtype"
    )
    return GradientDescent(
        **{**given, "dtype": getattr(require_torch(), given["dtype"])},
        optimizer=check_choice("optimizer", estimator.optimizer, OPTIMIZERS),
        schedule=check_choice("schedule", estimator.schedule, SCHEDULES),
        callback=estimator.callback,
        device=check_device(estimator.device),
    )
