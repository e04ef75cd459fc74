"""Data maps for the training problem: constant column, levels and activation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from qsdp._utils.arrays import squared_rows
from qsdp._utils.numeric import largest_magnitude
from qsdp._utils.parallel import WORK_FLOATS, chunks, in_threads
from qsdp._utils.tuning import MODERATE, TILE
from qsdp._utils.validation import FloatArray, read_only
from qsdp.block_layout import Layout, single_block
from qsdp.data_map import COLUMNS, SAMPLES, DataMap, Image
from qsdp.gram import pair_operations, pair_sums, pairs_of
from qsdp.roundoff import VerifiedSums, sums_of_rows

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["QuadraticMap", "append_constant", "bordered", "quadratic_values"]


def append_constant(X: FloatArray, value: float = 1.0) -> FloatArray:
    r"""Append a constant column to X: ``[X, value]`` of shape (n, d + 1).

    A bilinear network is even, :math:`f(-x) = f(x)`. On :math:`(x, 1)`, its terms
    :math:`(x^T u + s)(x^T v + t)` also have a linear and a constant part.
    """
    return np.hstack([X, np.full((X.shape[0], 1), value)])


def quadratic_values(X: FloatArray, S: FloatArray, n_jobs: int = 1) -> FloatArray:
    r"""Compute :math:`(x_i^T S x_i)_i` of shape (n,), in the precision of X, in chunks of rows by `n_jobs` threads."""
    S = S.astype(X.dtype, copy=False)
    if X.size <= WORK_FLOATS and len(S) < 2 * TILE:
        # One chunk and one strip suffice; for small data, the code below takes as long as the products.
        return _double(np.einsum("ij,ij->i", X @ S, X))
    values = np.empty(len(X))
    # For few rows, strips take longer to make than they save.
    strips = _strips(S) if len(X) > 2 * len(S) else [(slice(0, len(S)), S)]

    def evaluate(rows: slice) -> None:
        x = X[rows]
        values[rows] = sum(np.einsum("ij,ij->i", x[:, : len(T)] @ T, x[:, part]) for part, T in strips)

    in_threads(evaluate, chunks(len(X), X.shape[1]), n_jobs)
    return values


def _strips(S: FloatArray) -> list[tuple[slice, FloatArray]]:
    """Split the upper triangular matrix with the quadratic form of S into strips of columns down to the diagonal.

    Their products take nearly half the operations. BLAS has triangular products, but those make other threads wait.
    """
    d = len(S)
    if d < 2 * TILE:
        return [(slice(0, d), S)]
    upper = np.triu(S) + np.tril(S, -1).T
    columns = [slice(start, min(start + TILE, d)) for start in range(0, d, TILE)]
    return [(part, np.ascontiguousarray(upper[: part.stop, part])) for part in columns]


def bordered(M: FloatArray, edge: FloatArray, corner: float) -> FloatArray:
    """Append one row and column to a symmetric matrix."""
    d = len(M)
    whole = np.empty((d + 1, d + 1))
    whole[:d, :d], whole[:d, d], whole[d, :d], whole[d, d] = M, edge, edge, corner
    return whole


@dataclass(frozen=True, eq=False)
class QuadraticMap(DataMap):
    r"""Data map of rows of columns, whose matrices are never formed.

    .. math::

        \mathcal{X} = \begin{bmatrix} a\, x x^T & (b/2)\, x \\ (b/2)\, x^T & c \end{bmatrix}
        \text{ if lifted, else } a\, x x^T

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Data; for M + 1 levels, the data times M, since M replicas of the columns are equivalent to scaled columns. In
        single precision, products with n rows are, too, and their results are converted, see `in_precision`.
    coefficients : (a, b, c)
    lifted : bool
        Whether matrices have the additional last row and column, so that ``size`` is d + 1.

    Notes
    -----
    These are equations (7) and (10) of Bartan and Pilanci. No n x N x N array is formed.
    """

    X: FloatArray
    coefficients: tuple[float, float, float] = (1.0, 0.0, 0.0)
    lifted: bool = False

    offers: ClassVar[frozenset[str]] = frozenset({SAMPLES, COLUMNS})
    units: ClassVar[None] = None

    @cached_property
    def layout(self) -> Layout:
        """Positions of the entries of the upper triangle of a matrix."""
        return single_block(int(self.X.shape[1]) + self.lifted)

    @cached_property
    def n_rows(self) -> int:
        """Number of samples n."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns d of the data."""
        return int(self.X.shape[1])

    @property
    def scale(self) -> float:
        """Common factor of the coefficients, to compare maps of the same data."""
        return max(abs(value) for value in self.coefficients)

    @property
    def has_few_rows(self) -> bool:
        """Whether n is so much smaller than N that decompositions through the rows of the data take less time."""
        return self.n_rows <= 0.5 * self.size

    @property
    def n_samples(self) -> int:
        """Number of samples represented by the rows: n."""
        return self.n_rows

    def forward(self, S: FloatArray, n_jobs: int = 1) -> FloatArray:
        """Return the values of shape (n,) for a matrix of shape (N, N), symmetric or not."""
        a, b, c = self.coefficients
        d = self.X.shape[1]
        values = a * quadratic_values(self.X, S[:d, :d], n_jobs)
        if self.lifted:
            values += _double(self.X @ self._cast(0.5 * b * (S[:d, d] + S[d, :d]))) + c * S[d, d]
        return values

    def forwards(self, T: FloatArray, n_jobs: int = 1) -> FloatArray:
        """Return the values of shape (n, C) for a stack of symmetric matrices of shape (C, N, N)."""
        if len(T) == 1:
            return self.forward(T[0], n_jobs)[:, None]
        return np.stack([self.forward(matrix, n_jobs) for matrix in T], axis=1)

    def products(self, U: npt.ArrayLike, V: npt.ArrayLike, block: npt.NDArray[np.intp] | None = None) -> FloatArray:
        r"""Return :math:`u_j^T \mathcal{X}_i v_j` of shape (n, k) for pairs of rows of U and V, shape (k, N).

        `block` is the block of each pair, of which there is one.
        """
        U, V = np.asarray(U, dtype=np.float64), np.asarray(V, dtype=np.float64)
        a, b, c = self.coefficients
        d = self.X.shape[1]
        left, right = self.X @ U[:, :d].T, self.X @ V[:, :d].T
        values: FloatArray = a * left
        values *= right
        if self.lifted:
            s, t = U[:, d], V[:, d]
            values += 0.5 * b * (left * t + right * s) + c * (s * t)
        return values

    def values_of(self, vectors: FloatArray, dtype: Any = np.float64) -> FloatArray:
        """Return the inner products (n, k) of the packed entries with vectors (k, P), in double precision."""
        return self.forwards(self.layout.matrices(vectors / self.layout.counts))

    def values_in_blocks(self, vectors: FloatArray, block: npt.NDArray[np.intp]) -> FloatArray:
        """Return `values_of`: there is one block."""
        return self.values_of(vectors)

    def adjoint(self, nu: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_i \nu_i \mathcal{X}_i`, symmetric of shape (N, N)."""
        a, b, c = self.coefficients
        M = squared_rows(self.X, a * nu)
        if not self.lifted:
            return M
        return bordered(M, 0.5 * b * _double(self._cast(nu) @ self.X), c * float(nu.sum()))

    def adjoints(self, nu: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_i \nu_{ik} \mathcal{X}_i`, symmetric of shape (C, N, N), for the columns of nu."""
        # A single matrix is not copied, since it may fill the memory.
        matrices = [self.adjoint(column) for column in nu.T]
        return matrices[0][None] if len(matrices) == 1 else np.stack(matrices)

    def sums(self, nu: FloatArray, dtype: Any = np.float64) -> FloatArray:
        """Apply the adjoint to each column of `nu`; return packed entries (P, C), in double precision."""
        return self.layout.entries(self.adjoints(nu)).T

    def operator(self, nu: FloatArray) -> Callable[[FloatArray], FloatArray]:
        r"""Return a function that multiplies vectors (1, N) by :math:`\sum_i \nu_i \mathcal{X}_i`."""
        times = partial(self.adjoint_times, nu) if self.n_rows < self.size else self.adjoint(nu).__matmul__
        return lambda v: times(v[0])[None]

    def adjoint_times(self, nu: FloatArray, v: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_i \nu_i \mathcal{X}_i v` of shape (N,) without forming the matrix: 4 n N operations."""
        a, b, c = self.coefficients
        d = self.X.shape[1]
        image = self.X @ v[:d]
        if not self.lifted:
            return np.asarray((nu * (a * image)) @ self.X)
        last = 0.5 * b * float(nu @ image) + c * float(nu.sum()) * v[d]
        return np.append((nu * (a * image + 0.5 * b * v[d])) @ self.X, last)

    def image(self, columns: FloatArray) -> Image:
        """Return columns of shape (N, k) with their products with the rows, in the precision of X."""
        return columns, self.X @ self._cast(columns[: self.n_features])

    def pair_values(self, first: Image, second: Image, mixing: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_j \sigma_{jc}\, e_j^T \mathcal{X}_i f_j` of shape (n, C)."""
        a, b, c = self.coefficients
        (E, x), (F, y) = first, second
        values = _double((x * y) @ self._cast(a * mixing))
        if self.lifted:
            for product, t in ((x, F[-1]), (y, E[-1])):
                values += _double(product @ self._cast(0.5 * b * t[:, None] * mixing))
            values += (c * E[-1] * F[-1]) @ mixing
        return values

    def column_weights(self, nu: FloatArray) -> FloatArray:
        """Return the weights themselves: rows are multiplied by them."""
        return nu

    def adjoint_columns(self, terms: Sequence[tuple[FloatArray, Image]], mixing: FloatArray) -> FloatArray:
        r"""Apply the adjoint of weights (n, C) to columns, summed over pairs of weights and image.

        Column j of the result, of shape (N, k), is :math:`\sum_i \sum_c \sigma_{jc} \nu_{ic}\, \mathcal{X}_i e_j`.
        """
        a, b, c = self.coefficients
        spread = self._cast(mixing.T)
        weighted = sum((self._cast(nu) @ spread) * x for nu, (_, x) in terms)
        inner = a * _double(self.X.T @ weighted)
        if not self.lifted:
            return inner
        last = 0.5 * b * _double(self._cast(np.ones(self.n_rows)) @ weighted)
        for nu, (E, _) in terms:
            entries = mixing * E[-1][:, None]
            inner += _double(self.X.T @ self._cast(nu)) @ (0.5 * b * entries).T
            last += c * (entries @ nu.sum(axis=0))
        return np.vstack([inner, last])

    def column_operations(self, n_columns: int, n_outputs: int) -> float:
        """Approximate number of floating-point operations of the values, or of the adjoint, of columns."""
        return 2.0 * self.X.size * n_columns

    def inner_products(self, other: QuadraticMap) -> FloatArray:
        r"""Return :math:`\langle \mathcal{X}_i, \mathcal{X}_j \rangle` for rows i and rows j of another map."""
        a, b, c = self.coefficients
        products: FloatArray = self.X @ other.X.T
        if not self.lifted:
            products *= a
            products *= products
            return products
        slopes = products * (a * a)
        slopes += 0.5 * b * b
        products *= slopes
        products += c * c
        return products

    def features(self) -> FloatArray:
        r"""Compute feature vectors (n, p), p = N(N+1)/2, whose inner products are `inner_products`."""
        a, b, c = self.coefficients
        d = self.X.shape[1]
        features = np.empty((self.n_rows, self.size * (self.size + 1) // 2))
        start = 0
        for j in range(d):
            # Every entry off the diagonal represents two entries.
            part = features[:, start : start + d - j]
            np.multiply(self.X[:, j:], (math.sqrt(2.0) * a) * self.X[:, j : j + 1], out=part)
            part[:, 0] /= math.sqrt(2.0)
            start += d - j
        if self.lifted:
            features[:, start : start + d] = (math.sqrt(0.5) * b) * self.X
            features[:, start + d] = c
        return features

    def expression(self, S: cp.Expression, weights: None = None) -> cp.Expression:
        """Build the values as an affine CVXPY expression in the symmetric or square expression `S`."""
        import cvxpy as cp

        a, b, c = self.coefficients
        d = self.X.shape[1]

        def rows(factor: float) -> cp.Constant:
            # A program prints a constant by its name instead of its entries.
            return cp.Constant(factor * self.X, name="X" if factor == 1.0 else f"({factor:g} X)")

        # Use one expression for all samples: compiling n scalar expressions would take far too long.
        values = cp.sum(cp.multiply(rows(1.0) @ S[:d, :d], rows(a)), axis=1)
        if self.lifted:
            values = values + rows(0.5 * b) @ (S[:d, d] + S[d, :d]) + c * S[d, d]
        return values

    def adjoint_expression(self, nu: cp.Expression) -> cp.Expression:
        """Build the matrix of `adjoint` as an affine CVXPY expression in a vector of shape (n,)."""
        import cvxpy as cp

        (a, b, c), n = self.coefficients, self.n_rows
        X = cp.Constant(self.X, name="X")
        M = a * (X.T @ cp.multiply(cp.reshape(nu, (n, 1), order="C") @ np.ones((1, self.X.shape[1])), X))
        if not self.lifted:
            return M
        side = cp.reshape(0.5 * b * (X.T @ nu), (self.X.shape[1], 1), order="C")
        return cp.bmat([[M, side], [side.T, cp.reshape(c * cp.sum(nu), (1, 1), order="C")]])

    def verified_sums(self) -> VerifiedSums | None:
        """Return a function that computes the matrix of a dual vector, with a bound on its error from rounding."""
        return sums_of_rows(self.X, self.coefficients, self.lifted)

    def fill_kernel(self, delta: FloatArray, kernel: npt.NDArray[Any], sigma: float = 1.0) -> None:
        r"""Write :math:`\langle \mathcal{X}_i, \mathcal{X}_j \rangle` to an array of shape (n, n), in its precision.

        The rows and columns of the matrices are divided by `delta`, of shape (1, N).
        """
        a, b, c = self.coefficients
        d, scales = self.X.shape[1], delta[0]
        scaled = (self.X / scales[:d]).astype(kernel.dtype, copy=False)
        last = float(scales[d]) ** 2 if self.lifted else 1.0
        np.matmul(scaled, scaled.T, out=kernel)
        for rows in chunks(*kernel.shape):
            part = kernel[rows]
            slopes = part * (a * a)
            if self.lifted:
                slopes += 0.5 * b * b / last
            part *= slopes
            if self.lifted:
                part += (c / last) ** 2

    @property
    def largest_stored(self) -> float:
        """Largest magnitude of an entry of the data."""
        return largest_magnitude(self.X)

    @cached_property
    def absolute_sums(self) -> FloatArray:
        r"""Sums of the absolute values of all entries of :math:`\mathcal{X}_i`, of shape (n, 1)."""
        a, b, c = (abs(value) for value in self.coefficients)
        ones, sums = np.ones((1, self.size)), np.empty((self.n_rows, 1))
        for rows in chunks(self.n_rows, self.X.shape[1]):
            sums[rows] = QuadraticMap(np.abs(self.X[rows]), (a, b, c), self.lifted).products(ones, ones)
        return read_only(sums)

    def active_coordinates(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows and columns of S on which the values depend, shape (N,)."""
        active = np.ones(self.size, dtype=bool)
        a, b, c = self.coefficients
        d = self.X.shape[1]
        active[:d] = (self.X != 0.0).any(axis=0) & (a != 0.0 or (self.lifted and b != 0.0))
        if self.lifted:
            active[d] = c != 0.0 or (b != 0.0 and bool(np.any(self.X)))
        return active

    def restricted(self, active: npt.NDArray[np.bool_]) -> QuadraticMap:
        """Restrict the map to matrices over the coordinates `active`."""
        d = self.X.shape[1]
        return replace(self, X=self.X[:, active[:d]], lifted=self.lifted and bool(active[d]))

    def mean_size(self, weights: FloatArray | None = None) -> float:
        r"""Return the (weighted) root mean square of the Frobenius norms of :math:`\mathcal{X}_i`."""
        largest = max(abs(value) for value in self.coefficients)
        # Divide first, because squares of the coefficients of huge data would overflow.
        a, b, c = (value / largest for value in self.coefficients)
        squares = np.einsum("ij,ij->i", self.X, self.X)
        norms = (a * squares) ** 2 + 0.5 * b * b * squares + c * c if self.lifted else squares**2
        return largest * float(np.sqrt(np.average(norms, weights=weights)))

    def in_units(self, row: float) -> QuadraticMap:
        """Rescale: represent the same map with the data divided by `row`."""
        a, b, c = self.coefficients
        if row == 1.0:
            return self
        return replace(self, X=self.X / row, coefficients=(a * row * row, b * row, c))

    def in_units_of_rows(self, weights: FloatArray | None = None) -> QuadraticMap:
        """Rescale: represent the same map with data whose (weighted) root mean square row norm is near one.

        Large data with a moderate norm are left unchanged; nothing is rounded either way. Lifted data are always
        rescaled, since preconditioners compare their rows with the added one.
        """
        row = power_of_two(math.sqrt(self.X.shape[1]) * _root_mean_square(self.X, weights))
        moderate = 1.0 / MODERATE <= row <= MODERATE
        unchanged = moderate and not self.lifted and self.X.size > WORK_FLOATS
        return self if unchanged else self.in_units(row)

    def scaled(self, factor: float) -> QuadraticMap:
        """Return the map times `factor`; the data are shared."""
        a, b, c = self.coefficients
        return replace(self, coefficients=(a * factor, b * factor, c * factor))

    def of_scaled_data(self, ratio: float) -> QuadraticMap:
        """Return the map for the data times `ratio`."""
        return self if ratio == 1.0 else replace(self, X=self.X * ratio)

    def in_precision(self, dtype: npt.DTypeLike) -> QuadraticMap:
        """Return the map with the data, and products of n rows, in another precision."""
        return self if self.X.dtype == dtype else replace(self, X=self.X.astype(dtype))

    def take(self, rows: Any) -> QuadraticMap:
        """Return the map restricted to some rows."""
        return replace(self, X=read_only(self.X[rows]))

    def equals(self, other: object) -> bool:
        """Whether the other map has the same data in the same units."""
        if not isinstance(other, QuadraticMap):
            return False
        same = (self.coefficients, self.lifted) == (other.coefficients, other.lifted)
        return same and np.array_equal(self.X, other.X)

    def pair_sums(
        self, weights: FloatArray | None = None, dtype: Any = np.float64, device: str | None = None
    ) -> FloatArray:
        r"""Compute the (weighted) sums over the rows of products of two entries of the upper triangle, see `Gram`."""
        a, b, c = self.coefficients
        G = pair_sums(append_constant(self.X) if self.lifted else self.X, weights, dtype, device)
        if self.lifted:
            first, second = pairs_of(self.size)
            kinds = (first == self.X.shape[1]).astype(int) + (second == self.X.shape[1])
            factors = np.array([a, 0.5 * b, c])[kinds]
            G *= factors
            G *= factors[:, None]
        else:
            # Multiply twice, because the square of the factor may overflow or underflow.
            G *= a
            G *= a
        return G

    @property
    def pair_operations(self) -> float:
        """Approximate number of floating-point operations of `pair_sums`."""
        return pair_operations(self.n_rows, self.size)

    @property
    def kernel_operations(self) -> float:
        """Approximate number of floating-point operations of `fill_kernel`."""
        return 2.0 * self.n_rows**2 * self.size

    @property
    def row_operations(self) -> float:
        """Approximate number of floating-point operations of `forward` for one row."""
        return 2.0 * self.size * self.size

    def _cast(self, array: FloatArray) -> npt.NDArray[Any]:
        """Convert an array to the precision of the data."""
        return np.asarray(array, dtype=self.X.dtype)


def _double(array: npt.NDArray[Any]) -> FloatArray:
    return array.astype(np.float64, copy=False)


def _root_mean_square(X: FloatArray, weights: FloatArray | None) -> float:
    largest = largest_magnitude(X)
    if largest == 0.0:
        return 0.0
    squares = np.empty(len(X))
    for rows in chunks(*X.shape):
        scaled = X[rows] / largest
        squares[rows] = np.einsum("ij,ij->i", scaled, scaled)
    return largest * math.sqrt(float(np.average(squares, weights=weights)) / X.shape[1])


def power_of_two(value: float) -> float:
    """Compute the power of two nearest to a positive `value` on a logarithmic scale; 1 for zero."""
    return 2.0 ** round(math.log2(value)) if value > 0.0 else 1.0
