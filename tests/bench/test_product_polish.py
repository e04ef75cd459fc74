"""Polished against sampled neurons: numbers computed again from the weights, and records that turn the verdicts."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest

from qsdp.bench import Record, run_experiment

study = pytest.importorskip("benchmarks.experiments.product.polish", reason="not in the installed package")


@pytest.fixture(scope="module")
def quick(uci_available: None, tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """Records of the quick cases: breast-cancer and vehicle, one split."""
    results, failures = run_experiment(
        study.EXPERIMENT, tmp_path_factory.mktemp("polish") / "found.json", quick=True, verbose=False
    )
    assert not failures
    return results.records


def test_objectives_accuracies_and_bits_from_the_weights(quick: list[Record]) -> None:
    for record in quick:
        problem, (X, X_test, y, y_test) = study.problem_of(record.case)
        outputs = problem.y.shape[1] if problem.y.ndim == 2 else 1
        steps = itertools.takewhile(lambda step: step[0] != "polished, free", study.networks_of(problem, record.case))
        made = {name: model for name, model, _ in steps}
        for name in ("krivine", "adaptive, shared", "few", "polished", "adaptive, free"):
            network, measured = made[name], record.measured[name]
            assert np.array_equal(np.unique(np.concatenate([network.U, network.V])), [-1, 1])
            prediction, tested = (((A @ network.U.T) * (A @ network.V.T)) @ network.alpha for A in (X, X_test))
            value = np.sum((prediction - problem.y) ** 2) + 10.0 * X.shape[1] * np.abs(network.alpha).sum()
            assert measured["objective"] == pytest.approx(value, rel=1e-9)
            for part, truth, share in ((prediction, y, "train"), (tested, y_test, "test")):
                guess = part.argmax(axis=1) if outputs > 1 else np.sign(part)
                assert measured[share] == pytest.approx(np.mean(guess == truth))
            m = len(network.alpha)
            assert measured["neurons"] == m
            if name != "adaptive, free":
                # A float an output, and the number of its neurons where there are several.
                floats = outputs * (1 if outputs == 1 else 2)
                assert measured["bits"] == 2 * m * X.shape[1] + 64 * floats


def test_the_order_of_the_objectives_and_the_gaps(quick: list[Record]) -> None:
    for record in quick:
        objective = {name: record.measured[name]["objective"] for name in study.NAMES}
        assert objective["adaptive, free"] < objective["adaptive, shared"] <= objective["adaptive"] * (1 + 1e-12)
        assert objective["polished, free"] <= objective["polished"] < objective["few"]
        assert objective["best of size"] < objective["few"]
        best = min(value for name, value in objective.items() if name != "relaxation")
        assert objective["exact"] == best
        assert 0.0 <= record.measured["exact"]["gap"] <= 1e-6
        for name in study.NAMES:
            if name not in {"relaxation", "exact"}:
                gap = 1.0 - objective["exact"] / objective[name]
                assert record.measured[name]["gap"] == pytest.approx(gap, abs=2e-6)


def test_too_few_splits_say_nothing(quick: list[Record]) -> None:
    claims = study.claims(quick)
    assert {claim.verdict for claim in claims} == {"not measured"}
    assert len(claims) == len(study.SETS) + len(study.STATEMENTS)


# -- verdicts --------------------------------------------------------------------------------------------


def made(change: dict[str, dict[str, Any]] | None = None, data: str | None = None) -> list[Record]:
    """Return records of all cases with which every claim holds, but for changes of one set or all."""
    records = []
    for case in study.cases(False):
        # What differs from split to split, in pairs and between them.
        shift, noise = 0.1 * case["split"], 0.01 * (case["split"] % 3 - 1)
        measured: dict[str, dict[str, Any]] = {
            name: {
                "objective": 100.0 + shift, "gap": 0.05, "train": 0.9, "test": 0.8 + noise, "neurons": 50,
                "bits": 1000, "seconds": 0.1,
            }
            for name in study.NAMES
        }  # fmt: skip
        measured["adaptive, shared"] |= {"objective": 110.0 + shift + noise, "bits": 45_000}
        measured["best of size"]["objective"] = 99.0 + shift + noise
        measured["exact"] |= {"objective": 95.0, "gap": 1e-8, "test": 0.8}
        if data in (None, case["data"]):
            for name, what in (change or {}).items():
                measured[name] |= what
        records.append(Record(case, measured, 1.0))
    return records


def verdicts(records: list[Record]) -> dict[str, str]:
    statements = {study.below(data)[1]: data for data in study.SETS}
    statements |= {statement: name for name, (_, statement) in study.STATEMENTS.items()}
    return {statements[claim.statement]: claim.verdict for claim in study.claims(records)}


HOLDS = dict.fromkeys([*study.SETS, *study.STATEMENTS], "supported")


def test_all_claims_hold_of_good_records() -> None:
    assert verdicts(made()) == HOLDS


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("bits", {"adaptive, shared": {"bits": 39_000}}),
        ("bits", {"adaptive, shared": {"bits": 51_000}}),
        ("near", {"adaptive, free": {"gap": 0.061}}),
        ("accuracy", {"exact": {"test": 0.9}}),
    ],
)
def test_one_set_refutes_a_claim(name: str, change: dict[str, dict[str, Any]]) -> None:
    assert verdicts(made(change, "ionosphere")) == HOLDS | {name: "contradicted"}
    assert "ionosphere" in next(c for c in study.claims(made(change, "ionosphere")) if c.verdict == "contradicted").why


def test_objectives_turn_the_claim_of_their_set_only() -> None:
    worse = made({"adaptive, shared": {"objective": 99.0}}, "vehicle")
    assert verdicts(worse) == HOLDS | {"vehicle": "contradicted"}
    equal = copy.deepcopy(made())
    for record in equal:
        if record.case["data"] == "vehicle":
            sign = 1.0 if record.case["split"] % 2 else -1.0
            record.measured["adaptive, shared"]["objective"] = record.measured["polished"]["objective"] + sign
    assert verdicts(equal) == HOLDS | {"vehicle": "inconclusive"}


def test_a_search_that_finds_nothing_is_no_improvement() -> None:
    assert verdicts(made({"best of size": {"objective": 200.0}})) == HOLDS | {"best": "contradicted"}
