"""The pinball loss, whose minimiser is a quantile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from qsdp.losses import Loss, PiecewiseQuadratic

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pinball(PiecewiseQuadratic):
    """Loss ``max(q r, (q - 1) r)`` of the residual ``r = y - t``.

    Parameters
    ----------
    q : float, default=0.5
        The quantile, above 0 and below 1.
    """

    q: float = 0.5

    name: ClassVar[str] = "pinball"
    # A kink at t = y, and slopes q - 1 and q.
    smooth: ClassVar[bool] = False
    bounded_dual: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        return max(self.q, 1.0 - self.q)

    def interval(self, target: Array) -> tuple[float, float]:
        return self.q - 1.0, self.q

    def values(self, prediction: Array, target: Array) -> Array:
        r = target - prediction
        return np.maximum(self.q * r, (self.q - 1.0) * r)

    def expression(
        self,
        prediction: Any,
        target: Array,
        weight: float | Array = 1.0,
    ) -> Any:
        import cvxpy as cp

        r = target - prediction
        loss = cp.maximum(self.q * r, (self.q - 1.0) * r)
        return cp.sum(cp.multiply(weight, loss))

    def rescaled(self, scale: float) -> tuple[Loss, float]:
        return self, float(scale)
