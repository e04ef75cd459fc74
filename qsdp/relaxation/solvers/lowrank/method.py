"""The iteration: Newton steps, proofs now and then, and new columns where these lack."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.deadline import TimeOver
from qsdp._utils.truncated_newton import newton_step
from qsdp.relaxation.incumbent import Incumbent
from qsdp.relaxation.solvers.lowrank.factors import Directions, Factors, renewed
from qsdp.relaxation.solvers.lowrank.objective import Objective
from qsdp.relaxation.solvers.lowrank.proof import CachedEvaluation, offer

__all__ = ["follow"]

#: Radius of the first region, as a share of the norm of the factors.
_FIRST_RADIUS = 0.3
#: Products with the Hessian a step at most, at settled points and before, and the least accuracy of its system.
_SETTLED_PRODUCTS, _MOST_PRODUCTS, _ACCURACY = 300, 60, 0.1
#: Attempts at a step, each a quarter of the one before.
_ATTEMPTS = 8
#: Share of the predicted decrease that a step must reach, and those at which the region shrinks and grows.
_LEAST_RATIO, _POOR_RATIO, _GOOD_RATIO = 0.05, 0.25, 0.75
#: The first proof is due when a step promises less than this share of the objective; any is after so many steps.
_FIRST_PROMISE, _STEPS = 0.03, 8
#: What a proof lacks goes with the root of what a step promises: the next one aims at the tolerance, or at a gap that
#: is this share of the present one, and starts this much earlier.
_AIM, _EARLIER = 0.1, 3.0
#: A point is settled when steps promise less than this share of the gap. A proof there that lowers neither the gap to
#: this share nor the objective by this share of the gap is idle; the method gives up after so many.
_SETTLED, _LESS, _IMPROVEMENT, _IDLE_PROOFS = 0.1, 0.98, 0.05, 8
#: New columns have entries of these shares of the root of r at most, the first at which the objective does not rise.
_SIZES = (5e-2, 1e-2, 2e-3, 4e-4)
#: Columns with squares below this share of the gap, relative to the largest, are dropped.
_NEGLIGIBLE = 1e-3
#: Changes of the objective below this share of it are rounding.
_ROUNDING = 1e-13


def follow(
    objective: Objective, factors: Factors, incumbent: Incumbent, evaluation: CachedEvaluation, tol: float
) -> tuple[str, Factors]:
    """Improve the factors until the incumbent is good enough; return why it ended, and the last factors."""
    iteration: _Iteration | None = None
    try:
        iteration = _Iteration(objective, factors, incumbent, evaluation, tol)
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
    except KeyboardInterrupt:
        status = "interrupted"
    except TimeOver:
        status = "time limit"
    except np.linalg.LinAlgError:
        # Numbers at the ends of their range, where not even eigenvalues are found.
        status = "stalled"
    return str(status), factors if iteration is None else iteration.point.factors


class _Iteration:
    def __init__(
        self, objective: Objective, factors: Factors, incumbent: Incumbent, evaluation: CachedEvaluation, tol: float
    ) -> None:
        self._incumbent, self._evaluation, self._tol = incumbent, evaluation, tol
        self._objective = objective
        self.point = objective.at(factors)
        self.count, self.since_proof = 0, 1
        self.exhausted = False
        self._radius: float | None = None
        self._stuck = False
        self._idle = 0
        self._due, self._proven_value = _FIRST_PROMISE, math.inf

    @property
    def _gap(self) -> float:
        return float(self._incumbent.gaps.max())

    @property
    def _promise(self) -> float:
        """About what a Newton step gains, as a share of the objective."""
        g = self.point.gradient
        size = abs(self.point.value) or 1.0
        return 0.5 * max(float(np.vdot(g, self.point.precondition(g))), 0.0) / size

    def proof_due(self) -> bool:
        """Return whether it is time for a proof."""
        if not self.since_proof:
            return False
        return self._stuck or self.since_proof >= _STEPS or self._promise < self._due

    def prove(self) -> None:
        """Offer the point, and renew the columns."""
        gap_before, promise = self._gap, self._promise
        directions = offer(self._incumbent, self._evaluation, self.point, self._tol)
        gap, value = self._gap, self.point.value
        self.since_proof = 0
        if gap <= self._tol:
            return
        self._due = min(_FIRST_PROMISE, _EARLIER * promise * max(self._tol / gap, _AIM) ** 2)
        if promise < _SETTLED * gap or self._stuck:
            idle = gap > _LESS * gap_before and value > self._proven_value - _IMPROVEMENT * gap * abs(value)
            self._idle = self._idle + 1 if idle else 0
        self._proven_value = value
        self.exhausted = self._idle >= _IDLE_PROOFS
        self._stuck = False
        self._renew(directions, _NEGLIGIBLE * min(gap, 1e-2), value * (1.0 + 0.1 * promise))

    def _renew(self, directions: list[Directions], least: float, highest: float) -> None:
        """Drop and add columns such that the objective does not rise."""
        point = self.point
        for size in _SIZES:
            fresh = renewed(point.factors, point.radii, point.z, directions, least, size)
            self.point = self._objective.at(fresh)
            if self.point.value <= highest:
                return
        self.point = self._objective.at(point.factors)

    def advance(self) -> None:
        """Do one Newton step, or a part of it that decreases the objective as predicted."""
        self.count += 1
        self.since_proof += 1
        point = self.point
        if self._radius is None:
            self._radius = _FIRST_RADIUS * point.metric_norm()
        promise = self._promise
        most = _SETTLED_PRODUCTS if promise < _SETTLED * self._gap else _MOST_PRODUCTS
        accuracy = min(_ACCURACY, math.sqrt(2.0 * promise))
        step = newton_step(
            point.gradient,
            point.hessian,
            point.precondition,
            radius=self._radius,
            accuracy=accuracy,
            most=most,
            expired=lambda: self._incumbent.expired,
        )
        rounding = _ROUNDING * abs(point.value)
        share = 1.0
        for _ in range(_ATTEMPTS):
            moved = point.factors.E + share * step.direction
            trial = self._objective.at(point.factors.on_spheres(moved, point.radii))
            ratio = (point.value - trial.value + rounding) / (max(step.predicted(share), 0.0) + rounding)
            if ratio > _LEAST_RATIO:
                break
            share *= 0.25
        else:
            self._stuck = True
            self._radius = share * step.length
            return
        self.point = trial
        if share < 1.0 or ratio < _POOR_RATIO:
            self._radius = 0.5 * share * step.length
        elif ratio > _GOOD_RATIO and step.at_boundary:
            self._radius *= 2.5
