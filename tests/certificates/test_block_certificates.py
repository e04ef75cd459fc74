"""Certificates of networks on blocks against enumeration."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from block_problems import LOSSES, enumerated_optimum, random_network, random_problem

import qsdp
from qsdp.certificates import certificate_of, certify
from qsdp.exceptions import InvalidInputError
from qsdp.forms import FormMap
from qsdp.pricing import BoundTree, Leaf
from qsdp.pricing.bound_trees import root_tree


def network_for(problem: Any, seed: int = 0, m: int = 5, scale: float = 0.02) -> qsdp.BilinearNetwork:
    C = None if problem.scalar else problem.n_outputs
    network = random_network(np.random.default_rng(seed), problem.blocks, m, C)
    return qsdp.BilinearNetwork(
        network.U, network.V, scale * network.alpha, network.block, network.sizes, network.kinds
    )


def trees_for(problem: Any, nu: np.ndarray) -> list[BoundTree]:
    """Return enumerated trees, and those of diagonal matrices."""
    R, trees = problem.blocks.n_blocks, []
    for k, M in enumerate(problem.map.adjoints(nu)):
        leaf = Leaf(np.zeros(0, dtype=np.int8), None)
        linear = problem.blocks.linear[k % R]
        trees.append(root_tree(np.abs(M.diagonal())) if linear else BoundTree(np.arange(problem.size), (leaf,)))
    return trees


def simple_certificate(problem: Any, seed: int = 0) -> qsdp.Certificate:
    """Return the exact certificate of a random network by minus the gradient at it, without a relaxation."""
    network = network_for(problem, seed)
    nu = -problem.data_fit.gradient(problem.outputs(network))
    return certificate_of(problem, network, nu, trees_for(problem, nu), "exact")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(2))
def test_bounds_are_below_the_enumerated_optimum(loss: str, seed: int) -> None:
    problem = random_problem(seed, loss, n_outputs=1 if loss == "cross_entropy" else 1 + seed % 2)
    optimum = enumerated_optimum(problem)
    found = {}
    for bound_type in ("sdp", "exact"):
        certificate = certify(network_for(problem), problem, bound_type=bound_type)
        assert certificate.bound_type == bound_type
        assert 0.0 < certificate.lower_bound <= optimum * (1 + 1e-6) <= certificate.objective * (1 + 1e-6)
        found[bound_type] = certificate.lower_bound
        assert certificate.objective == pytest.approx(problem.objective(network_for(problem)), rel=1e-14)
        z = certificate.z
        assert z is None or z.shape == (problem.n_outputs * problem.blocks.n_blocks, problem.size)
    assert found["exact"] >= found["sdp"] * (1 - 1e-9)
    assert simple_certificate(problem).lower_bound <= optimum * (1 + 1e-6)


def test_uncoupled_outputs_are_scaled_apart() -> None:
    problem = random_problem(2, n_outputs=3)
    certificate = simple_certificate(problem)
    alone = [simple_certificate_of(problem.output(c), certificate, c) for c in range(3)]
    assert certificate.lower_bound == pytest.approx(sum(alone), rel=1e-12)


def simple_certificate_of(problem: Any, whole: qsdp.Certificate, c: int) -> float:
    network: Any = whole.proof.network  # type: ignore[union-attr]
    own = qsdp.BilinearNetwork(network.U, network.V, network.alpha[:, c], network.block, network.sizes, network.kinds)
    nu = -problem.data_fit.gradient(problem.outputs(own))
    return certificate_of(problem, own, nu, trees_for(problem, nu), "exact").lower_bound


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "f4", "f8"])
def test_errors_of_matrices(dtype: str) -> None:
    rng = np.random.default_rng(0)
    layout = random_problem(1).blocks
    rows = (rng.standard_normal((90, layout.n_entries)) * 10.0 ** rng.integers(-1, 2, layout.n_entries) * 9).astype(
        dtype
    )
    nu, defects = rng.standard_normal(90), np.zeros(90)
    data = FormMap(layout, rows, 0.7, rng.uniform(0.1, 3.0, layout.n_entries))
    factors = data.scales
    found = data.verified_sums()(nu, defects)
    exact = [
        Fraction(float(f)) * sum(Fraction(float(x)) * Fraction(float(v)) for x, v in zip(column, nu, strict=True))
        for column, f in zip(rows.T, factors, strict=True)
    ]
    for r, (M, error) in enumerate(found):
        own = range(layout.starts[r], layout.starts[r + 1])
        missed = sum(
            abs(exact[p] - Fraction(float(M[layout.first[p], layout.second[p]]))) * int(layout.counts[p]) for p in own
        )
        assert missed <= error <= 1e-11 * np.abs(rows.astype(float)).sum()


def test_what_does_not_fit_is_refused() -> None:
    problem, other = random_problem(0), random_problem(1)
    X = np.ones((3, 2))
    columns = qsdp.TrainingProblem(X, [1.0, 2.0, 3.0], beta=0.1)
    bilinear = qsdp.BilinearNetwork([[1, 1]], [[1, 1]], [0.1])
    with pytest.raises(InvalidInputError, match="network must be on blocks of sizes"):
        certify(bilinear, problem)
    with pytest.raises(InvalidInputError, match="network must be on columns, as the problem is"):
        certify(network_for(problem), columns)
    with pytest.raises(InvalidInputError, match=r"network must be on blocks of sizes .* got a network on blocks"):
        certify(network_for(other), problem)
    with pytest.raises(InvalidInputError, match="network must have n_outputs 1"):
        certify(network_for(random_problem(0, n_outputs=2)), problem)
    relaxation = qsdp.solve_relaxation(problem)
    with pytest.raises(InvalidInputError, match="must belong to the same problem"):
        certify(network_for(problem), problem.with_beta(1e-3), relaxation)
    network = network_for(problem)
    trees = trees_for(problem, problem.targets)
    with pytest.raises(InvalidInputError, match="one for each output and block"):
        certificate_of(problem, network, problem.targets, trees[1:], "exact")
