"""The experiments on Fan's networks: one small case of each, and claims that records decide."""

from __future__ import annotations

import importlib
import json
from typing import Any

import numpy as np
import pytest
import torch

from qsdp.bench import Record

pytest.importorskip("benchmarks.experiments", reason="not in the installed package")
NAMES = ("relinear_digits", "relinear_theory", "runge")


def module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.experiments.quadratic.{name}")


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
    cases = [case | {"steps": 40} for case in runge.cases(True)]
    records = measured("runge", cases)
    by_mode = {record.case["mode"]: record.measured for record in records}
    assert all(len(found["rmse"]) == 2 and len(found["curve"]) == 10 for found in by_mode.values())
    assert by_mode["sg"]["rmse"] != by_mode["sw-l2"]["rmse"]
    assert by_mode["sg"]["n_parameters"] == 723


def test_modes_of_runge_start_from_the_same_conventional_weights() -> None:
    runge, x = module("runge"), torch.linspace(-5.0, 5.0, 11, dtype=torch.float64)[:, None]
    names = ("conventional", "sg", "regular, 0.1")
    conventional, relinear, regular = (runge._network(runge.MODES[name], 3) for name in names)
    assert torch.equal(conventional(x), relinear(x))
    assert torch.equal(relinear.layers[2].wr, regular.layers[2].wr)
    assert not torch.any(regular.layers[2].wg == 0.0)


def runge_records(errors: dict[tuple[str, str], list[float]]) -> list[Record]:
    runge = module("runge")
    kept = {"edge_error": [0.0], "coefficients": [None], "pieces": [None]}
    return [
        Record(case, {"rmse": errors[case["optimizer"], case["mode"]], **kept}, 0.0)
        for case in runge.cases(False)
        if (case["optimizer"], case["mode"]) in errors and case["function"] == "1/(1+16x²)"
    ]


def test_verdicts_on_runge_come_from_records() -> None:
    runge = module("runge")
    finite = {key: list(values) for key, values in runge.INDEPENDENT.items() if np.isfinite(values).all()}
    claims = {claim.source: claim for claim in runge.claims(runge_records(finite))}
    assert claims["specification, section 6.4"].verdict == "supported"
    far = {key: [100.0 * value for value in values] for key, values in finite.items()}
    claims = {claim.source: claim for claim in runge.claims(runge_records(far))}
    assert claims["specification, section 6.4"].verdict == "contradicted"
    ten = {key: [values[0] * (1.0 + 0.01 * seed) for seed in range(10)] for key, values in finite.items()}
    order = [claim for claim in runge.claims(runge_records(ten)) if "below those of sw-l2" in claim.statement]
    assert [claim.verdict for claim in order] == ["contradicted"], "plain descent has the printed order, Adam has not"


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
    assert all(0.0 <= found["test_error"] < 0.9 and found["diverged"] is None for found in trained)


def digits_records(drops: dict[tuple[str, float | None], float], diverged: set[float]) -> list[Record]:
    base = {"test_error": 0.1, "quadratic_norm": 1.0}
    return [
        Record(
            {"setting": name, "value": value, "epochs": 60, "seed": seed},
            {
                **base,
                "validation_error": 0.9 if name == "square_act" and value in diverged else 0.05,
                "diverged": 3 if name == "square_act" and value in diverged else None,
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
    growth = {name: np.median(theory.growth(records, name)) for name in ("conventional", "quadratic")}
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
