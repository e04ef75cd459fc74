r"""Coordinate systems in which the interior-point method forms its Newton system.

A coordinate system is a linear map F of symmetric matrices with its adjoint; the multiplier of the predictions has an
entry for each coordinate. For a symmetric matrix W it provides the
parts of the Newton system: the kernel :math:`F (W \otimes W) F^T`, whose entries are
:math:`\langle \mathcal{X}_i, W \mathcal{X}_j W \rangle`, and the border :math:`F(W e_k e_k^T W)`. There is a class
for each storage of a data map. `SampleCoordinates` are the n samples of columns. `FormCoordinates` are rows of packed
entries: the samples of blocks, or, for a squared loss of many samples, a factor of the Gram matrix of the data.

Columns of real weights are coordinates times a matrix L, `columns`, which are no part of F.

The lifted map is :math:`\mathcal{X} = a x x^T + \mathrm{sym}(e, b x + c e)`, with e the last unit vector and x padded
by a zero. With :math:`k_{ij} = x_i^T W x_j`, :math:`s_i = x_i^T W e` and :math:`\omega = e^T W e`,

.. math::

    \langle \mathcal{X}_i, W \mathcal{X}_j W \rangle = a^2 k_{ij}^2 + k_{ij} (a b (s_i + s_j) + \tfrac12 b^2 \omega)
        + a c (s_i^2 + s_j^2) + b c\, \omega (s_i + s_j) + \tfrac12 b^2 s_i s_j + c^2 \omega^2 .
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dsyrk, dtrmm

from qsdp._utils import deadline
from qsdp._utils.parallel import CACHE_FLOATS, FAST_FLOATS
from qsdp._utils.validation import FloatArray
from qsdp.block_layout import Layout
from qsdp.data_map import DataMap
from qsdp.lifting import QuadraticMap

__all__ = [
    "Coordinates",
    "FormCoordinates",
    "SampleCoordinates",
]


class SampleCoordinates:
    """The samples as coordinates: F is the data map."""

    n_blocks = 1

    def __init__(self, data: DataMap) -> None:
        self._map = data = cast(QuadraticMap, data)
        self.columns = np.zeros((data.n_rows, 0))
        self.length, self.size = data.n_rows, data.size
        self._a, self._b, self._c = data.coefficients
        self._X = np.ascontiguousarray(data.X)
        self.work = self.length**3 / 3.0 + 4.0 * self.length**2 * self.size
        # Memory for blocks of rows, reused in every step: new memory would cost page faults each time.
        self._scratch = np.empty(2 * max(CACHE_FLOATS, self.length))

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
        buffers = self._scratch.reshape(2, -1)
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

    def weighted_gram(self, weights: FloatArray, Q: FloatArray, out: FloatArray) -> None:
        r"""Write the lower triangle of the weighted Gram matrix of the rows :math:`Q^T \mathcal{X}_i Q`.

        The rows are in the orthonormal basis of symmetric matrices. They are computed in blocks of samples, each as
        products of columns, in the cache; `out` is in Fortran order.
        """
        d, size, length = self._X.shape[1], self.size, len(out)
        end, step = Q[d:], max(1, len(self._scratch) // length)
        for start in range(0, self.length, step):
            deadline.check()
            rows = slice(start, start + step)
            X = Q[:d].T @ self._X[rows].T
            # Entries off the diagonal have the factor sqrt(2).
            roots = math.sqrt(2.0) * np.sqrt(weights[rows])
            scaled = (self._a * roots) * X
            other = (0.5 * roots) * (self._b * X + self._c * end[0][:, None]) if self._map.lifted else X
            block = self._scratch[: length * len(roots)].reshape(length, -1)
            first = 0
            for i in range(size):
                part = block[first : first + size - i]
                np.multiply(X[i:], scaled[i], out=part)
                first += len(part)
                if self._map.lifted:
                    part += end[0, i] * other[i:]
                    part += np.outer(end[0, i:], other[i])
                part[0] *= math.sqrt(0.5)
            dsyrk(1.0, block.T, beta=float(start > 0), c=out, trans=1, lower=1, overwrite_c=1)

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


class FormCoordinates:
    """Rows of packed entries as coordinates, for the R matrices of several blocks: samples, or a factor of their Gram.

    The kernel is a sum over blocks, as each block has scalings of its own.

    Parameters
    ----------
    layout : Layout
    rows : ndarray of shape (length, P)
        In an orthonormal basis of symmetric matrices; the entries of real weights are the `columns`.
    order : ndarray of int of shape (P,), optional
        Order of the entries in the rows of a single matrix, in which these are upper trapezoidal.
    """

    def __init__(self, layout: Layout, rows: FloatArray, order: npt.NDArray[np.intp] | None = None) -> None:
        self.size, self.n_blocks, self.length = layout.side, layout.n_blocks, len(rows)
        entries = layout.matrix_entries if order is None else order
        if layout.weights:
            self.columns, rows = rows[:, layout.weight_entries], rows[:, entries]
        else:
            self.columns = np.zeros((len(rows), 0))
        P = rows.shape[1]
        block, first, second = layout.block[entries], layout.first[entries], layout.second[entries]
        factors = layout.factors[entries]
        self._rows, self._scaled = rows, rows * (math.sqrt(0.5) * factors)
        self._blocks = [
            (N, slice(*ends), first[slice(*ends)], second[slice(*ends)], factors[slice(*ends), None])
            for N, *ends in zip(layout.sizes, layout.starts[:-1], layout.starts[1:], strict=True)
        ]
        #: The entries in the matrices, and the matrices in the entries.
        self._upper, self._factors = (block * self.size + first) * self.size + second, factors
        self._index = np.zeros((self.n_blocks, self.size, self.size), dtype=np.intp)
        self._inverse = np.zeros(self._index.shape)
        for rows_of, columns_of in ((first, second), (second, first)):
            self._index[block, rows_of, columns_of] = np.arange(P)
            self._inverse[block, rows_of, columns_of] = 1.0 / factors
        # A triangular factor takes half of the operations of the product with one side, and a third of the other.
        self._is_factor = order is not None
        self._kernel = np.empty((P, P)) if self._is_factor and len(rows) == P else None
        products = 2.0 * self.length * P**2 if order is not None else float(self.length**2 * P)
        self.work = products + self.length**3 / 3.0

    def forward(self, T: FloatArray) -> FloatArray:
        """Return the values at matrices of shape (R, N, N)."""
        values: FloatArray = self._rows @ (T.take(self._upper) * self._factors)
        return values

    def adjoint(self, q: FloatArray) -> FloatArray:
        """Apply the adjoint: return the matrices of shape (R, N, N) of a multiplier."""
        matrices: FloatArray = (q @ self._rows)[self._index] * self._inverse
        return matrices

    def squares(self, vectors: FloatArray) -> FloatArray:
        """Return the values, of shape (m, length), of the matrices v v' of a single block, for rows v of (m, N)."""
        ((_, _, first, second, _),) = self._blocks
        values: FloatArray = (vectors[:, first] * vectors[:, second] * self._factors) @ self._rows.T
        return values

    def kernel(self, G: FloatArray, W: FloatArray, out: FloatArray) -> None:
        """Write the sum of the kernels of the blocks, in strips of rows that begin at the diagonal."""
        if self._kernel is not None:
            ((_, _, first, second, _),) = self._blocks
            entry_kernel(W[0], first, second, self._kernel)
            # The rows are triangular, and LAPACK takes transposes without a copy.
            half = dtrmm(1.0, self._scaled.T, self._kernel.T, side=1, lower=1, overwrite_b=1).T
        else:
            half = np.empty_like(self._rows)
            for r, (N, part, first, second, _) in enumerate(self._blocks):
                K = np.empty((len(first), len(first)))
                entry_kernel(W[r, :, :N, :N], first, second, K)
                np.matmul(self._scaled[:, part], K, out=half[:, part])
        step = max(1, -(-self.length // 4))
        for start in range(0, self.length, step):
            # Rows of a factor are zero before the diagonal.
            strip, entries = slice(start, start + step), slice(start if self._is_factor else 0, None)
            np.matmul(half[strip, entries], self._scaled[start:, entries].T, out=out[strip, start:])

    def border(self, W: FloatArray) -> FloatArray:
        """Compute the borders of the blocks side by side, padded with zeros.

        For the entries, they are products of pairs of rows of the first W minus those of the second.
        """
        border = np.zeros((self.length, self.n_blocks, self.size))
        for r, (N, part, first, second, factors) in enumerate(self._blocks):
            products = W[r, :, :N, :N].take(first, axis=1)
            products *= W[r, :, :N, :N].take(second, axis=1)
            border[:, r, :N] = self._rows[:, part] @ ((products[0] - products[1]) * factors)
        return border.reshape(self.length, -1)


def entry_kernel(W: FloatArray, first: npt.NDArray[np.intp], second: npt.NDArray[np.intp], out: FloatArray) -> None:
    r"""Write :math:`\sum_s (W_{ik} W_{jl} + W_{il} W_{jk})_s` for all pairs (i, j) and (k, l), in chunks of rows.

    The kernel of the entries is half of this sum times the product of the factors of both pairs.
    """
    # Use `take`: array indexing would leave the rows of W strided in memory, and access to them many times slower.
    left, right = W.take(first, axis=2), W.take(second, axis=2)
    step = max(1, FAST_FLOATS // (2 * len(first)))
    for start in range(0, len(first), step):
        rows = slice(start, start + step)
        products = left.take(first[rows], axis=1)
        products *= right.take(second[rows], axis=1)
        other = right.take(first[rows], axis=1)
        other *= left.take(second[rows], axis=1)
        products += other
        np.add(products[0], products[1], out=out[rows])


#: Linear maps F from stacks of R symmetric N x N matrices (N is `size`) to `length` numbers. `work` estimates the
#: floating-point operations of a kernel and of the factorisation of the Newton system. From W and its factors G, both
#: of shape (R, 2, N, N), they compute at least the upper triangle of the kernel, and the border of shape (length, R N).
Coordinates = SampleCoordinates | FormCoordinates
