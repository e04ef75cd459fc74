"""The Gram matrix shared by the solves of a path, in the units of each of its instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.validation import FloatArray, equal_weights
from qsdp.forms import FormMap
from qsdp.lifting import DataMap, QuadraticMap

__all__ = ["Reductions", "gram_of"]


@dataclass(frozen=True, eq=False)
class _Known:
    data: DataMap
    targets: FloatArray
    weights: FloatArray | None
    gram: FloatArray
    products: FloatArray


class Reductions:
    r"""Cache of the last Gram matrix, which is reused if the data are the same up to units.

    Problems that differ in beta have normalised instances whose maps and targets differ by powers of two. Their Gram
    matrices and products are those of the first one, scaled without rounding. Data are compared entry by entry, so a
    wrong matrix is never returned. This costs far less than the :math:`n p^2` operations of a Gram matrix.
    """

    def __init__(self) -> None:
        self._known: _Known | None = None

    @classmethod
    def of(
        cls,
        data: DataMap,
        targets: FloatArray,
        gram: FloatArray,
        products: FloatArray,
        weights: FloatArray | None = None,
    ) -> Reductions:
        """Return a cache filled with the Gram matrix and the products of these data and targets."""
        reductions = cls()
        reductions._known = _Known(data, targets, weights, gram, products)
        return reductions

    def gram(
        self,
        data: DataMap,
        targets: FloatArray,
        weights: FloatArray | None = None,
        deadline: Deadline = NEVER,
        dtype: Any = np.float64,
        device: str | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``data.gram(targets, weights)``, computed or scaled; the arrays are the caller's own."""
        known = self._known
        if known is not None and np.can_cast(dtype, known.gram.dtype) and equal_weights(weights, known.weights):
            factor, unit = _map_ratio(data, known.data), _ratio(targets, known.targets)
            if factor is not None and unit is not None:
                gram = np.multiply(known.gram, factor**2, dtype=dtype, casting="same_kind")
                return gram, (factor * unit) * known.products
        gram, products = data.gram(targets, weights, deadline, dtype, device)
        self._known = _Known(data, targets, weights, gram.copy(), products.copy())
        return gram, products


def gram_of(
    data: DataMap,
    targets: FloatArray,
    weights: FloatArray | None,
    reductions: Reductions | None,
    deadline: Deadline = NEVER,
    dtype: Any = np.float64,
    device: str | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return ``data.gram(targets, weights)``, from the cache if one is given."""
    if reductions is None:
        return data.gram(targets, weights, deadline, dtype, device)
    return reductions.gram(data, targets, weights, deadline, dtype, device)


def _map_ratio(data: DataMap, known: DataMap) -> float | None:
    """Return the factor by which the rows of `known` become the rows of `data`, or None if there is none."""
    if isinstance(data, FormMap) and isinstance(known, FormMap):
        return data.factor / known.factor if np.array_equal(data.rows, known.rows) else None
    if not (isinstance(data, QuadraticMap) and isinstance(known, QuadraticMap)):
        return None
    if data.lifted != known.lifted or (scale := _ratio(data.X, known.X)) is None:
        return None
    a, b, c = data.coefficients
    own = np.array([a * scale * scale, b * scale, c])
    return _ratio(own, np.array(known.coefficients))


def _ratio(array: FloatArray, known: FloatArray) -> float | None:
    """Return the factor by which `known` becomes exactly `array`, or None if there is none."""
    if array.shape != known.shape:
        return None
    place = np.unravel_index(int(np.abs(known).argmax()), known.shape)
    if known[place] == 0.0:
        return None if np.any(array) else 1.0
    ratio = float(array[place] / known[place])
    return ratio if np.isfinite(ratio) and ratio != 0.0 and np.array_equal(array, ratio * known) else None
