"""Number of sampled neurons that suffices for the loss of the relaxation, with explicit constants."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from qsdp._utils.tuning import NEGLIGIBLE
from qsdp._utils.validation import FloatArray, check_choice, check_real
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.problem import TrainingProblem
from qsdp.relaxation import Relaxation
from qsdp.shaping.covariance import SignCovariance
from qsdp.shaping.methods import SHAPINGS
from qsdp.shaping.shape import shape_covariance

__all__ = ["neurons_needed"]


def neurons_needed(relaxation: Relaxation, epsilon: float, delta: float, *, method: str = "krivine") -> int:
    r"""Compute a number of neurons that suffices for a sampled network to nearly attain the loss of the relaxation.

    With probability at least :math:`1 - \delta`, the loss of a network of that many sampled neurons differs from the
    loss at the relaxation's predictions by at most :math:`\epsilon`, without the penalties.

    Parameters
    ----------
    relaxation : Relaxation
        Relaxation for two levels, on columns.
    epsilon : float
        > 0, in units of the objective, which is a sum over samples.
    delta : float
        Probability, between 0 and 1.
    method : {"krivine", "adaptive"}, default="krivine"
        Shaping of the covariance that the neurons are sampled from.

    Returns
    -------
    int
        Number of neurons, the same for every output (``allocation="equal"``).

    Raises
    ------
    InvalidInputError
        An argument is not allowed, or the relaxation is for more than two levels, for blocks or for statistics.

    Notes
    -----
    The matrices :math:`S_j = u_j v_j^T - E[u v^T]` have norms of at most 2N, and
    :math:`E[S_j S_j^T] \preceq N E[u u^T] = (2 N / \pi) \arcsin(Q_{11})`, likewise for v. Let b be the larger norm of
    these. The matrix Bernstein inequality gives, for the mean of m of them,

    .. math::

        P\Big(\Big\|\frac1m \sum_j S_j\Big\|_2 \ge t\Big) \le 2 N \exp\Big(- \frac{m t^2 / 2}{b + 2 N t / 3}\Big).

    Predictions then deviate by at most :math:`(\rho \pi / c)\, t\, \|\mathcal{X}_i\|_*`, with the nuclear norm, which
    is :math:`\|x_i\|^2` without a lift. The largest t for which no such deviations change the loss by more than
    :math:`\epsilon` is found exactly, as the loss is convex: no Lipschitz constant is needed, and the squared loss is
    covered. Outputs share :math:`\delta` equally.

    This is (28) and theorem 3 of Bartan and Pilanci with two corrections: the inequality has a factor 1/2 in the
    exponent, which is missing in (28) and (38), and the subtracted term of (36) cannot raise the variance. The bound
    holds for every problem, so the number is usually far larger than necessary.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((30, 3))
    >>> relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=1.0))
    >>> few, many = (qsdp.neurons_needed(relaxation, epsilon, delta=0.05) for epsilon in (1.0, 0.1))
    >>> 1000 < few < many
    True
    """
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
    epsilon = check_real("epsilon", epsilon, strict=True)
    delta = check_real("delta", delta, strict=True)
    if delta >= 1.0:
        raise InvalidInputError(f"delta must be below 1; got {delta:g}")
    check_choice("method", method, SHAPINGS)
    problem = relaxation.problem
    if problem.blocks is not None or problem.levels > 2 or not problem.map.has_rows:
        raise InvalidInputError("relaxation must be for two levels and rows of columns")
    shaped = shape_covariance(relaxation, method)
    covariances: list[SignCovariance] = shaped if problem.output_shape else [shaped]
    reach = _largest_reach(problem, relaxation.outputs(problem.X), epsilon)
    C = problem.n_outputs
    return C * max(_neurons(one, reach, delta / C) for one in covariances)


def _neurons(covariance: SignCovariance, reach: float, delta: float) -> int:
    """Invert the Bernstein bound: number of neurons whose scaled mean outer product deviates by at most `reach`."""
    if covariance.total_weight == 0.0:
        return 1
    N, t = covariance.dimension, reach / covariance.total_weight
    sides = (np.arcsin(np.clip(half, -1.0, 1.0)) for half in (covariance.Q[:N, :N], covariance.Q[N:, N:]))
    largest = max(float(scipy.linalg.eigvalsh(side, subset_by_index=[N - 1, N - 1])[0]) for side in sides)
    variance = 2.0 * N / math.pi * largest
    return max(1, math.ceil(2.0 * (variance + 2.0 * N * t / 3.0) / t**2 * math.log(2.0 * N / delta)))


def _largest_reach(problem: TrainingProblem, predictions: FloatArray, epsilon: float) -> float:
    """Find the largest s for which deviations of at most s times the nuclear norms change the loss by <= epsilon."""
    fit, norms = problem.data_fit, _nuclear_norms(problem)[:, None]
    before = fit.value(predictions)

    def excess(s: float) -> float:
        moved = s * norms
        if fit.loss.coupled:
            # The loss falls in the output of the true class and rises in the others.
            return fit.value(predictions + np.where(fit.target == 1.0, -moved, moved)) - before - epsilon
        # A convex function on an interval is largest at an end; samples and outputs add up.
        ends = np.stack([fit.loss.values(predictions + sign * moved, fit.target) for sign in (-1.0, 1.0)])
        return float(fit.weighted(ends.max(axis=0)).sum()) - before - epsilon

    if not np.any(norms):
        return math.inf
    import scipy.optimize

    high = 1.0
    while excess(high) < 0.0:
        high *= 2.0
    return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-300, rtol=NEGLIGIBLE))


def _nuclear_norms(problem: TrainingProblem) -> FloatArray:
    """Compute the nuclear norms of the data matrices, which depend only on the norms r of the samples."""
    squares = np.square(problem.X).sum(axis=1)
    if not problem.lifted:
        a = 1.0 if problem.activation is None else problem.activation.coefficients[0]
        plain: FloatArray = abs(a) * squares
        return plain
    assert problem.activation is not None
    a, b, c = problem.activation.coefficients
    side = 0.5 * b * np.sqrt(squares)
    rows = [np.stack([a * squares, side], axis=-1), np.stack([side, np.full_like(side, c)], axis=-1)]
    norms: FloatArray = np.abs(np.linalg.eigvalsh(np.stack(rows, axis=-1))).sum(axis=1)
    return norms
