r"""The Gram matrix of a data map, a sufficient statistic for the squared loss.

The entry of the pairs (a, b) and (c, d) of columns is :math:`\sum_i w_i x_{ia} x_{ib} x_{ic} x_{id}`, for any order of
the four columns. So of the :math:`p^2` entries, p = N(N + 1)/2, only about :math:`N^4/24` are distinct, a third of the
entries of a triangle. They are computed as products of the pairs whose larger column lies in a group of columns with
all pairs that begin in that group or later.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpstrf, dtrtrs

from qsdp._utils import deadline
from qsdp._utils.arrays import ArrayLibrary, library_of
from qsdp._utils.numeric import EPS
from qsdp._utils.parallel import LARGE_FLOATS
from qsdp._utils.tuning import MANY_ROWS
from qsdp._utils.validation import FloatArray
from qsdp.block_layout import Layout
from qsdp.data_map import DataMap

__all__ = [
    "Gram",
    "GramFactor",
    "SharedGram",
    "pair_operations",
    "pair_positions",
    "pair_sums",
    "pairs_of",
    "symmetric_basis",
    "to_matrices",
    "to_vectors",
]

#: Columns of a group. With more columns, more entries are computed twice; with fewer, products are too narrow.
_COLUMNS = 16


@dataclass(frozen=True, eq=False)
class Gram:
    r"""Sums over the samples of products of two entries of :math:`\mathcal{X}_i`, and of entries and targets.

    With rows :math:`F_i`, the upper triangles of :math:`\mathcal{X}_i`, and :math:`s` the upper triangle of a symmetric
    matrix S whose entries off the diagonal count twice,

    .. math:: \sum_i w_i (\langle \mathcal{X}_i, S \rangle - y_i)^2 = s^T G s - 2 s^T h + \sum_i w_i y_i^2 .

    Attributes
    ----------
    layout : Layout
        Positions of the P entries in the matrices; P = N(N + 1)/2 for one matrix of side N.
    scale : float
        Common factor of the data map, see `in_units`.
    matrix : ndarray of shape (P, P)
        :math:`G = F^T W F`.
    products : ndarray of shape (P, C)
        :math:`h = F^T W Y`.
    """

    layout: Layout
    scale: float
    matrix: FloatArray
    products: FloatArray

    @classmethod
    def from_map(
        cls,
        data: DataMap,
        targets: FloatArray,
        weights: FloatArray | None = None,
        dtype: Any = np.float64,
        device: str | None = None,
    ) -> Gram:
        """Compute the Gram matrix of a data map with targets of shape (n, C) and sample weights.

        Parameters
        ----------
        data : DataMap
        targets : ndarray of shape (n, C)
        weights : ndarray of shape (n,), optional
            None gives every sample weight one.
        dtype : data type
            Data type of the matrix.
        device : str, optional
            Torch device on which its products run; None means NumPy.

        Raises
        ------
        TimeOver
            A time limit passed between chunks of rows.
        """
        weighted = targets if weights is None else weights[:, None] * targets
        return cls(data.layout, data.scale, data.pair_sums(weights, dtype, device), data.sums(weighted))

    def in_units(self, scale: float, dtype: Any = np.float64) -> Gram:
        """Rescale to a data map with the common factor `scale`.

        Nothing is rounded if the ratio of the scales is a power of two.
        """
        ratio = scale / self.scale
        matrix = np.multiply(self.matrix, ratio**2, dtype=dtype, casting="same_kind")
        return Gram(self.layout, scale, matrix, ratio * self.products)

    def into_basis(self) -> tuple[FloatArray, FloatArray]:
        """Transform matrix and products to `symmetric_basis`, overwriting the matrix to save memory."""
        factors, matrix = self.layout.factors, self.matrix
        matrix *= factors
        matrix *= factors[:, None]
        return matrix, self.products * factors[:, None]


class SharedGram:
    """Gram matrix shared by problems with the same data and targets, such as those of several betas, computed once.

    Their normalised instances differ by a power of two in the data map.
    """

    def __init__(self) -> None:
        self._known: Gram | None = None

    def from_map(
        self, data: DataMap, targets: FloatArray, weights: FloatArray | None, dtype: Any, device: str | None
    ) -> Gram:
        """Return `Gram.from_map` these arguments, in arrays that the caller may overwrite."""
        known = self._known
        # A solver may drop columns of zeros.
        if known is None or known.layout != data.layout or not np.can_cast(dtype, known.matrix.dtype):
            # Free the memory of one in single precision first.
            known = self._known = None
            known = self._known = Gram.from_map(data, targets, weights, dtype, device)
        return known.in_units(data.scale, dtype)


class GramFactor:
    r"""Factor R of a Gram matrix, :math:`G = R^T R` in `symmetric_basis`, with as many rows as the rank of G.

    A pivoted Cholesky factorisation finds the rank: G is singular if columns of the data are binary
    (:math:`x_i^2` is constant) or dependent. With targets :math:`R^{-T} h` the squared loss equals the loss of the data
    up to a constant.

    Parameters
    ----------
    matrix : ndarray of shape (p, p)
        G, of which only the lower triangle is read.
    sizes : ndarray of shape (p,), optional
        Bounds on the norms of the columns, if rounding errors of G are relative to larger ones than its own diagonal.

    Attributes
    ----------
    order : ndarray of shape (p,)
        Order of the coordinates in which R is upper trapezoidal.
    lower : ndarray of shape (p, rank)
        Transpose of R in this order.
    """

    def __init__(self, matrix: FloatArray, sizes: FloatArray | None = None) -> None:
        units = np.sqrt(np.maximum(matrix.diagonal(), 0.0)) if sizes is None else sizes
        units = np.where(units > 0.0, units, 1.0)
        scaled = matrix / units
        scaled /= units[:, None]
        # LAPACK takes the transpose without a copy. Further pivots would be at most as large as rounding errors.
        factor, pivots, rank, _ = dpstrf(scaled.T, lower=0, tol=len(matrix) * EPS, overwrite_a=1)
        self.order: npt.NDArray[np.intp] = pivots - 1
        lower = np.tril(factor.T)[:, :rank]
        lower *= units[self.order, None]
        self.lower: FloatArray = np.asfortranarray(lower)
        self._leading = self.lower[: lower.shape[1]]

    @property
    def rows(self) -> FloatArray:
        """R in the order of G, of shape (rank, p)."""
        rows = np.empty(self.lower.shape[::-1])
        rows[:, self.order] = self.lower.T
        return rows

    def targets(self, products: FloatArray) -> FloatArray:
        """Solve R'y = products for targets y, or for a multiplier of the rows, using the leading rows only."""
        return self._solved(products[self.order[: len(self._leading)]], transposed=False)

    def preimage(self, values: FloatArray) -> FloatArray:
        """Solve R t = `values` for coordinates t, of which as many as the rank are not zero."""
        coordinates = np.zeros((len(self.lower), *values.shape[1:]))
        coordinates[self.order[: len(self._leading)]] = self._solved(values, transposed=True)
        return coordinates

    def _solved(self, values: FloatArray, *, transposed: bool) -> FloatArray:
        """Solve with the leading triangle, in a direct LAPACK call: wrappers take longer than small systems."""
        if not len(self._leading):
            # LAPACK would print an error for the empty system of data that are zero.
            return values
        solution, info = dtrtrs(self._leading, values, lower=1, trans=int(transposed))
        if info > 0:
            raise np.linalg.LinAlgError("the factor of the Gram matrix is singular")
        return np.asarray(solution)


@lru_cache
def symmetric_basis(size: int) -> tuple[np.ndarray, np.ndarray, FloatArray]:
    """Return row indices, column indices and factors of an orthonormal basis of symmetric matrices, read-only."""
    first, second = pairs_of(size)
    factors = np.where(first == second, 1.0, np.sqrt(2.0))
    factors.flags.writeable = False
    return first, second, factors


def to_vectors(T: FloatArray, layout: Layout, weights: FloatArray | None = None) -> FloatArray:
    """Convert a stack of symmetric matrices (C R, N, N) to coordinates (P, C) in `symmetric_basis`.

    Real weights of shape (C, p), by default zero, are coordinates themselves.
    """
    return (layout.entries(T, weights) * layout.factors).T


def to_matrices(t: FloatArray, layout: Layout) -> FloatArray:
    """Convert coordinates (P, C) to a stack of symmetric matrices (C R, N, N)."""
    return layout.matrices(t.T / layout.factors)


def to_point(t: FloatArray, layout: Layout) -> tuple[FloatArray, FloatArray]:
    """Convert coordinates (P, C) to a stack of symmetric matrices (C R, N, N) and real weights (C, p)."""
    return to_matrices(t, layout), t[layout.weight_entries].T


# -- products of four columns ---------------------------------------------------------------------------------


def pair_operations(n: int, size: int) -> float:
    """Estimate the floating-point operations of `pair_sums` for n rows."""
    counts = [_counts(size, group) for group in _groups(size)]
    return 2.0 * n * sum(ending * beginning for ending, beginning in counts)


def pair_sums(
    X: FloatArray, weights: FloatArray | None = None, dtype: Any = np.float64, device: str | None = None
) -> FloatArray:
    r"""Compute :math:`F^T W F` of shape (p, p), where row :math:`F_i` holds all products of two entries of row i of X.

    Parameters
    ----------
    X : ndarray of shape (n, N)
    weights : ndarray of shape (n,), optional
        Positive weights of the rows; None gives every row weight one.
    dtype : data type
        Data type of the result and of the products of batches of rows, which are summed in double precision.
    device : str, optional
        Device of torch on which the products run; None means NumPy.

    Raises
    ------
    TimeOver
        A time limit passed between batches of rows.

    Notes
    -----
    Pairs are in the order of `numpy.triu_indices`.
    """
    n, size = X.shape
    starts, groups = _pair_starts(size), _groups(size)
    library = library_of(device, dtype)
    sums = [library.zeros(_counts(size, group)) for group in groups]
    step = max(MANY_ROWS, LARGE_FLOATS // int(starts[-1]))
    # A single group is a product of an array with itself, which takes half of the operations.
    single = len(groups) == 1
    if weights is not None and single:
        weights = np.sqrt(weights)
    for begin in range(0, n, step):
        rows = slice(begin, begin + step)
        x = library.to_device(np.ascontiguousarray(X[rows].T, dtype=dtype))
        weighted = x if weights is None else library.to_device(x * library.to_device(weights[rows]))
        pairs = _products(library, [(x[a:], (weighted if single else x)[a]) for a in range(size)])
        for group, total in zip(groups, sums, strict=True):
            deadline.check()
            ending = pairs if single else _products(library, [(weighted[: b + 1], x[b]) for b in group])
            total += ending @ pairs[starts[group.start] :].T
    totals = [library.to_numpy(total) for total in sums]
    return totals[0].astype(dtype, copy=False) if single else _expanded(totals, size, dtype)


def _products(library: ArrayLibrary, factors: list[tuple[Any, Any]]) -> Any:
    """Multiply arrays of rows by one row each, into one array: joining products takes twice the memory and time."""
    products = library.empty((sum(len(rows) for rows, _ in factors), factors[0][1].shape[0]))
    start = 0
    for rows, row in factors:
        library.multiply(rows, row, products[start : start + len(rows)])
        start += len(rows)
    return products


def _expanded(sums: list[FloatArray], size: int, dtype: Any) -> FloatArray:
    """Fill all entries of the Gram matrix from the distinct ones."""
    starts = _pair_starts(size)
    gram = np.empty((starts[-1], starts[-1]), dtype=dtype)
    positions = pair_positions(size)
    for group, total in zip(_groups(size), sums, strict=True):
        origin, first = starts[group.start], group.start * (group.start + 1) // 2
        for b in group:
            # Products of the pairs (a, b), a <= b, with the pairs that begin at b or later.
            part = total[b * (b + 1) // 2 - first :][: b + 1]
            with_b = part[:, positions[b:, b:] - origin]
            later = part[:, starts[b + 1] - origin :]
            for a in range(b + 1):
                row = starts[a] + b - a
                gram[row : starts[a + 1], starts[b] : starts[b + 1]] = with_b[a]
                gram[row, starts[b + 1] :] = later[a]
    for a in range(1, size):
        rows = slice(starts[a], starts[a + 1])
        gram[rows, : starts[a]] = gram[: starts[a], rows].T
    return gram


@lru_cache
def pairs_of(size: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return `numpy.triu_indices`, cached and read-only, since computing it takes as long as a small Gram matrix."""
    pairs = np.triu_indices(size)
    for numbers in pairs:
        numbers.flags.writeable = False
    return pairs


@lru_cache
def pair_positions(size: int) -> npt.NDArray[np.intp]:
    """Return the index of each pair, in either order, in `numpy.triu_indices`, as a read-only (size, size) array."""
    numbers = np.arange(size)
    low, high = np.minimum.outer(numbers, numbers), np.maximum.outer(numbers, numbers)
    positions: npt.NDArray[np.intp] = _pair_starts(size)[low] + high - low
    positions.flags.writeable = False
    return positions


def _groups(size: int) -> list[range]:
    # Two groups of a few columns are slower than one.
    columns = size if 2 * size <= 3 * _COLUMNS else _COLUMNS
    return [range(start, min(start + columns, size)) for start in range(0, size, columns)]


def _counts(size: int, group: range) -> tuple[int, int]:
    """Count the pairs whose second column is in a group, and those whose first is in it or later."""
    left = size - group.start
    return sum(group) + len(group), left * (left + 1) // 2


@lru_cache
def _pair_starts(size: int) -> npt.NDArray[np.intp]:
    """Return the read-only indices of the pairs (a, a), followed by the number of pairs."""
    starts: npt.NDArray[np.intp] = np.concatenate([[0], np.cumsum(size - np.arange(size))])
    starts.flags.writeable = False
    return starts
