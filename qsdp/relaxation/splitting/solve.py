r"""The splitting of the relaxation into two half-size blocks, and its iteration.

With A = V + Z, B = V - Z the relaxation is

.. math::

    \min\; \ell(\mathcal{A}(A - B), y) + c \sum_k r_k \quad\text{s.t.}\quad
    A_k, B_k \succeq 0,\; \mathrm{diag}(A_k + B_k) = r_k \mathbf 1 .

The alternating direction method of multipliers (Boyd et al. 2011) puts loss and diagonals in one block and the two
cones in the other. The first decouples into a ridge system in T = A - B, see `data_step`, and a closed form for the
diagonal of S = A + B; the second is one eigendecomposition each. A loss other than the squared one gets a copy of the
predictions in the second block, where it is solved by its prox.

What the method needs to converge at default settings is a *metric*: every coordinate j is scaled by

.. math:: \delta_j = (2 z_j / r)^{1/4},

z being the multipliers of the diagonals. In these coordinates a primal and a dual solution have the same size, row by
row; it is what the scaling of interior-point methods becomes when it is confined to diagonal matrices. Scale and shape
of the metric are estimated from the iterates a few times, at geometrically growing distances.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import scipy.linalg

from qsdp._validation import FloatArray
from qsdp.lifting import QuadraticMap
from qsdp.relaxation.evaluation import DirectEvaluation, Evaluation, GramEvaluation
from qsdp.relaxation.incumbent import Incumbent, Limits
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.reductions import Reductions
from qsdp.relaxation.solution import RawSolution
from qsdp.relaxation.splitting.data_step import (
    DataStep,
    GramStep,
    IterativeStep,
    KernelStep,
    choose_step,
    forward,
    gram_in_basis,
)

__all__ = ["solve_splitting"]

_RELAXATION = 1.7

#: First iteration after which the metric is renewed, and how the distance to the next renewal grows.
_FIRST, _GROWTH = 5, 0.5

#: Smallest weight z, as a share of their mean, that shapes the metric.
_SMALLEST_WEIGHT = 1e-2

#: Changes of the metric below this factor are not worth a factorisation.
_WORTHWHILE = 1.1


def solve_splitting(
    instance: Instance,
    limits: Limits,
    start: RawSolution | None = None,
    reductions: Reductions | None = None,
    *,
    step: str = "auto",
) -> RawSolution:
    """Minimise the relaxation's objective; stop at a certified relative gap.

    Parameters
    ----------
    instance : Instance
        Normalised.
    limits : Limits
    start : RawSolution, optional
        Solution of a neighbouring instance, in this instance's units.
    reductions : Reductions, optional
        Kept from solves with the same data.
    step : {"auto", "kernel", "gram", "iterative"}, default="auto"
        See `data_step`.

    Returns
    -------
    RawSolution
        The best point and the best dual vector met, also after KeyboardInterrupt.
    """
    data = instance.map
    assert isinstance(data, QuadraticMap)
    began = time.perf_counter()
    data_step, evaluation = _ways(instance, choose_step(instance) if step == "auto" else step, reductions)
    iteration = _Iteration(instance, data_step, evaluation, start)
    spent = time.perf_counter() - began
    if limits.time_limit is not None:
        limits = replace(limits, time_limit=max(0.0, limits.time_limit - spent))
    incumbent = Incumbent(evaluation, limits)
    status = incumbent.stop(0)
    k = 0
    try:
        while status is None:
            k += 1
            iteration.advance()
            if k % _check_distance(k) == 0 or k == limits.max_iter:
                iteration.offer(incumbent)
                status = incumbent.stop(k)
            if status is None and iteration.renewal_due(k):
                iteration.renew()
    except KeyboardInterrupt:
        status = "interrupted"
    solution = incumbent.solution(str(status))
    return replace(solution, timings={"compile": spent, **solution.timings})


def _check_distance(k: int) -> int:
    return 5 if k < 100 else 10 if k < 500 else 25


def _ways(instance: Instance, step: str, reductions: Reductions | None) -> tuple[DataStep, Evaluation]:
    data = instance.map
    assert isinstance(data, QuadraticMap)
    if step == "kernel":
        return KernelStep(data), DirectEvaluation(instance)
    if step == "iterative":
        return IterativeStep(data), DirectEvaluation(instance)
    targets = instance.target if instance.target.ndim == 2 else instance.target[:, None]
    gram, products = gram_in_basis(data, targets, reductions)
    if instance.loss.name != "squared":
        return GramStep(data, gram), DirectEvaluation(instance)
    return GramStep(data, gram, products), GramEvaluation(instance, gram, products)


class _Iteration:
    """The iterates, in the metric's coordinates."""

    def __init__(self, instance: Instance, step: DataStep, evaluation: Evaluation, start: RawSolution | None) -> None:
        data = instance.map
        assert isinstance(data, QuadraticMap)
        self._instance, self._data, self._step = instance, data, step
        self._evaluation = evaluation
        self._squared = instance.loss.name == "squared"
        self._target = instance.target if instance.target.ndim == 2 else instance.target[:, None]
        shape = (instance.n_blocks, instance.size, instance.size)
        self.A, self.B = np.zeros(shape), np.zeros(shape)
        # Scaled multipliers of A and B; minus them are the dual matrices Diag(z) -+ M.
        self._UA, self._UB = np.zeros(shape), np.zeros(shape)
        self._T, self._z = np.zeros(shape), np.zeros(shape[:2])
        self._p = np.zeros_like(self._target)
        self._u = np.zeros_like(self._target)
        self._predictions: FloatArray | None = None
        self._next, self._count = _FIRST, 0
        z, r, w = self._guess()
        if start is not None:
            z, r, w = self._start_from(start, z, r, w)
        self._set_metric(_scales(z, r), w)

    # -- start ---------------------------------------------------------------------------------------

    def _guess(self) -> tuple[FloatArray, float, float]:
        """Return typical weights of the diagonals, a typical r, and the weight of the predictions."""
        instance = self._instance
        nu = -instance.loss.gradient(np.zeros_like(instance.target), instance.target)
        M = instance.adjoints(nu)
        z = np.abs(M).sum(axis=(0, 2))
        z *= instance.capacity / (float(z.sum()) or 1.0)
        radii = np.array([_radius(matrix) for matrix in M])
        ray = self._evaluation.point(M)
        radius = np.array([radii.sum()]) if instance.loss.coupled else radii
        costs = instance.capacity * radius
        scales = ray.best(costs)
        if not self._squared:
            trials = 4.0 ** np.arange(-20, 8)
            values = np.array([ray.values(np.full(len(costs), s)) + s * costs for s in trials])
            scales = trials[values.argmin(axis=0)]
        r = float((scales * radius).sum()) / len(radii)
        # Half the second derivative for the squared loss; for others one that balances gradient and predictions.
        return z, r, 2.0 if self._squared else 0.25

    def _start_from(self, start: RawSolution, z: FloatArray, r: float, w: float) -> tuple[FloatArray, float, float]:
        if start.V is None or start.Z is None:
            return z, r, w
        self.A, self.B = start.V + start.Z, start.V - start.Z
        self._T = 2.0 * start.Z
        r = 2.0 * float(np.diagonal(start.V, axis1=1, axis2=2).mean())
        if start.nu is not None and start.z is not None:
            nu = np.reshape(start.nu, self._target.shape)
            weights = start.z * (self._instance.capacity / np.maximum(start.z.sum(axis=1, keepdims=True), 1e-300))
            M = np.stack([self._data.adjoint(column) for column in nu.T])
            diagonal = np.stack([np.diag(row) for row in weights])
            self._UA, self._UB = M - diagonal, -M - diagonal
            z = weights.mean(axis=0)
            if not self._squared:
                self._p = forward(self._data, self._T)
                w = _ratio(nu, self._p) or w
                self._u = -nu / w
        return z, r, w

    def _set_metric(self, delta: FloatArray, w: float) -> None:
        """Move the iterates, which stand in unscaled coordinates, into those of the metric."""
        outer = np.outer(delta, delta)
        self.A, self.B, self._T = self.A * outer, self.B * outer, self._T * outer
        self._UA, self._UB = self._UA / outer, self._UB / outer
        self._delta, self._outer, self._w = delta, outer, w
        self._step.prepare(delta, w)

    # -- one iteration -------------------------------------------------------------------------------

    def advance(self) -> None:
        """Do one iteration."""
        self._count += 1
        squares = self._delta**2
        A0, B0 = self.A - self._UA, self.B - self._UB
        q = self._target if self._squared else self._p - self._u
        T, self._predictions = self._step.solve(A0 - B0, q)
        S = A0 + B0
        diagonals = np.diagonal(S, axis1=1, axis2=2)
        r = (diagonals @ squares - 2.0 * self._instance.capacity) / float(squares @ squares)
        self._z = 0.5 * (diagonals - r[:, None] * squares) * squares
        index = np.arange(len(squares))
        S[:, index, index] = r[:, None] * squares
        # Over-relaxation, folded into the multipliers.
        kept = 1.0 - _RELAXATION
        half = 0.5 * _RELAXATION
        moved_A = half * (S + T) + kept * self.A + self._UA
        moved_B = half * (S - T) + kept * self.B + self._UB
        self.A, self._UA = _split(moved_A)
        self.B, self._UB = _split(moved_B)
        self._T = T
        if not self._squared:
            self._advance_predictions()

    def _advance_predictions(self) -> None:
        if self._predictions is None:
            self._predictions = forward(self._data, self._T / self._outer)
        moved = _RELAXATION * self._predictions + (1.0 - _RELAXATION) * self._p + self._u
        shape = self._instance.target.shape
        self._p = self._instance.loss.prox(moved.reshape(shape), self._instance.target, 1.0 / self._w).reshape(
            moved.shape
        )
        self._u = moved - self._p

    # -- what the iterates prove ---------------------------------------------------------------------

    def offer(self, incumbent: Incumbent) -> None:
        """Offer the point in the cones, and the dual vectors of the step through the data."""
        incumbent.offer_point(self.A / self._outer, self.B / self._outer)
        shape = self._instance.target.shape
        if not self._squared:
            incumbent.offer_dual((-self._w * self._u).reshape(shape), self._z)
        elif self._predictions is not None:
            incumbent.offer_dual((2.0 * (self._target - self._predictions)).reshape(shape), self._z)
        elif isinstance(self._evaluation, GramEvaluation):
            incumbent.offer_dual(self._T / self._outer, self._z)

    # -- the metric ----------------------------------------------------------------------------------

    def renewal_due(self, k: int) -> bool:
        """Whether the metric is to be estimated again after iteration k."""
        if k < self._next:
            return False
        self._next = k + max(_FIRST, int(_GROWTH * k))
        return True

    def renew(self) -> None:
        """Estimate the metric from the iterates, and change it where that pays."""
        level = _ratio((self._UA, self._UB), (self.A, self.B))
        z = self._z.mean(axis=0)
        w = self._w
        if not self._squared:
            w *= np.clip(_ratio(self._u, self._p) or 1.0, 1e-2, 1e2)
        if not level or not np.any(z > 0.0):
            return
        shape = _shape(z)
        delta = shape * float(np.exp(np.log(self._delta).mean())) * level**0.25
        change = np.abs(np.log(delta / self._delta)).max()
        if max(change, 0.25 * abs(np.log(w / self._w))) < np.log(_WORTHWHILE):
            return
        self.A, self.B, self._T = self.A / self._outer, self.B / self._outer, self._T / self._outer
        self._UA, self._UB = self._UA * self._outer, self._UB * self._outer
        self._u *= self._w / w
        self._set_metric(delta, w)


def _split(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the positive and the negative semidefinite parts, whose sum is the argument."""
    positive = np.empty_like(matrices)
    for k, matrix in enumerate(matrices):
        values, vectors = scipy.linalg.eigh(matrix, check_finite=False)
        first = int(np.searchsorted(values, 0.0))
        # The smaller of the two products.
        if 2 * first > len(values):
            root = vectors[:, first:] * np.sqrt(values[first:])
            positive[k] = root @ root.T
        else:
            root = vectors[:, :first] * np.sqrt(-values[:first])
            positive[k] = matrix + root @ root.T
    return positive, matrices - positive


def _radius(M: FloatArray) -> float:
    """Return the largest diagonal entry of the absolute value of a symmetric matrix."""
    values, vectors = scipy.linalg.eigh(M, check_finite=False)
    return float(((vectors * np.abs(values)) * vectors).sum(axis=1).max())


def _scales(z: FloatArray, r: float) -> FloatArray:
    """Return the metric for weights z and diagonal r."""
    mean = float(np.maximum(z, 0.0).mean())
    if not (mean > 0.0 and r > 0.0):
        return np.ones_like(z)
    delta: FloatArray = (2.0 * np.maximum(z, _SMALLEST_WEIGHT * mean) / r) ** 0.25
    return delta


def _shape(z: FloatArray) -> FloatArray:
    logs = np.log(np.maximum(z, _SMALLEST_WEIGHT * float(np.maximum(z, 0.0).mean())))
    shape: FloatArray = np.exp(0.25 * (logs - logs.mean()))
    return shape


def _ratio(numerator: FloatArray | tuple[FloatArray, ...], denominator: FloatArray | tuple[FloatArray, ...]) -> float:
    """Return the ratio of the norms, and 0 where one vanishes or is not finite."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.sqrt(sum(np.vdot(a, a) for a in _all(numerator)) / sum(np.vdot(a, a) for a in _all(denominator)))
    return float(ratio) if np.isfinite(ratio) else 0.0


def _all(arrays: FloatArray | tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
    return arrays if isinstance(arrays, tuple) else (arrays,)
