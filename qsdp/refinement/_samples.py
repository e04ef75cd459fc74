"""Samples, of columns or in blocks, as the data of coordinate descent, and outputs of neurons on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import largest_magnitude
from qsdp._utils.parallel import CACHE_FLOATS, chunks
from qsdp._utils.tuning import MODERATE
from qsdp._utils.validation import FloatArray
from qsdp.block_layout import Layout
from qsdp.forms import FormMap
from qsdp.lifting import QuadraticMap, power_of_two
from qsdp.problem import TrainingProblem
from qsdp.refinement._descent import DescentData, in_double
from qsdp.training_data import quadratic_map

__all__ = ["RANGE", "SMALL", "BlockImages", "BlockSamples", "Images", "Samples", "suits_single"]

#: Maximum entries of small data, whose products run in one thread in double precision; single would halve the time.
SMALL = CACHE_FLOATS // 2

#: Limits for single precision: magnitude of targets and gradients (and their inverses), and row sums over their median.
RANGE = MODERATE**2


class Samples(DescentData):
    """Samples, divided by powers of two, shared by the descents for all outputs of a problem.

    Attributes
    ----------
    width : float
        Root mean square of the data's entries, weighted by the sample weights.
    """

    map: QuadraticMap

    #: Memory of the images of a side, as a number of arrays of one float per sample.
    held = 1

    def __init__(self, problem: TrainingProblem) -> None:
        self.problem = problem
        X = problem.X
        map_ = quadratic_map(X, problem.activation).in_units(power_of_two(largest_magnitude(X)))
        self.unit = power_of_two(max(abs(value) for value in map_.coefficients))
        self.map = map_.scaled(1.0 / self.unit)
        X = np.ascontiguousarray(self.map.X)
        parts = chunks(*X.shape)
        self.large = len(parts) > 1
        self.weights = problem.sample_weight
        if self.weights is None:
            self.width = float(np.sqrt(np.einsum("ij,ij->", X, X) / X.size))
        else:
            squares = np.average(np.einsum("ij,ij->i", X, X), weights=self.weights)
            self.width = float(np.sqrt(squares / X.shape[1]))
        a, b, c = np.abs(self.map.coefficients)
        sums = np.concatenate([np.abs(X[rows]).sum(axis=1) for rows in parts])
        self.dtype = np.float32 if suits_single(problem, X.size, sums) else np.float64
        reach = (problem.levels - 1) * float(sums.max())
        self.largest_image = float(a * reach**2 + b * reach * problem.lifted + c * problem.lifted)
        self.chunks = parts

    @cached_property
    def inputs(self) -> Any:
        """Data in the precision of the products."""
        return np.ascontiguousarray(self.map.X, dtype=self.dtype)

    @cached_property
    def _squares(self) -> Any:
        return self.inputs * self.inputs

    @cached_property
    def _features(self) -> Any:
        """Features in rows, one column per sample; the feature of the last entry of a lift is one."""
        return np.concatenate([self.inputs.T, np.ones((int(self.map.lifted), len(self.inputs)), dtype=self.dtype)])

    def features(self, entries: npt.NDArray[np.intp]) -> Any:
        """Select the features of some entries of a side, of shape (k, n)."""
        if not self.large:
            return self._features[entries]
        d = self.inputs.shape[1]
        features = np.ones((len(entries), len(self.inputs)), dtype=self.dtype)
        inner = np.flatnonzero(entries < d)
        for rows in self.chunks:
            features[inner, rows] = self.inputs[rows, entries[inner]].T
        return features

    def square_products(self, weights: Any) -> FloatArray:
        """Compute the product of `weights` (B, n) with the squares of the data."""
        if not self.large:
            return in_double(weights @ self._squares)
        products = np.zeros((len(weights), self.inputs.shape[1]))
        for rows in self.chunks:
            products += weights[:, rows] @ (self.inputs[rows] * self.inputs[rows])
        return products

    def images(self, other: npt.NDArray[np.int8], block: npt.NDArray[np.intp] | None = None) -> Images:
        """Compute the images of all entries of sides, for the other sides in the rows of `other`."""
        a, b, c = self.map.coefficients
        d = self.inputs.shape[1]
        # The columns of small data are contiguous in its features, which halves the time of thin products.
        columns = self.inputs.T if self.large else self._features[:d]
        hidden = other[:, :d].astype(self.dtype) @ columns
        if not self.map.lifted:
            hidden *= a
            return Images(self, hidden)
        last = other[:, d:].astype(self.dtype)
        # Large temporary arrays take as long to allocate as to compute.
        q = hidden * (0.5 * b)
        q += c * last
        hidden *= a
        hidden += 0.5 * b * last
        return Images(self, hidden, q)

    def outputs(self, U: npt.NDArray[np.int8], V: npt.NDArray[np.int8], block: npt.NDArray[np.intp]) -> FloatArray:
        """Return the outputs (B, n) of neurons."""
        return in_double(self.images(V).combined(U))


@dataclass(frozen=True, eq=False)
class Images:
    """Derivatives of the outputs of neurons in the entries of their sides: :math:`x_k p` for entry k.

    Attributes
    ----------
    samples : Samples
    p : array of shape (B, n)
        In the precision of the products, like all arrays whose last axis is the samples.
    q : array of shape (B, n) or None
        Image of the last entry of a lift, which replaces :math:`x_k p`.
    """

    samples: Samples
    p: Any
    q: Any = None

    def __getitem__(self, rows: Any) -> Images:
        return Images(self.samples, self.p[rows], None if self.q is None else self.q[rows])

    @cached_property
    def squares(self) -> tuple[Any, Any]:
        """Squares of p and q."""
        return self.p * self.p, None if self.q is None else self.q * self.q

    def moves(self, entries: npt.NDArray[np.intp]) -> Any:
        """Select the images (k, n) of one entry of each side, or of several entries of a single side."""
        images = self.samples.features(entries)
        images *= self.p
        if self.q is not None:
            last = entries == self.samples.inputs.shape[1]
            images[last] = self.q[last] if len(self.q) == len(entries) else self.q
        return images

    def combined(self, sides: npt.NDArray[Any]) -> Any:
        """Compute the sums (B, n) of the images of all entries, weighted by the entries of `sides` (B, N)."""
        d = self.samples.inputs.shape[1]
        taken = sides.astype(self.samples.dtype, copy=False)
        sums = taken[:, :d] @ self.samples.inputs.T
        sums *= self.p
        if self.q is not None:
            sums += taken[:, d:] * self.q
        return sums

    def products(self, weights: Any) -> FloatArray:
        """Compute the sums (B, N) over samples of weights (B, n) times images."""
        main = in_double((self.p * weights) @ self.samples.inputs)
        return main if self.q is None else np.hstack([main, self._sums(self.q, weights)])

    def square_products(self, weights: Any) -> FloatArray:
        """Compute the sums (B, N) over samples of weights (B, n) or (B, 1) times squared images."""
        p, q = self.squares
        if weights.shape[1] == 1:
            # Equal weights of all samples are factors of the sums.
            main, factors = self.samples.square_products(p), in_double(weights)
            return factors * (main if q is None else np.hstack([main, self._sums(self.q, self.q)]))
        main = self.samples.square_products(p * weights)
        return main if q is None else np.hstack([main, self._sums(q, weights)])

    def _sums(self, images: Any, weights: Any) -> FloatArray:
        return in_double(np.einsum("ij,ij->i", images, weights))[:, None]

    @property
    def largest(self) -> float:
        """Upper bound on the magnitude of the image of any entry."""
        inputs = self.samples.inputs
        largest = float(abs(self.p).max() * max(inputs.max(), -inputs.min()))
        return largest if self.q is None else max(largest, float(abs(self.q).max()))


def suits_single(problem: TrainingProblem, size: int, sums: FloatArray) -> bool:
    """Whether single precision is faster for the products of a problem and has sufficient range.

    `size` is the number of entries of the data, and `sums` (n,) are the sums of magnitudes of the rows.
    """
    if size <= SMALL:
        return False
    fit = problem.data_fit
    magnitudes = [np.atleast_1d(np.abs(each).max(axis=0)) for each in (fit.target, fit.zero_dual)]
    sizes = np.concatenate(magnitudes)
    # An output of zeros stays zero.
    sizes = sizes[sizes > 0.0]
    moderate = bool(np.all((sizes >= 1.0 / RANGE) & (sizes <= RANGE)))
    return moderate and float(sums.max()) <= MODERATE * float(np.median(sums))


class BlockSamples(DescentData):
    """Data in blocks for coordinate descent, in original units, shared by the descents for all outputs of a problem.

    Rows of any type are converted in chunks, and only those of the blocks that a product needs.
    """

    map: FormMap

    #: Factor of the root mean square of `BlockImages.squares`, which are those of the images themselves.
    width = 1.0

    def __init__(self, problem: TrainingProblem) -> None:
        self.problem = problem
        data: Any = problem.weight_map
        layout, (n, P) = data.layout, data.rows.shape
        unit = power_of_two(data.largest_entry)
        # Rows of moderate size are not multiplied, which takes a copy of each chunk.
        self.unit = 1.0 if 1.0 / RANGE <= unit <= RANGE else unit
        self.map = replace(data, units=None).scaled(1.0 / self.unit)
        self.large = len(chunks(n, P)) > 1
        self.weights = problem.sample_weight
        # Second-layer weights that are multiplied by the prices of their blocks bound the predictions of all blocks.
        self.largest_image = float((self.map.absolute_sums[:, : layout.n_blocks] / layout.prices).max(initial=0.0))
        single = suits_single(problem, n * P, self.map.absolute_sums.sum(axis=1))
        self.dtype = np.float32 if single else np.float64
        self._layouts = [Layout((N,), (flat,), (1.0,)) for N, flat in zip(layout.sizes, layout.linear, strict=True)]

    @property
    def held(self) -> int:
        """Memory of the images of a side, as a number of arrays of one float per sample."""
        return self.map.size

    def predictions(self, network: Any) -> FloatArray:
        return self.map.values_of(network.entries)

    def images(self, other: npt.NDArray[np.int8], block: npt.NDArray[np.intp]) -> BlockImages:
        """Compute the images of all entries of sides in these blocks, for the other sides in the rows of `other`."""
        N = self.map.size
        sides = np.tile(np.eye(N), (len(other), 1))
        values = self._products(self.dtype, sides, np.repeat(other, N, axis=0), np.repeat(block, N))
        return BlockImages(self, values.reshape(len(other), N, -1))

    def outputs(self, U: npt.NDArray[np.int8], V: npt.NDArray[np.int8], block: npt.NDArray[np.intp]) -> FloatArray:
        """Compute the outputs (B, n) of neurons in these blocks, in double precision."""
        return self._products(np.float64, U, V, block)

    def _products(
        self, dtype: Any, U: npt.NDArray[Any], V: npt.NDArray[Any], block: npt.NDArray[np.intp]
    ) -> npt.NDArray[Any]:
        layout, rows, factor = self.map.layout, self.map.rows, self.map.factor
        values = np.empty((len(U), len(rows)), dtype=dtype)
        for r in np.unique(block).tolist():
            part, neurons = self._layouts[r], np.flatnonzero(block == r)
            entries = layout.slices[r]
            vectors = part.products(*(side[neurons].astype(np.float64) for side in (U, V))).astype(dtype, copy=False)
            for some in chunks(len(rows), max(part.n_entries, len(neurons))):
                x = rows[some, entries]
                x = np.asarray(x if factor == 1.0 else x * factor, dtype=dtype)
                values[neurons, some] = vectors @ x.T
        return values


@dataclass(frozen=True, eq=False)
class BlockImages:
    r"""Derivatives of the outputs of neurons in the entries of their sides: entries of :math:`\mathcal{X}_{ir} v`.

    Attributes
    ----------
    samples : BlockSamples
    values : array of shape (B, N, n)
        In the precision of the products. Entries beyond the side of a block are zero. Those of v in a linear block
        have no meaning: these weights are zero, so they do not move.
    """

    samples: BlockSamples
    values: Any

    def __getitem__(self, rows: Any) -> BlockImages:
        return BlockImages(self.samples, self.values[rows])

    @cached_property
    def squares(self) -> tuple[Any]:
        """Entrywise squares of the values, as one array in a tuple."""
        return (self.values * self.values,)

    def moves(self, entries: npt.NDArray[np.intp]) -> Any:
        """Select the images (k, n) of one entry of each side, or of several entries of a single side."""
        return self.values[np.arange(len(self.values)), entries]

    def combined(self, sides: npt.NDArray[Any]) -> Any:
        """Compute the sums (B, n) of the images of all entries, weighted by the entries of `sides` (B, N)."""
        return (sides.astype(self.samples.dtype, copy=False)[:, None] @ self.values)[:, 0]

    def products(self, weights: Any) -> FloatArray:
        """Compute the sums (B, N) over samples of weights (B, n) times images."""
        return in_double((self.values @ weights[:, :, None])[:, :, 0])

    def square_products(self, weights: Any) -> FloatArray:
        """Compute the sums (B, N) over samples of weights (B, n) or (B, 1) times squared images."""
        squares = self.squares[0]
        each = weights * np.ones((1, squares.shape[2]), dtype=squares.dtype)
        return in_double((squares @ each[:, :, None])[:, :, 0])

    @property
    def largest(self) -> float:
        """Largest magnitude of an image."""
        return float(abs(self.values).max())
