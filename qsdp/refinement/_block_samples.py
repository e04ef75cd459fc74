"""Data in blocks for coordinate descent, and outputs of neurons on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray
from qsdp.block_layout import Layout
from qsdp.forms import FormMap
from qsdp.lifting import power_of_two
from qsdp.problem import TrainingProblem
from qsdp.refinement._descent import DescentData, in_double
from qsdp.refinement._samples import RANGE, suits_single

__all__ = ["BlockImages", "BlockSamples"]


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
