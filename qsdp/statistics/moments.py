"""Compensated sums of products of monomials of centred columns, and few rows with the squared loss of all rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dsfrk, dtfttr, dtrttf

from qsdp._utils.arrays import ON_PROCESSOR, ArrayLibrary, library_of
from qsdp._utils.numeric import EPS, LARGEST_INTEGER
from qsdp._utils.parallel import FAST_FLOATS, chunks
from qsdp._utils.tuning import MANY_ROWS
from qsdp._utils.validation import FloatArray, read_only
from qsdp.activations import PolynomialActivation
from qsdp.block_layout import Layout, single_block
from qsdp.forms import FormMap
from qsdp.gram import GramFactor
from qsdp.roundoff import SumRounding
from qsdp.training_data import QuadraticModel

__all__ = [
    "CHANGE_ROUNDINGS",
    "REACH",
    "ROWS_AT_ONCE",
    "Basis",
    "PackedSums",
    "Root",
    "changed",
    "monomials",
    "n_monomials",
    "packed_size",
    "reduced_blocks",
    "reduced_rows",
    "root",
]

#: Columns are not centred if the mean is at most this many deviations from zero: integers then stay integers.
_CENTRED = 4.0

#: Exponent of the power of two by which a column may exceed the scale that the first rows set.
REACH = 64

#: Number of rows whose products are summed before they enter the compensated sum. Bounds allow for the rounding of as
#: many additions; with a quarter of the rows, passes over the triangle take a tenth of the time.
ROWS_AT_ONCE = MANY_ROWS

#: Allowance, in units of EPS, for the rounding of some ten operations: a change of centres; or centred columns, root
#: weights, monomials and compensated sums.
CHANGE_ROUNDINGS = 8.0

#: Minimum number of rows of large integers that are added at once, each time in a pass over the triangle.
_FEWEST_ROWS = 16

#: Largest sum of squares of integers for which all sums of their products are exact in any order.
_EXACT_SIZE = 0.99 * LARGEST_INTEGER


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


def n_monomials(d: int) -> int:
    """Return the number of distinct products of two factors, each one of d columns or 1."""
    return (d + 1) * (d + 2) // 2


def packed_size(side: int) -> int:
    """Return the number of entries of the lower triangle of a square matrix, diagonal included."""
    return side * (side + 1) // 2


def monomials(columns: FloatArray, d: int, weights: FloatArray | None, library: ArrayLibrary = ON_PROCESSOR) -> Any:
    """Return the monomials of the rows times root weights, one monomial per row, as an array of the library.

    Monomials are the products of two of the first d columns and 1, followed by the other columns.
    """
    roots = library.to_device(np.ones(len(columns)) if weights is None else np.sqrt(weights))
    extended = library.to_device(np.vstack([columns[:, :d].T, np.ones(len(columns))]))
    weighted = extended if weights is None else extended * roots
    F = library.empty((n_monomials(d) + columns.shape[1] - d, len(columns)))
    offset = 0
    for k in range(d + 1):
        library.multiply(extended[k:], weighted[k], F[offset : offset + d + 1 - k])
        offset += d + 1 - k
    library.multiply(library.to_device(columns[:, d:].T), roots, F[offset:])
    return F


def changed(W: FloatArray, d: int, scale: FloatArray, shift: FloatArray) -> FloatArray:
    """Transform W, with one column per monomial, to the monomials of the data columns times `scale` plus `shift`."""
    q = n_monomials(d)
    first, second = np.triu_indices(d + 1)
    # Places of the columns themselves and, last, of 1.
    positions = np.flatnonzero(second == d)
    s, t = np.append(scale[:d], 1.0), np.append(shift[:d], 0.0)
    result: FloatArray = W * np.concatenate([s[first] * s[second], scale[d:]])
    if np.any(t):
        result[:, :q] += W[:, positions[second]] * (t[first] * s[second])
        result[:, :q] += W[:, positions[first]] * (s[first] * t[second])
        result[:, :q] += W[:, [q - 1]] * (t[first] * t[second])
    result[:, q:] += W[:, [q - 1]] * shift[d:]
    return result


class PackedSums:
    """Lower triangle of a sum of outer products, accumulated by compensated summation.

    It is stored in rectangular full packed format, for which LAPACK has products at the speed of full matrices. On a
    device, the products of the last rows are a full matrix; everything else is in main memory.

    Parameters
    ----------
    side : int
    high, low : ndarray of shape (side (side + 1) / 2,), optional
        The sum so far, and its rounding errors.
    device : str, optional
        Torch device on which products are summed; None means NumPy.
    roundings : float
        Bound on the errors of the sums, in units of EPS and of two of the `sizes`. Zero if all terms so far were
        integers whose sums nothing has rounded; NaN if unknown.
    excess : ndarray of shape (side,), or 0
        What the squares of `sizes` have beyond the diagonal, if centres have changed.
    at_once : int
        Number of rows whose products are summed before they enter the compensated sum.

    Notes
    -----
    A sum of n products of two columns, in any order, errs by at most n/2 EPS times the norms of both. By the
    Cauchy-Schwarz inequality, errors relative to norms add up to errors relative to the norms of all rows. A change of
    centres replaces monomials by linear combinations of them. Errors become the same combinations, with absolute
    coefficients, and no smaller where the combinations cancel: so sizes are combined and stored for all rows so far.
    """

    def __init__(
        self,
        side: int,
        high: FloatArray | None = None,
        low: FloatArray | None = None,
        device: str | None = None,
        roundings: float = 0.0,
        excess: FloatArray | float = 0.0,
        at_once: int = ROWS_AT_ONCE,
    ) -> None:
        self.side, self.high, self.low, self.device = side, high, low, device
        self.roundings, self.excess, self.at_once = roundings, excess, at_once
        #: Products of the last rows, packed, or full on a device, and the number of these rows.
        self._recent: FloatArray | None = None
        self._full: Any = None
        self._rows = 0
        #: Bound of the magnitude of these products, if they are of integers.
        self._size = 0.0

    @staticmethod
    def memory(side: int, device: str | None) -> int:
        """Return the bytes that sums with `side` rows take."""
        # The products of the last rows, the sum and its rounding error; and a full matrix of products on a device.
        triangles = 3 if device is None else 3 + 2
        return triangles * packed_size(side) * np.dtype(np.float64).itemsize

    def __getstate__(self) -> dict[str, Any]:
        # Fold first, so that two triangles are sent instead of three.
        self.fold()
        return {name: value for name, value in vars(self).items() if name != "library"}

    @cached_property
    def library(self) -> ArrayLibrary:
        """The array library that sums products; pickles do not contain it."""
        return library_of(self.device)

    @property
    def rounding(self) -> float:
        """Bound on the errors of the entries of `triangle`, relative to two of the `sizes`; NaN if unknown."""
        if self.roundings == 0.0 and self.triangle().diagonal().max() > LARGEST_INTEGER:
            return EPS
        return EPS * self.roundings

    def add(self, F: Any, size: float | None = None) -> None:
        """Add F F', for F of shape (side, rows), an array of the library.

        For integers, `size` is the largest entry of F F': the sum then stays exact.
        """
        # Without rounding, there is no need to sum few rows at once.
        exact = self.roundings == 0.0 and size is not None and size <= _EXACT_SIZE
        step = max(F.shape[1], 1) if exact else self.at_once
        for start in range(0, F.shape[1], step):
            self._add(F[:, start : start + step], size, exact)

    def add_rows(self, table: FloatArray, weights: FloatArray | None) -> None:
        """Add the weighted products of the columns of rows, exactly if they are integers without weights."""
        if weights is not None:
            table = table * np.sqrt(weights)[:, None]
        for part, size in _exact_parts(table):
            self.add(self.library.to_device(part).T, size if weights is None else None)

    def _add(self, F: Any, size: float | None, exact: bool) -> None:
        if self._size + (size or 0.0) > _EXACT_SIZE or (not exact and self._rows + F.shape[1] > self.at_once):
            self.fold()
        self._size += size or 0.0
        if self.device is not None:
            product = F @ F.T
            if self._full is None:
                self._full = product
            else:
                self._full += product
        else:
            beta, into = (0.0, np.empty(packed_size(self.side))) if self._recent is None else (1.0, self._recent)
            # Whichever of F and its transpose LAPACK takes without a copy.
            A, trans = (F, "N") if F.flags.f_contiguous else (F.T, "T")
            self._recent = dsfrk(self.side, F.shape[1], 1.0, A, beta, into, trans=trans, uplo="L", overwrite_c=1)
        self._rows += F.shape[1]
        if not exact:
            self.roundings = float(np.maximum(self.roundings, 0.5 * self._rows + CHANGE_ROUNDINGS))

    def fold(self) -> None:
        """Add the buffered products of recent rows to the compensated sum."""
        self._take_full()
        recent, self._recent, self._rows, self._size = self._recent, None, 0, 0.0
        if recent is not None:
            self._add_compensated(recent)

    def _take_full(self) -> None:
        """Move the products that were summed on a device to main memory, packed."""
        if self._full is not None:
            packed, _ = dtrttf(self.library.to_numpy(self._full).T, uplo="L")
            self._recent, self._full = packed if self._recent is None else self._recent + packed, None

    def merge(self, other: PackedSums) -> None:
        """Add another sum, whose value stays unchanged."""
        self.fold()
        self.roundings = float(np.maximum(self.roundings, other.roundings))
        self.excess = self.excess + other.excess
        other._take_full()
        for part in (other.high, other.low, other._recent):
            if part is not None:
                self._add_compensated(part.copy() if self.high is None else part)

    def changed(self, d: int, scale: FloatArray, shift: FloatArray) -> PackedSums:
        """Return the sums of the monomials of columns times `scale` plus `shift`."""
        self.fold()
        high, low = (None if part is None else self._congruent(part, d, scale, shift) for part in (self.high, self.low))
        moved = PackedSums(self.side, high, low, self.device, self.roundings + CHANGE_ROUNDINGS)
        sizes = changed(self.sizes()[None], d, np.abs(scale), np.abs(shift))[0]
        moved.excess = np.maximum(np.square(sizes) - moved._entries(*[np.arange(self.side)] * 2), 0.0)
        return moved

    def sizes(self) -> FloatArray:
        """Return the norms (side,) of the monomials, including the parts that cancelled when centres changed."""
        return np.sqrt(np.maximum(self._entries(*[np.arange(self.side)] * 2), 0.0) + self.excess)

    def means(self, d: int) -> tuple[float, FloatArray, FloatArray]:
        """Return the sums of the weights, of the weighted columns, and of their squares, for d columns and targets."""
        q = n_monomials(d)
        columns = np.flatnonzero(np.triu_indices(d + 1)[1] == d)[:d]
        positions = np.concatenate([columns, np.arange(q, self.side)])
        last = np.full(len(positions), q - 1)
        firsts = self._entries(np.maximum(positions, last), np.minimum(positions, last))
        return float(self._entries(last[:1], last[:1])[0]), firsts, self._entries(positions, positions)

    def _entries(self, row: npt.NDArray[np.intp], column: npt.NDArray[np.intp]) -> FloatArray:
        """Return entries of the packed lower triangle, a rectangle with the last columns transposed above the first."""
        self._take_full()
        half, odd = (self.side + 1) // 2, self.side % 2
        i = np.where(column < half, row + 1 - odd, column - half)
        j = np.where(column < half, column, row - half + odd)
        positions, parts = i + j * (self.side + 1 - odd), (self._recent, self.low, self.high)
        entries: FloatArray = np.sum([part[positions] for part in parts if part is not None], axis=0)
        return entries

    def triangle(self) -> FloatArray:
        """Return the sum as a matrix, of which only the lower triangle is valid."""
        self._take_full()
        parts = [part for part in (self._recent, self.low, self.high) if part is not None]
        return self._unpacked(np.sum(parts, axis=0))

    def _add_compensated(self, added: FloatArray) -> None:
        if self.high is None:
            self.high = added
            return
        if self.low is None:
            self.low = np.zeros_like(self.high)
        for part in chunks(len(added), 1, work=FAST_FLOATS):
            a, b = self.high[part], added[part]
            total = a + b
            virtual = total - a
            self.low[part] += (a - (total - virtual)) + (b - virtual)
            self.high[part] = total

    def _congruent(self, packed: FloatArray, d: int, scale: FloatArray, shift: FloatArray) -> FloatArray:
        lower = np.tril(self._unpacked(packed))
        full = lower + np.tril(lower, -1).T
        full = changed(changed(full, d, scale, shift).T, d, scale, shift)
        result, _ = dtrttf(np.asfortranarray(0.5 * (full + full.T)), uplo="L")
        return np.asarray(result)

    def _unpacked(self, packed: FloatArray) -> FloatArray:
        full, _ = dtfttr(self.side, packed, uplo="L")
        return np.asarray(full)


def _exact_parts(table: FloatArray) -> Iterator[tuple[FloatArray, float | None]]:
    """Yield parts of some rows for `PackedSums.add`, each with its largest sum of squares if all are integers."""
    if len(table) and (np.any(table[0] != np.rint(table[0])) or np.any(table != np.rint(table))):
        yield table, None
        return
    size = float(np.einsum("ij,ij->j", table, table).max(initial=0.0))
    if size <= _EXACT_SIZE or len(table) <= _FEWEST_ROWS:
        yield table, size
    else:
        count = min(math.ceil(size / _EXACT_SIZE), len(table) // _FEWEST_ROWS)
        for part in np.array_split(table, max(2, count)):
            yield from _exact_parts(part)


class Root(NamedTuple):
    """Factor of a lower triangle A, see `root`: rows W of shape (rank, side), its pivots, and its error."""

    W: FloatArray
    order: npt.NDArray[np.intp]
    rounding: float


def root(triangle: FloatArray, sizes: FloatArray) -> Root:
    r"""Return W such that W'W has this lower triangle, with as many rows as its rank, by pivoted Cholesky.

    W is upper triangular in the first columns of `order`. The entries of W'W err by at most `rounding` times two of the
    sizes: in rows or columns of pivots, the k-th step has sums of k products (Higham, chapter 10), and the others are
    compared.
    """
    factor = GramFactor(triangle, sizes)
    W, order = factor.rows, factor.order
    rest = order[len(W) :]
    units = np.where(sizes > 0.0, sizes, 1.0)[rest]
    left = triangle[np.maximum.outer(rest, rest), np.minimum.outer(rest, rest)] / units / units[:, None]
    others = W[:, rest] / units
    left -= others.T @ others
    return Root(W, order, EPS * (0.5 * len(W) + CHANGE_ROUNDINGS) + float(np.abs(left).max(initial=0.0)))


def reduced_rows(
    basis: Basis, sums: PackedSums, d: int, activation: PolynomialActivation | None, n_samples: int
) -> QuadraticModel:
    """Compute k rows of monomials of d columns, and targets (k, C), with the same squared loss as all rows, from sums.

    They are a pivoted Cholesky factor of the sums with unit diagonal, transformed back to the original columns.
    """
    # Dividing by the scale of the largest column keeps the fourth powers of the others representable.
    unit = int(np.where(basis.centre == 0.0, basis.exponent, np.frexp(basis.centre)[1])[:d].max())
    plain = Basis(np.zeros(len(basis.centre)), np.where(np.arange(len(basis.centre)) < d, unit, 0))
    sizes, change = sums.sizes(), basis.change(plain)
    pivoted = root(sums.triangle(), sizes)
    W = changed(pivoted.W, d, *change)
    lifted = activation is not None and activation.lifted
    a, b, c = (1.0, 0.0, 0.0) if activation is None else activation.coefficients
    first, second = np.triu_indices(d + 1)
    kinds = (first == d).astype(int) + (second == d)
    parts = np.array([a, 0.5 * np.ldexp(b, -unit), np.ldexp(c, -2 * unit)])[kinds]
    chosen = np.flatnonzero(second < d + lifted)
    rows, target = read_only(np.ascontiguousarray(W[:, chosen] * parts[chosen])), W[:, n_monomials(d) :]
    # Combinations that cancel keep the errors of their terms.
    original = changed(sizes[None], d, *map(np.abs, change))[0]
    form_sizes, target_sizes = original[chosen] * np.abs(parts[chosen]), original[n_monomials(d) :]
    rounding = _rounding(sums, pivoted, sizes, form_sizes, target_sizes, target)
    factor = float(np.ldexp(1.0, 2 * unit))
    data = FormMap(single_block(d + lifted), rows, factor, None, lifted, n_samples, rounding=rounding)
    return QuadraticModel(data, target)


def reduced_blocks(layout: Layout, sums: PackedSums, n_samples: int) -> QuadraticModel:
    """Compute k rows of packed blocks, and targets (k, C), with the same squared loss as all rows, from sums."""
    sizes, p = sums.sizes(), layout.n_entries
    pivoted = root(sums.triangle(), sizes)
    # All entries and targets may be zero.
    W = pivoted.W if len(pivoted.W) else np.zeros((1, len(sizes)))
    rows, target = read_only(np.ascontiguousarray(W[:, :p])), W[:, p:]
    # Squares of small numbers underflow, and their sums then have few digits; larger sizes are valid, too.
    largest = np.abs(rows).max(axis=0)
    norms = np.linalg.norm(rows / np.where(largest > 0.0, largest, 1.0), axis=0) * largest
    form_sizes = np.maximum(
        sizes[:p], np.where(norms > 0.0, norms + 4.0 * np.finfo(np.float64).smallest_subnormal, 0.0)
    )
    rounding = _rounding(sums, pivoted, sizes, form_sizes, sizes[p:], target)
    return QuadraticModel(FormMap.in_blocks(layout, rows, n_samples, rounding), target)


def _rounding(
    sums: PackedSums,
    pivoted: Root,
    sizes: FloatArray,
    form_sizes: FloatArray,
    target_sizes: FloatArray,
    target: FloatArray,
) -> SumRounding:
    """Return the rounding of the sums and of their factor, with sizes of the columns of forms and targets."""
    gamma = sums.rounding + pivoted.rounding + CHANGE_ROUNDINGS * EPS
    pivots = pivoted.order[: len(pivoted.W)]
    table = pivoted.W[:, pivots] / sizes[pivots]
    # In smaller directions, what a combination of columns leaves of a dual vector costs less than its errors.
    small = np.flatnonzero(np.square(table.diagonal()) <= gamma)
    k = int(small[0]) if len(small) else len(pivots)
    norms = np.linalg.norm(target, axis=0)
    with np.errstate(divide="ignore"):
        ratio = np.where(target_sizes > 0.0, target_sizes / np.where(target_sizes > 0.0, norms, 1.0), 1.0).max()
    return SumRounding(gamma, read_only(table[:k, :k].copy()), read_only(form_sizes.copy()), max(1.0, float(ratio)))
