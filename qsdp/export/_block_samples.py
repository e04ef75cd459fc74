"""Integer vectors at the positions of images and series, and their sums of products by block, with proven bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import LARGEST_INTEGER
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.encoding import Encoding, Expression, InputColumn
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export._fixed_point import checked_scales, column_scales, fixed_columns, limits_of
from qsdp.export._integer_model import Inputs, integer_inputs
from qsdp.export._model import ModelDescription

if TYPE_CHECKING:
    from qsdp.encoding import Patches, Windows

__all__ = ["ImageVectors", "SeriesVectors", "images_of", "series_of"]

_BYTE = 255

#: Standard deviations at which channels are clipped; twice as many cost one bit of every number.
_REACH = 16


@dataclass(frozen=True, eq=False)
class ImageVectors:
    """Images of bytes, whose vectors are the pixels of patches and a constant.

    Attributes
    ----------
    encoder : Patches
    most : int
        The largest pixel; the smallest is zero.
    """

    encoder: Patches
    most: int = _BYTE

    #: Pixels are integers, and nothing is rounded.
    inputs = None
    unit = 1.0

    @property
    def input_range(self) -> tuple[int, int]:
        """Smallest and largest pixel."""
        return 0, self.most

    @property
    def n_columns(self) -> int:
        """Number of entries of a sample."""
        return int(self.encoder.n_features_in_)

    @property
    def order(self) -> list[int]:
        """Blocks in the order in which they are evaluated."""
        return list(range(self.encoder.layout_.n_blocks))

    @property
    def counts(self) -> FloatArray:
        """Number of positions of each block, of shape (R,)."""
        return np.asarray(self.encoder.positions, dtype=np.float64)

    @property
    def divisors(self) -> IntArray:
        """Divisors of the sums of products of each block, of shape (R,): ones, because rows are sums."""
        return np.ones(len(self.counts), dtype=np.int64)

    @property
    def constant(self) -> int:
        """Last entry of a vector; 0 if there is none."""
        return int(self.encoder.constant_ * self.encoder.downsample**2)

    @cached_property
    def vector(self) -> FloatArray:
        """Bounds of the magnitudes of the entries of a vector, of shape (N,)."""
        area = self.encoder.downsample**2
        centre = int(self.encoder.centre) * area
        largest = np.full(self.encoder.layout_.side, float(max(abs(centre), abs(self.most * area - centre))))
        if self.constant:
            largest[-1] = self.constant
        return largest

    @property
    def errors(self) -> list[FloatArray]:
        """Bounds of the distance of vectors from exact ones, and from those of entries before rounding: zeros."""
        return [np.zeros_like(self.vector)] * 2

    def columns(self, X: Any) -> npt.NDArray[np.uint8]:
        """Return images as flat rows of bytes, shape (n, pixels)."""
        images = self.encoder.samples(X)
        wrong = (images != np.rint(images)) | (images < 0) | (images > self.most)
        if np.any(wrong):
            raise InvalidInputError(f"X must hold integers from 0 to {self.most}; found {images[wrong][0]:g}")
        return images.reshape(len(images), -1).astype(np.uint8)

    def products(self, columns: npt.NDArray[Any]) -> IntArray:
        """Compute the sums of products (n, P) of flat rows of pixels."""
        images = np.asarray(columns).astype(np.uint8).reshape(-1, *self.encoder.image_shape_)
        return np.asarray(self.encoder.encoded(images), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class SeriesVectors:
    """Series of `length` samples, whose vectors are windows of the integers of every channel, and a constant.

    Attributes
    ----------
    encoder : Windows
    length : int
    description : ModelDescription
        Its encoding is that of a sample, with a column for each channel.
    inputs : Inputs
        From the fixed-point numbers of a sample to its integers.
    constant : int
        Last entry of a vector; 0 if there is none.
    most : int
        The largest fixed-point number.
    """

    encoder: Windows
    length: int
    description: ModelDescription
    inputs: Inputs
    constant: int
    most: int

    @property
    def input_range(self) -> tuple[int, int]:
        """Smallest and largest fixed-point number."""
        return -self.most - 1, self.most

    @property
    def unit(self) -> float:
        """Entries of the vectors of the model are this times the integers."""
        return float(self.inputs.unit)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.encoder.n_features_in_)

    @property
    def n_columns(self) -> int:
        """Number of entries of a series."""
        return self.length * self.channels

    @property
    def lags(self) -> list[int]:
        """Distances of the values of a window."""
        return list(np.atleast_1d(self.encoder.lags).tolist())

    @property
    def reaches(self) -> list[int]:
        """Distance of the last sample of a window from its first, by lag."""
        return [(self.encoder.size - 1) * lag for lag in self.lags]

    @property
    def edges(self) -> list[list[int]]:
        """First windows of the segments, followed by the number of windows, by lag."""
        return self.encoder.edges(self.length)

    @property
    def order(self) -> list[int]:
        """Blocks in the order in which their last windows end, those of earlier lags first."""
        last = [
            ((end - 1) * self.encoder.stride + reach, at, at * self.encoder.segments + r)
            for at, (ends, reach) in enumerate(zip(self.edges, self.reaches, strict=True))
            for r, end in enumerate(ends[1:])
        ]
        return [block for _, _, block in sorted(last)]

    @property
    def counts(self) -> FloatArray:
        """Number of windows of each block, of shape (R,)."""
        return np.array([after - before for ends in self.edges for before, after in pairwise(ends)], dtype=np.float64)

    @property
    def divisors(self) -> IntArray:
        """Divisors of the sums of products of each block, of shape (R,): numbers of windows, because rows are means."""
        return self.counts.astype(np.int64)

    @cached_property
    def vector(self) -> FloatArray:
        """Bounds of the magnitudes of the entries of a vector, of shape (N,)."""
        return self._window(self.inputs.largest, abs(self.constant))

    @cached_property
    def errors(self) -> list[FloatArray]:
        """Bounds of the distance of vectors from exact ones, and from those of entries before rounding."""
        last = float(abs(self.constant - Fraction(self.encoder.constant) / self.inputs.unit))
        error, rounding = self.inputs.error, self.inputs.rounding
        return [self._window(error, last), self._window(error + rounding, last)]

    def _window(self, sample: npt.NDArray[Any], last: float) -> FloatArray:
        return np.append(np.tile(sample.astype(np.float64), self.encoder.size), [last] if self.encoder.constant else [])

    def columns(self, X: Any) -> IntArray:
        """Return series as rows of fixed-point numbers, sample after sample, shape (n, length * channels)."""
        series = self.encoder.samples(X)
        for number, one in enumerate(series):
            if one.shape[1] != self.length:
                raise InvalidInputError(
                    f"series must have {self.length} samples; got {one.shape[1]} in series {number}"
                )
        flat = np.asarray(series, dtype=np.float64).transpose(1, 0, 2).reshape(self.channels, -1)
        fixed = fixed_columns(self.description, list(flat), self.inputs.scales, self.most)
        return fixed.reshape(-1, self.n_columns)

    def products(self, columns: npt.NDArray[Any]) -> IntArray:
        """Compute the sums of products (n, P) of rows of fixed-point numbers."""
        samples = np.asarray(columns).astype(np.int64).reshape(-1, self.channels)
        z = self.inputs.encode(samples).reshape(-1, self.length, self.channels)
        layout = self.encoder.layout_
        rows = np.empty((len(z), layout.n_entries), dtype=np.int64)
        pairs = np.triu_indices(layout.side)
        for some in chunks(len(z), self.length * layout.side):
            block = 0
            for lag, edges in zip(self.lags, self.edges, strict=True):
                vectors = self._vectors(z[some].astype(np.float64), lag, edges[-1])
                for first, end in pairwise(edges):
                    # Sums of products of integers are exact in double precision.
                    part = vectors[:, first:end]
                    sums = np.matmul(part.transpose(0, 2, 1), part)[:, pairs[0], pairs[1]]
                    rows[some, layout.starts[block] : layout.starts[block + 1]] = sums
                    block += 1
        return rows

    def _vectors(self, z: FloatArray, lag: int, count: int) -> FloatArray:
        """Compute the vectors (n, count, N) of the windows of integers z of shape (n, length, channels)."""
        stride = self.encoder.stride
        parts = [z[:, k * lag : k * lag + stride * (count - 1) + 1 : stride] for k in range(self.encoder.size)]
        last = [np.full((len(z), count, 1), float(self.constant))] if self.encoder.constant else []
        return np.concatenate([*parts, *last], axis=2)


def images_of(encoder: Patches, most: int = _BYTE) -> ImageVectors:
    """Return the integer vectors of images; raise ExportError if centre or constant are not integers."""
    for name in ("centre", "constant_"):
        if not float(value := getattr(encoder, name)).is_integer():
            raise ExportError(f"{name} of the encoder must be an integer; got {value:g}")
    return ImageVectors(encoder, most)


def series_of(
    description: ModelDescription, length: int, scales: Mapping[str, float] | None, column_width: int, digits: int
) -> SeriesVectors:
    """Return the integer vectors of series of `length` samples, in so many bits and digits."""
    encoder, most = description.blocks, 2 ** (column_width - 1) - 1
    samples = replace(description, encoding=_encoding_of(encoder, scales, most), blocks=None)
    limits = limits_of(samples)
    fixed = column_scales(samples, limits, scales, most)
    inputs = integer_inputs(samples, limits, fixed, digits, most)
    constant = round(Fraction(encoder.constant) / inputs.unit)
    series = SeriesVectors(encoder, length, samples, inputs, constant, most)
    if series.counts.max() * series.vector.max() ** 2 > LARGEST_INTEGER:
        raise ExportError("sums of products of a series exceed 2^53: take a smaller length")
    return series


def _encoding_of(encoder: Windows, scales: Mapping[str, float] | None, most: int) -> Encoding:
    """Return the encoding of a sample: channels, clipped at some standard deviations and at the largest entry."""
    names = [f"channel {number}" for number in range(encoder.n_features_in_)]
    by_user = checked_scales(scales, names)
    expressions = []
    for place, (name, mean, scale) in enumerate(
        zip(names, encoder.mean_.tolist(), encoder.scale_.tolist(), strict=True)
    ):
        reach = _REACH * scale if encoder.standardize else math.inf
        end = math.inf if encoder.standardize and name not in by_user else float(most / by_user.get(name, Fraction(1)))
        # The nearest fixed-point number of a limit is at most the largest one.
        end = math.nextafter(end, 0.0) if end < math.inf else end
        low, high = max(mean - reach, -end), min(mean + reach, end)
        if low >= high:
            raise ExportError(f"{name}: fixed-point numbers with scale {float(by_user[name]):g} do not reach its mean")
        expressions.append(Expression(name, place, "value", center=mean, scale=scale, low=low, high=high))
    return Encoding(tuple(InputColumn(name) for name in names), tuple(expressions))
