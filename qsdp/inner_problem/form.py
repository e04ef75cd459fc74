r"""The scaled matrix of the inner problem, and its products with factors.

The problem is :math:`\max \mathrm{tr}(B K)` over positive semidefinite K of unit diagonal, :math:`K = Y Y^T`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from qsdp._utils.numeric import EPS, divided_by_power, exponent_of
from qsdp._utils.tuning import INNER
from qsdp._utils.validation import FloatArray, check_matrix, check_numbers
from qsdp.exceptions import InvalidInputError

__all__ = ["Form", "is_sparse", "paired_form", "read_matrix", "rectangular_form", "scaled", "symmetric_form"]

#: A dense array or a csr_array; the latter's stubs lack the type of its products with arrays.
Matrix = Any


def is_sparse(matrix: Any) -> bool:
    """Whether a matrix is a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(matrix))


@dataclass(frozen=True, eq=False)
class Form:
    r"""Symmetric matrix B without its zero rows, with products that use its structure.

    A factor Y has rows :math:`y_i` of unit length. Its first `split` columns, P, are multiplied by `matrix`, and the
    others, Q, by ``-matrix``; only a paired form has the latter. The value is
    :math:`\mathrm{tr}(P^T M P) - \mathrm{tr}(Q^T M Q)`.

    Attributes
    ----------
    matrix : ndarray or csr_array
        Symmetric matrix of shape (N, N), or the upper right block of B if `bipartite`. It has a diagonal only if
        `paired`.
    paired : bool
        Whether both signs of the matrix occur.
    bipartite : bool
    """

    matrix: Matrix
    paired: bool = False
    bipartite: bool = False

    @property
    def size(self) -> int:
        """Number of rows of a factor."""
        return int(sum(self.matrix.shape)) if self.bipartite else int(self.matrix.shape[0])

    @property
    def work(self) -> float:
        """Number of multiplications in a product with one column."""
        entries = self.matrix.nnz if is_sparse(self.matrix) else self.matrix.size
        return float(entries) * (2.0 if self.bipartite else 1.0)

    def times(self, Y: FloatArray, split: int) -> FloatArray:
        """Compute B Y: half the gradient at Y, or the same linear map applied to a direction."""
        if self.bipartite:
            rows = len(self.matrix)
            return np.concatenate([self.matrix @ Y[rows:], self.matrix.T @ Y[:rows]])
        product: FloatArray = self.matrix @ Y
        if self.paired:
            product[:, split:] *= -1.0
        return product

    def row_sums(self) -> FloatArray:
        """Compute the absolute row sums of B; as a diagonal matrix, they dominate B."""
        return np.concatenate([_magnitude_sums(self.matrix, axis) for axis in ((1, 0) if self.bipartite else (1,))])

    def row_norms(self) -> FloatArray:
        """Compute the Euclidean norms of the rows of B, without underflow."""
        magnitudes = abs(self.matrix)
        sides = []
        for axis in (1, 0) if self.bipartite else (1,):
            largest = magnitudes.max(axis=axis)
            largest = largest.toarray().ravel() if is_sparse(largest) else np.asarray(largest)
            # Powers of two, so that the quotients are near one and nothing is rounded.
            unit = np.frexp(largest)[1]
            if is_sparse(magnitudes):
                quotients = magnitudes.tocoo()
                values = np.ldexp(quotients.data, -unit[quotients.coords[0]])
                squares = np.bincount(quotients.coords[0], values * values, len(unit))
            else:
                shape = (-1, 1) if axis == 1 else (1, -1)
                squares = np.square(np.ldexp(magnitudes, -unit.reshape(shape))).sum(axis=axis)
            sides.append(np.ldexp(np.sqrt(squares), unit))
        return np.concatenate(sides)


def read_matrix(M: Any, *, square: bool) -> Matrix:
    """Check M and convert it to a finite float64 array, or to a csr_array if it is sparse."""
    if not is_sparse(M):
        matrix: Matrix = check_matrix("M", M)
    else:
        if M.ndim != 2:
            raise InvalidInputError(f"M must have two dimensions; got shape {M.shape}")
        matrix = scipy.sparse.csr_array(M, copy=True)
        matrix.sum_duplicates()
        matrix = scipy.sparse.csr_array(
            (check_numbers("M", matrix.data, "(n, n)" if square else "(m, n)"), matrix.indices, matrix.indptr),
            shape=matrix.shape,
        )
        if 0 in matrix.shape:
            raise InvalidInputError(f"M must have at least one row and one column; got shape {matrix.shape}")
    if square and matrix.shape[0] != matrix.shape[1]:
        raise InvalidInputError(f"M must be square, of shape (n, n); got {matrix.shape}")
    return matrix


def scaled(matrix: Matrix) -> tuple[Matrix, int]:
    """Divide the matrix by a power of two so that magnitudes are within 1; also return the exponent."""
    exponent = exponent_of(float(abs(matrix).max()))
    if not is_sparse(matrix):
        return divided_by_power(matrix, exponent), exponent
    values = divided_by_power(matrix.data, exponent)
    quotient = scipy.sparse.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
    quotient.eliminate_zeros()
    return quotient, exponent


def symmetric_form(matrix: Matrix) -> tuple[Form, npt.NDArray[np.intp], FloatArray, FloatArray]:
    """Build the form of x' M x without the diagonal; also return its row indices, the diagonal, and an allowance.

    The allowance has an entry for each row of M and dominates the rounding error of the symmetric part.
    """
    diagonal = np.asarray(matrix.diagonal(), dtype=np.float64).copy()
    half = 0.5 * (matrix + matrix.T)
    if is_sparse(half):
        half.setdiag(0.0)
        half.eliminate_zeros()
    else:
        np.fill_diagonal(half, 0.0)
    form, support, sums = _supported(half)
    return form, support, diagonal, EPS * sums


def paired_form(matrix: Matrix) -> tuple[Form, npt.NDArray[np.intp], FloatArray]:
    """Build the form of u' S v for the symmetric part S of M; also return its row indices and an allowance.

    The allowance, for the antisymmetric part of M, is half of that part's absolute row sums.
    """
    half = 0.5 * (matrix + matrix.T)
    rest = 0.5 * _magnitude_sums(matrix - half, 1)
    form, support, sums = _supported(half, paired=True)
    return form, support, rest + EPS * (rest + sums)


def rectangular_form(matrix: Matrix) -> tuple[Form, npt.NDArray[np.intp]]:
    """Build the form of ``[[0, M/2], [M'/2, 0]]``; also return its indices among the rows and columns of M."""
    rows, columns = (np.flatnonzero(_magnitude_sums(matrix, axis)) for axis in (1, 0))
    block = _stored(0.5 * _sub(matrix, rows, columns))
    support = np.concatenate([rows, matrix.shape[0] + columns])
    if is_sparse(block):
        return Form(scipy.sparse.csr_array(scipy.sparse.block_array([[None, block], [block.T, None]]))), support
    return Form(block, bipartite=True), support


def _supported(half: Matrix, *, paired: bool = False) -> tuple[Form, npt.NDArray[np.intp], FloatArray]:
    """Build the form of the nonzero rows of a symmetric matrix; also return these rows and all absolute row sums."""
    sums = _magnitude_sums(half, 1)
    support = np.flatnonzero(sums)
    return Form(_stored(_sub(half, support, support)), paired), support, sums


def _magnitude_sums(matrix: Matrix, axis: int) -> FloatArray:
    return np.asarray(abs(matrix).sum(axis=axis)).ravel()


def _sub(matrix: Matrix, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> Matrix:
    if (len(rows), len(columns)) == matrix.shape:
        return matrix
    return matrix[rows][:, columns]


def _stored(matrix: Matrix) -> Matrix:
    """Convert the matrix to dense or sparse format, whichever has faster products."""
    size = matrix.shape[0] * matrix.shape[1]
    entries = matrix.nnz if is_sparse(matrix) else int(np.count_nonzero(matrix))
    # With fewer nonzero entries than this, sparse products are faster.
    if entries <= INNER * size:
        return scipy.sparse.csr_array(matrix)
    return matrix.toarray() if is_sparse(matrix) else np.ascontiguousarray(matrix)
