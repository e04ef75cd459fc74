r"""The Newton system of one output in the multiplier q, the weights z and r.

With W the scalings of A and B, right-hand sides R of the steps, and a relation :math:`dv + C\,dq = -e`,

.. math::

    dA = R_A - W_A (\mathrm{Diag}(dz) - F^T dq) W_A, \quad dB = R_B - W_B (\mathrm{Diag}(dz) + F^T dq) W_B

leave, after elimination of dA, dB and dv = F(dA - dB), the positive definite system

.. math::

    \begin{bmatrix} F (W_A \otimes W_A + W_B \otimes W_B) F^T + C & -E \\
    -E^T & W_A \circ W_A + W_B \circ W_B \end{bmatrix}
    \begin{bmatrix} dq \\ dz \end{bmatrix} =
    \begin{bmatrix} -F (R_A - R_B) - e \\ \mathrm{diag}(A + B + R_A + R_B) - (r + dr) 1 \end{bmatrix}

with :math:`1^T dz = c - 1^T z`, which determines dr.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from qsdp._validation import FloatArray
from qsdp.relaxation.interior.cone import LinAlgError
from qsdp.relaxation.interior.coordinates import Coordinates
from qsdp.relaxation.interior.fits import Fit

__all__ = ["BorderedSystem"]


class BorderedSystem:
    """The system with the kernel of a coordinate system, factored once for each scaling.

    Parameters
    ----------
    coordinates : Coordinates
    """

    def __init__(self, coordinates: Coordinates) -> None:
        self._coordinates = coordinates
        n, size = coordinates.length, coordinates.size
        self._n, self._size = n, size
        self._matrix = np.empty((n + size, n + size))
        self._ends = np.zeros(n + size)
        self._ends[n:] = 1.0

    def factor(self, G: FloatArray, fit: Fit) -> None:
        """Factor the system for scaling factors G of shape (2, N, N).

        Raises
        ------
        LinAlgError
            The matrix is not positive definite in floating point.
        """
        n, matrix = self._n, self._matrix
        W = G @ G.swapaxes(-1, -2)
        kernel = matrix[:n, :n]
        self._coordinates.kernel(W, kernel)
        fit.add_compliance(kernel)
        np.negative(self._coordinates.border(W).T, out=matrix[n:, :n])
        np.add(W[0] * W[0], W[1] * W[1], out=matrix[n:, n:])
        # The lower triangle in C order is the upper one in LAPACK's.
        self._factor, info = dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
        if info != 0:
            raise LinAlgError("the Newton system is not positive definite")
        self._answer = self._solve(self._ends)
        self._weight = float(self._answer[n:].sum())

    def _solve(self, rhs: FloatArray) -> FloatArray:
        solution: FloatArray = dpotrs(self._factor, rhs, lower=0)[0]
        return solution

    def solve(
        self, R: FloatArray, error: FloatArray, diagonal: FloatArray, excess: float
    ) -> tuple[FloatArray, FloatArray, float]:
        """Return dq, dz and dr.

        Parameters
        ----------
        R : ndarray of shape (2, N, N)
        error : ndarray of shape (length,)
        diagonal : ndarray of shape (N,)
            ``diag(A + B) - r``.
        excess : float
            ``sum(z) - c``.
        """
        n = self._n
        rhs = np.empty(n + self._size)
        rhs[:n] = self._coordinates.forward(R[1] - R[0]) - error
        rhs[n:] = (R[0] + R[1]).diagonal() + diagonal
        solution = self._solve(rhs)
        dr = (float(solution[n:].sum()) + excess) / self._weight
        solution -= dr * self._answer
        return solution[:n], solution[n:], dr
