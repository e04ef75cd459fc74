"""Small random problems with real weights beside neurons, and their optima by convex programs."""

from __future__ import annotations

from typing import Any

import numpy as np
from block_problems import all_neurons, random_targets

import qsdp

LOSSES = ("squared", "logistic", "hinge", "squared_hinge", "absolute", "huber", "cross_entropy")

#: Tolerances of Clarabel.
TIGHT = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}


def random_blocks(rng: np.random.Generator, n: int, *, neurons: bool = True) -> qsdp.Blocks:
    """Return 2 to 4 blocks, at least one of them of real weights with several prices, in any order."""
    R = int(rng.integers(1, 4))
    others = rng.choice(["quadratic", "linear", "weights"], R, p=[0.6, 0.2, 0.2])
    kinds = rng.permutation(["weights", *(others if neurons else ["weights"] * R)]).tolist()
    sizes = [int(size) for size in rng.integers(1, 5, R + 1)]
    omega = [
        rng.uniform(0.5, 2.0, size) if kind == "weights" else float(rng.uniform(0.5, 2.0))
        for size, kind in zip(sizes, kinds, strict=True)
    ]
    entries = sum(N * (N + 1) // 2 if kind == "quadratic" else N for N, kind in zip(sizes, kinds, strict=True))
    return qsdp.Blocks(rng.standard_normal((n, entries)), sizes, kinds, omega)


def random_problem(seed: int, loss: str = "squared", n: int = 12, n_outputs: int = 1, **options: Any) -> Any:
    """Return a random problem with a penalty at which some weights or neurons are used."""
    rng = np.random.default_rng(seed)
    blocks = random_blocks(rng, n, neurons=bool(seed % 5))
    targets = random_targets(rng, n, loss, n_outputs)
    problem = qsdp.TrainingProblem(as_linear_blocks(blocks), targets, beta=1.0, loss=loss)
    beta = float(rng.uniform(0.05, 0.5)) * qsdp.beta_max(problem)
    return qsdp.TrainingProblem(blocks, targets, beta=beta, loss=loss, **options)


def as_linear_blocks(blocks: qsdp.Blocks) -> qsdp.Blocks:
    """Replace every column with a real weight by a linear block of side one of the same price."""
    sizes, kinds, omega = [], [], []
    for size, kind, price in zip(blocks.sizes, blocks.kinds, blocks.omega, strict=True):
        count = size if kind == "weights" else 1
        sizes += [1] * count if kind == "weights" else [size]
        kinds += ["linear" if kind == "weights" else kind] * count
        omega += np.broadcast_to(price, (count,)).tolist()
    return qsdp.Blocks(blocks.rows, sizes, kinds, omega)


def random_network(rng: np.random.Generator, problem: Any, m: int, *, shared: bool = False) -> qsdp.BilinearNetwork:
    """Return random neurons, none without blocks for them, and weights, some of which are zero."""
    layout, shape = problem.blocks, problem.output_shape
    C, m = problem.n_outputs, m if layout.n_blocks else 0
    alpha = 0.3 * rng.standard_normal((m, C))
    if shared:
        alpha = np.eye(C)[np.sort(rng.integers(0, C, m))] * rng.uniform(0.1, 1.0, C)
    weights = rng.standard_normal((layout.n_weights, C)) * (rng.random((layout.n_weights, C)) < 0.6)
    U, V = rng.choice([-1, 1], size=(2, m, layout.side))
    block = rng.integers(0, max(layout.n_blocks, 1), m)
    return qsdp.BilinearNetwork.on_blocks(
        layout, U, V, alpha.reshape(m, *shape), block, weights.reshape(layout.n_weights, *shape)
    )


def optimum(problem: Any, neurons: Any = None, *, shared: bool = False) -> float:
    """Return the optimal value over second layers of neurons (U, V, block), of all by default, and real weights.

    With `shared`, the last entry of `neurons` is a matrix (m, C) of their signs, and an output has one magnitude.
    """
    import cvxpy as cp

    layout, rows = problem.blocks, np.asarray(problem.X.rows, dtype=float)
    if neurons is None:
        neurons = all_neurons(layout) if layout.n_blocks else None
    C = problem.n_outputs
    weights = cp.Variable((layout.n_weights, C))
    values = rows[:, layout.weight_entries] @ weights
    penalty = cp.sum(cp.multiply(layout.weight_omega[:, None], cp.abs(weights)))
    if neurons is not None and len(neurons[0]):
        U, V, block = neurons[:3]
        columns = rows @ layout.products(np.asarray(U, dtype=float), np.asarray(V, dtype=float), block).T
        if shared:
            magnitudes = cp.Variable((1, C))
            values = values + cp.multiply(columns @ neurons[3], np.ones((len(rows), 1)) @ magnitudes)
            sums = layout.prices[block] @ np.abs(neurons[3])
            penalty = penalty + cp.sum(cp.multiply(sums[None], cp.abs(magnitudes)))
        else:
            alpha = cp.Variable((len(U), C))
            values = values + columns @ alpha
            penalty = penalty + cp.sum(cp.multiply(layout.prices[block][:, None], cp.abs(alpha)))
    program = cp.Problem(cp.Minimize(problem.data_fit.expression(values) + problem.beta * penalty))
    program.solve(solver="CLARABEL", **TIGHT)
    return float(program.value)
