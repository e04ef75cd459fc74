"""A user-defined loss: the pinball loss, minimised by a quantile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qsdp.losses import PiecewiseQuadratic


@dataclass(frozen=True)
class Pinball(PiecewiseQuadratic):
    """Pinball loss ``max(q r, (q - 1) r)`` with ``r = y - t``.

    Parameters
    ----------
    q : float, default=0.5
        The quantile, above 0 and below 1.
    """

    q: float = 0.5

    name: ClassVar[str] = "pinball"
    smooth: ClassVar[bool] = False  # a kink at t = y
    bounded_dual: ClassVar[bool] = True  # the interval is
    cones: ClassVar[frozenset[str]] = (
        frozenset()
    )  # a linear program needs no cone

    @property
    def lipschitz(self) -> float:
        return max(self.q, 1.0 - self.q)

    def interval(self, target):
        return self.q - 1.0, self.q

    def values(self, prediction, target):
        r = target - prediction
        return np.maximum(self.q * r, (self.q - 1.0) * r)

    def expression(self, prediction, target, weight=1.0):
        import cvxpy as cp

        r = target - prediction
        return cp.sum(
            cp.multiply(
                weight, cp.maximum(self.q * r, (self.q - 1.0) * r)
            )
        )

    def rescaled(self, scale):
        return self, float(scale)
