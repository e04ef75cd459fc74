"""Covariance shaping: convert the solution of a relaxation to distributions of neurons."""

from __future__ import annotations

from typing import Any

from qsdp._utils import deadline
from qsdp._utils.outputs import squeezed
from qsdp._utils.progress import progress
from qsdp._utils.validation import check_choice, check_matrix, check_verbose
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.relaxation import Formulation, Relaxation
from qsdp.shaping.blocks import BlockCovariances, shape_block
from qsdp.shaping.covariance import replicas_of, shape_matrices, shape_matrix
from qsdp.shaping.methods import SHAPINGS, shaping_program, smallest_diagonal

__all__ = ["build_shaping", "shape_covariance"]


def shape_covariance(
    relaxation: Relaxation | None = None,
    method: str = "krivine",
    *,
    Z: Any = None,
    V: Any = None,
    W: Any = None,
    time_limit: float | None = None,
    verbose: bool | int = False,
) -> Any:
    r"""Compute a covariance Q with unit diagonal and :math:`\arcsin(Q_{12}) = c Z / \rho`.

    Then :math:`[u; v] = \mathrm{sign}(\mathcal N(0, Q))` has
    :math:`E[u v^T] = (2/\pi) \arcsin(Q_{12}) = (2 c / \pi) Z / \rho`.

    Parameters
    ----------
    relaxation : Relaxation, optional
        Either this, or Z and V, is required.
    method : {"krivine", "adaptive", "sdp"}, default="krivine"
        ``"krivine"`` is the closed form with :math:`c = \gamma = \sinh^{-1}(1)`, elementwise

        .. math::

            Q = \begin{bmatrix} \sinh(\gamma V_s) & \sin(\gamma Z_s) \\
                                \sin(\gamma Z_s)^T & \sinh(\gamma W_s) \end{bmatrix},

        which is positive semidefinite because sinh and sin have the same Taylor coefficients up to sign, and has unit
        diagonal because sinh(gamma) = 1. ``"adaptive"`` searches for the largest c for which such a Q exists, with a
        few eigendecompositions and without a solver. This c is never smaller than gamma = 0.88, usually 1.0 to 1.2, and
        :math:`\pi / 2` if Z is one outer product of signs. The sum of the second-layer weights is inversely
        proportional to c, and the variance of the sampled network to about its square. ``"sdp"`` solves the paper's
        program (27), at the cost of a solve. It has the Q12 of the closed form and other diagonal blocks.
    Z, V, W : array-like of shape (N, N), optional
        Any matrices for which ``[[V, Z], [Z', W]]`` is positive semidefinite, for neurons with N binary weights in u
        and in v, such as the solution of another semidefinite program. Z need not be symmetric, and W is V by default.
        V and W are scaled against each other and their diagonals padded to the smallest possible rho, which changes no
        prediction.
    time_limit : float, optional
        Limit in seconds, > 0, checked between iterations; the current step is finished. After it, "adaptive" and "sdp"
        return their best iterate, or the closed form if there is none.
    verbose : bool or int, default=False
        Show a progress bar of the outputs on the standard error or in the notebook.

    Returns
    -------
    SignCovariance, or a list of one for each output of a vector problem
        Its residual, diagonal error and smallest eigenvalue are recomputed from Q. `BlockCovariances` for blocks, with
        one for every output and quadratic block; linear blocks need none.

    Raises
    ------
    InvalidInputError
        The matrix of Z, V and W is indefinite by more than the rounding of a solver, 1e-5 of its largest entry.

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

    Matrices of any program: here, all neurons have u = v up to the sign, and Z is their mean outer product.

    >>> Z = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> covariance = qsdp.shape_covariance(Z=Z, V=Z, method="adaptive")
    >>> sampled = qsdp.sample_network(covariance, n_neurons=3, random_state=0)
    >>> bool(np.all(sampled.U[:, 0] == -sampled.U[:, 1]))
    True
    """
    check_choice("method", method, SHAPINGS)
    if relaxation is None or Z is not None or V is not None or W is not None:
        if relaxation is not None or Z is None or V is None:
            raise InvalidInputError("pass either relaxation, or Z and V (and W if it differs from V)")
        side = len(Z := check_matrix("Z", Z))
        V, W = (check_matrix(name, M, n_columns=side) for name, M in (("V", V), ("W", V if W is None else W)))
        if not Z.shape == V.shape == W.shape == (side, side):
            raise InvalidInputError(f"Z, V and W must be square and of one size; got {Z.shape}, {V.shape}, {W.shape}")
        with deadline.after(time_limit):
            return shape_matrices(Z, V, W, method)
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


def build_shaping(relaxation: Relaxation) -> Any:
    r"""Build the paper's program of covariance shaping, which ``shape_covariance(..., "sdp")`` solves.

    .. math::

        \min_{Q \succeq 0}\; \|Q_{12} - \sin(\gamma Z_s)\|_F^2 \quad\text{s.t.}\quad Q_{jj} = 1

    Its optimal value is zero. With more than two levels, Q is the covariance of means over replicas, and the diagonal
    entries of coordinates with several levels are at most one.

    Parameters
    ----------
    relaxation : Relaxation
        Relaxation on columns.

    Returns
    -------
    Formulation, or a list of one for each output of a vector problem
        Program with the variable ``Q``.

    Notes
    -----
    These are equations (27) and (68) of Bartan and Pilanci.
    """
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
    problem = relaxation.problem
    if problem.blocks is not None:
        raise InvalidInputError("relaxation must be of data of columns for build_shaping; got blocks")
    built = []
    for Z, V, rho in zip(relaxation.Z_stack, relaxation.V_stack, relaxation.rho_stack.tolist(), strict=True):
        replicas = replicas_of(problem.levels, problem.activation, len(Z))
        # As in `shape_covariance`, which needs a V of small diagonal for more than two levels.
        radius = smallest_diagonal(Z, V, rho)[1] if rho > 0.0 and replicas.max() > 1 else rho
        program, Q = shaping_program(Z, radius, replicas)
        built.append(Formulation(program, {"Q": Q}, "shaping"))
    return squeezed(built, problem.output_shape)
