"""Restricted problem of piecewise linear and quadratic losses, as one quadratic program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from qsdp._utils import deadline
from qsdp._utils.tuning import INNER, MAX_SIDE, MAX_STEPS, PATIENCE, PROGRESS
from qsdp._utils.validation import FloatArray
from qsdp.losses import DataFit
from qsdp.relaxation.solvers.interior.newton_system import SHIFTS

__all__ = ["RestrictedSolution", "solve_quadratic"]

#: Fraction of the distance to the boundary of the positive orthant that a step may cover.
_TO_BOUNDARY = 0.98


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


class _Best:
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


def solve_quadratic(F: FloatArray, fit: DataFit, penalties: FloatArray, tol: float) -> RestrictedSolution:
    """Solve the restricted problem of a piecewise quadratic loss; see `solve_restricted`."""
    n, k = F.shape
    if fit.quadratic and n > 2 * k:
        return _in_basis(*np.linalg.qr(fit.whitened()[0][:, None] * F), fit, penalties, tol)
    # The program has vectors: of n predictions of the one output, and of weights and slacks.
    y, compliance = fit.target[:, 0], fit.compliance()[:, 0]
    slacks = [(signs[:, 0], costs[:, 0]) for signs, costs in fit.slacks()]
    diagonals = [sigma for sigma, _ in slacks]
    c = np.concatenate([penalties, *(costs for _, costs in slacks)])

    def forward(x: FloatArray) -> FloatArray:
        value = F @ x[:k]
        for g, sigma in enumerate(diagonals):
            value += sigma * x[k + g * n : k + (g + 1) * n]
        return value

    def adjoint(nu: FloatArray) -> FloatArray:
        return np.concatenate([F.T @ nu, *(sigma * nu for sigma in diagonals)])

    best = _Best(F, fit, penalties)
    x, nu, s = _start(F, fit, c, k)
    for iteration in range(MAX_STEPS):
        mu = float(x @ s) / len(x)
        if best.update(x[:k], nu[:, None], iteration, mu) <= tol or best.stalled or deadline.over():
            break
        primal = forward(x) + compliance * nu - y
        dual = c - adjoint(nu) - s
        D = x / s
        diagonal = compliance + sum(D[k + g * n : k + (g + 1) * n] for g in range(len(slacks)))
        solve = _normal_equations(F, D[:k], diagonal)
        if solve is None:
            break
        centre: FloatArray | float = 0.0
        for corrected in (False, True):
            g = centre / s - x
            dnu = solve(-primal - forward(g - D * dual))
            ds = dual - adjoint(dnu)
            dx = g - D * ds
            if not corrected:
                reach = min(_reach_of(x, dx), _reach_of(s, ds))
                sigma = (float((x + reach * dx) @ (s + reach * ds)) / len(x) / mu) ** 3
                centre = sigma * mu - dx * ds
        if not (np.all(np.isfinite(dx)) and np.all(np.isfinite(ds))):
            break
        length = min(1.0, _TO_BOUNDARY * min(_reach_of(x, dx), _reach_of(s, ds)))
        x, nu, s = x + length * dx, nu + length * dnu, s + length * ds
    return best.solution()


def _in_basis(Q: FloatArray, R: FloatArray, fit: DataFit, penalties: FloatArray, tol: float) -> RestrictedSolution:
    r"""Solve the problem of the squared loss for columns F with :math:`\mathrm{Diag}(\sqrt{w}) F = Q R`, Q orthonormal.

    The residual outside the range of Q is constant and orthogonal to every column. A `GramFactor` would be faster, but
    rows whose sizes are far apart lose half of their digits in it: an optimum of 2.4707000e-5 becomes 2.4707005e-5.
    """
    roots, plain = fit.whitened()
    inside = Q.T @ plain.target
    rest = plain.target - Q @ inside
    constant = float(np.vdot(rest, rest))
    # The constant only lowers the relative gap.
    small = solve_quadratic(R, replace(plain, target=inside), penalties, tol)
    nu = roots[:, None] * (Q @ small.nu + 2.0 * rest)
    return replace(small, nu=nu, objective=small.objective + constant, lower_bound=small.lower_bound + constant)


def _start(F: FloatArray, fit: DataFit, c: FloatArray, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    y = fit.target[:, 0]
    size = float(np.abs(y).max(initial=0.0)) or 1.0
    row = float(np.abs(F).sum()) / max(1, len(F)) or 1.0
    x = np.full(len(c), size)
    x[:k] = size / row
    typical = float(c[:k].mean())
    # The smallest slack is a tenth of the typical cost.
    s = np.maximum(c, INNER * typical)
    # Far from feasibility, products that are small relative to the value at zero would allow only tiny steps.
    s[:k] = np.maximum(s[:k], INNER * fit.value_at_zero / len(c) / x[:k])
    # Zero-cost slacks must not start on the boundary.
    s[k:] = np.maximum(c[k:], INNER * (1.0 if fit.weights is None else np.resize(fit.weights, len(c) - k)))
    return x, np.zeros_like(y), s


def _normal_equations(F: FloatArray, D: FloatArray, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    """Factor ``F Diag(D) F' + Diag(diagonal)``, using the smaller side; return a solver of systems."""
    n, k = F.shape
    if n <= max(k, MAX_SIDE):
        # A matrix times its own transpose takes half the operations.
        root = F * np.sqrt(D)
        N = root @ root.T
        N[np.diag_indices(n)] += diagonal
        return _cholesky(N)
    # Woodbury's identity with the k x k matrix D^-1 + F' diagonal^-1 F.
    scaled = F / diagonal[:, None]
    root = F / np.sqrt(diagonal)[:, None]
    small = root.T @ root
    small[np.diag_indices(k)] += 1.0 / D
    inner = _cholesky(small)
    if inner is None:
        return None

    def solve(b: FloatArray) -> FloatArray:
        x = np.zeros_like(b)
        # Small diagonals make the identity lose digits, which residuals restore; the first solve counts, too.
        for _ in range(4):
            r = b - F @ (D * (F.T @ x)) - diagonal * x
            x = x + r / diagonal - scaled @ inner(scaled.T @ r)
        return x

    return solve


def _cholesky(N: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    """Return a solver of ``N x = b`` for a positive definite N, or None if N is not nearly positive definite."""
    # With a unit diagonal, a tiny shift costs no accuracy and saves the last iterations.
    scale: FloatArray = 1.0 / np.sqrt(np.maximum(N.diagonal(), np.finfo(np.float64).tiny))
    N = N * np.outer(scale, scale)
    for shift in SHIFTS:
        N[np.diag_indices(len(N))] += shift
        try:
            factor = scipy.linalg.cho_factor(N, check_finite=False)
        except scipy.linalg.LinAlgError:
            continue
        return lambda b: scale * scipy.linalg.cho_solve(factor, scale * b, check_finite=False)
    return None


def _reach_of(x: FloatArray, dx: FloatArray) -> float:
    """Return the largest multiple of dx that keeps x non-negative, up to one beyond which a step is whole."""
    falling = dx < 0.0
    if not np.any(falling):
        return 1.0 / _TO_BOUNDARY
    return min(1.0 / _TO_BOUNDARY, float((-x[falling] / dx[falling]).min()))
