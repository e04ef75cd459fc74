"""Newton systems of one output, or of coupled ones: several `BorderedSystem` and their coupling."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.relaxation.solvers.interior.cone import LinAlgError
from qsdp.relaxation.solvers.interior.coordinates import Coordinates
from qsdp.relaxation.solvers.interior.system import SHIFTS, BorderedSystem, factored, solved

__all__ = ["CoupledNewton", "Newton", "SingleNewton"]

#: Floor of the entries in a regularised diagonal: smaller probabilities count as zero.
_SMALLEST = 1e-14


class Newton(ABC):
    """The system in the multipliers of shape (C, n), the weights of shape (C, N) and r of shape (C,).

    Parameters
    ----------
    coordinates : Coordinates
    work : float
        Floating point operations of a factorisation, about.
    """

    def __init__(self, coordinates: Coordinates, work: float) -> None:
        self._coordinates, self.work = coordinates, work

    def forward(self, T: FloatArray) -> FloatArray:
        """Return the predictions of shape (C, n) of matrices of shape (C, N, N)."""
        return np.stack([self._coordinates.forward(block) for block in T])

    def adjoint(self, nu: FloatArray) -> FloatArray:
        """Return the matrices of shape (C, N, N) of a multiplier of shape (C, n)."""
        return np.stack([self._coordinates.adjoint(row) for row in nu])

    @abstractmethod
    def factor(self, G: FloatArray, compliance: FloatArray) -> None:
        """Factor for scaling factors of shape (C, 2, N, N) and a compliance of shape (C, n)."""

    @abstractmethod
    def solve(
        self, R: FloatArray, error: FloatArray, off: FloatArray, excess: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the steps of the multipliers, of the weights and of r."""


class SingleNewton(Newton):
    """The system of one output, for any coordinates."""

    def __init__(self, coordinates: Coordinates) -> None:
        super().__init__(coordinates, coordinates.work)
        self._system = BorderedSystem(coordinates)

    def factor(self, G: FloatArray, compliance: FloatArray) -> None:
        """Factor the system."""
        self._system.factor(G[0], compliance[0])

    def solve(
        self, R: FloatArray, error: FloatArray, off: FloatArray, excess: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the steps."""
        dq, dz, dr = self._system.solve(self._system.rhs(R[0], error[0], off[0]), float(excess[0]))
        return dq[None], dz[None], np.array([dr])


class CoupledNewton(Newton):
    r"""Outputs coupled by :math:`\sum_k d\nu_k = 0` with a multiplier :math:`\eta` of n entries in all relations.

    Every output has its own system; the sum of their responses determines :math:`d\eta`.
    """

    def __init__(self, coordinates: Coordinates, n_outputs: int) -> None:
        super().__init__(coordinates, coordinates.work + (n_outputs + 1) * float(coordinates.length) ** 3)
        self._systems = [BorderedSystem(coordinates) for _ in range(n_outputs)]

    def factor(self, G: FloatArray, compliance: FloatArray) -> None:
        """Factor all systems and the sum of their responses."""
        n = self._coordinates.length
        total = np.zeros((n, n))
        for system, scaling, diagonal in zip(self._systems, G, compliance, strict=True):
            system.factor(scaling, diagonal)
            total += system.response()
        self._total = _factored_with_shift(total)

    def solve(
        self, R: FloatArray, error: FloatArray, off: FloatArray, excess: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the steps."""
        n = self._coordinates.length
        sides = [system.rhs(*given) for system, *given in zip(self._systems, R, error, off, strict=True)]
        alone = [system.solve(side, float(e))[0] for system, side, e in zip(self._systems, sides, excess, strict=True)]
        shift = solved(self._total, -np.sum(alone, axis=0))
        for side in sides:
            side[:n] += shift
        steps = [system.solve(side, float(e)) for system, side, e in zip(self._systems, sides, excess, strict=True)]
        return np.stack([s[0] for s in steps]), np.stack([s[1] for s in steps]), np.array([s[2] for s in steps])


def _factored_with_shift(matrix: FloatArray) -> FloatArray:
    """Return the Cholesky factor, the diagonal raised a little where the differences that made it cost definiteness."""
    diagonal = np.arange(len(matrix))
    for shift in SHIFTS:
        shifted = matrix.copy()
        # Negative entries are noise as well.
        shifted[diagonal, diagonal] = np.abs(matrix[diagonal, diagonal]) * (1.0 + shift) + shift * _SMALLEST
        try:
            return factored(shifted)
        except LinAlgError:
            continue
    raise LinAlgError("the system that couples the outputs is not positive definite")
