"""Anderson's acceleration of a fixed-point iteration."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from qsdp._validation import FloatArray

__all__ = ["Anderson"]

#: Floats of the steps that are remembered, and their number at least and at most.
_FLOATS, _FEWEST, _MOST = 2**21, 5, 100

#: What is added to the diagonal of the products of the steps, as a share of its mean.
_RIDGE = 1e-10

#: Growth over the smallest residual at which what is remembered misleads.
_GROWTH = 2.0


class Anderson:
    r"""Extrapolate the images g(v) of a map whose fixed point is sought from the last residuals f = g(v) - v.

    The combination of the remembered images whose residuals add up to the smallest one, of type II (Walker and
    Ni 2011). For an iteration that converges linearly this is a Krylov method; where the residual grows, what is
    remembered is dropped and the plain image taken.
    """

    def __init__(self) -> None:
        self._smallest = np.inf
        self._forget()

    def _forget(self) -> None:
        self._count = 0
        self._last: tuple[FloatArray, FloatArray] | None = None

    def extrapolate(self, image: FloatArray, residual: FloatArray) -> FloatArray:
        """Return the next point, from the image and the residual of the last one (flat arrays)."""
        size = float(np.linalg.norm(residual))
        if not size <= _GROWTH * self._smallest:
            self._forget()
            self._smallest = size
        self._smallest = min(self._smallest, size)
        if self._last is not None:
            self._remember(image - self._last[0], residual - self._last[1])
        self._last = image, residual
        k = min(self._count, len(self._residuals)) if self._count else 0
        if k < 2 or size == 0.0:
            return image
        products = self._products[:k, :k].copy()
        products[np.diag_indices(k)] += _RIDGE * float(np.trace(products)) / k
        try:
            factor = scipy.linalg.cho_factor(products, check_finite=False)
        except scipy.linalg.LinAlgError:
            return image
        with np.errstate(over="ignore", invalid="ignore"):
            weights = scipy.linalg.cho_solve(factor, self._residuals[:k] @ residual, check_finite=False)
            point: FloatArray = image - weights @ self._images[:k]
        return point if np.all(np.isfinite(point)) else image

    def _remember(self, image: FloatArray, residual: FloatArray) -> None:
        """Put a step in the place of the oldest one."""
        if self._count == 0:
            memory = min(max(_FLOATS // image.size, _FEWEST), _MOST)
            self._images, self._residuals = np.zeros((memory, image.size)), np.zeros((memory, image.size))
            self._products = np.zeros((memory, memory))
        place = self._count % len(self._images)
        self._images[place], self._residuals[place] = image, residual
        self._products[place] = self._products[:, place] = self._residuals @ residual
        self._count += 1
