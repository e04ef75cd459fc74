r"""Mehrotra's predictor-corrector method along the central path.

.. math::

    \min_{A, B \succeq 0}\; \ell(F(A - B), y) + c\, r \quad\text{s.t.}\quad \mathrm{diag}(A) + \mathrm{diag}(B) = r 1
    \qquad\text{and}\qquad
    \max_{\nu, z}\; -\ell^*(-\nu) \quad\text{s.t.}\quad \mathrm{Diag}(z) \pm F^T \nu \succeq 0,\; 1^T z = c

On the path :math:`A (\mathrm{Diag}(z) - F^T \nu) = B (\mathrm{Diag}(z) + F^T \nu) = \mu I`. The dual matrices always
belong to :math:`\nu` and z, and the diagonals of A + B equal r from the start on. An iterate can therefore violate only
:math:`1^T z = c` and the relation of :math:`\nu` to the predictions. Both are linear, or nearly so, and each step
reduces their violation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.gap import relative
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.tuning import EIGEN, INNER, PATIENCE, PROGRESS, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.relaxation.incumbent import Incumbent
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
from qsdp.relaxation.solvers.interior.newton_system import Newton, Sides

__all__ = ["State", "advance", "follow"]

#: Fraction of the distance to the boundary of the cone that a step covers.
_TO_BOUNDARY = 0.98


@dataclass
class State:
    """Iterate: Y = (A, B) of shape (C, 2, N, N), r of shape (C,) and z of shape (C, N)."""

    Y: FloatArray
    r: FloatArray
    z: FloatArray
    #: Dual matrices ``Diag(z) -+ F' nu`` in the shape of Y. They are linear in z and nu and take the same steps.
    dual: FloatArray = field(init=False)


def follow(
    newton: Newton,
    fit: Fit,
    state: State,
    dual_radius: float,
    incumbent: Incumbent,
    candidate: Callable[[FloatArray], FloatArray],
) -> str:
    """Follow the central path until a stopping criterion or rounding ends the iteration, and return the status.

    At the start all ``Diag(z) +- F' nu`` are positive definite, the diagonals of A + B equal r, and the dual radius c
    is positive. `candidate` maps the multiplier (C, n) to a dual vector in the form of the incumbent's evaluation.
    """
    best, since, iteration = np.inf, 0, incumbent.iteration
    gap, certified, first = np.inf, False, iteration

    def expected() -> float:
        return relative(gap, incumbent.objective)

    def certify(*, always: bool) -> bool:
        """Offer the iterate if `always` or if its expected gap is small; return whether the dual vector was offered."""
        enough = np.inf if always else fit.certify_below * incumbent.tol
        if expected() > enough:
            return False
        incumbent.offer_point(state.Y[:, 0], state.Y[:, 1], fit.point_weights)
        # Before the point was offered, the objective was that of an earlier point, which may be far larger.
        if expected() > enough:
            return False
        incumbent.offer_dual(candidate(fit.nu), state.z, expected())
        return True

    try:
        while True:
            certified = certify(always=incumbent.has_callback)
            reason = incumbent.stop(iteration)
            if reason is not None:
                return reason
            if iteration == first:
                state.dual = newton.dual_matrices(fit.nu, state.z)
            try:
                mu, gap = advance(newton, fit, state, dual_radius)
            except LinAlgError:
                return "stalled"
            certified = False
            # If the optimum is near zero, the gap stagnates at first; if rounding dominates, mu stagnates in the end.
            progress = mu * incumbent.gap
            best, since = (progress, 0) if progress < PROGRESS * best else (best, since + 1)
            if since == PATIENCE:
                return "stalled"
            iteration += 1
    finally:
        if not certified:
            certify(always=True)


def advance(newton: Newton, fit: Fit, state: State, dual_radius: float) -> tuple[float, float]:
    r"""Take one step; return :math:`\mu` before the step, and the gap that is expected after it.

    Raises
    ------
    LinAlgError
        A matrix was not positive definite in floating point, or no step could be taken.
    TimeOver
        A limit has passed; the state is that before the step.
    """
    Y, z = state.Y, state.z
    G, values = scaling(Y, state.dual)
    transposed, inverses = G.swapaxes(-1, -2), inverse_means(values)
    prediction = newton.values(Y, state.r)
    newton.factor(G, fit.linearise(prediction), fit.stiffness)
    deadline.check()
    n_pairs = values.size + fit.n_pairs
    mu = (float(np.vdot(values, values)) + fit.products()) / n_pairs
    off = (Y[:, 0] + Y[:, 1]).diagonal(0, 1, 2) - state.r[:, None]
    excess = newton.totals(fit.nu, z) - dual_radius

    def direction(R: FloatArray, error: FloatArray, known: FloatArray | None = None) -> tuple[FloatArray, ...]:
        """Solve for the scaled and the unscaled steps of the dual matrices, and the steps of z and r."""
        dq, dz, dr = newton.solve(Sides(R, error, off, excess, known))
        fit.direct(dq)
        moved = newton.dual_matrices(dq, dz)
        return transposed @ moved @ G, moved, dz, dr

    change, _, _, _ = direction(-Y, fit.error(0.0, corrected=False), prediction)
    reach = min(predictor_reach(change, inverses), fit.reach())
    predicted = (predicted_product(change, values, reach) + fit.products_after(reach)) / n_pairs
    away = mu + fit.distance() / n_pairs
    centre = away * min(1.0, max(SMALL, (max(predicted, 0.0) / mu) ** 2))
    scaled = primal_step(change, values)
    best = _Direction(scaled, state.dual, z, state.r, 0.0)
    for _ in range(1 + _extra_corrections(newton, values)):
        aim = centred(values, centre, scaled, change)
        change, moved, dz, dr = direction(G @ aim @ transposed, fit.error(centre, corrected=True))
        scaled = aim - change
        step = _TO_BOUNDARY * min(largest_step((scaled, change), inverses, 1.0 / _TO_BOUNDARY), fit.reach())
        if not step > best.step:
            break
        best = _Direction(scaled, moved, dz, dr, step)
        fit.keep()
    if not best.step > ROUNDING:
        raise LinAlgError("no step")
    Y = Y + best.step * (G @ best.scaled @ transposed)
    state.Y = 0.5 * (Y + Y.swapaxes(-1, -2))
    state.dual = state.dual + best.step * best.dual
    state.r = state.r + best.step * best.dr
    state.z = z + best.step * best.dz
    fit.move(best.step)
    return mu, n_pairs * ((1.0 - best.step) * mu + best.step * centre)


class _Direction(NamedTuple):
    """Search direction: the scaled step of Y, the steps of the dual matrices, z and r, and the step length."""

    scaled: FloatArray
    dual: FloatArray
    dz: FloatArray
    dr: FloatArray
    step: float


def _extra_corrections(newton: Newton, values: FloatArray) -> int:
    """Choose the number of extra corrector steps, which save iterations where iterations are expensive."""
    decompositions = 4.0 * EIGEN * values.size * values.shape[-1] ** 2
    return int(INNER * newton.work >= decompositions)
