"""The linear algebra inside of the built-in solvers, against its definition entry by entry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.block_layout import Layout
from qsdp.gram import Gram, GramFactor, to_vectors
from qsdp.lifting import QuadraticMap, append_constant
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import ScaledProblem, Settings
from qsdp.relaxation.solution import finish
from qsdp.relaxation.solvers.interior import coordinates
from qsdp.relaxation.solvers.interior.coordinates import Coordinates, FormCoordinates, SampleCoordinates
from qsdp.relaxation.solvers.splitting import solve_splitting
from qsdp.relaxation.solvers.splitting.data_step import GramStep, IterativeStep, KernelStep

# -- splitting: the step through the data, and acceleration -----------------------------------------------


@settings(max_examples=25, deadline=None)
# Rounding makes directions of conjugate gradients unsymmetric, which products must not amplify.
@example(seed=0, n=4, d=1, outputs=1, w=30.0, activation="relu_like")
# Predictions of large rows.
@example(seed=321288194, n=18, d=2, outputs=1, w=1.0, activation=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 20),
    d=st.integers(1, 5),
    outputs=st.integers(1, 3),
    w=st.sampled_from([1e-2, 1.0, 30.0]),
    activation=st.sampled_from([None, "relu_like", (0.0, 1.0, 0.3)]),
)
def test_steps_solve_the_same_problem(seed, n, d, outputs, w, activation):
    rng = np.random.default_rng(seed)
    problem = qsdp.TrainingProblem(rng.standard_normal((n, d)), rng.standard_normal(n), beta=1.0, activation=activation)
    N = problem.size
    delta = np.exp(rng.standard_normal(N))
    T0, q = rng.standard_normal((outputs, N, N)), rng.standard_normal((n, outputs))
    T0 = T0 + T0.transpose(0, 2, 1)
    forward = np.array([problem.map.forward(E) for E in np.eye(N * N).reshape(-1, N, N)]).T
    forward = 0.5 * (forward + forward.reshape(n, N, N).transpose(0, 2, 1).reshape(n, -1))
    scaled = forward / np.outer(delta, delta).ravel()
    expected = np.stack(
        [
            np.linalg.solve(
                w * scaled.T @ scaled + 0.5 * np.eye(N * N), w * scaled.T @ q[:, k] + 0.5 * T0[k].ravel()
            ).reshape(N, N)
            for k in range(outputs)
        ]
    )
    own = np.arange(outputs)
    size = np.abs(expected).max() + np.abs(q).max()
    gram, products = Gram.from_map(problem.map, q).into_basis()
    steps = [
        KernelStep(problem.map),
        GramStep(problem.map, gram),
        GramStep(problem.map, gram, products),
        IterativeStep(problem.map),
    ]
    for step in steps:
        step.prepare(delta[None], w, 1.0)
        for _ in range(30 if isinstance(step, IterativeStep) else 1):
            T, _, predictions = step.solve(T0[:, None], np.zeros((outputs, 0)), q, own)
        np.testing.assert_allclose(T[:, 0], expected, atol=1e-8 * size)
        if predictions is not None:
            amplified = size * max(1.0, np.abs(scaled).sum(axis=1).max())
            np.testing.assert_allclose(predictions, scaled @ T.reshape(outputs, -1).T, atol=1e-8 * amplified)


# -- single precision ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "weighted"), [("kernel", True), ("gram", False)])
def test_splitting_in_single_precision_reaches_a_thousandth(
    monkeypatch: pytest.MonkeyPatch, step: str, weighted: bool
) -> None:
    monkeypatch.setattr("qsdp.relaxation.solvers.splitting.data_step.MANY_ROWS", 0)
    monkeypatch.setattr("qsdp.relaxation.solvers.splitting.admm.MANY_ROWS", 0)
    rng = np.random.default_rng(0)
    X = append_constant(rng.standard_normal((300, 17)))
    Y = np.eye(3)[rng.integers(3, size=300)] + 0.1 * X[:, :3] * X[:, 1:4]
    weights = rng.integers(1, 4, size=300) if weighted else None
    problem = qsdp.TrainingProblem(X, Y, beta=0.3, sample_weight=weights)
    raw = solve_splitting(Instance.from_problem(problem).normalised()[0], Settings(1e-3), step=step)
    single = finish(ScaledProblem.from_problem(problem), raw, solver="", tol=1e-3, certified=True)
    assert raw.status == single.status == "optimal"
    interior = qsdp.solve_relaxation(problem, solver="interior", tol=1e-6)
    assert single.lower_bound <= interior.objective
    assert interior.lower_bound <= single.objective <= interior.objective * 1.0011


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_gaps_that_single_precision_leaves_close_in_double_precision(
    monkeypatch: pytest.MonkeyPatch, n_outputs: int
) -> None:
    monkeypatch.setattr("qsdp.relaxation.solvers.splitting.data_step.MANY_ROWS", 0)
    monkeypatch.setattr("qsdp.relaxation.solvers.splitting.admm.MANY_ROWS", 0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 17))
    Y = (X[:, 1:2] * X[:, :n_outputs] + 0.3 * rng.standard_normal((300, n_outputs))).squeeze()
    # Dual matrices are small differences of large ones.
    problem = qsdp.TrainingProblem(X, Y, beta=1e-7 * qsdp.beta_max(qsdp.TrainingProblem(X, Y, beta=1.0)))
    raw = solve_splitting(Instance.from_problem(problem).normalised()[0], Settings(1e-3, max_iter=500), step="gram")
    assert raw.status == "optimal"
    assert finish(ScaledProblem.from_problem(problem), raw, solver="", tol=1e-3, certified=True).status == "optimal"


# -- interior points: kernels, borders and steps to the boundary of the cone --------------------------------


MAPS = (
    QuadraticMap(np.random.default_rng(0).standard_normal((57, 5))),
    QuadraticMap(np.random.default_rng(1).standard_normal((57, 5)), (-0.7, 0.0, 0.0)),
    QuadraticMap(np.random.default_rng(2).standard_normal((57, 4)), (0.1, 0.5, 0.2), lifted=True),
    QuadraticMap(np.random.default_rng(3).standard_normal((1, 1))),
    # A Gram matrix of low rank: squares of signs are one.
    QuadraticMap(np.random.default_rng(6).choice([-1.0, 1.0], (57, 5))),
)


def systems(data: QuadraticMap) -> list[Coordinates]:
    rows = np.stack([data.layout.entries(data.adjoint(row)[None])[0] for row in np.eye(data.n_rows)])
    rows *= data.layout.factors
    factor = GramFactor(rows.T @ rows)
    return [
        SampleCoordinates(data),
        FormCoordinates(data.layout, data.features()),
        FormCoordinates(data.layout, factor.rows),
        FormCoordinates(data.layout, factor.lower.T, factor.order),
        FormCoordinates(data.layout, np.eye(data.layout.n_entries)),
    ]


@pytest.mark.parametrize("block", [1, 2**19])
@pytest.mark.parametrize("data", MAPS)
def test_kernels_and_borders_are_those_of_the_definition(monkeypatch, data, block):
    monkeypatch.setattr(coordinates, "CACHE_FLOATS", block)
    monkeypatch.setattr(coordinates, "FAST_FLOATS", block)
    G = np.random.default_rng(4).standard_normal((2, data.size, data.size))
    W = G @ G.swapaxes(-1, -2)
    for system in systems(data):
        rows = np.stack([system.adjoint(row)[0] for row in np.eye(system.length)])
        turned = W[:, None] @ rows @ W[:, None]
        kernel = np.full((system.length, system.length), np.nan)
        expected = np.einsum("iab,sjab->ij", rows, turned)
        scale = np.abs(expected).max()
        upper = np.triu_indices(system.length)
        system.kernel(G[None], W[None], kernel)
        np.testing.assert_allclose(kernel[upper], expected[upper], rtol=0.0, atol=1e-12 * scale)
        border = np.einsum("ka,iab,kb->ik", W[0], rows, W[0]) - np.einsum("ka,iab,kb->ik", W[1], rows, W[1])
        bordered = system.border(W[None])
        np.testing.assert_allclose(bordered, border, rtol=0.0, atol=1e-12 * max(scale, np.abs(border).max()))
        vectors = G[0, :3]
        squares = np.einsum("va,iab,vb->vi", vectors, rows, vectors)
        np.testing.assert_allclose(system.squares(vectors), squares, rtol=0.0, atol=1e-12 * np.abs(squares).max())


@pytest.mark.parametrize("block", [1, 2**19])
@pytest.mark.parametrize("data", MAPS)
def test_weighted_gram_matrices_are_those_of_the_definition(monkeypatch, data, block):
    monkeypatch.setattr(coordinates, "CACHE_FLOATS", block)
    rng = np.random.default_rng(6)
    Q, weights = rng.standard_normal((data.size, data.size)), rng.uniform(0.5, 2.0, data.n_rows)
    samples, gram = SampleCoordinates(data), np.full((data.layout.n_entries,) * 2, np.nan, order="F")
    samples.weighted_gram(weights, Q, gram)
    matrices = np.stack([Q.T @ samples.adjoint(row)[0] @ Q for row in np.eye(data.n_rows)])
    rows = to_vectors(matrices, data.layout)
    expected = (rows * weights) @ rows.T
    lower = np.tril_indices(len(gram))
    np.testing.assert_allclose(gram[lower], expected[lower], rtol=0.0, atol=1e-12 * np.abs(expected).max())


def test_both_ways_of_a_squared_loss_have_the_same_optimum(monkeypatch):
    rng = np.random.default_rng(5)
    problem = qsdp.TrainingProblem(rng.standard_normal((80, 10)), rng.standard_normal(80), beta=1.0)
    found = []
    for factored in (True, False):
        monkeypatch.setattr(
            "qsdp.relaxation.solvers.interior.interior_point.takes_factor", lambda data, way=factored: way
        )
        found.append(qsdp.solve_relaxation(problem, solver="interior", tol=1e-9))
    assert all(relaxation.status == "optimal" for relaxation in found)
    assert max(one.lower_bound for one in found) <= min(one.objective for one in found)
    assert abs(found[0].objective - found[1].objective) <= 1e-8 * found[0].objective


def test_kernels_and_borders_of_blocks_are_sums_over_blocks():
    rng = np.random.default_rng(0)
    layout = Layout((2, 3, 3), (False, True, False), (1.0, 1.0, 1.0))
    system = FormCoordinates(layout, rng.standard_normal((5, layout.n_entries)))
    G = np.zeros((3, 2, 3, 3))
    for r, (N, flat) in enumerate(zip(layout.sizes, layout.linear, strict=True)):
        G[r, :, :N, :N] = rng.standard_normal((2, N, N)) * (np.eye(N) if flat else 1.0)
        # Beyond its side, a block has scalings of its own, which enter nothing.
        G[r, :, range(N, 3), range(N, 3)] = 7.0
    W = G @ G.swapaxes(-1, -2)
    rows = np.stack([system.adjoint(row) for row in np.eye(5)])
    kernel = np.full((5, 5), np.nan)
    system.kernel(G, W, kernel)
    upper, expected = np.triu_indices(5), np.einsum("irab,rsbc,jrcd,rsda->ij", rows, W, rows, W)
    np.testing.assert_allclose(kernel[upper], expected[upper], atol=1e-12)
    each = np.einsum("rska,irab,rskb->sirk", W, rows, W)
    np.testing.assert_allclose(system.border(W), (each[0] - each[1]).reshape(5, -1), atol=1e-12)
    values = system.forward(rows[2])
    np.testing.assert_allclose(values, np.einsum("irab,rab->i", rows, rows[2]), atol=1e-12)


def lowest(values: np.ndarray, step: np.ndarray, length: float) -> float:
    """Return the lowest eigenvalue of the point so far along a step."""
    diagonal = np.zeros_like(step)
    np.einsum("...ii->...i", diagonal)[...] = values
    return float(np.linalg.eigvalsh(diagonal + length * step).min())
