"""The experiments on Fan's networks: one small case of each, and claims that records decide."""

from __future__ import annotations

import importlib
import json
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.runner import Record

NAMES = ("relinear_digits", "relinear_theory", "runge")


def module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.papers.fan.experiments.{name}")


def measured(name: str, cases: list[dict[str, Any]]) -> list[Record]:
    records = [Record(case, dict(module(name).run(case)), 0.0) for case in cases]
    json.dumps([record.measured for record in records])
    return records


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quick", [True, False])
def test_cases_are_json_and_distinct(name: str, quick: bool) -> None:
    cases = module(name).EXPERIMENT.cases(quick)
    texts = [json.dumps(case, sort_keys=True) for case in cases]
    assert len(set(texts)) == len(texts) > 0


# -- Runge's function --------------------------------------------------------------------------------


def test_runge_trains_what_it_says() -> None:
    runge = module("runge")
    records = measured("runge", [case | {"steps": 40} for case in runge.cases(True)])
    by_mode = {record.case["mode"]: record.measured for record in records}
    assert all(len(found["rmse"]) == len(found["coefficients"]) == 2 for found in by_mode.values())
    assert by_mode["sg"]["rmse"] != by_mode["sw-l2"]["rmse"]
    (table,) = runge.EXPERIMENT.tables(records)
    shown = dict(zip(table.headings, table.rows[0], strict=True))
    assert (shown["mode"], shown["printed RMSE"]) == ("sg", "0.0205")
    assert float(shown["median test RMSE"]) == pytest.approx(np.median(by_mode["sg"]["rmse"]), rel=1e-3)


def test_modes_of_runge_start_from_the_same_conventional_weights() -> None:
    runge, x = module("runge"), torch.linspace(-5.0, 5.0, 11, dtype=torch.float64)[:, None]
    names = ("conventional", "sg", "regular, 0.1")
    conventional, relinear, regular = (runge.start(runge.MODES[name], 3) for name in names)
    assert torch.equal(conventional(x), relinear(x))
    assert torch.equal(regular.layers[2].wr, relinear.layers[2].wr)
    assert not torch.any(regular.layers[2].wg == 0.0)
    assert torch.all(relinear.layers[2].wg == 0.0)


def test_conventional_networks_on_runge_stay_conventional() -> None:
    runge = module("runge")
    case = {"optimizer": "adam", "mode": "conventional", "steps": 5, "seeds": 2}
    assert all(max(row[2:], default=0.0) == 0.0 for row in runge.run(case)["coefficients"])


def runge_records(errors: dict[tuple[str, str], list[float]]) -> list[Record]:
    kept = {"edge_error": [0.0], "coefficients": [None]}
    return [
        Record(case, {"rmse": errors[case["optimizer"], case["mode"]], **kept}, 0.0)
        for case in module("runge").cases(False)
        if (case["optimizer"], case["mode"]) in errors
    ]


def test_verdicts_on_runge_come_from_records() -> None:
    runge = module("runge")

    def verdicts(errors: dict[str, float], spread: float) -> list[str]:
        seeds = {
            ("gd", mode): [error * (1.0 + spread * seed) for seed in range(-5, 5)] for mode, error in errors.items()
        }
        return [claim.verdict for claim in runge.claims(runge_records(seeds))[:2]]

    assert verdicts(runge.PRINTED, 0.01) == ["supported", "supported"]
    assert verdicts(dict(zip(runge.PRINTED, sorted(runge.PRINTED.values()), strict=True)), 0.01) == ["contradicted"] * 2
    assert verdicts({mode: 2.0 * error for mode, error in runge.PRINTED.items()}, 0.01) == ["supported", "contradicted"]


def test_powers_on_runge_are_compared_where_training_has_not_diverged() -> None:
    runge = module("runge")

    def verdict(relinear: float, regular: float | None) -> str:
        modes = [*runge.RELINEAR, *runge.REGULAR]
        records = runge_records({("adam", mode): [0.1] * 10 for mode in modes})
        for record in records:
            size = relinear if record.case["mode"] in runge.RELINEAR else regular
            record.measured["coefficients"] = [None if size is None else [1.0, 1.0, 1.0, size, 0.5 * size]] * 10
        claims = runge.claims(records)
        return next(claim.verdict for claim in claims if claim.source == "Fan et al., Fig. 5")

    assert verdict(1.0, 2.0) == "supported"
    assert verdict(2.0, 1.0) == "contradicted"
    assert verdict(1.0, None) == "supported", "what has diverged has no small coefficients"


# -- digits ------------------------------------------------------------------------------------------


def test_digits_trains() -> None:
    digits = module("relinear_digits")
    cases = [case | {"epochs": 3} for case in digits.cases(True)]
    records = measured("relinear_digits", cases)
    trained = [record.measured for record in records]
    assert all(0.0 <= found["test_error"] < 0.9 and not found["diverged"] for found in trained)


def digits_records(drops: dict[tuple[str, float | None], float], diverged: set[float]) -> list[Record]:
    base = {"test_error": 0.1}
    return [
        Record(
            {"setting": name, "value": value, "epochs": 60, "seed": seed},
            {
                **base,
                "validation_error": 0.9 if name == "square_act" and value in diverged else 0.05,
                "diverged": name == "square_act" and value in diverged,
                "largest_drop": drops.get((name, value), 0.01),
            },
            0.0,
        )
        for name, value in module("relinear_digits").SETTINGS
        for seed in range(10)
    ]


def test_verdicts_on_stages_and_squares_come_from_records() -> None:
    digits = module("relinear_digits")

    def verdicts(records: list[Record]) -> dict[str, str]:
        return {claim.statement: claim.verdict for claim in digits.claims(records)}

    stages, squares = "Transfer from later stages is more robust at the same rates.", "Networks with square activations"
    falling = {("transfer, stage 1", rate): 0.5 for rate in digits.RATES[:3]}
    falling |= {("transfer, stage 2", rate): 0.5 for rate in digits.RATES[:1]}
    found = verdicts(digits_records(falling, {0.05, 0.03, 0.01}))
    assert found[stages] == "supported"
    assert {verdict for statement, verdict in found.items() if statement.startswith(squares)} == {"supported"}
    found = verdicts(digits_records({("transfer, stage 3", 0.1): 0.5}, {0.05}))
    assert found[stages] == "contradicted"
    assert {verdict for statement, verdict in found.items() if statement.startswith(squares)} == {"contradicted"}
    found = verdicts(digits_records({}, set()))
    assert {verdict for statement, verdict in found.items() if statement.startswith(squares)} == {"contradicted"}


@pytest.mark.parametrize(
    ("parabolic", "poly2", "verdict"),
    [(0.05, 0.02, "supported"), (0.0, 0.02, "inconclusive"), (-0.05, 0.02, "contradicted")],
)
def test_verdicts_on_families_compare_seed_by_seed(parabolic: float, poly2: float, verdict: str) -> None:
    digits, worse = module("relinear_digits"), {"parabolic": parabolic, "poly2": poly2}
    records = digits_records({}, set())
    for record in records:
        if record.case["setting"] in worse:
            record.measured["test_error"] = 0.1 + worse[record.case["setting"]] + 0.01 * (-1) ** record.case["seed"]
    claims = {claim.statement: claim for claim in digits.claims(records)}
    assert claims["It beats parabolic and polynomial neurons."].verdict == verdict


# -- amplification, residual networks ----------------------------------------------------------------


def test_instability_measures_the_powers() -> None:
    theory = module("relinear_theory")
    cases = [case for case in theory.cases(True) if case["kind"] in {"range", "gradient"}]
    records = measured("relinear_theory", cases)
    assert [record.case["depth"] for record in records if record.case["kind"] == "gradient"] == [1, 2, 3]
    growth = {r.case["family"]: np.median(r.measured["growth"]) for r in records if r.case["kind"] == "range"}
    assert growth["conventional"] == pytest.approx(3**5, rel=0.05)
    assert growth["quadratic"] > 20 * growth["conventional"]


def test_sizes_of_residual_networks_are_counted_with_rezero_too() -> None:
    theory = module("relinear_theory")
    cases = [case for case in theory.cases(False) if case["kind"] == "resnet"]
    assert [case["depth"] for case in cases if case["rezero"]] == [20, 32, 56, 110]
    records = measured("relinear_theory", [case for case in cases if case["depth"] in {20, 32} and case["width"] == 16])
    sizes = {(r.case["family"], r.case["depth"], r.case["rezero"]): r.measured for r in records}
    assert sizes["fan", 20, True]["parameters"] == sizes["fan", 20, False]["parameters"] + 9
    assert sizes["fan", 20, True]["printed"] == "0.81M"

    def verdict(records: list[Record]) -> tuple[str, str]:
        return next((c.verdict, c.why) for c in theory.claims(records) if "numbers of parameters" in c.statement)

    assert verdict(records) == ("contradicted", "not parabolic 32, width 16; poly2 32, width 16")
    right = [record for record in records if record.case["depth"] == 20]
    assert verdict(right) == ("supported", "")
