"""What an integer network is stored and evaluated as: neurons or quadratic form, and widths proven for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp.export._integer_network import IntegerNetwork

__all__ = ["LAYOUTS", "WIDTHS", "Layout", "layouts", "pack_bits", "type_width"]

IntArray = npt.NDArray[np.int64]

LAYOUTS = ("neurons", "form")

#: Of the integers of C.
WIDTHS = (8, 16, 32, 64)

#: Narrower arithmetic is no gain on any machine of interest.
_LEAST_WIDTH = 16


@dataclass(frozen=True, eq=False)
class Layout:
    """A way to store a network, with its numbers packed into bits.

    Attributes
    ----------
    name : {"neurons", "form"}
    low, step, n_bits : int
        A number of `n_bits` bits stands for low + step * number.
    signs : int
        Whether a bit for the sign of kappa follows the weights of a neuron's side.
    table : ndarray of uint8
        Bits, the most significant of a number first: left and right sides of the neurons by turns; or rows of the
        upper triangles of the forms, one output after another.
    projection_bound, sum_bound : int
        Proven bounds on every intermediate value: on coordinates and projections of neurons, and on sums.
    """

    name: str
    low: int
    step: int
    n_bits: int
    signs: int
    table: npt.NDArray[np.uint8]
    projection_bound: int
    sum_bound: int
    size: int

    @property
    def projection_width(self) -> int:
        """Bits of the integers of coordinates and projections."""
        return max(type_width(self.projection_bound), _LEAST_WIDTH)

    @property
    def sum_width(self) -> int:
        """Bits of the integers of sums and outputs."""
        return max(type_width(self.sum_bound), self.projection_width)


def layouts(network: IntegerNetwork, largest: IntArray) -> list[Layout]:
    """Return the layouts of a network for inputs of bounded magnitude, shape (d,); the smaller one first."""
    coordinates = network.gain * largest.astype(object)
    if network.kappa:
        coordinates = np.append(coordinates, abs(network.kappa))
    found = [_form(network, coordinates)]
    if network.is_product:
        found.append(_neurons(network, coordinates))
    return sorted(found, key=lambda one: (one.size, one.name))


def type_width(bound: int) -> int:
    """Return the bits of the narrowest signed type that holds integers up to a bound in magnitude; 128 for none."""
    return next((width for width in WIDTHS if bound < 2 ** (width - 1)), 128)


def pack_bits(numbers: IntArray, n_bits: int) -> npt.NDArray[np.uint8]:
    """Return bits of shape (..., n_bits) of numbers >= 0, the most significant first."""
    shifts = np.arange(n_bits - 1, -1, -1)
    bits: npt.NDArray[np.uint8] = ((numbers[..., None] >> shifts) & 1).astype(np.uint8)
    return bits


def _neurons(network: IntegerNetwork, coordinates: npt.NDArray[Any]) -> Layout:
    sides = [network.left] if network.is_square else [network.left, network.right]
    both = np.stack(sides, axis=1)
    d = network.n_inputs
    main, last = both[..., :d], both[..., d:]
    # In a network of squares kappa is always added.
    signs = int(bool(network.kappa) and not np.all(last == 1))
    top = max(int(np.abs(main).max()), 1)
    step = 1 if np.any((main + top) % 2) else 2
    n_bits = (2 * top // step).bit_length()
    bits = pack_bits((main + top) // step, n_bits).reshape(*both.shape[:2], -1)
    if signs:
        bits = np.concatenate([bits, (last > 0).astype(np.uint8)], axis=2)
    table = np.packbits(bits)
    projections = np.abs(both).astype(object) @ coordinates
    products = projections[:, 0] * projections[:, -1]
    weights = np.abs(network.alpha).astype(object)
    totals = products @ weights + np.abs(np.array(network.bias, dtype=object))
    groups = products.sum() if network.sizes is not None else max(products)
    size = 8 * table.size + _weight_bits(network)
    bounds = int(projections.max()), int(max(groups, *totals))
    return Layout("neurons", -top, step, n_bits, signs, table, *bounds, size)


def _weight_bits(network: IntegerNetwork) -> int:
    return 0 if network.sizes is not None else network.alpha.size * type_width(int(np.abs(network.alpha).max()))


def _form(network: IntegerNetwork, coordinates: npt.NDArray[Any]) -> Layout:
    form = network.form
    rows, columns = np.triu_indices(form.shape[1])
    entries = form[:, rows, columns]
    low = int(entries.min())
    n_bits = max((int(entries.max()) - low).bit_length(), 1)
    table = np.packbits(pack_bits(entries - low, n_bits).ravel())
    inner = np.abs(np.triu(form, 1)).astype(object) * 2 @ coordinates
    inner += np.abs(np.diagonal(form, axis1=1, axis2=2)).astype(object) * coordinates
    sums = inner @ coordinates
    totals = sums * np.abs(network.factors).astype(object) + np.abs(np.array(network.bias, dtype=object))
    bounds = int(coordinates.max()), int(max(inner.max(), *sums, *totals, abs(low), int(entries.max())))
    return Layout("form", low, 1, n_bits, 0, table, *bounds, 8 * table.size)
