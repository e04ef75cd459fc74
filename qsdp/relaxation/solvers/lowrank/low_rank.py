"""The low-rank method: Newton steps, certificates, and new columns where dual feasibility is violated."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import CANCELLED
from qsdp._utils.truncated_newton import ACCEPTED, newton_step
from qsdp._utils.tuning import (
    EIGEN,
    FIRST_TRY,
    INNER,
    MAX_STEPS,
    NEGLIGIBLE,
    PATIENCE,
    PROGRESS,
    ROUGH,
    SMALL,
    TYPICAL_STEPS,
)
from qsdp._utils.validation import FloatArray
from qsdp.data_map import COLUMNS
from qsdp.inner_problem import dominating_weights
from qsdp.losses import Loss
from qsdp.relaxation.evaluation import DirectEvaluation
from qsdp.relaxation.incumbent import STOPS, Incumbent
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution, Settings
from qsdp.relaxation.solvers.lowrank.factor_objective import Objective, ObjectiveData, Point
from qsdp.relaxation.solvers.lowrank.factors import Directions, Factors, cold_factors, factors_of, renewed
from qsdp.relaxation.solvers.parts import SolvePart, solve_parts
from qsdp.relaxation.spectra import decomposed

__all__ = ["CachedEvaluation", "follow", "operations", "solve_low_rank", "unfit"]

#: Largest entries of new columns relative to the root of r; the first that does not raise the objective is used.
_SIZES = (5e-2, 1e-2, 2e-3, 4e-4)


#: Default of `max_iter`; tens of iterations are usual.
_MAX_ITERATIONS = 500

#: Expected products of a solve with the data, and columns of the factors.
_PRODUCTS, _COLUMNS = 2000, 80

#: Samples per column up to which a coarse solve counts as having few samples, and its number of products.
_FEW_SAMPLES, _COARSE_PRODUCTS = 4, 150


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
        return self._incumbent.gap

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
        directions = _offer(self._incumbent, self._evaluation, self.point, self._tol)
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


# -- certificates ------------------------------------------------------------------------------------------------


class CachedEvaluation(DirectEvaluation):
    """Evaluation through the data for a point whose predictions and adjoint are cached."""

    def __init__(self, instance: Instance, data: ObjectiveData) -> None:
        super().__init__(instance)
        self._data = data
        self._prediction: FloatArray | None = None
        self._M: FloatArray | None = None

    def cache(self, prediction: FloatArray, M: FloatArray) -> None:
        """Set the predictions and the adjoint for all points and dual vectors evaluated until the next call."""
        self._prediction, self._M = prediction, M

    def _predictions(self, T: FloatArray, weights: FloatArray) -> FloatArray:
        if self._prediction is not None:
            return self._prediction
        return super()._predictions(T, weights) if np.any(T) else np.zeros_like(self.instance.target)

    def _pulled(self, nu: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.adjoints(nu) if self._M is None else self._M, self.instance.no_weights

    def adjoints(self, nu: FloatArray) -> FloatArray:
        """Return the matrices of shape (K, N, N) of a dual vector of shape (n, C)."""
        return self._data.adjoints(nu)


def _offer(incumbent: Incumbent, evaluation: CachedEvaluation, point: Point, tol: float) -> list[Directions]:
    """Offer the point and its dual vector to the incumbent; return each matrix's violated dual constraints.

    They are the eigenvectors that violate dual feasibility. If the gap exceeds `tol`, better weights are computed: the
    multipliers of the rows are the best weights only at an optimal point.
    """
    nu = evaluation.nu(point.nu)
    M = evaluation.adjoints(nu)
    evaluation.cache(point.prediction, M)
    incumbent.offer_point(*point.factors.matrices())
    floor = ROUGH * incumbent.gap
    data, z, directions = evaluation.instance.map, np.empty((len(M), M.shape[1])), []
    for k, (matrix, dual) in enumerate(zip(M, evaluation.instance.duals_of_matrices(nu), strict=True)):
        raised = _raised(matrix, np.maximum(point.z[:, k], 0.0), floor)
        values, vectors = decomposed(data, matrix, dual, 1.0 / np.sqrt(raised))
        z[k], violating = _corrected(raised, values, vectors)
        directions.append(violating)
    incumbent.offer_dual(nu, z)
    gap = incumbent.gap
    if gap > tol and not deadline.over():
        accuracy = min(ROUGH, INNER * gap)
        incumbent.offer_dual(nu, np.stack([dominating_weights(matrix, accuracy) for matrix in M]))
    return directions


def _raised(M: FloatArray, z: FloatArray, floor: float) -> FloatArray:
    """Make the weights positive: add a small multiple of the row sums to z."""
    sums = np.abs(M).sum(axis=1)
    total = float(sums.sum())
    raised = z + (floor * float(z.sum()) / total) * sums if total > 0.0 else np.ones_like(z)
    raised += NEGLIGIBLE * float(raised.mean()) + 1e-300
    return raised


def _corrected(z: FloatArray, values: FloatArray, vectors: FloatArray) -> tuple[FloatArray, Directions]:
    r"""Raise weights so that ``Diag(z) +- M`` are positive semidefinite up to rounding; also return the violations.

    `values` and `vectors` belong to M divided by the roots of z from both sides. The row sums of \|P\|, which dominate
    P, compensate the negative part -P of such a matrix. If few rows cause it, such as rows of rare features, this
    hardly loosens the bound, while scaling all of z would loosen it.
    """
    roots, added = np.sqrt(z), np.zeros_like(z)
    # A needs columns if M exceeds Diag(z), and B if -M does.
    violating = []
    for sign in (1.0, -1.0):
        excess = sign * values - 1.0
        order = np.argsort(-excess)[: int(np.sum(excess > 0.0))]
        weighted = roots[:, None] * vectors[:, order]
        added += np.abs((weighted * excess[order]) @ weighted.T).sum(axis=1)
        violating.append(vectors[:, order] / roots[:, None])
    return z + added, (violating[0], violating[1])


def operations(instance: Instance, tol: float) -> float:
    """Estimate the floating-point operations of a solve; infinity if the method is unsuitable for the instance."""
    if COLUMNS not in instance.map.offers:
        return math.inf
    n, N, columns = instance.map.n_rows, instance.size, min(instance.size, _COLUMNS)
    products = _COARSE_PRODUCTS if tol >= SMALL and n <= _FEW_SAMPLES * N else _PRODUCTS
    each = TYPICAL_STEPS * EIGEN * N**3 + products * 4.0 * N * (2.0 * n + N) * columns
    return each * instance.n_matrices


def unfit(loss: Loss) -> str | None:
    """Return the property that a loss lacks for this method, or None.

    At an optimum of a loss with kinks, many predictions lie at kinks, where second derivatives do not help.
    """
    return None if loss.has_curvature else "second derivatives (`curvature`)"


def solve_low_rank(instance: Instance, settings: Settings) -> RawSolution:
    """Solve a normalised instance by the low-rank method; see `solve_parts` for the arguments.

    Iterations are Newton steps of one output. The solve ends after
    about `effort` floating-point operations, or half of them if a quarter of the time limit has passed; an output may
    use twice its equal part of the remaining operations. If one needs more, the others are not solved either.
    """
    effort = settings.effort

    def prepare(small: Instance) -> SolvePart:
        deadline.check()
        data = ObjectiveData(small.map, small.fit.weights)

        def solve(k: int, part: Instance, part_settings: Settings) -> RawSolution:
            nonlocal effort
            fraction = min(1.0, 2.0 / (len(small.parts) - k))
            end = data.operations + fraction * (effort - data.operations)

            def spent() -> bool:
                late = whole.elapsed > FIRST_TRY * whole.limit
                return data.operations >= (min(end, 0.5 * effort) if late else end)

            with deadline.after(None, interrupted=spent):
                raw = _solve_part(data, part, part_settings)
            if spent() and raw.status != "optimal":
                effort = data.operations
            return raw

        return solve

    with deadline.within(deadline.left()) as whole:
        return solve_parts(instance, settings.limited(_MAX_ITERATIONS), prepare)


def _solve_part(data: ObjectiveData, instance: Instance, settings: Settings) -> RawSolution:
    evaluation = CachedEvaluation(instance, data)
    incumbent = Incumbent(evaluation, settings)
    status, start = incumbent.stop(0), settings.start
    if status is None:
        try:
            if start is not None and start.Z is not None and start.V is not None:
                # Solutions of other methods have full rank, mostly because of their errors.
                fraction = min(INNER * settings.tol, INNER)
                factors = factors_of(start.V + start.Z, start.V - start.Z, fraction)
            else:
                factors = _along_gradient(evaluation, data)
            objective = Objective(data, instance.fit, instance.dual_radius)
            status = follow(objective, factors, incumbent, evaluation, settings.tol)
        except tuple(STOPS) as error:
            status = STOPS[type(error)]
    return incumbent.solution(status)


def _along_gradient(evaluation: CachedEvaluation, data: ObjectiveData) -> Factors:
    dual = evaluation.nu(evaluation.instance.zero_dual)
    M, columns = evaluation.adjoints(dual), evaluation.instance.duals_of_matrices(dual)

    def scaled(k: int, scales: FloatArray) -> tuple[FloatArray, FloatArray]:
        return decomposed(data.map, M[k], columns[k], scales)

    return cold_factors(M, scaled, np.random.default_rng(0))
