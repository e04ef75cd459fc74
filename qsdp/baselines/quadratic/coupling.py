"""What counts as a free variable in a symmetric matrix Q, which decides the steps of gradient descent on it."""

from __future__ import annotations

import functools

import numpy as np

from qsdp._utils.validation import FloatArray, _show, check_choice, check_numbers
from qsdp.exceptions import InvalidInputError

__all__ = ["COUPLINGS", "check_symmetric", "step_weights"]

#: Step on an off-diagonal entry of the symmetric Q, as a multiple of the derivative by that entry alone.
COUPLINGS = {"tied": 2.0, "full": 1.0, "packed": 0.5}

#: Asymmetry, relative to the largest entry, up to which a matrix counts as symmetric.
_TOLERANCE = 1e-12


@functools.lru_cache(maxsize=64)
def step_weights(coupling: str, n: int) -> FloatArray:
    r"""Return T of shape (n, n): a sample a moves Q by a multiple of :math:`T \circ aa^T`.

    The diagonal of T is one. Off it stands 2 if :math:`q_{ij} = q_{ji}` is one tied number, the convention of
    the paper, :math:`M(a) = 2aa^T - \mathrm{diag}(a \circ a)`, A(16); 1 if all n² entries are free; and 1/2 if
    the coefficients :math:`u_{ij} = 2 q_{ij}`, i < j, of the monomials are.
    """
    factor = COUPLINGS[check_choice("coupling", coupling, COUPLINGS)]
    weights = np.full((n, n), factor)
    np.fill_diagonal(weights, 1.0)
    weights.flags.writeable = False
    return weights


def check_symmetric(name: str, Q: FloatArray) -> FloatArray:
    """Return matrices of shape (..., n, n) made symmetric to the last bit.

    Raises
    ------
    InvalidInputError
        They are not symmetric; the products cached by the forward pass are those of the backward pass only if so.
    """
    matrices = check_numbers(name, Q, "(..., n, n)")
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2]:
        raise InvalidInputError(f"{name} must have shape (..., n, n); got {matrices.shape}")
    transposed = np.swapaxes(matrices, -1, -2)
    largest = float(np.abs(matrices).max(initial=0.0))
    if float(np.abs(matrices - transposed).max(initial=0.0)) > _TOLERANCE * largest:
        raise InvalidInputError(
            f"{name} must be symmetric: its cached products stand in for those of its transpose; got {_show(Q)}"
        )
    symmetric: FloatArray = 0.5 * (matrices + transposed)
    return symmetric
