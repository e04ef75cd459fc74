"""Proven optima: one problem bounded from both sides without the library, and records that turn the verdicts."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qsdp
from qsdp.bench import Record

study = pytest.importorskip("benchmarks.experiments.product.exact", reason="not in the installed package")


@pytest.fixture(scope="module")
def measured(uci_available: None) -> dict[str, Any]:
    """What the quick case of the squared loss measures."""
    found: dict[str, Any] = study.run(study.cases(True)[0])
    return found


def test_the_optimum_is_between_bounds_computed_without_the_library(measured: dict[str, Any]) -> None:
    problem = study.problem_of(study.cases(True)[0])
    network = qsdp.column_generation(problem).network
    X, y, beta = problem.X, problem.y, 10.0
    n, D = X.shape
    assert (n, D) == (measured["n"], measured["D"]) == (228, 10)
    assert np.array_equal(np.unique(np.concatenate([network.U, network.V])), [-1, 1])
    prediction = ((X @ network.U.T) * (X @ network.V.T)) @ network.alpha
    upper = np.sum((prediction - y) ** 2) + beta * D * np.abs(network.alpha).sum()
    # All signs of u; the best v of each is known. The dual vector is -2 (f - y), scaled until no price is above beta D.
    signs = np.array([(1, *rest) for rest in itertools.product((-1.0, 1.0), repeat=D - 1)])
    nu = 2.0 * (y - prediction)
    price = np.abs(signs @ (X.T @ (nu[:, None] * X))).sum(axis=1).max()
    nu *= min(1.0, beta * D / price)
    lower = np.sum(nu * (y - 0.25 * nu))
    assert lower <= upper <= lower * (1.0 + 1e-6)
    assert measured["objective"] == pytest.approx(upper, rel=1e-9)
    assert lower * (1.0 - 1e-6) <= measured["lower_bound"] <= upper
    assert 0.0 <= measured["relative_gap"] <= 1e-6
    assert measured["proof"]["lower_bound"] == pytest.approx(measured["lower_bound"], rel=1e-9)
    assert measured["relaxation"]["lower_bound"] < lower


def test_checks_and_the_restricted_problem(measured: dict[str, Any]) -> None:
    assert (measured["status"], measured["kind"]) == ("optimal", "exact")
    assert measured["certify"]["gap"] <= 1e-6
    assert measured["check"]["code"] == 0
    assert f"{measured['lower_bound']:.9g}" in measured["check"]["says"]
    restricted = measured["restricted"]
    assert abs(restricted["gap"]) <= study.TOLERANCE
    assert abs(restricted["clarabel_gap"]) <= 1e-6
    assert restricted["columns"] >= measured["neurons"]
    assert restricted["ratio"] == pytest.approx(restricted["cvxpy_seconds"] / restricted["seconds"])


# -- verdicts --------------------------------------------------------------------------------------------


def good() -> list[Record]:
    """Return records of all cases with which every claim holds."""
    records = []
    for number, case in enumerate(study.cases(False)):
        found = {
            "n": 100, "D": 10, "status": "optimal", "rounds": 5, "neurons": 20, "objective": 100.0 + 5e-5,
            "lower_bound": 100.0, "relative_gap": 5e-7, "kind": "exact", "seconds": 1.0 + number, "repeats": 5,
            "relaxation": {"objective": 99.0 + 1e-5, "lower_bound": 99.0, "gap": 0.01, "seconds": 0.1},
            "certify": {"gap": 1e-7 if case["loss"] in study.SMOOTH else 1e-2, "kind": "exact", "seconds": 0.1},
            "proof": {"lower_bound": 100.0, "gap": 5e-7, "leaves": 1, "seconds": 0.1},
            "check": {"code": 0, "says": "yes", "bytes": 1000, "seconds": 0.1},
            "restricted": {
                "rows": 50, "columns": 200, "seconds": 0.01, "cvxpy_seconds": 0.1 + 0.01 * number,
                "clarabel_seconds": 0.05, "ratio": 10.0, "clarabel_ratio": 5.0, "gap": 1e-9, "clarabel_gap": 1e-9,
                "repeats": 5,
            } if case["loss"] == "squared" or case["data"] == "breast-cancer" else None,
        }  # fmt: skip
        records.append(Record(case, found, 1.0))
    return records


def verdicts(records: list[Record]) -> dict[str, str]:
    names = {statement: name for name, (_, statement) in study.STATEMENTS.items()}
    return {names[claim.statement]: claim.verdict for claim in study.claims(records)}


def test_all_claims_hold_of_good_records() -> None:
    assert verdicts(good()) == dict.fromkeys(study.STATEMENTS, "supported")
    assert len(study.cases(False)) == 19


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("proven", lambda m: m.update(relative_gap=2e-6)),
        ("proven", lambda m: m.update(kind="sdp")),
        ("proven", lambda m: m.update(seconds=61.0)),
        ("relaxation", lambda m: m["relaxation"].update(objective=99.5)),
        ("accepted", lambda m: m["check"].update(code=1)),
        ("accepted", lambda m: m["proof"].update(gap=2e-6)),
        ("certify", lambda m: m["certify"].update(gap=1e-3)),
    ],
)
def test_one_problem_refutes_a_claim(name: str, change: Callable[[dict[str, Any]], None]) -> None:
    records = copy.deepcopy(good())
    change(records[0].measured)
    assert verdicts(records) == dict.fromkeys(study.STATEMENTS, "supported") | {name: "contradicted"}
    claim = next(claim for claim in study.claims(records) if claim.verdict == "contradicted")
    assert "breast-cancer, squared, beta 0.1" in claim.why


def test_a_loss_without_a_gradient_is_no_matter_of_certify() -> None:
    assert any(r.measured["certify"]["gap"] > study.PROVEN for r in good())
    assert "15 of 15 cases" in next(c for c in study.claims(good()) if "certify" in c.statement).figures


def test_ratios_turn_the_claim_of_speed() -> None:
    slow, coarse = copy.deepcopy(good()), copy.deepcopy(good())
    for record in slow:
        if record.measured["restricted"] is not None:
            record.measured["restricted"]["seconds"] = 1.0
    coarse[0].measured["restricted"]["gap"] = 1e-7
    assert verdicts(slow)["restricted"] == "contradicted"
    assert verdicts(coarse)["restricted"] == "contradicted"


def test_nothing_is_said_before_all_problems_are_measured() -> None:
    assert set(verdicts(good()[:9]).values()) == {"not measured"}
