"""Trust-region Newton steps by preconditioned conjugate gradients (Steihaug 1983)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qsdp._validation import FloatArray
from qsdp.relaxation.lowrank.objective import Point

__all__ = ["Step", "newton_step"]


@dataclass(frozen=True, eq=False)
class Step:
    """A step, with the change that the quadratic model predicts along it.

    Attributes
    ----------
    direction : ndarray of shape (N, K)
    slope, curvature : float
        Of the model along the direction.
    length : float
        In the preconditioner's metric.
    at_boundary : bool
        Whether the region ended it.
    products : int
        Products with the Hessian that it took.
    """

    direction: FloatArray
    slope: float
    curvature: float
    length: float
    at_boundary: bool
    products: int

    def predicted(self, share: float) -> float:
        """Return the predicted decrease for a share of the step."""
        return -share * self.slope - 0.5 * share * share * self.curvature


def newton_step(
    point: Point, radius: float, accuracy: float, most: int, expired: Callable[[], bool] = lambda: False
) -> Step:
    """Return an approximate minimiser of the quadratic model within the radius.

    Parameters
    ----------
    point : Point
    radius : float
        In the preconditioner's metric.
    accuracy : float
        Of the residual, relative to the gradient.
    most : int
        Products with the Hessian at most.
    expired : callable
        Asked after every product whether it has to be the last.
    """
    g = point.gradient
    x, Hx = np.zeros_like(g), np.zeros_like(g)
    r = -g
    p = z = point.precondition(r)
    rz = first = float(np.vdot(r, z))
    # Norms in the metric of x and p, and their product, by recurrence.
    xx, xp, pp = 0.0, 0.0, rz
    count, at_boundary = 0, False
    while count < most and rz > 0.0:
        count += 1
        Hp = point.hessian(p)
        bend = float(np.vdot(p, Hp))
        share = rz / bend if bend > 0.0 else math.inf
        if not math.isfinite(share) or xx + 2.0 * share * xp + share * share * pp >= radius * radius:
            share = (math.sqrt(max(xp * xp + pp * (radius * radius - xx), 0.0)) - xp) / pp
            at_boundary = True
        x, Hx = x + share * p, Hx + share * Hp
        xx += 2.0 * share * xp + share * share * pp
        if at_boundary:
            break
        r = r - share * Hp
        z = point.precondition(r)
        rz, before = float(np.vdot(r, z)), rz
        if rz <= accuracy * accuracy * first or expired():
            break
        turn = rz / before
        xp, pp = turn * (xp + share * pp), rz + turn * turn * pp
        p = z + turn * p
    return Step(x, float(np.vdot(g, x)), float(np.vdot(x, Hx)), math.sqrt(max(xx, 0.0)), at_boundary, count)
