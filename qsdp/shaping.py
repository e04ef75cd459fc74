"""Covariance shaping: from the relaxation's Z to a Gaussian whose signs have the right correlations."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.linalg

from qsdp._validation import FloatArray, check_choice, read_only
from qsdp.exceptions import InvalidTypeError
from qsdp.relaxation import Relaxation
from qsdp.relaxation.repair import project_psd

__all__ = ["GAMMA", "SHAPINGS", "SignCovariance", "shape_covariance"]

#: Krivine's constant, ln(1 + sqrt 2) = asinh(1).
GAMMA = math.asinh(1.0)

_SDP_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class SignCovariance:
    r"""Covariance `Q` with :math:`\arcsin(Q_{12}) = c Z_s`, and what it proves about itself.

    Attributes
    ----------
    Q : ndarray of shape (2D, 2D)
        Covariance of ``[u; v]`` before the signs are taken.
    constant : float
        c; Krivine's gamma for both methods of this version.
    rho : float
        Scale of the relaxation, :math:`Z = \rho Z_s`.
    method : str
    residual : float
        Largest entry of :math:`|\arcsin(Q_{12}) - c Z_s|`.
    diagonal_error : float
        Largest deviation of the diagonal from one.
    min_eigenvalue : float
        Smallest eigenvalue of Q; rounding alone makes it as low as about -1e-15 D.
    """

    Q: FloatArray
    constant: float
    rho: float
    method: str
    residual: float
    diagonal_error: float
    min_eigenvalue: float

    @property
    def dimension(self) -> int:
        """Length D of one side of a neuron."""
        return int(self.Q.shape[0]) // 2

    @property
    def total_weight(self) -> float:
        r"""Sum of the second-layer weights, :math:`\rho \pi / c`, whatever the number of neurons."""
        return self.rho * math.pi / self.constant

    def __repr__(self) -> str:
        return (
            f"SignCovariance(dimension={self.dimension}, method={self.method!r}, "
            f"constant={self.constant:.6g}, rho={self.rho:.6g}, "
            f"residual={self.residual:.1e}, min_eigenvalue={self.min_eigenvalue:.1e})"
        )


def shape_covariance(relaxation: Relaxation, method: str = "krivine") -> SignCovariance:
    r"""Return a covariance Q with unit diagonal and :math:`\arcsin(Q_{12}) = \gamma Z / \rho`.

    Then :math:`[u; v] = \mathrm{sign}(\mathcal N(0, Q))` has
    :math:`E[u v^T] = (2/\pi) \arcsin(Q_{12}) = (2 \gamma / \pi) Z / \rho`.

    Parameters
    ----------
    relaxation : Relaxation
    method : {"krivine", "sdp"}, default="krivine"
        ``"krivine"`` is the closed form, elementwise

        .. math::

            Q = \begin{bmatrix} \sinh(\gamma V_s) & \sin(\gamma Z_s) \\
                                \sin(\gamma Z_s)^T & \sinh(\gamma W_s) \end{bmatrix},

        positive semidefinite because sinh and sin have the same Taylor coefficients up to sign, of unit
        diagonal because sinh(gamma) = 1. ``"sdp"`` solves the paper's program (27): the same Q12, other
        diagonal blocks, the cost of a solve.

    Returns
    -------
    SignCovariance
        With its own residual, diagonal error and smallest eigenvalue, recomputed from Q.

    Notes
    -----
    Theorem 2 and (27) of Bartan and Pilanci; the closed form is Krivine's argument (Alon and Naor,
    Lemma 4.2) written out.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((30, 4))
    >>> relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.1))
    >>> qsdp.shape_covariance(relaxation).residual < 1e-12
    True
    """
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
    shape = SHAPINGS[check_choice("method", method, SHAPINGS)]
    V, Z = _scaled_blocks(relaxation)
    Q = shape(V, Z)
    Q = 0.5 * (Q + Q.T)
    d = Z.shape[0]
    return SignCovariance(
        Q=read_only(Q),
        constant=GAMMA,
        rho=relaxation.rho,
        method=method,
        residual=float(np.abs(np.arcsin(np.clip(Q[:d, d:], -1.0, 1.0)) - GAMMA * Z).max()),
        diagonal_error=float(np.abs(Q.diagonal() - 1.0).max()),
        min_eigenvalue=float(scipy.linalg.eigvalsh(Q, subset_by_index=[0, 0])[0]),
    )


def _scaled_blocks(relaxation: Relaxation) -> tuple[FloatArray, FloatArray]:
    d = relaxation.problem.dimension
    if relaxation.rho == 0.0:
        return np.eye(d), np.zeros((d, d))
    V = relaxation.V / relaxation.rho
    np.fill_diagonal(V, 1.0)
    return V, np.clip(relaxation.Z / relaxation.rho, -1.0, 1.0)


def _krivine(V: FloatArray, Z: FloatArray) -> FloatArray:
    # V and Z of a Relaxation are symmetric, and its W is V.
    diagonal, off_diagonal = np.sinh(GAMMA * V), np.sin(GAMMA * Z)
    np.fill_diagonal(diagonal, 1.0)
    return np.block([[diagonal, off_diagonal], [off_diagonal.T, diagonal]])


def _sdp(V: FloatArray, Z: FloatArray) -> FloatArray:
    d = Z.shape[0]
    target = np.sin(GAMMA * Z)
    Q = cp.Variable((2 * d, 2 * d), PSD=True, name="Q")
    distance = cp.sum_squares(Q[:d, d:] - target)
    problem = cp.Problem(cp.Minimize(distance), [cp.diag(Q) == 1])
    problem.solve(solver=cp.SCS, eps_abs=_SDP_TOLERANCE, eps_rel=_SDP_TOLERANCE, max_iters=20_000)
    repaired = project_psd(0.5 * (Q.value + Q.value.T))
    scale = np.sqrt(repaired.diagonal())
    repaired /= np.outer(scale, scale)
    np.fill_diagonal(repaired, 1.0)
    return repaired


SHAPINGS = {"krivine": _krivine, "sdp": _sdp}
