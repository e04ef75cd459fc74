"""Lower bounds on the global optimum, computed from the data and a dual vector alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize

from qsdp._validation import FloatArray
from qsdp.problem import TrainingProblem

__all__ = ["DualBound", "best_dual_bound", "spectral_bound"]

_EPS = float(np.finfo(np.float64).eps)

#: What is added to the weights z, as a share of their mean; each loosens the bound by that share at most.
_FLOORS = (1e-9, 1e-7, 1e-5, 1e-3)


@dataclass(frozen=True, eq=False)
class DualBound:
    r"""A lower bound on :math:`p_b^*` and what proves it.

    Attributes
    ----------
    value : float
        The bound, :math:`-\ell^*(-\nu)` less an allowance for rounding, at least 0.
    nu : ndarray of shape (n,)
        Dual vector, scaled to feasibility.
    z : ndarray of shape (D,)
        Positive; ``Diag(z) +- X' diag(nu) X`` are positive semidefinite and ``sum(z)`` is at most
        ``beta D`` (half of that for the relaxation as printed), up to the rounding allowed for.
    """

    value: float
    nu: FloatArray
    z: FloatArray


def spectral_bound(M: FloatArray, z: FloatArray) -> float:
    r"""Return the smallest t with :math:`-t\,\mathrm{Diag}(z) \preceq M \preceq t\,\mathrm{Diag}(z)`.

    Then :math:`\max_{u,v \in \{\pm1\}^D} u^T M v \le t \sum_j z_j`: for any positive `z` this bounds the
    Grothendieck problem from above (the dual of (50), with the diagonal shift written as a scaling).
    """
    root = np.sqrt(z)
    scaled = M / np.outer(root, root)
    return float(np.abs(scipy.linalg.eigvalsh(scaled, check_finite=False)).max())


def best_dual_bound(
    problem: TrainingProblem,
    duals: Iterable[FloatArray | None],
    weights: Iterable[FloatArray | None] = (),
    *,
    regularization: str = "tight",
) -> DualBound:
    r"""Return the best lower bound that the candidates prove; valid whatever they are.

    For any :math:`\nu` with :math:`\tau(\nu) = \max_{u,v} u^T X^T \mathrm{diag}(\nu) X v \le \beta D`,
    weak duality gives :math:`p_b^* \ge -\ell^*(-\nu)`. Every candidate is moved into the domain of the
    conjugate, bounded by `spectral_bound` and scaled to feasibility; no solver is trusted.

    Parameters
    ----------
    problem : TrainingProblem
    duals : iterable of ndarray of shape (n,) or None
        Candidates for :math:`\nu`, as from a solver or as minus a gradient of the loss; those that are None
        or of another shape or not finite are passed over.
    weights : iterable of ndarray of shape (D,) or None
        Candidates for z, as from a solver. All ones and the absolute row sums of M are always tried.
    regularization : {"tight", "paper"}
        Whether the bound is that of the tight relaxation or of the one printed in (25).

    Notes
    -----
    Section 3.1 and A.3 of Bartan and Pilanci. With ``beta = 0`` only :math:`\nu = 0` is feasible without
    a tolerance, and the bound is the smallest value of the loss.
    """
    # u' M v of the data matrix may reach this much: beta D for the tight factor 2.
    capacity = 0.5 * problem.regularization_weight(regularization)
    d = problem.dimension
    ones = np.ones(d)
    usable_weights = [
        z
        for candidate in weights
        if candidate is not None and _is_vector(candidate, d)
        for z in _raised(candidate)
    ]
    nothing = np.zeros(problem.n_samples)
    best = DualBound(max(0.0, _dual_value(problem, nothing)), nothing, ones)
    for candidate in duals:
        if candidate is None or not _is_vector(candidate, problem.n_samples):
            continue
        nu = problem.loss.project_dual(-candidate, problem.y) * -1.0
        M = problem.adjoint(nu)
        choices = [*usable_weights, ones, *_raised(np.abs(M).sum(axis=1))]
        t, z = _tightest(problem, nu, M, choices)
        tau = t * float(z.sum())
        largest = capacity / tau if tau > 0.0 else np.inf
        scale = _best_scale(problem, nu, largest)
        value = _dual_value(problem, scale * nu)
        if value > best.value:
            best = DualBound(value, scale * nu, scale * t * z)
    return best


def _tightest(
    problem: TrainingProblem, nu: FloatArray, M: FloatArray, choices: Sequence[FloatArray]
) -> tuple[float, FloatArray]:
    pairs = [(spectral_bound(M, z) + _rounding(problem, nu, z), z) for z in choices]
    return min(pairs, key=lambda pair: pair[0] * float(pair[1].sum()))


def _rounding(problem: TrainingProblem, nu: FloatArray, z: FloatArray) -> float:
    # Entrywise, M carries at most (n + 2) eps |X|' |nu| |X|, whose scaled norm is at most its trace; the
    # eigenvalues add a modest multiple of D eps times the norm, which that trace bounds as well.
    trace = float(np.abs(nu) @ (np.square(problem.X) @ (1.0 / z)))
    return _EPS * (problem.n_samples + 10 * problem.dimension) * trace


def _is_vector(candidate: FloatArray, length: int) -> bool:
    return np.shape(candidate) == (length,) and bool(np.all(np.isfinite(candidate)))


def _raised(z: FloatArray) -> list[FloatArray]:
    """Return positive versions of a candidate; where its small entries are noise, they must be raised."""
    if not np.any(z > 0.0):
        return []
    clipped = np.maximum(z, 0.0)
    return [clipped + floor * float(clipped.mean()) for floor in _FLOORS]


def _best_scale(problem: TrainingProblem, nu: FloatArray, largest: float) -> float:
    r"""Return the s in ``[0, largest]`` that maximises the concave :math:`-\ell^*(-s \nu)`."""
    if problem.loss.bounded_dual:
        largest = min(largest, 1.0)
    # Beyond s = 2 a candidate was far from optimal anyway; the search keeps its resolution near 1.
    upper = min(largest, 2.0)
    if upper == 0.0:
        return 0.0
    search = scipy.optimize.minimize_scalar(
        lambda s: -_conjugate_value(problem, s * nu),
        bounds=(0.0, upper),
        method="bounded",
        options={"xatol": 1e-10 * upper},
    )
    candidates = [float(search.x), upper, min(1.0, upper)]
    return max(candidates, key=lambda s: _conjugate_value(problem, s * nu))


def _conjugate_value(problem: TrainingProblem, nu: FloatArray) -> float:
    return -problem.loss.conjugate(-nu, problem.y)


def _dual_value(problem: TrainingProblem, nu: FloatArray) -> float:
    value = _conjugate_value(problem, nu)
    at_zero = problem.loss.value(np.zeros(problem.n_samples), problem.y)
    return value - _EPS * problem.n_samples * (abs(value) + at_zero)
