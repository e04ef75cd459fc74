"""Anderson acceleration of a fixed-point iteration."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from qsdp._utils.numeric import ROUNDING
from qsdp._utils.parallel import LARGE_FLOATS
from qsdp._utils.tuning import MAX_STEPS, PATIENCE, SMALL
from qsdp._utils.validation import FloatArray

__all__ = ["Anderson"]


class Anderson:
    r"""Anderson acceleration of a map g, from its last images g(v) and residuals f = g(v) - v.

    The next point is the combination of the stored images whose combined residual is smallest (type II, Walker and
    Ni 2011). For a linearly convergent iteration this is a Krylov method. If the residual grows, the stored steps are
    dropped, the iteration continues from the last image that the map itself gave, and the map, which converges, is
    iterated without extrapolation for a while.
    """

    def __init__(self) -> None:
        self._smallest = np.inf
        self._pause = self._rest = 0
        self._forget()

    def _forget(self) -> None:
        self._count = 0
        self._last: tuple[FloatArray, FloatArray] | None = None
        self._plain: FloatArray | None = None

    def _give_up(self) -> None:
        """Drop the stored steps, and pause extrapolation for about twice as long as the last time."""
        self._forget()
        self._pause = min(2 * self._pause + PATIENCE, MAX_STEPS)
        self._rest = self._pause

    def extrapolate(self, image: FloatArray, residual: FloatArray) -> FloatArray:
        """Return the next point, given the image and the residual of the last point (flat arrays)."""
        size = float(np.linalg.norm(residual))
        if not size <= 2.0 * self._smallest and self._plain is not None:
            # The extrapolation failed: return to the last image of the map itself.
            plain = self._plain
            self._give_up()
            return plain
        self._smallest = min(self._smallest, size)
        if self._rest:
            self._rest -= 1
            return image
        if self._last is not None:
            self._remember(image - self._last[0], residual - self._last[1])
        self._last = image, residual
        k = min(self._count, len(self._residuals)) if self._count else 0
        if k < 2 or size == 0.0:
            return image
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # Scale the steps to unit length: old steps are longer by orders of magnitude.
            scales = 1.0 / np.sqrt(np.diagonal(self._products)[:k])
            products = self._products[:k, :k] * np.outer(scales, scales)
            products[np.diag_indices(k)] += ROUNDING
            try:
                factor = scipy.linalg.cho_factor(products, check_finite=False)
            except scipy.linalg.LinAlgError:
                return image
            weights = scales * scipy.linalg.cho_solve(
                factor, scales * (self._residuals[:k] @ residual), check_finite=False
            )
            leap = weights @ self._images[:k]
        # Longer extrapolations come from steps that are linearly dependent up to rounding; NaN fails the test as well.
        if not float(np.linalg.norm(leap)) <= size / SMALL:
            self._give_up()
            return image
        self._plain = image
        point: FloatArray = image - leap
        return point

    def _remember(self, image: FloatArray, residual: FloatArray) -> None:
        """Store a step for the extrapolation, in place of the oldest one."""
        if self._count == 0:
            memory = min(max(LARGE_FLOATS // image.size, 4), MAX_STEPS)
            self._images, self._residuals = np.zeros((memory, image.size)), np.zeros((memory, image.size))
            self._products = np.zeros((memory, memory))
        position = self._count % len(self._images)
        self._images[position], self._residuals[position] = image, residual
        with np.errstate(over="ignore", invalid="ignore"):
            self._products[position] = self._products[:, position] = self._residuals @ residual
        self._count += 1
