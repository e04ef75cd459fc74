"""Scaling of the matrix of a pricing problem to moderate magnitudes, without its zero rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import EPS, divided_by_power, exponent_of, symmetrised
from qsdp._utils.validation import FloatArray, check_matrix
from qsdp.exceptions import InvalidInputError

__all__ = ["Scaled", "rounding"]


@dataclass(frozen=True, eq=False)
class Scaled:
    """A symmetric matrix divided by a power of two, restricted to its nonzero rows.

    Attributes
    ----------
    M : ndarray of shape (n, n)
        Its largest magnitude is within 1/2 .. 1, or it has no entry.
    support : ndarray of shape (n,), intp
        Coordinates of the nonzero rows.
    size : int
        Number of rows of the original matrix.
    exponent : int
        The matrix was divided by ``2.0 ** exponent``.
    """

    M: FloatArray
    support: npt.NDArray[np.intp]
    size: int
    exponent: int

    @classmethod
    def from_matrix(cls, M: Any, size: int) -> Scaled:
        """Check and scale a matrix; only its symmetric part is used."""
        array = check_matrix("M", M, n_columns=size)
        if len(array) != size:
            raise InvalidInputError(f"M must have shape {(size, size)}; got {array.shape}")
        exponent = exponent_of(float(np.abs(array).max()))
        array = divided_by_power(array, exponent)
        array = symmetrised(array)
        support = np.flatnonzero(np.any(array, axis=0))
        if len(support) < size:
            array = np.ascontiguousarray(array[np.ix_(support, support)])
        return cls(array, support, size, exponent)

    def inside(self, value: float) -> float:
        """Convert a value from units of the original matrix to those of `M`; infinite if too large."""
        return _scaled(value, -self.exponent)

    def outside(self, value: float) -> float:
        """Convert a value from units of `M` to those of the original matrix; infinite if too large."""
        return _scaled(value, self.exponent)

    def order(self, order: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Convert an order of the support's positions to an order of all coordinates, with zero rows last."""
        return np.concatenate([self.support[order], np.setdiff1d(np.arange(self.size), self.support)])

    def expand(self, rows: npt.NDArray[np.int8], level: int = 1) -> npt.NDArray[np.int8]:
        """Expand vectors of shape (k, n) to shape (k, size), with `level` in the coordinates of zero rows."""
        full = np.full((len(rows), self.size), level, dtype=np.int8)
        full[:, self.support] = rows
        return full


def rounding(M: FloatArray) -> float:
    r"""Bound the rounding error of :math:`\|Mu\|_1` in double precision, for all u at once."""
    # N products per row and N rows give gamma_2N times the sum of magnitudes; two is a safety factor.
    return 2.0 * EPS * (len(M) + 2) * float(np.abs(M).sum())


def _scaled(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(math.inf, value)
