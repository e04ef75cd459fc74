r"""Large products of the data with low-rank factors, in single or double precision.

A solver that keeps matrices as :math:`T_c = \sum_{j \in c} \sigma_j e_j e_j^T` needs few products with the data: the
images of the columns e (`Products.image`), values of pairs of them, and the adjoint applied to them. Each takes
``2 n d k`` operations for k columns. Arrays of n rows and k columns stay in that precision; all else is in double.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from qsdp._utils.arrays import squared_rows
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray
from qsdp.data_map import DataMap
from qsdp.lifting import QuadraticMap, bordered

__all__ = ["Image", "PackedProducts", "Products"]


@dataclass(frozen=True, eq=False)
class Image:
    """Image of k columns under the data: their products with the rows of X, and their entries in the lifted coordinate.

    Attributes
    ----------
    x : ndarray of shape (n, k)
        In the precision of the `Products` that made it.
    t : ndarray of shape (k,)
        Zero unless the map is lifted.
    """

    x: npt.NDArray[Any]
    t: FloatArray

    def scaled(self, factors: FloatArray, products: Products | PackedProducts) -> Image:
        """Return the image of the columns multiplied by `factors`, of shape (k,)."""
        return Image(self.x * products.take(factors), self.t * factors)


class Products:
    r"""The products of a quadratic map with dense matrices and with columns.

    They are computed in float32 or float64; the results are float64.

    `mixing`, of shape (k, C), holds the sign with which each column enters each of C matrices:
    """

    def __init__(self, data: DataMap, dtype: npt.DTypeLike = np.float64) -> None:
        self._data, self._dtype = cast(QuadraticMap, data), dtype
        self._X = self.take(self._data.X)
        #: Approximate number of floating-point operations so far.
        self.operations = 0.0

    def take(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert an array to the precision of the products."""
        return np.asarray(array, dtype=self._dtype)

    def cast(self, image: Image) -> Image:
        """Convert an image to the precision of the products."""
        return Image(self.take(image.x), image.t)

    # -- dense matrices ------------------------------------------------------------------------------

    def forward(self, T: FloatArray) -> FloatArray:
        r"""Return :math:`\langle \mathcal{X}_i, T \rangle` of shape (n,) for a matrix, symmetric or not."""
        a, b, c = self._data.coefficients
        d = self._data.X.shape[1]
        inner, ones = self.take(a * T[:d, :d]), self.take(np.ones(d))
        parts = (self._X[rows] for rows in chunks(*self._X.shape))
        values = np.concatenate([_double(((x @ inner) * x) @ ones) for x in parts])
        if self._data.lifted:
            values += _double(self._X @ self.take(0.5 * b * (T[:d, d] + T[d, :d]))) + c * T[d, d]
        return values

    def adjoint(self, nu: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_i \nu_i \mathcal{X}_i`, symmetric."""
        return self._weighted(nu, *self._data.coefficients)

    def moments(self, weights: FloatArray | None = None) -> FloatArray:
        r"""Return :math:`X^T X` of (weighted) rows, with an appended one if lifted."""
        return self._weighted(np.ones(self._data.n_rows) if weights is None else weights, 1.0, 2.0, 1.0)

    def _weighted(self, nu: FloatArray, a: float, b: float, c: float) -> FloatArray:
        self.operations += 2.0 * self._data.X.size * self._data.X.shape[1]
        inner = squared_rows(self._X, a * nu)
        if not self._data.lifted:
            return inner
        return bordered(inner, 0.5 * b * _double(self._X.T @ self.take(nu)), c * float(nu.sum()))

    def forwards(self, T: FloatArray) -> FloatArray:
        r"""Return :math:`\langle \mathcal{X}_i, T_k \rangle` of shape (n, C) for C matrices."""
        return np.stack([self.forward(matrix) for matrix in T], axis=1)

    def adjoints(self, nu: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_i \nu_{ik} \mathcal{X}_i`, symmetric of shape (C, N, N), for the columns of nu."""
        # A single matrix is not copied, since it may fill the memory.
        matrices = [self.adjoint(column) for column in nu.T]
        return matrices[0][None] if len(matrices) == 1 else np.stack(matrices)

    # -- columns -------------------------------------------------------------------------------------

    def image(self, E: FloatArray) -> Image:
        """Return the image of the columns of E, of shape (N, k)."""
        d = self._data.X.shape[1]
        self.operations += 2.0 * self._data.X.size * E.shape[1]
        return Image(self._X @ self.take(E[:d]), E[d] if self._data.lifted else np.zeros(E.shape[1]))

    def pair(self, first: Image, second: Image, mixing: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_j \sigma_{jc}\, e_j^T \mathcal{X}_i f_j` of shape (n, C)."""
        a, b, c = self._data.coefficients
        values = _double((first.x * second.x) @ self.take(a * mixing))
        if self._data.lifted:
            for image, t in ((first, second.t), (second, first.t)):
                values += _double(image.x @ self.take(0.5 * b * t[:, None] * mixing))
            values += (c * first.t * second.t) @ mixing
        return values

    def pull(self, terms: Sequence[tuple[FloatArray, Image]], mixing: FloatArray) -> FloatArray:
        r"""Apply the adjoint of weights (n, C) to the columns of an image, summed over pairs of weights and image.

        Column j of the result, of shape (N, k), is :math:`\sum_i \sum_c \sigma_{jc} \nu_{ic}\, \mathcal{X}_i e_j`.
        """
        a, b, c = self._data.coefficients
        spread = self.take(mixing.T)
        self.operations += 2.0 * self._data.X.size * len(mixing)
        weighted = sum((self.take(nu) @ spread) * image.x for nu, image in terms)
        inner = a * _double(self._X.T @ weighted)
        if not self._data.lifted:
            return inner
        last = 0.5 * b * _double(self.take(np.ones(self._data.n_rows)) @ weighted)
        for nu, image in terms:
            entries = mixing * image.t[:, None]
            inner += _double(self._X.T @ self.take(nu)) @ (0.5 * b * entries).T
            last += c * (entries @ nu.sum(axis=0))
        return np.vstack([inner, last])

    def gram(self, image: Image, columns: slice, weights: FloatArray) -> FloatArray:
        r"""Compute the weighted mean of :math:`r_i r_i^T`, with the slopes :math:`r_i` of :math:`\mathcal{X}_i E` in x.

        The slopes are :math:`a\, x_i^T e_j + \tfrac{b}{2} t_j` for the columns j of a slice.
        """
        a, b, _ = self._data.coefficients
        slopes = image.x[:, columns] * a
        if self._data.lifted:
            slopes = slopes + self.take(0.5 * b * image.t[columns])
        product = slopes.T @ (slopes * self.take(weights)[:, None])
        return _double(product) / self._data.n_rows


class PackedProducts:
    r"""Products of a map of packed rows with columns; the image of a column is the column itself.

    `mixing`, of shape (k, K), holds the sign with which each column enters each matrix. Only passes over the rows take
    many operations, so all is NumPy in double precision.
    """

    def __init__(self, data: DataMap) -> None:
        self._data = data
        #: Approximate number of floating-point operations so far.
        self.operations = 0.0
        self._known: list[tuple[FloatArray, FloatArray]] = []

    def take(self, array: FloatArray) -> FloatArray:
        """Return the array unchanged: it already has the precision of the products."""
        return array

    def cast(self, image: Image) -> Image:
        """Return the image unchanged: it already has the precision of the products."""
        return image

    def image(self, E: FloatArray) -> Image:
        """Return the image of the columns of E, of shape (N, k)."""
        return Image(E, np.zeros(E.shape[1]))

    def pair(self, first: Image, second: Image, mixing: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_j \sigma_{jk}\, e_j^T \mathcal{X}_{ir} f_j`, summed over blocks r, of shape (n, C)."""
        N = len(first.x)
        products = (first.x[:, None] * second.x[None]).reshape(N * N, -1) @ mixing
        T = products.T.reshape(-1, N, N)
        self._count(len(T))
        return self._data.forwards(0.5 * (T + T.swapaxes(1, 2)))

    def pull(self, terms: Sequence[tuple[FloatArray, Image]], mixing: FloatArray) -> FloatArray:
        """Apply the adjoint of weights (n, C) to the columns of an image, summed over pairs of weights and image."""
        pulled: FloatArray = np.zeros_like(terms[0][1].x)
        for nu, image in terms:
            M = self._adjoints(nu)
            own = (mixing @ M.reshape(len(M), -1)).reshape(-1, *M.shape[1:])
            pulled += np.einsum("jab,bj->aj", own, image.x)
        return pulled

    def _adjoints(self, nu: FloatArray) -> FloatArray:
        # Products with the Hessian at one point have one of two vectors in common.
        known = next((M for other, M in self._known if other is nu), None)
        if known is None:
            known = self._data.adjoints(nu)
            self._count(len(known))
        self._known = [*(pair for pair in self._known[-1:] if pair[0] is not nu), (nu, known)]
        return known

    def _count(self, matrices: int) -> None:
        outputs = matrices // self._data.n_blocks
        self.operations += 2.0 * self._data.n_rows * self._data.layout.n_entries * outputs


def _double(array: npt.NDArray[Any]) -> FloatArray:
    return array.astype(np.float64, copy=False)
