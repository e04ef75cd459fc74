"""Layouts of an integer network: storage and evaluation as neurons or as a quadratic form, with proven widths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import ROUNDING
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.export._integer_network import IntegerNetwork
from qsdp.networks.storage import bits_of_integers

__all__ = ["LAYOUTS", "NetworkLayout", "Widths", "layouts", "type_width"]

ByteArray = npt.NDArray[np.uint8]

LAYOUTS = ("neurons", "form")

#: Widths of the integers of C, and the minimum used: narrower arithmetic is not faster on relevant machines.
_WIDTHS, _LEAST_WIDTH = (8, 16, 32, 64), 16


class Widths:
    """Base class of layouts: the widths of the integers that hold values up to two proven bounds."""

    projection_bound: int
    sum_bound: int

    @property
    def projection_width(self) -> int:
        """Bits of the integers of coordinates, projections and values of neurons."""
        return max(type_width(self.projection_bound), _LEAST_WIDTH)

    @property
    def sum_width(self) -> int:
        """Bits of the integers of sums and outputs."""
        return max(type_width(self.sum_bound), self.projection_width)


@dataclass(frozen=True, eq=False)
class NetworkLayout(Widths):
    """Layout of a network: its stored numbers, and proven bounds on intermediate values.

    Attributes
    ----------
    name : {"neurons", "form"}
    low, step, n_bits : int
        A number of `n_bits` bits represents low + step * number.
    signs : int
        Whether a bit for the sign of kappa follows the weights of each side of a neuron.
    size : int
        Bits of all weights, including the second layer.
    projection_bound, sum_bound : int
        Proven bounds on all intermediate values: on coordinates and projections of neurons, and on sums.
    numbers : ndarray of int
        For neurons, weights of shape (m, sides, D), including the weight of kappa if there are signs. For the form,
        entries of the upper triangles, row by row, of shape (C, D (D + 1) / 2).
    """

    name: str
    low: int
    step: int
    n_bits: int
    signs: int
    size: int
    projection_bound: int
    sum_bound: int
    numbers: IntArray

    @cached_property
    def table(self) -> ByteArray:
        """Packed bits, the most significant bit of a number first.

        They hold left and right sides of the neurons in turn, or rows of upper triangles, one output after another.
        """
        main = self.numbers[..., : self.numbers.shape[-1] - self.signs]
        bits = bits_of_integers((main - self.low) // self.step, self.n_bits).reshape(*main.shape[:-1], -1)
        signs = self.numbers[..., main.shape[-1] :] > 0
        return np.packbits(np.concatenate([bits, signs.astype(np.uint8)], axis=-1))


def layouts(network: IntegerNetwork) -> list[NetworkLayout]:
    """Build both layouts of a network, the smaller one first."""
    found = [_form(network)]
    if network.is_product:
        found.append(_neurons(network))
    return sorted(found, key=lambda one: (one.size, one.name))


def type_width(bound: int) -> int:
    """Return the bits of the narrowest signed type for integers up to a bound in magnitude; 128 if there is none."""
    return next((width for width in _WIDTHS if bound < 2 ** (width - 1)), 128)


def _neurons(network: IntegerNetwork) -> NetworkLayout:
    both = np.stack([network.left] if network.is_square else [network.left, network.right], axis=1)
    main, last = both[..., : network.n_inputs], both[..., network.n_inputs :]
    # In a network of squares kappa is always added.
    signs = int(bool(network.kappa) and not np.all(last == 1))
    top = max(int(np.abs(main).max()), 1)
    step = 1 if np.any((main + top) % 2) else 2
    n_bits = (2 * top // step).bit_length()
    projections = np.abs(both).astype(np.float64) @ network.coordinates
    products = projections[:, 0] * projections[:, -1]
    weights = np.abs(network.alpha).astype(np.float64)
    shared = network.sizes is not None
    size = main.size * n_bits + signs * last.size + (0 if shared else weights.size * type_width(int(weights.max())))
    sums = [products.sum() if shared else products.max(), (products @ weights + _magnitudes(network.bias)).max()]
    bounds = _upper(projections.max()), _upper(max(sums))
    return NetworkLayout("neurons", -top, step, n_bits, signs, size, *bounds, both if signs else main)


def _form(network: IntegerNetwork) -> NetworkLayout:
    form = network.form
    entries = form[(slice(None), *np.triu_indices(form.shape[1]))]
    low, high = int(entries.min()), int(entries.max())
    n_bits = max((high - low).bit_length(), 1)
    # Rows of upper triangles, with the off-diagonal entries doubled.
    upper = np.abs(np.triu(form) + np.triu(form, 1)).astype(np.float64) @ network.coordinates
    sums = upper @ network.coordinates
    totals = sums * np.abs(network.factors) + _magnitudes(network.bias)
    bounds = _upper(network.coordinates.max()), _upper(max(upper.max(), sums.max(), totals.max(), abs(low), high))
    return NetworkLayout("form", low, 1, n_bits, 0, entries.size * n_bits, *bounds, entries)


def _magnitudes(values: tuple[int, ...]) -> FloatArray:
    return np.array([float(abs(value)) for value in values])


def _upper(value: float) -> int:
    """Bound a sum of products of integers >= 0, computed in double precision, from above by an integer."""
    return int(value) if value < 2.0**52 else int(value * (1.0 + ROUNDING))
