"""Iteration of the low-rank method: Newton steps, certificates, and new columns where dual feasibility is violated."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.numeric import CANCELLED
from qsdp._utils.truncated_newton import ACCEPTED, newton_step
from qsdp._utils.tuning import INNER, MAX_STEPS, PATIENCE, PROGRESS, ROUGH, SMALL
from qsdp.relaxation.incumbent import STOPS, Incumbent
from qsdp.relaxation.solvers.lowrank.factor_bound import CachedEvaluation, offer
from qsdp.relaxation.solvers.lowrank.factor_objective import Objective
from qsdp.relaxation.solvers.lowrank.factors import Directions, Factors, renewed

__all__ = ["follow"]

#: Largest entries of new columns relative to the root of r; the first that does not raise the objective is used.
_SIZES = (5e-2, 1e-2, 2e-3, 4e-4)


def follow(
    objective: Objective,
    factors: Factors,
    incumbent: Incumbent,
    evaluation: CachedEvaluation,
    tol: float,
) -> str:
    """Improve the factors until a stopping criterion is met, and return the status."""
    try:
        iteration = _LowRankIteration(objective, factors, incumbent, evaluation, tol)
        status = incumbent.stop(0)
        while status is None:
            if iteration.proof_due():
                iteration.prove()
                status = incumbent.stop(iteration.count) or ("stalled" if iteration.exhausted else None)
            if status is None:
                iteration.advance()
                status = incumbent.stop(iteration.count)
        if status in {"iteration limit", "time limit"} and iteration.since_proof:
            iteration.prove()
            status = "optimal" if np.all(incumbent.gaps <= tol) else status
    except tuple(STOPS) as error:
        status = STOPS[type(error)]
    return status


class _LowRankIteration:
    """The current point, its trust region, and the rule for when to certify next."""

    def __init__(
        self,
        objective: Objective,
        factors: Factors,
        incumbent: Incumbent,
        evaluation: CachedEvaluation,
        tol: float,
    ) -> None:
        self._incumbent, self._evaluation, self._tol = incumbent, evaluation, tol
        self._objective = objective
        self.point = objective.at(factors)
        self.count, self.since_proof = 0, 1
        self.exhausted = False
        self._radius: float | None = None
        self._stuck = False
        self._idle = 0
        self._due, self._proven_value = ROUGH, math.inf

    @property
    def _gap(self) -> float:
        return float(self._incumbent.gaps.max())

    @property
    def _promise(self) -> float:
        """Approximate decrease predicted by a Newton step, relative to the objective."""
        g = self.point.gradient
        size = abs(self.point.value) or 1.0
        return 0.5 * max(float(np.vdot(g, self.point.precondition(g))), 0.0) / size

    def proof_due(self) -> bool:
        """Decide whether to certify the current point."""
        if not self.since_proof:
            return False
        return self._stuck or self.since_proof >= PATIENCE or self._promise < self._due

    def prove(self) -> None:
        """Certify the point, and update the columns of the factors by the violated dual constraints."""
        gap_before, promise = self._gap, self._promise
        directions = offer(self._incumbent, self._evaluation, self.point, self._tol)
        gap, value = self._gap, self.point.value
        self.since_proof = 0
        if gap <= self._tol:
            return
        self._due = min(ROUGH, 3.0 * promise * max(self._tol / gap, INNER) ** 2)
        if promise < INNER * gap or self._stuck:
            idle = gap > PROGRESS * gap_before and value > self._proven_value - INNER * gap * abs(value)
            self._idle = self._idle + 1 if idle else 0
        self._proven_value = value
        self.exhausted = self._idle >= PATIENCE
        self._stuck = False
        self._renew(directions, SMALL * min(gap, ROUGH), value * (1.0 + INNER * promise))

    def _renew(self, directions: list[Directions], cutoff: float, highest: float) -> None:
        """Drop and add columns without increasing the objective."""
        point = self.point
        for size in _SIZES:
            fresh = renewed(point.factors, point.radii, point.z, directions, cutoff, size)
            self.point = self._objective.at(fresh)
            if self.point.value <= highest:
                return
        self.point = self._objective.at(point.factors)

    def advance(self) -> None:
        """Take one trust-region Newton step, shortened until the objective decreases as predicted."""
        self.count += 1
        self.since_proof += 1
        point = self.point
        if self._radius is None:
            self._radius = 0.25 * point.metric_norm()
        promise = self._promise
        accuracy = min(INNER, math.sqrt(2.0 * promise))
        step = newton_step(
            point.gradient,
            point.hessian,
            point.precondition,
            radius=self._radius,
            accuracy=accuracy,
            max_products=MAX_STEPS,
        )
        rounding = CANCELLED * abs(point.value)
        fraction = 1.0
        for _ in range(PATIENCE):
            trial = point.moved(fraction * step.direction)
            ratio = (point.value - trial.value + rounding) / (max(step.predicted(fraction), 0.0) + rounding)
            if ratio > ACCEPTED:
                break
            fraction *= 0.25
        else:
            self._stuck = True
            self._radius = fraction * step.length
            return
        self.point = trial
        self._radius = step.next_radius(self._radius, ratio, fraction)
