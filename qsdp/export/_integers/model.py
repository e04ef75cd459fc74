"""Integer models: exact evaluation from columns to outputs, as exported code does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, check_integer
from qsdp.exceptions import ExportError, InvalidInputError, InvalidTypeError
from qsdp.export._description import ModelDescription, check_encoder, describe, is_on_blocks
from qsdp.export._exact import check_layout
from qsdp.export._integers.fixed_point import column_scales, limits_of
from qsdp.export._integers.image_networks import images, integers_of_blocks, series
from qsdp.export._integers.integer_inputs import Inputs, integer_inputs
from qsdp.export._integers.integer_network import Bounds, IntegerNetwork
from qsdp.export._integers.layout import NetworkLayout, layouts
from qsdp.export._integers.row_networks import integers_of_rows
from qsdp.export._integers.vectors import SeriesVectors, Vectors

if TYPE_CHECKING:
    from qsdp.encoding import Windows

__all__ = ["IntegerModel", "integer_model"]

#: Default input range of a network without an encoding.
INPUT_RANGE = (-(2**15), 2**15 - 1)

#: Numbers of bits of rounded quantities, tried in this order until all sums fit.
DIGITS = range(15, 5, -1)

#: Maximum length up to which an error message searches for one that fits; a length takes a few milliseconds.
_LONGEST_TRIED = 1024

#: Function from digits to the integer form of a model.
_Quantize = Callable[[int], tuple[Vectors, IntegerNetwork, Bounds]]


@dataclass(frozen=True, eq=False, repr=False)
class IntegerModel:
    """Integer model, which computes exactly what exported code does.

    Attributes
    ----------
    description : ModelDescription
        For series that of a sample, whose columns are channels.
    samples : RowVectors, ImageVectors or SeriesVectors
        What the model takes, and its integer vectors.
    network : IntegerNetwork
    layout : NetworkLayout
    error, rounding_error : ndarray of shape (C,)
        Bounds on the distance of scores from the model's: for what the columns stand for, and for entries before they
        are rounded to columns.
    """

    description: ModelDescription
    samples: Vectors
    network: IntegerNetwork
    layout: NetworkLayout
    error: FloatArray
    rounding_error: FloatArray

    @property
    def inputs(self) -> Inputs | None:
        """Map from fixed-point numbers to integers; None if the entries are integers."""
        return self.samples.inputs

    @property
    def encoder(self) -> Any:
        """Encoder of images or series; None for rows."""
        return self.samples.encoder

    @property
    def series(self) -> SeriesVectors | None:
        """The series that the model takes; None for images and rows."""
        return self.samples if isinstance(self.samples, SeriesVectors) else None

    @property
    def input_range(self) -> tuple[int, int]:
        """Smallest and largest entry that the model takes."""
        return self.samples.input_range

    @property
    def n_columns(self) -> int:
        """Number of entries of a row, image or series."""
        return self.samples.n_columns

    def columns(self, X: Any) -> Any:
        """Convert samples to the argument of `outputs`: fixed-point numbers and category codes, bytes or integers.

        The result is an array with a row for each sample.

        Numbers beyond the fixed-point range, including infinities, are clipped to the largest number of their sign.
        """
        return self.samples.columns(X)

    def outputs(self, columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Compute the integer outputs of shape (n, C) for the result of `columns`; Python integers if necessary."""
        rows = np.asarray(columns)
        if rows.shape[1:] != (self.n_columns,):
            raise InvalidInputError(f"columns must have shape (n, {self.n_columns}); got {rows.shape}")
        return self.network.outputs(self.samples, rows)

    def scores(self, outputs: npt.NDArray[Any]) -> FloatArray:
        """Convert integer outputs to scores of the original model."""
        scores: FloatArray = outputs.astype(np.float64) * self.network.unit
        return scores


def integer_model(
    model: Any,
    *,
    encoder: Any = None,
    input_range: Sequence[int] | None = None,
    scales: Mapping[str, float] | None = None,
    column_width: int | None = None,
    width: int = 64,
    layout: str = "auto",
) -> IntegerModel:
    """Convert a model to integers, with the maximum number of digits for which all sums provably fit.

    Parameters
    ----------
    model : network, estimator, pipeline, model of `qsdp fit` or ModelDescription
    encoder, scales, column_width, width, layout
        As for `to_c`.
    input_range : (int, int), optional
        Smallest and largest input of a network alone, 16 bits by default.

    Raises
    ------
    ExportError
        Sums do not fit, or a part of the model cannot be expressed in integers.
    """
    description = describe(model, encoder=encoder, blocks=True)
    blocks = is_on_blocks(description.network)
    if blocks:
        encoder = check_encoder(description, series=True)
    kinds = check_layout(description.network, layout)
    if width not in {16, 32, 64}:
        raise InvalidInputError(f"width must be 16, 32 or 64; got {width!r:.60}")
    if column_width not in {None, 16, 32}:
        raise InvalidInputError(f"column_width must be 16 or 32; got {column_width!r:.60}")
    length = getattr(encoder, "length_", 0)
    if length >= 2**16:
        # Products of numbers of samples must fit into 32 bits.
        raise ExportError(f"series must have at most {2**16 - 1} samples to be exported; the model takes {length}")
    if blocks:
        quantize = _of_blocks(description, scales, column_width or 16, width)
    else:
        quantize = _of_rows(description, input_range, scales, column_width)
    best = _fitting(quantize, width, kinds, any_layout=blocks)
    if best is None:
        alone = not blocks and description.encoding is None
        known = {"a larger width": width < 64, "a smaller input_range": alone}
        remedies = [*(remedy for remedy, helps in known.items() if helps), "fewer neurons"]
        if length:

            def fits(encoder: Any) -> bool:
                shorter = _of_blocks(replace(description, blocks=encoder), scales, column_width or 16, width)
                return _fitting(shorter, width, kinds, DIGITS[-1:], any_layout=True) is not None

            remedies += _length_that_fits(encoder, fits)
        raise ExportError(
            f"the sums do not fit into the {width} bits of width, even with numbers rounded to {DIGITS[-1]} bits: take "
            + " or ".join(remedies)
        )
    samples, network, bounds, smallest = best
    return IntegerModel(samples.description, samples, network, smallest, *map(bounds, samples.errors))


def _fitting(
    quantize: _Quantize, width: int, kinds: Sequence[str], digits: Sequence[int] = DIGITS, *, any_layout: bool
) -> tuple[Vectors, IntegerNetwork, Bounds, NetworkLayout] | None:
    """Return the smallest of the layouts that fit, each with the maximum number of digits; None if none fits.

    With `any_layout`, digits matter more than the layout: the first number for which one fits is taken.
    """
    candidates: dict[str, tuple[Vectors, IntegerNetwork, Bounds, NetworkLayout]] = {}
    for number in digits:
        samples, network, bounds = quantize(number)
        every = [layout for layout in layouts(samples, network) if layout.name in kinds]
        for layout in every:
            if layout.sum_width <= width:
                candidates.setdefault(layout.name, (samples, network, bounds, layout))
        if every[0].name in candidates or (any_layout and candidates):
            break
    return min(candidates.values(), key=lambda candidate: candidate[-1].size, default=None)


def _of_rows(
    description: ModelDescription,
    input_range: Sequence[int] | None,
    scales: Mapping[str, float] | None,
    column_width: int | None,
) -> _Quantize:
    """Return the conversion of a model of rows to integers."""
    if description.encoding is None:
        if scales is not None or column_width is not None:
            name = "column_width is" if scales is None else "scales are"
            raise InvalidInputError(f"{name} for columns; a network alone takes integers, see input_range")
        ends = _checked_range(INPUT_RANGE if input_range is None else input_range)
        return lambda digits: integers_of_rows(description, None, ends, digits)
    if input_range is not None:
        raise InvalidInputError("input_range is for a network alone; the columns of this model have scales")
    limits, max_entry = limits_of(description), 2 ** ((column_width or 32) - 1) - 1
    fixed = column_scales(description, limits, scales, max_entry)

    def quantize(digits: int) -> tuple[Vectors, IntegerNetwork, Bounds]:
        inputs = integer_inputs(description, limits, fixed, digits, max_entry)
        return integers_of_rows(description, inputs, (-max_entry - 1, max_entry), digits)

    return quantize


def _of_blocks(
    description: ModelDescription,
    scales: Mapping[str, float] | None,
    column_width: int,
    width: int,
) -> _Quantize:
    """Return the conversion of a model of images or series to integers."""

    def quantize(digits: int) -> tuple[Vectors, IntegerNetwork, Bounds]:
        of_series = hasattr(description.blocks, "length_")
        samples = series(description, scales, column_width, digits) if of_series else images(description)
        return samples, *integers_of_blocks(description, samples, width, digits)

    return quantize


def _length_that_fits(encoder: Windows, fits: Callable[[Windows], bool]) -> list[str]:
    """Describe the largest smaller length of series for which sums fit; an empty list if there is none.

    A length need not fit if a larger one does, because segments of equal length need smaller factors.
    """
    shorter = copy(encoder)
    longest = min(encoder.length_ - 1, _LONGEST_TRIED)
    for shorter.length_ in range(longest, 0, -1):
        if min(edges[-1] for edges in shorter.edges) < encoder.segments:
            break
        if fits(shorter):
            upto = "" if longest == encoder.length_ - 1 else f" up to {longest}"
            return [f"series of {shorter.length_} samples (the largest number{upto} that fits)"]
    return []


def _checked_range(ends: Sequence[int]) -> tuple[int, int]:
    """Check the smallest and the largest input, integers of 32 bits, and return them."""
    if not hasattr(ends, "__len__") or len(ends) != 2:
        raise InvalidTypeError(f"input_range must be two integers; got {ends!r:.60}")
    low, high = (check_integer("input_range", end, minimum=-(2**31), maximum=2**31 - 1) for end in ends)
    if low >= high:
        raise InvalidInputError(f"input_range must be two integers, the smaller one first; got {ends!r:.60}")
    return low, high
