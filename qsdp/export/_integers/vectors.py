"""Integer vectors of rows, images and series, whose products a network adds up, with proven bounds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray, IntArray, check_matrix
from qsdp.block_layout import Layout, single_block
from qsdp.exceptions import InvalidInputError
from qsdp.export._description import ModelDescription
from qsdp.export._integers.fixed_point import fixed_columns
from qsdp.export._integers.integer_inputs import Inputs

if TYPE_CHECKING:
    from qsdp.encoding import Windows
    from qsdp.encoding.patches import Grid

__all__ = ["BlockVectors", "ImageVectors", "RowVectors", "SeriesVectors", "Vectors"]


@dataclass(frozen=True, eq=False)
class Vectors(ABC):
    """Base class of what a model takes.

    Attributes
    ----------
    description : ModelDescription
        For series that of a sample, whose columns are channels.
    inputs : Inputs or None
        Map from fixed-point numbers of a row or sample to integers; None where entries are integers.
    input_range : (int, int)
        Smallest and largest entry.
    constant : int
        Last entry of a vector; 0 if there is none.
    """

    description: ModelDescription
    inputs: Inputs | None
    input_range: tuple[int, int]
    constant: int

    @property
    def encoder(self) -> Any:
        """Encoder of images or series; None for rows."""
        return self.description.blocks

    @property
    def unit(self) -> float:
        """Entries of the vectors of the model are this times the integers."""
        return 1.0 if self.inputs is None else float(self.inputs.unit)

    @property
    def blocks(self) -> Layout:
        """Layout of the products of entries of vectors, block after block."""
        layout: Layout = self.encoder.layout_
        return layout

    @property
    def n_columns(self) -> int:
        """Number of entries of a sample."""
        return self.description.n_columns

    @property
    def divisors(self) -> FloatArray:
        """Largest divisors of the sums of products of each block, of shape (R,); ones unless the model takes means."""
        return np.ones(self.blocks.n_blocks)

    def gains(self, common: int) -> IntArray:
        """Factors of the sums of products of each block, of shape (R,): `common` over the divisors, rounded."""
        return np.full(self.blocks.n_blocks, common, dtype=np.int64)

    def drift(self, common: int) -> FloatArray:
        """Bounds on the distance of divisors times factors over `common` from 1, of shape (R,)."""
        return np.zeros(self.blocks.n_blocks)

    @property
    def errors(self) -> list[FloatArray]:
        """Bounds on the distance of vectors from exact ones, and from those of columns before rounding."""
        return [np.zeros_like(self.vector)] * 2

    def weights(self, common: int) -> FloatArray:
        """Largest factors times numbers of vectors, over the largest numbers of vectors, of shape (R,)."""
        return self.gains(common).astype(np.float64)

    @property
    def largest_products(self) -> FloatArray:
        """Bounds on the magnitudes of the sums of products, of shape (P,)."""
        blocks, vector = self.blocks, self.vector
        return np.asarray(self.counts[blocks.block] * vector[blocks.first] * vector[blocks.second])

    @property
    @abstractmethod
    def counts(self) -> FloatArray:
        """Number of vectors of each block, of shape (R,)."""

    @property
    @abstractmethod
    def vector(self) -> FloatArray:
        """Bounds on the magnitudes of the entries of a vector, of shape (N,)."""

    @abstractmethod
    def columns(self, X: Any) -> npt.NDArray[Any]:
        """Convert samples to integer columns, of shape (n, n_columns)."""


@dataclass(frozen=True, eq=False)
class RowVectors(Vectors):
    r"""Rows of a table, or of integers, each of which has one vector :math:`z = (\text{gain} \cdot x, \kappa)`.

    Attributes
    ----------
    n_inputs : int
        Number of inputs x.
    gain : int
    constant_error : float
        Distance of the constant :math:`\kappa` from its exact value.
    """

    n_inputs: int
    gain: int
    constant_error: float

    @property
    def blocks(self) -> Layout:
        """Layout of the products of two entries of a vector."""
        return single_block(self.n_inputs + (self.constant != 0))

    @property
    def counts(self) -> FloatArray:
        """Number of vectors: one."""
        return np.ones(1)

    @cached_property
    def vector(self) -> FloatArray:
        """Bounds on the magnitudes of the entries of a vector, of shape (N,)."""
        ends = max(map(abs, self.input_range))
        largest = np.full(self.n_inputs, ends) if self.inputs is None else self.inputs.largest
        return self._scaled(largest.astype(np.float64), float(abs(self.constant)))

    @property
    def errors(self) -> list[FloatArray]:
        """Bounds on the distance of vectors from exact ones, and from those of columns before rounding."""
        error = rounding = np.zeros(self.n_inputs)
        if self.inputs is not None:
            error, rounding = self.inputs.error, self.inputs.rounding
        distance = self._scaled(error, self.constant_error)
        return [distance, distance + self._scaled(rounding, 0.0)]

    def _scaled(self, inputs: FloatArray, last: float) -> FloatArray:
        return np.append(self.gain * inputs, [last] if self.constant else [])

    def columns(self, X: Any) -> IntArray:
        """Convert an array or a data frame to fixed-point numbers and category codes, or check integers."""
        if self.inputs is not None:
            columns = self.description.columns(X, infinite=True)
            return fixed_columns(self.description, columns, self.inputs.scales, self.inputs.max_entry)
        entries = check_matrix("X", X, n_columns=self.n_columns)
        low, high = self.input_range
        wrong = (entries != np.rint(entries)) | (entries < low) | (entries > high)
        if np.any(wrong):
            raise InvalidInputError(f"X must hold integers from {low} to {high}; found {entries[wrong][0]:g}")
        return entries.astype(np.int64)

    def vectors(self, columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Compute the vectors of shape (n, N) of integer columns."""
        z: npt.NDArray[Any] = (columns if self.inputs is None else self.inputs.encode(columns)) * self.gain
        return np.hstack([z, np.full((len(z), 1), self.constant, z.dtype)]) if self.constant else z


class BlockVectors(Vectors):
    """Base class of images and series, whose vectors enter as sums of products over the vectors of a block."""

    @abstractmethod
    def products(self, columns: npt.NDArray[Any]) -> IntArray:
        """Compute the sums of products, of shape (n, P), of integer columns."""


@dataclass(frozen=True, eq=False)
class ImageVectors(BlockVectors):
    """Images of bytes, whose vectors are the pixels of patches and a constant; nothing is rounded."""

    @property
    def grid(self) -> Grid:
        """The patches, all of one setting."""
        grids: list[Grid] = self.encoder.grids
        return grids[0]

    @property
    def counts(self) -> FloatArray:
        """Number of positions of each block, of shape (R,)."""
        return np.asarray(self.encoder.positions, dtype=np.float64)

    @cached_property
    def vector(self) -> FloatArray:
        """Bounds on the magnitudes of the entries of a vector, of shape (N,)."""
        area = self.grid.area
        centre = int(self.grid.centre) * area
        largest = np.full(self.blocks.side, float(max(abs(centre), abs(self.input_range[1] * area - centre))))
        if self.constant:
            largest[-1] = self.constant
        return largest

    def columns(self, X: Any) -> npt.NDArray[np.uint8]:
        """Return images as flat rows of bytes, shape (n, pixels)."""
        images, (_, largest) = self.encoder.samples(X), self.input_range
        wrong = (images != np.rint(images)) | (images < 0) | (images > largest)
        if np.any(wrong):
            raise InvalidInputError(f"X must hold integers from 0 to {largest}; found {images[wrong][0]:g}")
        return np.asarray(images.reshape(len(images), -1), dtype=np.uint8)

    def products(self, columns: npt.NDArray[Any]) -> IntArray:
        """Compute the sums of products (n, P) of flat rows of pixels."""
        images = np.asarray(columns).astype(np.uint8).reshape(-1, *self.encoder.image_shape_)
        return np.asarray(self.encoder.encoded(images), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class SeriesVectors(BlockVectors):
    """Series, whose vectors are windows of the integers of every channel, and a constant.

    Attributes
    ----------
    windows : Windows
        The encoder.
    """

    windows: Windows

    @property
    def encoder(self) -> Any:
        """Encoder of the series."""
        return self.windows

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.windows.n_features_in_)

    @property
    def length(self) -> int:
        """Number of samples."""
        return int(self.windows.length_)

    @property
    def n_columns(self) -> int:
        """Number of entries of a series."""
        return self.length * self.channels

    @property
    def lags(self) -> list[int]:
        """Distances of the values of a window."""
        return list(np.atleast_1d(self.windows.lags).tolist())

    @property
    def reaches(self) -> list[int]:
        """Distance of the last sample of a window from its first, by lag."""
        return [(self.windows.size - 1) * lag for lag in self.lags]

    @cached_property
    def _windows(self) -> IntArray:
        """Number of windows of each block, of shape (R,)."""
        return np.diff(np.array(self.windows.edges)).ravel()

    @property
    def counts(self) -> FloatArray:
        """Number of windows of each block, of shape (R,)."""
        return self._windows.astype(np.float64)

    @property
    def divisors(self) -> FloatArray:
        """Divisors of the sums of products of each block: numbers of windows, because rows are means."""
        return self.counts

    def common(self, digits: int) -> int:
        """Choose the numerator of the factors: a common multiple if they have so few bits then, else a large one."""
        smallest, common = int(self._windows.min()), math.lcm(*self._windows.tolist())
        return common if common < smallest << digits else smallest * ((1 << digits) - 1)

    def gains(self, common: int) -> IntArray:
        """Factors of the sums of products of each block: `common` over the numbers of windows, rounded half up."""
        gains: IntArray = (common + self._windows // 2) // self._windows
        return gains

    def drift(self, common: int) -> FloatArray:
        """Distance of numbers of windows times factors over `common` from 1, of shape (R,)."""
        return np.abs(1.0 - self._windows * self.gains(common) / common)

    @cached_property
    def vector(self) -> FloatArray:
        """Bounds on the magnitudes of the entries of a vector, of shape (N,)."""
        assert self.inputs is not None
        return self._window(self.inputs.largest, abs(self.constant))

    @cached_property
    def errors(self) -> list[FloatArray]:
        """Bounds on the distance of vectors from exact ones, and from those of columns before rounding."""
        assert self.inputs is not None
        last = float(abs(self.constant - Fraction(self.windows.constant) / self.inputs.unit))
        error, rounding = self.inputs.error, self.inputs.rounding
        return [self._window(error, last), self._window(error + rounding, last)]

    def _window(self, sample: npt.NDArray[Any], last: float) -> FloatArray:
        return np.append(np.tile(sample.astype(np.float64), self.windows.size), [last] if self.windows.constant else [])

    def columns(self, X: Any) -> IntArray:
        """Return series as fixed-point numbers, sample after sample."""
        assert self.inputs is not None
        series = self.windows.samples(X).astype(np.float64)
        channels = list(series.swapaxes(0, 1).reshape(self.channels, -1))
        fixed = fixed_columns(self.description, channels, self.inputs.scales, self.inputs.max_entry)
        return fixed.reshape(len(series), -1)

    def products(self, columns: npt.NDArray[Any]) -> IntArray:
        """Compute the sums of products (n, P) of rows of fixed-point numbers."""
        assert self.inputs is not None
        samples = np.asarray(columns).astype(np.int64).reshape(-1, self.channels)
        z = self.inputs.encode(samples).reshape(-1, self.length, self.channels)
        rows = np.empty((len(z), self.blocks.n_entries), dtype=np.int64)
        pairs = np.triu_indices(self.blocks.side)
        for some in chunks(len(z), self.length * self.blocks.side):
            block = 0
            for lag, edges in zip(self.lags, self.windows.edges, strict=True):
                vectors = self._vectors(z[some].astype(np.float64), lag, edges[-1])
                for first, end in pairwise(edges):
                    # Sums of products of integers are exact in double precision.
                    part = vectors[:, first:end]
                    sums = np.matmul(part.transpose(0, 2, 1), part)[:, pairs[0], pairs[1]]
                    rows[some, self.blocks.starts[block] : self.blocks.starts[block + 1]] = sums
                    block += 1
        return rows

    def _vectors(self, z: FloatArray, lag: int, count: int) -> FloatArray:
        """Compute the vectors (n, count, N) of the windows of integers z of shape (n, length, channels)."""
        stride = self.windows.stride
        parts = [z[:, k * lag : k * lag + stride * (count - 1) + 1 : stride] for k in range(self.windows.size)]
        last = [np.full((len(z), count, 1), float(self.constant))] if self.windows.constant else []
        return np.concatenate([*parts, *last], axis=2)
