r"""Operator splitting (ADMM) for the relaxation with two half-size matrices.

With A = V + Z and B = V - Z, the relaxation is

.. math::

    \min\; \ell(\mathcal{A}(A - B), y) + c \sum_k r_k \quad\text{s.t.}\quad
    A_k, B_k \succeq 0,\; \mathrm{diag}(A_k + B_k) = r_k \mathbf 1 .

The alternating direction method of multipliers (Boyd et al. 2011) puts the loss and the diagonals in one block and the
two cones in the other. The first block decouples into a ridge system in T = A - B (see `data_step`) and a closed form
for the diagonal of S = A + B. The second takes one eigendecomposition per cone. A loss other than the squared loss has
a copy of the predictions in the second block, which is updated by the prox of the loss.

To converge at default settings, the method needs a *metric*: every coordinate j is scaled by

.. math:: \delta_j = (2 z_j / r)^{1/4},

where z are the multipliers of the diagonals, and real weights by a common :math:`\sigma`. Their :math:`\ell_1`
penalty is in the second block, where its prox is a soft threshold. In these coordinates a primal and a dual solution
have the same size, row by row. The metric is the scaling of interior-point methods restricted to diagonal matrices. Its
scale and shape are estimated from the iterates a few times, at geometrically growing intervals. Between two estimates
the iteration applies one fixed map, and Anderson acceleration saves up to half of its steps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.parallel import CACHE_FLOATS, few_threads
from qsdp._utils.symmetric import positive_part
from qsdp._utils.tuning import (
    FAR,
    HALVINGS,
    INNER,
    MANY_ROWS,
    MANY_STEPS,
    MAX_SIDE,
    MAX_STEPS,
    MODERATE,
    NEGLIGIBLE,
    PATIENCE,
    PROGRESS,
)
from qsdp._utils.validation import FloatArray
from qsdp.gram import Gram, SharedGram, to_vectors
from qsdp.lifting import QuadraticMap
from qsdp.relaxation.evaluation import DirectEvaluation, Evaluation, GramEvaluation
from qsdp.relaxation.incumbent import STOPS, Incumbent, zero_solution
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution, Settings
from qsdp.relaxation.solvers.splitting.acceleration import Anderson
from qsdp.relaxation.solvers.splitting.data_step import (
    SOONEST,
    DataStep,
    GramStep,
    IterativeStep,
    KernelStep,
    Outputs,
    choose_step,
    fits,
    forward,
    outer,
    precision,
)

__all__ = ["first_scales", "norm_ratio", "shape_of", "solve_splitting"]

#: Over-relaxation, between 0 and 2.
_RELAXATION = 1.7

#: Iterations of all outputs in a common metric, relative to the side of its factorisation. With a metric of its own,
#: every output needs several factorisations, each of which takes as long as side / 500 iterations of ten outputs.
_TOGETHER = 0.04

#: Creates a data step and the evaluation that shares its products.
_Maker = Callable[[], tuple[DataStep, Evaluation]]


def solve_splitting(instance: Instance, settings: Settings, *, step: str = "auto") -> RawSolution:
    """Solve a normalised instance by operator splitting, all outputs together, and return the best certified pair.

    The torch device computes the Gram matrix of the step "gram". See `data_step` for the steps.
    """
    began = time.perf_counter()
    incumbent: Incumbent | None = None
    spent, start, settings = 0.0, settings.start, settings.limited(MANY_STEPS)
    try:
        name = choose_step(instance, settings.tol) if step == "auto" else step
        dtype = precision(name, instance, settings.tol)
        data_step, evaluation = _make_steps(instance, name, dtype, settings.gram, settings.device)
        if dtype == np.float32:
            settings = replace(settings, tol=PROGRESS * settings.tol)
        # The search for weights costs little compared with iterations with large systems.
        incumbent = Incumbent(evaluation, settings, distance=2 if data_step.side >= MANY_ROWS else PATIENCE)
        # The first factorisation follows.
        deadline.check()
        iteration = _Iteration(instance, data_step, evaluation, start)
        del data_step, evaluation
        spent = time.perf_counter() - began
        doubled: _Maker | None = None
        if dtype == np.float32 and fits(name, instance, np.float64):
            doubled = partial(_make_steps, instance, name, np.float64, settings.gram, settings.device)
        status = _run(iteration, incumbent, settings, doubled)
    except tuple(STOPS) as error:
        status = STOPS[type(error)]
    if incumbent is None:
        # The weights of the start belong to another dual vector.
        return zero_solution(instance, status) if start is None else replace(start, z=None, status=status)
    solution = incumbent.solution(status)
    return replace(solution, timings={"compile": spent, **solution.timings})


def _run(iteration: _Iteration, incumbent: Incumbent, settings: Settings, doubled: _Maker | None) -> str:
    """Iterate until the tolerance or a limit is reached, and return the status.

    At first all outputs share a metric and its factorisations. Outputs that converge slowly in it are restarted, each
    in its own metric. `doubled` makes the data step in double precision if the first one is in single precision, whose
    rounding errors may keep the gap from closing: outputs that converge slowly continue in double precision first.
    """
    if (status := incumbent.stop(0)) is not None:
        return status
    assert settings.max_iter is not None
    max_iter = settings.max_iter
    together = max(MAX_STEPS, int(_TOGETHER * iteration.side)) if incumbent.n_parts > 1 else max_iter
    k, status = _iterate(iteration, incumbent, settings, 0, together if doubled is None else MAX_STEPS)
    if status is None and doubled is not None:
        incumbent.evaluation.free()
        incumbent.evaluation = iteration.adopt(doubled)
        k, status = _iterate(iteration, incumbent, settings, k, max(together, k + MAX_STEPS))
    while status is None:
        slow = np.flatnonzero(incumbent.gaps > settings.tol)
        iteration.begin(slow[:1])
        k, status = _iterate(iteration, incumbent, settings, k, k + max(MAX_STEPS, (max_iter - k) // len(slow)))
    return status


def _iterate(
    iteration: _Iteration, incumbent: Incumbent, settings: Settings, k: int, last: int
) -> tuple[int, str | None]:
    """Run iterations k + 1 to `last`, or until the active outputs are certified; return the count and the status."""
    first = due = k
    while k < last:
        k += 1
        iteration.advance()
        if k > due or k == settings.max_iter or deadline.over():
            # Later iterations change less.
            due = k + max(3, math.isqrt(k - first))
            iteration.offer(incumbent)
            if (status := incumbent.stop(k)) is not None:
                return k, status
            if incumbent.n_parts > 1 and not iteration.keep(incumbent.gaps > settings.tol):
                return k, None
        iteration.renew_if_due()
    return k, None


def _make_steps(
    instance: Instance,
    step: str,
    dtype: npt.DTypeLike,
    shared: SharedGram | None,
    device: str | None,
) -> tuple[DataStep, Evaluation]:
    """Create the data step `step` and the evaluation that shares its products."""
    data = instance.map
    weights = instance.fit.weights
    if step == "kernel":
        return KernelStep(data, weights, dtype), DirectEvaluation(instance)
    if step == "iterative":
        return IterativeStep(cast(QuadraticMap, data), weights), DirectEvaluation(instance)
    gram, products = (shared or Gram).from_map(data, instance.target, weights, dtype, device).into_basis()
    if not instance.fit.quadratic:
        return GramStep(data, gram, None, weights), DirectEvaluation(instance)
    return GramStep(data, gram, products), GramEvaluation(instance, gram, products)


class _Iteration:
    """Iterates of the splitting, in the coordinates of the metric: stacks of shape (C, R, N, N)."""

    def __init__(
        self,
        instance: Instance,
        step: DataStep,
        evaluation: Evaluation,
        start: RawSolution | None,
    ) -> None:
        self._instance, self._data, self._step = instance, instance.map, step
        self._evaluation = evaluation
        self._squared = instance.fit.quadratic
        self._target = instance.target
        #: Sample weights that broadcast with predictions (n, C). They weight both the loss and the penalty.
        self._weights = np.ones((1, 1)) if instance.fit.weights is None else instance.fit.weights[:, None]
        self._roots = np.sqrt(self._weights)
        self._predictions: FloatArray | None = None
        layout = instance.map.layout
        #: Mask of shape (R, N) of the coordinates, and whether each block is a vector.
        self._used, self._linear = layout.used, np.array(layout.linear, dtype=bool)
        self._shape = (instance.target.shape[1], layout.n_blocks, instance.size, instance.size)
        self.begin(np.arange(instance.target.shape[1]), start)

    @property
    def side(self) -> int:
        """Side of the matrix that every metric factors; 0 if there is none."""
        return self._step.side

    # -- start ---------------------------------------------------------------------------------------

    def begin(self, outputs: Outputs, start: RawSolution | None = None) -> None:
        """Initialise these outputs, and make them the active ones, from zero or from a warm start."""
        shape = self._shape
        self.A, self.B, self._T = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        # Scaled multipliers of A and B: the negatives of the dual matrices Diag(z) -+ M.
        self._UA, self._UB, self._z = np.zeros(shape), np.zeros(shape), np.zeros(shape[:3])
        self._p, self._u = np.zeros_like(self._target), np.zeros_like(self._target)
        # Real weights after the data step and after the soft threshold, and their scaled multiplier.
        self._s, self._x, self._ux = (self._instance.no_weights for _ in range(3))
        # Outputs that are not certified yet; the others are not updated.
        self._active = outputs
        self._count, self._next = 0, 10 if self._costly else SOONEST
        z, r, w, size = self._guess()
        if start is not None:
            z, r, w = self._start_from(start, z, r, w)
            size = float(np.abs(self._x).max(initial=0.0)) or size
        sigma = math.sqrt(2.0 * self._instance.dual_radius / size) if size > 0.0 else 1.0
        self._set_metric(first_scales(z[self._used], r, 1.0 / self._next**2), w, min(max(sigma, 1e-60), 1e60))

    def _guess(self) -> tuple[FloatArray, float, float, float]:
        """Estimate weights (R, N) of the diagonals, r, the weight of the predictions, and the size of real weights."""
        instance = self._instance
        active = self._active
        M, m = instance.map.pull(instance.zero_dual)
        z = np.abs(M.reshape(self._shape)[active]).sum(axis=(0, 3))
        sums = z.sum(axis=1, keepdims=True)
        z *= instance.dual_radius / np.where(sums > 0.0, sums, 1.0)
        radii = np.array([_radius(matrix) for matrix in M]).reshape(self._shape[:2])
        ray = self._evaluation.point(M, m)
        # Coupled outputs have one value together.
        n_parts, sums = instance.fit.n_parts, radii.sum(axis=1) + np.abs(m).sum(axis=1)
        costs, parts = instance.dual_radius * sums.reshape(n_parts, -1).sum(axis=1), np.unique(active % n_parts)
        scales = ray.best(costs)
        if not self._squared:
            trials = np.geomspace(NEGLIGIBLE, MODERATE, HALVINGS)
            values = np.array([ray.values(np.full(len(costs), s)) + s * costs for s in trials])
            scales = trials[values.argmin(axis=0)]
        rs, sizes = scales[:, None] * radii, scales[:, None] * np.abs(m)
        r = float(rs[active].mean()) if rs.size else 0.0
        size = float(sizes[active].max(axis=1).mean()) if sizes.size else 0.0
        at_zero = float(ray.values(np.zeros(len(costs)))[parts].sum())
        along = float((ray.values(scales) + scales * costs)[parts].sum())
        if not along < at_zero:
            # No decrease along the gradient. The objective at zero bounds the optimal r: guess a tenth of this bound.
            r = size = INNER * at_zero / ((instance.dual_radius or 1.0) * len(active))
        # The second derivative of the squared loss; for other losses a weight that balances gradient and predictions.
        return z, r, 2.0 if self._squared else 0.25, size

    def _start_from(self, start: RawSolution, z: FloatArray, r: float, w: float) -> tuple[FloatArray, float, float]:
        if start.V is None or start.Z is None:
            return z, r, w
        V, Z = start.V.reshape(self._shape), start.Z.reshape(self._shape)
        self.A, self.B = V + Z, V - Z
        self._T = 2.0 * Z
        if start.weights is not None:
            self._x, self._s = start.weights, start.weights
        if V.size:
            r = 2.0 * float(np.diagonal(V, axis1=2, axis2=3)[:, self._used].mean())
        if start.nu is not None and start.z is not None:
            nu = start.nu
            weights = start.z.reshape(self._shape[:3]) * self._used
            weights *= self._instance.dual_radius / np.maximum(weights.sum(axis=2, keepdims=True), 1e-300)
            M, m = self._data.pull(nu)
            M, self._ux = M.reshape(self._shape), 2.0 * m
            diagonal = weights[..., None] * np.eye(self._shape[-1])
            self._UA, self._UB = M - diagonal, -M - diagonal
            z = weights.mean(axis=0)
            if not self._squared:
                self._p = forward(self._data, self._T, self._s)
                w = norm_ratio([nu / self._roots], [self._roots * self._p]) or w
                self._u = -nu / (w * self._weights)
        return z, r, w

    def _set_metric(self, delta: FloatArray, w: float, sigma: float) -> None:
        """Transform the iterates from unscaled coordinates to those of the metric `delta` of the used coordinates.

        The scale of real weights is `sigma`.
        """
        self._delta, self._w, self._sigma = delta, w, sigma
        scales = self._prepare()
        factors = outer(scales)
        self.A, self.B, self._T = self.A * factors, self.B * factors, self._T * factors
        self._UA, self._UB = self._UA / factors, self._UB / factors
        self._s, self._x, self._ux = self._s * sigma, self._x * sigma, self._ux / sigma
        self._outer, self._squares = factors, scales**2 * self._used

    def adopt(self, maker: _Maker) -> Evaluation:
        """Continue with the data step that `maker` creates, and return its evaluation."""
        # Free the memory of its factor first.
        del self._step, self._evaluation
        self._step, self._evaluation = maker()
        self._prepare()
        return self._evaluation

    def _prepare(self) -> FloatArray:
        """Prepare the data step and the acceleration for the current metric, and return the scales of coordinates."""
        scales = np.ones(self._used.shape)
        scales[self._used] = self._delta
        self._acceleration = Anderson()
        self._step.prepare(scales, self._w, self._sigma)
        return scales

    # -- one iteration -------------------------------------------------------------------------------

    def advance(self) -> None:
        """Advance all active outputs by one iteration of operator splitting."""
        self._count += 1
        active = self._active
        squares = self._squares
        A, B, UA, UB = self.A[active], self.B[active], self._UA[active], self._UB[active]
        A0, B0 = A - UA, B - UB
        q = self._target[:, active] if self._squared else self._p[:, active] - self._u[:, active]
        x, ux = self._x[active], self._ux[active]
        T, s, predictions = self._step.solve(A0 - B0, x - ux, q, active)
        S = A0 + B0
        diagonals = np.diagonal(S, axis1=2, axis2=3)
        r = ((diagonals * squares).sum(axis=2) - 2.0 * self._instance.dual_radius) / np.square(squares).sum(axis=1)
        self._z[active] = 0.5 * (diagonals - r[:, :, None] * squares) * squares
        index = np.arange(squares.shape[1])
        S[:, :, index, index] = r[:, :, None] * squares
        # Over-relaxation, included in the multipliers.
        rest = 1.0 - _RELAXATION
        half = 0.5 * _RELAXATION
        images = [half * (S + T) + rest * A + UA, half * (S - T) + rest * B + UB]
        points = [A + UA, B + UB]
        if x.size:
            images.append(_RELAXATION * s + rest * x + ux)
            points.append(x + ux)
        if not self._squared:
            moved = predictions
            if moved is None:
                moved = forward(self._step.passes, T / self._outer, s / self._sigma)
            images.append(self._roots * (_RELAXATION * moved + rest * self._p[:, active] + self._u[:, active]))
            points.append(self._roots * (self._p[:, active] + self._u[:, active]))
        moved_A, moved_B, *moved_others = self._accelerated(images, points)
        # The threads of the factorisation and its solves slow down small decompositions.
        with few_threads(small=len(index) ** 2 <= CACHE_FLOATS and self._step.side >= MANY_ROWS):
            self.A[active], self._UA[active] = self._split(moved_A)
            self.B[active], self._UB[active] = self._split(moved_B)
        if x.size:
            moved_x, threshold = moved_others[0], 2.0 * self._instance.dual_radius / self._sigma
            self._ux[active] = np.clip(moved_x, -threshold, threshold)
            self._x[active] = moved_x - self._ux[active]
        if not self._squared:
            self._p[:, active], self._u[:, active] = self._prox(moved_others[-1] / self._roots)
        self._T[active], self._s[active] = T, s
        if predictions is not None:
            self._predictions = self._predictions if self._predictions is not None else np.zeros_like(self._target)
            self._predictions[:, active] = predictions

    def _accelerated(self, images: list[FloatArray], points: list[FloatArray]) -> list[FloatArray]:
        image = np.concatenate([array.ravel() for array in images])
        residual = image - np.concatenate([array.ravel() for array in points])
        moved = self._acceleration.extrapolate(image, residual)
        ends = np.cumsum([array.size for array in images])
        return [part.reshape(array.shape) for part, array in zip(np.split(moved, ends[:-1]), images, strict=True)]

    def _split(self, stack: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Split each matrix into its positive and its negative semidefinite part."""
        # The matrices of linear blocks are diagonal.
        positive = np.maximum(stack, 0.0)
        curved = ~self._linear
        positive[:, curved] = positive_part(stack[:, curved])
        return positive, stack - positive

    def _prox(self, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the copy of the predictions and its multiplier; the weights of loss and penalty cancel."""
        p = self._instance.loss.prox(moved, self._target[:, self._active], 1.0 / self._w)
        return p, moved - p

    def keep(self, wanted: npt.NDArray[np.bool_]) -> bool:
        """Restrict the active outputs to a mask of shape (C,), and return whether any output remains."""
        left = self._active[wanted[self._active]]
        if 0 < len(left) < len(self._active):
            self._active, self._acceleration = left, Anderson()
        return len(left) > 0

    # -- certificates --------------------------------------------------------------------------------

    def offer(self, incumbent: Incumbent) -> None:
        """Offer the point in the cones and the dual vector of the data step to the incumbent."""
        shape = (self._instance.n_matrices, *self._shape[2:])
        A, B, T = ((M / self._outer).reshape(shape) for M in (self.A, self.B, self._T))
        incumbent.offer_point(A, B, self._x / self._sigma)
        z = self._z.reshape(shape[:2])
        if not self._squared:
            incumbent.offer_dual(-self._w * self._weights * self._u, z)
        elif self._predictions is not None:
            incumbent.offer_dual(-self._instance.fit.gradient(self._predictions), z)
        elif isinstance(self._evaluation, GramEvaluation):
            incumbent.offer_dual(to_vectors(T, self._data.layout, self._s / self._sigma), z)

    # -- the metric ----------------------------------------------------------------------------------

    def renew_if_due(self) -> None:
        """Update the metric if an update is due; the intervals grow."""
        if self._count >= self._next:
            self._next = (3 if self._costly else 2) * self._count
            self.renew()

    @property
    def _costly(self) -> bool:
        """Whether a factorisation takes ten seconds, and so as long as tens of iterations."""
        return self.side > 2 * MAX_SIDE

    def renew(self) -> None:
        """Estimate the metric from the iterates, and adopt it if it differs enough to justify a factorisation."""
        active = self._active
        level = norm_ratio([self._UA[active], self._UB[active]], [self.A[active], self.B[active]])
        # Where all real weights are zero, those before the soft threshold show their scale.
        ratio = norm_ratio([self._ux[active]], [self._x[active]]) or norm_ratio([self._ux[active]], [self._s[active]])
        sigma = self._sigma * math.sqrt(np.clip(ratio or 1.0, 1.0 / FAR, FAR))
        # The diagonals of the dual matrices estimate z, and they are never negative.
        duals = np.diagonal(self._UA[active] + self._UB[active], axis1=2, axis2=3)
        z = -0.5 * duals.mean(axis=0)[self._used] * self._delta**2
        w = self._w
        if not self._squared:
            w *= np.clip(
                norm_ratio([self._roots * self._u[:, active]], [self._roots * self._p[:, active]]) or 1.0,
                1.0 / FAR,
                FAR,
            )
        delta, change = self._delta, 0.0
        if len(z):
            if not level or not np.any(z > 0.0):
                return
            # Early weights are noise, so small ones are raised, less and less, and for longer if updates are rare.
            shape = shape_of(z, 1.0 / self._count ** (1 if self._costly else 2))
            delta = shape * float(np.exp(np.log(self._delta).mean())) * level**0.25
            # A change in few coordinates is not worth a factorisation.
            change = float(np.sqrt(np.mean(np.log(delta / self._delta) ** 2)))
        others = 0.25 * abs(np.log(w / self._w)), 0.5 * abs(np.log(sigma / self._sigma))
        if max(change, *others) < np.log1p(INNER):
            return
        self.A, self.B, self._T = self.A / self._outer, self.B / self._outer, self._T / self._outer
        self._UA, self._UB = self._UA * self._outer, self._UB * self._outer
        self._s, self._x, self._ux = self._s / self._sigma, self._x / self._sigma, self._ux * self._sigma
        self._u *= self._w / w
        self._set_metric(delta, w, sigma)


def _radius(M: FloatArray) -> float:
    """Compute the largest diagonal entry of the absolute value of a symmetric matrix."""
    return float((2.0 * positive_part(M) - M).diagonal().max())


def first_scales(z: FloatArray, r: float, floor: float) -> FloatArray:
    """Compute the metric for weights z, raised to at least the fraction `floor` of their mean, and a diagonal r."""
    mean = float(np.maximum(z, 0.0).mean()) if z.size else 0.0
    if not (mean > 0.0 and r > 0.0):
        return np.ones_like(z)
    with np.errstate(over="ignore"):
        delta: FloatArray = (2.0 * np.maximum(z, floor * mean) / r) ** 0.25
    return np.clip(delta, 1e-60, 1e60)


def shape_of(z: FloatArray, floor: float) -> FloatArray:
    """Compute the metric, up to a factor, for weights z, raised to at least the fraction `floor` of their mean."""
    logs = np.log(np.maximum(z, floor * float(np.maximum(z, 0.0).mean())))
    shape: FloatArray = np.exp(0.25 * (logs - logs.mean()))
    return shape


def norm_ratio(numerators: Sequence[FloatArray], denominators: Sequence[FloatArray]) -> float:
    """Compute the ratio of the norms of stacked arrays; 0 if it vanishes or is not finite."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.sqrt(sum(np.vdot(a, a) for a in numerators) / sum(np.vdot(a, a) for a in denominators))
    return float(ratio) if np.isfinite(ratio) else 0.0
