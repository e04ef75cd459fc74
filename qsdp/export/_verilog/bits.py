"""Models whose inputs are bits, converted to polynomials of degree two in the bits with integer coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import ROUNDING
from qsdp._utils.validation import FloatArray, IntArray, check_integer, check_matrix
from qsdp.encoding import Encoding, Expression
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export._description import ModelDescription, describe
from qsdp.export._exact import exact_network

__all__ = ["BitModel", "bit_model"]

BitArray = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False, repr=False)
class BitModel:
    r"""Scores as `unit` times :math:`c_k + \sum_i l_{ki} b_i + \sum_{i < j} q_{kij} b_i b_j` for bits b, up to `error`.

    Products of bits of one column are eliminated, because all its bits come from one entry: the product of two
    thresholds is the larger one, and two categories exclude each other.

    Attributes
    ----------
    description : ModelDescription
    names : tuple of str
        Names of the bits.
    values : ndarray of shape (2, d)
        Inputs of the network that the bits 0 and 1 represent.
    constant : ndarray of int of shape (C,)
    linear : ndarray of int of shape (C, d)
    pairs : ndarray of int of shape (C, d, d)
        Zero on and below the diagonal.
    unit : float
    error : ndarray of shape (C,)
        Bounds on the distance of scores from the model's.
    """

    description: ModelDescription
    names: tuple[str, ...]
    values: FloatArray
    constant: IntArray
    linear: IntArray
    pairs: IntArray
    unit: float
    error: FloatArray

    @property
    def n_bits(self) -> int:
        """Number of inputs d."""
        return len(self.names)

    @property
    def n_outputs(self) -> int:
        """Number of outputs C."""
        return len(self.constant)

    @property
    def bounds(self) -> tuple[int, int]:
        """Lower and upper bound on every output, for any bits."""
        low = self.constant + np.minimum(self.linear, 0).sum(axis=1) + np.minimum(self.pairs, 0).sum(axis=(1, 2))
        high = self.constant + np.maximum(self.linear, 0).sum(axis=1) + np.maximum(self.pairs, 0).sum(axis=(1, 2))
        return int(low.min()), int(high.max())

    def bits(self, X: Any) -> BitArray:
        """Encode an array or a data frame as bits of shape (n, d)."""
        if self.description.encoding is not None:
            inputs = self.description.encoding.encode(self.description.columns(X))
        else:
            inputs = check_matrix("X", X, n_columns=self.n_bits)
        bits: npt.NDArray[np.bool_] = inputs == self.values[1]
        if not np.all(bits | (inputs == self.values[0])):
            off, on = self.values[:, 0].tolist()
            raise InvalidInputError(f"X must hold {off:g} and {on:g} only, the values of a bit")
        return bits.astype(np.uint8)

    def outputs(self, bits: npt.NDArray[Any]) -> IntArray:
        """Compute the integer outputs of shape (n, C) for bits of shape (n, d)."""
        b = bits.astype(np.int64)
        squares = np.stack([((b @ pairs) * b).sum(axis=1) for pairs in self.pairs], axis=1)
        outputs: IntArray = self.constant + b @ self.linear.T + squares
        return outputs

    def scores(self, outputs: npt.NDArray[Any]) -> FloatArray:
        """Convert integer outputs to scores of the original model."""
        return np.asarray(outputs, dtype=np.float64) * self.unit


def bit_model(model: Any, *, digits: int = 8, values: tuple[float, float] = (0.0, 1.0)) -> BitModel:
    """Convert a model to a `BitModel`, with coefficients of at most `digits` bits.

    Parameters
    ----------
    model : network, estimator, pipeline, model of `qsdp fit` or ModelDescription
    digits : int, default=8
        Bits of the magnitude of the largest coefficient other than constants, 1 to 30.
    values : (float, float), default=(0, 1)
        Inputs that represent the bits 0 and 1, for a network without an encoding.

    Raises
    ------
    ExportError
        An input of the network is not a bit.
    """
    description = describe(model)
    digits = check_integer("digits", digits, minimum=1, maximum=30)
    pairs_of_values = _values(description, values)
    constant, linear, pairs = _polynomial(description, pairs_of_values)
    if description.encoding is not None:
        _fold_columns(linear, pairs, description.encoding)
    unit = _unit(constant, np.concatenate([linear.ravel(), pairs.ravel()]), digits)
    whole_constant, whole_linear, whole_pairs = (
        np.rint(part / unit).astype(np.int64) for part in (constant, linear, pairs)
    )
    error = np.abs(constant - unit * whole_constant)
    error += np.abs(linear - unit * whole_linear).sum(axis=1) + np.abs(pairs - unit * whole_pairs).sum(axis=(1, 2))
    size = np.abs(constant) + np.abs(linear).sum(axis=1) + np.abs(pairs).sum(axis=(1, 2))
    names = (
        tuple(f"input {j}" for j in range(len(linear[0])))
        if description.encoding is None
        else description.encoding.names
    )
    return BitModel(
        description, names, pairs_of_values, whole_constant, whole_linear, whole_pairs, unit, error + ROUNDING * size
    )


def _unit(constant: FloatArray, coefficients: FloatArray, digits: int) -> float:
    """Choose the unit of coefficients: the largest in which all are exact, if the digits suffice, else the finest."""
    largest, sizes = float(np.abs(coefficients).max()), np.abs(np.append(coefficients, constant))
    sizes = sizes[sizes > ROUNDING * float(sizes.max())]
    if not sizes.size:
        return 1.0
    for part in (1, 2, 3, 4):
        multiples = part * sizes / sizes.min()
        if np.all(np.abs(multiples - np.rint(multiples)) <= ROUNDING * multiples):
            unit = float(sizes.min()) / part
            if largest <= (2**digits - 1) * unit:
                return unit
            break
    finest: float = (largest or float(sizes.max())) / (2**digits - 1)
    return finest


def _values(description: ModelDescription, values: tuple[float, float]) -> FloatArray:
    if description.encoding is None:
        off, on = map(float, values)
        if off == on:
            raise InvalidInputError(f"values must be two numbers; got {values!r:.60}")
        return np.repeat([[off], [on]], description.network.n_inputs, axis=1)
    pairs = [expression.bit_values for expression in description.encoding.expressions]
    for expression, pair in zip(description.encoding.expressions, pairs, strict=True):
        if pair is None:
            raise ExportError(
                f"column {expression.column!r} is a numeric input, and Verilog needs bits: train with "
                "encoding='thresholds' (qsdp fit --encoding thresholds)"
            )
    return np.array(pairs, dtype=np.float64).T


def _polynomial(description: ModelDescription, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute constants, linear coefficients and pair coefficients of the scores as functions of bits."""
    S, s, s0 = exact_network(description).form.composed(values[1] - values[0], values[0]).parts
    # A bit is its own square.
    return s0, s + np.diagonal(S, axis1=1, axis2=2), 2.0 * np.triu(S, 1)


def _fold_columns(linear: FloatArray, pairs: FloatArray, encoding: Encoding) -> None:
    """Move products of bits of one column to the linear part: each is one of the two bits, or zero."""
    for i, first in enumerate(encoding.expressions):
        for j, second in enumerate(encoding.expressions[i + 1 :], start=i + 1):
            if first.position == second.position and (product := _product(first, i, second, j)) is not None:
                linear[:, product] += pairs[:, i, j] if product >= 0 else 0.0
                pairs[:, i, j] = 0.0


def _product(first: Expression, i: int, second: Expression, j: int) -> int | None:
    """Find the bit that equals the product of two bits of a column: its index, -1 for zero, None if there is none."""
    kinds = {first.kind, second.kind}
    if kinds == {"above"}:
        return i if float(first.value or 0.0) >= float(second.value or 0.0) else j
    return -1 if kinds <= {"equals", "missing"} else None
