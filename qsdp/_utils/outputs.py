"""The axis of outputs: always present inside the package, omitted in the public interface for scalar functions.

A function whose values have the shape (n,) has the `output_shape` (), one whose values have the shape (n, C) has (C,).
Inside the package both have values (n, C), second-layer weights (m, C) and matrices (C, N, N), with C = 1 for a scalar
function. Only `squeezed` asks which of the two it is.
"""

from __future__ import annotations

from typing import Any

__all__ = ["OutputShape", "outputs_text", "squeezed"]

OutputShape = tuple[int, ...]


def squeezed(values: Any, output_shape: OutputShape, *, axis: int = 0) -> Any:
    """Remove the axis of outputs of an array or a list for a scalar function, as in the public interface.

    Parameters
    ----------
    values : array or list
        With one entry per output along `axis`.
    output_shape : tuple of int
        () for a scalar function, (C,) otherwise.
    axis : {0, 1}, default=0
        1 for values of shape (n, C).
    """
    if output_shape:
        return values
    return values[:, 0] if axis else values[0]


def outputs_text(output_shape: OutputShape) -> str:
    """Format the number of outputs for a `repr`; empty for a scalar function."""
    return "".join(f", n_outputs={C}" for C in output_shape)
