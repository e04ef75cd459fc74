"""Covariance shaping: convert the solution of a relaxation to distributions of neurons."""

from __future__ import annotations

from typing import Any

from qsdp._utils import deadline
from qsdp._utils.outputs import squeezed
from qsdp._utils.progress import progress
from qsdp._utils.validation import check_choice, check_verbose
from qsdp.exceptions import InvalidTypeError
from qsdp.relaxation import Relaxation
from qsdp.shaping.blocks import BlockCovariances, shape_block
from qsdp.shaping.covariance import shape_matrix
from qsdp.shaping.methods import SHAPINGS

__all__ = ["shape_covariance"]


def shape_covariance(
    relaxation: Relaxation,
    method: str = "krivine",
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
    method : {"krivine", "adaptive"}, default="krivine"
        ``"krivine"`` is the closed form with :math:`c = \gamma = \sinh^{-1}(1)`, elementwise

        .. math::

            Q = \begin{bmatrix} \sinh(\gamma V_s) & \sin(\gamma Z_s) \\
                                \sin(\gamma Z_s)^T & \sinh(\gamma W_s) \end{bmatrix},

        which is positive semidefinite because sinh and sin have the same Taylor coefficients up to sign, and has unit
        diagonal because sinh(gamma) = 1. ``"adaptive"`` searches for the largest c for which such a Q exists, with a
        few eigendecompositions and without a solver. This c is never smaller than gamma = 0.88, usually 1.0 to 1.2, and
        :math:`\pi / 2` if Z is one outer product of signs. The sum of the second-layer weights is inversely
        proportional to c, and the variance of the sampled network to about its square.
    time_limit : float, optional
        Limit in seconds, > 0, checked between iterations; the current step is finished. After it, "adaptive"
        returns its best iterate, or the closed form if there is none.
    verbose : bool or int, default=False
        Show a progress bar of the outputs on the standard error or in the notebook.

    Returns
    -------
    SignCovariance, or a list of one for each output of a vector problem
        Its residual, diagonal error and smallest eigenvalue are recomputed from Q. `BlockCovariances` for blocks, with
        one for every output and quadratic block; linear blocks need none.

    Notes
    -----
    See theorem 2 and (27) of Bartan and Pilanci. The closed form is Krivine's argument (Alon and Naor, Lemma 4.2)
    written out. With more than two levels, V is first replaced by one of nearly the smallest trace: the smaller the
    diagonal entry of a coordinate, the more its replicas disagree, and the more levels are used. For the same reason,
    the adaptive constant then stays a hundredth below the largest one.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((30, 4))
    >>> relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.1))
    >>> qsdp.shape_covariance(relaxation).residual < 1e-12
    True
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
                parts.append(shape_block(Z, V, float(rho), layout, k % layout.n_blocks, method))
                continue
            parts.append(
                shape_matrix(Z, V, float(rho), levels=problem.levels, activation=problem.activation, method=method)
            )
    if layout is not None:
        return BlockCovariances(parts, layout, problem.output_shape)
    return squeezed(parts, problem.output_shape)
