r"""Coordinate systems in which the interior-point method forms its Newton system.

A coordinate system is a linear map F of symmetric matrices with its adjoint; the multiplier of the predictions has an
entry for each coordinate. For a symmetric matrix W it provides the
parts of the Newton system: the kernel :math:`F (W \otimes W) F^T`, whose entries are
:math:`\langle \mathcal{X}_i, W \mathcal{X}_j W \rangle`, and the border :math:`F(W e_k e_k^T W)`. `SampleCoordinates`
are the n samples (F is the data map). `FactorCoordinates` are the rows of a factor of the Gram matrix of the data, used
for a squared loss of many samples. `MatrixCoordinates` are the p = N(N + 1)/2 entries of the matrix itself.

The lifted map is :math:`\mathcal{X} = a x x^T + \mathrm{sym}(e, b x + c e)`, with e the last unit vector and x padded
by a zero. With :math:`k_{ij} = x_i^T W x_j`, :math:`s_i = x_i^T W e` and :math:`\omega = e^T W e`,

.. math::

    \langle \mathcal{X}_i, W \mathcal{X}_j W \rangle = a^2 k_{ij}^2 + k_{ij} (a b (s_i + s_j) + \tfrac12 b^2 \omega)
        + a c (s_i^2 + s_j^2) + b c\, \omega (s_i + s_j) + \tfrac12 b^2 s_i s_j + c^2 \omega^2 .
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dsyrk, dtrmm

from qsdp._utils import deadline
from qsdp._utils.parallel import CACHE_FLOATS, FAST_FLOATS, WORK_FLOATS
from qsdp._utils.validation import FloatArray
from qsdp.blocks import Layout
from qsdp.data_map import DataMap
from qsdp.gram import GramFactor, symmetric_basis
from qsdp.lifting import QuadraticMap

__all__ = [
    "Coordinates",
    "FactorCoordinates",
    "FormCoordinates",
    "MatrixCoordinates",
    "SampleCoordinates",
]


class SampleCoordinates:
    """The samples as coordinates: F is the data map."""

    n_blocks = 1

    def __init__(self, data: DataMap) -> None:
        self._map = data = cast(QuadraticMap, data)
        self.length, self.size = data.n_rows, data.size
        self._a, self._b, self._c = data.coefficients
        self._X = np.ascontiguousarray(data.X)
        self.work = self.length**3 / 3.0 + 4.0 * self.length**2 * self.size

    def forward(self, T: FloatArray) -> FloatArray:
        """Return the values of the data map at a matrix of shape (1, N, N)."""
        return self._map.forward(T[0])

    def adjoint(self, q: FloatArray) -> FloatArray:
        """Return the adjoint of the data map, of shape (1, N, N)."""
        return self._map.adjoint(q)[None]

    def squares(self, vectors: FloatArray) -> FloatArray:
        """Return the values, of shape (m, n), of the matrices v v' for the rows v of an (m, N) array."""
        return self._map.products(vectors, vectors).T

    def kernel(self, G: FloatArray, W: FloatArray, out: FloatArray) -> None:
        """Write the upper triangle of the sum of both kernels; it is positive semidefinite up to rounding.

        It is computed in blocks of rows: each is finished while in the cache, and no second n x n matrix is needed.
        """
        d, G = self._X.shape[1], G[0]
        scale = 1.0 if self._map.lifted else np.sqrt(abs(self._a))
        factors = [scale * (self._X @ G[s, :d]) for s in range(2)]
        ends = [(factor @ G[s, d], float(G[s, d] @ G[s, d])) for s, factor in enumerate(factors) if self._map.lifted]
        step = max(1, min(CACHE_FLOATS // self.length, -(-self.length // 4)))
        buffers = np.empty((2, min(step, self.length) * self.length))
        for start in range(0, self.length, step):
            deadline.check()
            stop = min(start + step, self.length)
            shape = (stop - start, self.length - start)
            blocks = [buffer[: shape[0] * shape[1]].reshape(shape) for buffer in buffers]
            for s, (block, factor) in enumerate(zip(blocks, factors, strict=True)):
                np.matmul(factor[start:stop], factor[start:].T, out=block)
                if self._map.lifted:
                    self._lift(block, *ends[s], slice(start, stop))
                else:
                    block *= block
            np.add(blocks[0], blocks[1], out=out[start:stop, start:])

    def _lift(self, k: FloatArray, s: FloatArray, omega: float, rows: slice) -> None:
        """Turn rows of :math:`k_{ij}` into rows of the kernel, in place; columns start at the first of these rows."""
        a, b, c = self._a, self._b, self._c
        alone = a * c * s * s + b * c * omega * s + 0.5 * c * c * omega * omega
        columns = slice(rows.start, None)
        scaled = (a * a) * k
        scaled += (0.25 * b * b * omega + a * b * s)[rows, None]
        scaled += (0.25 * b * b * omega + a * b * s)[columns]
        k *= scaled
        k += alone[rows, None]
        k += alone[columns]
        k += np.outer(0.5 * b * b * s[rows], s[columns])

    def weighted_gram(self, weights: FloatArray, Q: FloatArray) -> FloatArray:
        r"""Return the lower triangle of the weighted Gram matrix of the rows :math:`Q^T \mathcal{X}_i Q`.

        The rows are in the orthonormal basis of symmetric matrices and are computed in blocks of samples.
        """
        first, second, factors = symmetric_basis(self.size)
        d = self._X.shape[1]
        gram = np.zeros((len(first), len(first)), order="F")
        step = max(1, WORK_FLOATS // len(first))
        for start in range(0, self.length, step):
            deadline.check()
            rows = slice(start, start + step)
            X = self._X[rows] @ Q[:d]
            block = X[:, first]
            if self._map.lifted:
                end = Q[d]
                other = self._b * X + self._c * end
                block *= self._a * X[:, second]
                block += 0.5 * (end[first] * other[:, second] + end[second] * other[:, first])
            else:
                block *= self._a * X[:, second]
            block *= factors
            block *= np.sqrt(weights[rows])[:, None]
            gram = dsyrk(1.0, block.T, beta=1.0, c=gram, lower=1, overwrite_c=1)
        return gram

    def border(self, W: FloatArray) -> FloatArray:
        r"""Compute :math:`a q_k^2 + t_k (b q_k + c t_k)`, q = W x and t = W e, for the first W minus the second."""
        a, b, c = self._a, self._b, self._c
        d, W = self._X.shape[1], W[0]
        q = self._X @ W[:, :d, :]
        values = a * q
        if self._map.lifted:
            t = W[:, d, None, :]
            values += b * t
            values *= q
            values += c * t * t
        else:
            values *= q
        border: FloatArray = values[0] - values[1]
        return border


class MatrixCoordinates:
    """The matrix entries as coordinates: F is the identity, in the orthonormal basis of symmetric matrices.

    The p entries of the upper triangle are stored row by row, or only those listed in `order`; others are zero.
    """

    def __init__(self, size: int, order: npt.NDArray[np.intp] | None = None) -> None:
        self.size = size
        first, second, factors = symmetric_basis(size)
        self._order = slice(None) if order is None else order
        self._first, self._second, self._factors = first[self._order], second[self._order], factors[self._order]
        self.length = len(self._first)
        self.work = self.length**3 / 3.0
        place, inverse = np.zeros((size, size), dtype=np.intp), np.zeros((size, size))
        place[self._first, self._second] = place[self._second, self._first] = np.arange(self.length)
        inverse[self._first, self._second] = inverse[self._second, self._first] = 1.0 / self._factors
        self._place, self._inverse = place, inverse
        self._upper = self._first * size + self._second
        self.factors = self._factors
        self._columns: npt.NDArray[np.float64] = self._factors[:, None]

    def forward(self, T: FloatArray) -> FloatArray:
        """Convert a symmetric matrix to its coordinates, which keep inner products."""
        values: FloatArray = T.ravel()[self._upper] * self._factors
        return values

    def squares(self, vectors: FloatArray) -> FloatArray:
        """Return the coordinates, one row each, of the matrices v v' for the rows v of an (m, N) array."""
        values: FloatArray = vectors[:, self._first] * vectors[:, self._second] * self._factors
        return values

    def adjoint(self, q: FloatArray) -> FloatArray:
        """Convert coordinates to a symmetric matrix of shape (1, N, N)."""
        matrix: FloatArray = q[self._place] * self._inverse
        return matrix

    def plain_kernel(self, W: FloatArray, out: FloatArray) -> None:
        r"""Write :math:`\sum_s (W_{ik} W_{jl} + W_{il} W_{jk})_s` for all pairs (i, j) and (k, l), in blocks of rows.

        The kernel of the entries is half of this sum times the product of the factors of both pairs.
        """
        # Use `take`: array indexing would leave the rows of W strided in memory, and access to them many times slower.
        left, right = W.take(self._first, axis=2), W.take(self._second, axis=2)
        step = max(1, FAST_FLOATS // (2 * self.length))
        for start in range(0, self.length, step):
            rows = slice(start, start + step)
            first, second = self._first[rows], self._second[rows]
            products = left.take(first, axis=1)
            products *= right.take(second, axis=1)
            other = right.take(first, axis=1)
            other *= left.take(second, axis=1)
            products += other
            np.add(products[0], products[1], out=out[rows])

    def border(self, W: FloatArray) -> FloatArray:
        """Compute the products of pairs of rows of the first W minus those of the second."""
        products = W.take(self._first, axis=1)
        products *= W.take(self._second, axis=1)
        values: FloatArray = products[0] - products[1]
        values *= self._columns
        return values


class FormCoordinates:
    """Rows of packed entries as coordinates, for the R matrices of several blocks.

    The kernel is a sum over blocks, as each block has scalings of its own.

    Parameters
    ----------
    layout : Layout
    rows : ndarray of shape (length, P)
        In an orthonormal basis of symmetric matrices.
    order : ndarray of int of shape (P,), optional
        Order of the entries in the rows of a single block.
    """

    def __init__(self, layout: Layout, rows: FloatArray, order: npt.NDArray[np.intp] | None = None) -> None:
        self.size, self.n_blocks, self.length = layout.side, layout.n_blocks, len(rows)
        self.work = float(self.length**2 * layout.n_entries + self.length**3 / 3.0)
        self._rows = rows
        self._blocks: list[tuple[int, slice, MatrixCoordinates]] = []
        for N, flat, *ends in zip(layout.sizes, layout.linear, layout.starts[:-1], layout.starts[1:], strict=True):
            # Of diagonal matrices, only the pairs (i, i) are coordinates.
            pairs = np.cumsum([0, *range(N, 1, -1)]) if flat else order
            self._blocks.append((N, slice(*ends), MatrixCoordinates(N, pairs)))
        self._scaled = rows * (math.sqrt(0.5) * np.concatenate([entries.factors for _, _, entries in self._blocks]))

    def forward(self, T: FloatArray) -> FloatArray:
        """Return the values at matrices of shape (R, N, N)."""
        values: FloatArray = self._rows @ self._packed(T)
        return values

    def adjoint(self, q: FloatArray) -> FloatArray:
        """Apply the adjoint: return the matrices of shape (R, N, N) of a multiplier."""
        return self._unpacked(q @ self._rows)

    def squares(self, vectors: FloatArray) -> FloatArray:
        """Return the values, of shape (m, length), of the matrices v v' of a single block, for rows v of (m, N)."""
        (_, _, entries), *_ = self._blocks
        values: FloatArray = entries.squares(vectors) @ self._rows.T
        return values

    def kernel(self, G: FloatArray, W: FloatArray, out: FloatArray) -> None:
        """Write the sum of the kernels of the blocks."""
        half = np.empty_like(self._rows)
        for r, (N, own, entries) in enumerate(self._blocks):
            K = np.empty((entries.length, entries.length))
            entries.plain_kernel(W[r, :, :N, :N], K)
            np.matmul(self._scaled[:, own], K, out=half[:, own])
        np.matmul(half, self._scaled.T, out=out)

    def border(self, W: FloatArray) -> FloatArray:
        """Compute the borders of the blocks side by side, padded with zeros."""
        border = np.zeros((self.length, self.n_blocks, self.size))
        for r, (N, own, entries) in enumerate(self._blocks):
            border[:, r, :N] = self._rows[:, own] @ entries.border(W[r, :, :N, :N])
        return border.reshape(self.length, -1)

    def _packed(self, T: FloatArray) -> FloatArray:
        """Pack the entries of matrices of shape (R, N, N), in the order of the rows."""
        parts = [entries.forward(T[r, :N, :N]) for r, (N, _, entries) in enumerate(self._blocks)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _unpacked(self, values: FloatArray) -> FloatArray:
        """Unpack entries to matrices of shape (R, N, N)."""
        if len(self._blocks) == 1:
            return self._blocks[0][2].adjoint(values)[None]
        matrices = np.zeros((self.n_blocks, self.size, self.size))
        for r, (N, own, entries) in enumerate(self._blocks):
            matrices[r, :N, :N] = entries.adjoint(values[own])
        return matrices


class FactorCoordinates(FormCoordinates):
    """Rows R of a factor of the Gram matrix as coordinates, see `GramFactor`."""

    def __init__(self, gram: FloatArray, layout: Layout) -> None:
        self._factor = factor = GramFactor(gram)
        #: Positions of the factor's entries among those of the rows, which have the same order if there is one matrix.
        self._order: Any = factor.order
        self._whole: FloatArray | None = None
        if layout.n_blocks == 1 and not any(layout.linear):
            self._order = slice(None)
            super().__init__(layout, factor.lower.T, factor.order)
            self.work = 2.0 * self.length * len(gram) ** 2 + self.length**3 / 3.0
            self._whole = np.empty((len(gram), len(gram)))
            return
        super().__init__(layout, factor.rows)

    def kernel(self, G: FloatArray, W: FloatArray, out: FloatArray) -> None:
        """Write R K R' for the kernel K of the entries."""
        if self._whole is None or self.length < len(self._whole):
            super().kernel(G, W, out)
            return
        ((_, _, entries),) = self._blocks
        entries.plain_kernel(W[0], self._whole)
        # The rows are triangular, the matrix is symmetric, and LAPACK takes transposes without a copy.
        half = dtrmm(1.0, self._scaled.T, self._whole.T, side=1, lower=1)
        out[...] = dtrmm(1.0, self._scaled.T, half, side=0, lower=1, trans_a=1, overwrite_b=1).T

    def targets(self, products: FloatArray) -> FloatArray:
        """Find targets whose products with the rows are `products`, matching the leading entries."""
        return self._factor.targets(products)

    def coordinates_of(self, M: FloatArray) -> FloatArray:
        """Find the multiplier whose adjoint is M, of shape (R, N, N), if there is one."""
        return self._factor.multiplier(self._packed(M)[self._order])

    def preimage(self, values: FloatArray) -> FloatArray:
        """Find matrices of shape (R, N, N) that the map takes to `values`."""
        entries = np.empty(self._rows.shape[1])
        entries[self._order] = self._factor.preimage(values)
        return self._unpacked(entries)


#: Linear maps F from stacks of R symmetric N x N matrices (N is `size`) to `length` numbers. `work` estimates the
#: floating-point operations of a kernel and of the factorisation of the Newton system. From W and its factors G, both
#: of shape (R, 2, N, N), they compute at least the upper triangle of the kernel, and the border of shape (length, R N).
Coordinates = SampleCoordinates | FormCoordinates
