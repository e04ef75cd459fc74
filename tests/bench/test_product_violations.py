"""Bounds against networks: problems and bounds computed again, a false bound that is found, and verdicts that turn."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from qsdp.bench import Record

study = pytest.importorskip("benchmarks.experiments.product.violations", reason="not in the installed package")


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
    found = study.summary(rows)
    assert sum(one["tested"] for one in found["bounds"].values()) == sum(len(row["bounds"]) for row in rows)
    assert sum(one["instances"] for one in found["losses"].values()) == len(rows)
    assert not found["violations"]
    assert not found["unproven"]


def test_a_false_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = study.verified_bound

    def false(problem: Any, nu: Any, trees: Any) -> float:
        return float(right(problem, nu, trees)) * (1.0 + 1e-4)

    monkeypatch.setattr(study, "verified_bound", false)
    record = Record({"first": 1, "count": 2}, study.run({"first": 1, "count": 2}), 1.0)
    found = record.measured["violations"]
    assert {(one["seed"], one["bound"]) for one in found} == {(1, "its proof, guarded"), (2, "its proof, guarded")}
    assert all(9e-5 < one["excess"] < 1.1e-4 for one in found)
    # One is enough, however few are measured.
    bounds, proven = study.claims([record])
    assert (bounds.verdict, proven.verdict) == ("contradicted", "not measured")
    assert "its proof, guarded of seed" in bounds.why


# -- verdicts --------------------------------------------------------------------------------------------


def row(seed: int, **other: Any) -> dict[str, Any]:
    pairs = [{"bound": "column generation", "value": 1.0 - 1e-7, "best": 1.0}]
    made = {
        "seed": seed, "loss": study.LOSSES[seed % 7], "n": 5, "columns": 3, "outputs": 1, "levels": 2, "beta": 0.1,
        "bounds": pairs, "gaps": {"bilinear": 1e-7}, "statuses": {"bilinear": "optimal"}, "kind": "exact",
        "seconds": 0.05,
    }  # fmt: skip
    return {**made, **other}


def records(**changed: Any) -> list[Record]:
    """Return records of all cases; the problem of seed 4321 is another one."""
    found = []
    for case in study.cases(False):
        seeds = range(case["first"], case["first"] + case["count"])
        rows = [row(seed, **(changed if seed == 4321 else {})) for seed in seeds]
        found.append(Record(case, study.summary(rows), 1.0))
    return found


def verdicts(found: list[Record]) -> list[str]:
    return [claim.verdict for claim in study.claims(found)]


def test_all_seeds_are_in_one_case_each() -> None:
    seeds = [case["first"] + k for case in study.cases(False) for k in range(case["count"])]
    assert seeds == list(range(10_000))


def test_verdicts_turn_with_one_problem() -> None:
    assert verdicts(records()) == ["supported", "supported"]
    claims = study.claims(records())
    assert claims[0].figures.startswith("0 violations in 10000 comparisons of 10000 problems")
    over = [{"bound": "column generation", "value": 1.0 + 1e-15, "best": 1.0}]
    assert verdicts(records(bounds=over)) == ["contradicted", "supported"]
    none = [{"bound": "column generation", "value": float("nan"), "best": 1.0}]
    assert verdicts(records(bounds=none)) == ["contradicted", "supported"]
    open_ = records(gaps={"bilinear": 0.5}, statuses={"bilinear": "stalled"}, loss="logistic")
    assert verdicts(open_) == ["supported", "contradicted"]
    assert "logistic, beta 0.1, seed 4321" in study.claims(open_)[1].why
    assert verdicts(records()[1:]) == ["not measured", "not measured"]


def test_tables_describe_what_went_wrong() -> None:
    over = [{"bound": "column generation", "value": 1.0 + 1e-3, "best": 1.0}]
    found = records(bounds=over, gaps={"bilinear": 0.5}, statuses={"bilinear": "stalled"}, kind="sdp")
    bounds, losses, violations, unproven = study.tables(found)
    assert bounds.rows == [["column generation", "10000", "1", "1.00e-03", "4321"]]
    by_loss = {line[0]: line for line in losses.rows}
    assert by_loss[study.LOSSES[4321 % 7]][2:6] == ["1", "1", "5.0e-01", "4321"]
    assert sum(int(line[1]) for line in losses.rows) == 10_000
    assert violations.rows == [["4321", "huber", "5", "3", "1", "2", "0.1", "column generation", "1.0e-03"]]
    assert unproven.rows == [["4321", "huber", "5", "3", "1", "2", "0.1", "5.0e-01", "stalled (bilinear)"]]
