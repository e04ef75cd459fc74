"""Newton steps within a trust region, by preconditioned conjugate gradients (Steihaug 1983)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray

__all__ = ["ACCEPTED", "Step", "newton_step"]

#: Smallest ratio of actual to predicted decrease at which a step is taken, and the ratio at which the region may grow.
#: Bounds of loose tolerance, and the default beta with them, depend on both to their tolerance.
ACCEPTED, _GOOD = 0.05, 0.75


@dataclass(frozen=True, eq=False)
class Step:
    """Step of a trust-region method, with the quadratic model along it.

    Attributes
    ----------
    direction : ndarray in the shape of the gradient
    slope, curvature : float
        Coefficients of the model along the direction.
    length : float
        Length in the preconditioner's metric.
    at_boundary : bool
        Whether the step ends at the boundary of the region.
    """

    direction: FloatArray
    slope: float
    curvature: float
    length: float
    at_boundary: bool

    def predicted(self, fraction: float = 1.0) -> float:
        """Compute the predicted decrease for a fraction of the step."""
        return -fraction * self.slope - 0.5 * fraction * fraction * self.curvature

    def next_radius(self, radius: float, ratio: float, fraction: float = 1.0) -> float:
        """Return the radius after the fraction `share` of the step, for a ratio of actual to predicted decrease."""
        if fraction < 1.0 or ratio < 0.25:
            return 0.25 * fraction * self.length
        return 2.0 * radius if ratio > _GOOD and self.at_boundary else radius


def newton_step(
    gradient: FloatArray,
    hessian: Callable[[FloatArray], FloatArray],
    precondition: Callable[[FloatArray], FloatArray],
    *,
    radius: float,
    accuracy: float,
    max_products: int,
) -> Step:
    r"""Minimise :math:`\langle g, x \rangle + \tfrac12 \langle x, H x \rangle` approximately in a ball.

    After a time limit, the current product with H is the last.

    Parameters
    ----------
    gradient : ndarray
        g.
    hessian : callable
        Returns H x, symmetric; not necessarily positive.
    precondition : callable
        Returns :math:`P^{-1} x`, P positive definite: lengths are measured in the metric P.
    radius : float
        Radius of the ball.
    accuracy : float
        Stop once the residual is below this fraction of the gradient, both in the dual metric.
    max_products : int
        Maximum number of products with the Hessian.
    """
    x, Hx = np.zeros_like(gradient), np.zeros_like(gradient)
    r = -gradient
    p = z = precondition(r)
    rz = first = float(np.vdot(r, z))
    # Squared norms of x and p in the metric, and their inner product, by recurrence.
    xx, xp, pp = 0.0, 0.0, rz
    count, at_boundary = 0, False
    while count < max_products and rz > 0.0:
        count += 1
        Hp = hessian(p)
        pHp = float(np.vdot(p, Hp))
        step = rz / pHp if pHp > 0.0 else math.inf
        if not math.isfinite(step) or xx + 2.0 * step * xp + step * step * pp >= radius * radius:
            step = (math.sqrt(max(xp * xp + pp * (radius * radius - xx), 0.0)) - xp) / pp
            at_boundary = True
        x += step * p
        Hx += step * Hp
        xx += 2.0 * step * xp + step * step * pp
        if at_boundary:
            break
        r = r - step * Hp
        z = precondition(r)
        rz, before = float(np.vdot(r, z)), rz
        if rz <= accuracy * accuracy * first or deadline.over():
            break
        ratio = rz / before
        xp, pp = ratio * (xp + step * pp), rz + ratio * ratio * pp
        p = z + ratio * p
    slope, curvature = float(np.vdot(gradient, x)), float(np.vdot(x, Hx))
    return Step(x, slope, curvature, math.sqrt(max(xx, 0.0)), at_boundary)
