r"""The interface of data: a linear map from matrices to values at the samples, whatever the data are stored as.

A sample i has a symmetric matrix :math:`\mathcal{X}_{ir}` for every block r; data of columns are a single block. A
stack T holds the matrices of C outputs and R blocks, shape (C R, N, N), the blocks of an output one after the other.
The map and its adjoint are

.. math::

    \mathcal{A}(T)_{ic} = \sum_r \langle \mathcal{X}_{ir}, T_{cr} \rangle, \qquad
    \mathcal{A}^*(\nu)_{cr} = \sum_i \nu_{ic} \mathcal{X}_{ir} .

Neurons are rank-one matrices, :math:`u^T \mathcal{X}_{ir} v`. In packed entries, a matrix is a vector of the P entries
of the upper triangles of its blocks (see `Layout`), and :math:`\mathcal{A}` is a product with an n x P matrix F. Blocks
may also have p columns with real weights, which are entries of F, but not of the stack: a point is then the stack and
weights of shape (C, p), which `values` and `pull` take and return. Data of columns have none, p = 0. There are two
storages: `qsdp.lifting.QuadraticMap` holds rows of columns, whose products are never formed, and
`qsdp.forms.FormMap` holds F itself.

What only some maps can do is declared in `DataMap.offers`. Whoever needs it calls `require`, or asks `lacking` for the
sentence that refuses it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks, in_threads
from qsdp._utils.validation import FloatArray, ReadOnlyArrays
from qsdp.block_layout import Layout
from qsdp.exceptions import InvalidInputError
from qsdp.roundoff import VerifiedSums

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["BLOCKS", "COLUMNS", "SAMPLES", "DataMap", "Image", "lacking", "require"]

#: What a map may offer: rows that are the samples, and not rows that stand for them; matrices that are products of
#: columns; several matrices or vectors a sample.
SAMPLES, COLUMNS, BLOCKS = "samples", "columns", "blocks"

#: What is said of a problem whose data do not offer it.
_REFUSALS = {
    SAMPLES: (
        "needs the rows of the data, which a problem from statistics does not have: "
        "use a problem of rows, such as `SufficientStatistics.sample_problem`"
    ),
    COLUMNS: "needs data of columns; the problem has blocks, or only statistics",
    BLOCKS: "needs data in blocks; the problem has columns",
}

#: Columns of shape (N, k) with their products with the rows of the data, (n, k), which packed entries do not need.
Image = tuple[FloatArray, npt.NDArray[Any]]

Self = TypeVar("Self", bound="DataMap")


class DataMap(ReadOnlyArrays, ABC):
    """Data as a linear map of stacks of symmetric matrices, see the module."""

    if TYPE_CHECKING:
        # A storage may have them as fields of a dataclass, for which properties of a base would be defaults.
        @property
        def offers(self) -> frozenset[str]:
            """Which of `SAMPLES`, `COLUMNS` and `BLOCKS` the map offers."""

        @property
        def layout(self) -> Layout:
            """Sides of the blocks, and positions of their packed entries."""

        @property
        def units(self) -> FloatArray | None:
            """Factor of each packed entry, of shape (P,); None is one."""

        @property
        def X(self) -> Any:  # noqa: N802 (the name of data in scikit-learn)
            """Data (n, d) or blocks, in the units of the problem; an error for statistics."""

        @property
        def n_rows(self) -> int:
            """Number of rows n."""

        @property
        def n_samples(self) -> int:
            """Number of samples that the rows stand for."""

        @property
        def n_features(self) -> int:
            """Number of columns d of the data; of packed entries, for blocks."""

        @property
        def scale(self) -> float:
            """Common factor, to compare maps of the same data."""

        @property
        def largest_stored(self) -> float:
            """Largest magnitude of a number that is stored."""

        @property
        def absolute_sums(self) -> FloatArray:
            """Sums of the absolute values of all entries of each matrix, of shape (n, R).

            If there are real weights, another column has the largest absolute value of their entries.
            """

        @property
        def pair_operations(self) -> float:
            """Approximate number of floating-point operations of `pair_sums`."""

        @property
        def kernel_operations(self) -> float:
            """Approximate number of floating-point operations of `fill_kernel`."""

        @property
        def row_operations(self) -> float:
            """Approximate number of floating-point operations of a value at one row."""

    @cached_property
    def size(self) -> int:
        """Side N of the matrices, that of the largest block."""
        return self.layout.side

    @cached_property
    def n_blocks(self) -> int:
        """Number R of matrices of an output."""
        return self.layout.n_blocks

    @property
    def has_few_rows(self) -> bool:
        """Whether n is so much smaller than N that decompositions through rows of columns take less time."""
        return False

    # -- values ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def forward(self, S: FloatArray, n_jobs: int = 1) -> FloatArray:
        """Return the values (n,) of matrices of shape (N, N) or (R, N, N), symmetric or not."""

    @abstractmethod
    def forwards(self, T: FloatArray, n_jobs: int = 1) -> FloatArray:
        """Return the values (n, C) of a stack of symmetric matrices."""

    def values(self, T: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the values (n, C) of a stack of symmetric matrices and real weights (C, p)."""
        return self.forwards(T)

    @abstractmethod
    def products(self, U: npt.ArrayLike, V: npt.ArrayLike, block: npt.NDArray[np.intp] | None = None) -> FloatArray:
        r"""Return :math:`u_j^T \mathcal{X}_{ir} v_j` of shape (n, k) for rows of U and V (k, N) and their blocks.

        If `block` is None, all are in the first.
        """

    def combinations(self, U: FloatArray, V: FloatArray, alpha: FloatArray, n_jobs: int = 1) -> FloatArray:
        r"""Return :math:`\sum_j \alpha_{jk}\, u_j^T \mathcal{X}_i v_j` of shape (n, C), for alpha of shape (m, C)."""
        values = np.empty((self.n_rows, alpha.shape[1]))

        def evaluate(rows: slice) -> None:
            values[rows] = self.take(rows).products(U, V) @ alpha

        in_threads(evaluate, chunks(self.n_rows, max(self.size, len(U))), n_jobs)
        return values

    @abstractmethod
    def values_of(self, vectors: FloatArray, dtype: Any = np.float64) -> FloatArray:
        """Return the inner products (n, k) of the packed entries with vectors (k, P).

        `dtype` is the smallest precision of the products; in single precision, packed entries take half the time.
        """

    @abstractmethod
    def values_in_blocks(self, vectors: FloatArray, block: npt.NDArray[np.intp]) -> FloatArray:
        """Return `values_of` for vectors that are zero outside of these blocks, at a lower cost."""

    # -- adjoint --------------------------------------------------------------------------------------------------

    @abstractmethod
    def adjoint(self, nu: FloatArray) -> FloatArray:
        """Apply the adjoint to `nu`, (n,); return a symmetric matrix (N, N), or (R, N, N) for several blocks."""

    @abstractmethod
    def adjoints(self, nu: FloatArray) -> FloatArray:
        """Apply the adjoint to each column of `nu`; return a stack of shape (C R, N, N)."""

    def pull(self, nu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Apply the adjoint to each column of `nu`; return the stack (C R, N, N) and the real weights (C, p)."""
        return self.adjoints(nu), np.zeros((nu.shape[1], 0))

    @abstractmethod
    def sums(self, nu: FloatArray, dtype: Any = np.float64) -> FloatArray:
        """Apply the adjoint to each column of `nu`; return packed entries (P, C). See `values_of` for `dtype`."""

    @abstractmethod
    def operator(self, nu: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return a function that multiplies vectors (R, N) by the adjoint's matrices at `nu`, block by block."""

    # -- matrices of low rank -------------------------------------------------------------------------------------
    #
    # Of k columns e, `mixing` of shape (k, C R) holds the factor of each in each of the matrices.

    @abstractmethod
    def image(self, columns: FloatArray) -> Image:
        """Return columns of shape (N, k) with what the next two methods need of them, computed once."""

    @abstractmethod
    def pair_values(self, first: Image, second: Image, mixing: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_j \sigma_{jcr}\, e_j^T \mathcal{X}_{ir} f_j`, summed over blocks r, of shape (n, C)."""

    @abstractmethod
    def column_weights(self, nu: FloatArray) -> FloatArray:
        """Return weights (n, C) as `adjoint_columns` takes them, linear in the weights and computed once."""

    @abstractmethod
    def adjoint_columns(self, terms: Sequence[tuple[FloatArray, Image]], mixing: FloatArray) -> FloatArray:
        r"""Apply the adjoint to columns, summed over pairs of `column_weights` and images.

        Column j of the result, of shape (N, k), is :math:`\sum_{icr} \sigma_{jcr} \nu_{ic}\, \mathcal{X}_{ir} e_j`.
        """

    @abstractmethod
    def column_operations(self, n_columns: int, n_outputs: int) -> float:
        """Approximate number of floating-point operations of the values, or of the adjoint, of columns."""

    # -- inner products -------------------------------------------------------------------------------------------

    @abstractmethod
    def features(self) -> FloatArray:
        """Return vectors (n, P) whose inner products are those of the matrices."""

    @abstractmethod
    def inner_products(self: Self, other: Self) -> FloatArray:
        """Return the inner products of the matrices of rows with those of another map of the same storage."""

    @abstractmethod
    def fill_kernel(self, delta: FloatArray, kernel: npt.NDArray[Any], sigma: float = 1.0) -> None:
        """Write the inner products of the rows to an array (n, n), in its precision.

        Rows and columns of the matrices are divided by `delta`, of shape (R, N), and real columns by `sigma`.
        """

    @abstractmethod
    def pair_sums(
        self, weights: FloatArray | None = None, dtype: Any = np.float64, device: str | None = None
    ) -> FloatArray:
        """Compute the (weighted) sums over the rows of products of two packed entries, see `Gram`.

        Raises
        ------
        TimeOver
            A time limit passed between chunks of rows.
        """

    @abstractmethod
    def expression(self, S: cp.Expression | list[cp.Expression], weights: cp.Expression | None = None) -> cp.Expression:
        """Build the values as an affine CVXPY expression in a symmetric or square expression, or one for each block.

        `weights` is an expression for the real weights, (p,), or None if there are none.
        """

    # -- bounds ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def verified_sums(self) -> VerifiedSums | None:
        """Return a function that computes the matrices of dual vectors, with bounds on their errors from rounding.

        It is None if no bound is known, as the coefficients of the map are too small or too large.
        """

    def pricing_losses(self, nu: FloatArray) -> FloatArray:
        """Bound by how much pricing values of the samples exceed those of the rows, for `nu` (n, C).

        There is one for each output and constraint, see `Layout.n_constraints`.
        """
        return np.zeros(nu.shape[1] * self.layout.n_constraints)

    def value_loss(self, nu: FloatArray, targets: FloatArray) -> float:
        r"""Bound by how much :math:`\nu^T y - \|\nu\|^2 / 4` of the samples is less than that of the rows."""
        return 0.0

    @abstractmethod
    def mean_size(self, weights: FloatArray | None = None) -> float:
        """Return the (weighted) root mean square of the Frobenius norms of the matrices."""

    @abstractmethod
    def active_coordinates(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows and columns of the matrices on which values depend, shape (N,)."""

    # -- other maps -----------------------------------------------------------------------------------------------

    @abstractmethod
    def restricted(self: Self, active: npt.NDArray[np.bool_]) -> Self:
        """Restrict the map to matrices over the coordinates `active`, for one block."""

    @abstractmethod
    def in_units_of_rows(self: Self, weights: FloatArray | None = None) -> Self:
        """Represent the same map with data whose (weighted) root mean square row norm is near one, if it has any."""

    @abstractmethod
    def scaled(self: Self, factor: float) -> Self:
        """Return the map times `factor`; the data are shared."""

    @abstractmethod
    def of_scaled_data(self: Self, ratio: float) -> Self:
        """Return the map for the columns of the data times `ratio`."""

    def in_precision(self: Self, dtype: npt.DTypeLike) -> Self:
        """Return the map with products of n rows in another precision, and results in double.

        Packed rows are not copied, since they may be mapped from a file, or represent statistics.
        """
        return self

    @abstractmethod
    def take(self: Self, rows: Any) -> Self:
        """Return the map restricted to some rows."""

    @abstractmethod
    def equals(self, other: object) -> bool:
        """Return whether the other map has the same data in the same units."""


def lacking(data: DataMap, what: str, *needs: str) -> str | None:
    """Return the sentence that refuses `what`, which needs these offers; None if the data have them all."""
    return next((f"{what} {_REFUSALS[need]}" for need in needs if need not in data.offers), None)


def require(data: DataMap, what: str, *needs: str) -> None:
    """Raise `InvalidInputError` unless the data offer all that `what` needs."""
    if (reason := lacking(data, what, *needs)) is not None:
        raise InvalidInputError(reason)
