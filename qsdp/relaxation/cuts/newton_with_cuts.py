r"""The Newton system of the relaxation with cuts, for one output.

In the notation of `qsdp.relaxation.solvers.interior.newton_system`, with weights :math:`\gamma \ge 0` of the cuts
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
from qsdp.relaxation.solvers.interior.newton_system import Newton, Sides, Steps, factored_with_shifts, solved

__all__ = ["CutNewton"]


class CutNewton(Newton):
    """Newton system for a fixed set of cuts, factored once for each scaling."""

    def __init__(self, coordinates: Coordinates, cuts: OddCuts) -> None:
        n, m, N = coordinates.length, len(cuts), coordinates.size
        super().__init__(coordinates, (n + m) ** 3 / 3.0)
        self.cuts = cuts
        self._q, self._g, self._z = slice(0, n), slice(n, n + m), slice(n + m, n + m + N)
        self._matrix = np.zeros((n + m + N,) * 2)
        self._ends = np.concatenate([np.zeros(n), np.full(m, -1.0), np.ones(N)])

    def values(self, Y: FloatArray, r: FloatArray) -> FloatArray:
        """Compute the predictions, followed by the values of the cuts less r."""
        return np.hstack([super().values(Y, r), (self.cuts.values(Y[0]) - r)[None]])

    def dual_matrices(self, nu: FloatArray, z: FloatArray) -> FloatArray:
        """Compute the dual matrices for a multiplier whose last entries are the weights of the cuts."""
        return super().dual_matrices(nu[:, self._q], z) - self.cuts.matrices(nu[0, self._g])

    def totals(self, nu: FloatArray, z: FloatArray) -> FloatArray:
        """Compute the sum of z less the weights of the cuts."""
        return super().totals(nu, z) - float(nu[0, self._g].sum())

    def factor(self, G: FloatArray, compliance: FloatArray, stiffness: FloatArray) -> None:
        """Factor for scaling factors G of shape (1, 2, N, N), and compliances of the loss and of the cuts."""
        K, q, g, z, cuts, G = self._matrix, self._q, self._g, self._z, self.cuts, G[0]
        W = G @ G.swapaxes(-1, -2)
        self.coordinates.kernel(G[None], W[None], K[q, q])
        scaled = cuts.a @ G[0], cuts.c @ G[1]
        K[g, g] = np.square(scaled[0] @ scaled[0].T) + np.square(scaled[1] @ scaled[1].T)
        left, right = cuts.a @ W[0], cuts.c @ W[1]
        K[q, g] = (self.coordinates.squares(left) - self.coordinates.squares(right)).T
        K[q, z] = -self.coordinates.border(W[None])
        K[g, z] = -(left * left + right * right)
        K[z, z] = W[0] * W[0] + W[1] * W[1]
        diagonal = np.arange(len(K))
        K[diagonal[: z.start], diagonal[: z.start]] += compliance[0]

        def shifted(shift: float) -> FloatArray:
            system = K.copy()
            system[diagonal, diagonal] *= 1.0 + shift
            return system

        self._factor = factored_with_shifts(shifted)
        self._answer = solved(self._factor, self._ends)
        self._weight = float(self._ends @ self._answer)
        if not 0.0 < self._weight < np.inf:
            raise LinAlgError("the border of the Newton system underflowed")

    def solve(self, sides: Sides) -> Steps:
        """Return the steps; those of the weights of the cuts are the last of the multiplier's."""
        R, rhs = sides.R[0], np.empty(len(self._ends))
        rhs[self._q] = self.coordinates.forward((R[1] - R[0])[None])
        rhs[self._g] = -self.cuts.values(R)
        rhs[: self._z.start] -= sides.error[0]
        rhs[self._z] = (R[0] + R[1]).diagonal() + sides.off[0]
        solution = solved(self._factor, rhs)
        dr = (self._ends @ solution + sides.excess) / self._weight
        solution -= dr * self._answer
        return solution[None, : self._z.start], solution[None, self._z], dr
