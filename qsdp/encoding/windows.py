"""Time series as blocks: mean outer products of windows, by segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.stored import Checks, checked, is_list, is_number, is_positive
from qsdp._utils.validation import (
    FloatArray,
    check_flag,
    check_integer,
    check_magnitude,
    check_numbers,
    check_real,
    check_unmasked,
)
from qsdp.encoding.moments import MomentEncoder, in_cache
from qsdp.exceptions import InvalidInputError, InvalidTypeError, StorageError

__all__ = ["Windows"]

_LEARNED: Checks = {
    "mean": lambda value: is_list(value) and bool(value) and all(map(is_number, value)),
    "scale": lambda value: is_list(value) and bool(value) and all(map(is_positive, value)),
}


class Windows(MomentEncoder):
    r"""Series as blocks: for each lag and segment, the mean of the outer products of its windows with a constant.

    The window at time t with lag l holds the values at t, t + l, ..., t + (`size` - 1) l of every channel, then a
    constant. A neuron is a product of two filters of signs, dilated by the lag and averaged over a segment of the
    series.

    Parameters
    ----------
    size : int, default=5
        Values of a channel in a window, >= 1.
    stride : int, default=1
        Distance of neighbouring windows, >= 1.
    segments : int, default=1
        Number of equal parts of a series: segment ``i * segments // k`` holds window i of k.
    lags : sequence of int, default=(1,)
        Distances of the values of a window, distinct, >= 1; each has `segments` blocks.
    standardize : bool, default=True
        Subtract from each channel its mean over all values given to `fit`, and divide by their standard deviation.
    constant : float, default=1
        Last entry of every window; zero appends none.
    scaling : {"none", "size"}, default="none"
        Factors `omega` of the blocks in the penalty: one, or the root mean square of the Frobenius norms of the block's
        matrices in `fit`, divided by N.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_channels,)
        Mean and standard deviation used by `standardize`; zeros and ones without it.
    layout_ : Layout
        Sides and factors of the blocks.
    n_features_in_ : int
        Number of channels.

    Notes
    -----
    Series are an array (n, channels, time), or (n, time) for one channel, or a list of arrays (channels, time) whose
    lengths may differ. The number of windows of a segment is proportional to the length of the series, and means do not
    depend on it. Arrays are read in chunks.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> series = [np.sin(np.arange(length) / 3.0)[None] for length in (30, 40, 50)]
    >>> qsdp.encoding.Windows(size=4, segments=2, lags=(1, 3)).fit_transform(series)
    Blocks(n_samples=3, sizes=(5, 5, 5, 5))
    """

    mean_: FloatArray
    scale_: FloatArray

    def __init__(
        self,
        size: int = 5,
        *,
        stride: int = 1,
        segments: int = 1,
        lags: Sequence[int] = (1,),
        standardize: bool = True,
        constant: float = 1.0,
        scaling: str = "none",
    ) -> None:
        self._keep(locals())

    def samples(self, X: Any) -> Any:
        """Return series as an array (n, channels, time), or a list of arrays (channels, time) if lengths differ."""
        arrays = isinstance(X, np.ndarray) and X.dtype != object
        if not arrays and not isinstance(X, (list, tuple, np.ndarray)):
            raise InvalidTypeError(
                f"X must be an array (n, channels, time) or a list of series; got {type(X).__name__}"
            )
        check_unmasked("X", X)
        parts = X if arrays else [_plain(number, one) for number, one in enumerate(X)]
        if not len(parts):
            raise InvalidInputError("X must have at least one series; got none")
        if arrays or len({one.shape for one in parts}) == 1:
            whole = np.asarray(parts)
            parts = whole[:, None, :] if whole.ndim == 2 else whole
            shapes = [parts.shape[1:]]
        else:
            parts = [one[None] if one.ndim == 1 else one for one in parts]
            shapes = [one.shape for one in parts]
        channels = self.n_features_in_ if hasattr(self, "layout_") else None
        expected = shapes[0][0] if channels is None and shapes[0] else channels
        for number, shape in enumerate(shapes):
            if len(shape) != 2 or shape[0] != expected:
                allowed = "channels" if len(shape) != 2 or expected is None else expected
                raise InvalidInputError(
                    f"X must have series of shape ({allowed}, time); got {shape} in series {number}"
                )
            self._check_length(number, shape[1])
        for number in range(len(parts)):
            check_numbers(f"series {number} of X", parts[number], "(channels, time)")
        return parts

    def _check_length(self, number: int, length: int) -> None:
        for lag in self._checked_lags:
            count = self._count(length, lag)
            if count < self.segments:
                raise InvalidInputError(
                    f"X must have series with a window in each of {self.segments} segments; series {number} of "
                    f"{length} values has {max(count, 0)} windows of {self.size} values at the lag {lag}"
                )

    @property
    def _checked_lags(self) -> list[int]:
        for name in ("size", "stride", "segments"):
            check_integer(name, getattr(self, name), minimum=1)
        listed = self.lags if isinstance(self.lags, (list, tuple, range)) else [self.lags]
        lags = [check_integer("lags", lag, minimum=1) for lag in listed]
        if not lags or len(set(lags)) < len(lags):
            raise InvalidInputError(f"lags must be distinct, at least one; got {self.lags!r:.60}")
        return lags

    def _count(self, length: int, lag: int) -> int:
        return int((length - (self.size - 1) * lag - 1) // self.stride + 1)

    def edges(self, length: int) -> list[list[int]]:
        """First windows of the segments of a series of `length` values, followed by the number of windows, by lag."""
        counts = [self._count(length, lag) for lag in self._checked_lags]
        return [[-(-r * count // self.segments) for r in range(self.segments + 1)] for count in counts]

    def _check_parameters(self) -> None:
        check_flag("standardize", self.standardize)
        check_real("constant", self.constant)

    def _learn(self, samples: Any) -> None:
        self._check_parameters()
        largest = max(abs(float(end)) for one in samples for end in (one.min(), one.max()))
        degree = 1 if self.standardize else 2
        check_magnitude("X", np.array(largest), "multiply all series by a constant", degree=degree)
        channels = samples[0].shape[0]
        self.mean_, self.scale_ = np.zeros(channels), np.ones(channels)
        if self.standardize:
            total = sum(one.shape[1] for one in samples)
            self.mean_ = sum(one.sum(axis=1, dtype=np.float64) for one in samples) / total
            squares = sum(np.square(one - self.mean_[:, None]).sum(axis=1) for one in samples) / total
            self.scale_ = np.sqrt(np.where(squares > 0.0, squares, 1.0))
        self.n_features_in_ = channels

    @property
    def _side(self) -> int:
        return int(self.size * len(self.mean_) + (self.constant > 0.0))

    @property
    def _n_blocks(self) -> int:
        return int(len(self._checked_lags) * self.segments)

    @property
    def _units(self) -> FloatArray:
        return np.full(self._n_blocks, (self.constant or 1.0) ** 2)

    def _of_block(self, products: FloatArray, count: int) -> FloatArray:
        return products / count

    def _chunks(self, samples: Any) -> Iterator[Any]:
        side = self._side
        if isinstance(samples, np.ndarray):
            yield from in_cache(len(samples), side * samples.shape[2])
            return
        lengths = np.array([one.shape[1] for one in samples])
        for length in np.unique(lengths):
            alike = np.flatnonzero(lengths == length)
            for some in in_cache(len(alike), side * int(length)):
                yield alike[some]

    def _vectors(self, some: Any) -> Iterator[FloatArray]:
        x = (np.asarray(some, dtype=np.float64) - self.mean_[:, None]) / self.scale_[:, None]
        n, channels, length = x.shape
        for lag, edges in zip(self._checked_lags, self.edges(length), strict=True):
            windows = np.empty((n, edges[-1], self._side))
            for k in range(self.size):
                end = k * lag + self.stride * (edges[-1] - 1) + 1
                windows[..., k * channels : (k + 1) * channels] = x[:, :, k * lag : end : self.stride].swapaxes(1, 2)
            if self.constant:
                windows[..., -1] = self.constant
            for first, last in pairwise(edges):
                yield windows[:, first:last]

    def picture(self, signs: npt.NDArray[np.int8]) -> tuple[npt.NDArray[np.int8], int]:
        """Arrange the signs of a filter as channels by times; see `MomentEncoder.picture`."""
        count = self.size * self.n_features_in_
        return signs[:count].reshape(self.size, -1).T, int(signs[count]) if self._side > count else 0

    @property
    def regions_shape(self) -> tuple[int, int]:
        """Numbers of lags and of segments."""
        return len(self._checked_lags), self.segments

    def region_name(self, row: int, column: int) -> str:
        """Return the name of a block by its lag and segment."""
        return f"lag {np.ravel(self.lags)[row]}, segment {column + 1}"

    def _learned(self) -> dict[str, Any]:
        return {"mean": self.mean_.tolist(), "scale": self.scale_.tolist()}

    def _relearn(self, state: dict[str, Any]) -> None:
        fields = checked("encoder", state, _LEARNED)
        self._check_parameters()
        self.mean_, self.scale_ = np.array(fields["mean"]), np.array(fields["scale"])
        if len(self.mean_) != len(self.scale_):
            raise StorageError("encoder: there must be a mean and a scale for each channel")
        self.n_features_in_ = len(self.mean_)


def _plain(number: int, series: Any) -> npt.NDArray[Any]:
    """Return a series of a list as an array of a numeric type."""
    check_unmasked(f"series {number} of X", series)
    array = np.asarray(series)
    return check_numbers(f"series {number} of X", series, "(channels, time)") if array.dtype == object else array
