r"""Desired hidden outputs: what a hidden layer should have had, given the weights after it and the target.

The paper's equation 5 solves the layer equation :math:`T \approx H W` for one neuron i and one output j with all other
neurons held: :math:`n_i = h_i + e_j / w_{ij}` with the residual :math:`E = T - H W`. It leaves open what to do with
several outputs, and whether neurons move one after the other or at once; every rule here is one reading.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qsdp._utils.validation import FloatArray

__all__ = ["HIDDEN_TARGETS", "hidden_target"]

#: Share of the largest squared row norm of W below which a neuron has no influence, and is left as it is.
_TINY = 1e-12

_Rule = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


def _reciprocal(W: FloatArray) -> FloatArray:
    """Return 1 / W, zero where W is."""
    reciprocals: FloatArray = np.divide(1.0, W, out=np.zeros_like(W), where=W != 0.0)
    return reciprocals


def _steps(W: FloatArray) -> FloatArray:
    r"""Return :math:`w_i / \|w_i\|^2` as rows, zero for a neuron without influence: its least-squares step for E."""
    squares = np.einsum("ij,ij->i", W, W)
    alive = squares > _TINY * squares.max(initial=0.0)
    scales: FloatArray = np.divide(1.0, squares, out=np.zeros_like(squares), where=alive)
    steps: FloatArray = W * scales[:, None]
    return steps


def _gauss_seidel(H: FloatArray, W: FloatArray, E: FloatArray) -> FloatArray:
    """One neuron after the other, each by least squares on the residual that those before it left."""
    N, E, steps = H.copy(), E.copy(), _steps(W)
    for i, (w, step) in enumerate(zip(W, steps, strict=True)):
        move = E @ step
        N[:, i] += move
        E -= np.outer(move, w)
    return N


#: The rules by name; each takes H (S, n), W (n, J) and E (S, J), and returns (S, n).
HIDDEN_TARGETS: dict[str, _Rule] = {
    "first": lambda H, W, E: H + E[:, :1] * _reciprocal(W[:, 0]),
    "mean": lambda H, W, E: H + E @ _reciprocal(W).T / W.shape[1],
    "ls": lambda H, W, E: H + E @ _steps(W).T,
    "relax": lambda H, W, E: H + min(1.0, W.shape[1] / len(W)) * (E @ _steps(W).T),
    "damped": lambda H, W, E: H + (E @ _steps(W).T) / len(W),
    "gauss-seidel": _gauss_seidel,
    "minnorm": lambda H, W, E: H + E @ np.linalg.pinv(W),
}


def hidden_target(H: FloatArray, W: FloatArray, T: FloatArray, rule: str = "relax") -> FloatArray:
    r"""Return the desired outputs of a hidden layer.

    With the residual :math:`E = T - H W` and :math:`w_i` the rows of W:

    ==================  =======================================================================================
    ``"first"``         :math:`n_i = h_i + e_1 / w_{i1}`; the paper's equation 5 for j = 1. For one output only.
    ``"mean"``          :math:`n_i = h_i + \frac1J \sum_j e_j / w_{ij}`; heavy tails where weights are small.
    ``"ls"``            :math:`n_i = h_i + E w_i / \|w_i\|^2`; overshoots, by a gain of n / J on average.
    ``"relax"``         the same with the step times :math:`\min(1, J / n)`, which makes the average gain 1.
    ``"damped"``        the same with the step times :math:`1 / n`.
    ``"gauss-seidel"``  one neuron after the other, with E brought up to date in between.
    ``"minnorm"``       :math:`H + E W^+`, the smallest change that fits.
    ==================  =======================================================================================

    A neuron without outgoing weight keeps its values.

    Parameters
    ----------
    H : ndarray of shape (S, n)
        Outputs of the layer, one sample a row.
    W : ndarray of shape (n, J)
        Weights after it.
    T : ndarray of shape (S, J)
        Desired pre-activations after it.
    rule : str, default="relax"

    Returns
    -------
    ndarray of shape (S, n)

    Examples
    --------
    >>> import numpy as np
    >>> H, W, T = np.array([[1.0, 2.0]]), np.array([[1.0], [2.0]]), np.array([[9.0]])
    >>> hidden_target(H, W, T, "ls") @ W
    array([[13.]])
    >>> hidden_target(H, W, T, "relax") @ W
    array([[9.]])
    """
    return HIDDEN_TARGETS[rule](H, W, T - H @ W)
