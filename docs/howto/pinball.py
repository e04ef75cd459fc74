"""A loss of one's own: the pinball loss, whose minimiser is a quantile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qsdp.losses import Loss


@dataclass(frozen=True)
class Pinball(Loss):
    """Pinball loss of ``r = y - t``: ``q r`` for ``r >= 0``, ``(q - 1) r`` below; its conjugate is ``u y``.

    Parameters
    ----------
    q : float, default=0.5
        The quantile, above 0 and below 1.
    """

    q: float = 0.5

    name: ClassVar[str] = "pinball"
    smooth: ClassVar[bool] = False  # a kink at t = y
    bounded_dual: ClassVar[bool] = True  # slopes stay within [-q, 1 - q]
    cones: ClassVar[frozenset[str]] = frozenset()  # a linear program needs no cone

    @property
    def lipschitz(self) -> float:
        return max(self.q, 1.0 - self.q)

    def value(self, prediction, target):
        r = target - prediction
        return float(np.sum(np.maximum(self.q * r, (self.q - 1.0) * r)))

    def gradient(self, prediction, target):
        return np.select([prediction < target, prediction > target], [-self.q, 1.0 - self.q], 0.0)

    def conjugate(self, dual, target):
        if not np.all((dual >= -self.q) & (dual <= 1.0 - self.q)):
            return math.inf
        return float(np.sum(dual * target))

    def project_dual(self, dual, target):
        return np.clip(dual, -self.q, 1.0 - self.q)

    def prox(self, point, target, step):
        up, down = point + step * self.q, point - step * (1.0 - self.q)
        return np.where(point < target, np.minimum(up, target), np.maximum(down, target))

    def expression(self, prediction, target):
        import cvxpy as cp

        r = target - prediction
        return cp.sum(cp.maximum(self.q * r, (self.q - 1.0) * r))

    def rescaled(self, scale):
        return self, float(scale)
