"""Linear maps of symmetric matrices, stored as packed symmetric matrices ("forms") instead of data columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.arrays import library_of
from qsdp._utils.numeric import LARGEST_INTEGER, triangle_side
from qsdp._utils.parallel import CACHE_FLOATS, LARGE_FLOATS, chunks
from qsdp._utils.tuning import MANY_ROWS
from qsdp._utils.validation import FloatArray, read_only
from qsdp.block_layout import Layout, single_block
from qsdp.blocks import Blocks
from qsdp.data_map import BLOCKS, SAMPLES, DataMap, Image, require
from qsdp.roundoff import SumRounding, VerifiedSums, sums_of_entries

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["FormMap", "exact_sums"]


@dataclass(frozen=True, eq=False)
class FormMap(DataMap):
    r"""Data map of forms, symmetric matrices that are stored as packed entries.

    The forms are data in blocks, one sample per row, or a few rows that represent all samples of statistics.

    Attributes
    ----------
    layout : Layout
        Positions of the P packed entries in the R matrices of side N.
    rows : ndarray of shape (r, P)
        Packed entries of the forms, each once.
    factor : float
        Common factor of all rows.
    units : ndarray of shape (P,), optional
        Factor of each packed entry; None is one.
    lifted : bool
        Whether the last row and column of the matrices belong to no column of the data.
    n_samples : int
        Number of samples that the rows represent.
    offers : frozenset of str
        Whether the rows are those samples, and in blocks.
    rounding : SumRounding, optional
        How far the sums over the samples may be from those over the rows, if these are not the samples.
    """

    layout: Layout
    rows: npt.NDArray[Any]
    factor: float = 1.0
    units: FloatArray | None = None
    lifted: bool = False
    n_samples: int = 0
    offers: frozenset[str] = frozenset()
    rounding: SumRounding | None = None

    @classmethod
    def from_forms(
        cls, forms: FloatArray, lifted: bool, n_samples: int, rounding: SumRounding | None = None
    ) -> FormMap:
        """Build the map of forms of one block from their upper triangles, of shape (r, p)."""
        layout = single_block(triangle_side(forms.shape[1]))
        return cls(layout, forms, lifted=lifted, n_samples=n_samples, rounding=rounding)

    @classmethod
    def from_blocks(cls, blocks: Blocks) -> FormMap:
        r"""Build the map of samples in blocks, scaled so that all blocks have the same penalty.

        Block r is divided by :math:`\omega_r D_r`, and second-layer weights are multiplied by it; a column with a real
        weight is divided by :math:`\omega_k`.
        """
        return replace(cls.in_blocks(blocks.layout, blocks.rows, len(blocks)), offers=frozenset({SAMPLES, BLOCKS}))

    @classmethod
    def in_blocks(
        cls, layout: Layout, rows: npt.NDArray[Any], n_samples: int, rounding: SumRounding | None = None
    ) -> FormMap:
        """Build the map of rows of blocks that stand for the samples, see `from_blocks`."""
        units = read_only(1.0 / layout.entry_prices)
        return cls(layout, rows, units=units, n_samples=n_samples, offers=frozenset({BLOCKS}), rounding=rounding)

    @property
    def X(self) -> Blocks:  # noqa: N802 (the name of data in scikit-learn)
        """Samples in blocks; raise an error for statistics, which have none."""
        require(self, "X", SAMPLES)
        return Blocks.from_layout(self.rows, self.layout)

    @property
    def n_features(self) -> int:
        """Number of columns d of the data; of packed entries, for blocks."""
        return self.layout.n_entries if BLOCKS in self.offers else self.size - self.lifted

    @property
    def scale(self) -> float:
        """Common factor of the rows, to compare maps of the same data."""
        return abs(self.factor)

    @property
    def forms(self) -> FloatArray:
        """Packed entries of the forms in the units of the data, of shape (r, P)."""
        return self.rows * self.factor

    @cached_property
    def n_rows(self) -> int:
        """Number of rows r."""
        return int(self.rows.shape[0])

    def forward(self, S: FloatArray, n_jobs: int = 1) -> FloatArray:
        """Return the values of shape (r,) for matrices of shape (N, N) or (R, N, N), symmetric or not."""
        values: FloatArray = self.values_of(self.layout.means(S) * self.layout.counts)[:, 0]
        return values

    def forwards(self, T: FloatArray, n_jobs: int = 1) -> FloatArray:
        """Return the values of shape (r, C) for a stack of symmetric matrices of shape (C R, N, N)."""
        return self.values_of(self.layout.entries(T) * self.layout.counts)

    def values(self, T: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the values (r, C) of a stack of symmetric matrices and real weights (C, p)."""
        return self.values_of(self.layout.entries(T, weights) * self.layout.counts)

    def products(self, U: npt.ArrayLike, V: npt.ArrayLike, block: npt.NDArray[np.intp] | None = None) -> FloatArray:
        """Return the values (r, k) of k neurons in these blocks, see `Layout.products`."""
        return self.values_of(self.layout.products(np.asarray(U, dtype=float), np.asarray(V, dtype=float), block))

    def values_of(self, vectors: FloatArray, dtype: Any = np.float64) -> FloatArray:
        """Return the inner products (r, k) of the forms, as packed entries, with vectors (k, P).

        `dtype` is that of the products; in single precision they take half the time.
        """
        weights = (vectors * self.scales).T.astype(dtype)
        values = np.empty((self.n_rows, len(vectors)))
        for some, rows in self._chunks(dtype):
            values[some] = rows @ weights
        return values

    def values_in_blocks(self, vectors: FloatArray, block: npt.NDArray[np.intp]) -> FloatArray:
        """Return `values_of` for vectors that are zero outside of these blocks, at a lower cost."""
        values = np.empty((self.n_rows, len(vectors)))
        for r in range(self.n_blocks):
            part, members = self.layout.slices[r], np.flatnonzero(block == r)
            values[:, members] = self.rows[:, part].astype(np.float64) @ (vectors[members, part] * self.scales[part]).T
        if self.layout.weights:
            members = np.flatnonzero(block >= self.n_blocks)
            entries = self.layout.weight_entries[block[members] - self.n_blocks]
            values[:, members] = self.features(entries) * vectors[members, entries]
        return values

    def adjoint(self, nu: FloatArray) -> FloatArray:
        """Apply the adjoint: sum the forms with weights `nu`, shape (N, N), or (R, N, N) for several blocks."""
        matrices = self.adjoints(nu[:, None])
        return matrices[0] if self.n_blocks == 1 else matrices

    def adjoints(self, nu: FloatArray) -> FloatArray:
        """Apply the adjoint to each column of `nu`; return a stack of shape (C R, N, N)."""
        return self.layout.matrices(self.sums(nu).T)

    def pull(self, nu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Apply the adjoint to each column of `nu`; return the stack of matrices and the real weights (C, p)."""
        sums = self.sums(nu)
        return self.layout.matrices(sums.T), sums[self.layout.weight_entries].T

    def sums(self, nu: FloatArray, dtype: Any = np.float64) -> FloatArray:
        """Apply the adjoint to each column of `nu`; return packed entries (P, C). See `values_of` for `dtype`."""
        sums = np.zeros((nu.shape[1], self.rows.shape[1]))
        columns = np.ascontiguousarray(nu.T, dtype=dtype)
        for some, rows in self._chunks(dtype):
            # In this order, the product takes half the time of its transpose.
            sums += columns[:, some] @ rows
        sums *= self.scales
        return sums.T

    def operator(self, nu: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return a function that multiplies vectors (R, N) by the adjoint's matrices at `nu`, block by block."""
        M = self.adjoints(nu[:, None])
        return lambda v: np.matmul(M, v[:, :, None])[:, :, 0]

    def image(self, columns: FloatArray) -> Image:
        """Return the columns themselves: only passes over the rows take many operations."""
        return columns, columns

    def pair_values(self, first: Image, second: Image, mixing: FloatArray) -> FloatArray:
        """Return the values of the matrices of pairs of columns, see `DataMap.pair_values`."""
        (E, _), (F, _) = first, second
        N = len(E)
        T = ((E[:, None] * F[None]).reshape(N * N, -1) @ mixing).T.reshape(-1, N, N)
        return self.forwards(0.5 * (T + T.swapaxes(1, 2)))

    def column_weights(self, nu: FloatArray) -> FloatArray:
        """Return the matrices of the adjoint at weights (r, C), of shape (C R, N, N)."""
        return self.adjoints(nu)

    def adjoint_columns(self, terms: Sequence[tuple[FloatArray, Image]], mixing: FloatArray) -> FloatArray:
        """Apply the matrices of the adjoint to columns, see `DataMap.adjoint_columns`."""
        total: FloatArray = np.zeros_like(terms[0][1][0])
        for M, (E, _) in terms:
            mixed = (mixing @ M.reshape(len(M), -1)).reshape(-1, *M.shape[1:])
            total += np.einsum("jab,bj->aj", mixed, E)
        return total

    def column_operations(self, n_columns: int, n_outputs: int) -> float:
        """Approximate number of floating-point operations of the values, or of the adjoint, of columns."""
        return self.n_rows * self.row_operations * n_outputs

    def features(self, columns: slice | npt.NDArray[np.intp] = slice(None)) -> FloatArray:
        """Return the forms as vectors (r, P) with the same inner products, or some of their entries."""
        return self.rows[:, columns] * (self.scales * self.layout.factors)[columns]

    def expression(self, S: cp.Expression | list[cp.Expression], weights: cp.Expression | None = None) -> cp.Expression:
        """Build the values as an affine CVXPY expression in a symmetric or square expression for each block.

        `weights` is an expression for the real weights, (p,).
        """
        import cvxpy as cp

        layout, blocks = self.layout, S if isinstance(S, list) else [S]
        total: cp.Expression = 0
        for r, matrix in enumerate(blocks):
            entries = layout.slices[r]
            first, second = layout.first[entries], layout.second[entries]
            factors = 0.5 * (self.scales * layout.counts)[entries]
            name = "forms" if len(blocks) == 1 else f"forms{r}"
            total = total + cp.Constant(self.rows[:, entries] * factors, name=name) @ (
                matrix[first, second] + matrix[second, first]
            )
        if weights is not None:
            columns = layout.weight_entries
            total = total + cp.Constant(self.rows[:, columns] * self.scales[columns], name="columns") @ weights
        return total

    def pair_sums(
        self, weights: FloatArray | None = None, dtype: Any = np.float64, device: str | None = None
    ) -> FloatArray:
        """Compute the (weighted) sums over the rows of products of two packed entries, see `Gram`.

        Raises
        ------
        TimeOver
            A time limit passed between chunks of rows.
        """
        G = exact_sums(self.rows, weights, dtype, device)
        G *= self.scales.astype(dtype)
        G *= self.scales.astype(dtype)[:, None]
        return G

    def inner_products(self, other: FormMap) -> FloatArray:
        """Return the inner products of the forms with those of another map."""
        products: FloatArray = self.features() @ other.features().T
        return products

    def fill_kernel(self, delta: FloatArray, kernel: npt.NDArray[Any], sigma: float = 1.0) -> None:
        """Write the inner products of the forms to an array (r, r), see `DataMap.fill_kernel`."""
        scales = self.layout.scales(delta, sigma)
        kernel[:] = 0.0
        # The kernel may be much smaller than all rows in double precision.
        step = max(self.n_rows, MANY_ROWS)
        for columns in (slice(start, start + step) for start in range(0, len(scales), step)):
            features = (self.features(columns) * scales[columns]).astype(kernel.dtype, copy=False)
            kernel += features @ features.T

    @property
    def largest_entry(self) -> float:
        """Largest magnitude of an entry of the forms."""
        return abs(self.factor) * self.largest_stored

    @property
    def pair_operations(self) -> float:
        """Approximate number of floating-point operations of `pair_sums`."""
        return float(self.n_rows * self.rows.shape[1] ** 2)

    @property
    def kernel_operations(self) -> float:
        """Approximate number of floating-point operations of `fill_kernel`."""
        return 2.0 * self.n_rows**2 * self.layout.n_entries

    @property
    def row_operations(self) -> float:
        """Approximate number of floating-point operations of `forward` for one row."""
        return 2.0 * self.layout.n_entries

    @cached_property
    def absolute_sums(self) -> FloatArray:
        """Sums of the absolute values of all entries of each form, and the largest real column: see `DataMap`."""
        scales = np.abs(self.scales)
        return read_only(self._per_row(lambda rows: self.layout.pricing_sizes(np.abs(rows) * scales)))

    def pricing_losses(self, nu: FloatArray) -> FloatArray:
        """Bound the differences of pricing values of the samples from those of `nu` (r, C) and the rows."""
        if self.rounding is None:
            return np.zeros(nu.shape[1] * self.layout.n_constraints)
        errors, rest = self.rounding.of_entries(nu)
        entries = np.abs(self.scales)[:, None] * errors + np.abs(self.sums(rest))
        return self.layout.pricing_sizes(entries.T).ravel()

    def value_loss(self, nu: FloatArray, targets: FloatArray) -> float:
        r"""Bound by how much :math:`\nu^T y - \|\nu\|^2 / 4` of the samples is less than that of the rows."""
        return 0.0 if self.rounding is None else self.rounding.of_values(nu, targets)

    def verified_sums(self) -> VerifiedSums:
        """Return a function that computes the matrices of dual vectors, with bounds on their errors from rounding."""
        return sums_of_entries(self.layout, self.rows, self.largest_stored, self.scales)

    def mean_size(self, weights: FloatArray | None = None) -> float:
        """Return the (weighted) root mean square of the Frobenius norms of the forms."""
        mean = float(np.average(self._squares, weights=weights))
        return abs(self.factor) * (self.largest_stored or 1.0) * math.sqrt(mean)

    def active_coordinates(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows and columns of the matrices on which values depend, shape (N,)."""
        used = np.zeros(self.rows.shape[1], dtype=bool)
        for _, rows in self._chunks():
            used |= np.any(rows != 0.0, axis=0)
        entries = np.any(self.layout.matrices(used[None].astype(float)) != 0.0, axis=0)
        return np.asarray(entries.any(axis=0) | entries.any(axis=1))

    def restricted(self, active: npt.NDArray[np.bool_]) -> FormMap:
        """Restrict the map to matrices over the coordinates `active`, for one block."""
        columns = active[self.layout.first] & active[self.layout.second]
        rounding = None if self.rounding is None else self.rounding.with_sizes(self.rounding.sizes[columns])
        units = None if self.units is None else read_only(self.units[columns])
        layout = replace(self.layout, sizes=(int(active.sum()),), patches=None)
        rows, lifted = np.ascontiguousarray(self.rows[:, columns]), self.lifted and bool(active[-1])
        return replace(self, layout=layout, rows=rows, units=units, lifted=lifted, rounding=rounding)

    def in_units_of_rows(self, weights: FloatArray | None = None) -> FormMap:
        """Return the map itself: forms do not determine the units of the data."""
        return self

    def scaled(self, factor: float) -> FormMap:
        """Return the map times `factor`; the rows are shared."""
        return replace(self, factor=self.factor * factor)

    def of_scaled_data(self, ratio: float) -> FormMap:
        """Return the map for the data times `ratio`."""
        if ratio == 1.0:
            return self
        last = self.size - 1 if self.lifted else self.size
        degrees = (self.layout.first != last).astype(int) + (self.layout.second != last)
        rounding = None if self.rounding is None else self.rounding.with_sizes(self.rounding.sizes * ratio**degrees)
        return replace(self, rows=self.rows * ratio**degrees, rounding=rounding)

    def take(self, rows: Any) -> FormMap:
        """Return the map restricted to some rows."""
        require(self, "a choice of rows", SAMPLES)
        taken = self.rows[rows]
        return replace(self, rows=taken, n_samples=len(taken))

    def equals(self, other: object) -> bool:
        """Whether the other map has the same rows."""
        if not isinstance(other, FormMap) or self.layout != other.layout or self.offers != other.offers:
            return False
        if self.rows is other.rows and self.factor == other.factor:
            return True
        # Factors are powers of two, so this comparison is exact.
        return np.array_equal(self.rows * (self.factor / other.factor), other.rows)

    @cached_property
    def scales(self) -> FloatArray:
        """Factor of each packed entry, of shape (P,)."""
        if self.units is None:
            return np.full(self.layout.n_entries, self.factor)
        return self.factor * self.units

    @cached_property
    def largest_stored(self) -> float:
        """Largest magnitude of an entry of the rows, without the factor."""
        # Without an array of magnitudes, which takes several times as long.
        sizes = (max(float(rows.max(initial=0.0)), -float(rows.min(initial=0.0))) for _, rows in self._chunks())
        return max(sizes, default=0.0)

    @cached_property
    def _squares(self) -> FloatArray:
        """Squared Frobenius norms of the forms, of shape (r,), with the factor and the largest entry as units."""
        largest, factors = self.largest_stored or 1.0, self.layout.counts * (self.scales / abs(self.factor)) ** 2
        return self._per_row(lambda rows: (np.square(rows / largest) @ factors)[:, None])[:, 0]

    def _chunks(self, dtype: Any = np.float64) -> Iterator[tuple[slice, FloatArray]]:
        """Yield chunks of rows in double or single precision; all rows at once if they are already doubles."""
        if self.rows.dtype == dtype == np.float64:
            yield slice(0, self.n_rows), self.rows
            return
        for some in chunks(*self.rows.shape):
            yield some, self.rows[some].astype(dtype)

    def _per_row(self, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
        parts = chunks(self.n_rows, self.rows.shape[1], work=CACHE_FLOATS)
        return np.concatenate([function(self.rows[some].astype(np.float64, copy=False)) for some in parts])


def exact_sums(
    rows: npt.NDArray[Any], weights: FloatArray | None = None, dtype: Any = np.float64, device: str | None = None
) -> FloatArray:
    """Compute the (weighted) sums over the rows of products of two entries, of shape (P, P).

    Sums of integers are exact before they are rounded once to the data type, up to 2**63.

    Raises
    ------
    TimeOver
        A time limit passed between chunks of rows.
    """
    n, p = rows.shape
    library = library_of(device, dtype)
    chunk_rows, integers = max(1, LARGE_FLOATS // p), weights is None and rows.dtype.kind in "iu"
    if integers:
        largest = max(int(rows.max()), -int(rows.min()), 1)
        integers = largest**2 * n < 2**63 and np.dtype(dtype) == np.float64 and device is None
        # The products of a chunk are exact in any order.
        chunk_rows = min(chunk_rows, LARGEST_INTEGER // largest**2) if integers else chunk_rows
    if not integers or chunk_rows == 0:
        sums = library.zeros((p, p))
        for some in chunks(n, p, work=max(LARGE_FLOATS, p)):
            deadline.check()
            x = library.to_device(rows[some].astype(dtype, copy=False))
            sums += x.T @ (x if weights is None else x * library.to_device(weights[some])[:, None])
        return library.to_numpy(sums).astype(dtype, copy=False)
    total = np.zeros((p, p), dtype=np.int64)
    for start in range(0, n, chunk_rows):
        deadline.check()
        x = rows[start : start + chunk_rows].astype(np.float64)
        total += (x.T @ x).astype(np.int64)
    return total.astype(np.float64)
