"""Time series as blocks: mean outer products of windows, by segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.stored import Checks, checked, is_count, is_list, is_number, is_positive
from qsdp._utils.validation import FloatArray, check_flag, check_magnitude, check_real
from qsdp.encoding.region_moments import MomentEncoder, as_array, check_count, in_cache
from qsdp.exceptions import InvalidInputError, StorageError

__all__ = ["Windows"]

_LEARNED: Checks = {
    "length": is_count,
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
    length_ : int
        Number of values of a channel.
    layout_ : Layout
        Sides and factors of the blocks.
    n_features_in_ : int
        Number of channels.

    Notes
    -----
    Series are an array (n, channels, time), or (n, time) for one channel, or a list of n arrays (channels, time). All
    have the same length, also in `transform`; others must be padded, cut or interpolated before. Arrays are read in
    chunks.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> series = np.sin(np.arange(50) / np.array([[3.0], [4.0], [5.0]]))
    >>> qsdp.encoding.Windows(size=4, segments=2, lags=(1, 3)).fit_transform(series)
    Blocks(n_samples=3, sizes=(5, 5, 5, 5))
    """

    mean_: FloatArray
    scale_: FloatArray
    length_: int

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

    def samples(self, X: Any) -> npt.NDArray[Any]:
        """Return series as an array (n, channels, time), without copying arrays; check the shape of `fit`."""
        series = as_array(X, "series", "series", "pad, cut or interpolate them")
        series = series[:, None, :] if series.ndim == 2 else series
        if not hasattr(self, "layout_"):
            if series.ndim != 3:
                raise InvalidInputError(f"X must be series of shape (n, channels, time); got shape {np.shape(X)}")
            self._check_length(series.shape[2])
        elif series.shape[1:] != (self.n_features_in_, self.length_):
            raise InvalidInputError(
                f"X must be series of shape (n, {self.n_features_in_}, {self.length_}); got shape {np.shape(X)}: pad, "
                "cut or interpolate them to the length of training"
            )
        return series

    def _check_length(self, length: int) -> None:
        for lag in self._checked_lags:
            count = self._count(length, lag)
            if count < self.segments:
                raise InvalidInputError(
                    f"X must be series with a window in each of {self.segments} segments; series of {length} values "
                    f"have {max(count, 0)} windows of {self.size} values at the lag {lag}"
                )

    @property
    def _checked_lags(self) -> list[int]:
        for name in ("size", "stride", "segments"):
            check_count(name, getattr(self, name), 1)
        listed = self.lags if isinstance(self.lags, (list, tuple, range)) else [self.lags]
        lags = [check_count("lags", lag, 1) for lag in listed]
        if not lags or len(set(lags)) < len(lags):
            raise InvalidInputError(f"lags must be distinct, at least one; got {self.lags!r:.60}")
        return lags

    def _count(self, length: int, lag: int) -> int:
        return int((length - (self.size - 1) * lag - 1) // self.stride + 1)

    @property
    def edges(self) -> list[list[int]]:
        """First windows of the segments, followed by the number of windows, by lag."""
        counts = [self._count(self.length_, lag) for lag in self._checked_lags]
        return [[-(-r * count // self.segments) for r in range(self.segments + 1)] for count in counts]

    def _check_parameters(self) -> None:
        check_flag("standardize", self.standardize)
        check_real("constant", self.constant)

    def _learn(self, samples: npt.NDArray[Any]) -> None:
        self._check_parameters()
        largest = max(abs(float(end)) for series in samples for end in (series.min(), series.max()))
        degree = 1 if self.standardize else 2
        check_magnitude("X", np.array(largest), "multiply all series by a constant", degree=degree)
        n, channels, self.length_ = samples.shape
        self.mean_, self.scale_ = np.zeros(channels), np.ones(channels)
        if self.standardize:
            total = n * self.length_
            self.mean_ = sum(series.sum(axis=1, dtype=np.float64) for series in samples) / total
            squares = sum(np.square(series - self.mean_[:, None]).sum(axis=1) for series in samples) / total
            self.scale_ = np.sqrt(np.where(squares > 0.0, squares, 1.0))
        self.n_features_in_ = channels

    @property
    def _side(self) -> int:
        return int(self.size * len(self.mean_) + (self.constant > 0.0))

    @property
    def _sides(self) -> list[int]:
        return [self._side] * (len(self._checked_lags) * self.segments)

    @property
    def _units(self) -> FloatArray:
        return np.full(len(self._sides), (self.constant or 1.0) ** 2)

    def _of_block(self, products: FloatArray, count: int) -> FloatArray:
        return products / count

    def _chunks(self, samples: npt.NDArray[Any]) -> list[slice]:
        return in_cache(len(samples), self._side * self.length_)

    def _vectors(self, some: npt.NDArray[Any]) -> Iterator[FloatArray]:
        x = (some.astype(np.float64) - self.mean_[:, None]) / self.scale_[:, None]
        n, channels = x.shape[:2]
        for lag, edges in zip(self._checked_lags, self.edges, strict=True):
            windows = np.empty((n, edges[-1], self._side))
            for k in range(self.size):
                end = k * lag + self.stride * (edges[-1] - 1) + 1
                windows[..., k * channels : (k + 1) * channels] = x[:, :, k * lag : end : self.stride].swapaxes(1, 2)
            if self.constant:
                windows[..., -1] = self.constant
            for first, last in pairwise(edges):
                yield windows[:, first:last]

    def picture(self, signs: npt.NDArray[np.int8], block: int) -> tuple[npt.NDArray[np.int8], int]:
        """Arrange the signs of a filter as channels by times; see `MomentEncoder.picture`."""
        count = self.size * self.n_features_in_
        return signs[:count].reshape(self.size, -1).T, int(signs[count]) if self._side > count else 0

    def _learned(self) -> dict[str, Any]:
        return {"length": self.length_, "mean": self.mean_.tolist(), "scale": self.scale_.tolist()}

    def _relearn(self, state: dict[str, Any]) -> None:
        fields = checked("encoder", state, _LEARNED)
        self._check_parameters()
        self._check_length(fields["length"])
        self.length_, self.mean_, self.scale_ = fields["length"], np.array(fields["mean"]), np.array(fields["scale"])
        if len(self.mean_) != len(self.scale_):
            raise StorageError("encoder: there must be a mean and a scale for each channel")
        self.n_features_in_ = len(self.mean_)
