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
from scipy.linalg.blas import dtrsv
from scipy.linalg.lapack import dpotrf, dpotri

from qsdp._utils.validation import FloatArray
from qsdp.relaxation.solvers.interior.cone import LinAlgError
from qsdp.relaxation.solvers.interior.coordinates import Coordinates

__all__ = ["SHIFTS", "BorderedSystem", "factored", "solved"]

#: Shares of the diagonal added to it, one after the other: near the optimum rounding destroys definiteness.
SHIFTS = (0.0, 1e-14, 1e-12, 1e-10)


class BorderedSystem:
    """The system with the kernel of a coordinate system, factored once for each scaling."""

    def __init__(self, coordinates: Coordinates) -> None:
        self._coordinates = coordinates
        n, size = coordinates.length, coordinates.size
        self._n, self._size = n, size
        self._matrix = np.empty((n + size, n + size))
        self._diagonal = np.arange(n)
        self._ends = np.zeros(n + size)
        self._ends[n:] = 1.0

    def factor(self, G: FloatArray, compliance: FloatArray | float) -> None:
        """Factor the system for scaling factors G of shape (2, N, N), if it is positive definite in floating point."""
        W = G @ G.swapaxes(-1, -2)
        for shift in SHIFTS:
            self._assemble(G, W, compliance, shift)
            try:
                self._factor = factored(self._matrix)
            except LinAlgError:
                if shift == SHIFTS[-1]:
                    raise
            else:
                break
        self._answer = solved(self._factor, self._ends)
        self._weight = float(self._answer[self._n :].sum())

    def _assemble(self, G: FloatArray, W: FloatArray, compliance: FloatArray | float, shift: float) -> None:
        n, matrix = self._n, self._matrix
        self._coordinates.kernel(G, W, matrix[:n, :n])
        matrix[self._diagonal, self._diagonal] += compliance
        np.negative(self._coordinates.border(W).T, out=matrix[n:, :n])
        np.add(W[0] * W[0], W[1] * W[1], out=matrix[n:, n:])
        if shift > 0.0:
            diagonal = np.arange(len(matrix))
            matrix[diagonal, diagonal] *= 1.0 + shift

    def rhs(self, R: FloatArray, error: FloatArray, off: FloatArray) -> FloatArray:
        """Return the right-hand side for R of shape (2, N, N), e, and ``off = diag(A + B) - r``."""
        n = self._n
        rhs = np.empty(n + self._size)
        rhs[:n] = self._coordinates.forward(R[1] - R[0])
        rhs[:n] -= error
        rhs[n:] = (R[0] + R[1]).diagonal()
        rhs[n:] += off
        return rhs

    def solve(self, rhs: FloatArray, excess: float) -> tuple[FloatArray, FloatArray, float]:
        """Return dq, dz and dr for ``excess = sum(z) - c``."""
        n = self._n
        solution = solved(self._factor, rhs)
        dr = (float(solution[n:].sum()) + excess) / self._weight
        solution -= dr * self._answer
        return solution[:n], solution[n:], dr

    def response(self) -> FloatArray:
        """Return the lower triangle of the matrix that takes a change of the first n right-hand sides to that of dq."""
        response: FloatArray = dpotri(self._factor, lower=0)[0].T[: self._n, : self._n]
        answer = self._answer[: self._n]
        response -= np.outer(answer / self._weight, answer)
        return response


def factored(matrix: FloatArray) -> FloatArray:
    """Return the Cholesky factor of a matrix given by its lower triangle, for LAPACK the upper one; it is overwritten.

    Raises
    ------
    LinAlgError
        The matrix is not positive definite in floating point.
    """
    factor, info = dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
    if info != 0:
        raise LinAlgError("the Newton system is not positive definite")
    return np.asarray(factor)


def solved(factor: FloatArray, rhs: FloatArray) -> FloatArray:
    """Return the solution for one right-hand side; LAPACK's own routine, made for several, takes twice the time."""
    solution: FloatArray = dtrsv(factor, dtrsv(factor, rhs, lower=0, trans=1), lower=0, overwrite_x=1)
    return solution
