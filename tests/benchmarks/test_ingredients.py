"""What each ingredient adds: a small run, and records that turn the verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import qsdp
from benchmarks.runner import Record, run_experiment
from benchmarks.uci.data import prepare

study = pytest.importorskip("benchmarks.experiments.accuracy.ingredients", reason="not in the installed package")


@pytest.fixture(scope="module")
def quick(uci_available: None, tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """Records of the quick cases: two variants and what they change on one split of heart."""
    path = tmp_path_factory.mktemp("ingredients") / "found.json"
    results, failures = run_experiment(study.EXPERIMENT, path, quick=True, verbose=False)
    assert not failures
    return results.records


def test_what_is_measured_is_what_users_call(quick: list[Record]) -> None:
    measured = {record.case["variant"]: record.measured for record in quick}
    assert set(measured) == {"standard", "bilinear", "refit"}
    split = prepare("heart", 0)
    for variant, options in (("standard", {}), ("refit", {"refine": "refit"})):
        model = qsdp.QuantizedNetworkClassifier(encoding="standard", random_state=0, **options).fit(split.X, split.y)
        assert measured[variant]["test"] == pytest.approx(model.score(split.X_test, split.y_test))
        assert measured[variant]["gap"] == pytest.approx(model.certificate_.relative_gap)
    # A constant column.
    assert measured["bilinear"]["inputs"] == measured["standard"]["inputs"] + 1 == 21
    assert {claim.verdict for claim in study.claims(quick)} == {"not measured"}
    changes = {one.case["change"]: one.measured for one in study.shown(quick)}
    assert list(changes) == ["standard", "bilinear", "refit"]
    difference = measured["refit"]["test"] - measured["standard"]["test"]
    assert changes["refit"]["points"] == pytest.approx(100.0 * difference)


@pytest.mark.filterwarnings("ignore:the certified gap")
@pytest.mark.parametrize("variant", study.VARIANTS)
def test_variants_are_fitted_and_differ_by_one_change(variant: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = (X[:, 0] + X[:, 1] ** 2 > 1.0).astype(int)
    model = study.model_of(variant, 0)
    base = qsdp.QuantizedNetworkClassifier(encoding="standard", random_state=0).get_params()
    assert sum(value != base[name] for name, value in model.get_params(deep=False).items()) == 1
    assert clone(model).fit(X, y).score(X, y) > 0.6


def test_without_a_scale_of_rows_inputs_are_the_same_but_for_a_factor() -> None:
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (80, 8))
    base = qsdp.QuantizedNetworkClassifier(beta="20%", encoding="standard", random_state=0).fit(X, np.tile([0, 1], 40))
    network = study.model_of("no scale of rows", 0)
    ratio = network.encoding.fit_transform(X) / base.encoder_.transform(X)
    np.testing.assert_allclose(ratio, ratio[0, 0])
    assert ratio[0, 0] == 2.0


# -- verdicts --------------------------------------------------------------------------------------------


def made(shift: float = 0.0, change: str = "") -> list[Record]:
    """Return records of all cases: variants are worse, or better where expected so, but for one of them."""
    records = []
    for case in study.cases(False):
        noise = 0.001 * (study.CHOSEN.index(case["set"]) % 3)
        test = 0.8
        if case["variant"] != study.BASE:
            expected = case["variant"] in study.BETTER
            test += shift + noise if case["variant"] == change else 0.02 + noise if expected else -0.02 - noise
        measured = {"test": test + 0.003 * case["seed"], "bits": 100, "inputs": 5, "gap": 0.1, "seconds": 1.0}
        records.append(Record(case, measured, 1.0))
    return records


def verdicts(records: list[Record]) -> dict[str, str]:
    return {claim.statement: claim.verdict for claim in study.claims(records)}


HOLDS = {claim: "supported" for claim, _ in study.VARIANTS.values()}


def test_claims_are_distinct_and_hold_of_good_records() -> None:
    assert len(HOLDS) == len(study.VARIANTS)
    assert verdicts(made()) == HOLDS


@pytest.mark.parametrize(("variant", "shift"), [("bilinear", 0.05), ("hinge", -0.05)])
def test_one_change_turns_its_claim_only(variant: str, shift: float) -> None:
    claim, _ = study.VARIANTS[variant]
    assert verdicts(made(shift, variant)) == HOLDS | {claim: "contradicted"}
    # As often above as below: the noise is symmetric around it.
    assert verdicts(made(-0.001, variant)) == HOLDS | {claim: "inconclusive"}


def test_the_table_says_what_does_not_help() -> None:
    (table,) = study.EXPERIMENT.tables(made(-0.05, "hinge"))
    assert len(table.rows) == 1 + len(study.VARIANTS)
    points = {row[0]: float(row[1].partition(" ")[0]) for row in table.rows}
    assert points["hinge"] == pytest.approx(-4.9, abs=0.11)
    assert points["squared_hinge"] > 0.0


def test_few_sets_say_nothing() -> None:
    few = [record for record in made() if record.case["set"] in study.CHOSEN[:9]]
    assert set(verdicts(few).values()) == {"not measured"}
