r"""Newton system of one output with more samples than matrix entries, in terms of the step of the matrix.

Let Q be a basis that makes both scalings diagonal, :math:`W_A = Q Q^T` and :math:`W_B = Q \Lambda Q^T`. With
:math:`x_{ij} = \lambda_i \lambda_j` and :math:`dT = Q \tau Q^T`, the steps of A and B give

.. math:: \tau = \tau_R - (1 - x) \circ Q^T \mathrm{Diag}(dz) Q + (1 + x) \circ Q^T dM Q

with :math:`\tau_R = Q^{-1} (R_A - R_B) Q^{-T}`, and the relation gives :math:`dM = -F^T C^{-1} (e + F dT)`. Hence
:math:`S \tau = \tau_R / (1 + x) - Q^T F^T C^{-1} e\,Q - B^T dz`. S is :math:`\mathrm{Diag}(1 / (1 + x))` plus the
Gram matrix of the rows :math:`Q^T \mathcal{X}_i Q` weighted with :math:`C^{-1}`, and row k of B is
:math:`(1 - x)/(1 + x) \circ q_k q_k^T`, where :math:`q_k` is row k of Q. The diagonals then give

.. math:: (V + B S^{-1} B^T)\, dz = B (\tau|_{dz = 0} - \tau_R) + \mathrm{diag}(A + B + R_A + R_B) - (r + dr) 1

with :math:`V_{kl} = \langle q_k q_k^T, 4 x/(1 + x) \circ q_l q_l^T \rangle`. Singular Gram matrices and weights of any
range are allowed, as the first term of S makes it positive definite.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrs

from qsdp._utils.numeric import largest_magnitude
from qsdp._utils.symmetric import diagonal_of
from qsdp._utils.tuning import NEGLIGIBLE
from qsdp._utils.validation import FloatArray
from qsdp.block_layout import single_block
from qsdp.gram import symmetric_basis, to_matrices, to_vectors
from qsdp.relaxation.solvers.interior.cone import LinAlgError
from qsdp.relaxation.solvers.interior.coordinates import SampleCoordinates
from qsdp.relaxation.solvers.interior.newton_system import Newton, Sides, Steps, factored, solved

__all__ = ["PrimalNewton"]


class PrimalNewton(Newton):
    """Newton system in the step of the matrix, for a data map and the curvatures of a loss."""

    def __init__(self, samples: SampleCoordinates) -> None:
        super().__init__(samples, self.operations(samples))
        self._samples, self._layout = samples, single_block(samples.size)
        self._system = np.empty((self._layout.n_entries,) * 2, order="F")

    @staticmethod
    def operations(samples: SampleCoordinates) -> float:
        """Estimate the cost of the system without creating its coordinates, which take gigabytes for wide data."""
        p = samples.size * (samples.size + 1) / 2.0
        return samples.length * p**2 + p**3 / 3.0 + 2.0 * p**2 * samples.size

    def factor(self, G: FloatArray, compliance: FloatArray, stiffness: FloatArray) -> None:
        """Build and factor S and the system for the weights."""
        U, roots, _ = np.linalg.svd(np.linalg.solve(G[0, 0], G[0, 1]))
        self._Q = Q = G[0, 0] @ U
        self._inverse = np.linalg.inv(Q)
        self._W, self._compliance, self._curvature = G[0] @ G[0].swapaxes(-1, -2), compliance, 1.0 / compliance[0]
        first, second, _ = symmetric_basis(len(Q))
        product = roots[:, None] ** 2 * roots**2
        x = product[first, second]
        self._damping = 1.0 / (1.0 + x)
        self._samples.weighted_gram(self._curvature, Q, self._system)
        diagonal = diagonal_of(self._system)
        diagonal += self._damping
        self._S = factored(self._system.T)
        squares = Q[:, first] * Q[:, second] * symmetric_basis(len(Q))[2]
        self._B = (1.0 - x) * self._damping * squares
        self._answers = dpotrs(self._S, self._B.T, lower=1)[0]
        V = (squares * (4.0 * x * self._damping)) @ squares.T
        self._weights = factored(V + self._B @ self._answers)
        self._ends = solved(self._weights, np.ones(len(Q)))
        if not 0.0 < self._ends.sum() < np.inf:
            raise LinAlgError("the border of the Newton system underflowed")

    def solve(self, sides: Sides) -> Steps:
        """Return the steps, after one step of iterative refinement if they miss the equations by more than rounding.

        If the loss has a kink, C is near zero, and the multiplier is a quotient of small differences.
        """
        R, error, off, excess, _ = sides
        nu, dz, dr = self._solve(R, error, off, excess)
        D, M = np.diag(dz[0]), self.adjoint(nu)[0]
        dA, dB = R[0, 0] - self._W[0] @ (D - M) @ self._W[0], R[0, 1] - self._W[1] @ (D + M) @ self._W[1]
        moved, widened = self.forward((dA - dB)[None]), (dA + dB).diagonal()
        missed, uneven = error + moved + self._compliance * nu, widened + off - dr
        if _negligible(missed, moved) and _negligible(uneven, widened):
            return nu, dz, dr
        steps = self._solve(np.zeros_like(R), missed, uneven, excess + dz.sum())
        return nu + steps[0], dz + steps[1], dr + steps[2]

    def _solve(self, R: FloatArray, error: FloatArray, off: FloatArray, excess: FloatArray) -> Steps:
        Q, layout = self._Q, self._layout
        start = to_vectors(self._inverse @ (R[0, 0] - R[0, 1]) @ self._inverse.T, layout)[:, 0]
        pull = Q.T @ self._samples.adjoint(self._curvature * error[0])[0] @ Q
        tau = solved(self._S, self._damping * start - to_vectors(pull, layout)[:, 0])
        side = self._B @ (tau - start) + (R[0, 0] + R[0, 1]).diagonal() + off[0]
        dz = solved(self._weights, side)
        dr = (float(dz.sum()) + float(excess[0])) / float(self._ends.sum())
        dz -= dr * self._ends
        tau -= self._answers @ dz
        dT = Q @ to_matrices(tau[:, None], layout)[0] @ Q.T
        nu = -self._curvature * (error[0] + self._samples.forward(dT[None]))
        return nu[None], dz[None], np.array([dr])


def _negligible(missed: FloatArray, whole: FloatArray) -> bool:
    """Whether a residual is rounding beside the terms of its equation."""
    return largest_magnitude(missed) <= NEGLIGIBLE * largest_magnitude(whole)
