"""Best solution of a restricted problem so far, evaluated independently of the method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qsdp._utils.tuning import PATIENCE, PROGRESS
from qsdp._utils.validation import FloatArray
from qsdp.losses import DataFit

__all__ = ["Best", "RestrictedSolution"]


@dataclass(frozen=True, eq=False)
class RestrictedSolution:
    """Solution of a restricted problem: weights, a dual vector, and their objective and lower bound.

    Attributes
    ----------
    weights : ndarray of shape (k,)
        Non-negative.
    nu : ndarray of shape (n, C)
        Dual vector in the domain of the conjugate with ``columns' nu <= penalties``. For losses with kinks, it is
        central in the dual optimal set, which makes column generation converge faster than a vertex.
    objective, lower_bound : float
        Bounds on the restricted problem, evaluated at `weights` and `nu`.
    """

    weights: FloatArray
    nu: FloatArray
    objective: float
    lower_bound: float


class Best:
    """Incumbent of a restricted problem: the best weights and the best dual vector so far, with their values."""

    def __init__(self, F: FloatArray, fit: DataFit, penalties: FloatArray) -> None:
        self.F, self.fit, self.penalties = F, fit, penalties
        self.weights = np.zeros(F.shape[1])
        self.nu = np.zeros_like(fit.target)
        self.objective = fit.value_at_zero
        self.bound = max(0.0, fit.dual_value(self.nu))
        self.gap = self.mu = np.inf
        self.improved = self.iterations = 0

    @property
    def relative_gap(self) -> float:
        """Return the relative gap of the incumbent."""
        return (self.objective - self.bound) / (abs(self.objective) or 1.0)

    @property
    def stalled(self) -> bool:
        return self.iterations - self.improved > PATIENCE

    def update(self, weights: FloatArray, nu: FloatArray, iteration: int, mu: float) -> float:
        """Evaluate a pair of iterates and return the relative gap of the best pair."""
        self.iterations = iteration
        objective = self.fit.value((self.F @ weights)[:, None]) + float(self.penalties @ weights)
        if objective < PROGRESS * self.objective:
            self.improved = iteration
        if objective < self.objective:
            self.objective, self.weights = objective, weights.copy()
        nu = self.fit.project(nu)
        excess = float(((self.F.T @ nu)[:, 0] / self.penalties).max(initial=0.0))
        nu = nu / max(1.0, excess)
        bound = self.fit.dual_value(nu)
        if PROGRESS * bound > self.bound:
            self.improved = iteration
        if bound > self.bound:
            self.bound, self.nu = bound, nu
        gap = self.relative_gap
        # The gap does not change in the first iterations if the optimum is near zero.
        if gap < PROGRESS * self.gap or mu < PROGRESS * self.mu:
            self.gap, self.mu, self.improved = min(gap, self.gap), min(mu, self.mu), iteration
        return gap

    def solution(self) -> RestrictedSolution:
        return RestrictedSolution(self.weights, self.nu, self.objective, self.bound)
