"""Common scale of all inputs: a power of two, which is a shift in hardware."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray, check_matrix, check_real, check_sample_weight
from qsdp.encoding.table_encoding import Encoding
from qsdp.lifting import power_of_two

__all__ = ["NO_GAIN", "row_scale", "scaled_to_rows"]

#: Reason why a column has no input if its inputs do not help.
NO_GAIN = "no gain"


def row_scale(X: Any, *, norm: float = 1.5, sample_weight: Any = None) -> float:
    r"""Compute the power of two that brings the root mean square of the row norms nearest to `norm`.

    In an activation :math:`a t^2 + b t + c`, the balance of the parts depends on the size of :math:`t = x^T q`, which
    grows with the number of columns. On large rows, the activation is almost quadratic; on small rows, almost linear.

    Parameters
    ----------
    X : array-like of shape (n, d)
    norm : float, default=1.5
        Target norm, > 0. With the activation "relu_like", 0.5 to 1.5 suit most data sets.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        1 if the data are all zero.

    Examples
    --------
    >>> from qsdp.encoding import row_scale
    >>> row_scale([[3.0, 4.0], [-4.0, 3.0]])
    0.25
    """
    data, wanted = check_matrix("X", X), check_real("norm", norm, strict=True)
    weights = check_sample_weight(sample_weight, len(data))
    largest = power_of_two(float(np.abs(data).max()))
    present = math.sqrt(float(np.average(np.square(data / largest), axis=0, weights=weights).sum()))
    return power_of_two(wanted / present) / largest if present > 0.0 else 1.0


def scaled_to_rows(
    encoding: Encoding, inputs: FloatArray, sample_weight: FloatArray | None = None
) -> tuple[Encoding, FloatArray]:
    """Multiply all inputs of an encoding by the `row_scale` of the training inputs; also return these."""
    scale = row_scale(inputs, sample_weight=sample_weight)
    return encoding.scaled(np.full(encoding.width, scale)), scale * inputs
