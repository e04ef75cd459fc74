r"""Mehrotra's predictor and corrector along the central path of one output.

.. math::

    \min_{A, B \succeq 0}\; \ell(F(A - B), y) + c\, r \quad\text{s.t.}\quad \mathrm{diag}(A) + \mathrm{diag}(B) = r 1
    \qquad\text{and}\qquad
    \max_{\nu, z}\; -\ell^*(-\nu) \quad\text{s.t.}\quad \mathrm{Diag}(z) \pm F^T \nu \succeq 0,\; 1^T z = c

On the path :math:`A (\mathrm{Diag}(z) - F^T \nu) = B (\mathrm{Diag}(z) + F^T \nu) = \mu I`. The dual matrices are
those of :math:`\nu` and z throughout and the diagonals of A + B are equal from the start on, so that what an iterate
can miss is :math:`1^T z = c` and the relation of :math:`\nu` to the predictions. Both are linear, or nearly so, and
missed by less after every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qsdp._validation import FloatArray
from qsdp.relaxation.incumbent import Incumbent
from qsdp.relaxation.interior.cone import LinAlgError, centred, largest_steps, scaling
from qsdp.relaxation.interior.coordinates import Coordinates
from qsdp.relaxation.interior.fits import Fit
from qsdp.relaxation.interior.system import BorderedSystem

__all__ = ["State", "follow"]

#: How far a step goes towards the boundary of the cone.
_TO_BOUNDARY = 0.98

#: Iterations without a better gap after which rounding has taken over, and the step that is none.
_PATIENCE, _NO_STEP = 8, 1e-10

#: Signs of the data's matrix in the dual matrices of A and B.
_SIGNS = np.array([-1.0, 1.0])[:, None, None]


@dataclass
class State:
    """An iterate: Y = (A, B) of shape (2, N, N), r and z."""

    Y: FloatArray
    r: float
    z: FloatArray


def follow(
    coordinates: Coordinates,
    fit: Fit,
    state: State,
    capacity: float,
    incumbent: Incumbent,
    candidate: Callable[[FloatArray], FloatArray],
) -> str:
    """Follow the central path until the incumbent stops the iteration or rounding does; return why.

    Parameters
    ----------
    coordinates : Coordinates
    fit : Fit
        With a multiplier for which ``Diag(z) +- F' q`` are positive definite.
    state : State
        With diagonals of A + B equal to r.
    capacity : float
        c, positive.
    incumbent : Incumbent
        Of one output.
    candidate : callable
        From the multiplier to a dual vector as the incumbent's evaluation takes it.
    """
    system = BorderedSystem(coordinates)
    best, since, iteration = np.inf, 0, 0
    while True:
        incumbent.offer_point(state.Y[:1], state.Y[1:])
        incumbent.offer_dual(candidate(fit.multiplier), state.z[None])
        reason = incumbent.stop(iteration)
        if reason is not None:
            return reason
        gap = float(incumbent.gaps[0])
        best, since = (gap, 0) if gap < 0.9 * best else (best, since + 1)
        try:
            moved = _advance(coordinates, system, fit, state, capacity)
        except LinAlgError:
            return "stalled"
        if not moved or since == _PATIENCE:
            return "stalled"
        iteration += 1


def _advance(coordinates: Coordinates, system: BorderedSystem, fit: Fit, state: State, capacity: float) -> bool:
    """Make one step; return whether there was one to make.

    Raises
    ------
    LinAlgError
        A matrix was not positive definite in floating point.
    """
    Y, z, size = state.Y, state.z, coordinates.size
    dual = _dual_matrices(coordinates.adjoint(fit.multiplier), z)
    G, values = scaling(Y, dual)
    transposed = G.swapaxes(-1, -2)
    system.factor(G, fit)
    n_pairs = 2 * size + fit.n_pairs
    mu = (float(np.vdot(values, values)) + fit.products()) / n_pairs
    prediction = coordinates.forward(Y[0] - Y[1])
    off, excess = (Y[0] + Y[1]).diagonal() - state.r, float(z.sum()) - capacity

    def direction(R: FloatArray, aim: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return the scaled steps of Y and of the dual matrices, stacked, and those of z and r."""
        dq, dz, dr = system.solve(R, error, off, excess)
        fit.direct(dq)
        change = transposed @ _dual_matrices(coordinates.adjoint(dq), dz) @ G
        return np.stack([aim - change, change]), dz, dr

    steps, _, _ = direction(-Y, _diagonals(-values), fit.error(prediction, 0.0, corrected=False))
    reach = min(1.0, largest_steps(steps, values), fit.largest_step())
    there = _diagonals(values) + reach * steps
    predicted = (float(np.vdot(there[0], there[1])) + fit.trial_products(reach)) / n_pairs
    centre = mu * min(1.0, max(predicted / mu, 0.0)) ** 3
    aim = centred(values, centre, steps[0], steps[1])
    steps, dz, dr = direction(G @ aim @ transposed, aim, fit.error(prediction, centre, corrected=True))
    step = min(1.0, _TO_BOUNDARY * min(largest_steps(steps, values), fit.largest_step()))
    if not step > _NO_STEP:
        return False
    moved = Y + step * (G @ steps[0] @ transposed)
    state.Y = 0.5 * (moved + moved.swapaxes(-1, -2))
    state.r += step * dr
    state.z = z + step * dz
    fit.move(step)
    return True


def _dual_matrices(M: FloatArray, z: FloatArray) -> FloatArray:
    """Return ``Diag(z) - M`` and ``Diag(z) + M``, stacked."""
    matrices: FloatArray = _SIGNS * M
    diagonal = np.arange(len(z))
    matrices[:, diagonal, diagonal] += z
    return matrices


def _diagonals(values: FloatArray) -> FloatArray:
    matrices = np.zeros((*values.shape, values.shape[-1]))
    diagonal = np.arange(values.shape[-1])
    matrices[..., diagonal, diagonal] = values
    return matrices
