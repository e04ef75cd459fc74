"""Lower bounds on the global optimum, computed from the data and a dual vector alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from qsdp._utils.numeric import EPS, HALF_DIGITS, ROUNDING, largest_magnitude
from qsdp._utils.tuning import INNER, PATIENCE, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.data_map import DataMap
from qsdp.inner_problem import dominating_weights
from qsdp.losses import DataFit
from qsdp.pricing import BoundTree
from qsdp.pricing.bound_trees import root_tree
from qsdp.problem import TrainingProblem
from qsdp.relaxation.instance import Instance, LinearInstance
from qsdp.relaxation.spectra import multiple_of, proven_weights

__all__ = [
    "DualBound",
    "ProvenBound",
    "best_dual_bound",
    "best_scale",
    "best_step",
    "entry_rounding",
    "entry_size",
    "instance_bound",
    "largest_scale",
    "pricing_roundings",
    "verified_scale",
]

#: Floors added to the weights z, relative to their mean, from rounding errors to what hardly matters; each loosens the
#: bound by at most that fraction.
_FLOORS = np.geomspace(ROUNDING, SMALL, 1 + round(math.log(ROUNDING / SMALL, INNER)))


@dataclass(frozen=True, eq=False)
class DualBound:
    r"""Lower bound on the global optimum :math:`p_b^*` and the dual vector that proves it.

    Attributes
    ----------
    value : float
        The bound, :math:`-\ell^*(-\nu)` less an allowance for rounding, at least 0.
    nu : ndarray of shape (n, C)
        Dual vector, scaled to feasibility.
    z : ndarray of shape (K, N)
        Positive. ``Diag(z) +- M`` are positive semidefinite for :math:`M = \sum_i \nu_i \mathcal{X}_i` as computed, and
        ``sum(z)`` plus `pricing_roundings` is at most ``beta D``. All ones if nu is zero, which then proves the bound
        alone.
    """

    value: float
    nu: FloatArray
    z: FloatArray

    @property
    def trees(self) -> tuple[BoundTree, ...]:
        """Trees of one leaf that bound the pricing values, one for each matrix; those of zero columns need no z."""
        weights, used = np.atleast_2d(self.z), np.any(self.nu.reshape(len(self.nu), -1), axis=0)
        used = np.repeat(used, len(weights) // len(used))
        return tuple(root_tree(z * bool(is_used)) for z, is_used in zip(weights, used, strict=True))

    def squeezed(self, problem: TrainingProblem) -> DualBound:
        """Return the bound with nu of shape (n,) and z of shape (N,) if the targets are scalar."""
        z = self.z[0] if len(self.z) else self.z
        return DualBound(self.value, problem.squeezed(self.nu), z) if problem.scalar else self


@dataclass(frozen=True, eq=False)
class ProvenBound:
    """Lower bound on the global optimum, proven by a dual vector and trees that bound its pricing values.

    A `DualBound` has weights z instead, from which solvers start and which a change of units scales; trees of cuts or
    of an enumeration have no such weights, so that in one class each caller would ask which of the two it has.

    Attributes
    ----------
    value : float
    nu : ndarray of shape (n, C)
    trees : tuple of BoundTree
        One tree for each matrix of `nu`.
    uppers : tuple of float or None
        Upper bounds on the pricing values that the trees prove; None where these are cheap to evaluate.
    exact : bool
        Whether they are the largest pricing values.
    """

    value: float
    nu: FloatArray
    trees: tuple[BoundTree, ...]
    uppers: tuple[float | None, ...]
    exact: bool = False


def best_dual_bound(
    problem: TrainingProblem,
    duals: Iterable[FloatArray | None],
    weights: Iterable[FloatArray | None] = (),
) -> DualBound:
    r"""Compute the best lower bound that the candidate dual vectors prove; it is valid for any candidates.

    For any :math:`\nu` with :math:`\tau(\nu) = \max_{u,v} u^T M_\nu v \le \beta D`, where
    :math:`M_\nu = \sum_i \nu_i \mathcal{X}_i`, weak duality gives :math:`p_b^* \ge -\ell^*(-\nu)`. Every
    candidate is moved into the domain of the conjugate, bounded by `proven_weights` and scaled to
    feasibility; no solver is trusted.

    Parameters
    ----------
    problem : TrainingProblem
    duals : iterable of ndarray in the shape of y, or None
        Candidates for :math:`\nu`, for example from a solver or minus a gradient of the loss. Candidates that are None,
        not finite or of another shape are skipped.
    weights : iterable of ndarray of shape (N,) or (C, N), or None
        Candidates for z, for example from a solver. All ones and the absolute row sums of M are always tried.

    Notes
    -----
    See sections 3.1, A.3 and B of Bartan and Pilanci.
    """
    columns = [problem.columns(nu) for nu in duals]
    stacks = [None if z is None else np.atleast_2d(z) for z in weights]
    return instance_bound(Instance.from_problem(problem), columns, stacks).squeezed(problem)


def instance_bound(
    instance: Instance,
    duals: Iterable[FloatArray | None],
    weights: Iterable[FloatArray | None] = (),
    *,
    exhaustive: bool = True,
) -> DualBound:
    """Compute `best_dual_bound` for an instance, in the instance's units.

    Without `exhaustive`, each matrix M takes one decomposition for each candidate of the weights, nearly unchanged, or
    one with its row sums if there are none. This suffices for weights that a method has already evaluated.
    """
    shape = (instance.n_matrices, instance.size)
    usable = [z for z in weights if z is not None and _is_usable(z, shape)]
    zero = np.zeros_like(instance.target)
    best = DualBound(max(0.0, instance.safe_dual_value(zero)), zero, np.ones(shape))
    for candidate in duals:
        if candidate is None or not _is_usable(candidate, instance.target.shape):
            continue
        nu = instance.fit.project(candidate)
        matrices, real = instance.map.pull(nu)
        proofs = [
            _tightest(instance, M, column, [z[k] for z in usable], exhaustive=exhaustive)
            for k, (M, column) in enumerate(zip(matrices, instance.duals_of_matrices(nu), strict=True))
        ]
        uppers = instance.constraints([math.nextafter(math.fsum(z), math.inf) for z in proofs], real)
        scale = best_scale(instance.fit, nu, largest_scale(instance, nu, uppers))
        scale = verified_scale(instance, nu, uppers, scale)
        value = instance.safe_dual_value(scale * nu)
        if value > best.value:
            best = DualBound(value, scale * nu, np.array([scale * z for z in proofs]).reshape(shape))
    return best


def largest_scale(instance: LinearInstance, nu: FloatArray, uppers: Sequence[float] | FloatArray) -> float:
    """Compute the largest feasible multiple of `nu`, whose pricing values are at most `uppers`.

    There is one for each output and constraint, see `LinearInstance.constraints`.
    """
    tau = float(np.max(uppers + pricing_roundings(instance, nu)))
    return instance.dual_radius / tau if tau > 0.0 else np.inf


def _is_usable(candidate: FloatArray, shape: tuple[int, ...]) -> bool:
    return np.shape(candidate) == shape and bool(np.isfinite(candidate).all())


def _tightest(
    instance: Instance, M: FloatArray, nu: FloatArray, weights: Sequence[FloatArray], *, exhaustive: bool
) -> FloatArray:
    """Return proven weights z of nearly the smallest sum for which ``Diag(z)`` dominates the matrix M of nu."""

    def choices() -> Iterator[FloatArray]:
        row_sums, ones = np.abs(M).sum(axis=1), np.ones(instance.size)
        if not exhaustive:
            yield from [raised for z in weights or [row_sums] for raised in _raised(z, _FLOORS[:1])] or [ones]
            return
        yield from (raised for z in weights for raised in _raised(z))
        yield from _raised(row_sums)
        yield ones
        if not weights and np.any(M):
            # For 100 to 1500 random and low-rank columns, it is 3 to 12 % below row sums and ones, at the cost of one
            # to three of the decompositions above. A tolerance of 1e-4 gains less than 0.1 %.
            yield from _raised(dominating_weights(M, tol=SMALL), _FLOORS[:1])

    pairs = [(multiple_of(instance.map, M, nu, z), z) for z in choices()]
    t, z = min(pairs, key=lambda pair: pair[0] * float(pair[1].sum()))
    # z must be positive even if M vanishes.
    return proven_weights(instance.map, M, nu, z, max(t, EPS * instance.dual_radius / float(z.sum())))


def pricing_roundings(instance: LinearInstance, nu: FloatArray) -> FloatArray:
    r"""Bound the effect of rounding on the pricing values of `nu`, for each constraint; see `entry_rounding`.

    If outputs are coupled, the entries of a row should sum to zero; their rounding error changes the matrix, too.
    """
    roundings = entry_rounding(instance.map, nu)
    if instance.loss.coupled:
        defects = np.abs(nu.sum(axis=1)) + EPS * (nu.shape[1] + 2) * np.abs(nu).sum(axis=1)
        roundings += np.tile(entry_size(instance.map, defects[:, None]), nu.shape[1])
    return roundings


def verified_scale(
    instance: LinearInstance, nu: FloatArray, uppers: Sequence[float] | FloatArray, scale: float
) -> float:
    r"""Reduce `scale` until that multiple of `nu` is feasible in floating point; return 0 if no scale works.

    Apart from rounding, no pricing value of constraint k exceeds ``uppers[k]``. The rounding includes that of
    ``scale * nu`` itself, which is not a multiple of the rounding of `nu` if rows cancel. It counts twice, so that a
    check that recomputes the matrix and allows for its own rounding also accepts the multiple.
    """
    for _ in range(PATIENCE):
        roundings = pricing_roundings(instance, scale * nu)
        reached = max(scale * upper + 2.0 * rounding for upper, rounding in zip(uppers, roundings, strict=True))
        # A tenth of the tolerance of the check.
        if reached <= (1.0 + 0.1 * ROUNDING) * instance.dual_radius:
            return scale
        scale *= instance.dual_radius / reached
    return 0.0


def entry_rounding(data: DataMap, nu: FloatArray) -> FloatArray:
    r"""Bound the effect of rounding in each matrix :math:`M_\nu` on :math:`u^T M_\nu v` for sign vectors u and v.

    If there are real weights, this is followed for each output by the effect on the largest entry of theirs. An entry
    of M has an error of at most ``(n + 16) eps sum |nu_i| |X_i|``, and a pricing value at most their sum. For
    statistics, the result includes what their own rounding can change, see `SumRounding`.
    """
    # Sixteen covers any order of the products, and what the stand-alone checker allows for.
    rounding = EPS * (data.n_rows + 16) * entry_size(data, nu)
    return rounding + data.pricing_losses(nu)


def entry_size(data: DataMap, nu: FloatArray) -> FloatArray:
    """Sum all entries of each matrix ``sum |nu_i| |X_i|``, for nu of shape (n, C).

    There is one for each output and constraint; that of real weights bounds the largest of their sums.
    """
    return (np.abs(nu).T @ data.absolute_sums).ravel()


def _raised(z: FloatArray, floors: FloatArray = _FLOORS) -> list[FloatArray]:
    """Return copies of the weights z whose small entries, which may be noise, are raised to each of the floors."""
    if not z.max(initial=0.0) > 0.0:
        return []
    # Only ratios matter; near the smallest floats their reciprocals would overflow.
    clipped = np.maximum(z / largest_magnitude(z), 0.0)
    mean = float(clipped.mean())
    return [clipped + floor * mean for floor in floors]


def best_scale(fit: DataFit, nu: FloatArray, largest: float) -> float:
    r"""Maximise the concave dual value of :math:`s \nu` over s in ``[0, largest]``."""
    if fit.loss.bounded_dual:
        largest = min(largest, 1.0)
    # A candidate with a best s above 2 was far from optimal anyway; this limit keeps the resolution near 1.
    upper = min(largest, 2.0)
    if upper == 0.0:
        return 0.0
    if fit.quadratic:
        return best_step(fit, np.zeros_like(nu), nu, largest)
    ends = fit.dual_value((1.0 - HALF_DIGITS) * upper * nu), fit.dual_value(upper * nu)
    if -math.inf < ends[0] <= ends[1]:
        # A concave value that still rises has its maximum there: near a solution, feasibility limits the scale.
        return upper
    search = scipy.optimize.minimize_scalar(
        lambda s: -fit.dual_value(s * nu), bounds=(0.0, upper), method="bounded", options={"xatol": HALF_DIGITS * upper}
    )
    candidates = [float(search.x), upper, min(1.0, upper)]
    return max(candidates, key=lambda s: fit.dual_value(s * nu))


def best_step(fit: DataFit, start: FloatArray, direction: FloatArray, largest: float) -> float:
    r"""Maximise the bound of a squared loss at ``start + s direction`` over s in ``[0, largest]``."""
    size = float(np.vdot(direction, fit.per_weight(direction)))
    slope = 2.0 * float(np.vdot(direction, fit.target)) - float(np.vdot(direction, fit.per_weight(start)))
    return min(max(0.0, slope / size), largest) if size else 0.0
