"""Linear maps of symmetric matrices, given by the rows of their matrices rather than by data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from qsdp._utils.arrays import library_of
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray, ReadOnlyArrays, read_only
from qsdp.exceptions import InvalidInputError

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["FormMap", "no_rows"]


@dataclass(frozen=True, eq=False)
class FormMap(ReadOnlyArrays):
    r"""Linear map of symmetric matrices, given by the rows of its matrix, such as the map of statistics of data.

    Attributes
    ----------
    size : int
        Side N of the matrices.
    rows : ndarray of shape (r, p)
        Factors of the p = N(N + 1)/2 entries of the upper triangle. Off the diagonal, the factor is twice the entry of
        the form, since the entry has two places.
    factor : float
        Common factor of all rows.
    lifted : bool
        Whether the last row and column of the matrices belong to no column of the data.
    n_samples : int
        Number of samples that the rows stand for.
    """

    size: int
    rows: FloatArray
    factor: float = 1.0
    lifted: bool = False
    n_samples: int = 0

    @classmethod
    def of(cls, forms: FloatArray, lifted: bool, n_samples: int) -> FormMap:
        """Return the map of forms given by their upper triangles, of shape (r, p)."""
        size = (math.isqrt(8 * forms.shape[1] + 1) - 1) // 2
        plain = cls(size, forms, lifted=lifted, n_samples=n_samples)
        return replace(plain, rows=forms * plain._counts)

    #: Whether the map has the rows of the data.
    has_rows: ClassVar[Literal[False]] = False

    @property
    def samples(self) -> NoReturn:
        """Raise `InvalidInputError`, since there are no rows of data."""
        raise no_rows("this")

    @property
    def n_features(self) -> int:
        """Number of columns d of the data."""
        return self.size - self.lifted

    @property
    def scale(self) -> float:
        """Common factor of the rows, to compare maps of the same data."""
        return abs(self.factor)

    @property
    def forms(self) -> FloatArray:
        """Upper triangles of the forms, of shape (r, p)."""
        return self.rows * (self.factor / self._counts)

    @property
    def n_rows(self) -> int:
        """Number of rows r."""
        return int(self.rows.shape[0])

    def forward(self, S: FloatArray) -> FloatArray:
        """Return the values of shape (r,) for a matrix of shape (N, N), symmetric or not."""
        symmetric = 0.5 * (S + S.T)
        values: FloatArray = self.factor * (self.rows @ symmetric[np.triu_indices(self.size)])
        return values

    def products(self, U: npt.ArrayLike, V: npt.ArrayLike) -> FloatArray:
        """Return the values of shape (r, k) of the matrices u_j v_j' for pairs of rows of U and V, shape (k, N)."""
        U, V = np.asarray(U, dtype=np.float64), np.asarray(V, dtype=np.float64)
        first, second = np.triu_indices(self.size)
        symmetric = 0.5 * (U[:, first] * V[:, second] + U[:, second] * V[:, first])
        values: FloatArray = self.factor * (self.rows @ symmetric.T)
        return values

    def adjoint(self, nu: FloatArray) -> FloatArray:
        """Return the sum of the forms times `nu`, symmetric of shape (N, N)."""
        first, second = np.triu_indices(self.size)
        M = np.zeros((self.size, self.size))
        # An off-diagonal entry of S occurs twice in <M, S>.
        M[first, second] = self.factor / self._counts * (self.rows.T @ nu)
        M[second, first] = M[first, second]
        return M

    def operator(self, nu: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return a function that multiplies vectors by the sum of the forms times `nu`."""
        return self.adjoint(nu).__matmul__

    def features(self) -> FloatArray:
        """Return vectors whose inner products are those of the forms, of shape (r, p)."""
        return self.rows * (self.factor / np.sqrt(self._counts))

    def expression(self, S: cp.Expression) -> cp.Expression:
        """Return the values as one affine CVXPY expression in the symmetric or square expression `S`."""
        import cvxpy as cp

        first, second = np.triu_indices(self.size)
        rows = cp.Constant(0.5 * self.factor * self.rows, name="forms")
        return rows @ (S[first, second] + S[second, first])

    def pair_sums(
        self, weights: FloatArray | None = None, dtype: Any = np.float64, device: str | None = None
    ) -> FloatArray:
        """Return the same as `QuadraticMap.pair_sums`, for few rows of weight one."""
        assert weights is None
        scale = self.factor / self._counts
        library = library_of(device, dtype)
        rows = library.take(self.rows)
        G = library.give(rows.T @ rows).astype(dtype, copy=False)
        G *= scale
        G *= scale[:, None]
        return G

    @property
    def largest_entry(self) -> float:
        """Largest magnitude of an entry of the rows."""
        return abs(self.factor) * float(np.abs(self.rows).max(initial=0.0))

    @property
    def pair_operations(self) -> float:
        """Approximate number of floating-point operations of `pair_sums`."""
        return float(self.n_rows * self.rows.shape[1] ** 2)

    @cached_property
    def absolute_sums(self) -> FloatArray:
        """Sums of the absolute values of all entries of each form, of shape (r,)."""
        return read_only(abs(self.factor) * self._per_row(lambda rows: np.abs(rows).sum(axis=1)))

    def row_bounds(self, z: FloatArray) -> FloatArray:
        """Return the Frobenius norms (r,) of the forms scaled by ``Diag(z)^(-1/2)`` on both sides, as norm bounds."""
        first, second = np.triu_indices(self.size)
        squares = self._per_row(lambda rows: np.square(rows) @ (1.0 / (self._counts * z[first] * z[second])))
        bounds: FloatArray = abs(self.factor) * np.sqrt(squares)
        return bounds

    def mean_size(self, weights: FloatArray | None = None) -> float:
        """Return the root mean square of the Frobenius norms of the forms, each with weight one."""
        assert weights is None
        largest = float(np.abs(self.rows).max(initial=0.0)) or 1.0
        squares = self._per_row(lambda rows: np.square(rows / largest) @ (1.0 / self._counts))
        return abs(self.factor) * largest * math.sqrt(float(squares.mean()))

    def active_coordinates(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows and columns of the matrices on which values depend, shape (N,)."""
        entries = np.zeros((self.size, self.size), dtype=bool)
        entries[np.triu_indices(self.size)] = np.any(self.rows != 0.0, axis=0)
        return np.asarray(entries.any(axis=0) | entries.any(axis=1))

    def restricted(self, kept: npt.NDArray[np.bool_]) -> FormMap:
        """Return the map restricted to matrices over the coordinates kept."""
        first, second = np.triu_indices(self.size)
        rows = np.ascontiguousarray(self.rows[:, kept[first] & kept[second]])
        return replace(self, size=int(kept.sum()), rows=rows, lifted=self.lifted and bool(kept[-1]))

    def in_units_of_rows(self, weights: FloatArray | None = None) -> FormMap:
        """Return the map itself, because it does not show the units of the data."""
        return self

    def scaled(self, factor: float) -> FormMap:
        """Return the map times `factor`; the rows are shared."""
        return replace(self, factor=self.factor * factor)

    def with_levels(self, ratio: float) -> FormMap:
        """Return the map for the data times `ratio`, as needed for another number of levels."""
        if ratio == 1.0:
            return self
        first, second = np.triu_indices(self.size)
        last = self.size - 1 if self.lifted else self.size
        degrees = (first != last).astype(int) + (second != last)
        return replace(self, rows=self.rows * ratio**degrees)

    def equals(self, other: object) -> bool:
        """Return whether the other map has the same rows."""
        # Factors are powers of two, so this comparison is exact.
        return isinstance(other, FormMap) and np.array_equal(self.rows * (self.factor / other.factor), other.rows)

    @property
    def _counts(self) -> FloatArray:
        first, second = np.triu_indices(self.size)
        return np.where(first == second, 1.0, 2.0)

    def _per_row(self, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
        values = np.empty(self.n_rows)
        for some in chunks(self.n_rows, self.rows.shape[1]):
            values[some] = function(self.rows[some])
        return values


def no_rows(what: str) -> InvalidInputError:
    """Return the error of something that needs the rows of the data where there are only statistics."""
    return InvalidInputError(
        f"{what} needs the rows of the data, which a problem from statistics does not have: "
        "use a problem of rows, such as `SufficientStatistics.kept_problem`"
    )
