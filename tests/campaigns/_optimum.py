"""The optimum of a small training problem over all neurons, by a way that shares nothing with the library's solvers.

Every neuron is enumerated, Clarabel solves the convex problem in their weights, and what counts is evaluated from the
definitions in extended precision, with a bound of the rounding added: upper values are objectives of networks that
exist, so that a lower bound above one is wrong, whatever the solver did.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
from block_problems import all_neurons
from brute_force import level_vectors, neuron_values

import qsdp
from qsdp.data_map import SAMPLES

Extended = np.longdouble
_TOLERANCES = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)


def optimum(problem: qsdp.TrainingProblem, *, corners: bool = True) -> tuple[float, float]:
    """Return the best objective found over all neurons, rounded up, and that of the network without neurons.

    Of bilinear neurons those of `corners` have first-layer weights of the largest magnitude: others are means of such.
    """
    M, d = problem.levels - 1, problem.n_features
    side = M * level_vectors(d, 2) if corners else level_vectors(d, problem.levels)
    # Of a neuron and its negative, one: with a lift, the one whose last entry is +1.
    side = np.hstack([side, np.ones((len(side), 1))]) if problem.lifted else side[: (len(side) + 1) // 2]
    first, second = np.triu_indices(len(side))
    return _best(problem, _features(problem, side[first], side[second]), _price(problem))[:2]


def optimum_of_blocks(problem: qsdp.TrainingProblem) -> tuple[float, float, np.ndarray]:
    """Return the best objective over all neurons, rounded up, that of no neurons, and the predictions of the best."""
    return _best(problem, *with_columns(problem, *features_of_blocks(problem, *_pairs(problem.blocks))))


def _best(problem: qsdp.TrainingProblem, F: np.ndarray, weight: Any) -> tuple[float, float, np.ndarray]:
    alpha = _solved(problem, F, weight)
    # Multiples of a solution that is none can still be good; so is nothing at all.
    uppers = [sum(_value(problem, F, s * alpha, weight)) for s in (0.0, 1.0, 0.5, 0.1)[: 1 + 3 * int(np.any(alpha))]]
    return min(uppers), uppers[0], F @ alpha


def network_value(problem: qsdp.TrainingProblem, network: qsdp.BilinearNetwork) -> tuple[float, float, float]:
    """Return the objective of a network, from the definition, what it errs by at most, and what floats would."""
    U, V = network.U, network.V
    alpha = network.alpha
    if network.blocks is not None:
        F, weight = with_columns(problem, *features_of_blocks(problem, U, V, network.block))
        alpha = np.concatenate([alpha, network.weights])
    else:
        F, weight = _features(problem, U.astype(float), V.astype(float)), _price(problem)
    return (*_value(problem, F, alpha, weight), _value(problem, F, alpha, weight, 2.0**-52)[1])


def _price(problem: qsdp.TrainingProblem) -> Any:
    return Extended(problem.beta) * Extended(problem.dimension)


def _features(problem: qsdp.TrainingProblem, U: np.ndarray, V: np.ndarray) -> np.ndarray:
    U, V = U.astype(Extended), V.astype(Extended)
    if SAMPLES not in problem.weight_map.offers:
        # Upper triangles of the matrices themselves, of a problem from statistics.
        first, second = np.triu_indices(problem.size)
        pairs = U[:, first] * V[:, second] + (first != second) * U[:, second] * V[:, first]
        return problem.weight_map.forms.astype(Extended) @ pairs.T
    extended = {"X": problem.X.astype(Extended), "activation": problem.activation}
    return neuron_values(SimpleNamespace(n_features=problem.n_features, lifted=problem.lifted, **extended), U, V)


def features_of_blocks(
    problem: qsdp.TrainingProblem, U: np.ndarray, V: np.ndarray, block: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of neurons at the samples, from the definition, and the price of each."""
    data, rows = problem.X, problem.X.rows.astype(Extended)
    vectors, start, r, prices = np.zeros((len(U), rows.shape[1]), Extended), 0, 0, []
    for N, kind, omega in zip(data.sizes, data.kinds, problem.blocks.all_omega, strict=True):
        flat = kind != "quadratic"
        pairs = [(i, i) for i in range(N)] if flat else [(i, j) for i in range(N) for j in range(i, N)]
        if kind != "weights":
            mine = block == r
            for place, (i, j) in enumerate(pairs, start):
                both = U[mine, i] * V[mine, j] + (i != j) * U[mine, j] * V[mine, i]
                vectors[mine, place] = U[mine, i] if flat else both
            r += 1
            prices.append(Extended(omega) * N)
        start += len(pairs)
    return rows @ vectors.T, Extended(problem.beta) * np.array(prices)[block]


def with_columns(problem: qsdp.TrainingProblem, F: np.ndarray, prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Append the columns that have real weights, and their prices, to values of neurons and their prices."""
    data, start, features, costs = problem.X, 0, [F], [prices]
    for N, kind, omega in zip(data.sizes, data.kinds, problem.blocks.all_omega, strict=True):
        length = N * (N + 1) // 2 if kind == "quadratic" else N
        if kind == "weights":
            features.append(data.rows[:, start : start + N].astype(Extended))
            costs.append(Extended(problem.beta) * np.broadcast_to(np.asarray(omega, dtype=Extended), (N,)))
        start += length
    return np.hstack(features), np.concatenate(costs)


def _pairs(layout: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all neurons on blocks; of (u, v) and (v, u), one."""
    U, V, block = all_neurons(layout)
    kept = [u.tolist() >= v.tolist() for u, v in zip(U, V, strict=True)]
    return U[kept], V[kept], block[kept]


def _value(
    problem: qsdp.TrainingProblem, F: np.ndarray, alpha: np.ndarray, weight: Any, eps: float = np.finfo(Extended).eps
) -> tuple[float, float]:
    """Return the objective of weights of features, and a bound of its rounding, that to a float included.

    With the unit roundoff of floats as `eps` the bound is that of an evaluation in floats.
    """
    a = alpha.astype(Extended)
    M, prediction = problem.levels - 1, F @ a
    if problem.blocks is not None:
        size = 2 * np.abs(problem.X.rows.astype(Extended)).sum(axis=1)
    elif SAMPLES not in problem.weight_map.offers:
        size = 2 * M**2 * np.abs(problem.weight_map.forms).sum(axis=1)
    else:
        c = np.abs(problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)).astype(Extended)
        size = np.polyval(c, M * np.abs(problem.X.astype(Extended)).sum(axis=1))
    # Terms of features and predictions are no larger than magnitudes, however much of them cancels.
    magnitude = np.multiply.outer(size, np.abs(a).sum(axis=0))
    error = 4 * (problem.n_features + len(a) + 8) * eps * magnitude
    penalty = (weight * np.abs(a).T).sum()
    value = _loss(problem, prediction, 0 * error) + penalty
    upper = (_loss(problem, prediction, error) + penalty) * (1 + 64 * (problem.y.size + len(a)) * eps)
    if not np.isfinite(upper):
        return np.inf, np.inf
    return float(value), float(upper - value) + 2.0**-51 * float(value)


def _loss(problem: qsdp.TrainingProblem, t: np.ndarray, error: np.ndarray) -> Any:
    """Return the weighted loss where every prediction errs by so much, at most."""
    y, w = problem.y.astype(Extended), _row_weights(problem)
    if problem.loss.name == "cross_entropy":
        top = t.max(axis=1)
        terms = top + np.log(np.exp(t - top[:, None]).sum(axis=1)) - (y * t).sum(axis=1) + 2 * error.max(axis=1)
    else:
        terms = np.maximum(_entries(problem, t - error, y), _entries(problem, t + error, y))
    return (w * terms.T).sum()


def _entries(problem: qsdp.TrainingProblem, t: np.ndarray, y: np.ndarray) -> np.ndarray:
    name, r, margin = problem.loss.name, y - t, y * t
    if name == "squared":
        return r * r
    if name == "absolute":
        return np.abs(r)
    if name == "huber":
        delta = Extended(problem.loss.parameters()["delta"])
        return np.where(np.abs(r) <= delta, r * r, 2 * delta * np.abs(r) - delta * delta)
    if name == "logistic":
        return np.maximum(-margin, 0) + np.log1p(np.exp(-np.abs(margin)))
    short = np.maximum(0, 1 - margin)
    return short if name == "hinge" else short * short


def _row_weights(problem: qsdp.TrainingProblem) -> np.ndarray:
    w = np.ones(len(problem.y)) if problem.sample_weight is None else problem.sample_weight
    return w.astype(Extended)


def _solved(problem: qsdp.TrainingProblem, F: np.ndarray, weight: Any) -> np.ndarray:
    """Return the weights of features that Clarabel finds; zero where it fails.

    Targets are at most one, the loss of zero is one, and columns of features are at most one.
    """
    unit, zero = 1.0, np.zeros(problem.y.shape)
    if problem.loss.name in ("squared", "absolute", "huber"):
        unit = float(np.abs(problem.y).max()) or 1.0
    value = _loss(problem, zero, zero)
    size = np.abs(F).max(axis=0)
    size[size == 0] = 1
    if not (value > 0 and 1e-150 < unit < 1e150):
        return np.zeros((F.shape[1], *zero.shape[1:]))
    loss, factor = problem.loss.rescaled(unit)
    A, w = (F / size).astype(float), (_row_weights(problem) * Extended(factor) / value).astype(float)
    price = np.minimum(weight * Extended(unit) / value / size, Extended(1e30)).astype(float)
    if not problem.scalar:
        w = np.repeat(w[:, None], 1 if loss.coupled else problem.n_outputs, axis=1)
    positive, negative = (cp.Variable((F.shape[1], *zero.shape[1:]), nonneg=True) for _ in range(2))
    fit = loss.expression(A @ (positive - negative), problem.y / unit, w)
    objective = fit + cp.sum(price @ (positive + negative))
    try:
        cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL, max_iter=100, time_limit=5.0, **_TOLERANCES)
    except KeyboardInterrupt:
        raise
    except BaseException:  # the solver's own panics are no Exception
        positive.value = negative.value = None
    if positive.value is None or negative.value is None:
        return np.zeros(positive.shape)
    # Weights of no use are exactly zero.
    found = np.maximum(positive.value, 0.0) - np.maximum(negative.value, 0.0)
    return (np.nan_to_num(found, posinf=0.0, neginf=0.0).astype(Extended).T * Extended(unit) / size).T
