"""Scales of the inputs from data and solved relaxations: powers of two, which are shifts in hardware."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray, IntArray, check_integer, check_matrix, check_real, check_sample_weight
from qsdp.encoding.encoding import Encoding
from qsdp.exceptions import InvalidTypeError
from qsdp.lifting import power_of_two
from qsdp.problem import TrainingProblem
from qsdp.relaxation import Relaxation, beta_max, solve_relaxation

__all__ = ["fit_scales", "restricted_to", "row_scale", "scaled_to_rows", "supervised_scales"]

#: Reason why a column has no input if its inputs do not help.
NO_GAIN = "no gain"


def row_scale(X: Any, *, norm: float = 1.5, sample_weight: Any = None) -> float:
    r"""Return the power of two that brings the root mean square of the row norms nearest to `norm`.

    In an activation :math:`a t^2 + b t + c`, the balance of the parts depends on the size of :math:`t = x^T q`, which
    grows with the number of columns. On large rows, the activation is almost quadratic; on small rows, almost linear.

    Parameters
    ----------
    X : array-like of shape (n, d)
    norm : float, default=1.5
        Wanted norm, > 0. With the activation "relu_like", 0.5 to 1.5 suit most data sets.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        1 if the data are all zero.

    Examples
    --------
    >>> from qsdp.encoding import row_scale
    >>> row_scale([[3.0, 4.0], [-4.0, 3.0]])
    0.25
    """
    data, wanted = check_matrix("X", X), check_real("norm", norm, strict=True)
    weights = check_sample_weight(sample_weight, len(data))
    largest = power_of_two(float(np.abs(data).max()))
    present = math.sqrt(float(_mean_squares(data / largest, weights).sum()))
    return power_of_two(wanted / present) / largest if present > 0.0 else 1.0


def scaled_to_rows(encoding: Encoding, inputs: FloatArray, sample_weight: FloatArray | None = None) -> Encoding:
    """Return the encoding with all inputs multiplied by the `row_scale` of the training inputs."""
    return encoding.scaled(np.full(encoding.width, row_scale(inputs, sample_weight=sample_weight)))


def restricted_to(
    encoding: Encoding, inputs: FloatArray, kept: IntArray, sample_weight: FloatArray | None = None
) -> tuple[Encoding, dict[str, str]]:
    """Return the encoding with some of its inputs (n, width), rescaled, and why columns now have no input."""
    few = scaled_to_rows(encoding.restricted(kept), inputs[:, kept], sample_weight)
    unused = sorted(set(encoding.used) - set(few.used))
    return few, {encoding.columns[position].name: NO_GAIN for position in unused}


def supervised_scales(relaxation: Relaxation, *, exponent: float = 0.5, limit: float = 8.0) -> FloatArray:
    r"""Return a power of two for every column of a solved relaxation's data, according to the worth of the columns.

    With one bound :math:`\rho` for all entries of the weights, every column costs the same. Scales :math:`s_j` set the
    bounds :math:`V_{jj} = W_{jj} = \rho s_j^2`. This is the same problem on scaled columns, so all theory holds. The
    multiplier :math:`z_j` of the constraint, part of the dual bound, is the worth of loosening it. Therefore

    .. math:: s_j \propto z_j^{1/2}

    is a step towards scales with equal multipliers, which are the best scales with the same sum of squares.

    Parameters
    ----------
    relaxation : Relaxation
        The multipliers of several outputs are added.
    exponent : float, default=0.5
        Exponent of the multipliers, >= 0; smaller is more cautious.
    limit : float, default=8.0
        Largest factor of a scale, up or down, >= 1.

    Returns
    -------
    ndarray of shape (d,)
        Scales that keep the mean square of the row norms, as nearly as powers of two allow.

    Notes
    -----
    No such step is sure to help. On ten UCI data sets, it gained 2 points of accuracy at best and lost 3 at worst,
    while `row_scale`, one factor for all columns, gained 1.3 on average. Let validation choose.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> from qsdp.encoding import supervised_scales
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> problem = qsdp.TrainingProblem(X, X[:, 0] + 0.1 * X[:, 1], beta=1.0, activation="relu_like")
    >>> relaxation = qsdp.solve_relaxation(problem.with_beta(0.2 * qsdp.beta_max(problem)))
    >>> scales = supervised_scales(relaxation)
    >>> bool(scales[0] > scales[1] >= scales[2])
    True
    """
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
    power = check_real("exponent", exponent)
    most = math.log2(check_real("limit", limit, minimum=1.0))
    problem = relaxation.problem
    prices = np.atleast_2d(relaxation.dual.z)[:, : problem.n_features].sum(axis=0)
    logs = power * np.log2(np.maximum(prices, np.finfo(np.float64).tiny))
    squares = _mean_squares(problem.X, problem.sample_weight)
    if not np.any(squares > 0.0):
        return np.ones(len(squares))
    shares = squares / squares.sum()
    # Balance twice, since clipping changes the result of the first time.
    for _ in range(2):
        largest = logs.max()
        logs = logs - largest - 0.5 * math.log2(float(shares @ np.exp2(2.0 * (logs - largest))))
        logs = np.clip(logs, -most, most)
    scales: FloatArray = np.exp2(np.clip(np.round(logs), -math.floor(most), math.floor(most)))
    return scales


def fit_scales(
    problem: TrainingProblem,
    *,
    norm: float = 1.5,
    n_rounds: int = 1,
    fraction: float = 0.05,
    exponent: float = 0.5,
    limit: float = 8.0,
    tol: float = 1e-3,
    time_limit: float | None = None,
) -> FloatArray:
    """Return a power of two for each column of a problem's data: one for all columns, refined in rounds for each.

    Parameters
    ----------
    problem : TrainingProblem
        Its beta does not matter.
    norm : float, default=1.5
        Norm of the rows, see `row_scale`.
    n_rounds : int, default=1
        Number of relaxations to solve, each on the columns as scaled by the last one.
    fraction : float, default=0.05
        Beta of the relaxations, as a share of `qsdp.beta_max`; > 0.
    exponent, limit : float
        See `supervised_scales`.
    tol, time_limit
        Limits for each solve, see `qsdp.solve_relaxation`.
    """
    rounds, share = check_integer("n_rounds", n_rounds, minimum=0), check_real("fraction", fraction, strict=True)
    scales = np.full(problem.n_features, row_scale(problem.X, norm=norm, sample_weight=problem.sample_weight))
    for _ in range(rounds):
        scaled = TrainingProblem(
            problem.X * scales,
            problem.y,
            beta=problem.beta,
            loss=problem.loss,
            activation=problem.activation,
            levels=problem.levels,
            sample_weight=problem.sample_weight,
        )
        largest = beta_max(scaled)
        if largest == 0.0:
            break  # the zero network is optimal for any scales
        relaxation = solve_relaxation(scaled.with_beta(share * largest), tol=tol, time_limit=time_limit)
        scales = scales * supervised_scales(relaxation, exponent=exponent, limit=limit)
    return scales


def _mean_squares(X: FloatArray, weights: FloatArray | None) -> FloatArray:
    squares: FloatArray = np.average(np.square(X), axis=0, weights=weights)
    return squares
