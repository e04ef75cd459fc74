r"""The heavy products of a method in factors, in the precision and on the device that are asked for.

A solver that keeps matrices as :math:`T_c = \sum_{j \in c} \sigma_j e_j e_j^T` needs the data for little: what the
columns e become (`Products.image`), values of pairs of them, and the adjoint applied to them, each ``2 n d k``
operations for k columns. Arrays of n rows by k columns stay where the data are; everything else is NumPy float64.

Without a device that is NumPy; with one, such as "cpu" or "cuda", torch, which is imported then only.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils.numeric import symmetrised
from qsdp._utils.validation import FloatArray
from qsdp.exceptions import InvalidInputError, UnavailableSolverError
from qsdp.lifting import QuadraticMap

__all__ = ["Image", "Products"]

#: Floats of the temporary arrays of products with dense matrices.
_BLOCK_FLOATS = 2**24


@dataclass(frozen=True, eq=False)
class Image:
    """What the data make of k columns: their products with the rows of X, and their entries in the lifted coordinate.

    Attributes
    ----------
    x : array of shape (n, k)
        Of the library and on the device of the products that made it.
    t : ndarray of shape (k,)
        Zero unless the map is lifted.
    """

    x: Any
    t: FloatArray

    def scaled(self, factors: FloatArray, products: Products) -> Image:
        """Return the image of the columns times these factors, of shape (k,)."""
        return Image(self.x * products.take(factors), self.t * factors)


class _NumPy:
    """The library of the arrays; a NumPy array in double precision is given back."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = dtype

    def take(self, array: Any) -> Any:
        return np.asarray(array, dtype=self._dtype)

    def give(self, array: Any) -> FloatArray:
        return np.asarray(array, dtype=np.float64)


class _Torch(_NumPy):
    def __init__(self, dtype: Any, device: str) -> None:
        try:
            torch = importlib.import_module("torch")
        except ImportError as error:
            raise UnavailableSolverError(f"device={device!r} needs torch: pip install torch") from error
        self._torch = torch
        self._dtype = {"float32": torch.float32, "float64": torch.float64}[np.dtype(dtype).name]
        try:
            self._device = torch.device(device)
            torch.empty(1, device=self._device)
        except (RuntimeError, AssertionError) as error:
            raise InvalidInputError(f"device {device!r} is not available to torch: {error}") from error

    def take(self, array: Any) -> Any:
        if not isinstance(array, self._torch.Tensor):
            # Arrays that may not be written to are copied: torch would share their memory.
            array = np.asarray(array)
            array = np.ascontiguousarray(array if array.flags.writeable else array.copy())
        return self._torch.as_tensor(array, dtype=self._dtype, device=self._device)

    def give(self, array: Any) -> FloatArray:
        return np.asarray(array.cpu().numpy(), dtype=np.float64)


class Products:
    r"""The products of a quadratic map with dense matrices and with columns.

    They are computed in float32 or float64, the results are float64.

    `mixing`, of shape (k, C), says with what sign a column enters which of C matrices:
    :math:`T_c = \sum_j \sigma_{jc} e_j e_j^T`.
    """

    def __init__(self, data: QuadraticMap, dtype: Any = np.float64, device: str | None = None) -> None:
        self._data = data
        self._library = _NumPy(dtype) if device is None else _Torch(dtype, device)
        self._X = self._library.take(data.X)
        self._step = max(1, _BLOCK_FLOATS // max(1, data.size))
        #: Floating-point operations so far, about.
        self.operations = 0.0

    def take(self, array: Any) -> Any:
        """Return an array as the products keep it, in their precision and on their device."""
        return self._library.take(array)

    def cast(self, image: Image) -> Image:
        """Return the image of another precision in this one."""
        return Image(self.take(image.x), image.t)

    # -- dense matrices ------------------------------------------------------------------------------

    def forward(self, T: FloatArray) -> FloatArray:
        r"""Return :math:`\langle \mathcal{X}_i, T \rangle` of shape (n,) for a symmetric matrix."""
        a, b, c = self._data.coefficients
        d = self._data.X.shape[1]
        inner, ones = self.take(a * T[:d, :d]), self.take(np.ones(d))
        values = np.concatenate([self._library.give(((x @ inner) * x) @ ones) for x in self._blocks()])
        if self._data.lifted:
            values += self._library.give(self._X @ self.take(b * T[:d, d])) + c * T[d, d]
        return values

    def adjoint(self, nu: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_i \nu_i \mathcal{X}_i`, symmetric."""
        return self._weighted(nu, *self._data.coefficients)

    def moments(self, weights: FloatArray | None = None) -> FloatArray:
        r"""Return :math:`X^T X` of (weighted) rows, with a one more if lifted."""
        return self._weighted(np.ones(self._data.n_rows) if weights is None else weights, 1.0, 2.0, 1.0)

    def _weighted(self, nu: FloatArray, a: float, b: float, c: float) -> FloatArray:
        d = self._data.X.shape[1]
        inner, start = None, 0
        self.operations += 2.0 * self._data.X.size * d
        for x in self._blocks():
            weights = self.take(a * nu[start : start + len(x)])
            product = self._library.give((x * weights[:, None]).T @ x)
            inner = product if inner is None else np.add(inner, product, out=inner)
            start += len(x)
        if inner is None:
            inner = np.zeros((d, d))
        if self._data.lifted:
            edge = 0.5 * b * self._library.give(self._X.T @ self.take(nu))
            inner = np.block([[inner, edge[:, None]], [edge[None, :], np.array([[c * nu.sum()]])]])
        return symmetrised(inner)

    # -- columns -------------------------------------------------------------------------------------

    def image(self, E: FloatArray) -> Image:
        """Return what the data make of the columns of E, shape (N, k)."""
        d = self._data.X.shape[1]
        self.operations += 2.0 * self._data.X.size * E.shape[1]
        return Image(self._X @ self.take(E[:d]), E[d] if self._data.lifted else np.zeros(E.shape[1]))

    def pair(self, first: Image, second: Image, mixing: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_j \sigma_{jc}\, e_j^T \mathcal{X}_i f_j` of shape (n, C)."""
        a, b, c = self._data.coefficients
        values = self._library.give((first.x * second.x) @ self.take(a * mixing))
        if self._data.lifted:
            for image, t in ((first, second.t), (second, first.t)):
                values += self._library.give(image.x @ self.take(0.5 * b * t[:, None] * mixing))
            values += (c * first.t * second.t) @ mixing
        return values

    def pull(self, terms: Sequence[tuple[FloatArray, Image]], mixing: FloatArray) -> FloatArray:
        r"""Return the adjoint at weights of shape (n, C), applied to the columns of an image, summed over the terms.

        Column j is :math:`\sum_i \sum_c \sigma_{jc} \nu_{ic}\, \mathcal{X}_i e_j`; of shape (N, k).
        """
        a, b, c = self._data.coefficients
        spread = self.take(mixing.T)
        self.operations += 2.0 * self._data.X.size * len(mixing)
        weighted = sum((self.take(nu) @ spread) * image.x for nu, image in terms)
        inner = a * self._library.give(self._X.T @ weighted)
        if not self._data.lifted:
            return inner
        last = 0.5 * b * self._library.give(self.take(np.ones(self._data.n_rows)) @ weighted)
        for nu, image in terms:
            entries = mixing * image.t[:, None]
            inner += self._library.give(self._X.T @ self.take(nu)) @ (0.5 * b * entries).T
            last += c * (entries @ nu.sum(axis=0))
        return np.vstack([inner, last])

    def gram(self, image: Image, columns: slice, weights: FloatArray) -> FloatArray:
        r"""Return the weighted mean of :math:`r_i r_i^T`, :math:`r_i` the slopes in :math:`\mathcal{X}_i E` of rows x.

        These are :math:`a\, x_i^T e_j + \tfrac{b}{2} t_j` for the columns j of a slice.
        """
        a, b, _ = self._data.coefficients
        slopes = image.x[:, columns] * a
        if self._data.lifted:
            slopes = slopes + self.take(0.5 * b * image.t[columns])
        product = slopes.T @ (slopes * self.take(weights)[:, None])
        return self._library.give(product) / self._data.n_rows

    def _blocks(self) -> list[Any]:
        return [self._X[start : start + self._step] for start in range(0, self._data.n_rows, self._step)]
