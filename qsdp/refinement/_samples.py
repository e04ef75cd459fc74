"""The data of a descent, and the outputs of neurons on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import largest_magnitude
from qsdp._utils.parallel import blocks
from qsdp._utils.validation import FloatArray
from qsdp.lifting import QuadraticMap, power_of_two
from qsdp.problem import TrainingProblem, quadratic_map
from qsdp.refinement._descent import DescentData

__all__ = ["Images", "Samples"]


class Samples(DescentData):
    """The data of a descent, divided by powers of two: descents for several outputs of one problem share them.

    Attributes
    ----------
    width : float
        Root mean square of the data's entries, weighted as the samples are.
    """

    map: QuadraticMap

    def __init__(self, problem: TrainingProblem) -> None:
        X = problem.X
        map_ = quadratic_map(X, problem.activation).in_units(power_of_two(largest_magnitude(X)))
        self.unit = power_of_two(max(abs(value) for value in map_.coefficients))
        self.map = map_.scaled(1.0 / self.unit)
        self.X = np.ascontiguousarray(self.map.X)
        self.blocks = list(blocks(*self.X.shape))
        self.large = len(self.blocks) > 1
        self.weights = problem.sample_weight
        if self.weights is None:
            self.width = float(np.sqrt(np.einsum("ij,ij->", self.X, self.X) / self.X.size))
        else:
            self.width = float(np.sqrt(self.mean(np.einsum("ij,ij->i", self.X, self.X)) / self.X.shape[1]))
        a, b, c = np.abs(self.map.coefficients)
        reach = (problem.levels - 1) * max(float(np.abs(self.X[rows]).sum(axis=1).max()) for rows in self.blocks)
        self.largest_image = float(a * reach**2 + b * reach * problem.lifted + c * problem.lifted)

    @cached_property
    def _squares(self) -> FloatArray:
        return np.square(self.X)

    @cached_property
    def _features(self) -> FloatArray:
        """Features of all samples in rows; the last entry of a lift has the feature one."""
        return np.vstack([self.X.T, np.ones((int(self.map.lifted), len(self.X)))])

    def features(self, entries: npt.NDArray[np.intp]) -> FloatArray:
        """Return the features of some entries of a side, of shape (k, n)."""
        if not self.large:
            return self._features[entries]
        d = self.X.shape[1]
        features = np.ones((len(entries), len(self.X)))
        inner = np.flatnonzero(entries < d)
        for rows in self.blocks:
            features[inner, rows] = self.X[rows, entries[inner]].T
        return features

    def square_products(self, weights: FloatArray) -> FloatArray:
        """Return the product of `weights` (B, n) with the squares of the data."""
        if not self.large:
            return weights @ self._squares
        products = np.zeros((len(weights), self.X.shape[1]))
        for rows in self.blocks:
            products += weights[:, rows] @ np.square(self.X[rows])
        return products

    def images(self, other: npt.NDArray[np.int8]) -> Images:
        """Return the images of all entries of sides whose other sides are the rows of `other`."""
        a, b, c = self.map.coefficients
        d = self.X.shape[1]
        hidden = other[:, :d].astype(np.float64) @ self.X.T
        if not self.map.lifted:
            hidden *= a
            return Images(self, hidden)
        last = other[:, d:].astype(np.float64)
        return Images(self, a * hidden + 0.5 * b * last, 0.5 * b * hidden + c * last)


@dataclass(frozen=True, eq=False)
class Images:
    """By how much outputs of neurons grow with the entries of their sides: with entry k by :math:`x_k p`.

    Attributes
    ----------
    samples : Samples
    p : ndarray of shape (B, n)
    q : ndarray of shape (B, n) or None
        The image of the last entry of a lift, in place of :math:`x_k p`.
    """

    samples: Samples
    p: FloatArray
    q: FloatArray | None = None

    def __getitem__(self, rows: Any) -> Images:
        return Images(self.samples, self.p[rows], None if self.q is None else self.q[rows])

    @cached_property
    def squares(self) -> tuple[FloatArray, FloatArray | None]:
        """Squares of p and q."""
        return np.square(self.p), None if self.q is None else np.square(self.q)

    def of(self, entries: npt.NDArray[np.intp]) -> FloatArray:
        """Return the images (k, n) of one entry of each side, or of several entries of one."""
        images: FloatArray = self.samples.features(entries) * self.p
        if self.q is not None:
            last = entries == self.samples.X.shape[1]
            images[last] = self.q[last] if len(self.q) == len(entries) else self.q
        return images

    def combined(self, sides: npt.NDArray[Any]) -> FloatArray:
        """Return the sums (B, n) of images of all entries, times the entries of `sides` (B, N)."""
        d = self.samples.X.shape[1]
        sides = sides.astype(np.float64)
        sums: FloatArray = (sides[:, :d] @ self.samples.X.T) * self.p
        if self.q is not None:
            sums += sides[:, d:] * self.q
        return sums

    def products(self, weights: FloatArray) -> FloatArray:
        """Return the sums over samples of weights (B, n) times images, (B, N)."""
        main: FloatArray = (self.p * weights) @ self.samples.X
        return main if self.q is None else np.hstack([main, np.einsum("ij,ij->i", self.q, weights)[:, None]])

    def square_products(self, weights: FloatArray) -> FloatArray:
        """Return the sums over samples of weights (B, n) times squared images, (B, N)."""
        p, q = self.squares
        main = self.samples.square_products(p * weights)
        return main if q is None else np.hstack([main, np.einsum("ij,ij->i", q, weights)[:, None]])

    @property
    def largest(self) -> float:
        """No image of an entry is larger in magnitude."""
        X = self.samples.X
        largest = float(np.abs(self.p).max() * max(X.max(), -X.min()))
        return largest if self.q is None else max(largest, float(np.abs(self.q).max()))
