"""Images as blocks: sums of products of the pixels of patches, region by region."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import LARGEST_INTEGER
from qsdp._utils.stored import Checks, checked, is_count, is_list, is_number, is_text
from qsdp._utils.tuning import FAR, MANY_ROWS
from qsdp._utils.validation import (
    FloatArray,
    check_integer,
    check_magnitude,
    check_real,
    warn,
)
from qsdp.block_layout import PatchGeometry
from qsdp.encoding.region_moments import MomentEncoder, as_array, in_cache
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["Grid", "Patches"]

#: Factor by which the largest pixels of images exceed those of training if they have another scale, such as 0 to 255
#: for 0 to 1. Dark images have smaller ones, so only those that are smaller by far mean another scale.
_BRIGHTER = 2.0

_LEARNED: Checks = {
    "image_shape": lambda value: is_list(value) and len(value) == 3 and all(map(is_count, value)),
    "constant": lambda value: is_number(value) and value >= 0.0,
    "pixels": lambda value: is_list(value) and len(value) == 3 and is_text(value[0]) and all(map(is_number, value[1:])),
}


#: Parameters of `Patches` that differ between settings, and their smallest values.
_SMALLEST = {"size": 1, "stride": 1, "padding": 0, "regions": 1, "downsample": 1}


@dataclass(frozen=True)
class Grid:
    """Patches of one setting in images of one shape.

    Attributes
    ----------
    size, stride, padding, regions, downsample : int
        Those of the setting.
    image_shape : tuple of int
        Height, width and channels.
    centre, constant : float
        Number subtracted from every pixel, and last entry of every patch unless it is zero.
    """

    size: int
    stride: int
    padding: int
    regions: int
    downsample: int
    image_shape: tuple[int, int, int]
    centre: float
    constant: float

    @property
    def area(self) -> int:
        """Number of pixels that are averaged."""
        return self.downsample**2

    @property
    def pixels(self) -> int:
        """Number of (averaged) pixel values of a patch."""
        return self.size**2 * self.image_shape[2]

    @property
    def side(self) -> int:
        """Number of entries of a patch, with the constant."""
        return self.pixels + (self.constant > 0.0)

    @property
    def counts(self) -> list[int]:
        """Numbers of positions along height and width."""
        sides = [side // self.downsample + 2 * self.padding for side in self.image_shape[:2]]
        return [(side - self.size) // self.stride + 1 for side in sides]

    @property
    def edges(self) -> list[list[int]]:
        """First positions of the regions along height and width, followed by the numbers of positions."""
        return [[-(-r * count // self.regions) for r in range(self.regions + 1)] for count in self.counts]

    @property
    def positions(self) -> npt.NDArray[np.intp]:
        """Number of positions of each region."""
        return np.outer(*(np.diff(edges) for edges in self.edges)).ravel()

    def check(self) -> None:
        """Raise an error for patches or regions that do not fit into the images."""
        for side, count in zip(("height", "width"), self.counts, strict=True):
            if count < 1:
                raise InvalidInputError(
                    f"size must be at most the {side} of the images after `downsample` and `padding`, "
                    f"for images of shape {self.image_shape[:2]}; got {self.size}"
                )
            if count < self.regions:
                raise InvalidInputError(
                    f"regions must be at most the number of positions of a patch along the {side} of the images, "
                    f"{count} for images of shape {self.image_shape[:2]}; got {self.regions}"
                )

    def largest_sum(self, low: int, high: int) -> float:
        """Bound the magnitude of an entry of rows of images with pixels from `low` to `high`."""
        largest = max(*(abs(value - self.centre) for value in (low, high, 0)), self.constant)
        return float(largest * self.area) ** 2 * float(self.positions.max())

    def vectors(self, images: npt.NDArray[Any]) -> Iterator[FloatArray]:
        """Yield the patches of some images in each region, of shape (b, K, N)."""
        height, width = (side // self.downsample for side in self.image_shape[:2])
        x = images[:, : height * self.downsample, : width * self.downsample].astype(np.float64)
        if self.downsample > 1:
            x = x.reshape(len(x), height, self.downsample, width, self.downsample, -1).sum(axis=(2, 4))
        channels, counts = x.shape[3], self.counts
        x = np.pad(x, ((0, 0), (self.padding,) * 2, (self.padding,) * 2, (0, 0))) - self.centre * self.area
        p = np.empty((len(x), *counts, self.side))
        ends = [self.stride * (count - 1) + 1 for count in counts]
        for k, (a, b) in enumerate(np.ndindex(self.size, self.size)):
            p[..., k * channels : (k + 1) * channels] = x[
                :, a : a + ends[0] : self.stride, b : b + ends[1] : self.stride
            ]
        if self.constant:
            p[..., -1] = self.constant * self.area
        rows, columns = self.edges
        for a, b in np.ndindex(self.regions, self.regions):
            yield p[:, rows[a] : rows[a + 1], columns[b] : columns[b + 1]].reshape(len(p), -1, p.shape[3])


class Patches(MomentEncoder):
    r"""Images as blocks: for each region, the mean of the outer products of its patches, with a constant appended.

    With :math:`p_k` the pixels of the patch at position k and a constant c after them, the matrix of region r is

    .. math:: \mathcal{X}_r = \frac{1}{|K_r|} \sum_{k \in K_r} p_k p_k^T .

    A neuron :math:`u^T \mathcal{X}_r v` is then a convolution with two filters of signs u and v, whose product is
    averaged over the region: `regions` :sup:`2` blocks of side N = `size` :sup:`2` channels + 1.

    Any of `size`, `stride`, `padding`, `regions` and `downsample` may be a sequence of k integers, for k settings side
    by side: setting i takes entry i of every sequence, and every number as it is. Its blocks follow those of setting
    i - 1.

    Parameters
    ----------
    size : int or sequence of int, default=3
        Height and width of a patch in (averaged) pixels, >= 1.
    stride : int or sequence of int, default=1
        Distance of neighbouring patches, >= 1.
    padding : int or sequence of int, default=0
        Rows and columns of zeros added on each side, less than `size`.
    regions : int or sequence of int, default=4
        Number of regions along each axis: region ``i * regions // k`` holds position i of k.
    downsample : int or sequence of int, default=1
        Squares of that many pixels are averaged first; rows and columns beyond a multiple are dropped.
    centre : float, default=0
        Number subtracted from every pixel, including padding.
    constant : float, optional
        Last entry of every patch, in units of pixels; zero appends none. None is the largest magnitude of a centred
        pixel of the images passed to `fit`.
    scaling : {"none", "size"}, default="none"
        Penalty factors `omega` of the blocks: "none" makes the penalty independent of the unit of pixels and of the
        number of positions (that of means of products in units of the constant); "size" multiplies by the
        root mean square of the Frobenius norms of the block's matrices in `fit`, divided by N, so that blocks of small
        entries are as cheap to use as others.
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels) of images that are passed as flat rows.

    Attributes
    ----------
    image_shape_ : tuple of int
        Height, width and channels.
    constant_ : float
    layout_ : Layout
        Sides and factors `omega` of the blocks.
    n_features_in_ : int
        Number of pixel values of an image.

    Notes
    -----
    **Exact integers.** Packed rows are sums over the pixels of a square and over the patches of a region, not means;
    `omega` compensates for both counts. For images of integers with an integer `centre` and `constant`, they are
    exact: int32 if the type of the images guarantees that they fit, else float64. Certificates then hold the geometry
    of a single setting, from which ``qsdp-check --data`` recomputes the rows from the images; those of several settings
    are checked from packed rows. Rows of single-precision images are rounded to single precision.

    **Memory.** Images are read in chunks, which alone are converted to double precision: memory maps may be larger than
    memory. `transform` of a part of the images gives the same part of the rows, for `qsdp.SufficientStatistics`.

    Examples
    --------
    >>> import qsdp
    >>> from sklearn.datasets import load_digits
    >>> images = load_digits().images.astype("uint8")
    >>> qsdp.encoding.Patches(size=3, regions=2).fit_transform(images)
    Blocks(n_samples=1797, sizes=(10, 10, 10, 10), omega=(2304.0, 2304.0, 2304.0, 2304.0))

    Patches of 2 x 2 pixels in one region, and of 3 x 3 pixels in four:

    >>> qsdp.encoding.Patches(size=(2, 3), regions=(1, 2)).fit_transform(images).sizes
    (5, 10, 10, 10, 10)
    """

    image_shape_: tuple[int, int, int]
    constant_: float
    _pixels: tuple[str, float, float]

    def __init__(
        self,
        size: int | Sequence[int] = 3,
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        regions: int | Sequence[int] = 4,
        downsample: int | Sequence[int] = 1,
        centre: float = 0,
        constant: float | None = None,
        scaling: str = "none",
        image_shape: Sequence[int] | None = None,
    ) -> None:
        self._keep(locals())

    def samples(self, X: Any) -> npt.NDArray[Any]:
        """Reshape X to images (n, height, width, channels), without copying arrays; check the shape of `fit`."""
        images = as_array(X, "image", "images", "resize or crop them")
        fitted = hasattr(self, "layout_")
        shape = self.image_shape_ if fitted else _checked_shape(self.image_shape)
        if images.ndim == 2 and shape is not None and images.shape[1] == np.prod(shape):
            images = images.reshape(-1, *shape)
        if images.ndim == 3:
            images = images[..., None]
        allowed = ", ".join(str(side) for side in shape) if shape else "height, width[, channels]"
        if images.ndim != 4 or (shape is not None and images.shape[1:] != shape):
            flat = "" if shape else "; flat rows need image_shape"
            raise InvalidInputError(f"X must be images of shape (n, {allowed}){flat}; got shape {np.shape(X)}")
        if fitted:
            self._dtype(images)
            self._warn_of_scale(images[:: -(-len(images) // MANY_ROWS)])
        return images

    def _warn_of_scale(self, images: npt.NDArray[Any]) -> None:
        """Warn if pixels are of another scale than those of training."""
        (kind, low, high), (kind_here, low_here, high_here) = self._pixels, _pixels(images)
        size, here = max(-low, high), max(-low_here, high_here)
        if here > _BRIGHTER * size or 0.0 < here < size / FAR or (low >= 0.0 and low_here < -size / FAR):
            warn(
                f"X holds images of {kind_here} from {low_here:g} to {high_here:g}, but those of training were {kind} "
                f"from {low:g} to {high:g}; scale them as in training"
            )

    def _learn(self, samples: npt.NDArray[Any]) -> None:
        self._settings()
        self._pixels = _pixels(samples)
        _, low, high = self._pixels
        largest = max(abs(low - self.centre), abs(high - self.centre))
        check_magnitude("X", np.array(largest), "multiply the pixels by a constant", degree=2)
        self.constant_ = largest if self.constant is None else check_real("constant", self.constant)
        self._set_shape(samples.shape[1:])
        self._dtype(samples)

    def _settings(self) -> list[dict[str, Any]]:
        """Return the checked parameters of each setting."""
        named = {name: getattr(self, name) for name in _SMALLEST}
        several = {name: list(value) for name, value in named.items() if _is_sequence(value)}
        counts = {len(values) for values in several.values()} or {1}
        if len(counts) > 1 or 0 in counts:
            listed = ", ".join(f"{name}={named[name]!r:.60}" for name in several)
            raise InvalidInputError(
                f"{' and '.join(several)} must be integers or sequences of integers, all sequences of the same length "
                f">= 1; got {listed}"
            )
        (count,) = counts
        settings = []
        for k in range(count):
            setting = {
                name: check_integer(name, several[name][k] if name in several else named[name], minimum=smallest)
                for name, smallest in _SMALLEST.items()
            }
            if setting["padding"] >= setting["size"]:
                raise InvalidInputError(f"padding must be less than size={setting['size']}; got {setting['padding']}")
            settings.append(setting)
        check_real("centre", self.centre, minimum=-np.inf)
        return settings

    def _set_shape(self, shape: tuple[int, int, int]) -> None:
        self.image_shape_, self.n_features_in_ = shape, int(np.prod(shape))
        for grid in self.grids:
            grid.check()

    @property
    def grids(self) -> list[Grid]:
        """Patches of each setting, after `fit`."""
        common = {"image_shape": self.image_shape_, "centre": self.centre, "constant": self.constant_}
        return [Grid(**setting, **common) for setting in self._settings()]

    @property
    def positions(self) -> npt.NDArray[np.intp]:
        """Number of positions of each block."""
        return np.concatenate([grid.positions for grid in self.grids])

    def grid_of(self, block: int) -> tuple[Grid, int]:
        """Return the grid of a block, and the number of its region."""
        for grid in self.grids:
            if block < grid.regions**2:
                break
            block -= grid.regions**2
        return grid, block

    @property
    def _sides(self) -> list[int]:
        return [grid.side for grid in self.grids for _ in range(grid.regions**2)]

    @property
    def _units(self) -> FloatArray:
        return np.concatenate([((grid.constant or 1.0) * grid.area) ** 2 * grid.positions for grid in self.grids])

    @property
    def _is_integer(self) -> bool:
        return float(self.centre).is_integer() and float(self.constant_).is_integer()

    def _dtype(self, samples: npt.NDArray[Any]) -> np.dtype[Any]:
        """Return the data type of rows: int32 for integers whose type ensures that sums fit, else floats."""
        if samples.dtype.kind == "f":
            return np.dtype(np.float32 if samples.dtype == np.float32 else np.float64)
        if not self._is_integer:
            return np.dtype(np.float64)
        limits = np.iinfo(samples.dtype)
        if self._largest_sum(limits.min, limits.max) < 2**31:
            return np.dtype(np.int32)
        if samples.dtype.itemsize > 2 and self._largest_sum(int(samples.min()), int(samples.max())) > LARGEST_INTEGER:
            raise InvalidInputError(
                "X must have integers whose sums of products are exact in double precision; got pixels from "
                f"{samples.min()} to {samples.max()}: divide them, or convert them to floats"
            )
        return np.dtype(np.float64)

    def _largest_sum(self, low: int, high: int) -> float:
        return max(grid.largest_sum(low, high) for grid in self.grids)

    def _geometry(self, samples: npt.NDArray[Any]) -> PatchGeometry | None:
        if samples.dtype.kind == "f" or not self._is_integer or len(self.grids) > 1:
            return None
        (grid,) = self.grids
        centre, constant = int(grid.centre) * grid.area, int(grid.constant) * grid.area
        return PatchGeometry(grid.size, grid.stride, grid.padding, grid.regions, grid.downsample, centre, constant)

    def _chunks(self, samples: npt.NDArray[Any]) -> list[slice]:
        floats = max((grid.pixels + 1) * int(np.prod(grid.counts)) for grid in self.grids)
        return in_cache(len(samples), max(floats, self.n_features_in_))

    def _vectors(self, some: npt.NDArray[Any]) -> Iterator[FloatArray]:
        for grid in self.grids:
            yield from grid.vectors(some)

    def picture(self, signs: npt.NDArray[np.int8], block: int) -> tuple[npt.NDArray[np.int8], int]:
        """Arrange the signs of a filter as an image, with the channels side by side; see `MomentEncoder.picture`."""
        grid, _ = self.grid_of(block)
        shape = (grid.size, grid.size, grid.image_shape[2])
        image = signs[: grid.pixels].reshape(shape).transpose(0, 2, 1).reshape(grid.size, -1)
        return image, int(signs[grid.pixels]) if grid.constant else 0

    def _learned(self) -> dict[str, Any]:
        shape, constant = list(self.image_shape_), float(self.constant_)
        return {"image_shape": shape, "constant": constant, "pixels": list(self._pixels)}

    def _relearn(self, state: dict[str, Any]) -> None:
        fields = checked("encoder", state, _LEARNED)
        self.constant_, self._pixels = fields["constant"], tuple(fields["pixels"])
        self._set_shape(tuple(fields["image_shape"]))


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple, range)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _pixels(images: npt.NDArray[Any]) -> tuple[str, float, float]:
    """Return the type, the smallest and the largest pixel of images."""
    return str(images.dtype), float(images.min()), float(images.max())


def _checked_shape(shape: Any) -> tuple[int, ...] | None:
    """Check `image_shape`; return height, width and channels, or None."""
    if shape is None:
        return None
    sides = tuple(shape) if isinstance(shape, (tuple, list)) else ()
    if len(sides) not in (2, 3):
        raise InvalidTypeError(f"image_shape must be (height, width) or (height, width, channels); got {shape!r:.60}")
    checked = tuple(check_integer("image_shape", side, minimum=1) for side in sides)
    return checked if len(checked) == 3 else (*checked, 1)
