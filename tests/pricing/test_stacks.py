"""Pricing of many matrices at once against enumeration of all neurons of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from block_problems import all_neurons, random_problem
from brute_force import sign_vectors

import qsdp
from qsdp.certificates.proof import tree_bound
from qsdp.pricing import price_stack


@pytest.mark.parametrize("seed", range(4))
def test_prices_of_stacks_are_those_of_all_neurons(seed: int) -> None:
    """The value of a neuron counts entries off the diagonal twice: halved, bounds would exceed optima."""
    problem = random_problem(seed, n_outputs=2)
    rng, layout = np.random.default_rng(seed), problem.blocks
    nu = rng.standard_normal((problem.n_samples, 2))
    stack = problem.map.adjoints(nu)
    U, V, block = all_neurons(layout)
    values = np.abs(nu.T @ problem.map.products(U, V, block))
    priced = price_stack(stack, layout, 0.0, 5)
    for k, result in priced.items():
        output, r = divmod(k, layout.n_blocks)
        largest = values[output, block == r].max()
        assert result.exact
        assert result.value == pytest.approx(largest, rel=1e-12)
        assert largest <= result.upper <= largest * (1.0 + 1e-12)
        assert tree_bound(stack[k], result.trees[0]) == pytest.approx(largest, rel=1e-12)
        found = np.einsum("ji,ik,jk->j", result.U.astype(float), stack[k], result.V.astype(float))
        np.testing.assert_allclose(found, result.values, rtol=1e-12)
        assert 1 <= len(found) <= 5
        assert np.all(np.diff(found) <= 1e-12 * largest)
        pairs = {
            frozenset({(u * u[0]).tobytes(), (v * v[0]).tobytes()}) for u, v in zip(result.U, result.V, strict=True)
        }
        assert len(pairs) == len(found)
    assert sorted(priced) == list(range(len(stack)))


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300])
def test_prices_in_any_units_and_of_zero_matrices(unit: float) -> None:
    layout = qsdp.Blocks(np.zeros((1, 19)), [3, 4, 3], ["quadratic", "quadratic", "linear"]).layout
    matrices = layout.matrices(unit * np.random.default_rng(0).standard_normal((2, layout.n_entries)))
    matrices[1] = 0.0
    table = sign_vectors(4)
    for k, result in price_stack(matrices, layout, 0.0, 3).items():
        M = matrices[k] / unit
        expected = np.abs(table @ M).sum(axis=1).max() if k % 3 < 2 else np.abs(M).sum()
        assert result.value / unit == pytest.approx(expected, rel=1e-12)
        assert len(result.U) == 0 if k == 1 else len(result.U) > 0
