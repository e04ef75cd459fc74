"""Covariance shaping: convert the solution of a relaxation to distributions of neurons."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.outputs import squeezed
from qsdp._utils.progress import progress
from qsdp._utils.tuning import QUICK_SIDE, ROUGH, SMALL
from qsdp._utils.validation import FloatArray, check_choice, check_verbose, read_only
from qsdp.activations import PolynomialActivation
from qsdp.block_layout import Layout
from qsdp.exceptions import InvalidTypeError
from qsdp.relaxation import Relaxation
from qsdp.shaping.completion import largest_constant
from qsdp.shaping.covariance import (
    BlockCovariances,
    LinearNeurons,
    SignCovariance,
    measured_covariance,
    replicas_of,
    scaled_block,
)

__all__ = ["GAMMA", "SHAPINGS", "shape_covariance", "shape_matrix"]

#: Krivine's constant, ln(1 + sqrt 2) = asinh(1).
GAMMA = math.asinh(1.0)

SHAPINGS = ("adaptive", "krivine")

#: Largest side for which the constant is searched: the eigendecompositions take seconds, for twice the side a minute.
LARGEST_SIDE = 2 * QUICK_SIDE


def shape_covariance(
    relaxation: Relaxation,
    method: str = "adaptive",
    *,
    time_limit: float | None = None,
    verbose: bool | int = False,
) -> Any:
    r"""Compute a covariance Q with unit diagonal and :math:`\arcsin(Q_{12}) = c Z / \rho`.

    Then :math:`[u; v] = \mathrm{sign}(\mathcal N(0, Q))` has
    :math:`E[u v^T] = (2/\pi) \arcsin(Q_{12}) = (2 c / \pi) Z / \rho`.

    Parameters
    ----------
    relaxation : Relaxation
        See `qsdp.paper.shape` for matrices of other programs.
    method : {"adaptive", "krivine"}, default="adaptive"
        ``"adaptive"`` searches for the largest c for which such a Q exists, with a few eigendecompositions. This c is
        never smaller than gamma = 0.88, usually 1.0 to 1.2, and :math:`\pi / 2` if Z is one outer product of signs. The
        sum of the second-layer weights is inversely proportional to c, and the variance of the sampled network to about
        its square. ``"krivine"`` is the closed form with :math:`c = \gamma = \sinh^{-1}(1)`, elementwise

        .. math::

            Q = \begin{bmatrix} \sinh(\gamma V_s) & \sin(\gamma Z_s) \\
                                \sin(\gamma Z_s)^T & \sinh(\gamma W_s) \end{bmatrix},

        which is positive semidefinite because sinh and sin have the same Taylor coefficients up to sign, and has unit
        diagonal because sinh(gamma) = 1.
    time_limit : float, optional
        Limit in seconds, > 0, checked between iterations; the current step is finished. After it, "adaptive"
        returns its best iterate.
    verbose : bool or int, default=False
        Show a progress bar of the outputs on the standard error or in the notebook.

    Returns
    -------
    SignCovariance, or a list of one for each output of a vector problem
        Its residual, diagonal error and smallest eigenvalue are recomputed from Q. `BlockCovariances` for blocks, with
        one for every output and quadratic block; linear blocks need none. If c cannot be searched for, because Z is
        zero, has more than a thousand rows or time is over, the covariance is the closed form, and its `method` names
        the reason.

    Notes
    -----
    See theorem 2 and (27) of Bartan and Pilanci. The closed form is Krivine's argument (Alon and Naor, Lemma 4.2)
    written out. The constant of "adaptive" is within a thousandth of the largest one, or within a hundredth for more
    than two levels: the smaller the diagonal entry of a coordinate in the upper left block before it is raised to one,
    the more its replicas disagree, and the more levels are used. The closed form uses the smallest and the largest
    level, unless the diagonal of V is smaller than rho.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((30, 4))
    >>> relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.1))
    >>> covariance = qsdp.shape_covariance(relaxation)
    >>> covariance.residual < 1e-12, covariance.constant > 0.89
    (True, True)
    """
    check_choice("method", method, SHAPINGS)
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
    problem, layout = relaxation.problem, relaxation.problem.blocks
    parts: list[Any] = []
    with deadline.after(time_limit), progress(check_verbose(verbose)) as stages, stages.stage("shape") as bar:
        for k, (Z, V, rho) in enumerate(zip(relaxation.Z_stack, relaxation.V_stack, relaxation.rho_stack, strict=True)):
            bar.count(k, len(relaxation.rho_stack))
            if layout is not None:
                parts.append(_shape_block(Z, V, float(rho), layout, k % layout.n_blocks, method))
                continue
            parts.append(
                shape_matrix(Z, V, float(rho), levels=problem.levels, activation=problem.activation, method=method)
            )
    if layout is not None:
        return BlockCovariances(parts, layout, problem.output_shape, relaxation.weights)
    return squeezed(parts, problem.output_shape)


def _shape_block(
    Z: FloatArray, V: FloatArray, rho: float, layout: Layout, r: int, method: str
) -> SignCovariance | LinearNeurons:
    """Shape the distribution of the neurons of block r, whose Z, V and rho are in units of the block's penalty."""
    N, price = layout.sizes[r], layout.prices[r]
    if layout.linear[r]:
        return LinearNeurons(read_only(2.0 / price * Z.diagonal()[:N]))
    return shape_matrix(Z[:N, :N] / price, V[:N, :N] / price, rho / price, method=method)


def shape_matrix(
    Z: FloatArray,
    V: FloatArray,
    rho: float,
    *,
    levels: int = 2,
    activation: PolynomialActivation | None = None,
    method: str = "adaptive",
) -> SignCovariance:
    """Compute the covariance from Z, V and rho of a feasible point, like `shape_covariance`."""
    N, replicas = len(Z), replicas_of(levels, activation, len(Z))
    kind: dict[str, Any] = {"levels": levels, "activation": activation}
    completion: tuple[float, FloatArray] | str = "Z is zero" if rho == 0.0 else ""
    if rho > 0.0 and N > LARGEST_SIDE:
        completion = f"the side of Z exceeds {LARGEST_SIDE}"
    elif rho > 0.0 and method == "adaptive":
        completion = largest_constant(scaled_block(Z, rho), GAMMA, ROUGH if levels > 2 else SMALL)
    if not isinstance(completion, str):
        constant, P = completion
        Q = _covariance(P, np.sin(constant * scaled_block(Z, rho)))
        within = _replica_correlation(P.diagonal(), replicas)
        return measured_covariance(Q, Z, rho, constant, method, within=within, **kind)
    if method == "adaptive":
        method = f"krivine, because {completion}"
    if rho == 0.0:
        return measured_covariance(_identity(2 * N), np.zeros((N, N)), rho, GAMMA, method, **kind)
    Q = _covariance(np.sinh(GAMMA * (V / rho)), np.sin(GAMMA * scaled_block(Z, rho)))
    within = np.sinh(GAMMA * _replica_correlation(V.diagonal() / rho, replicas))
    return measured_covariance(Q, Z, rho, GAMMA, method, within=within, **kind)


def _covariance(P: FloatArray, S: FloatArray) -> FloatArray:
    """Return [P S; S P] with ones on the diagonal; V and Z of a relaxation are symmetric, and W is V."""
    N = len(P)
    Q = np.empty((2 * N, 2 * N))
    Q[:N, :N] = Q[N:, N:] = P
    Q[:N, N:] = Q[N:, :N] = S
    np.fill_diagonal(Q, 1.0)
    return Q


def _identity(size: int) -> FloatArray:
    """Return a read-only identity matrix as views of one row, which saves 1.2 GB for the zero point of 6000 inputs."""
    row = np.zeros(2 * size - 1)
    row[size - 1] = 1.0
    identity: FloatArray = np.lib.stride_tricks.sliding_window_view(row, size)[::-1]
    return identity


def _replica_correlation(diagonal: FloatArray, replicas: npt.NDArray[np.intp]) -> FloatArray:
    # A coordinate's diagonal entry is the mean over all pairs of its replicas, including the ones.
    correlation = (replicas * diagonal - 1.0) / np.maximum(replicas - 1, 1)
    return np.where(replicas > 1, np.clip(correlation, -1.0, 1.0), 1.0)
