r"""Mehrotra's predictor-corrector method for the relaxation with cuts, for one output.

It works like `qsdp.relaxation.solvers.interior.method`, with the pairs :math:`(\gamma_k, s_k)` of the cuts besides the
pairs of the matrices. Before convergence, a slack need not equal its cut's value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.tuning import MOST_STEPS, SMALL, TO_BOUNDARY
from qsdp._utils.validation import FloatArray
from qsdp.relaxation.cuts.newton import CutNewton
from qsdp.relaxation.solvers.interior.cone import (
    LinAlgError,
    centred,
    inverse_means,
    largest_step,
    predicted_product,
    predictor_reach,
    primal_step,
    scaling,
)
from qsdp.relaxation.solvers.interior.fits import Fit

__all__ = ["CutState", "follow"]


@dataclass
class CutState:
    """Iterate: Y = (A, B) of shape (2, N, N), r, z of shape (N,), and weights and slacks of the cuts, of shape (m,)."""

    Y: FloatArray
    r: float
    z: FloatArray
    weights: FloatArray
    slacks: FloatArray


def follow(newton: CutNewton, fit: Fit, state: CutState, dual_radius: float, goal: Callable[[], float]) -> None:
    """Follow the central path until the gap, the sum of the products of all pairs, is at most `goal()`.

    Raises
    ------
    TimeOver
        A time limit has passed; the state is the last one reached.
    LinAlgError
        Rounding dominates.
    """
    for _ in range(MOST_STEPS):
        deadline.check()
        if _advance(newton, fit, state, dual_radius) <= goal():
            return


def _advance(newton: CutNewton, fit: Fit, state: CutState, dual_radius: float) -> float:
    """Take one predictor-corrector step; return its target for the sum of the products of all complementary pairs."""
    Y, z, g, s, cuts = state.Y, state.z, state.weights, state.slacks, newton.cuts
    G, values = scaling(Y, newton.dual_matrices(fit.nu[0], g, z))
    transposed = G.swapaxes(-1, -2)
    newton.factor(G, fit.linearise(newton.forward(Y[0] - Y[1])[None])[0], s / g)
    n_pairs = values.size + fit.n_pairs + len(g)
    mu = (float(np.vdot(values, values)) + fit.products() + float(g @ s)) / n_pairs
    off = np.diagonal(Y[0] + Y[1]) - state.r
    missing = cuts.values(Y) - state.r - s
    excess = float(z.sum() - g.sum()) - dual_radius

    def direction(R: FloatArray, error: FloatArray, slack_aim: FloatArray) -> _CutDirection:
        """Solve the Newton system for the scaled steps of the dual matrices and the steps of the other variables."""
        dq, dg, dz, dr = newton.solve(R, error[0], off, slack_aim - missing, excess)
        fit.direct(dq[None])
        change = transposed @ newton.dual_matrices(dq, dg, dz) @ G
        return _CutDirection(change, dz, dr, dg, slack_aim - s / g * dg)

    ahead = direction(-Y, fit.error(0.0, corrected=False), -s)
    inverses = inverse_means(values)
    reach = min(predictor_reach(ahead.change, inverses), ahead.reach(g, s), fit.reach())
    predicted = predicted_product(ahead.change, values, reach) + fit.products_after(reach)
    predicted = (predicted + float((g + reach * ahead.dg) @ (s + reach * ahead.ds))) / n_pairs
    away = mu + fit.distance() / n_pairs
    centre = away * min(1.0, max(SMALL, (max(predicted, 0.0) / mu) ** 2))
    aim = centred(values, centre, primal_step(ahead.change, values), ahead.change)
    error = fit.error(centre, corrected=True)
    best = direction(G @ aim @ transposed, error, (centre - ahead.dg * ahead.ds) / g - s)
    scaled = aim - best.change
    within = largest_step((scaled, best.change), inverses, 1.0 / TO_BOUNDARY)
    step = TO_BOUNDARY * min(within, best.reach(g, s), fit.reach())
    if not step > ROUNDING:
        raise LinAlgError("no step")
    fit.keep()
    moved = Y + step * (G @ scaled @ transposed)
    state.Y = 0.5 * (moved + moved.swapaxes(-1, -2))
    state.r, state.z = state.r + step * best.dr, z + step * best.dz
    state.weights, state.slacks = g + step * best.dg, s + step * best.ds
    fit.move(step)
    return n_pairs * (centre + (1.0 - step) * mu)


@dataclass(frozen=True)
class _CutDirection:
    """Scaled steps of the dual matrices, and steps of z, r, weights and slacks."""

    change: FloatArray
    dz: FloatArray
    dr: float
    dg: FloatArray
    ds: FloatArray

    def reach(self, g: FloatArray, s: FloatArray) -> float:
        """Compute the largest step length for which weights and slacks stay positive."""
        lowest = min(float((self.dg / g).min(initial=0.0)), float((self.ds / s).min(initial=0.0)))
        return -1.0 / lowest if lowest < 0.0 else np.inf
