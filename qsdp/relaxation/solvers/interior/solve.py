r"""Solve one output after the other by the interior-point method, from the zero point or a similar problem's solution.

At the zero point the dual vector is :math:`\nu_0 = -\nabla \ell(0)`. The cold start takes a share of it that lies well
inside the feasible set, multiples of the identity for A and B, and equal weights; that of a coarse solve takes weights
between these and the sums of the absolute values of the rows of the dual matrix. A warm start is a convex combination
of the cold one and the given point: the cold part keeps it off the boundary, where no step would be long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qsdp._utils.symmetric import eigenvalues
from qsdp._utils.validation import FloatArray
from qsdp.losses import DataFit
from qsdp.relaxation.incumbent import COARSE, STOPS, Incumbent, Limits, dominating, zero_solution
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.reductions import Reductions
from qsdp.relaxation.repair import repair
from qsdp.relaxation.scaled import RawSolution
from qsdp.relaxation.solvers.interior.fits import as_rows, fit_of
from qsdp.relaxation.solvers.interior.method import State, follow
from qsdp.relaxation.solvers.interior.newton import Newton
from qsdp.relaxation.solvers.interior.setup import FactorCache, NewtonSetup
from qsdp.relaxation.solvers.parts import SolvePart, solve_parts

__all__ = ["cold_start", "solve_interior"]

#: Dual radius in place of zero, as a share of what the dual vector at zero needs: for zero there is no central path.
_LEAST_DUAL_RADIUS = 1e-9

#: Share of the dual vector at the zero point that the start takes, times w to a power where the dual radius is only a
#: share w of what that vector needs; and the largest r, in multiples of the one that explains the targets along the
#: dual matrix. Over breast-cancer, ionosphere and vehicle, beta 1 and 30, three losses that are not quadratic take 196
#: iterations, and with the numbers of the squared loss 206; that takes 44, and with the numbers of the others 51.
_SHARE, _POWER, _REACH = 0.5, 0.5, 10.0
_QUADRATIC_SHARE, _QUADRATIC_POWER, _QUADRATIC_REACH = 0.8, 1.0, 4.0

#: Share of the weights of a coarse solve that is in proportion to the rows' sums; the rest is equal. Of the dual vector
#: at zero these sums prove 1.0 to 1.1 times the best bound on nine UCI sets, equal weights 1.8 to 3.7 times. Of 75
#: problems of five losses and five sets, and 15 of five sets and the squared loss, to 1e-2, iterations are 675 and 118
#: with 0, 605 and 115 with 0.3, 591 and 109 with 0.5, 589 and 107 with 0.8. To 1e-6 they are 981 and 913 with 0.5, but
#: of 445 degenerate problems one more, with a kink, stalls.
_BY_ROWS = 0.5

#: The largest ratio of two rows of the dual matrix that counts as none; rows of standardised data are far below it:
#: from 10 to 1e4 thirty problems of UCI sets take the same iterations.
_EVEN = 100.0

#: The gap above which a given pair is ignored, and the least and largest share of the cold start that is mixed in. For
#: the same sets paths of twelve betas take 198 iterations, 241 where pairs are ignored from a gap of 0.1 on, 204 where
#: at most a tenth is mixed in; the least share, which keeps solved pairs off the boundary, may be 0.001 or 0.1.
_FAR, _LEAST_SHARE, _LARGEST_SHARE = 0.5, 1e-2, 0.3


def solve_interior(
    instance: Instance, limits: Limits, start: RawSolution | None = None, reductions: Reductions | None = None
) -> RawSolution:
    """Return the best certified pair that the interior-point method meets, see `solve_parts` for the arguments.

    Gram matrices of `reductions`, from solves with the same data, are used.
    """

    def prepare(small: Instance) -> SolvePart:
        cache = FactorCache(small, reductions, limits.deadline)
        return lambda k, part, own, given: _solve_part(cache, k, part, own, given)

    return solve_parts(instance, limits, start, prepare)


def _solve_part(cache: FactorCache, k: int, part: Instance, limits: Limits, given: RawSolution | None) -> RawSolution:
    incumbent: Incumbent | None = None
    try:
        setup = cache.setup(k, part)
        incumbent = Incumbent(setup.evaluation, limits)
        status = _follow(part, setup, incumbent, given)
    except tuple(STOPS) as error:
        status = STOPS[type(error)]
    return zero_solution(part, status) if incumbent is None else incumbent.solution(status)


def _follow(part: Instance, setup: NewtonSetup, incumbent: Incumbent, given: RawSolution | None) -> str:
    """Follow the path from the zero point, unless that is optimal already, or from the given solution."""
    newton = setup.newton
    nu = as_rows(setup.fit.zero_dual)
    M = newton.adjoint(nu)
    radius = float(np.abs(eigenvalues(M)).max())
    largest = part.size * radius
    if largest <= part.dual_radius:
        # The zero point is optimal, and its own dual vector proves it.
        incumbent.offer_dual(setup.candidate(nu), np.ones((part.n_blocks, part.size)))
        return incumbent.stop(0) or "stalled"
    dual_radius = part.dual_radius or _LEAST_DUAL_RADIUS * largest
    if not (dual_radius > 0.0 and np.isfinite(largest)):
        return "stalled"
    value, by_rows = float(incumbent.objectives.sum()), _BY_ROWS if incumbent.tol >= COARSE else 0.0
    start = cold_start(setup.fit, newton, nu, M, radius, dual_radius, value, by_rows)
    if given is not None and (warm := _warm(part, setup, incumbent, start, given)) is not None:
        fit = fit_of(setup.fit, warm.nu)
        fit.centre(newton.forward(warm.Y[:, 0] - warm.Y[:, 1]), _mean_product(newton, warm))
        reason = follow(newton, fit, State(warm.Y, warm.r, warm.z), dual_radius, incumbent, setup.candidate)
        if reason != "stalled":
            return reason
    fit = fit_of(setup.fit, start.nu)
    return follow(newton, fit, State(start.Y, start.r, start.z), dual_radius, incumbent, setup.candidate)


def _warm(part: Instance, setup: NewtonSetup, incumbent: Incumbent, cold: Start, given: RawSolution) -> Start | None:
    """Offer a given solution to the incumbent; return the start near it, or None if it is far off."""
    assert given.nu is not None
    assert given.z is not None
    Z, V, _ = repair(part, given.Z, given.V, given.V)
    nu = setup.multiplier(part.fit.project(given.nu))
    incumbent.offer_point(V + Z, V - Z)
    incumbent.offer_dual(setup.candidate(nu), given.z)
    return _warm_start(cold, setup.newton, nu, np.stack([V + Z, V - Z], axis=1), given.z, float(incumbent.gaps.max()))


def _mean_product(newton: Newton, start: Start) -> float:
    M = newton.adjoint(start.nu)
    own = np.vdot(np.diagonal(start.Y[:, 0] + start.Y[:, 1], axis1=1, axis2=2), start.z)
    return float(own - np.vdot(start.Y[:, 0] - start.Y[:, 1], M)) / (2 * start.z.size)


# -- starts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """A start: nu (C, n), Y (C, 2, N, N), r (C,), z (C, N), and the dual radius of the path, see `cold_start`."""

    nu: FloatArray
    Y: FloatArray
    r: FloatArray
    z: FloatArray
    dual_radius: float


def cold_start(
    fit: DataFit,
    newton: Newton,
    nu: FloatArray,
    M: FloatArray,
    radius: float,
    dual_radius: float,
    value: float,
    by_rows: float = 0.0,
) -> Start:
    """Return the start from the zero point, whose dual vector is nu, of shape (C, n), with matrices M of (C, N, N).

    M is not zero, and its spectral radius is `radius`; the dual radius c is positive, and `value` is the loss at zero;
    `by_rows` is the share of the weights that is in proportion to the sums of the absolute values of the rows of M.
    """
    n_blocks, size = M.shape[:2]
    weights = np.full((n_blocks, size), 1.0 / size)
    needed = size * radius
    if by_rows:
        weights = _weights_by_rows(M, by_rows)
        needed = float(dominating(M, weights).max())
    ratio = dual_radius / max(dual_radius, needed)
    part, power, reach = (
        (_QUADRATIC_SHARE, _QUADRATIC_POWER, _QUADRATIC_REACH) if fit.quadratic else (_SHARE, _POWER, _REACH)
    )
    share = part * ratio**power
    roots = 1.0 if fit.weights is None else np.sqrt(fit.weights)
    moved = float(np.linalg.norm(roots * newton.forward(M)))
    explained = float(np.linalg.norm(roots * fit.target.T)) / max(moved, 1e-300) * radius
    rows = np.linalg.norm(M, axis=2)
    # Along M only its largest rows explain anything; where others are far smaller, they may need a much larger r.
    even = float(rows.max()) < _EVEN * float(rows.min())
    r = min(0.25 * value / dual_radius / n_blocks, reach * explained if even else np.inf)
    Y = np.zeros((n_blocks, 2, size, size))
    diagonal = np.arange(size)
    Y[..., diagonal, diagonal] = 0.5 * r
    z = max(share / part * needed, dual_radius) * weights
    return Start(share * nu, Y, np.full(n_blocks, r), z, dual_radius)


def _weights_by_rows(M: FloatArray, part: float) -> FloatArray:
    """Return weights of sum one for matrices of shape (C, N, N), a part of them in proportion to sums of rows."""
    sums = np.abs(M).sum(axis=2)
    totals = sums.sum(axis=1, keepdims=True)
    # A class that nothing is known of has rows of zeros.
    shares = np.divide(sums, totals, out=np.full_like(sums, 1.0 / sums.shape[1]), where=totals > 0.0)
    weights: FloatArray = (1.0 - part) / sums.shape[1] + part * shares
    return weights


def _warm_start(cold: Start, newton: Newton, nu: FloatArray, Y: FloatArray, z: FloatArray, gap: float) -> Start | None:
    """Return the start near a pair of this certified relative gap, or None where that is too far from a solution.

    nu is in the closed domain of the conjugate, Y positive semidefinite with equal diagonals of A + B; of z only ratios
    matter.
    """
    r = np.diagonal(Y[:, 0] + Y[:, 1], axis1=1, axis2=2).max(axis=1)
    if gap > _FAR or not np.all(r > 0.0):
        return None
    size, dual_radius = z.shape[1], cold.dual_radius
    weights = np.maximum(z, 0.0)
    weights += 1e-6 * weights.mean(axis=1, keepdims=True)
    weights[~np.any(weights > 0.0, axis=1)] = 1.0
    scaled = dominating(newton.adjoint(nu), weights)
    needed = scaled * weights.sum(axis=1)
    share = dual_radius / max(dual_radius, float(needed.max()))
    weights *= share * scaled[:, None]
    weights += (dual_radius - weights.sum(axis=1, keepdims=True)) / size
    # Off the boundary by more the less the pair is a solution.
    mixed = min(_LARGEST_SHARE, max(_LEAST_SHARE, gap))
    kept = 1.0 - mixed
    even = np.zeros_like(Y)
    diagonal = np.arange(size)
    even[..., diagonal, diagonal] = 0.5 * r[:, None, None]
    return Start(
        kept * share * nu + mixed * min(1.0, dual_radius / float(cold.z.sum(axis=1).max())) * cold.nu,
        kept * Y + mixed * even,
        r,
        kept * weights + mixed * dual_radius / size,
        dual_radius,
    )
