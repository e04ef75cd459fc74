"""The experiments: the table as transcribed, their cases, and claims that records decide."""

from __future__ import annotations

import importlib
import json
from typing import Any

import numpy as np
import pytest

from benchmarks.papers.noel.experiments import mnist_quadratic_heads as heads
from benchmarks.runner import Record

TABLE, HEADS = heads.TABLE_4, heads.HEADS
NAMES = ("mnist_quadratic_heads", "nonlinear_cluster", "quadratic_costs", "xor")
SETTINGS = list(dict.fromkeys(key[:3] for key in TABLE))


def experiment(name: str) -> Any:
    return importlib.import_module(f"benchmarks.papers.noel.experiments.{name}").EXPERIMENT


def test_table_4_is_consistent() -> None:
    """Worst <= mean <= best, and deviations of 25 values fit their range; E13's cell is left out."""
    assert len(SETTINGS) == 60
    unusable = []
    for key, (mean, deviation, best, worst) in TABLE.items():
        if np.isnan(best):
            unusable.append(key)
            continue
        assert worst <= mean <= best
        assert (best - worst) / np.sqrt(50.0) <= deviation <= 0.55 * (best - worst)
    assert unusable == [(6000, 10, 20, "qnn")]


def test_table_4_has_the_structure_that_claims_speak_of() -> None:
    means = {setting: {head: TABLE[(*setting, head)][0] for head in HEADS} for setting in SETTINGS}
    assert all(mean["qnn"] == max(mean.values()) for mean in means.values())
    behind = {setting for setting, mean in means.items() if mean["rpqnn"] <= mean["linear"]}
    expected = {(1200, 20, h) for h in (15, 20, 25, 30)} | {(6000, 20, h) for h in (10, 15, 20, 25)}
    assert behind == expected
    gains = {setting: mean["qnn"] - mean["linear"] for setting, mean in means.items()}
    assert round(gains[600, 5, 10], 1) == 62.6
    assert round(gains[60000, 20, 30], 1) == 0.9


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quick", [True, False])
def test_cases_are_json_and_distinct(name: str, quick: bool) -> None:
    cases = experiment(name).cases(quick)
    texts = [json.dumps(case, sort_keys=True) for case in cases]
    assert len(set(texts)) == len(texts) > 0
    assert experiment(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_reports_of_no_records(name: str) -> None:
    experiment(name).tables([])
    assert {claim.verdict for claim in experiment(name).claims([])} == {"not measured"}


def test_mnist_has_all_settings() -> None:
    cases = [case for case in experiment("mnist_quadratic_heads").cases(False) if case["start"] == "fan-in"]
    covered = {(case["images"], epochs, case["hidden"], case["head"]) for case in cases for epochs in case["epochs"]}
    assert covered == set(TABLE)
    assert {(case["images"] == 60000, case["n_starts"]) for case in cases} == {(False, 25), (True, 5)}


def heads_records(means: dict[tuple[int, int, int, str], float]) -> list[Record]:
    """Return records whose accuracies have given means, in percent."""
    records = []
    for case in experiment("mnist_quadratic_heads").cases(False):
        shifts = [0.001 * (-1) ** start for start in range(case["n_starts"])]
        cells = {
            str(epochs): [
                (means[case["images"], epochs, case["hidden"], case["head"]] + shift) / 100.0 for shift in shifts
            ]
            for epochs in case["epochs"]
        }
        measured = {"argmax": cells, "code": cells, "seconds_per_epoch": 1.0, "n_parameters": 1}
        records.append(Record(case, measured, 1.0))
    return records


def test_verdicts_on_table_4_come_from_records() -> None:
    heads = experiment("mnist_quadratic_heads")
    printed = {key: value[0] for key, value in TABLE.items()}
    made = heads.claims(heads_records(printed))
    assert {claim.verdict for claim in made} == {"supported"}
    swapped = {key: printed[(*key[:3], {"linear": "qnn", "qnn": "linear"}.get(key[3], key[3]))] for key in printed}
    made = heads.claims(heads_records(swapped))
    assert [claim.verdict for claim in made if "highest mean" in claim.statement] == ["contradicted"]
    # One setting is enough.
    always = printed | {(*s, "rpqnn"): max(printed[(*s, "linear")], printed[(*s, "rpqnn")]) + 0.01 for s in SETTINGS}
    made = heads.claims(heads_records(always))
    assert [claim.verdict for claim in made if "RPQNN beats" in claim.statement] == ["contradicted"]


def test_costs_of_networks() -> None:
    costs = experiment("quadratic_costs")
    records = [Record(case, dict(costs.run(case | {"samples": 70})), 0.0) for case in costs.cases(True)]
    full = next(record.measured for record in records if record.case["head"] == "qnn")
    # Weights and biases of the hidden layer, and forms, weights and biases of the output layer.
    assert full["parameters"] == 30 * 785 + 10 * (30 * 31 // 2 + 31)
    assert all(record.measured["seconds_per_sample"] > 0.0 for record in records)
    assert len(costs.claims(records)) == 1
    printed = {"linear": 1.0, "qnn": 3.67, "rpqnn": 1.05}
    made = [Record(record.case, {"seconds_per_sample": printed[record.case["head"]]}, 0.0) for record in records]
    assert costs.claims(made)[0].verdict == "supported"


def test_xor_experiment() -> None:
    xor = experiment("xor")
    records = [Record(case, dict(xor.run(case)), 0.0) for case in xor.cases(True)]
    json.dumps([record.measured for record in records])
    verdicts = {claim.statement: claim.verdict for claim in xor.claims(records)}
    assert verdicts["A single quadratic neuron learns XOR."] == "supported"
    assert verdicts["Identity as the start of Q gives an ellipse (after 200 epochs)."] == "contradicted"
    assert len(xor.tables(records)) == 1
