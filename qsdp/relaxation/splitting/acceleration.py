"""Anderson's acceleration of a fixed-point iteration."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from qsdp._validation import FloatArray

__all__ = ["Anderson"]

#: Residuals that are remembered, and what is added to the diagonal of their products, as a share of its mean.
_MEMORY, _RIDGE = 8, 1e-8

#: Growth of the residual at which what is remembered misleads.
_GROWTH = 2.0


class Anderson:
    r"""Extrapolate the images g(v) of a map whose fixed point is sought from the last residuals f = g(v) - v.

    The combination of the remembered images whose residuals add up to the smallest one, of type II (Walker and
    Ni 2011). For an iteration that converges linearly this is a Krylov method; where the residual grows, what is
    remembered is dropped and the plain image taken.
    """

    def __init__(self) -> None:
        self._images: list[FloatArray] = []
        self._residuals: list[FloatArray] = []
        self._size = np.inf

    def extrapolate(self, image: FloatArray, residual: FloatArray) -> FloatArray:
        """Return the next point, from the image and the residual of the last one (flat arrays)."""
        size = float(np.linalg.norm(residual))
        if not size <= _GROWTH * self._size:
            self._images, self._residuals = [], []
        self._size = size
        self._images = [*self._images[-_MEMORY:], image]
        self._residuals = [*self._residuals[-_MEMORY:], residual]
        if len(self._images) < 3 or size == 0.0:
            return image
        steps = np.diff(np.stack(self._residuals), axis=0)
        products = steps @ steps.T
        products[np.diag_indices_from(products)] += _RIDGE * float(np.trace(products)) / len(products)
        try:
            weights = scipy.linalg.solve(products, steps @ residual, assume_a="pos", check_finite=False)
        except scipy.linalg.LinAlgError:
            return image
        point: FloatArray = image - np.diff(np.stack(self._images), axis=0).T @ weights
        return point if np.all(np.isfinite(point)) else image
