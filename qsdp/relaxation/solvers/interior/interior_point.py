r"""Solve one output after the other by the interior-point method, from a cold start at zero or from a warm start.

At the zero point the dual vector is :math:`\nu_0 = -\nabla \ell(0)`. The cold start uses a multiple of it that lies
well inside the feasible set, multiples of the identity for A and B, and equal weights. In a coarse solve, the weights
lie between equal weights and the absolute row sums of the dual matrix. A warm start is a convex combination of the cold
start and the initial point; the cold part keeps it off the boundary, where steps would be short.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import HALF_DIGITS, ROUNDING
from qsdp._utils.tuning import EIGEN, FAR, INNER, MAX_STEPS, ROUGH, SMALL, TYPICAL_STEPS
from qsdp._utils.validation import FloatArray
from qsdp.data_map import COLUMNS, SAMPLES, DataMap
from qsdp.gram import Gram, GramFactor, SharedGram, to_vectors
from qsdp.losses import DataFit
from qsdp.relaxation.evaluation import DirectEvaluation, Evaluation, GramEvaluation
from qsdp.relaxation.incumbent import STOPS, Incumbent, zero_solution
from qsdp.relaxation.instance import Instance, LinearInstance
from qsdp.relaxation.repair import repair
from qsdp.relaxation.scaled import RawSolution, Settings
from qsdp.relaxation.solvers.interior.coordinates import FormCoordinates, SampleCoordinates
from qsdp.relaxation.solvers.interior.fits import Fit, WeightedFit, fit_of
from qsdp.relaxation.solvers.interior.newton_system import CoupledNewton, Newton, PrimalNewton, SingleNewton
from qsdp.relaxation.solvers.interior.predictor_corrector import State, follow
from qsdp.relaxation.solvers.parts import SolvePart, solve_parts

__all__ = ["FactorCache", "NewtonSetup", "cold_start", "operations", "solve_interior", "takes_factor", "unsuited"]

#: Side of the largest linear system: it takes 0.8 GB, and each factorisation takes seconds.
_LARGEST = 10_000

#: Cold start: factor on the dual vector at zero; power of w, a further factor if the dual radius is the fraction w of
#: that which makes zero optimal; maximum of r relative to the r that fits the targets. Then the same for squared loss.
_START = (0.5, 0.5, 10.0)
_QUADRATIC_START = (0.8, 1.0, 4.0)


@dataclass(frozen=True)
class NewtonSetup:
    """Newton system of one output or of several coupled outputs, with conversions of its dual vectors."""

    newton: Newton
    evaluation: Evaluation
    #: Loss of the predictions in these coordinates.
    fit: DataFit
    #: Map the multiplier to a dual vector of the evaluation; map a dual vector in the target's shape to the multiplier.
    candidate: Callable[[FloatArray], FloatArray]
    multiplier: Callable[[FloatArray], FloatArray]

    def dominating(self, nu: FloatArray, M: FloatArray, z: FloatArray) -> FloatArray:
        """Compute `spectra.dominating` for the matrices M of a multiplier."""
        return self.evaluation.dominating(self.candidate(nu), M, z)


class FactorCache:
    """Coordinates common to all outputs: samples, or a factor of the Gram matrix if that is cheaper."""

    def __init__(self, instance: Instance, shared: SharedGram | None, device: str | None = None) -> None:
        data = instance.map
        self._layout, self._factor = data.layout, None
        if instance.fit.quadratic and takes_factor(data):
            gram = (shared or Gram).from_map(data, instance.target, instance.fit.weights, np.float64, device)
            self._gram, self._products = gram.into_basis()
            deadline.check()
            self._factor = factor = GramFactor(self._gram)
            single = data.n_blocks == 1 and not any(data.layout.linear) and not data.layout.weights
            rows = (factor.lower.T, factor.order) if single else (factor.rows,)
            self._coordinates: SampleCoordinates | FormCoordinates = FormCoordinates(data.layout, *rows)
        elif COLUMNS in data.offers:
            self._coordinates = SampleCoordinates(data)
        else:
            self._coordinates = FormCoordinates(data.layout, data.features())

    def setup(self, k: int, part: Instance) -> NewtonSetup:
        """Create the Newton system of output k."""
        if self._factor is None:
            newton = self._newton(part)
            return NewtonSetup(newton, DirectEvaluation(part), part.fit, np.transpose, np.transpose)
        layout, factor, products = self._layout, self._factor, self._products[:, [k]]
        targets = factor.targets(products)

        def packed(matrices: FloatArray, weights: FloatArray) -> FloatArray:
            return to_vectors(matrices, layout, weights)

        return NewtonSetup(
            SingleNewton(self._coordinates),
            GramEvaluation(part, self._gram, products),
            DataFit(part.loss, targets),
            lambda nu: factor.preimage(targets - 0.5 * nu.T),
            lambda nu: factor.targets(packed(*part.map.pull(nu))).T,
        )

    def _newton(self, part: Instance) -> Newton:
        if part.loss.coupled:
            return CoupledNewton(self._coordinates, part.target.shape[1])
        if not isinstance(self._coordinates, SampleCoordinates):
            return SingleNewton(self._coordinates)
        # It is less accurate for losses with kinks, so it must take at most a tenth of the other system's operations.
        affordable = self._coordinates.work * (1.0 if part.loss.smooth else INNER)
        is_cheaper = PrimalNewton.operations(self._coordinates) < affordable
        return PrimalNewton(self._coordinates) if is_cheaper else SingleNewton(self._coordinates)


# -- operation counts ---------------------------------------------------------------------------------------


def takes_factor(data: DataMap) -> bool:
    """Whether to use a factor of the Gram matrix instead of the samples, for a squared loss or statistics.

    The factor has at most p = N(N + 1)/2 rows, but its kernel takes two products of p x p matrices. The kernel of the
    samples costs very little compared with its Cholesky factorisation, so samples are cheaper up to nearly n = 2 p.
    """
    n, N, p = data.n_rows, data.size, data.layout.n_entries
    if SAMPLES not in data.offers:
        return True
    if n <= p or n > _LARGEST or data.n_blocks > 1 or data.layout.weights:
        return n > p
    return _factor_step(p) + float(n) * p * p / TYPICAL_STEPS < _samples_step(n, N)


def unsuited(instance: LinearInstance) -> str | None:
    """Return what of an instance the method does not support, or None."""
    return "blocks of real weights without any neurons" if not instance.map.n_blocks else None


def operations(instance: Instance, tol: float) -> float:
    """Estimate the number of floating-point operations of a solve; return infinity beyond the largest system."""
    data, N, (n, C) = instance.map, instance.size, (instance.map.n_rows, instance.target.shape[1])
    p = data.layout.n_entries
    coupled = C // instance.fit.n_parts
    # In several blocks, losses other than the squared one have the system of all samples.
    several = (data.n_blocks > 1 or bool(data.layout.weights)) and not instance.fit.quadratic
    if (n if several else min(n, p)) * coupled > _LARGEST:
        return math.inf
    # Count decompositions of N x N matrices, and passes over the data.
    step = (4.0 * EIGEN * N**3 * data.n_blocks + 4.0 * n * p) * coupled
    once: float = 0.0
    if instance.fit.quadratic and takes_factor(instance.map):
        once = float(n) * p * p
        step += _factor_step(p)
    elif several:
        step += 2.0 * n * n * p * coupled + _cholesky(n * coupled)
    elif n > p and not instance.fit.quadratic:
        step += float(n) * p * p * coupled + _cholesky(p * coupled)
    else:
        step += _samples_step(n, N, coupled)
    return float(once + TYPICAL_STEPS * step * (C / coupled))


def _factor_step(p: int) -> float:
    return 2.0 * float(p) ** 3 + _cholesky(p)


def _samples_step(n: int, N: int, coupled: int = 1) -> float:
    return 4.0 * n * n * N * coupled + _cholesky(n * coupled)


def _cholesky(side: int) -> float:
    """Return the operations of a Cholesky factorisation."""
    return side**3 / 3.0


def solve_interior(instance: Instance, settings: Settings) -> RawSolution:
    """Solve a normalised instance by the interior-point method; see `solve_parts` for the arguments."""

    def prepare(small: Instance) -> SolvePart:
        return partial(_solve_part, FactorCache(small, settings.gram, settings.device))

    return solve_parts(instance, settings.limited(MAX_STEPS), prepare)


def _solve_part(cache: FactorCache, k: int, part: Instance, settings: Settings) -> RawSolution:
    incumbent: Incumbent | None = None
    try:
        setup = cache.setup(k, part)
        incumbent = Incumbent(setup.evaluation, settings)
        status = _follow(part, setup, incumbent, settings.start)
    except tuple(STOPS) as error:
        status = STOPS[type(error)]
    return zero_solution(part, status) if incumbent is None else incumbent.solution(status)


def _follow(part: Instance, setup: NewtonSetup, incumbent: Incumbent, previous: RawSolution | None) -> str:
    """Follow the central path from a warm or a cold start, unless the zero point is optimal."""
    newton = setup.newton
    nu = setup.fit.zero_dual.T
    M, ones = newton.adjoint(nu), np.ones((part.n_matrices, part.size))
    real = nu @ newton.coordinates.columns
    # Real weights count like entries of a diagonal, so that equal weights z of this sum bound them, too.
    radius = max(float(setup.dominating(nu, M, ones).max()), float(np.abs(real).max(initial=0.0)) / part.size)
    largest = part.size * radius
    if largest <= part.dual_radius:
        # The zero point is optimal, and its dual vector proves it.
        incumbent.offer_dual(setup.candidate(nu), ones)
        return incumbent.stop(0) or "stalled"
    # With a radius that underflowed to zero, there is no central path.
    dual_radius = part.dual_radius or ROUNDING * largest
    if not (dual_radius > 0.0 and np.isfinite(largest)):
        return "stalled"
    if deadline.over():
        # This dual vector proves a bound, while the starting point is no better than zero.
        incumbent.offer_dual(setup.candidate(nu), ones)
        return "time limit"
    z = radius * ones
    if incumbent.tol >= SMALL:
        weights = _weights_by_rows(M)
        z = max(float(setup.dominating(nu, M, weights).max()), float(np.abs(real).max(initial=0.0))) * weights
    start = cold_start(setup.fit, newton, nu, M, radius, z, dual_radius, incumbent.objective)
    if previous is not None and (warm := _warm(part, setup, incumbent, start, previous)) is not None:
        fit = _fit_at(setup, warm)
        fit.centre(newton.forward(warm.Y[:, 0] - warm.Y[:, 1]), _mean_product(newton, warm))
        reason = follow(newton, fit, State(warm.Y, warm.r, warm.z), dual_radius, incumbent, setup.candidate)
        if reason != "stalled":
            return reason
    fit = _fit_at(setup, start)
    return follow(newton, fit, State(start.Y, start.r, start.z), dual_radius, incumbent, setup.candidate)


def _fit_at(setup: NewtonSetup, start: Start) -> Fit:
    """Create the loss at a start, with its real weights if there are any."""
    fit, columns = fit_of(setup.fit, start.nu), setup.newton.coordinates.columns
    if not columns.size:
        return fit
    return WeightedFit(fit, columns, start.dual_radius, start.weights, _mean_product(setup.newton, start))


def _warm(part: Instance, setup: NewtonSetup, incumbent: Incumbent, cold: Start, previous: RawSolution) -> Start | None:
    """Offer an initial solution to the incumbent, and return a start near it, or None if its gap is too large."""
    assert previous.nu is not None
    assert previous.z is not None
    Z, V, _, weights = repair(part, previous)
    nu = setup.multiplier(part.fit.project(previous.nu))
    incumbent.offer_point(V + Z, V - Z, weights)
    incumbent.offer_dual(setup.candidate(nu), previous.z)
    Y = np.stack([V + Z, V - Z], axis=1)
    return _warm_start(cold, setup, nu, Y, weights, previous.z, incumbent.gap)


def _mean_product(newton: Newton, start: Start) -> float:
    M = newton.adjoint(start.nu)
    complementarity = np.vdot(np.diagonal(start.Y[:, 0] + start.Y[:, 1], axis1=1, axis2=2), start.z)
    return float(complementarity - np.vdot(start.Y[:, 0] - start.Y[:, 1], M)) / (2 * start.z.size)


# -- starts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """Starting point: nu (C, n), Y (K, 2, N, N), r (K,), z (K, N), dual radius, real weights; see `cold_start`."""

    nu: FloatArray
    Y: FloatArray
    r: FloatArray
    z: FloatArray
    dual_radius: float
    weights: FloatArray


def cold_start(
    fit: DataFit,
    newton: Newton,
    nu: FloatArray,
    M: FloatArray,
    radius: float,
    z: FloatArray,
    dual_radius: float,
    value: float,
) -> Start:
    """Compute the start from the zero point with dual vector nu of shape (C, n) and matrices M of shape (C, N, N).

    M is not zero, its spectral radius is `radius`, and ``Diag(z)`` dominates it for z of shape (C, N) with equal sums.
    The dual radius c is positive, and `value` is the loss at zero.
    """
    n_blocks, size = M.shape[:2]
    needed, columns = float(z[0].sum()), newton.coordinates.columns
    ratio = dual_radius / max(dual_radius, needed)
    part, power, reach = _QUADRATIC_START if fit.quadratic else _START
    scale = part * ratio**power
    if columns.size:
        # The dual matrices may exceed the dual radius at first, as their weights z do, but real weights may not.
        scale = min(scale, part * dual_radius / max(dual_radius, float(np.abs(nu @ columns).max())))
    roots = 1.0 if fit.weights is None else np.sqrt(fit.weights)
    moved = float(np.linalg.norm(roots * (newton.forward(M) + nu @ columns @ columns.T)))
    explained = float(np.linalg.norm(roots * fit.target.T)) / max(moved, 1e-300) * radius
    rows = np.linalg.norm(M, axis=2)
    # Along M only its largest rows explain the targets. If other rows are far smaller, they may need a much larger r.
    even = float(rows.max()) < FAR * float(rows.min())
    # On the path, p real weights cost as much as p / N matrices.
    n_parts = n_blocks + columns.shape[1] * len(nu) / size
    r = min(0.25 * value / dual_radius / n_parts, reach * explained if even else np.inf)
    Y = np.zeros((n_blocks, 2, size, size))
    diagonal = np.arange(size)
    Y[..., diagonal, diagonal] = 0.5 * r
    z = max(scale / part, dual_radius / needed) * z
    return Start(scale * nu, Y, np.full(n_blocks, r), z, dual_radius, np.zeros((len(nu), columns.shape[1])))


def _weights_by_rows(M: FloatArray) -> FloatArray:
    """Compute weights of sum one for matrices of shape (C, N, N), half equal and half proportional to row sums."""
    sums = np.abs(M).sum(axis=2)
    totals = sums.sum(axis=1, keepdims=True)
    # A class without samples has rows of zeros.
    fractions = np.divide(sums, totals, out=np.full_like(sums, 1.0 / sums.shape[1]), where=totals > 0.0)
    weights: FloatArray = 0.5 / sums.shape[1] + 0.5 * fractions
    return weights


def _warm_start(
    cold: Start, setup: NewtonSetup, nu: FloatArray, Y: FloatArray, real: FloatArray, z: FloatArray, gap: float
) -> Start | None:
    """Compute the start near a primal-dual pair of this certified relative gap; None if the gap is too large.

    nu is in the closed domain of the conjugate. Y is positive semidefinite, and the diagonal of A + B is constant. Only
    the ratios of z matter.
    """
    r = np.diagonal(Y[:, 0] + Y[:, 1], axis1=1, axis2=2).max(axis=1)
    if gap > 0.5 or not np.all(r > 0.0):
        return None
    size, dual_radius = z.shape[1], cold.dual_radius
    weights = np.maximum(z, 0.0)
    weights += HALF_DIGITS * weights.mean(axis=1, keepdims=True)
    weights[~np.any(weights > 0.0, axis=1)] = 1.0
    scaled = setup.dominating(nu, setup.newton.adjoint(nu), weights)
    needed = scaled * weights.sum(axis=1)
    largest = float(np.abs(nu @ setup.newton.coordinates.columns).max(initial=0.0))
    scale = dual_radius / max(dual_radius, float(needed.max()), largest)
    weights *= scale * scaled[:, None]
    weights += (dual_radius - weights.sum(axis=1, keepdims=True)) / size
    # The farther the pair is from a solution, the more of the cold start is mixed in.
    mixed = min(0.25, max(ROUGH, gap))
    unmixed = 1.0 - mixed
    even = np.zeros_like(Y)
    diagonal = np.arange(size)
    even[..., diagonal, diagonal] = 0.5 * r[:, None, None]
    return Start(
        unmixed * scale * nu + mixed * min(1.0, dual_radius / float(cold.z.sum(axis=1).max())) * cold.nu,
        unmixed * Y + mixed * even,
        r,
        unmixed * weights + mixed * dual_radius / size,
        dual_radius,
        unmixed * real,
    )
