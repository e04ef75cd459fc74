r"""Newton systems of one output, or of several coupled outputs, in the multiplier q, the weights z and r.

Let W be the scalings of A and B, and R the right-hand sides of the steps. With a relation :math:`dv + C\,dq = -e`,

.. math::

    dA = R_A - W_A (\mathrm{Diag}(dz) - F^T dq) W_A, \quad dB = R_B - W_B (\mathrm{Diag}(dz) + F^T dq) W_B

become, after elimination of dA, dB and dv = F(dA - dB), the positive definite system

.. math::

    \begin{bmatrix} F (W_A \otimes W_A + W_B \otimes W_B) F^T + C & -E \\
    -E^T & W_A \circ W_A + W_B \circ W_B \end{bmatrix}
    \begin{bmatrix} dq \\ dz \end{bmatrix} =
    \begin{bmatrix} -F (R_A - R_B) - e \\ \mathrm{diag}(A + B + R_A + R_B) - (r + dr) 1 \end{bmatrix}

with :math:`1^T dz = c - 1^T z`, which determines dr. Real weights add :math:`L D L^T` to the upper left block for the
columns L of their coordinates and their stiffness D, see `WeightedFit`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dtrsv
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from qsdp._utils.numeric import EPS, largest_magnitude
from qsdp._utils.symmetric import diagonal_of
from qsdp._utils.tuning import FAR, NEGLIGIBLE
from qsdp._utils.validation import FloatArray
from qsdp.block_layout import single_block
from qsdp.gram import symmetric_basis, to_matrices, to_vectors
from qsdp.relaxation.solvers.interior.cone import LinAlgError
from qsdp.relaxation.solvers.interior.coordinates import Coordinates, SampleCoordinates

__all__ = [
    "SHIFTS",
    "BorderedSystem",
    "CoupledNewton",
    "Newton",
    "PrimalNewton",
    "Sides",
    "SingleNewton",
    "Steps",
    "factored",
    "factored_with_shifts",
    "solved",
]

#: Relative diagonal shifts, tried in turn, since rounding destroys definiteness near the optimum.
SHIFTS = (0.0, FAR * EPS, FAR**2 * EPS, FAR**3 * EPS)

#: Signs of the matrix of a multiplier in the dual matrices of A and B.
_SIGNS = np.array([-1.0, 1.0])[:, None, None]

#: Steps dq of the multipliers, dz of the weights and dr.
Steps = tuple[FloatArray, FloatArray, FloatArray]


class Sides(NamedTuple):
    """Right-hand sides of the Newton system.

    Attributes
    ----------
    R : ndarray of shape (K, 2, N, N)
        Of the steps of A and B.
    error : ndarray of shape (C, n)
        e, of the relation of multipliers and predictions.
    off : ndarray of shape (K, N)
        ``diag(A + B) - r``.
    excess : ndarray of shape (K,)
        ``sum(z) - c``.
    values : ndarray of shape (C, n) or None
        Values of F at ``R_B - R_A``, if they are known.
    """

    R: FloatArray
    error: FloatArray
    off: FloatArray
    excess: FloatArray
    values: FloatArray | None = None


class Newton(ABC):
    """Newton system in the multipliers of shape (C, n), the weights of shape (K, N) and r of shape (K,).

    There are R matrices for each of C outputs, K = C R; unless they are coupled, there is one output.

    Parameters
    ----------
    coordinates : Coordinates
    work : float
        Approximate number of floating-point operations of a factorisation.
    """

    def __init__(self, coordinates: Coordinates, work: float) -> None:
        self.coordinates, self.work = coordinates, work

    def forward(self, T: FloatArray) -> FloatArray:
        """Compute the predictions of shape (C, n) of matrices of shape (K, N, N)."""
        return self.coordinates.forward(T)[None]

    def adjoint(self, nu: FloatArray) -> FloatArray:
        """Apply the adjoint: the matrices of shape (K, N, N) of a multiplier of shape (C, n)."""
        return self.coordinates.adjoint(nu[0])

    def values(self, Y: FloatArray, r: FloatArray) -> FloatArray:
        """Compute the predictions of shape (C, n) of A and B, stacked in shape (K, 2, N, N), with r of shape (K,)."""
        return self.forward(Y[:, 0] - Y[:, 1])

    def dual_matrices(self, nu: FloatArray, z: FloatArray) -> FloatArray:
        """Compute the dual matrices ``Diag(z) - M`` of A and ``Diag(z) + M`` of B, in the shape of Y; linear."""
        matrices: FloatArray = _SIGNS * self.adjoint(nu)[:, None]
        diagonal = diagonal_of(matrices)
        diagonal += z[:, None]
        return matrices

    def totals(self, nu: FloatArray, z: FloatArray) -> FloatArray:
        """Compute the sums of shape (K,) that the dual radius bounds."""
        totals: FloatArray = z.sum(axis=1)
        return totals

    @abstractmethod
    def factor(self, G: FloatArray, compliance: FloatArray, stiffness: FloatArray) -> None:
        """Factor the system for scaling factors of shape (K, 2, N, N) and a compliance of shape (C, n).

        The stiffness of real weights has the shape (C, p).
        """

    @abstractmethod
    def solve(self, sides: Sides) -> Steps:
        """Return the steps of the multipliers, of the weights and of r."""


class BorderedSystem:
    """Newton system of one output in a coordinate system, factored once for each scaling."""

    def __init__(self, coordinates: Coordinates) -> None:
        self._coordinates = coordinates
        n, R, size = coordinates.length, coordinates.n_blocks, coordinates.size
        self._n, self._shape = n, (R, size)
        side = n + R * size
        self._matrix = np.zeros((side, side))
        # This is a strided view: indexing by arrays takes several times longer.
        self._diagonal = self._matrix.reshape(-1)[: n * side : side + 1]
        #: Indicator of the weights of each matrix, of shape (R, side).
        self._ends = np.zeros((R, side))
        self._ends[:, n:] = np.repeat(np.eye(R), size, axis=1)

    def factor(self, G: FloatArray, compliance: FloatArray, stiffness: FloatArray) -> None:
        """Factor the system for scaling factors G of shape (R, 2, N, N), if it is numerically positive definite."""
        self._factor = factored_with_shifts(partial(self._assembled, G, G @ G.swapaxes(-1, -2), compliance, stiffness))
        self._answers = np.array([solved(self._factor, end) for end in self._ends])
        weights = self._answers @ self._ends.T
        if not all(0.0 < weight < math.inf for weight in weights.diagonal().tolist()):
            raise LinAlgError("the border of the Newton system underflowed")
        self._inverse: FloatArray = np.linalg.inv(weights) if len(weights) > 1 else 1.0 / weights  # type: ignore[assignment]

    def _assembled(
        self, G: FloatArray, W: FloatArray, compliance: FloatArray, stiffness: FloatArray, shift: float
    ) -> FloatArray:
        n, matrix = self._n, self._matrix
        self._coordinates.kernel(G, W, matrix[:n, :n])
        if stiffness.size:
            # NumPy multiplies a matrix by its own transpose in half of the operations.
            scaled = self._coordinates.columns * np.sqrt(stiffness)
            matrix[:n, :n] += scaled @ scaled.T
        self._diagonal += compliance
        np.negative(self._coordinates.border(W), out=matrix[:n, n:])
        R, size = self._shape
        for r, start in enumerate(range(n, n + R * size, size)):
            part = slice(start, start + size)
            np.add(W[r, 0] * W[r, 0], W[r, 1] * W[r, 1], out=matrix[part, part])
            # A previous factorisation left its entries there.
            matrix[part, part.stop :] = 0.0
        if shift > 0.0:
            diagonal = np.arange(len(matrix))
            matrix[diagonal, diagonal] *= 1.0 + shift
        return matrix

    def rhs(self, R: FloatArray, error: FloatArray, off: FloatArray, values: FloatArray | None = None) -> FloatArray:
        """Return the right-hand side for R of shape (R, 2, N, N), e, ``diag(A + B) - r`` and F at ``R_B - R_A``."""
        n = self._n
        rhs = np.empty(len(self._matrix))
        np.subtract(self._coordinates.forward(R[:, 1] - R[:, 0]) if values is None else values, error, out=rhs[:n])
        rhs[n:] = (R[:, 0] + R[:, 1]).diagonal(0, 1, 2).ravel()
        rhs[n:] += off.ravel()
        return rhs

    def solve(self, rhs: FloatArray, excess: FloatArray) -> Steps:
        """Return dq, dz of shape (R, N) and dr of shape (R,) for ``excess = sum(z) - c``."""
        n = self._n
        solution = solved(self._factor, rhs)
        dr: FloatArray = self._inverse @ (self._ends @ solution + excess)
        solution -= dr @ self._answers
        return solution[:n], solution[n:].reshape(self._shape), dr

    def response(self) -> FloatArray:
        """Compute the matrix that maps changes in the first n right-hand sides to changes in dq (upper triangle)."""
        response: FloatArray = dpotri(self._factor, lower=1)[0].T[: self._n, : self._n]
        answers = self._answers[:, : self._n]
        response -= answers.T @ (self._inverse @ answers)
        return response


class SingleNewton(Newton):
    """Newton system of one output, in any coordinates."""

    def __init__(self, coordinates: Coordinates) -> None:
        super().__init__(coordinates, coordinates.work)
        self._system = BorderedSystem(coordinates)

    def factor(self, G: FloatArray, compliance: FloatArray, stiffness: FloatArray) -> None:
        """Factor the Newton system at a scaling G, a compliance and a stiffness."""
        self._system.factor(G, compliance[0], stiffness[0])

    def solve(self, sides: Sides) -> Steps:
        """Solve the factored system for the steps of the multiplier, of z and of r."""
        known = None if sides.values is None else sides.values[0]
        rhs = self._system.rhs(sides.R, sides.error[0], sides.off, known)
        dq, dz, dr = self._system.solve(rhs, sides.excess)
        return dq[None], dz, dr


class CoupledNewton(Newton):
    r"""Outputs coupled by :math:`\sum_k d\nu_k = 0` with a multiplier :math:`\eta` of n entries in all relations.

    Every output has a system of its own; the sum of their responses determines :math:`d\eta`. Without it, splitting
    would solve such problems: 600 x 20 in 0.68 s for 0.41 s.
    """

    def __init__(self, coordinates: Coordinates, n_outputs: int) -> None:
        super().__init__(coordinates, coordinates.work + (n_outputs + 1) * float(coordinates.length) ** 3)
        self._systems = [BorderedSystem(coordinates) for _ in range(n_outputs)]

    def forward(self, T: FloatArray) -> FloatArray:
        """Compute the predictions of all outputs."""
        return np.stack([self.coordinates.forward(part) for part in self._by_output(T)])

    def adjoint(self, nu: FloatArray) -> FloatArray:
        """Apply the adjoint to the multipliers of all outputs."""
        return np.concatenate([self.coordinates.adjoint(row) for row in nu])

    def factor(self, G: FloatArray, compliance: FloatArray, stiffness: FloatArray) -> None:
        """Factor all systems and the sum of their responses."""
        n = self.coordinates.length
        total = np.zeros((n, n))
        outputs = zip(self._systems, self._by_output(G), compliance, stiffness, strict=True)
        for system, scaling, diagonal, of_weights in outputs:
            system.factor(scaling, diagonal, of_weights)
            total += system.response()
        self._total = factored_with_shifts(partial(_shifted, total))

    def solve(self, sides: Sides) -> Steps:
        """Solve for the steps of all outputs whose sum over the outputs is zero."""
        n, systems = self.coordinates.length, self._systems
        known = [None] * len(systems) if sides.values is None else sides.values
        R, off, excess = (self._by_output(array) for array in (sides.R, sides.off, sides.excess))
        rhs = [system.rhs(*arrays) for system, *arrays in zip(systems, R, sides.error, off, known, strict=True)]
        alone = [system.solve(side, e)[0] for system, side, e in zip(systems, rhs, excess, strict=True)]
        shift = solved(self._total, -np.sum(alone, axis=0))
        for side in rhs:
            side[:n] += shift
        steps = [system.solve(side, e) for system, side, e in zip(systems, rhs, excess, strict=True)]
        dq, dz, dr = zip(*steps, strict=True)
        return np.stack(dq), np.concatenate(dz), np.concatenate(dr)

    def _by_output(self, array: FloatArray) -> FloatArray:
        """Return an array of shape (K, ...) in the shape (C, R, ...)."""
        return array.reshape(-1, self.coordinates.n_blocks, *array.shape[1:])


def _shifted(matrix: FloatArray, shift: float) -> FloatArray:
    """Return a copy with a raised diagonal; negative diagonal entries, caused by cancellation, become positive."""
    shifted, diagonal = matrix.copy(), np.arange(len(matrix))
    shifted[diagonal, diagonal] = np.abs(matrix[diagonal, diagonal]) * (1.0 + shift) + shift * EPS
    return shifted


def factored_with_shifts(assembled: Callable[[float], FloatArray]) -> FloatArray:
    """Compute the Cholesky factor of a system with the smallest relative diagonal shift that suffices.

    `assembled` returns the system for a relative shift; `factored` overwrites it.
    """
    for shift in SHIFTS[:-1]:
        with suppress(LinAlgError):
            return factored(assembled(shift))
    return factored(assembled(SHIFTS[-1]))


def factored(matrix: FloatArray) -> FloatArray:
    """Compute the Cholesky factor of a matrix stored as its upper triangle (LAPACK's lower one), in place.

    LAPACK takes a quarter longer for the other triangle, at sides of 40 to 400.

    Raises
    ------
    LinAlgError
        The matrix is not positive definite in floating point.
    """
    factor, info = dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        raise LinAlgError("the Newton system is not positive definite")
    return np.asarray(factor)


def solved(factor: FloatArray, rhs: FloatArray) -> FloatArray:
    """Solve for one right-hand side by two triangular solves, in half the time of LAPACK's routine for several."""
    solution: FloatArray = dtrsv(factor, dtrsv(factor, rhs, lower=1), lower=1, trans=1, overwrite_x=1)
    return solution


class PrimalNewton(Newton):
    r"""Newton system in the step of the matrix, for one output with more samples than matrix entries.

    Without it, logistic losses take 3.3 to 4.5 times as long there, hinge and pinball losses 20 times.

    Notes
    -----
    Let Q be a basis that makes both scalings diagonal, :math:`W_A = Q Q^T` and :math:`W_B = Q \Lambda Q^T`. With
    :math:`x_{ij} = \lambda_i \lambda_j` and :math:`dT = Q \tau Q^T`, the steps of A and B give

    .. math:: \tau = \tau_R - (1 - x) \circ Q^T \mathrm{Diag}(dz) Q + (1 + x) \circ Q^T dM Q

    with :math:`\tau_R = Q^{-1} (R_A - R_B) Q^{-T}`, and the relation gives :math:`dM = -F^T C^{-1} (e + F dT)`. Hence
    :math:`S \tau = \tau_R / (1 + x) - Q^T F^T C^{-1} e\,Q - B^T dz`. S is :math:`\mathrm{Diag}(1 / (1 + x))` plus the
    Gram matrix of the rows :math:`Q^T \mathcal{X}_i Q` weighted with :math:`C^{-1}`, and row k of B is
    :math:`(1 - x)/(1 + x) \circ q_k q_k^T`, where :math:`q_k` is row k of Q. The diagonals then give

    .. math:: (V + B S^{-1} B^T)\, dz = B (\tau|_{dz = 0} - \tau_R) + \mathrm{diag}(A + B + R_A + R_B) - (r + dr) 1

    with :math:`V_{kl} = \langle q_k q_k^T, 4 x/(1 + x) \circ q_l q_l^T \rangle`. Singular Gram matrices and weights of
    any range are allowed, as the first term of S makes it positive definite.
    """

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
