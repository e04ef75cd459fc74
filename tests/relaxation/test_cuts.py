"""The relaxation with inequalities of odd vectors: bounds below every network, above the plain relaxation's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from brute_force import global_optimum, random_problem, sign_vectors
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import dijkstra

import qsdp
from qsdp._utils import deadline
from qsdp.certificates import certificate_of
from qsdp.relaxation.cuts import CuttingPlanes
from qsdp.relaxation.cuts import planes as planes_module
from qsdp.relaxation.cuts.odd import OddCuts, longer_cuts, triangle_cuts
from qsdp.relaxation.instance import Instance

LOSSES = ["squared", "absolute", "huber", "logistic", "hinge", "squared_hinge"]


def planes_of(problem: qsdp.TrainingProblem, rounds: int) -> CuttingPlanes:
    planes = CuttingPlanes(Instance.from_problem(problem), np.random.default_rng(0))
    for _ in range(rounds):
        planes.improve()
    return planes


def elliptope_point(rng: np.random.Generator, N: int) -> np.ndarray:
    """A random Y = [[V, Z], [Z, V]] of unit diagonal and low rank."""
    Y = rng.standard_normal((2 * N, 3))
    Y = Y @ Y.T + 1e-3 * np.eye(2 * N)
    swap = np.roll(np.arange(2 * N), N)
    Y = Y + Y[np.ix_(swap, swap)]
    return Y / np.sqrt(np.outer(Y.diagonal(), Y.diagonal()))


def least_odd_cycle(Y: np.ndarray) -> float:
    """Return the least sum over a cycle of x_e, or 1 - x_e for an odd number of edges, for x = (1 - Y) / 2.

    Of cuts it is 1 at least, of any x at most: of an edge there and back it is 1. It is the length of a shortest path
    between the two copies of a node in the doubled graph.
    """
    n, x = len(Y), np.clip(0.5 * (1.0 - Y), 0.0, 1.0)
    # Edges of length zero would count as none.
    same, other = np.maximum(x, 1e-300), np.maximum(1.0 - x, 1e-300)
    for part in (same, other):
        np.fill_diagonal(part, 0.0)
    lengths = dijkstra(np.block([[same, other], [other, same]]), directed=False, indices=np.arange(n))
    return float(lengths[np.arange(n), n + np.arange(n)].min())


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(2, 6))
def test_longer_odd_cycles_add_nothing_to_triangles(seed: int, N: int) -> None:
    Y, low, high = elliptope_point(np.random.default_rng(seed), N), 0.0, 1.0

    def mixed(share: float) -> np.ndarray:
        return np.eye(2 * N) + share * (Y - np.eye(2 * N))

    def violated(share: float) -> bool:
        Y = mixed(share)
        return len(triangle_cuts(Y[:N, :N], Y[:N, N:], 1, 1e-9)) > 0

    if violated(high):
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if violated(middle) else (middle, high)
        # Just beyond the last point that meets all triangles cycles are violated, at it none is.
        assert least_odd_cycle(mixed(1.0)) < 1.0 - 1e-10
        high = low
    assert least_odd_cycle(mixed(high)) == pytest.approx(1.0, abs=1e-8)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(2, 5))
def test_separated_vectors_are_odd_and_violated(seed: int, N: int) -> None:
    rng = np.random.default_rng(seed)
    Y = elliptope_point(rng, N)
    V, Z = Y[:N, :N], Y[:N, N:]
    triangles = triangle_cuts(V, Z, 10_000, 1e-6)
    longer = longer_cuts(Y, np.eye(2 * N), 500, 1e-6, 3, rng)
    for cuts in (triangles, longer):
        vectors = cuts.vectors
        assert np.all(vectors.sum(axis=1) % 2 == 1)
        assert np.all(np.einsum("mi,ij,mj->m", vectors, Y, vectors) < 1.0 - 1e-6)
        # A property of odd vectors, not of the search: no sign vector violates them.
        assert np.all(np.square(sign_vectors(2 * N) @ vectors.T) >= 1.0)
        assert len(set(cuts.keys())) == len(cuts)
    # In both blocks they read as in the relaxation.
    values = triangles.values(np.stack([V + Z, V - Z]))
    assert values == pytest.approx(2.0 * np.einsum("mi,ij,mj->m", triangles.vectors, Y, triangles.vectors))


def test_all_triangles_are_found() -> None:
    rng, N = np.random.default_rng(3), 4
    Y = elliptope_point(rng, N)
    found = triangle_cuts(Y[:N, :N], Y[:N, N:], 10_000, 1e-6)
    every = []
    for i in range(2 * N):
        for j in range(i):
            for k in range(j):
                for s, t in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                    b = np.zeros(2 * N)
                    b[[i, j, k]] = 1.0, s, t
                    if b @ Y @ b < 1.0 - 2e-6:
                        every.append(b)
    assert len(every) > 0
    assert set(OddCuts.from_vectors(np.array(every)).keys()) == set(found.keys())


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**16), loss=st.sampled_from(LOSSES), levels=st.sampled_from([2, 3]), lifted=st.booleans())
def test_no_bound_exceeds_the_optimum_over_all_neurons(seed: int, loss: str, levels: int, lifted: bool) -> None:
    problem = random_problem(seed, 3, 7, loss, beta=0.05, levels=levels, activation="relu_like" if lifted else None)
    optimum = global_optimum(problem)
    best = planes_of(problem, 4).best
    if best is not None:
        assert best.value <= optimum.upper * (1.0 + 1e-9) + 1e-12


def test_without_violated_cuts_the_relaxation_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planes_module, "ROUGH", 1.0)
    monkeypatch.setattr(planes_module, "SMALL", 1e-6)
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 12))
    problem = qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.05)
    planes = CuttingPlanes(Instance.from_problem(problem), rng)
    while not planes.exhausted:
        planes.improve()
    assert planes.best is not None
    assert planes.best.trees[0].leaves[0].cuts is None
    assert planes.best.value == pytest.approx(qsdp.solve_relaxation(problem, tol=1e-7).lower_bound, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_it_is_above_the_relaxation_and_below_the_optimum(loss: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 12))
    y: Any = np.sign(rng.standard_normal(40)) if loss in ("logistic", "hinge", "squared_hinge") else X[:, 0] * X[:, 1]
    problem = qsdp.TrainingProblem(X, y, beta=0.05, loss=loss)
    plain = qsdp.solve_relaxation(problem, tol=1e-7)
    best = planes_of(problem, 4).best
    assert best is not None
    optimum = qsdp.column_generation(problem)
    assert optimum.status == "optimal"
    assert plain.lower_bound < best.value <= optimum.objective * (1.0 + 1e-9)
    # More than a quarter of what the relaxation leaves open.
    assert best.value - plain.lower_bound > 0.25 * (optimum.objective - plain.lower_bound)
    (tree,) = best.trees
    certificate = certificate_of(problem, optimum.network, best.nu, [tree], "sdp")
    assert certificate.lower_bound == pytest.approx(best.value, rel=1e-9)
    assert certificate.z is None
    assert certificate.lower_bound <= optimum.objective


def test_many_samples_enter_through_their_gram_matrix() -> None:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((200, 8))
    problem = qsdp.TrainingProblem(X, np.sign(X[:, 0] * X[:, 1] - X[:, 2]), beta=5.0)
    optimum = qsdp.column_generation(problem)
    best = planes_of(problem, 3).best
    assert best is not None
    assert qsdp.solve_relaxation(problem).lower_bound < best.value <= optimum.objective * (1.0 + 1e-9)


def test_nothing_is_cut_where_the_zero_network_is_optimal() -> None:
    problem = random_problem(0, 3, 9, "squared", beta=1e6)
    planes = planes_of(problem, 1)
    assert planes.best is None
    assert planes.exhausted


def test_a_deadline_ends_a_round() -> None:
    rng = np.random.default_rng(1)
    problem = qsdp.TrainingProblem(rng.standard_normal((60, 20)), rng.standard_normal(60), beta=0.1)
    planes = planes_of(problem, 1)
    before = planes.best
    assert before is not None
    with deadline.within(0.0):
        planes.improve()
    assert planes.best is not None
    assert planes.best.value >= before.value
    assert not planes.exhausted
