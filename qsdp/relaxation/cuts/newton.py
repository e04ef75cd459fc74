r"""The Newton system of the relaxation with cuts, for one output.

In the notation of `qsdp.relaxation.solvers.interior.newton`, with weights :math:`\gamma \ge 0` of the cuts
:math:`a_k^T A a_k + c_k^T B c_k - s_k = r`, :math:`s \ge 0`, and :math:`\gamma_k s_k = \mu` on the path, the dual
matrices are

.. math::

    \mathrm{Diag}(z) - F^T \nu - \sum_k \gamma_k a_k a_k^T \quad\text{and}\quad
    \mathrm{Diag}(z) + F^T \nu - \sum_k \gamma_k c_k c_k^T, \qquad 1^T z - 1^T \gamma = \beta D,

and eliminating the steps of A, B, s and of the predictions leaves a positive definite system in
:math:`(dq, d\gamma, dz)`. Its blocks are those without cuts and

.. math::

    K_{kl} = (a_k^T W_A a_l)^2 + (c_k^T W_B c_l)^2 + [k = l]\, s_k / \gamma_k, \qquad
    K_{ki} = F_i(W_A a_k a_k^T W_A - W_B c_k c_k^T W_B), \qquad
    -(W_A a_k)_j^2 - (W_B c_k)_j^2 .
"""

from __future__ import annotations

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.relaxation.cuts.odd import OddCuts
from qsdp.relaxation.solvers.interior.cone import LinAlgError
from qsdp.relaxation.solvers.interior.coordinates import Coordinates
from qsdp.relaxation.solvers.interior.newton import factored_with_shifts, solved

__all__ = ["CutNewton"]


class CutNewton:
    """Newton system for a fixed set of cuts, factored once for each scaling."""

    def __init__(self, coordinates: Coordinates, cuts: OddCuts) -> None:
        self._coordinates, self.cuts = coordinates, cuts
        n, m, N = coordinates.length, len(cuts), coordinates.size
        self._q, self._g, self._z = slice(0, n), slice(n, n + m), slice(n + m, n + m + N)
        self._matrix = np.zeros((n + m + N,) * 2)
        self._ends = np.concatenate([np.zeros(n), np.full(m, -1.0), np.ones(N)])

    def dual_matrices(self, nu: FloatArray, weights: FloatArray, z: FloatArray) -> FloatArray:
        """Compute the dual matrices of A and B, stacked; linear in all arguments."""
        M = self._coordinates.adjoint(nu)[0]
        matrices: FloatArray = np.stack([-M, M]) - self.cuts.matrices(weights)
        diagonal = np.arange(len(z))
        matrices[:, diagonal, diagonal] += z
        return matrices

    def forward(self, T: FloatArray) -> FloatArray:
        """Compute the predictions of a matrix A - B."""
        return self._coordinates.forward(T[None])

    def factor(self, G: FloatArray, compliance: FloatArray, ratio: FloatArray) -> None:
        """Factor for scaling factors G of shape (2, N, N), the compliance of the loss and ``s / gamma`` of the cuts."""
        K, q, g, z, cuts = self._matrix, self._q, self._g, self._z, self.cuts
        W = G @ G.swapaxes(-1, -2)
        self._coordinates.kernel(G[None], W[None], K[q, q])
        scaled = cuts.a @ G[0], cuts.c @ G[1]
        K[g, g] = np.square(scaled[0] @ scaled[0].T) + np.square(scaled[1] @ scaled[1].T)
        left, right = cuts.a @ W[0], cuts.c @ W[1]
        K[q, g] = (self._coordinates.squares(left) - self._coordinates.squares(right)).T
        K[q, z] = -self._coordinates.border(W[None])
        K[g, z] = -(left * left + right * right)
        K[z, z] = W[0] * W[0] + W[1] * W[1]
        diagonal = np.arange(len(K))
        K[diagonal[q], diagonal[q]] += compliance
        K[diagonal[g], diagonal[g]] += ratio

        def shifted(shift: float) -> FloatArray:
            system = K.copy()
            system[diagonal, diagonal] *= 1.0 + shift
            return system

        self._factor = factored_with_shifts(shifted)
        self._answer = solved(self._factor, self._ends)
        self._weight = float(self._ends @ self._answer)
        if not 0.0 < self._weight < np.inf:
            raise LinAlgError("the border of the Newton system underflowed")

    def solve(
        self, R: FloatArray, error: FloatArray, off: FloatArray, missed: FloatArray, excess: float
    ) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Return dq, the steps of the weights of the cuts and of z, and dr.

        R, of shape (2, N, N), holds the right-hand sides for the steps of A and B, and `error` the one for the loss.
        ``off = diag(A + B) - r``, `missed` is the target of the slack of each cut minus the cut's value, and
        ``excess = sum(z) - sum(gamma) - c``.
        """
        rhs = np.empty(len(self._ends))
        rhs[self._q] = self._coordinates.forward((R[1] - R[0])[None]) - error
        rhs[self._g] = missed - self.cuts.values(R)
        rhs[self._z] = (R[0] + R[1]).diagonal() + off
        solution = solved(self._factor, rhs)
        dr = (float(self._ends @ solution) + excess) / self._weight
        solution -= dr * self._answer
        return solution[self._q], solution[self._g], solution[self._z], dr
