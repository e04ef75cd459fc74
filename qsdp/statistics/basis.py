"""Affine coordinates, centres and scales, in which the columns of data are accumulated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray

__all__ = ["REACH", "Basis"]

#: Columns are not centred if the mean is at most this many deviations from zero: integers then stay integers.
_CENTRED = 4.0

#: Exponent of the power of two by which a column may exceed the scale that the first rows set.
REACH = 64


@dataclass(frozen=True, eq=False)
class Basis:
    """Centres and scales of columns, which are represented as ``(x - centre) / 2^exponent``.

    Attributes
    ----------
    centre : ndarray of shape (k,)
        Zero, or a number near the mean, with few digits.
    exponent : ndarray of shape (k,), int64
    """

    centre: FloatArray
    exponent: npt.NDArray[np.int64]

    @classmethod
    def from_rows(cls, columns: FloatArray) -> Basis:
        """Return a basis chosen from some rows: centres near their means, scales near their spreads."""
        largest = np.where((size := np.abs(columns).max(axis=0)) > 0.0, size, 1.0)
        unit = columns / largest
        centre = _rounded_means(unit.mean(axis=0), unit.std(axis=0)) * largest
        centre = np.where(np.all(columns == columns[0], axis=0), columns[0], centre)
        spread = np.abs(columns - centre).max(axis=0)
        return cls(centre, _exponents(np.where(spread > 0.0, spread, largest)))

    @classmethod
    def plain(cls, count: int) -> Basis:
        """Return the identity basis, with centre zero and scale one."""
        return cls(np.zeros(count), np.zeros(count, dtype=np.int64))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Basis):
            return NotImplemented
        return np.array_equal(self.centre, other.centre) and np.array_equal(self.exponent, other.exponent)

    __hash__ = None  # type: ignore[assignment]  # compares arrays by value

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return the coordinates of columns in this basis."""
        coordinates: FloatArray = columns - self.centre
        coordinates *= np.ldexp(1.0, -self.exponent)
        return coordinates

    def reaching(self, columns: FloatArray) -> Basis:
        """Return a basis with the same centres, and scales so large that products of further rows do not overflow."""
        excess = _exponents(np.abs(columns - self.centre).max(axis=0)) - self.exponent
        far = excess > REACH
        return Basis(self.centre, np.where(far, self.exponent + excess, self.exponent)) if np.any(far) else self

    def recentred(self, mean: FloatArray, deviation: FloatArray) -> Basis:
        """Return a basis of the same scales centred by these moments of columns, or this one if it is well centred."""
        shift = _rounded_means(mean, deviation)
        return Basis(self.centre + np.ldexp(shift, self.exponent), self.exponent) if np.any(shift) else self

    def at_scale_of(self, other: Basis) -> Basis:
        """Return a basis with the same centres and the larger scale of each column."""
        return Basis(self.centre, np.maximum(self.exponent, other.exponent))

    def change(self, other: Basis) -> tuple[FloatArray, FloatArray]:
        """Return the scale and the shift that convert coordinates in this basis to coordinates in the other."""
        scale: FloatArray = np.ldexp(1.0, self.exponent - other.exponent)
        shift: FloatArray = np.ldexp(self.centre - other.centre, -other.exponent)
        return scale, shift


def _rounded_means(mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """Round means many deviations from zero to multiples of a power of two near the deviation, others to zero."""
    grid = np.ldexp(1.0, _exponents(deviation))
    rounded: FloatArray = np.where(np.abs(mean) > _CENTRED * deviation, np.round(mean / grid) * grid, 0.0)
    return rounded


def _exponents(values: FloatArray) -> npt.NDArray[np.int64]:
    exponents: npt.NDArray[np.int64] = np.frexp(values)[1].astype(np.int64)
    return exponents
