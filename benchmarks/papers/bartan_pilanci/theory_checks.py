"""Measurements for `theory`: one case of each proven statement of Bartan and Pilanci."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh, orth, svdvals

import qsdp
from qsdp import paper
from qsdp.column_generation import column_generation

GAMMA = math.log(1.0 + math.sqrt(2.0))
KRIVINE = math.pi / (2.0 * GAMMA)
ACTIVATIONS: dict[str, tuple[float, float, float]] = {
    "quadratic": (1.0, 0.0, 0.0),
    "relu_like": (0.0937, 0.5, 0.4688),
    "general": (-0.7, 0.3, 1.1),
}


def reduction(case: dict[str, Any]) -> dict[str, Any]:
    """Compare the predictions of networks before and after mapping them by Theorem 1 and Appendix C.

    `values` counts the different first-layer weights of the mapped networks; `outside` is how far the bilinear networks
    are from the span of all neurons of M + 1 levels.
    """
    rng = np.random.default_rng(case["seed"])
    levels, activation, m, d = case["levels"], ACTIVATIONS[case["activation"]], 20, 5
    lifted = activation != ACTIVATIONS["quadratic"]
    forth, back, printed, neurons, counts, outside = [], [], [], [], [], []
    for _ in range(case["networks"]):
        X, alpha = rng.standard_normal((50, d)), rng.standard_normal(m)
        weights = rng.integers(0, levels, (3, m, d)) * 2 - (levels - 1)
        polynomial = qsdp.PolynomialNetwork(weights[0], alpha, activation)
        forth.append(_distance(qsdp.from_polynomial(polynomial).predict(X), polynomial.predict(X)))
        last = rng.choice([-1, 1], size=(2, m, 1))
        U, V = (np.hstack([w, s]) if lifted else w for w, s in zip(weights[1:], last, strict=True))
        bilinear = qsdp.BilinearNetwork(U, V, alpha, levels=levels, activation=activation)
        mapped = bilinear.to_polynomial("3m")
        back.append(_distance(mapped.predict(X), bilinear.predict(X)))
        neurons.append(mapped.n_neurons / m)
        counts.append(len(np.unique(mapped.Q)))
        outside.append(_distance_from_span(bilinear.predict(X), X, levels, activation))
        if levels == 2:
            # The appendix states the coefficients for neurons whose last entries are one.
            signs = last[0] * last[1] if lifted else np.ones((m, 1))
            u, v = (w * s if lifted else w for w, s in zip(weights[1:], last, strict=True))
            rows, weight = np.vstack([(u + v) // 2, u, v]), alpha * signs[:, 0]
            plain = qsdp.PolynomialNetwork(rows, np.concatenate([weight, -weight, -weight]), activation)
            printed.append(_distance(plain.predict(X), bilinear.predict(X)))
    return {
        "forth": max(forth),
        "back": max(back),
        "neurons": max(neurons),
        "values": max(counts),
        "outside": max(outside),
        "printed": _median(printed),
    }


def optima(case: dict[str, Any]) -> dict[str, Any]:
    """Return the optimum of (24) beside that of (12), both proven, for sigma = t^2 on Gaussian data."""
    rng = np.random.default_rng(case["seed"])
    X, y = rng.standard_normal((case["n"], case["d"])), 2.0 * rng.standard_normal(case["n"])
    problem = qsdp.TrainingProblem(X, y, beta=case["beta"], activation="quadratic", levels=case["levels"])
    certificate = column_generation(problem, tol=1e-8, random_state=0, time_limit=20.0).certificate
    bilinear = {"optimum": certificate.objective, "bound": certificate.lower_bound}
    return {"bilinear": bilinear, "polynomial": _direct_optimum(problem)}


def _direct_optimum(problem: qsdp.TrainingProblem) -> dict[str, float]:
    """Return the optimum of (12) for the squared loss and a lower bound on it, by the list of all neurons."""
    M, d = problem.levels - 1, problem.n_features
    Q = np.array(list(itertools.product(range(-M, M + 1, 2), repeat=d)))
    Q = Q[: (len(Q) + 1) // 2]
    neurons = qsdp.from_polynomial(qsdp.PolynomialNetwork(Q, np.zeros(len(Q)), problem.activation))
    best = qsdp.refit(neurons, problem)
    nu = 2.0 * (problem.y - best.predict(problem.X))
    nu *= min(1.0, problem.beta * problem.dimension / float(np.abs(np.square(problem.X @ Q.T).T @ nu).max()))
    return {"optimum": problem.objective(best), "bound": float(problem.y @ nu - 0.25 * nu @ nu)}


def shaping(case: dict[str, Any]) -> dict[str, Any]:
    """Measure Theorem 2: covariances of a random feasible Z, in closed form and by (27), and signs drawn from one."""
    rng = np.random.default_rng(case["seed"])
    d = case["d"]
    # Unit vectors in few dimensions, so that some inner products are near one.
    vectors = rng.standard_normal((2 * d, case["rank"]))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    gram = vectors @ vectors.T
    # Symmetrised, since the blocks of relaxations are symmetric.
    V, Z = 0.5 * (gram[:d, :d] + gram[d:, d:]), 0.5 * (gram[:d, d:] + gram[d:, :d])
    closed = paper.shape(Z, V)
    measured = {}
    for method, shaped in (("krivine", closed), ("sdp", paper.solve_shaping(Z, 1.0))):
        lowest = float(eigvalsh(shaped.Q)[0])
        measured[method] = {"residual": shaped.residual, "diagonal": shaped.diagonal_error, "eigenvalue": lowest}
    network = qsdp.sample_network(closed, 20_000, rng)
    mean = network.U.T.astype(float) @ network.V / network.n_neurons
    return {**measured, "slope": float(np.sum(mean * Z) / np.sum(GAMMA * Z * Z))}


def concentration(case: dict[str, Any]) -> dict[str, Any]:
    """Measure Theorem 3: the distance of sampled networks from the optimum of (24), by their number of neurons.

    The loss is the mean absolute error, with Lipschitz constant 1 in the largest error.
    """
    n, d = case["n"], case["d"]
    X, y = qsdp.datasets.make_planted(n, d, 10, noise=1.0, random_state=case["seed"])
    problem = qsdp.TrainingProblem(X, y / y.std(), beta=case["beta"], loss="absolute")
    relaxation = qsdp.solve_relaxation(problem)
    optimum = column_generation(problem, random_state=case["seed"], time_limit=20.0)
    covariance = qsdp.shape_covariance(relaxation, method="krivine")

    def loss(predictions: np.ndarray) -> float:
        return problem.loss.value(predictions, problem.y) / n

    best = loss(optimum.network.predict(problem.X))
    expected = 2.0 / np.pi * np.arcsin(covariance.Q)
    mean = expected[:d, d:]
    sides = d * expected[:d, :d] - mean @ mean.T, d * expected[d:, d:] - mean.T @ mean
    variance = max(map(_norm, sides))
    rng = np.random.default_rng(case["seed"])
    losses, spectral = [], []
    for m in case["neurons"]:
        networks = [qsdp.sample_network(covariance, m, rng) for _ in range(case["networks"])]
        losses.append([abs(loss(network.predict(problem.X)) - best) for network in networks])
        spectral.append([_norm(net.U.T.astype(float) @ net.V / m - mean) for net in networks])
    radius = float(np.linalg.norm(X, axis=1).max())
    return {"loss": losses, "spectral": spectral, "variance": variance, "radius": radius}


def bernstein(case: dict[str, Any], measured: dict[str, Any], m: int, failure: float = 0.05) -> float:
    r"""Return the :math:`\epsilon` that the spectral error exceeds with at most the given probability.

    .. math::

        2 d \exp\Big(-\frac{m \epsilon^2 / 2}{v + 2 d \epsilon / 3}\Big) = \text{failure}

    This is (28) with the constants of matrix Bernstein written out: :math:`v` is the matrix variance of one neuron,
    whose deviation has a spectral norm of at most 2d.
    """
    d, log = case["d"], math.log(2.0 * case["d"] / failure)
    half = 2.0 * d * log / 3.0 / m
    return half + math.sqrt(half**2 + 2.0 * log * measured["variance"] / m)


def constants(case: dict[str, Any]) -> dict[str, Any]:
    """Return the optimum of (24) beside relaxations: with the tight regulariser, as printed, and at other betas."""
    X, y = qsdp.datasets.make_planted(40, case["d"], 5, noise=2.0, random_state=case["seed"])
    X = X / X.std(axis=0)
    activation = ACTIVATIONS.get(case["activation"])
    options = {"loss": "squared", "activation": activation, "levels": case["levels"]}
    beta = case["share"] * qsdp.beta_max(qsdp.TrainingProblem(X, y, beta=1.0, **options))

    def problem(beta: float) -> qsdp.TrainingProblem:
        return qsdp.TrainingProblem(X, y, beta=beta, **options)

    def relaxed(beta: float) -> float:
        return qsdp.solve_relaxation(problem(beta), tol=1e-8).objective

    exact = column_generation(problem(beta), random_state=0, time_limit=20.0)
    # The program as printed in the paper, by the paper's solver.
    printed = paper.full_program(problem(beta)).problem.solve(solver="SCS", eps=1e-9, max_iters=200_000)
    return {
        "optimum": exact.certificate.objective,
        "tight": relaxed(beta),
        "printed": float(printed),
        "half": relaxed(0.5 * beta),
        "krivine": relaxed(KRIVINE * beta),
    }


def _distance(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first - second).max() / np.abs(second).max())


def _distance_from_span(values: np.ndarray, X: np.ndarray, levels: int, activation: tuple[float, ...]) -> float:
    """Return the relative distance of values from the span of sigma(X q) over all q of the levels."""
    grid = np.array(list(itertools.product(range(1 - levels, levels, 2), repeat=X.shape[1])), dtype=float)
    basis = orth(np.polyval(activation, X @ grid.T))
    return float(np.linalg.norm(values - basis @ (basis.T @ values)) / np.linalg.norm(values))


def _norm(matrix: np.ndarray) -> float:
    return float(svdvals(matrix)[0])


def _median(numbers: list[float]) -> float | None:
    return float(np.median(numbers)) if numbers else None


CHECKS = {
    "reduction": reduction,
    "optima": optima,
    "shaping": shaping,
    "concentration": concentration,
    "constants": constants,
}
