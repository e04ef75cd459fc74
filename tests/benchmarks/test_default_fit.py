"""Stability of the default classifier: a small run, its tables, and records that turn the verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from qsdp.bench import Record, run_experiment

study = pytest.importorskip("benchmarks.experiments.accuracy.default_fit", reason="not in the installed package")


def test_a_quick_run_scores_both_models_on_the_same_halves(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("default_fit") / "found.json"
    results, failures = run_experiment(study.EXPERIMENT, path, quick=True, verbose=False)
    assert not failures
    assert [record.case["model"] for record in results.records] == ["default", "logistic"] * 2
    for record in results.records:
        assert 0.5 < record.measured["accuracy"] <= 1.0
        assert 0.5 < record.measured["area"] <= 1.0
    assert {claim.verdict for claim in study.claims(results.records)} == {"not measured"}
    assert study.EXPERIMENT.tables(results.records)


def test_halves_have_no_row_in_common_and_differ_by_seed() -> None:
    case = {"table": "generated", "rows": 300, "seed": 0}
    X, y, X_test, y_test = study.split_of(case)
    assert len(X) == len(y) == len(X_test) == len(y_test) == 300
    assert not set(X.index) & set(X_test.index)
    assert np.concatenate([y, y_test]).mean() == pytest.approx(0.14, abs=0.01)
    assert set(X.index) != set(study.split_of({**case, "seed": 1})[0].index)


def test_tables_of_numbers_have_the_shapes_of_their_names() -> None:
    for name, (n, d, n_classes) in study.SHAPES.items():
        X, y, X_test, _ = study.split_of({"table": name})
        assert X.shape == X_test.shape == (n, d)
        assert len(np.unique(y)) == n_classes
        assert name.startswith(f"{n} x {d}, {n_classes} ")


def made(deviation: float, mean: float) -> list[Record]:
    """Return records of all cases: logistic regression has 80 +- 1 %, the default another mean and deviation."""
    signs = np.tile([-1.0, 1.0], study.HALVES // 2) * np.sqrt((study.HALVES - 1) / study.HALVES)
    records = []
    for case in study.cases(False):
        middle, spread = (mean, deviation) if case["model"] == "default" else (80.0, 1.0)
        score = 0.01 * (middle + spread * signs[case["seed"]])
        records.append(Record(case, {"accuracy": score, "area": score, "seconds": 1.0}, 1.0))
    return records


@pytest.mark.parametrize(
    ("deviation", "mean", "verdicts"),
    [
        (1.79, 80.1, {"supported"}),
        (1.81, 80.1, {"contradicted", "supported"}),
        (1.79, 79.9, {"supported", "contradicted"}),
        (1.81, 79.9, {"contradicted"}),
    ],
)
def test_verdicts_turn_with_deviation_and_mean(deviation: float, mean: float, verdicts: set[str]) -> None:
    claims = study.claims(made(deviation, mean))
    assert {claim.verdict for claim in claims} == verdicts
    assert len({claim.statement for claim in claims}) == len(claims) == 8
    steady = {claim.verdict for claim in claims if "deviation" in claim.statement}
    assert steady == {"supported" if deviation < 1.8 else "contradicted"}


def test_a_missing_half_decides_nothing() -> None:
    some = [record for record in made(1.0, 81.0) if record.case["seed"] > 0]
    assert {claim.verdict for claim in study.claims(some)} == {"not measured"}
