"""Bounds against networks: problems and bounds computed again, and a false bound that is found."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

study = pytest.importorskip("benchmarks.experiments.paper._random_bounds", reason="not in the installed package")


#: Bilinear, one output, up to three columns.
SMALL = (0, 1, 14, 18, 21, 24, 32, 44, 47)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """What is tested of the first problems: all losses, relaxations, polynomial networks; and of some small ones."""
    return [study.tested(seed) for seed in (*range(8), *SMALL[2:])]


def best_of_one_neuron(problem: Any) -> float:
    """Return the least objective of no neuron and of one, on a grid of its weight."""
    levels = np.arange(problem.levels) * 2.0 - (problem.levels - 1)
    neurons = np.array(list(itertools.product(levels, repeat=problem.size)))
    outputs = (problem.X @ neurons.T).T
    found = problem.loss.value(np.zeros_like(problem.y), problem.y)
    scales = np.concatenate([-np.logspace(-4, 2, 40), np.logspace(-4, 2, 40)])
    for f, g in itertools.product(outputs, repeat=2):
        for alpha in scales:
            value = problem.loss.value(alpha * f * g, problem.y) + problem.beta * problem.dimension * abs(alpha)
            found = min(found, value)
    return float(found)


def test_no_bound_is_above_networks_that_are_enumerated_here(rows: list[dict[str, Any]]) -> None:
    small = [row for row in rows if row["seed"] in SMALL]
    assert len(small) == len(SMALL)
    for row in small:
        problem = study.instance(row["seed"])
        assert (row["n"], row["columns"], row["outputs"]) == (problem.n_samples, problem.size, 1)
        assert problem.activation is None
        best = best_of_one_neuron(problem)
        for pair in row["bounds"]:
            assert pair["value"] <= best
            # No single neuron beats the best network that is known.
            assert pair["best"] <= best * (1.0 + 1e-5)


def test_what_is_compared(rows: list[dict[str, Any]]) -> None:
    always = {"column generation", "its proof, guarded", "dual vectors at random"}
    for row in rows:
        labels = {pair["bound"] for pair in row["bounds"]}
        assert always <= labels
        assert ("relaxation" in labels) == (row["seed"] % study.RELAXED == 0)
        assert ("polynomial" in labels) == ("polynomial" in row["gaps"])
        assert len({pair["best"] for pair in row["bounds"] if pair["bound"] != "polynomial"}) == 1
        assert 0.0 <= row["gaps"]["bilinear"] <= 1e-6
    assert {row["loss"] for row in rows} == set(study.LOSSES)
    assert any("polynomial" in row["gaps"] for row in rows)
    assert all(pair["value"] <= pair["best"] for row in rows for pair in row["bounds"])


def test_a_false_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = study.verified_bound

    def false(problem: Any, nu: Any, trees: Any) -> float:
        return float(right(problem, nu, trees)) * (1.0 + 1e-4)

    monkeypatch.setattr(study, "verified_bound", false)
    over = [pair for seed in (1, 2) for pair in study.tested(seed)["bounds"] if pair["value"] > pair["best"]]
    assert [pair["bound"] for pair in over] == ["its proof, guarded"] * 2
    assert all(1.00009 < pair["value"] / pair["best"] < 1.00011 for pair in over)
