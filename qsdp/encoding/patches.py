"""Images as blocks: sums of products of the pixels of patches, region by region."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from qsdp.blocks import PatchGeometry
from qsdp.encoding.moments import MomentEncoder, as_array, in_cache
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["Patches"]

#: Factor by which the largest pixels of images exceed those of training if they have another scale, such as 0 to 255
#: for 0 to 1. Dark images have smaller ones, so only those that are smaller by far mean another scale.
_BRIGHTER = 2.0

_LEARNED: Checks = {
    "image_shape": lambda value: is_list(value) and len(value) == 3 and all(map(is_count, value)),
    "constant": lambda value: is_number(value) and value >= 0.0,
    "pixels": lambda value: (
        value is None or (is_list(value) and len(value) == 3 and is_text(value[0]) and all(map(is_number, value[1:])))
    ),
}


class Patches(MomentEncoder):
    r"""Images as blocks: for each region, the mean of the outer products of its patches, with a constant appended.

    With :math:`p_k` the pixels of the patch at position k and a constant c after them, the matrix of region r is

    .. math:: \mathcal{X}_r = \frac{1}{|K_r|} \sum_{k \in K_r} p_k p_k^T .

    A neuron :math:`u^T \mathcal{X}_r v` is then a convolution with two filters of signs u and v, whose product is
    averaged over the region: `regions` :sup:`2` blocks of side N = `size` :sup:`2` channels + 1.

    Parameters
    ----------
    size : int, default=3
        Height and width of a patch in (averaged) pixels, >= 1.
    stride : int, default=1
        Distance of neighbouring patches, >= 1.
    padding : int, default=0
        Rows and columns of zeros added on each side, less than `size`.
    regions : int, default=4
        Number of regions along each axis: region ``i * regions // k`` holds position i of k.
    downsample : int, default=1
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
    exact: int32 if the type of the images guarantees that they fit, else float64. Certificates then hold the geometry,
    from which ``qsdp-check --data`` recomputes the rows from the images. Rows of single-precision images are rounded to
    single precision.

    **Memory.** Images are read in chunks, which alone are converted to double precision: memory maps may be larger than
    memory. `transform` of a part of the images gives the same part of the rows, for `qsdp.SufficientStatistics`.

    Examples
    --------
    >>> import qsdp
    >>> from sklearn.datasets import load_digits
    >>> images = load_digits().images.astype("uint8")
    >>> qsdp.encoding.Patches(size=3, regions=2).fit_transform(images)
    Blocks(n_samples=1797, sizes=(10, 10, 10, 10), omega=(2304.0, 2304.0, 2304.0, 2304.0))
    """

    image_shape_: tuple[int, int, int]
    constant_: float
    _pixels: tuple[str, float, float] | None

    def __init__(
        self,
        size: int = 3,
        *,
        stride: int = 1,
        padding: int = 0,
        regions: int = 4,
        downsample: int = 1,
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
        """Warn if pixels are of another scale than those of training; files of older versions do not know theirs."""
        if self._pixels is None:
            return
        (kind, low, high), (kind_here, low_here, high_here) = self._pixels, _pixels(images)
        size, here = max(-low, high), max(-low_here, high_here)
        if here > _BRIGHTER * size or 0.0 < here < size / FAR or (low >= 0.0 and low_here < -size / FAR):
            warn(
                f"X holds images of {kind_here} from {low_here:g} to {high_here:g}, but those of training were {kind} "
                f"from {low:g} to {high:g}; scale them as in training"
            )

    def _learn(self, samples: npt.NDArray[Any]) -> None:
        self._check_parameters()
        self.image_shape_ = samples.shape[1:]
        self._check_regions()
        self._pixels = _pixels(samples)
        _, low, high = self._pixels
        largest = max(abs(low - self.centre), abs(high - self.centre))
        check_magnitude("X", np.array(largest), "multiply the pixels by a constant", degree=2)
        self.constant_ = largest if self.constant is None else check_real("constant", self.constant)
        self.n_features_in_ = int(np.prod(self.image_shape_))
        self._dtype(samples)

    def _check_parameters(self) -> None:
        for name, least in (("size", 1), ("stride", 1), ("padding", 0), ("regions", 1), ("downsample", 1)):
            check_integer(name, getattr(self, name), minimum=least)
        if self.padding >= self.size:
            raise InvalidInputError(f"padding must be less than size={self.size}; got {self.padding}")
        check_real("centre", self.centre, minimum=-np.inf)

    def _check_regions(self) -> None:
        for side, count in zip(("height", "width"), self._counts, strict=True):
            if count < 1:
                raise InvalidInputError(
                    f"size must be at most the {side} of the images after `downsample` and `padding`, "
                    f"for images of shape {self.image_shape_[:2]}; got {self.size}"
                )
            if count < self.regions:
                raise InvalidInputError(
                    f"regions must be at most the number of positions of a patch along the {side} of the images, "
                    f"{count} for images of shape {self.image_shape_[:2]}; got {self.regions}"
                )

    @property
    def _counts(self) -> list[int]:
        """Numbers of positions along height and width."""
        sides = [side // self.downsample + 2 * self.padding for side in self.image_shape_[:2]]
        return [(side - self.size) // self.stride + 1 for side in sides]

    @property
    def edges(self) -> list[list[int]]:
        """First positions of the regions along height and width, followed by the numbers of positions."""
        return [[-(-r * count // self.regions) for r in range(self.regions + 1)] for count in self._counts]

    @property
    def positions(self) -> npt.NDArray[np.intp]:
        """Number of positions of each region."""
        return np.outer(*(np.diff(edges) for edges in self.edges)).ravel()

    @property
    def _side(self) -> int:
        return int(self.size**2 * self.image_shape_[2] + (self.constant_ > 0.0))

    @property
    def _n_blocks(self) -> int:
        return int(self.regions**2)

    @property
    def _units(self) -> FloatArray:
        unit = (self.constant_ or 1.0) * self.downsample**2
        return np.asarray(unit**2 * self.positions)

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
        largest = max(*(abs(value - self.centre) for value in (low, high, 0)), self.constant_)
        return float(largest * self.downsample**2) ** 2 * float(self.positions.max())

    def _geometry(self, samples: npt.NDArray[Any]) -> PatchGeometry | None:
        if samples.dtype.kind == "f" or not self._is_integer:
            return None
        area = self.downsample**2
        size, stride, padding, regions = map(int, (self.size, self.stride, self.padding, self.regions))
        centre, constant = int(self.centre) * area, int(self.constant_) * area
        return PatchGeometry(size, stride, padding, regions, int(self.downsample), centre, constant)

    def _chunks(self, samples: npt.NDArray[Any]) -> Iterator[slice]:
        pixels = self.size**2 * self.image_shape_[2]
        floats = (pixels + 1) * int(np.prod(self._counts))
        return in_cache(len(samples), max(floats, self.n_features_in_))

    def _vectors(self, some: npt.NDArray[Any]) -> Iterator[FloatArray]:
        height, width = (side // self.downsample for side in self.image_shape_[:2])
        x = some[:, : height * self.downsample, : width * self.downsample].astype(np.float64)
        if self.downsample > 1:
            x = x.reshape(len(x), height, self.downsample, width, self.downsample, -1).sum(axis=(2, 4))
        area, channels, counts = self.downsample**2, x.shape[3], self._counts
        x = np.pad(x, ((0, 0), (self.padding,) * 2, (self.padding,) * 2, (0, 0))) - self.centre * area
        p = np.empty((len(x), *counts, self._side))
        ends = [self.stride * (count - 1) + 1 for count in counts]
        for k, (a, b) in enumerate(np.ndindex(self.size, self.size)):
            p[..., k * channels : (k + 1) * channels] = x[
                :, a : a + ends[0] : self.stride, b : b + ends[1] : self.stride
            ]
        if self.constant_:
            p[..., -1] = self.constant_ * area
        rows, columns = self.edges
        for a, b in np.ndindex(self.regions, self.regions):
            yield p[:, rows[a] : rows[a + 1], columns[b] : columns[b + 1]].reshape(len(p), -1, p.shape[3])

    def picture(self, signs: npt.NDArray[np.int8]) -> tuple[npt.NDArray[np.int8], int]:
        """Arrange the signs of a filter as an image, with the channels side by side; see `MomentEncoder.picture`."""
        pixels = self.size**2 * self.image_shape_[2]
        shape = (self.size, self.size, self.image_shape_[2])
        image = signs[:pixels].reshape(shape).transpose(0, 2, 1).reshape(self.size, -1)
        return image, int(signs[pixels]) if self._side > pixels else 0

    @property
    def regions_shape(self) -> tuple[int, int]:
        """Rows and columns of regions."""
        return self.regions, self.regions

    def _learned(self) -> dict[str, Any]:
        pixels = None if self._pixels is None else list(self._pixels)
        return {"image_shape": list(self.image_shape_), "constant": float(self.constant_), "pixels": pixels}

    def _relearn(self, state: dict[str, Any]) -> None:
        fields = checked("encoder", {"pixels": None, **state}, _LEARNED)
        self._check_parameters()
        self.image_shape_, self.constant_ = tuple(fields["image_shape"]), fields["constant"]
        self._pixels = None if fields["pixels"] is None else tuple(fields["pixels"])
        self._check_regions()
        self.n_features_in_ = int(np.prod(self.image_shape_))


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
