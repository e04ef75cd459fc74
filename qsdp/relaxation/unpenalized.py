r"""Dual vectors of problems without a penalty (beta = 0).

For ``beta = 0`` a dual vector is feasible if no neuron has a pricing value, that is, if :math:`M_\nu = 0`: it is
orthogonal to every quadratic function of the data, since networks can represent all of them. The optimum is that of the
convex fit of such a function: for the squared loss, the residual sum of squares of least squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from qsdp._utils.memory import main_memory
from qsdp._utils.numeric import EPS, HALF_DIGITS
from qsdp._utils.tuning import INNER, PATIENCE
from qsdp._utils.validation import FloatArray
from qsdp.losses import DataFit
from qsdp.relaxation.instance import LinearInstance

__all__ = ["orthogonal_dual", "vanishes"]


def vanishes(uppers: FloatArray, roundings: FloatArray) -> bool:
    """Whether matrices with pricing values of at most `uppers` are zero up to twice the rounding of sums."""
    return bool(np.all(uppers <= 2.0 * roundings))


def orthogonal_dual(instance: LinearInstance, nu: FloatArray) -> FloatArray | None:
    r"""Correct `nu` to a dual vector with :math:`M_\nu = 0` up to rounding; None if that fails.

    The smallest correction in the metric of the sample weights is subtracted. If `nu` is minus the gradient of the
    squared loss at any quadratic function, this gives the optimal dual vector. Entries at an end of the conjugate's
    domain, such as those of samples beyond the margin of a hinge loss, stay there.

    Parameters
    ----------
    instance : LinearInstance
    nu : ndarray of shape (n, C)
        In the domain of the conjugate.
    """
    n, p = instance.map.n_rows, instance.map.layout.n_entries
    # Features, their free rows and the orthogonal factor are in memory at the same time.
    if 3 * nu.itemsize * n * p > main_memory():
        return None
    features = instance.map.features()
    norms = np.linalg.norm(features, axis=0)
    features = features[:, norms > 0.0] / norms[norms > 0.0]
    weights = instance.fit.weights
    roots = np.ones(n) if weights is None else np.sqrt(weights)
    free, factors = _free(instance.fit, nu), None
    rounding = 8.0 * EPS * nu.shape[1] * float(np.abs(nu).max(initial=0.0))
    # A correction without clipping is followed by one that removes its rounding.
    for _ in range(PATIENCE):
        if factors is None:
            factors = [_Factor.of(features, mask, roots) for mask in free.T]
            factors *= nu.shape[1] // len(factors)
        images = features.T @ nu
        corrections = [factor.preimage(image) for factor, image in zip(factors, images.T, strict=True)]
        corrected = nu - np.stack(corrections, axis=1)
        nu = instance.fit.project(corrected)
        # Entries that would leave the domain stay at its end from here on.
        clipped = np.abs(nu - corrected) > rounding
        if clipped.any():
            free &= ~_any_of_part(instance.fit, clipped)
            factors = None
    return nu if np.all(np.isfinite(nu)) else None


@dataclass(frozen=True, eq=False)
class _Factor:
    """Factorisation of the weighted features of some rows, of full rank: ``features[rows, chosen] = Q R / roots``."""

    rows: npt.NDArray[np.intp]
    roots: FloatArray
    Q: FloatArray
    R: FloatArray
    chosen: npt.NDArray[np.intp]

    @classmethod
    def of(cls, features: FloatArray, mask: npt.NDArray[np.bool_], roots: FloatArray) -> _Factor:
        rows = np.flatnonzero(mask)
        weighted = features[rows] * roots[rows, None]
        factors: Any
        factors = scipy.linalg.qr(weighted, mode="economic", pivoting=True, overwrite_a=True, check_finite=False)
        Q, R, order = factors
        sizes = np.abs(np.diagonal(R))
        # Products of columns that depend on others up to rounding constrain nothing further.
        rank = int(np.sum(sizes > max(weighted.shape) * EPS * sizes.max(initial=0.0)))
        return cls(rows, roots, Q[:, :rank], R[:rank, :rank], order[:rank])

    def preimage(self, image: FloatArray) -> FloatArray:
        """Return the smallest correction, zero outside the rows, whose products with the features are `image`."""
        correction = np.zeros(len(self.roots))
        if len(self.chosen):
            solved = scipy.linalg.solve_triangular(self.R, image[self.chosen], trans="T", check_finite=False)
            correction[self.rows] = self.roots[self.rows] * (self.Q @ solved)
        return correction


def _free(fit: DataFit, nu: FloatArray) -> npt.NDArray[np.bool_]:
    """Return a mask (n, P) of the samples strictly inside the conjugate's domain, for each part of the outputs."""
    step = HALF_DIGITS * fit.weighted(np.full_like(nu, float(np.abs(fit.per_weight(nu)).max(initial=0.0))))
    C = nu.shape[1]
    # Coupled outputs move along directions that keep their sum.
    directions = np.eye(C) - 1.0 / C if fit.loss.coupled else np.ones((1, C))
    outside = np.zeros(nu.shape, dtype=bool)
    for direction in directions:
        for sign in (-1.0, 1.0):
            moved = nu + sign * step * direction
            outside |= ~(np.abs(fit.project(moved) - moved) <= INNER * step)
    return ~_any_of_part(fit, outside)


def _any_of_part(fit: DataFit, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Reduce a mask of entries (n, C) to one of samples (n, P): whether it holds for any output of a part."""
    return np.asarray(mask.reshape(len(mask), fit.n_parts, -1).any(axis=2))
