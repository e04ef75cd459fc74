"""The optimum of a small training problem over all neurons, by a way that shares nothing with the library's solvers.

Every neuron is enumerated, the convex problem in their weights is solved by Clarabel in units in which its numbers are
moderate, and what counts is evaluated from the definitions in extended precision, with a bound of the rounding added:
`upper` values are objectives of networks that exist, so that a lower bound above one is wrong, whatever the solver did.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

import qsdp

__all__ = ["Enumeration", "network_value", "polynomial_value"]

Extended = np.longdouble
_EPS = np.finfo(Extended).eps


@dataclass(frozen=True, eq=False)
class Enumeration:
    """The best objective found over all neurons of a problem, rounded up, and that of the network without neurons."""

    upper: float
    zero: float

    @classmethod
    def of(cls, problem: qsdp.TrainingProblem, *, corners: bool = True, polynomial: bool = False) -> Enumeration:
        """Solve a problem over all pairs of neurons, or over single polynomial ones, sigma(x'q) at the same price.

        The first-layer weights of `corners` are of the largest magnitude: other bilinear neurons are means of such.
        """
        U, V = _neurons(problem, corners and not polynomial, polynomial)
        F = _features(problem, U, V)
        weight = Extended(problem.beta) * Extended(problem.dimension if not polynomial else _polynomial_size(problem))
        shape = (F.shape[1], *problem.y.shape[1:])
        zero = _upper(problem, F, np.zeros(shape), weight)
        alpha = _weights(problem, F, weight)
        # Multiples of a solution that is none can still be good; so is nothing at all.
        best = min([zero, *(_upper(problem, F, s * alpha, weight) for s in (1.0, 0.5, 0.1) if np.any(alpha))])
        return cls(best, zero)


def network_value(problem: qsdp.TrainingProblem, network: qsdp.BilinearNetwork) -> tuple[float, float, float]:
    """Return the objective of a network, from the definition, what it errs by at most, and what floats would."""
    F = _features(problem, network.U.astype(float), network.V.astype(float))
    weight = Extended(problem.beta) * Extended(problem.dimension)
    return (*_value(problem, F, network.alpha, weight), _value(problem, F, network.alpha, weight, 2.0**-52)[1])


def polynomial_value(problem: qsdp.TrainingProblem, network: qsdp.PolynomialNetwork) -> tuple[float, float, float]:
    """Return the objective (12) of a polynomial network in the same way."""
    Q = network.Q.astype(float)
    last = np.ones((len(Q), problem.size - problem.n_features))
    F = _features(problem, np.hstack([Q, last]), np.hstack([Q, last]))
    weight = Extended(problem.beta) * Extended(_polynomial_size(problem))
    return (*_value(problem, F, network.alpha, weight), _value(problem, F, network.alpha, weight, 2.0**-52)[1])


def _polynomial_size(problem: qsdp.TrainingProblem) -> int:
    return problem.n_features * (problem.levels - 1)


def _neurons(problem: qsdp.TrainingProblem, corners: bool, polynomial: bool) -> tuple[np.ndarray, np.ndarray]:
    M = problem.levels - 1
    values = (-M, M) if corners else tuple(range(-M, M + 1, 2))
    side = np.array(list(itertools.product(values, repeat=problem.n_features)), dtype=float)
    if problem.lifted:
        # Of a neuron and its negative the one whose last entry is +1.
        side = np.hstack([side, np.ones((len(side), 1))])
    elif not polynomial or problem.activation is None:
        side = side[: (len(side) + 1) // 2]
    if polynomial:
        return side, side
    first, second = np.triu_indices(len(side))
    return side[first], side[second]


def _features(problem: qsdp.TrainingProblem, U: np.ndarray, V: np.ndarray) -> np.ndarray:
    a, b, c = (Extended(v) for v in (problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)))
    if problem._forms is not None:
        # Upper triangles of the matrices themselves, of a problem from statistics.
        first, second = np.triu_indices(problem.size)
        pairs = U[:, first] * V[:, second] + (first != second) * U[:, second] * V[:, first]
        return np.asarray(problem.weight_map.forms.astype(Extended) @ pairs.T.astype(Extended))
    d, X = problem.n_features, problem.X.astype(Extended)
    left, right = X @ U[:, :d].T.astype(Extended), X @ V[:, :d].T.astype(Extended)
    F = a * left * right
    if problem.lifted:
        s, t = U[:, d].astype(Extended), V[:, d].astype(Extended)
        F = F + b / 2 * (left * t + right * s) + c * s * t
    return np.asarray(F)


def _value(
    problem: qsdp.TrainingProblem, F: np.ndarray, alpha: np.ndarray, weight: Extended, eps: float = _EPS
) -> tuple[float, float]:
    """Return the objective of weights of features, and a bound of its rounding, that to a float included.

    With the unit roundoff of floats as `eps` the bound is that of an evaluation in floats.
    """
    a = alpha.astype(Extended)
    prediction, magnitude = F @ a, _magnitude(problem) * np.abs(a).sum(axis=0)
    # Terms of features and predictions are no larger than magnitudes, however much of them cancels.
    error = 4 * (problem.n_features + len(a) + 8) * eps * np.broadcast_to(magnitude, prediction.shape)
    penalty = weight * np.abs(a).sum()
    value = _loss(problem, prediction, 0 * error) + penalty
    upper = (_loss(problem, prediction, error) + penalty) * (1 + 64 * (problem.y.size + len(a)) * eps)
    if not np.isfinite(upper):
        return np.inf, np.inf
    return float(value), float(upper - value) + 2.0**-51 * float(value)


def _upper(problem: qsdp.TrainingProblem, F: np.ndarray, alpha: np.ndarray, weight: Extended) -> float:
    return sum(_value(problem, F, alpha, weight))


def _magnitude(problem: qsdp.TrainingProblem) -> np.ndarray:
    """Return a bound of every feature's terms, in the shape of the targets' rows."""
    if problem._forms is not None:
        return np.asarray(2 * (problem.levels - 1) ** 2 * np.abs(problem.weight_map.forms).sum(axis=1), dtype=Extended)
    a, b, c = (abs(Extended(v)) for v in (problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)))
    t = (problem.levels - 1) * np.abs(problem.X.astype(Extended)).sum(axis=1)
    size = a * t * t + b * t + c
    return np.asarray(size[:, None] if problem.vector else size)


def _loss(problem: qsdp.TrainingProblem, t: np.ndarray, error: np.ndarray) -> Extended:
    """Return the weighted loss where every prediction errs by so much, at most."""
    y, name = problem.y.astype(Extended), problem.loss.name
    w = np.ones(len(y), dtype=Extended) if problem.sample_weight is None else problem.sample_weight.astype(Extended)
    if name == "cross_entropy":
        top = t.max(axis=1)
        terms = top + np.log(np.exp(t - top[:, None]).sum(axis=1)) - (y * t).sum(axis=1)
        return Extended((w * (terms + 2 * error.max(axis=1))).sum())
    terms = np.maximum(_entries(problem, t - error, y), _entries(problem, t + error, y))
    return Extended((w * (terms.T if terms.ndim == 2 else terms)).sum())


def _entries(problem: qsdp.TrainingProblem, t: np.ndarray, y: np.ndarray) -> np.ndarray:
    name, r = problem.loss.name, y - t
    if name == "squared":
        return np.asarray(r * r)
    if name == "absolute":
        return np.abs(r)
    if name == "huber":
        delta = Extended(problem.loss.parameters()["delta"])
        return np.where(np.abs(r) <= delta, r * r, 2 * delta * np.abs(r) - delta * delta)
    margin = y * t
    if name == "logistic":
        return np.where(margin > 0, np.log1p(np.exp(-np.abs(margin))), -margin + np.log1p(np.exp(-np.abs(margin))))
    short = np.maximum(0, 1 - margin)
    return np.asarray(short if name == "hinge" else short * short)


# -- the convex problem --------------------------------------------------------------------------------------------


def _weights(problem: qsdp.TrainingProblem, F: np.ndarray, weight: Extended) -> np.ndarray:
    """Return the weights of all features that Clarabel finds."""
    y = problem.y.astype(Extended)
    w = np.ones(len(y), dtype=Extended) if problem.sample_weight is None else problem.sample_weight.astype(Extended)
    if problem.loss.name == "cross_entropy":
        return _solve_coupled(F, y, w, weight)
    if y.ndim == 1:
        return _solve_scalar(problem, F, y, w, weight)
    return np.stack([_solve_scalar(problem, F, column, w, weight) for column in y.T], axis=1)


def _solve_scalar(
    problem: qsdp.TrainingProblem, F: np.ndarray, y: np.ndarray, w: np.ndarray, weight: Extended
) -> np.ndarray:
    name, signed = problem.loss.name, np.hstack([F, -F])
    value = (w * _entries(problem, np.zeros_like(y), y)).sum()
    if not value > 0:
        return np.zeros(F.shape[1])
    # Rows in the units of the total loss, columns of at most one.
    rows = np.sqrt(w / value) if name in ("squared", "squared_hinge", "huber") else w / value
    size = _size(signed * rows[:, None])
    x = cp.Variable(signed.shape[1], nonneg=True)
    A, target, units = (signed * rows[:, None] / size).astype(float), (y * rows).astype(float), rows.astype(float)
    if name == "squared":
        loss = cp.sum_squares(target - A @ x)
    elif name == "absolute":
        loss = cp.norm1(target - A @ x)
    elif name == "huber":
        near = cp.Variable(len(y))
        slopes = 2.0 * units * float(problem.loss.parameters()["delta"])
        loss = cp.sum_squares(near) + slopes @ cp.abs(target - A @ x - near)
    elif name == "logistic":
        loss = units @ cp.logistic((-y[:, None] * signed / size).astype(float) @ x)
    else:
        short = cp.pos(units - (y[:, None] * A).astype(float) @ x)
        loss = cp.sum(short) if name == "hinge" else cp.sum_squares(short)
    a = _solved(loss + _price(weight, value, size) @ x, x) / size
    return np.asarray(a[: len(a) // 2] - a[len(a) // 2 :])


def _solve_coupled(F: np.ndarray, y: np.ndarray, w: np.ndarray, weight: Extended) -> np.ndarray:
    value, signed = (w * np.log(Extended(y.shape[1]))).sum(), np.hstack([F, -F])
    size, unit = _size(signed), (w / value).astype(float)
    x = cp.Variable((signed.shape[1], y.shape[1]), nonneg=True)
    t = (signed / size).astype(float) @ x
    loss = unit @ cp.log_sum_exp(t, axis=1) - cp.sum(cp.multiply(unit[:, None] * y.astype(float), t))
    a = _solved(loss + cp.sum(_price(weight, value, size) @ x), x) / size[:, None]
    return np.asarray(a[: len(a) // 2] - a[len(a) // 2 :])


def _size(columns: np.ndarray) -> np.ndarray:
    """Return the largest entry of each column."""
    return np.asarray(np.maximum(np.abs(columns).max(axis=0), Extended(1e-4000)))


def _price(weight: Extended, value: Extended, size: np.ndarray) -> np.ndarray:
    """Return the cost of columns of at most one, in units of the loss at zero."""
    return np.asarray(np.minimum(weight / value / size, Extended(1e30)), dtype=float)


def _solved(objective: cp.Expression, x: cp.Variable) -> np.ndarray:
    """Return the variables that Clarabel finds, zero where it fails."""
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    try:
        cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL, max_iter=100, time_limit=5.0, **tolerances)
    except KeyboardInterrupt:
        raise
    except BaseException:  # the solver's own panics are no Exception
        x.value = None
    found = np.zeros(x.shape) if x.value is None else np.nan_to_num(x.value, posinf=0.0)
    return np.maximum(found, 0.0).astype(Extended)
