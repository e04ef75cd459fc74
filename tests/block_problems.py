"""Small random problems on blocks, and the best network of each by enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import qsdp

LOSSES = ("squared", "logistic", "hinge", "squared_hinge", "absolute", "huber", "cross_entropy")


def blocks_layout(sizes: list[int], kinds: list[str]) -> Any:
    """Return the layout of blocks of these sizes and kinds."""
    entries = sum(N * (N + 1) // 2 if kind == "quadratic" else N for N, kind in zip(sizes, kinds, strict=True))
    return qsdp.Blocks(np.zeros((1, entries)), sizes, kinds).layout


def random_blocks(
    rng: np.random.Generator, n: int, n_blocks: int | None = None, *, scale: float = 1.0, real: bool = False
) -> qsdp.Blocks:
    """Return random blocks: 2 to 4 of them of both kinds, with sides 2 to 4, and with weights of penalties.

    With `real`, there are one or two more blocks, of columns with real weights, at any positions.
    """
    R = int(rng.integers(2, 5)) if n_blocks is None else n_blocks
    sizes = [int(side) for side in rng.integers(2, 5, size=R)]
    kinds = [str(kind) for kind in rng.choice(["quadratic", "linear"], size=R, p=[0.7, 0.3])]
    for _ in range(int(rng.integers(1, 3)) if real else 0):
        position = int(rng.integers(len(sizes) + 1))
        sizes.insert(position, int(rng.integers(1, 6)))
        kinds.insert(position, "weights")
    blocks = list(zip(sizes, kinds, strict=True))
    rows = scale * rng.standard_normal((n, sum(N * (N + 1) // 2 if kind == "quadratic" else N for N, kind in blocks)))
    omega = [rng.uniform(0.2, 1.0, N) if kind == "weights" else rng.uniform(0.5, 2.0) for N, kind in blocks]
    return qsdp.Blocks(rows, sizes, kinds, omega)


def random_targets(rng: np.random.Generator, n: int, loss: str, n_outputs: int = 1) -> Any:
    """Return targets for a loss; the cross-entropy has three classes."""
    if loss == "cross_entropy":
        return np.concatenate([np.arange(3), rng.integers(0, 3, size=n - 3)])
    shape = (n, n_outputs) if n_outputs > 1 else (n,)
    targets = rng.standard_normal(shape)
    if loss in {"logistic", "hinge", "squared_hinge"}:
        targets = np.where(targets < 0.0, -1.0, 1.0)
        targets[0], targets[1] = -1.0, 1.0
    return targets


def random_problem(
    seed: int, loss: str = "squared", n: int = 12, n_outputs: int = 1, *, real: bool = False, **options: Any
) -> Any:
    """Return a random problem with a penalty at which some neurons are used, and `real` weights if asked for."""
    rng = np.random.default_rng(seed)
    blocks, targets = random_blocks(rng, n, real=real), random_targets(rng, n, loss, n_outputs)
    problem = qsdp.TrainingProblem(blocks, targets, beta=1.0, loss=loss, **options)
    return problem.with_beta(float(rng.uniform(0.05, 0.5)) * qsdp.beta_max(problem))


def random_network(
    rng: np.random.Generator, layout: Any, m: int, n_outputs: int | None = None, *, single: bool = False
) -> qsdp.BilinearNetwork:
    """Return m random neurons, each of one output if `single`; None outputs make a scalar network."""
    alpha = rng.standard_normal((m,) if n_outputs is None else (m, n_outputs))
    if single and n_outputs is not None:
        alpha = np.where(rng.integers(n_outputs, size=(m, 1)) == np.arange(n_outputs), alpha, 0.0)
    U, V = rng.choice([-1, 1], size=(2, m, layout.side))
    weights = rng.standard_normal((layout.n_weights, *alpha.shape[1:])) if layout.weights else None
    return qsdp.BilinearNetwork.on_blocks(layout, U, V, alpha, rng.integers(layout.n_blocks, size=m), weights)


def all_neurons(layout: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return U, V and block of all neurons, up to signs that alpha can carry."""
    U, V, block = [], [], []
    for r, (N, flat) in enumerate(zip(layout.sizes, layout.linear, strict=True)):
        vectors = [np.array(one) for one in itertools.product([1.0, -1.0], repeat=N)]
        half = [one for one in vectors if one[0] > 0.0]
        for u in half:
            for v in [np.zeros(N)] if flat else half:
                U.append(np.pad(u, (0, layout.side - N)))
                V.append(np.pad(v, (0, layout.side - N)))
                block.append(r)
    return np.array(U), np.array(V), np.array(block)


def enumerated_optimum(problem: Any, **settings: float) -> float:
    """Return the optimal value over all networks, by a convex program with a weight for every neuron and column.

    Settings are those of Clarabel, such as its tolerances.
    """
    import cvxpy as cp

    layout = problem.blocks
    U, V, block = all_neurons(layout)
    rows = np.asarray(problem.X.rows, dtype=float)
    columns, prices = layout.products(U, V, block) @ rows.T, layout.prices[block]
    if layout.weights:
        columns = np.vstack([columns, rows[:, layout.weight_entries].T])
        prices = np.append(prices, layout.weight_omega)
    alpha = cp.Variable((len(columns), problem.n_outputs))
    fit = problem.data_fit.expression(columns.T @ alpha)
    penalty = problem.beta * cp.sum(cp.multiply(prices[:, None], cp.abs(alpha)))
    program = cp.Problem(cp.Minimize(fit + penalty))
    program.solve(solver="CLARABEL", **settings)
    return float(program.value)
