"""No lower bound may exceed the objective of any network: random small problems.

All seven losses in turn, beta log-uniform in 1e-4 .. 30, two and three levels, bilinear and lifted, Gaussian and coarse
data (integers: ties, equal rows, zero columns), one output and several. For each problem every bound there is, against
the best network there is. Bounds: column generation's certificate, the same proof with guarded rounding
(`verified_bound`), those of random, perturbed and gradient dual vectors with random weights (`best_dual_bound`), and
for one problem in twenty those of relaxations solved loosely and well, and `certify` exact and guarded. Networks:
column generation's, none at all, random ones (for one in three with the second layer fitted), polished ones, for one in
twenty sampled ones, and for one in four the best polynomial one, whose own bound is tested too. Problem k is
`instance(k)`. `benchmarks.campaigns soundness` compares bounds of many more problems with optima that it enumerates.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import qsdp
from qsdp.certificates.verification import verified_bound
from qsdp.column_generation import column_generation
from qsdp.losses import Huber
from qsdp.refinement.polishing import polish
from qsdp.refinement.refitting import refit
from qsdp.relaxation.bounds import best_dual_bound

LOSSES = ("squared", "absolute", "huber", "logistic", "hinge", "squared_hinge", "cross_entropy")
LABELS = ("logistic", "hinge", "squared_hinge")
ACTIVATIONS = (None, None, "quadratic", "relu_like", "linear_quadratic", "random")
RELAXED, POLYNOMIAL, REFITTED = 20, 4, 3
SECONDS = 20.0

Result = dict[str, Any]


# -- problems and networks -------------------------------------------------------------------------------


def instance(seed: int) -> qsdp.TrainingProblem:
    """Return the problem of a seed."""
    rng = np.random.default_rng([seed, 7])
    name = LOSSES[seed % len(LOSSES)]
    levels = int(rng.integers(2, 4))
    d, n = int(rng.integers(1, 8 - levels)), int(rng.integers(3, 13))
    X = rng.integers(-2, 3, size=(n, d)).astype(float) if rng.random() < 0.4 else rng.standard_normal((n, d))
    X *= 10.0 ** rng.integers(-1, 2)
    several = int(rng.integers(2, 4)) if name == "cross_entropy" or rng.random() < 0.25 else 0
    shape = (n, several) if several else (n,)
    if name == "cross_entropy":
        y = rng.permutation(np.arange(n) % several).astype(float)
    elif name in LABELS:
        y = np.where(rng.random(shape) < 0.5, -1.0, 1.0)
        y[0], y[1] = -1.0, 1.0
    else:
        y = rng.integers(-2, 3, size=shape).astype(float) if rng.random() < 0.3 else rng.standard_normal(shape)
        y *= 10.0 ** rng.integers(-1, 2)
    activation: Any = ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
    if activation == "random":
        activation = tuple(np.round(rng.standard_normal(3), 2))
    loss = Huber(delta=10.0 ** rng.uniform(-1, 1)) if name == "huber" else name
    beta = float(np.exp(rng.uniform(np.log(1e-4), np.log(30.0))))
    return qsdp.TrainingProblem(X, y, beta=beta, loss=loss, activation=activation, levels=levels)


def random_network(problem: qsdp.TrainingProblem, m: int, rng: np.random.Generator) -> qsdp.BilinearNetwork:
    """Return m neurons of any levels, with small weights for one output each."""
    U, V = rng.integers(0, problem.levels, size=(2, m, problem.size)) * 2 - (problem.levels - 1)
    for W in (U, V):
        W[:, problem.n_features :] = rng.choice([-1, 1], size=(m, problem.size - problem.n_features))
    alpha = np.full(m, 0.01)
    if problem.vector:
        alpha = np.zeros((m, problem.n_outputs))
        alpha[np.arange(m), np.arange(m) % problem.n_outputs] = 0.01
    return qsdp.BilinearNetwork(U, V, alpha, problem.levels, problem.activation)


# -- one problem -----------------------------------------------------------------------------------------


def tested(seed: int) -> Result:
    """Return every bound beside the best objective, and what column generation left open, for one problem."""
    start = time.process_time()
    problem, rng = instance(seed), np.random.default_rng([seed, 8])
    bounds: dict[str, float] = {}
    objectives: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", qsdp.QSDPWarning)
        result = column_generation(problem, random_state=seed, time_limit=SECONDS)
        proof = result.certificate.proof
        assert proof is not None
        objectives["column generation"] = problem.objective(result.network)
        bounds["column generation"] = result.lower_bound
        bounds["its proof, guarded"] = verified_bound(problem, proof.nu, proof.trees)

        objectives["none"] = problem.loss.value(np.zeros_like(problem.y), problem.y)
        random = random_network(problem, 30, rng)
        if seed // len(LOSSES) % REFITTED == 0:
            random = refit(random, problem)
        objectives["random"] = problem.objective(random)
        polished = polish(random_network(problem, 4, rng), problem, random_state=rng, max_sweeps=5)
        objectives["polished"] = problem.objective(polished)
        bounds["dual vectors at random"] = dual_bound(problem, proof.nu, random, polished, rng)
        if seed % RELAXED == 0:
            relaxed(problem, polished, result.network, bounds, objectives, rng)
        pairs = [(label, value, min(objectives.values())) for label, value in bounds.items()]
        gaps, statuses = {"bilinear": result.relative_gap}, {"bilinear": result.status}
        if not problem.vector and seed // len(LOSSES) % POLYNOMIAL == 0:
            gaps["polynomial"], statuses["polynomial"], pairs = polynomial(problem, pairs, seed, rng)
    return {
        "seed": seed,
        "loss": problem.loss.name,
        "n": problem.n_samples,
        "columns": problem.size,
        "outputs": problem.n_outputs,
        "levels": problem.levels,
        "beta": problem.beta,
        "bounds": [{"bound": label, "value": bound, "best": best} for label, bound, best in pairs],
        "gaps": gaps,
        "statuses": statuses,
        "kind": result.certificate.bound_type,
        "seconds": time.process_time() - start,
    }


def dual_bound(
    problem: qsdp.TrainingProblem,
    nu: np.ndarray,
    random: qsdp.BilinearNetwork,
    polished: qsdp.BilinearNetwork,
    rng: np.random.Generator,
) -> float:
    """Return the bound of dual vectors that are random, perturbed and gradients, with random weights."""
    noise = rng.standard_normal(problem.y.shape)
    duals = [
        noise * 10.0 ** rng.uniform(-3, 3),
        nu,
        nu * (1.0 + 10.0 ** rng.uniform(-9, 0) * noise),
        -problem.loss.gradient(random.predict(problem.X), problem.y),
        -problem.loss.gradient(polished.predict(problem.X), problem.y) * rng.uniform(0.5, 2.0),
    ]
    shape = (problem.n_outputs, problem.size) if problem.vector else (problem.size,)
    weights = [rng.standard_normal(shape), np.exp(3.0 * rng.standard_normal(shape))]
    return float(best_dual_bound(problem, duals, weights).value)


def relaxed(
    problem: qsdp.TrainingProblem,
    polished: qsdp.BilinearNetwork,
    best: qsdp.BilinearNetwork,
    bounds: dict[str, float],
    objectives: dict[str, float],
    rng: np.random.Generator,
) -> None:
    """Add the bounds of relaxations and their certificates, and networks that are sampled from them."""
    loose = qsdp.solve_relaxation(problem, tol=10.0 ** rng.uniform(-3, -1), max_iter=int(rng.integers(5, 200)))
    relaxation = qsdp.solve_relaxation(problem)
    bounds["relaxation, loose"], bounds["relaxation"] = loose.lower_bound, relaxation.lower_bound
    for method, one in (("krivine", loose), ("adaptive", relaxation)):
        if one.status != "failed":
            sampled = qsdp.sample_network(qsdp.shape_covariance(one, method=method), 100, rng)
            objectives[f"sampled, {method}"] = problem.objective(sampled)
    for bound_type in ("sdp", "exact"):
        for arithmetic in ("float", "verified"):
            certificate = qsdp.certify(polished, problem, loose, bound_type=bound_type, arithmetic=arithmetic)
            bounds[f"certify, {bound_type}, {arithmetic}"] = certificate.lower_bound
    bounds["certify, own network"] = qsdp.certify(best, problem, relaxation, bound_type="exact").lower_bound


def polynomial(
    problem: qsdp.TrainingProblem,
    pairs: Sequence[tuple[str, float, float]],
    seed: int,
    rng: np.random.Generator,
) -> tuple[float, str, list[tuple[str, float, float]]]:
    """Return gap and status of the best polynomial network, and all pairs, compared with it too."""
    other = column_generation(problem, neurons="polynomial", random_state=seed, time_limit=SECONDS)
    value = other.network.objective(problem)
    # A polynomial network is a bilinear one; the lift's last entry makes its neurons dearer.
    same = problem.objective(qsdp.from_polynomial(other.network))
    compared = [(label, bound, min(best, same)) for label, bound, best in pairs]
    some = random_network(problem, 5, rng)
    activation = problem.activation or qsdp.PolynomialActivation(1.0, 0.0, 0.0)
    network = qsdp.PolynomialNetwork(some.U[:, : problem.n_features], some.alpha, activation)
    compared.append(("polynomial", other.lower_bound, min(value, network.objective(problem))))
    return 1.0 - other.lower_bound / value, other.status, compared
