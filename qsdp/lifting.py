"""Data maps in front of the training problem."""

from __future__ import annotations

import numpy as np

from qsdp._validation import FloatArray

__all__ = ["append_constant"]


def append_constant(X: FloatArray) -> FloatArray:
    r"""Return ``[X, 1]`` of shape (n, d + 1).

    A bilinear network is even, :math:`f(-x) = f(x)`; on :math:`(x, 1)` its terms
    :math:`(x^T u + s)(x^T v + t)` have a linear and a constant part as well.
    """
    return np.hstack([X, np.ones((X.shape[0], 1))])
