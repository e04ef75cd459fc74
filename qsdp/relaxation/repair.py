"""From whatever a solver returned to a point that is feasible for the relaxation."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from qsdp._validation import FloatArray
from qsdp.problem import TrainingProblem

__all__ = ["project_psd", "repair"]

_LARGEST_STRETCH = 1024.0


def repair(
    problem: TrainingProblem,
    Z: FloatArray | None,
    V: FloatArray | None,
    W: FloatArray | None,
    *,
    regularization: str = "tight",
) -> tuple[FloatArray, FloatArray, float]:
    r"""Return ``(Z, V, rho)``, feasible for the relaxation, from a solver's blocks.

    The blocks are symmetrised (Z with its transpose, V with W: the data matrices are symmetric, so
    predictions stay and nothing grows), the negative eigenvalues of ``V + Z`` and ``V - Z`` clipped,
    ``rho`` set to the largest diagonal entry of V, the diagonal padded to it, and everything rescaled by
    the non-negative factor that minimises the objective along the ray. What is missing or not finite
    gives the zero point.

    Returns
    -------
    Z, V : ndarray of shape (D, D)
        Symmetric; ``[[V, Z], [Z, V]]`` is positive semidefinite with constant diagonal `rho`.
    rho : float
    """
    d = problem.dimension
    zero = (np.zeros((d, d)), np.zeros((d, d)), 0.0)
    if Z is None or V is None or W is None or not all(np.all(np.isfinite(M)) for M in (Z, V, W)):
        return zero
    Z_even, V_even = _symmetric(Z), _symmetric(0.5 * (V + W))
    A, B = project_psd(V_even + Z_even), project_psd(V_even - Z_even)
    Z_even, V_even = 0.5 * (A - B), 0.5 * (A + B)
    rho = float(V_even.diagonal().max())
    if not rho > 0.0:
        return zero
    cost = problem.regularization_weight(regularization) * rho
    scale = _best_stretch(problem, 2.0 * problem.forward(Z_even), cost)
    np.fill_diagonal(V_even, rho)
    return scale * Z_even, scale * V_even, scale * rho


def project_psd(M: FloatArray) -> FloatArray:
    """Return the nearest positive semidefinite matrix to the symmetric `M` (Frobenius norm)."""
    eigenvalues, vectors = scipy.linalg.eigh(M)
    if eigenvalues[0] >= 0.0:
        return M
    kept = vectors[:, eigenvalues > 0.0] * np.sqrt(eigenvalues[eigenvalues > 0.0])
    return _symmetric(kept @ kept.T)


def _symmetric(M: FloatArray) -> FloatArray:
    return 0.5 * (M + M.T)


def _best_stretch(problem: TrainingProblem, prediction: FloatArray, cost: float) -> float:
    r"""Return the s >= 0 that minimises :math:`\ell(s \hat y, y) + s\,\mathrm{cost}`, by bisection."""

    def slope(s: float) -> float:
        return float(problem.loss.gradient(s * prediction, problem.y) @ prediction) + cost

    def objective(s: float) -> float:
        return problem.loss.value(s * prediction, problem.y) + s * cost

    low, high = 0.0, 1.0
    while slope(high) < 0.0 and high < _LARGEST_STRETCH:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        if slope(middle) < 0.0:
            low = middle
        else:
            high = middle
    return min((0.0, 1.0, low, high), key=objective)
