"""Units in which step sizes mean the same on all data: rows and targets of size one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.losses import Loss
from qsdp.problem import TrainingProblem

__all__ = ["Units", "normalised"]


@dataclass(frozen=True)
class Units:
    r"""What was divided by what: :math:`\ell(\tau t, \tau y) = \mathrm{factor} \cdot \mathrm{loss}(t, y)`.

    Attributes
    ----------
    row : float
        Root mean square of the rows' norms.
    target : float
        :math:`\tau`, the root mean square of the targets; 1 for labels and one-hot rows.
    factor : float
    loss : Loss
        That of predictions and targets divided by `target`.
    """

    row: float
    target: float
    factor: float
    loss: Loss


def normalised(problem: TrainingProblem) -> tuple[FloatArray, FloatArray, Units]:
    """Return data and targets in units of their own, and the units.

    Training on them makes a learning rate independent of the units of X and y: a fit to ``(s X, t y)`` takes the same
    steps as one to ``(X, y)``, so that a rate found on one set is a sensible start on another.
    """
    loss, target = problem.loss, 1.0
    row = _rms(problem.X) * np.sqrt(problem.n_features)
    if not (loss.labels or loss.coupled):
        target = _rms(problem.y)
    other, factor = loss.rescaled(target)
    return problem.X / row, problem.y / target, Units(float(row), target, factor, other)


def _rms(values: FloatArray) -> float:
    """Return the root mean square, 1 for zeros; nothing overflows."""
    largest = float(np.abs(values).max())
    return largest * float(np.sqrt(np.mean(np.square(values / largest)))) if largest else 1.0
