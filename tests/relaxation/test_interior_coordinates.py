"""The kernels and borders of the interior-point method against their definitions, entry by entry."""

from __future__ import annotations

import numpy as np
import pytest

import qsdp
from qsdp.block_layout import Layout
from qsdp.gram import GramFactor
from qsdp.lifting import QuadraticMap
from qsdp.relaxation.solvers.interior import coordinates
from qsdp.relaxation.solvers.interior.coordinates import (
    Coordinates,
    FormCoordinates,
    SampleCoordinates,
)
from qsdp.relaxation.solvers.interior.setup import takes_factor

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


@pytest.mark.parametrize("block", [1, 300, 2**19])
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


def test_both_ways_of_a_squared_loss_have_the_same_optimum(monkeypatch):
    rng = np.random.default_rng(5)
    problem = qsdp.TrainingProblem(rng.standard_normal((80, 10)), rng.standard_normal(80), beta=1.0)
    found = []
    for factored in (True, False):
        monkeypatch.setattr("qsdp.relaxation.solvers.interior.setup.takes_factor", lambda data, way=factored: way)
        found.append(qsdp.solve_relaxation(problem, solver="interior", tol=1e-9))
    assert all(relaxation.status == "optimal" for relaxation in found)
    assert max(one.lower_bound for one in found) <= min(one.objective for one in found)
    assert abs(found[0].objective - found[1].objective) <= 1e-8 * found[0].objective


def test_a_factor_is_taken_where_it_saves():
    def data(n, N):
        return QuadraticMap(np.broadcast_to(1.0, (n, N)))

    assert not takes_factor(data(5000, 100)), "fewer samples than entries"
    assert not takes_factor(data(2000, 60)), "hardly more: p = 1830"
    assert takes_factor(data(4000, 60))
    assert takes_factor(data(60_000, 31))
    assert takes_factor(data(12_000, 150)), "the samples' own system is too large"


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
    np.testing.assert_allclose(kernel, np.einsum("irab,rsbc,jrcd,rsda->ij", rows, W, rows, W), atol=1e-12)
    each = np.einsum("rska,irab,rskb->sirk", W, rows, W)
    np.testing.assert_allclose(system.border(W), (each[0] - each[1]).reshape(5, -1), atol=1e-12)
    values = system.forward(rows[2])
    np.testing.assert_allclose(values, np.einsum("irab,rab->i", rows, rows[2]), atol=1e-12)
