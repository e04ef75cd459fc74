"""The smallest beta for which the zero network is optimal, the upper end of useful values."""

from __future__ import annotations

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS, ROUNDING
from qsdp.inner_problem import grothendieck_bound, uninterrupted
from qsdp.problem import TrainingProblem, check_problem
from qsdp.relaxation.scaled import ScaledProblem

__all__ = ["beta_max", "useful_beta_max"]


def beta_max(problem: TrainingProblem, *, time_limit: float | None = None) -> float:
    r"""Compute the smallest beta for which zero solves the relaxation; for larger ones it is the only solution.

    Zero is optimal if minus the gradient of the loss at zero, :math:`\nu_0`, is feasible in the dual, that is, if

    .. math:: \beta D \ge \min \Big\{ \sum_j z_j : \mathrm{Diag}(z) \pm \sum_i \nu_{0i} \mathcal{X}_i \succeq 0 \Big\},

    for every output, and if :math:`\beta \omega_k \ge |m_k|` for real weights. From that beta on, the zero network is
    also the best network; below, it may still be.

    Parameters
    ----------
    problem : TrainingProblem
        Its beta does not matter.
    time_limit : float, optional
        Seconds, > 0, checked between iterations; the current step is finished, then the bound is computed. If time runs
        out, the result is larger.

    Returns
    -------
    float
        Rounded up, usually to a relative 1e-9, so that zero is proven optimal there. 0 if zero is always optimal.

    Notes
    -----
    If the loss has a kink at zero (the absolute loss of targets that are exactly 0), other subgradients may prove
    zero optimal for a smaller beta. The result is then an upper bound.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]])
    >>> problem = qsdp.TrainingProblem(X, [2.0, -0.5, 0.1], beta=1.0)
    >>> beta = qsdp.beta_max(problem)
    >>> [bool(np.any(qsdp.solve_relaxation(problem.with_beta(share * beta)).Z[0])) for share in (0.99, 1.01)]
    [True, False]
    """
    check_problem(problem)
    with deadline.after(time_limit):
        return _proven(problem)


def useful_beta_max(problem: TrainingProblem) -> float:
    """Return `beta_max`, or 0 if it is only a rounding error, as for inputs unrelated to the targets."""
    largest = beta_max(problem)
    slopes = np.abs(problem.data_fit.zero_dual).sum(axis=1)
    matrices, real = problem.map.pull(slopes[:, None])
    sizes = np.append(np.abs(matrices).sum(axis=(-2, -1)), np.abs(real))
    rounding = len(slopes) * EPS * float(sizes.max())
    return largest if largest * problem.dimension > rounding else 0.0


def _proven(problem: TrainingProblem) -> float:
    """Compute `beta_max` of a checked problem, within the time limit."""
    scaled = ScaledProblem.from_problem(problem.with_beta(1.0))
    instance, units = scaled.instance, scaled.units
    nu = instance.zero_dual
    matrices, real = instance.map.pull(nu)
    bounds = (np.abs(real) * (1.0 + ROUNDING)).max(axis=1, initial=0.0).tolist()
    for k, M in enumerate(matrices):
        with deadline.fraction(0.5 / (len(matrices) - k)):
            bounds.append(float(uninterrupted(grothendieck_bound(M, tol=ROUNDING))))
    return float(max(bounds)) * (units.value / units.weight) / problem.dimension
